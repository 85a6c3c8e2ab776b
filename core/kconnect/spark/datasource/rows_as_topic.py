"""The rows of one Spark partition as topics that a sink's loop reads by position, and what it makes of a fetch.

The loop is the worker's. What differs is here: nobody gives these rows again, so that they are kept until the task
allows their offsets; and there is an end, at which the task must have written all of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import RecordBatch, SinkTask
from kconnect.errors import ConflictError, ConnectError, RetriableError, TimedOutError
from kconnect.model import TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import Behind, RebalanceListener
from kconnect.runtime.pipeline.build_stages import SinkStages
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.put_queue import PutBatch
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.retries import Retries
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_context import SinkContext
from kconnect.runtime.pipeline.sink_conversion import put_batch
from kconnect.runtime.pipeline.sink_puts import put_of
from kconnect.spark.datasource.options import FormatOptions
from kconnect.spark.datasource.sink_rows import RowsAsRead, SinkLayout

if TYPE_CHECKING:
    import pyarrow as pa

# How often a sink that holds rows back is asked again
_FLUSH_AGAIN_S: Final = 0.05
# Rows that are kept for a task that goes back: with each 64 MB it is asked whether they are written; beyond 256 MB the
# first go
_ASKED_BYTES: Final = 64 << 20
_KEPT_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class Span:
    """The partition and offsets of what one Spark task writes. `last`: up to there the sink may have its rows already.

    None: it may have any.
    """

    partition: int
    first: int
    last: int | None
    name: str

    def known(self, place: TopicPartition, offset: int) -> int:
        """The offset from which the sink wants rows. Errors: ConflictError when another writer has gone further."""
        if self.last is not None and offset > self.last:
            raise ConflictError(
                f"The sink has rows of {place} up to offset {offset}, behind those of this write ({self.first})",
                hint='Another writes there: run this write again, or give each an .option("name", ..) of its own.',
            )
        return offset

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class _Place:
    """One partition of the sink's. Offsets are those of the next row: to give, to come, and not yet allowed."""

    position: int
    end: int
    committed: int = -1
    kept: deque[RowsAsRead] = field(default_factory=deque)


