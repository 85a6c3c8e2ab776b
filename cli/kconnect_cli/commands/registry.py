"""`connect registry`: start, stop, look at a real schema registry for development."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import ConnectError, EnvironmentProblemError
from kconnect_cli.options.command_group import command_group
from kconnect_cli.processes.broker_progress import FetchTalk
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Column, Format, write_object, write_rows
from kconnect_cli.session import CliSession, Output, Verbose, session_of

if TYPE_CHECKING:
    from kconnect.devbroker.dev_registry import DevRegistry, RegistryStatus

NOT_RUNNING = 3
# A JVM that ends on SIGTERM: `connect registry stop` from elsewhere
_STOPPED_BY_SIGTERM = 143

app = command_group(
    "Start, stop a real schema registry for development; status tells whether it runs. It serves Confluent's API."
)

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data folder. [default: in the user's data folder]", show_default=False),
]

_COLUMNS = (
    Column("STATE", lambda row: row["state"]),
    Column("URL", lambda row: row["url"] or "-"),
    Column("PID", lambda row: str(row["pid"] or "-")),
    Column("DATA", lambda row: row["data_dir"]),
)


@app.command()
def start(
    ctx: typer.Context,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port on 127.0.0.1.")] = 8081,
    data: Data = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when it is ready, and leave it running.")] = False,
    verbose: Verbose = False,
) -> None:
    """Start a schema registry and run until Ctrl-C, or with --detach until `connect registry stop`."""
    from kconnect.devbroker.dev_registry import DevRegistry

    session = _session(ctx, verbose=verbose)
    registry = DevRegistry(port, data, progress=FetchTalk(session, "the schema registry"))
    with signals_raise():
        registry.start()
        session.say(f"The schema registry is ready: schema.registry.url={registry.url}")
        if detach:
            registry.detach()
            session.say(f"It keeps running; stop it with: connect registry stop{f' --data {data}' if data else ''}")
            return
        session.say("Ctrl-C stops it.")
        _run(session, registry)


@app.command()
def stop(ctx: typer.Context, data: Data = None, verbose: Verbose = False) -> None:
    """Stop the schema registry that runs on the data folder."""
    from kconnect.devbroker.dev_registry import DevRegistry

    session = _session(ctx, verbose=verbose)
    registry = DevRegistry(data_dir=data)
    if registry.stop():
        session.say("The schema registry is stopped; its schemas stay.")
    else:
        session.say(f"No schema registry runs on the data folder {registry.folder.path}.")


@app.command()
def status(ctx: typer.Context, data: Data = None, output: Output = None, verbose: Verbose = False) -> None:
    """Show the schema registry of the data folder. Exit code 0 when it runs, 3 when it does not."""
    from kconnect.devbroker.dev_registry import DevRegistry

    session = _session(ctx, output=output, verbose=verbose)
    found = DevRegistry(data_dir=data).status()
    _show(session, found)
    if found.state != "RUNNING":
        raise typer.Exit(NOT_RUNNING)


def _session(ctx: typer.Context, *, output: Format | None = None, verbose: bool) -> CliSession:
    session = session_of(ctx)
    session.choose(None, output, verbose)
    return session


def _run(session: CliSession, registry: DevRegistry) -> None:
    """Until a signal or the registry's own end. The registry stops with us, whatever ends us."""
    try:
        while (code := registry.wait(1.0)) is None:
            pass
    finally:
        registry.stop()
    if code not in (0, _STOPPED_BY_SIGTERM):
        tail = "\n".join(f"  {line}" for line in registry.folder.log_tail())
        raise EnvironmentProblemError(
            f"The schema registry exited unexpectedly (exit code {code}); its last lines of output:\n{tail}",
            hint=f"The whole log is in {registry.folder.log}.",
        )
    session.say("The schema registry was stopped by another command.")


def _show(session: CliSession, found: RegistryStatus) -> None:
    row = {"state": found.state, "url": found.url, "pid": found.pid, "data_dir": str(found.data_dir)}
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
        return
    if session.output is Format.NAME and found.url is None:
        raise ConnectError(f"No schema registry runs on the data folder {found.data_dir}.")
    write_rows([row], _COLUMNS, session.output, name="url")
