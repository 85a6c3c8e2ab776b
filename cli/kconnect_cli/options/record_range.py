"""Which records of a topic are meant, as options: --from, --offset, --last, --partition, --until."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.topic_points import milliseconds_of

if TYPE_CHECKING:
    from kconnect.admin.records import AtTime, Edge, Range

_FROM_HELP = "First time: how long ago (-2h), ISO 8601 in the local zone by default, earliest, or latest."
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help=_FROM_HELP, show_default=False)]
Offset = Annotated[
    int | None, typer.Option("--offset", metavar="N", min=0, help="First offset of each partition.", show_default=False)
]
Last = Annotated[
    int | None,
    typer.Option("--last", "-n", metavar="N", min=0, help="Only the last N records. [default: 10]", show_default=False),
]
_PARTITION_HELP = "Only partitions with this number; may be repeated."
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", metavar="N", min=0, help=_PARTITION_HELP, show_default=False),
]
_UNTIL_HELP = "Last time, as --from."
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help=_UNTIL_HELP, show_default=False)]

_DEFAULT_LAST = 10


def range_of(
    from_: str | None, offset: int | None, last: int | None, partitions: Sequence[int] | None, until: str | None
) -> Range:
    """What the options say; the last ten records by default. Errors: UsageProblem that names the option."""
    from kconnect.admin.records import AtOffset, Last, Range

    given = [name for name, value in (("--from", from_), ("--offset", offset), ("--last", last)) if value is not None]
    if len(given) > 1:
        raise UsageProblem(f"{given[0]} cannot be combined with {given[1]}", hint="Give one of them.")
    until_ms = None if until is None else _time_of(until, "--until")
    chosen = frozenset(partitions or ())
    if from_ is not None:
        return Range(_start_of(from_), chosen, until_ms)
    if offset is not None:
        return Range(AtOffset(offset), chosen, until_ms)
    return Range(Last(_DEFAULT_LAST if last is None else last), chosen, until_ms)


def _start_of(text: str) -> Edge | AtTime:
    from kconnect.admin.records import AtTime, Edge

    word = text.strip().lower()
    for edge in Edge:
        if word == edge.value:
            return edge
    return AtTime(_time_of(text, "--from"))


def _time_of(text: str, option: str) -> int:
    """A point in time: `2h` is as long ago as `-2h`."""
    text = text.strip()
    is_ago = text[:1].isdigit() and text[-1:] in ("s", "m", "h")
    return milliseconds_of(f"-{text}" if is_ago else text, option, time.time())
