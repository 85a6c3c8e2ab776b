"""The `connect` command: global options, commands loaded when they are called, main() = the one error boundary.

Start-up is budgeted: `--help` and admin commands answer in 0.3 s, so modules of commands are imported on use.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException
from typer.main import get_command

from kconnect_cli.exits import INTERRUPTED, READER_GONE, is_of_output
from kconnect_cli.options.command_group import HELP_OPTIONS, CommandGroup, use_plain_values
from kconnect_cli.processes.signals import interrupts_raise
from kconnect_cli.session import (
    CaFile,
    CertFile,
    CliSession,
    Context,
    KeyFile,
    Output,
    Retry,
    Url,
    User,
    Verbose,
    Wait,
    session_of,
)


class _Entry(NamedTuple):
    """A command: its name, its one line of help, other names it answers to. Its module is commands/NAME.py."""

    name: str
    help: str
    aliases: tuple[str, ...] = ()
    module: str | None = None
    """The module and its function, where the command's name is a word of Python."""


# Every command. A module gives either `app`, a Typer group, or one function of the command's name.
_COMMANDS = (
    _Entry("quickstart", "Broker, worker, a file source and a file sink: see records move, then clean up."),
    _Entry("standalone", "Run connectors in one process: worker, REST server, tasks in Spark."),
    _Entry("distributed", "Run a worker of a cluster, which shares connectors with its other workers."),
    _Entry("mirror", "Mirror topics and groups between clusters: MirrorMaker 2 from its mm2.properties."),
    _Entry("check", "Try everything that a worker needs for its start, and tell what will fail."),
    _Entry(
        "connectors",
        "Create, apply, list, show, pause, resume, stop, restart, delete; their status and topics.",
        ("connector",),
    ),
    _Entry("tasks", "List, show, restart tasks of connectors.", ("task",)),
    _Entry("config", "Get, set, unset, edit settings of connectors; their history, diff, rollback."),
    _Entry("offsets", "Show, alter, reset, export, import offsets of connectors.", ("offset",)),
    _Entry("records", "Show records of a topic, decoded: the last ones, from a time on, or as they come.", ("record",)),
    _Entry("dlq", "List, show, replay, export dead letters of connectors.", ("dead-letters",)),
    _Entry("cluster", "Show members, leader and last rebalances of a cluster, as the broker knows them."),
    _Entry("topics", "Inspect and repair the internal topics, with no worker running.", ("topic",)),
    _Entry("describe", "Describe one connector: state, root causes, tasks, config, topics, offsets, last changes."),
    _Entry("status", "Show the health of a cluster on one screen, with an exit code for scripts."),
    _Entry("top", "Watch connectors, tasks, slots and workers live, full screen."),
    _Entry("ui", "Serve the web console here, for any cluster; each of our workers serves it at /ui."),
    _Entry("slots", "Show where tasks run: Spark job, executor, process, CPU, memory."),
    _Entry("logs", "Show the last lines of the logs of all workers and their slots; --follow waits for more."),
    _Entry("loggers", "List, get, set levels of a worker's loggers.", ("logger",)),
    _Entry(
        "contexts", "Add, use, list, show, remove named clusters: URLs of workers, user, certificates.", ("context",)
    ),
    _Entry("completion", "Print the script that completes commands and live names in bash, zsh or fish."),
    _Entry("try", "Run one connector here, with no broker and no Spark: records stage by stage.", module="try_"),
    _Entry("broker", "Start, stop a Kafka broker for development; status tells whether it runs."),
    _Entry("registry", "Start, stop a schema registry for development; status tells whether it runs."),
    _Entry("plugins", "List, show, validate plugins of a worker; new creates a project for your own.", ("plugin",)),
)
# What completion scripts and other commands call: known, and shown nowhere.
_HIDDEN = (
    _Entry("complete", "Candidates for the last word of a command line."),
    _Entry("mirror-flow", "The worker of one flow of `connect mirror`.", module="mirror_flow"),
)
_BY_NAME = {name: entry for entry in (*_COMMANDS, *_HIDDEN) for name in (entry.name, *entry.aliases)}


class _LazyGroup(CommandGroup):
    """A group that knows its commands by name and help, and imports one when it is called."""

    def __init__(self, **settings: Any) -> None:  # whatever Typer passes to a group
        super().__init__(**settings)
        for entry in _COMMANDS:
            self.commands[entry.name] = TyperCommand(entry.name, help=entry.help)

    @property
    def aliases(self) -> dict[str, str]:
        """Other names of commands."""
        return {alias: entry.name for entry in _COMMANDS for alias in entry.aliases}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # typer's own click types are private
        entry = _BY_NAME.get(cmd_name)
        return None if entry is None else _load(entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # as above
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in _COMMANDS])


