"""`connect offsets`: show, alter, reset, over REST or with --direct; move, undo, history; the group.

TargetOptions say where a sink is moved to: --to-time, --to-earliest, --to-offset ..; --topic and --partition
choose.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.admin.cluster.port import PreparedChange
from kconnect_cli.admin.connector_admin import WriteOptions, make_changes
from kconnect_cli.admin.offset_changes import offset_changes
from kconnect_cli.commands.offsets import transfer
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ON_CLUSTER, ClusterArguments, cluster_of
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.direct import DirectOrChecked, Force, refuse_cluster_without_direct, refuse_without_direct
from kconnect_cli.options.selection import SelectionOptions, selected
from kconnect_cli.options.shared import takes
from kconnect_cli.options.topic_points import milliseconds_of
from kconnect_cli.screen.output import Column, Format, Row, json_cell, write_object, write_rows
from kconnect_cli.session import CliSession, Name, Yes, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.offsets.sink_targets import Chosen, SinkTarget
    from kconnect.model import ConnectorOffset


app = command_group("Show, alter, reset offsets of connectors; move them between files and topics.")

_FORCE_HELP = "Allow offsets at which nothing can be read; with --direct, also while live workers have the connector."
_Force = Annotated[bool, typer.Option("--force", help=_FORCE_HELP)]

_PARTITION = (
    Column("PARTITION", lambda row: row["partition"]),
    Column("OFFSET", lambda row: row["offset"]),
)
_OF_SINKS = (
    Column("END", lambda row: row["end"]),
    Column("LAG", lambda row: row["lag"]),
)
_NAME = Column("NAME", lambda row: row["name"])

_FILE_HELP = "The new offsets, JSON as `show -o json` prints it; - reads stdin."
_File = Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP, show_default=False)]
_ForceUndo = Annotated[bool, typer.Option("--force", help="Restore them even if they have changed since.")]

_CHANGES = (
    Column("TIME", lambda row: row["time"]),
    Column("WHO", lambda row: row["who"]),
    Column("ACTION", lambda row: row["action"]),
    Column("PARTITION", lambda row: row["partition"]),
    Column("OLD", lambda row: row["old"]),
    Column("NEW", lambda row: row["new"]),
)


@app.command(cls=takes(SelectionOptions, DirectOrChecked, ClusterArguments))
def show(ctx: typer.Context) -> None:
    """Show the committed offsets of connectors, and of sinks the end of each partition and the lag.

    `-o json` is valid input for `alter`, for one name and for several. A Java worker does not tell the lag: name the
    brokers, by a worker's file or --bootstrap-servers, and it is looked up there.
    """
    session = session_of(ctx)
    names, selection = selected(session)
    from kconnect_cli.admin.sink_lags import offset_rows, offsets_and_lags, say_lags
    from kconnect_cli.files.offset_files import offsets_document

    found, lags = offsets_and_lags(session, list(dict.fromkeys(names)))
    one = len(found) == 1 and not selection.needs_looking
    if session.output in (Format.JSON, Format.YAML):
        write_object(offsets_document(found, one=one, lags=lags), session.output)
        return
    rows: list[Row] = [row for name, offsets in found.items() for row in offset_rows(name, offsets, lags.get(name))]
    columns = (*_PARTITION, *(_OF_SINKS if lags else ()))
    if one:
        write_rows(rows, columns, session.output, name="partition")
    elif session.output is Format.NAME:
        write_rows([{"name": name} for name in found], (_NAME,), session.output)
    else:
        write_rows(rows, (_NAME, *columns), session.output)
    for name, offsets in found.items():
        if not offsets:
            session.say(f"{name} has no committed offsets.")
    say_lags(session, found, lags)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def alter(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="JSON as `show -o json` prints it; - reads stdin.")
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Connector names; by default all that FILE names.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: _Force = False,
) -> None:
    """Set offsets of stopped connectors; a null offset resets that partition. Others are left unchanged.

    Offsets of a sink at which nothing can be read are refused: beyond the end, before the first record, of partitions
    that do not exist. Tasks would start over from such offsets. --force writes them anyway. Without --direct this check
    also needs a worker's file or --bootstrap-servers; without either, the worker warns after it has written them. With
    --direct, --force also writes partitions for which a source has no offset.
    """
    session = session_of(ctx)
    cluster = cluster_of(session)
    from kconnect_cli.files.offset_files import read_offsets

    new = read_offsets(file).chosen(names or [])
    brokers = cluster.access() if session.direct is None and cluster.is_given and not force else None
    changes, options = offset_changes(session, force=force, brokers=brokers), WriteOptions(dry_run, yes, force)
    make_changes(session, "Alter offsets of", list(new), options, lambda name: changes.alter(name, new[name]))


_TIME_HELP = "To the first records at or after a time: how long ago (2h), or ISO 8601, in the local zone by default."
ToTime = Annotated[str | None, typer.Option("--to-time", metavar="TIME", help=_TIME_HELP, show_default=False)]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="To the first records.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="Past the last records.")]
_OFFSET_HELP = "To this offset in each partition; --topic and --partition choose them."
ToOffset = Annotated[
    int | None, typer.Option("--to-offset", metavar="OFFSET", min=0, help=_OFFSET_HELP, show_default=False)
]
_SHIFT_HELP = "By so many records, back if negative; at most to an end of the partition."
ShiftBy = Annotated[int | None, typer.Option("--shift-by", metavar="N", help=_SHIFT_HELP, show_default=False)]
_TOPIC_HELP = "Only partitions of this topic; may be repeated."
Topics = Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help=_TOPIC_HELP, show_default=False)]
TARGETS = "--to-time, --to-earliest, --to-latest, --to-offset or --shift-by"
_PARTITION_HELP = "Only partitions with this number; may be repeated."
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", metavar="N", min=0, help=_PARTITION_HELP, show_default=False)
]


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The options; `target_of` says what they mean."""

    to_time: ToTime = None
    to_earliest: ToEarliest = False
    to_latest: ToLatest = False
    to_offset: ToOffset = None
    shift_by: ShiftBy = None
    topic: Topics = None
    partition: Partitions = None

    def apply(self, session: CliSession) -> None:
        session.keep(self)


