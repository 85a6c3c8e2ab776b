"""`connect offsets`: show, alter, reset, over REST or with --direct; export and import are in move.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import BadRequestError, ConnectError
from kconnect.wording import counted
from kconnect_cli.admin.direct import (
    Force,
    each_or_nothing,
    refuse_without_direct,
    tell_dry_run,
    tell_plans,
    tell_warnings,
    tell_written,
    with_direct,
)
from kconnect_cli.commands.offsets import move
from kconnect_cli.options.cluster import ClusterOptions
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.selection import Selection, with_selection
from kconnect_cli.screen.output import Column, Format, Row, json_cell, plain_table, write_object, write_rows
from kconnect_cli.session import CliSession, Yes

if TYPE_CHECKING:
    from kconnect.direct.access import ClusterAccess
    from kconnect.direct.client import DirectClient
    from kconnect.model import ConnectorOffset

app = command_group("Show, alter, reset offsets of connectors; move them between files and topics.")

_FORCE_HELP = "Also offsets at which nothing can be read; with --direct also while live workers have the connector."
_Force = Annotated[bool, typer.Option("--force", help=_FORCE_HELP)]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, change nothing.")]

_PARTITION = (
    Column("PARTITION", lambda row: row["partition"]),
    Column("OFFSET", lambda row: row["offset"]),
)
_NAME = Column("NAME", lambda row: row["name"])


@app.command()
@with_direct
@with_selection
def show(session: CliSession, names: list[str], selection: Selection) -> None:
    """Show the committed offsets of connectors. `-o json` is what `alter` takes, for one name and for several."""
    from kconnect_cli.files.offset_files import offsets_document

    found = {name: session.on_connector(name, session.reader.connector_offsets) for name in dict.fromkeys(names)}
    one = len(found) == 1 and not selection.needs_looking
    if session.output in (Format.JSON, Format.YAML):
        write_object(offsets_document(found, one=one), session.output)
        return
    rows: list[Row] = [
        {"name": name, "partition": json_cell(o.partition), "offset": json_cell(o.offset)}
        for name, offsets in found.items()
        for o in offsets
    ]
    if one:
        write_rows(rows, _PARTITION, session.output, name="partition")
    elif session.output is Format.NAME:
        write_rows([{"name": name} for name in found], (_NAME,), session.output)
    else:
        write_rows(rows, (_NAME, *_PARTITION), session.output)
    for name, offsets in found.items():
        if not offsets:
            session.say(f"{name} has no committed offsets.")


@app.command()
@with_direct
def alter(
    session: CliSession,
    cluster: ClusterOptions,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="JSON as `show -o json` prints it; - reads stdin.")
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Connector names; by default all that FILE names.", show_default=False),
    ] = None,
    dry_run: _DryRun = False,
    yes: Yes = False,
    force: _Force = False,
) -> None:
    """Set offsets of stopped connectors; a null offset resets that partition. Others stay as they are.

    Offsets of a sink at which nothing can be read are refused: beyond the end, before the first record, of partitions
    that do not exist. The tasks would start over there. --force writes them all the same. Without --direct that takes a
    worker's file or --bootstrap-servers, too; where none is given, the worker warns when it has written them.
    With --direct, --force also writes partitions that a source has no offset of.
    """
    from kconnect_cli.files.offset_files import read_offsets

    new = read_offsets(file).chosen(names or [])
    if session.direct is not None:
        _change_directly(session, session.direct, dict(new), "Alter", dry_run=dry_run, yes=yes, force=force)
        return
    old = {name: session.on_connector(name, session.client.connector_offsets) for name in new}
    if cluster.is_given and not force:
        for name in new:
            _refuse_unreadable(session, cluster.access(), name, new[name])
    if not _is_agreed(session, "Alter these offsets of", old, new, dry_run=dry_run, yes=yes):
        return
    session.each(
        list(new), lambda name: session.say(f"{name}: {session.client.alter_connector_offsets(name, new[name])}")
    )


@app.command()
@with_direct
@with_selection
def reset(
    session: CliSession, names: list[str], dry_run: _DryRun = False, yes: Yes = False, force: Force = False
) -> None:
    """Forget all offsets of stopped connectors: they start from the beginning."""
    from kconnect.model import ConnectorOffset

    if session.direct is not None:
        all_ = dict.fromkeys(names)
        _change_directly(session, session.direct, all_, "Reset", dry_run=dry_run, yes=yes, force=force)
        return
    refuse_without_direct(dry_run=False, force=force)
    old = {name: session.on_connector(name, session.client.connector_offsets) for name in dict.fromkeys(names)}
    none = {name: [ConnectorOffset(offset.partition, None) for offset in offsets] for name, offsets in old.items()}
    if not _is_agreed(session, "Reset all offsets of", old, none, dry_run=dry_run, yes=yes):
        return
    session.each(list(old), lambda name: session.say(f"{name}: {session.client.reset_connector_offsets(name)}"))


for _name, _command in move.COMMANDS.items():
    app.command(_name)(_command)


def _refuse_unreadable(
    session: CliSession, access: ClusterAccess, name: str, wanted: Sequence[ConnectorOffset]
) -> None:
    """Errors: BadRequestError for a sink's offsets at which nothing can be read; says so when nobody can tell."""
    from kconnect.direct.offsets.sink_check import check_readable
    from kconnect.model import ConnectorType

    info = session.client.connector(name)
    if info.type is not ConnectorType.SINK:
        return
    cluster_id = session.client.server_info().get("kafka_cluster_id")
    try:
        not_looked_at = check_readable(access, info, wanted, cluster_id)
    except BadRequestError:
        raise
    except ConnectError as err:  # the worker warns in its answer
        not_looked_at = str(err)
    if not_looked_at:
        session.say(f"Not checked whether these offsets of {name} can be read: {not_looked_at}.")


