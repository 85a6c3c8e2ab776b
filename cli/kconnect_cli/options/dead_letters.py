"""Which dead letters are meant, as options: the same for every `connect dlq` command."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.exits import UsageProblem, refused_as_usage
from kconnect_cli.options.topic_points import milliseconds_of
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.dead_letters import OffsetRange, Selection

_STAGES = (
    *("TRANSFORMATION", "KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER", "TASK_PUT"),
    *("TASK_POLL", "KAFKA_PRODUCE", "KAFKA_CONSUME"),
)

_STAGE_HELP = "Only those that failed in this stage, such as VALUE_CONVERTER; may be repeated."
_EXCEPTION_HELP = "Only those that failed with this class, with or without its package, or this start of a message."
_TOPIC_HELP = "Only those that were read from this topic; of a source: meant for it. May be repeated."
_TIME_HELP = "ISO 8601, in the local zone unless it names one, or how long ago: -2h."
_OFFSET_HELP = "Only these, by where they are in the dead letter topic: 7, 7-12, 7-; of partition 3: 3:7-12."
_ALL_HELP = "Also records of the topic that name another connector, or none."

Stages = Annotated[list[str] | None, typer.Option("--stage", metavar="STAGE", help=_STAGE_HELP, show_default=False)]
Exceptions = Annotated[
    list[str] | None, typer.Option("--exception", metavar="CLASS", help=_EXCEPTION_HELP, show_default=False)
]
Topics = Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help=_TOPIC_HELP, show_default=False)]
From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help=f"Only those since then: {_TIME_HELP}", show_default=False)
]
To = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Only those before then, as --from.", show_default=False)
]
Offsets = Annotated[list[str] | None, typer.Option("--offset", metavar="RANGE", help=_OFFSET_HELP, show_default=False)]
_LIMIT_HELP = "N dead letters at most, the oldest first."
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help=_LIMIT_HELP, show_default=False)]
All = Annotated[bool, typer.Option("--all", help=_ALL_HELP)]


@dataclass(frozen=True, slots=True)
class LetterOptions:
    """The filters."""

    stage: Stages = None
    exception: Exceptions = None
    topic: Topics = None
    from_: From = None
    to: To = None
    offset: Offsets = None
    all_: All = False

    def apply(self, session: CliSession) -> None:
        session.keep(self)

    def query(self) -> Iterator[tuple[str, str]]:
        """The selection as parameters of a request. Errors: UsageProblem that names the option."""
        now_s = time.time()
        yield from (("stage", _stage(each)) for each in self.stage or ())
        yield from (("exception", each) for each in self.exception or ())
        yield from (("topic", each) for each in self.topic or ())
        _ranges(self.offset or ())
        yield from (("offset", each) for each in self.offset or ())
        for name, option, given in (("from", "--from", self.from_), ("to", "--to", self.to)):
            if given is not None:
                yield name, str(milliseconds_of(given, option, now_s))
        if self.all_:
            yield "all", "true"

    def selection(self, connector: str, *, takes_unknown: bool) -> Selection:
        """Errors: UsageProblem that names the option."""
        from kconnect.admin.dead_letters import Selection

        now_s = time.time()
        return Selection(
            connector=connector,
            takes_unknown=takes_unknown,
            takes_all=self.all_,
            stages=frozenset(_stage(each) for each in self.stage or ()),
            exceptions=tuple(self.exception or ()),
            topics=frozenset(self.topic or ()),
            from_ms=None if self.from_ is None else milliseconds_of(self.from_, "--from", now_s),
            to_ms=None if self.to is None else milliseconds_of(self.to, "--to", now_s),
            offsets=_ranges(self.offset or ()),
        )


def _stage(text: str) -> str:
    stage = text.strip().upper().replace("-", "_")
    if stage not in _STAGES:
        raise UsageProblem(f"--stage {text} is not a stage", hint=f"Stages: {', '.join(_STAGES)}.")
    return stage


def _ranges(texts: Sequence[str]) -> tuple[OffsetRange, ...]:
    from kconnect.admin.dead_letters import OffsetRange

    with refused_as_usage("--offset "):
        return tuple(OffsetRange.parse(text) for text in texts)
