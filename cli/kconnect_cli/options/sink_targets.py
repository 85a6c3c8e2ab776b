"""Where a sink is moved to, as options: --to-time, --to-earliest, --to-offset ..; --topic and --partition choose."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.topic_points import milliseconds_of
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.direct.offsets.sink_targets import Chosen, SinkTarget

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
