"""DeadLetter: one record of a dead letter topic, taken apart into what the record was and why it failed. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kconnect.api import ConsumerRecord

KafkaHeaders = Sequence[tuple[str, bytes | None]]

CONTEXT_PREFIX: Final = "__connect.errors."
SOURCE_HEADER: Final = "__connect.source"
"""What a source says of its dead letter: JSON. See kconnect.runtime.pipeline.source_dead_letters."""
REPLAYS_HEADER: Final = "__connect.replays"
"""How often the record has been replayed: it goes into the record, and back into the next dead letter."""
ORIGIN_HEADER: Final = "__connect.replay.of"
"""Which dead letter a replayed record was: `topic-partition@offset`."""
NO_PARTITION: Final = -1
"""The partition of a record of which it is not known, or left to the producer."""
_OWN: Final = (REPLAYS_HEADER, ORIGIN_HEADER, SOURCE_HEADER)
_CONTEXT: Final = (
    "topic",
    "partition",
    "offset",
    "connector.name",
    "task.id",
    "stage",
    "class.name",
    "exception.class.name",
    "exception.message",
    "exception.stacktrace",
)


@dataclass(frozen=True, slots=True)
class FailureContext:
    """What Connect's ten context headers say; None for one that is missing, null, or no such thing."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    connector: str | None = None
    task: int | None = None
    stage: str | None = None
    class_name: str | None = None
    exception: str | None = None
    message: str | None = None
    trace: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str | None:
        """Where the record was read: `topic-partition@offset`, as much of it as is known."""
        if self.topic is None:
            return None
        text = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return text if self.offset is None else f"{text}@{self.offset}"

    @property
    def root_cause(self) -> str | None:
        """Class and message of what failed first, by the trace; that of the failure itself without one."""
        return _root_cause(self.trace) or _said(self.exception, self.message)


@dataclass(frozen=True, slots=True)
class SourceNote:
    """What a dead letter of a source says beside its bytes. Source: source_dead_letters.source_note."""

    topic: str
    partition: int | None
    timestamp: int | None
    stage: str
    steps_done: int | None
    """Transformations the record had passed; None: all of them."""
    source_partition: Mapping[str, Any] | None
    source_offset: Mapping[str, Any] | None
    lossy: tuple[str, ...]
    """Parts that are written as text because JSON has no form for them."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of a dead letter topic.

    `headers` are the record's own, as they were before Connect and `connect dlq` added theirs. `problems` are
    sentences: headers that are there and cannot be read.
    """

    raw: ConsumerRecord = field(repr=False)
    context: FailureContext
    connector: str | None
    headers: tuple[tuple[str, bytes | None], ...] = field(repr=False)
    replays: int = 0
    source: SourceNote | None = None
    problems: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where the dead letter is: `topic-partition@offset`, which `parsed_place` reads."""
        return f"{self.raw.topic}-{self.raw.partition}@{self.raw.offset}"

    @property
    def stage(self) -> str | None:
        return self.context.stage or (self.source.stage if self.source is not None else None)

    @property
    def original_topic(self) -> str | None:
        """The topic it was read from; of a source's dead letter the one it was to go to."""
        return self.context.topic or (self.source.topic if self.source is not None else None)

    @property
    def fingerprint(self) -> int:
        """Changes when another record stands at the dead letter's place: the topic was deleted and created again."""
        parts = [self.raw.key, self.raw.value, str(self.raw.timestamp).encode(), repr(self.raw.headers).encode()]
        return zlib.crc32(b"\0".join(b"null" if part is None else part for part in parts))

    def as_read(self) -> ConsumerRecord:
        """The record as the connector read it: at its original place where that is known, with its own headers."""
        context = self.context
        partition = context.partition if self.source is None else self.source.partition
        return replace(
            self.raw,
            topic=self.original_topic or self.raw.topic,
            partition=NO_PARTITION if partition is None else partition,
            timestamp=self.raw.timestamp if self.source is None else self.source.timestamp,
            offset=self.raw.offset if context.offset is None else context.offset,
            headers=list(self.headers),
        )


def parsed_place(place: str) -> tuple[str, int, int] | None:
    """Topic, partition and offset of a dead letter's place; None for other text."""
    rest, _, offset = place.rpartition("@")
    topic, _, partition = rest.rpartition("-")
    if not topic or not partition.isdecimal() or not offset.isdecimal():
        return None
    return topic, int(partition), int(offset)


def dead_letter(raw: ConsumerRecord) -> DeadLetter:
    """Take a record apart. Never raises for what is in it. A dead letter that was read as a record and failed again has
    two sets of context headers: the last one counts, the others are headers of the record.
    """
    problems: list[str] = []
    last = {name: index for index, (name, _) in enumerate(raw.headers)}
    ours = {last[name] for name in (*_OWN, *(CONTEXT_PREFIX + each for each in _CONTEXT)) if name in last}
    texts = {raw.headers[index][0]: _text(*raw.headers[index], problems) for index in ours}

    def said(name: str) -> str | None:
        return texts.get(CONTEXT_PREFIX + name)

    context = FailureContext(
        said("topic") or None,
        _number(said("partition"), "partition", problems),
        _number(said("offset"), "offset", problems),
        said("connector.name") or None,
        _number(said("task.id"), "task.id", problems),
        said("stage") or None,
        said("class.name") or None,
        said("exception.class.name") or None,
        said("exception.message"),
        said("exception.stacktrace"),
    )
    source, source_connector = _source(texts.get(SOURCE_HEADER), problems)
    kept = tuple(pair for index, pair in enumerate(raw.headers) if index not in ours)
    return DeadLetter(
        raw,
        context,
        context.connector or source_connector,
        kept,
        _number(texts.get(REPLAYS_HEADER), REPLAYS_HEADER, problems) or 0,
        source,
        tuple(problems),
    )


def _text(name: str, value: bytes | None, problems: list[str]) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        problems.append(f"The header {name} is not text: {value[:40]!r}")
        return None


def _number(text: str | None, name: str, problems: list[str]) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    problems.append(f"The header {name.removeprefix(CONTEXT_PREFIX)} is not a number: {text[:40]!r}")
    return None


def _source(text: str | None, problems: list[str]) -> tuple[SourceNote | None, str | None]:
    if text is None:
        return None, None
    try:
        found = json.loads(text)
        note = SourceNote(
            _is(str, found["topic"]),
            _is(int | None, found.get("partition")),
            _is(int | None, found.get("timestamp")),
            _is(str, found["stage"]),
            _is(int | None, found.get("stepsDone")),
            _is(dict | None, found.get("sourcePartition")),
            _is(dict | None, found.get("sourceOffset")),
            tuple(_is(list, found.get("lossy") or [])),
        )
        return note, _is(str | None, found.get("connector"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problems.append(f"The header {SOURCE_HEADER} cannot be read: {type(error).__name__}: {error}")
        return None, None


def _is(kind: Any, value: Any) -> Any:  # a type, or several
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {getattr(kind, '__name__', kind)}")
    return value


def _said(name: str | None, message: str | None) -> str | None:
    if name is None:
        return message
    return f"{name}: {message}" if message else name


def _root_cause(trace: str | None) -> str | None:
    """Java names the first cause last, behind `Caused by:`; Python's traceback begins with it."""
    lines = (trace or "").splitlines()
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if caused:
        return caused[-1]
    try:
        start = next(index for index, line in enumerate(lines) if line.startswith("Traceback ("))
    except StopIteration:
        return None
    for line in lines[start + 1 :]:
        if line and not line.startswith((" ", "Traceback (")):
            return line
    return None
