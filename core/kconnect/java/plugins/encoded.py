"""Polls whose records Java has transformed and converted: only bytes cross."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.java.plugins.row_headers import read_headers
from kconnect.java.plugins.wire_format import NO_TIME
from kconnect.model import Unstorable

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.api import RecordMetadata, SourceRecord
    from kconnect.java.plugins.blocks import BlockReader


@dataclass(frozen=True, slots=True)
class JavaPart:
    """One Java plugin of a chain: its class, where it is, and its settings."""

    class_name: str
    folder: str | None
    config: Mapping[str, str] = field(repr=False)
    tags: Mapping[str, str] = field(default_factory=dict)
    """Holds the tags of its own metrics, beside those of the task."""
    place: str = ""
    """The settings that name it: transforms.X, predicates.X, value.converter."""

    def to_json(self) -> dict[str, Any]:
        config, tags = dict(self.config), dict(self.tags)
        return {"class": self.class_name, "folder": self.folder, "config": config, "tags": tags, "place": self.place}


@dataclass(frozen=True, slots=True)
class JavaStep:
    """A transformation with its predicate."""

    transformation: JavaPart
    predicate: JavaPart | None = None
    negate: bool = False

    def to_json(self) -> dict[str, Any]:
        predicate = None if self.predicate is None else self.predicate.to_json()
        return {**self.transformation.to_json(), "predicate": predicate, "negate": self.negate}


@dataclass(frozen=True, slots=True)
class JavaChain:
    """Transformations and converters of a task, all of them Java's."""

    steps: tuple[JavaStep, ...]
    key: JavaPart
    value: JavaPart
    header: JavaPart

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": [step.to_json() for step in self.steps],
            "key": self.key.to_json(),
            "value": self.value.to_json(),
            "header": self.header.to_json(),
        }


class EncodingTask(Protocol):
    """What can be asked of the task behind a poll; see JavaSourceTask. Threads: the task's."""

    @property
    def folder(self) -> str | None: ...

    @property
    def wants_each(self) -> bool: ...

    def go_on(self, row: int) -> EncodedPoll: ...

    def record(self, row: int) -> SourceRecord: ...

    def commit_record(self, record: SourceRecord | int, metadata: RecordMetadata | None) -> None: ...


@dataclass(slots=True)
class EncodedPart:
    """Records for one topic, and one partition if the source names it; columns run in parallel."""

    topic: str
    partition: int | None
    keys: pa.Array
    values: pa.Array
    times: Sequence[int | None] | None
    """Ms; None when no record has a time."""
    headers: list[list[tuple[str, bytes | None]] | None] | None
    rows: pa.Array
    """Holds the row in the poll of each record."""


@dataclass(frozen=True, slots=True)
class EncodedFailure:
    """A record that a stage could not do: its row, the stage's and the plugin's name, what was thrown."""

    row: int
    stage: str
    java_class: str
    error: Mapping[str, Any]
    place: str
    """The settings that name it; empty of a converter, which its stage tells."""


@dataclass(slots=True)
class EncodedPoll:
    """What a Java source polled, as bytes for Kafka, up to a record that a stage could not do.

    `len` is the number of records that the task gave; 0 for what follows the end of a transaction in the same poll. It
    is true also where a stage has left nothing of it.
    """

    parts: list[EncodedPart]
    positions: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    polled: int
    done: int
    """How many of the polled records are here; stages may have dropped some."""
    first: int
    """The number by which Java knows the first record of the poll."""
    begin: int
    """How many of the poll's records come before these."""
    task: EncodingTask
    failure: EncodedFailure | None = None

    def __len__(self) -> int:
        return self.polled

    def __bool__(self) -> bool:
        return True


def encoded_poll(block: BlockReader, head: Mapping[str, Any], task: EncodingTask) -> EncodedPoll:
    """The poll in a block of Java's SourceCalls.bytes."""
    import pyarrow as pa

    count = block.integer()
    places, rows, times = block.integers(count), block.integers(count), block.longs(count)
    keys, values = block.binary(count), block.binary(count)
    known = read_headers(head.get("headers") or ())
    headers = [known.get(row) for row in range(count)] if known else None
    made = []
    for place, (topic, partition) in enumerate(head["topics"]):
        if len(head["topics"]) == 1:
            made.append(EncodedPart(topic, partition, keys, values, _times(times), headers, pa.array(rows, pa.int32())))
            break
        own = [row for row in range(count) if places[row] == place]
        wanted = pa.array(own, pa.int32())
        made.append(
            EncodedPart(
                topic,
                partition,
                keys.take(wanted),
                values.take(wanted),
                _times([times[row] for row in own]),
                None if headers is None else [headers[row] for row in own],
                pa.array([rows[row] for row in own], pa.int32()),
            )
        )
    failure = head.get("failure")
    return EncodedPoll(
        made,
        [(storable(partition) or {}, storable(offset)) for partition, offset in head["positions"]],
        # Behind the end of a transaction the same poll goes on
        int(head["polled"]) if int(head["from"]) == 0 else 0,
        int(head["to"]) - int(head["from"]),
        int(head["first"]),
        int(head["from"]),
        task,
        None
        if failure is None
        else EncodedFailure(
            failure["row"], failure["stage"], failure["class"], failure["error"], failure["place"] or ""
        ),
    )


def storable(reported: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A source partition or offset as Java's Offsets.json tells it: what cannot be stored is marked."""
    if reported is None or not any(isinstance(value, dict) for value in reported.values()):
        return reported
    return {
        name: Unstorable(value["text"], value["unstorable"]) if isinstance(value, dict) else value
        for name, value in reported.items()
    }


def _times(times: Any) -> list[int | None] | None:
    found = list(times)
    if all(time == NO_TIME for time in found):
        return None
    return [None if time == NO_TIME else time for time in found]