def target_of(session: CliSession) -> tuple[SinkTarget, Chosen] | None:
    """Where to, and which partitions; None without such options. Errors: UsageProblem."""
    options = session.given(TargetOptions) or TargetOptions()
    given = [
        name
        for name, value in (
            ("--to-time", options.to_time is not None),
            ("--to-earliest", options.to_earliest),
            ("--to-latest", options.to_latest),
            ("--to-offset", options.to_offset is not None),
            ("--shift-by", options.shift_by is not None),
        )
        if value
    ]
    if len(given) > 1:
        raise UsageProblem(f"{given[0]} cannot be combined with {given[1]}", hint="Give one of them.")
    if not given:
        if options.topic or options.partition:
            raise UsageProblem("--topic and --partition need a target", hint=f"Add {TARGETS}.")
        return None
    from kconnect.admin.direct.offsets.sink_targets import Chosen
    from kconnect.model import AtTime

    target = _target(options)
    if isinstance(target, AtTime) and target.time_ms > time.time() * 1000:
        session.say(f"--to-time {options.to_time} is in the future: whatever is there now comes before it.")
    return target, Chosen(frozenset(options.topic or ()), frozenset(options.partition or ()))


def _target(options: TargetOptions) -> SinkTarget:
    from kconnect.admin.direct.offsets.sink_targets import ShiftBy
    from kconnect.model import AtOffset, AtTime, Edge

    if options.to_time is not None:
        text = options.to_time.strip()
        ago = text[:1].isdigit() and text[-1:] in "smhd"
        return AtTime(milliseconds_of(f"-{text}" if ago else text, "--to-time", time.time()))
    if options.to_offset is not None:
        return AtOffset(options.to_offset)
    if options.shift_by is not None:
        return ShiftBy(options.shift_by)
    return Edge.EARLIEST if options.to_earliest else Edge.LATEST


