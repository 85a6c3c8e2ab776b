"""TopicRecords: records of one topic for one look: bounded, the last ones, or followed, merged over partitions."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

from kconnect.admin.records.selection import Last, Range, Span, Watermarks, chosen_partitions, remarks, spans_of
from kconnect.api import ConsumerRecord
from kconnect.errors import RetriableError
from kconnect.model import AtTime, TopicPartition
from kconnect.runtime.kafka import KafkaAdmin
from kconnect.runtime.kafka.consumed_records import RECORDS
from kconnect.runtime.kafka.partition_reader import READ_COMMITTED, READ_UNCOMMITTED, PartitionReader
from kconnect.runtime.kafka.scan import Stop

_BATCH_RECORDS: Final = 500
# How late a stop is noticed
_POLL_S: Final = 0.1
# Records of one partition that wait for the others' to be merged by time
_MOST_WAITING: Final = 5_000
# The first look backwards, and how much further each next one goes
_LEAST_BACK: Final = 50
_FURTHER: Final = 4
_MOST_BACK: Final = 50_000

Accept = Callable[[ConsumerRecord], Any]
"""What the record becomes, or None to leave it out."""


class TopicRecords:
    """One topic of one cluster. A context manager: holds a consumer and an admin client. Threads: one.

    Errors of all methods: NotFoundError for a topic or partition that is not there; UnreachableError, TimedOutError
    when brokers do not answer within `timeout_s`; ConnectError for what they refuse.
    """

    def __init__(
        self,
        topic: str,
        consumer: Mapping[str, Any],
        admin: Mapping[str, Any],
        timeout_s: float,
        *,
        is_committed: bool = True,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`consumer`, `admin`: librdkafka's settings. `note` gets sentences: open transactions, a broker away."""
        self.topic = topic
        self._timeout_s = timeout_s
        self._is_committed = is_committed
        self._note = note
        self._admin = KafkaAdmin(admin, "records", timeout_setting="--timeout")
        level = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        self._reader = PartitionReader(topic, consumer, RECORDS, isolation_level=level, tell=note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self._admin.close()

    def records(self, wanted: Range, accept: Accept, *, follow: Stop | None = None) -> Generator[Any, None, None]:
        """What `accept` makes of each record that is meant; with `follow`, goes on until that is set.

        Order: a partition's own, and over partitions by time, until what is there has been read.
        Memory: the last so many, or some thousand records of each partition.
        """
        spans = self.spans(wanted)
        if isinstance(wanted.start, Last):
            yield from self.last(wanted.start.count, spans, accept)
        else:
            yield from self.within(spans, accept)
        if follow is not None:
            yield from self._followed({number: span.end for number, span in spans.items()}, accept, follow)

    def spans(self, wanted: Range) -> dict[int, Span]:
        """What there is to read now. Tells of what is not shown."""
        numbers = chosen_partitions(self.topic, wanted.partitions, self._reader.partitions(self._timeout_s))
        end = self._offsets(numbers, "end")
        stable = self._offsets(numbers, "end", is_stable=True) if self._is_committed else end
        marks = Watermarks(self._offsets(numbers, "begin"), end, stable)
        at_start = self._offsets(numbers, wanted.start.time_ms) if isinstance(wanted.start, AtTime) else {}
        at_until = {} if wanted.until_ms is None else self._offsets(numbers, wanted.until_ms + 1)
        spans = spans_of(self.topic, wanted.start, marks, at_start, at_until)
        for remark in remarks(self.topic, wanted.start, marks):
            self._note(remark)
        return spans

    def within(self, spans: Mapping[int, Span], accept: Accept) -> Iterator[Any]:
        """What `accept` makes of each record of the spans, in order."""
        for record in self._merged(spans):
            made = accept(record)
            if made is not None:
                yield made

    def last(self, count: int, spans: Mapping[int, Span], accept: Accept) -> list[Any]:
        """The last so many accepted ones of the spans, in order. Goes back only as far as it has to."""
        found: dict[int, deque[tuple[ConsumerRecord, Any]]] = {number: deque(maxlen=count) for number in spans}
        low = {number: span.end for number, span in spans.items()}
        back = max(count, _LEAST_BACK)
        while count:
            behind = {
                number: Span(max(span.begin, low[number] - back), low[number])
                for number, span in spans.items()
                if low[number] > span.begin and len(found[number]) < count
            }
            if not behind:
                break
            self._look_back(behind, found, count, accept)
            low |= {number: span.begin for number, span in behind.items()}
            back = min(back * _FURTHER, _MOST_BACK)
        merged = list(_by_time({number: deque(pairs) for number, pairs in found.items()}, lambda pair: pair[0]))
        return [made for _, made in merged[-count:]] if count else []

    def _look_back(
        self,
        spans: Mapping[int, Span],
        found: dict[int, deque[tuple[ConsumerRecord, Any]]],
        count: int,
        accept: Accept,
    ) -> None:
        earlier: dict[int, deque[tuple[ConsumerRecord, Any]]] = {number: deque(maxlen=count) for number in spans}
        for records in self._read(spans):
            for record in records:
                made = accept(record)
                if made is not None:
                    earlier[record.partition].append((record, made))
        for number, pairs in earlier.items():
            have = found[number]
            have.extendleft(list(reversed(pairs))[: count - len(have)])

    def _merged(self, spans: Mapping[int, Span]) -> Iterator[ConsumerRecord]:
        """The records of the spans, by time over partitions."""
        waiting: dict[int, deque[ConsumerRecord]] = {number: deque() for number in spans}
        paused: set[int] = set()
        for records in self._read(spans):
            for record in records:
                waiting[record.partition].append(record)
            reached = self._reader.reached
            unfinished = [number for number, span in spans.items() if reached.get(number, span.end) < span.end]
            yield from _by_time(waiting, lambda record: record, until_empty=unfinished)
            self._hold_back(waiting, paused)
        yield from _by_time(waiting, lambda record: record)

    def _hold_back(self, waiting: Mapping[int, Sequence[ConsumerRecord]], paused: set[int]) -> None:
        """Keeps partitions that are ahead of the others from filling the memory."""
        full = {number for number, records in waiting.items() if len(records) >= _MOST_WAITING}
        self._reader.pause(full - paused)
        room = {number for number in paused if len(waiting[number]) < _MOST_WAITING // 2}
        self._reader.resume(room)
        paused |= full
        paused -= room

    def _read(self, spans: Mapping[int, Span]) -> Iterator[list[ConsumerRecord]]:
        """The records of the spans as they arrive, often none. Errors: TimedOutError if nothing comes for so long."""
        reader = self._reader
        ends = {number: span.end for number, span in spans.items() if span.end > span.begin}
        if not ends:
            return
        reader.open({number: spans[number].begin for number in ends})
        yield from reader.read_to(ends, _BATCH_RECORDS, _POLL_S, self._timeout_s, "--timeout")

    def _followed(self, begin: Mapping[int, int], accept: Accept, stop: Stop) -> Iterator[Any]:
        """What comes from now on. A broker that goes away is waited for."""
        self._reader.open(begin)
        was_away = False
        while not stop.is_set():
            records = self._reader.read(_BATCH_RECORDS, _POLL_S)
            if self._reader.is_away != was_away:
                was_away = self._reader.is_away
                why = f": {self._reader.last_error}" if self._reader.last_error else ""
                self._note(
                    f"The brokers do not answer{why}. Waiting for them." if was_away else "The brokers are back."
                )
            waiting: dict[int, deque[ConsumerRecord]] = {}
            for record in records:
                waiting.setdefault(record.partition, deque()).append(record)
            for record in _by_time(waiting, lambda record: record):
                made = accept(record)
                if made is not None:
                    yield made

    def _offsets(
        self, numbers: Sequence[int], at: Literal["begin", "end"] | int, *, is_stable: bool = False
    ) -> dict[int, int]:
        """Offsets of partitions; while one has no leader, as right after its topic's creation, this waits."""
        places = [TopicPartition(self.topic, number) for number in numbers]
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                found = self._admin.log_offsets(places, at, self._timeout_s, is_stable=is_stable)
            except RetriableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
                continue
            return {place.partition: offset for place, offset in found.items()}


def _by_time(
    waiting: Mapping[int, deque[Any]],
    record_of: Callable[[Any], ConsumerRecord],
    until_empty: Sequence[int] | None = None,
) -> Iterator[Any]:
    """Takes out the oldest first, each partition's in its own order; until one of `until_empty` has none, or all."""
    while True:
        if until_empty is not None and not all(waiting[number] for number in until_empty):
            return
        heads = [(record_of(items[0]).timestamp or 0, number) for number, items in waiting.items() if items]
        if not heads:
            return
        yield waiting[min(heads)[1]].popleft()
