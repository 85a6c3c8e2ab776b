"""`connect connectors apply`: make connectors match files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from kconnect.errors import ConnectError, TimedOutError, UnreachableError
from kconnect_cli.admin.failed_starts import cause_of_failed_start
from kconnect_cli.admin.rest_admin import RestAdmin
from kconnect_cli.exits import FAILED, UsageProblem
from kconnect_cli.options.selection import checked_prefixes
from kconnect_cli.screen.output import Format, write_object
from kconnect_cli.session import CliSession, Yes, session_of
from kconnect_cli.settings.change_display import change_to_json, say_changes
from kconnect_cli.settings.changes import Change, plan_changes
from kconnect_cli.settings.secrets_shown import Masker
from kconnect_cli.settings.spelling import Strict, check_settings

_FILES_HELP = ".properties, .json or .toml, a folder of these, or - for stdin; may be repeated."


def apply(
    ctx: typer.Context,
    paths: Annotated[list[str] | None, typer.Argument(metavar="FILE|DIR", help=_FILES_HELP, show_default=False)] = None,
    more: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="FILE|DIR", help="The same as FILE.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, without changing it.")] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Delete connectors that are in no file, of those whose names begin with --prefix."
        ),
    ] = False,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix",
            metavar="PREFIX",
            help="With --prune: what the names of your connectors begin with; may be repeated.",
            show_default=False,
        ),
    ] = None,
    strict: Strict = False,
    yes: Yes = False,
) -> None:
    """Create and update connectors so that they match the files; those that already match are left unchanged.

    Exit code: 0 when everything matches the files. With --dry-run 1 when something would change. Accepts the output of
    `connectors show -o json`; a masked secret keeps its current value. --prune deletes connectors that are in no file,
    but only those whose name begins with --prefix, as clusters are shared.
    """
    session = session_of(ctx)
    from kconnect_cli.files.connector_files import read_connector_files

    mine = _pruned(prune, prefix)
    chosen = [*(paths or []), *(more or [])]
    if not chosen:
        raise UsageProblem("No file given", hint="connect connectors apply -f FILE, or a folder, or - for stdin.")
    files = [file for path in chosen for file in read_connector_files(path)]
    live = {name: info.config for name, info in session.client.connector_infos().items()}
    changes = plan_changes(files, live, prune=mine)
    written = {change.name: change.new for change in changes if change.new and change.action in ("create", "update")}
    check_settings(session, written, strict=strict)
    if dry_run:
        say_changes(session, changes)
        if any(change.action != "unchanged" for change in changes):
            raise typer.Exit(FAILED)
        return
    if doomed := [change.name for change in changes if change.action == "delete"]:
        session.confirm(f"Delete {', '.join(doomed)} at {session.url}, which are in no file?", yes=yes)
    _carry_out(session, changes)


def _pruned(prune: bool, prefixes: Sequence[str] | None) -> tuple[str, ...]:
    """The prefix of connectors that may be deleted. Errors: UsageProblem: without one, others' would be deleted too."""
    if prune and not prefixes:
        raise UsageProblem(
            "--prune without --prefix would also delete connectors that others made",
            hint="--prefix PREFIX says which are yours: those whose name begins with it.",
        )
    if prefixes and not prune:
        raise UsageProblem("--prefix is only valid with --prune", hint="Add --prune, or leave out --prefix.")
    return checked_prefixes(prefixes)


def _carry_out(session: CliSession, changes: Sequence[Change]) -> None:
    """Every change, though some are refused; the exit code is that of the first refusal."""
    failures: list[int] = []
    done: list[Change] = []
    for change in changes:
        try:
            _one(session, change)
            done.append(change)
        except (UnreachableError, TimedOutError):
            raise
        except ConnectError as err:
            session.say(f"{change.name} could not be {_DONE[change.action]}:")
            failures.append(session.complain(err))
    if session.output in (Format.JSON, Format.YAML):
        mask = Masker(session).masked
        write_object([change_to_json(change, mask) for change in done], session.output)
    if failures:
        raise typer.Exit(failures[0])


_DONE = {"create": "created", "update": "updated", "delete": "deleted", "unchanged": "looked at"}


def _one(session: CliSession, change: Change) -> None:
    client = session.client
    if change.old is None and change.new is not None:
        state = change.file.initial_state if change.file else None
        for line in RestAdmin(lambda: client).create(change.name, change.new, state).make():
            session.say(line)
    elif change.new is None:
        client.delete_connector(change.name)
        session.say(f"deleted {change.name}")
    elif change.action == "update":
        with cause_of_failed_start(client, change.name):
            client.put_connector_config(change.name, change.new)
        session.say(f"updated {change.name}: {', '.join(change.keys)}")
    else:
        session.say(f"unchanged {change.name}")
