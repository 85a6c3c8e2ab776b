"""Up to where a topic is read: the options of the commands that show it, and what they come to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.topic_points import milliseconds_of, offsets_of

if TYPE_CHECKING:
    from kconnect.admin.direct.read.reader import Bounds


_UNTIL_HELP = "As of a time: ISO 8601, in the local zone unless it names one, or how long ago: -10m."
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="OFFSET", help="As of this record.", show_default=False),
]
AtEach = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="PARTITION:OFFSET",
        help="As of this record; may be repeated. Other partitions are read to their end.",
        show_default=False,
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help=_UNTIL_HELP, show_default=False)]


def bounds_of(
    at: Sequence[str] | None, until: str | None, follow: bool = False, *, has_one_partition: bool = False
) -> Bounds:
    """Errors: UsageProblem that names the option."""
    from kconnect.admin.direct.read.reader import Bounds

    if follow and (at or until):
        raise UsageProblem("--follow starts from now: it cannot be combined with --at or --until")
    until_ms = None if until is None else milliseconds_of(until, "--until", time.time())
    return Bounds(offsets_of(at or (), "--at", has_one_partition=has_one_partition), until_ms)