class RowsConsumer:
    """Implements SinkConsumer. Threads: the loop's.

    A partition is assigned with its first row. Rows that the task has already are passed over. Behind the last row the
    task is asked what it has written until that is all; then its partitions are closed and the loop is stopped.
    Errors: ConnectError for rows that are not kept any more, with which Spark runs the task again; TimedOutError for
    rows that are held back, or partitions paused, for longer than kconnect.flush.timeout.ms; those of Spark's rows.
    """

    def __init__(
        self,
        control: TaskControl,
        task: SinkTask,
        layout: SinkLayout,
        batches: Iterator[pa.RecordBatch],
        span: Span,
        options: FormatOptions,
    ) -> None:
        self.rows = 0
        """How many Spark gave."""
        self.request_commit: Callable[[], None] = lambda: None
        """Set it to the context's."""
        self._control = control
        self._name = type(task).__name__
        self._layout, self._batches, self._span, self._options = layout, batches, span, options
        self._listener: RebalanceListener
        self._places: dict[TopicPartition, _Place] = {}
        self._paused: set[TopicPartition] = set()
        self._kept_bytes = self._asked_bytes = 0
        self._is_exhausted = False
        self._waits_since_s: float | None = None

    def are_all(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether no row comes behind these offsets."""
        return self._is_exhausted and all(offsets.get(at, -1) >= place.end for at, place in self._places.items())

    # --- SinkConsumer ---

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self._places)

    def subscribe(self, topics: Sequence[str] | TopicPattern, listener: RebalanceListener) -> None:
        self._listener = listener

    def fetch(self, max_records: int, timeout_s: float) -> Sequence[RowsAsRead]:
        """The next rows of one partition."""
        while True:
            waiting = [at for at, place in self._places.items() if place.position < place.end]
            for at in waiting:
                if at not in self._paused:
                    self._waits_since_s = None
                    return [self._next_of(self._places[at])]
            if waiting:
                self._wait(timeout_s, f"{self._name} has paused {', '.join(map(str, waiting))} for")
                return ()
            if not self._take_batch():
                self._finish(timeout_s)
                return ()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        place, offset = self._places[partition], max(offset, self._span.first)
        if offset < place.position and (not place.kept or offset < place.kept[0].first_offset):
            raise ConnectError(f"{self._name} asks for rows of {partition} again, which Spark has given already")
        place.position = offset

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.difference_update(partitions)

    def behind(self, positions: Mapping[TopicPartition, int]) -> Behind:
        return Behind(0, 0)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        for at, offset in offsets.items():
            place = self._places[at]
            place.committed = offset
            while place.kept and place.kept[0].next_offset <= offset:
                self._let_go(place)

    def commit_async(self, offsets: Mapping[TopicPartition, int], done: Callable[[ConnectError | None], None]) -> None:
        self.commit(offsets, 0)
        done(None)

    def close(self) -> None:
        """Spark closes its rows."""

    # --- rows ---

    def _next_of(self, place: _Place) -> RowsAsRead:
        rows = next(rows for rows in place.kept if rows.next_offset > place.position).since(place.position)
        place.position = rows.next_offset
        return rows

    def _take_batch(self) -> bool:
        """Whether Spark gave more rows, for whichever partition."""
        batch = None if self._is_exhausted else next(self._batches, None)
        if batch is None:
            self._is_exhausted = True
            return False
        for topic, part in self._layout.by_topic(batch, self.rows):
            at = TopicPartition(topic, self._span.partition)
            place = self._places.get(at) or self._assign(at)
            rows = RowsAsRead(self._layout, part, at, place.end)
            place.end = rows.next_offset
            place.kept.append(rows)
            self._kept_bytes += rows.size
        self.rows += batch.num_rows
        self._bound_what_is_kept()
        return True

    def _assign(self, at: TopicPartition) -> _Place:
        first = self._span.first
        place = self._places[at] = _Place(first, first)
        place.position = max(self._span.known(at, self._listener.assigned([at]).get(at, first)), first)
        self._paused.update(self._listener.to_pause([at]))
        return place

    def _bound_what_is_kept(self) -> None:
        if self._kept_bytes - self._asked_bytes > _ASKED_BYTES:
            self._asked_bytes = self._kept_bytes
            self.request_commit()
        for place in self._places.values():
            while self._kept_bytes > _KEPT_BYTES and place.kept and place.kept[0].next_offset <= place.position:
                self._let_go(place)

    def _let_go(self, place: _Place) -> None:
        self._kept_bytes -= place.kept.popleft().size
        self._asked_bytes = min(self._asked_bytes, self._kept_bytes)

    # --- waits ---

    def _finish(self, timeout_s: float) -> None:
        """Behind the last row: ask what is written, or close the partitions and stop the loop."""
        late = [at for at, place in self._places.items() if place.committed < place.end]
        if not late:
            self._listener.lost(sorted(self._places))
            self._places.clear()
            self._control.stop()
        elif self._control.health.is_failing and self._paused >= self._places.keys():
            self._control.wait(timeout_s)  # until the last put() is repeated
        else:
            if self._waits_since_s is None:
                self._waits_since_s = time.monotonic()
            else:
                names = ", ".join(map(str, late))
                self._wait(_FLUSH_AGAIN_S, f"{self._name} holds back rows of {names} for longer than")
            self.request_commit()

    def _wait(self, timeout_s: float, reported: str) -> None:
        """Errors: TimedOutError once waits have lasted for as long as they may; calls that fail have their own time."""
        now_s, limit_s = time.monotonic(), self._options.flush_timeout_s
        if self._waits_since_s is None:
            self._waits_since_s = now_s
        patience_s = limit_s + (self._options.retry_timeout_s if self._control.health.is_failing else 0)
        if now_s - self._waits_since_s >= patience_s:
            raise TimedOutError(
                f"{reported} {limit_s:g} s",
                hint="kconnect.flush.timeout.ms is how long it may; have it flush sooner by its own settings.",
            )
        self._control.wait(min(timeout_s, _FLUSH_AGAIN_S))


class RowsConversion:
    """Rows through converters and transformations. Implements SinkForms. Threads: the loop's."""

    def __init__(self, stages: SinkStages, *, takes_batches: bool) -> None:
        self._stages, self._takes_batches = stages, takes_batches

    def batch_of(self, run: RowsAsRead) -> PutBatch:
        raw_records, transforms = self._stages.raw_records, self._stages.transforms
        fetched = (run.fetched,) if raw_records.is_wanted else ()
        raw_records.at_hand = fetched
        made: Any = run.records(self._stages.converters)
        if len(transforms):
            is_batch = isinstance(made, RecordBatch)
            made = (transforms.apply_batch(made) if is_batch else transforms.apply_records(made)) or []
        if isinstance(made, RecordBatch) and not self._takes_batches:
            made = made.to_records()
        return put_batch(run, put_of(made, fetched))

    def ended(self, *, puts: bool) -> None:
        """Nothing is under way."""


class RowsCalls(SinkCalls):
    """Tells the task which pre_commit is behind the last row, and waits before one that failed is repeated."""

    def __init__(
        self,
        rows: RowsConsumer,
        control: TaskControl,
        retries: Retries,
        task: SinkTask,
        config: Mapping[str, str],
        context: SinkContext,
        raw_records: RawRecords,
    ) -> None:
        super().__init__(task, config, context, partial(plugin_call, health=control.health), raw_records)
        self._rows, self._control, self._retries = rows, control, retries

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Errors: also TimedOutError once it has failed for kconnect.retry.timeout.ms."""
        try:
            with self.context.closing(is_end=True) if self._rows.are_all(offsets) else nullcontext():
                allowed = super().pre_commit(offsets)
        except RetriableError as error:
            self._control.wait(self._retries.failed(error, self.context.take_timeout_s()))
            raise
        if self._retries.is_on:
            self._retries.went_well(moved=True)
        return allowed