def _load(entry: _Entry) -> Any:
    name = entry.module or entry.name
    module = import_module(f"kconnect_cli.commands.{name}")
    commands = getattr(module, "app", None)
    if commands is None:
        commands = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        commands.command(entry.name)(getattr(module, name))
    command = get_command(commands)
    command.name = entry.name
    use_plain_values(command)
    return command


# As wide as the terminal, up to where lines are still read with ease
_HELP_COLUMNS = 120
# Rich's help would cost another 60 ms
app = typer.Typer(
    cls=_LazyGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,  # `connect completion` knows live names as well
    context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": _HELP_COLUMNS},
)


# \b keeps the lines of a paragraph as they are
_EPILOG = """\b
Options may also follow the verb. They take precedence over the environment, the
environment over a context, and a context over the defaults; a context that
--context names takes precedence over the environment.

\b
Passwords come from KCONNECT_PASSWORD (of a key: KCONNECT_KEY_PASSWORD), a file
named by KCONNECT_PASSWORD_FILE (KCONNECT_KEY_PASSWORD_FILE), or a context; else
you are asked. No option takes one: other users could read it."""


@app.callback(invoke_without_command=True, epilog=_EPILOG)
def _root(
    ctx: typer.Context,
    url: Url = None,
    context: Context = None,
    user: User = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
    retry: Retry = None,
    wait: Wait = None,
    output: Output = None,
    verbose: Verbose = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Kafka Connect for Python teams, with Spark beneath: run workers, manage connectors."""
    session_of(ctx).choose(
        url,
        output,
        verbose,
        context=context,
        retry=retry,
        wait=wait,
        user=user,
        ca_file=ca_file,
        cert_file=cert_file,
        key_file=key_file,
    )
    if version:
        from importlib.metadata import version as version_of

        from kconnect.model import CONNECT_VERSION
        from kconnect_cli.screen.output import write_text

        write_text(f"kconnect {version_of('kconnect')} (Kafka Connect {CONNECT_VERSION})\n")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        from kconnect_cli.screen.output import write_text

        write_text(ctx.get_help() + "\n")


def main() -> None:
    """Entry point of `connect`: runs, and leaves with an exit code."""
    from kconnect_cli.screen.output import make_streams_usable

    make_streams_usable()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], prog_name: str = "connect") -> int:
    """Run one command line; gives its exit code. Every error ends here as a sentence and a hint."""
    session = CliSession()
    # Also read here, so that an error of parsing shows its trace
    session.verbose = "--verbose" in arguments
    try:
        root = get_command(app)
        use_plain_values(root)
        with interrupts_raise():
            code = root.main(list(arguments), prog_name, standalone_mode=False, obj=session)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        session.say("Nothing was changed.")
        return INTERRUPTED
    except TyperException as err:
        return _usage(session, err)
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as err:
        # Typer leaves with 1 when a write to stdout failed; commands leave with a code of their own
        if isinstance(err.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except Exception as err:
        if is_of_output(err):
            _let_go_of_stdout()
        return session.complain(err)
    finally:
        session.close()


def _usage(session: CliSession, err: TyperException) -> int:
    """An error of the command line itself. A group without a verb shows its help."""
    message = err.format_message()
    if message.startswith("Usage:"):
        session.say(message)
        return err.exit_code
    typer.secho(message, fg="red", err=True)
    ctx: typer.Context | None = getattr(err, "ctx", None)
    hint = None if ctx is None else _meant(ctx, message, getattr(err, "option_name", None))
    if hint is None:
        shows = "lists the commands" if ctx and hasattr(ctx.command, "commands") else "shows its options"
        hint = f"{ctx.command_path if ctx else 'connect'} --help {shows}."
    session.say(f"Hint: {hint}")
    return err.exit_code


def _meant(ctx: typer.Context, message: str, option: str | None) -> str | None:
    from kconnect_cli.options.suggest import hint_of_extra, hint_of_option

    if "unexpected extra argument" in message:
        return hint_of_extra(ctx.command_path, ctx.params)
    commands: Mapping[str, Any] = getattr(ctx.command, "commands", {})
    if option is None or not commands:
        return None
    takers = [name for name, made in commands.items() if any(option in each.opts for each in made.params)]
    return hint_of_option(ctx.command_path, option, takers)


def _reader_gone() -> int:
    _let_go_of_stdout()
    return READER_GONE


def _let_go_of_stdout() -> None:
    """What waits to be written would fail again, with a trace, when Python flushes at its end."""
    sys.stdout = sys.__stdout__ or sys.stdout  # Typer puts a wrapper there
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
