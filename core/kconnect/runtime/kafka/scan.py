"""scan(): reads a range of a topic once, or follows it as it grows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from kconnect.model import LogRecord, TopicPartition
from kconnect.runtime.kafka.admin import KafkaAdmin
from kconnect.runtime.kafka.partition_reader import LOG, READ_UNCOMMITTED, PartitionReader

_BATCH_RECORDS: Final = 5_000
# How late a stop is noticed.
_POLL_S: Final = 0.1


class Stop(Protocol):
    """Ends a scan that follows the topic; a threading.Event is one."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSpec:
    """The range of a topic to read. Offsets are per partition; partitions not named are read completely."""

    topic: str
    consumer: Mapping[str, Any] = field(repr=False)  # librdkafka's settings; may hold secrets
    isolation_level: str = READ_UNCOMMITTED
    begin: Mapping[int, int] = field(default_factory=dict)
    """First offset to return; lower ones start at the partition's first record."""
    end: Mapping[int, int] = field(default_factory=dict)
    """First offset not to return."""
    until_ms: int | None = None
    """Stop before the first record that is younger than this time."""
    timeout_s: float = 60.0
    """How long to wait without progress before the end is reached."""
    timeout_setting: str = "default.api.timeout.ms"
    is_awaited: bool = True
    """Whether to wait up to `timeout_s` for a missing topic to appear."""


def scan(spec: ScanSpec, admin: KafkaAdmin, *, follow: Stop | None = None) -> Iterator[LogRecord]:
    """The records from the begin to the current end; with `follow`, endlessly until that is set.

    Each partition is in order, partitions are interleaved as records arrive. The iterator may be closed early. Memory:
    one batch. A read_committed scan does not wait for open transactions.
    Errors: NotFoundError if the topic does not exist, TimedOutError, ConnectError.
    """
    reader = PartitionReader(
        spec.topic, spec.consumer, LOG, isolation_level=spec.isolation_level, name=f"scan of {spec.topic}"
    )
    try:
        numbers = reader.partitions(spec.timeout_s, spec.timeout_setting, is_awaited=spec.is_awaited)
        begin, end = _bounds(spec, admin, [TopicPartition(spec.topic, number) for number in numbers])
        reader.open(begin)
        if follow is None:
            read = reader.read_to(end, _BATCH_RECORDS, _POLL_S, spec.timeout_s, spec.timeout_setting)
            yield from itertools.chain.from_iterable(read)
        else:
            while not follow.is_set():
                yield from reader.read(_BATCH_RECORDS, _POLL_S)
    finally:
        reader.close()


def _bounds(
    spec: ScanSpec, admin: KafkaAdmin, partitions: list[TopicPartition]
) -> tuple[dict[int, int], dict[int, int]]:
    """First offset to return and first not to return, per partition."""
    is_stable = spec.isolation_level != READ_UNCOMMITTED
    first = _ask(spec, admin, partitions, "begin")
    end = _ask(spec, admin, partitions, "end", is_stable=is_stable)
    if spec.until_ms is not None:
        younger = _ask(spec, admin, partitions, spec.until_ms + 1)
        end = {number: min(offset, end[number]) if offset >= 0 else end[number] for number, offset in younger.items()}
    begin = {number: max(offset, spec.begin.get(number, 0)) for number, offset in first.items()}
    return begin, {number: min(offset, spec.end.get(number, offset)) for number, offset in end.items()}


def _ask(
    spec: ScanSpec,
    admin: KafkaAdmin,
    partitions: list[TopicPartition],
    at: Literal["begin", "end"] | int,
    *,
    is_stable: bool = False,
) -> dict[int, int]:
    found = admin.log_offsets(partitions, at, spec.timeout_s, is_stable=is_stable)
    return {tp.partition: offset for tp, offset in found.items()}
