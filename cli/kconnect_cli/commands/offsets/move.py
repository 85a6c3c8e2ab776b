"""`connect offsets move|undo|history`: a running connector moved in one go, and changes taken back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.admin.connector_admin import PreparedChange, WriteOptions, make_changes
from kconnect_cli.admin.offset_changes import offset_changes
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import cluster_of
from kconnect_cli.options.sink_targets import target_of
from kconnect_cli.screen.output import Column, Format, Row, json_cell, write_object, write_rows
from kconnect_cli.session import Name, Yes, session_of

if TYPE_CHECKING:
    from kconnect.model import ConnectorOffset

_FILE_HELP = "The new offsets, JSON as `show -o json` prints it; - reads stdin."
_File = Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP, show_default=False)]
_Force = Annotated[bool, typer.Option("--force", help="Restore them even if they have changed since.")]

_CHANGES = (
    Column("TIME", lambda row: row["time"]),
    Column("ACTION", lambda row: row["action"]),
    Column("PARTITION", lambda row: row["partition"]),
    Column("OLD", lambda row: row["old"]),
    Column("NEW", lambda row: row["new"]),
)


def move(
    ctx: typer.Context,
    name: Name,
    file: _File = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a running connector: stop it, change its offsets, verify them, and resume it.

    \b
    connect offsets move orders-out --to-time 2h --worker distributed.properties
    connect offsets move orders-in -f saved.json

    If a step fails, the offsets are restored. At the end the connector is RUNNING, PAUSED or STOPPED, as it was before.
    """  # noqa: D301  # as above
    session = session_of(ctx)
    target = target_of(session)
    if (target is None) == (file is None):
        raise UsageProblem(
            "Missing the new offsets" if file is None else "--file cannot be combined with a target",
            hint="Give --file FILE, or one of --to-time, --to-earliest, --to-latest, --shift-by.",
        )
    changes = offset_changes(session)
    if file is not None:
        from kconnect_cli.files.offset_files import read_offsets

        given = read_offsets(file).chosen([name])[name]

    def wanted() -> Sequence[ConnectorOffset]:
        if target is None:
            return given
        return changes.offsets_at(cluster_of(session).access(), name, *target)

    def prepare(name: str) -> PreparedChange:
        from kconnect_cli.admin.offset_move import MoveChange

        return MoveChange(session.client, changes, name, wanted, session.say)

    make_changes(session, "Move", [name], WriteOptions(dry_run, yes), prepare)


def undo(ctx: typer.Context, name: Name, dry_run: DryRun = False, yes: Yes = False, force: _Force = False) -> None:
    """Take back the last change of a stopped connector's offsets that was made from this machine.

    Refused if they are no longer as that change left them. A second undo restores what the first one took back.
    """
    session = session_of(ctx)
    changes = offset_changes(session, force=force)
    make_changes(
        session,
        "Restore offsets of",
        [name],
        WriteOptions(dry_run, yes, force),
        lambda name: changes.undo(name, force=force),
    )


def history(ctx: typer.Context, name: Name) -> None:
    """Show how a connector's offsets were changed from this machine, the oldest change first."""
    session = session_of(ctx)
    entries = offset_changes(session).history.entries(name)
    if session.output in (Format.JSON, Format.YAML):
        write_object([entry.to_json() for entry in entries], session.output)
        return
    rows: list[Row] = [
        {
            "time": f"{datetime.fromtimestamp(entry.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}",
            "action": entry.action,
            "partition": json_cell(moved.partition),
            "old": json_cell(moved.old),
            "new": json_cell(moved.new),
        }
        for entry in entries
        for moved in entry.moved
    ]
    write_rows(rows, _CHANGES, session.output, name="time")
    if not entries:
        session.say(f"No change of {name}'s offsets is known on this machine.")
