"""`connect connectors rename` and `copy`: the same connector under another name, at the same offsets."""

from __future__ import annotations

from typing import Annotated

import typer

from kconnect.admin.cluster.port import PreparedChange
from kconnect_cli.admin.connector_admin import WriteOptions, connector_admin, make_changes
from kconnect_cli.admin.connector_move import ConnectorCopy
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.direct import DryRun, Force, refuse_without_direct
from kconnect_cli.session import CliSession, Yes, session_of

_Old = Annotated[str, typer.Argument(metavar="OLD", help="The connector that is there.", show_default=False)]
_New = Annotated[str, typer.Argument(metavar="NEW", help="The new name.", show_default=False)]


def rename(
    ctx: typer.Context, old: _Old, new: _New, dry_run: DryRun = False, yes: Yes = False, force: Force = False
) -> None:
    """Give a connector another name: it continues at its offsets, in the state it was in.

    Stops it, creates one of the new name with the same config, sets and verifies the offsets (a sink's consumer group,
    a source's records in the offsets topic), and deletes the old one. If a step fails, the old one runs on and there is
    no new one. The offsets of the old name stay, as with any deletion.

    With --direct no task of it may run: the offsets are written first, then both configs at once.
    """
    _copy(session_of(ctx), old, new, WriteOptions(dry_run, yes, force), moves=True)


def copy(
    ctx: typer.Context,
    old: _Old,
    new: _New,
    start: Annotated[bool, typer.Option("--start", help="Run it at once; else it is STOPPED.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> None:
    """Create a connector with the config of another, at the offsets which that one has committed.

    The old one is not touched. The new one is STOPPED: change its config first, then resume it.
    """
    _copy(session_of(ctx), old, new, WriteOptions(dry_run, yes, force), moves=False, starts=start)


def _copy(session: CliSession, old: str, new: str, options: WriteOptions, *, moves: bool, starts: bool = False) -> None:
    if old == new:
        raise UsageProblem(f"OLD and NEW are both {old}")
    refuse_without_direct(session, dry_run=options.dry_run, force=options.force)
    direct, admin = session.direct, connector_admin(session)

    def prepared(name: str) -> PreparedChange:
        if direct is None:
            return ConnectorCopy(session, admin, name, new, moves, starts)
        from kconnect_cli.admin.topic_moves import TopicCopy

        return TopicCopy.of(direct, name, new, moves=moves, starts=starts, force=options.force)

    make_changes(session, f"To {new}, {'rename' if moves else 'copy'}", [old], options, prepared)