@app.command(cls=takes(SelectionOptions, TargetOptions, DirectOrChecked, ClusterArguments))
def reset(ctx: typer.Context, dry_run: DryRun = False, yes: Yes = False, force: Force = False) -> None:
    """Forget all offsets of stopped connectors: they start from the beginning. Or move stopped sinks elsewhere.

    \b
    connect offsets reset orders-out
    connect offsets reset orders-out --to-time 2h
    connect offsets reset orders-out --shift-by -1000 --topic orders --partition 0 --bootstrap-servers kafka:9092

    The worker looks a target up at its brokers; of a Java worker name them, by a worker's file or --bootstrap-servers.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    session = session_of(ctx)
    names, _ = selected(session)
    refuse_without_direct(session, force=force)
    target = target_of(session)
    changes, options = offset_changes(session, force=force), WriteOptions(dry_run, yes, force)
    if target is None:
        refuse_cluster_without_direct(session)
        make_changes(session, "Reset offsets of", list(dict.fromkeys(names)), options, changes.reset)
        return

    def moved(name: str) -> PreparedChange:
        return changes.alter(name, changes.offsets_at(name, *target), "reset")

    make_changes(session, "Change offsets of", list(dict.fromkeys(names)), options, moved)


for _name, _command in transfer.COMMANDS.items():
    app.command(_name, cls=ON_CLUSTER)(_command)


@app.command(cls=takes(TargetOptions, ClusterArguments))
def move(
    ctx: typer.Context,
    name: Name,
    file: _File = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a running connector: stop it, change its offsets, verify them, and resume it.

    \b
    connect offsets move orders-out --to-time 2h
    connect offsets move orders-in -f saved.json

    If a step fails, the offsets are restored. At the end the connector is RUNNING, PAUSED or STOPPED, as it was before.
    """  # noqa: D301  # as above
    session = session_of(ctx)
    target = target_of(session)
    if (target is None) == (file is None):
        raise UsageProblem(
            "Missing the new offsets" if file is None else "--file cannot be combined with a target",
            hint=f"Give --file FILE, or one of {TARGETS}.",
        )
    changes = offset_changes(session)
    if file is not None:
        from kconnect_cli.files.offset_files import read_offsets

        given = read_offsets(file).chosen([name])[name]

    def wanted() -> Sequence[ConnectorOffset]:
        if target is None:
            return given
        return changes.offsets_at(name, *target)

    def prepare(name: str) -> PreparedChange:
        from kconnect_cli.admin.offset_changes import MoveChange

        return MoveChange(session.client, changes, name, wanted, session.say)

    make_changes(session, "Move", [name], WriteOptions(dry_run, yes), prepare)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def undo(ctx: typer.Context, name: Name, dry_run: DryRun = False, yes: Yes = False, force: _ForceUndo = False) -> None:
    """Take back the last change of a connector's offsets, whoever made it and from where.

    One that runs is stopped, moved back, and resumed, as by `move`. Refused if the offsets are no longer as that change
    left them; a sink that runs may have read on. A second undo restores what the first one took back.
    """
    session = session_of(ctx)
    changes = offset_changes(session, force=force)

    def prepare(name: str) -> PreparedChange:
        from kconnect.model import RunState
        from kconnect_cli.admin.offset_changes import MoveChange

        if session.direct is not None or session.reader.connector_status(name).connector.state is RunState.STOPPED:
            return changes.undo(name, force=force)
        entry = changes.last(name)
        if not force:
            now = session.reader.connector_offsets(name)
            entry.check_running(name, now, otherwise="--force restores the old ones all the same.")
        return MoveChange(session.client, changes, name, lambda: entry.undone, session.say, "undo")

    make_changes(session, "Restore offsets of", [name], WriteOptions(dry_run, yes, force), prepare)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def history(ctx: typer.Context, name: Name) -> None:
    """Show how a connector's offsets were changed, by whom and from where, the oldest change first.

    The cluster keeps the last hundred changes of each connector, by workers of ours and with --direct, in the topic
    kconnect.history.topic. Of Java's workers, and standalone ones, this machine's own changes are listed.
    """
    session = session_of(ctx)
    entries = offset_changes(session).history.entries(name)
    if session.output in (Format.JSON, Format.YAML):
        write_object([entry.to_json() for entry in entries], session.output)
        return
    rows: list[Row] = [
        {
            "time": f"{datetime.fromtimestamp(entry.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}",
            "who": entry.who or "-",
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
        session.say(f"No change of {name}'s offsets is known.")
        if hint := session.other_names(name):
            session.say(f"There is no connector of that name. {hint}")