def _change_directly(
    session: CliSession,
    client: DirectClient,
    wanted: Mapping[str, Sequence[ConnectorOffset] | None],
    verb: str,
    *,
    dry_run: bool,
    yes: bool,
    force: bool,
) -> None:
    """All connectors are looked at, and shown, before the first one is written. None: all offsets are forgotten.

    A dry run shows also what may not be done, and says so.
    """
    from kconnect.direct.edit.apply import Checked
    from kconnect.direct.offsets.changes import OffsetChange, plan_offsets

    changes: dict[str, OffsetChange] = {}
    checked: list[Checked] = []

    def prepare(name: str) -> None:
        changes[name] = plan_offsets(client, name, wanted[name], force=force)
        if not dry_run:
            checked.append(changes[name].check(client, force=force))

    each_or_nothing(session, list(wanted), prepare)
    tell_warnings(session, checked)
    for name, change in changes.items():
        tell_plans(session, change.plans)
        if change.is_empty:
            session.say(f"{name}: nothing changes.")
        if change.zombies:
            session.say(f"  {counted(change.zombies, 'producer')} of former tasks of {name} will be fenced first.")
    changed = [name for name, change in changes.items() if not change.is_empty]
    if dry_run:
        found = changes.values()
        tell_dry_run(session, lambda: Checked.all_of(change.check(client, force=force) for change in found))
        return
    if not changed:
        session.say("Nothing was changed.")
        return
    session.confirm(f"{verb} offsets of {', '.join(changed)} in {client.place}?", yes=yes)

    def write(name: str) -> None:
        tell_written(session, changes[name].apply(client, force=force))
        session.say(f"{name}: offsets were {'reset' if verb == 'Reset' else 'altered'}.")

    session.each(changed, write)


def _is_agreed(
    session: CliSession,
    question: str,
    old: Mapping[str, Sequence[ConnectorOffset]],
    new: Mapping[str, Sequence[ConnectorOffset]],
    *,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Show what changes, and ask. False for a dry run or when there is nothing to do; a no ends the command."""
    for name in new:
        if len(new) > 1:
            session.say(name)
        _say_changes(session, old[name], new[name])
    if dry_run:
        session.say("Dry run: nothing was changed.")
        return False
    if new:
        session.confirm(f"{question} {', '.join(new)}?", yes=yes)
    return bool(new)


def _say_changes(session: CliSession, old: Sequence[ConnectorOffset], new: Sequence[ConnectorOffset]) -> None:
    """Old and new value of every partition that is named, for people."""
    before = {json_cell(offset.partition): json_cell(offset.offset) for offset in old}
    rows = [
        (json_cell(offset.partition), before.get(json_cell(offset.partition), "-"), json_cell(offset.offset))
        for offset in new
    ]
    if rows:
        session.say(plain_table(("PARTITION", "OLD", "NEW"), rows).rstrip("\n"))
    else:
        session.say("There are no committed offsets.")
