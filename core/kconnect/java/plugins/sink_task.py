"""A Java sink task in a chain of ours, or with its whole chain in Java.

What is fetched goes to Java in batches, each of which one put() takes. Java converts and puts one while Python fetches
the next: `take` and `put_soon` post it, `settle` takes the answers later.
"""

from __future__ import annotations

import base64
import itertools
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kconnect.api import RecordBatch, SinkRecord, SinkTask, TimestampType
from kconnect.errors import ConnectError
from kconnect.java.plugins.connection import JavaConnection
from kconnect.java.plugins.descriptions import version_of
from kconnect.java.plugins.encoded import EncodedFailure, JavaChain
from kconnect.java.plugins.hosting import Hosted
from kconnect.java.plugins.java_error import JavaHostDiedError, java_error
from kconnect.java.plugins.plugin_metrics import JavaMetrics
from kconnect.java.plugins.row_headers import bytes_of_text, read_headers, written_headers
from kconnect.java.plugins.wire_format import NO_TIME
from kconnect.model import NotedOffset, TopicPartition

if TYPE_CHECKING:
    from kconnect.java.plugins.blocks import BlockWriter
    from kconnect.java.plugins.runs import Column

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RawRun:
    """Records of one partition as they were fetched; lists run in parallel."""

    topic: str
    partition: int
    offsets: Sequence[int]
    keys: Sequence[bytes | None] | None
    values: Sequence[bytes | None]
    times: Iterable[int | None] | None
    time_type: str
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None


@dataclass(slots=True)
class JavaBatch:
    """What one put() of a Java task takes, as far as its answers have been taken."""

    number: int
    records: int = 0
    """How many records were sent; once Java has answered, how many the task is given, or was."""
    size: int = 0
    """Bytes that were sent of it."""
    unanswered: int = 0
    failures: deque[SinkFailure] = field(default_factory=deque)
    """Records that a stage could not do: one a part, whose records after it are not converted yet."""
    is_put: bool = False
    put_ms: float = 0.0
    error: ConnectError | None = None
    """What put() threw, or a stage that failed as a whole."""


@dataclass(frozen=True, slots=True)
class SinkFailure(EncodedFailure):
    """A record that a stage could not do; `raw` is a run of it alone, as it was read."""

    part: int
    raw: RawRun


Report = Callable[[RawRun, BaseException], object]
"""Takes a record that the task could not write, a run of one row, and its error."""
RawRecord = Callable[[str, int, int], RawRun | None]
"""What the record of a topic, partition and offset was read as, of those that are being put: a run of one row."""


ConsumerAnswer = Callable[[Mapping[str, Any]], Any]
"""Answers what a task asks of the consumer behind its context; see Java's HostConsumer."""


class JavaSinkTask(Hosted, SinkTask):
    """Runs o.a.k.connect.sink.SinkTask in the host JVM. Threads and errors as SinkTask's."""

    supports_batches = True

    def __init__(self) -> None:
        self._java: JavaConnection | None = None
        self._chain: JavaChain | None = None
        self._report: Report | None = None
        self._raw: RawRecord | None = None
        self._consumer: ConsumerAnswer | None = None
        self._reports = False
        """The task may report records: Java must know what each one was read as, for a report may come late."""
        self._batches = itertools.count()
        self._unanswered: deque[tuple[bool, JavaBatch]] = deque()
        """Whether it was a put, and of which batch."""
        self._asks_seen = 0
        self._metrics: JavaMetrics | None = None

    def decode_with(self, chain: JavaChain) -> None:
        """Have Java convert and transform as well: give records by `take`. Call before start()."""
        self._chain = chain

    def report_with(self, report: Report, raw: RawRecord) -> None:
        """What takes the records that the task reports as errant, and knows what they were read as."""
        self._report = report
        self._raw = raw

    def ask_consumer_by(self, answer: ConsumerAnswer) -> None:
        """What answers for the consumer of the task. Call before start()."""
        self._consumer = answer

    def version(self) -> str:
        return version_of(type(self))

    def start(self, props: Mapping[str, str]) -> None:
        self._metrics = JavaMetrics(self.context.plugin_metrics())
        self._java = self.connect("sink", answer=self._answer, event=self._event)
        chain = None if self._chain is None else self._chain.to_json()
        self._reports = self.context.errant_record_reporter() is not None
        self._call("start", config=dict(props), chain=chain or {}, tags=self._metrics.tags, reports=self._reports)

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self._call("open", partitions=_places(partitions))

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._call("close", partitions=_places(partitions))

    def put(self, records: list[SinkRecord]) -> None:
        from kconnect.java.plugins.runs import runs_of

        self._put_runs(runs_of(records))

    def put_batch(self, batch: RecordBatch) -> None:
        from kconnect.java.plugins.runs import Column

        key, value = Column.of_batch(batch.key_schema, batch.key), Column.of_batch(batch.value_schema, batch.value)
        self._put_runs([(batch, key, value)])

    # --- batches of bytes ---

    def new_batch(self) -> JavaBatch:
        """An empty one, after all others."""
        return JavaBatch(next(self._batches))

    def take(self, batch: JavaBatch, run: RawRun) -> None:
        """Have Java convert and transform records of a batch, meanwhile."""
        block = _block(batch, run)
        batch.size += block.size
        self._connection.post_block(block.done())
        batch.records += len(run.values)
        self._await(batch, is_put=False)

    def put_soon(self, batch: JavaBatch) -> None:
        """Have the task put a batch, meanwhile: if all of it could be done, and what came before it is put.

        Nothing is put after the task has asked for something (to be rewound, to be paused) until that is done.
        """
        self._connection.post_call("put", batch=batch.number, if_next=True, seen=self._asks_seen)
        self._await(batch, is_put=True)

    def settle(self, batch: JavaBatch) -> None:
        """Take the answers to all that was posted for a batch. Errors: JavaHostDiedError alone."""
        while batch.unanswered:
            self._take_answer()

    def put_now(self, batch: JavaBatch) -> None:
        """Have the task put a batch; after a RetriableError Java still has it."""
        self._put_answered(batch, self._call("put", batch=batch.number))

    def drop(self, batch: JavaBatch, partitions: Collection[TopicPartition]) -> None:
        """Forget what a batch has of these partitions: it will be read again, or by another task."""
        batch.records = int(self._call("drop", batch=batch.number, partitions=_places(partitions)))
        places = set(partitions)
        batch.failures = deque(
            failure
            for failure in batch.failures
            if TopicPartition(failure.raw.topic, failure.raw.partition) not in places
        )

    def go_on(self, batch: JavaBatch, part: int, row: int) -> SinkFailure | None:
        """Go on with the records of a part from a row on, after one that failed."""
        return self._failure(batch, self._call("go_on", batch=batch.number, part=part, **{"from": row}))

    # --- offsets, end ---

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        offsets = [[place.topic, place.partition, offset] for place, offset in current_offsets.items()]
        reported = self._call("pre_commit", offsets=offsets)
        return {
            TopicPartition(topic, partition): NotedOffset(offset, note) if note else offset
            for topic, partition, offset, note in reported
        }

    def stop(self) -> None:
        if self._java is not None:
            try:
                self._call("stop", partitions=_places(self.context.assignment()))
            except JavaHostDiedError as err:
                log.info("%s: its JVM is gone, so there is nothing to stop: %s", self.java_class, err)
            finally:
                self._java.close()
                self._java = None
                if self._metrics is not None:
                    self._metrics.close()

    # --- calls and answers ---

    @property
    def _connection(self) -> JavaConnection:
        if self._java is None:
            raise ConnectError(f"{self.java_class} is not started")
        return self._java

    def _await(self, batch: JavaBatch, *, is_put: bool) -> None:
        batch.unanswered += 1
        self._unanswered.append((is_put, batch))

    def _take_answer(self) -> None:
        is_put, batch = self._unanswered.popleft()
        batch.unanswered -= 1
        try:
            reported = self._answered(self._connection.answer())
        except JavaHostDiedError:
            raise
        except ConnectError as error:
            batch.error = batch.error or error
            return
        if is_put:
            self._put_answered(batch, reported)
        elif (failure := self._failure(batch, reported)) is not None:
            batch.failures.append(failure)

    @staticmethod
    def _put_answered(batch: JavaBatch, reported: Mapping[str, Any]) -> None:
        batch.records = int(reported["records"])
        batch.is_put = bool(reported["put"])
        batch.put_ms = float(reported.get("ms", 0.0))

    def _call(self, method: str, **arguments: Any) -> Any:
        while self._unanswered:
            self._take_answer()
        return self._answered(self._connection.call(method, **arguments))

    def _put_runs(self, runs: Sequence[tuple[RecordBatch, Column, Column]]) -> None:
        """Have the task put records that we have converted and transformed."""
        from kconnect.java.plugins.blocks import BlockWriter
        from kconnect.java.plugins.runs import run_head, write_run

        made = self.new_batch()
        if runs:
            raws = [self._raw_of(batch) if self._reports else None for batch, _, _ in runs]
            heads = [run_head(*run) for run in runs]
            for head, raw in zip(heads, raws, strict=True):
                if raw is not None:
                    head["raw"] = _raw_head(raw)
            block = BlockWriter({"batch": made.number, "runs": heads})
            for run, raw in zip(runs, raws, strict=True):
                write_run(block, *run)
                if raw is not None:
                    _write_raw(block, raw)
            self._answered(self._connection.block(block.done()))
        self.put_now(made)

    def _raw_of(self, batch: RecordBatch) -> RawRun | None:
        """What the records were read as; None where one of them was made by a transformation."""
        if self._raw is None or batch.kafka_offsets is None:
            return None
        topic, partition = batch.original_topic, batch.original_kafka_partition
        if topic is None or partition is None:
            return None
        rows = [self._raw(topic, partition, offset) for offset in batch.kafka_offsets.to_pylist()]
        found = [row for row in rows if row is not None]
        if len(found) < len(rows) or not rows:
            return None
        return RawRun(
            topic,
            partition,
            [row.offsets[0] for row in found],
            [None if row.keys is None else row.keys[0] for row in found],
            [row.values[0] for row in found],
            [None if row.times is None else next(iter(row.times)) for row in found],
            found[0].time_type,
            [None if row.headers is None else row.headers[0] for row in found],
        )

    def _answered(self, reported: Mapping[str, Any]) -> Any:
        """The result; what the task asked of its context meanwhile is done first."""
        asks = reported.get("asks")
        if asks:
            self._asks_seen += 1
            for topic, partition, offset in asks["offsets"]:
                self.context.offset(TopicPartition(topic, partition), offset)
            for what, topic, partition in asks["pauses"]:
                change = self.context.pause if what == "pause" else self.context.resume
                change(TopicPartition(topic, partition))
            if asks["timeout"] is not None:
                self.context.timeout(asks["timeout"])
            if asks["commit"]:
                self.context.request_commit()
        if "error" in reported:
            raise java_error(reported["error"], self.folder)
        return reported["result"]

    @staticmethod
    def _failure(batch: JavaBatch, reported: Mapping[str, Any]) -> SinkFailure | None:
        batch.records = int(reported["records"])
        found = reported.get("failure")
        if found is None:
            return None
        return SinkFailure(
            found["row"],
            found["stage"],
            found["class"],
            found["error"],
            found["place"] or "",
            reported["part"],
            _raw_run(found["raw"]),
        )

    def _event(self, what: str, arguments: Any) -> None:
        if self._metrics is not None:
            self._metrics.reported(what, arguments)

    def _answer(self, what: str, arguments: Any) -> Any:
        if what == "configs":
            return dict(self.context.configs())
        if what == "report":
            self._reported(arguments)
            return None
        if what == "consumer" and self._consumer is not None:
            return self._consumer(arguments)
        raise ConnectError(f"A sink task does not answer {what}")

    def _reported(self, reported: Mapping[str, Any]) -> None:
        error = java_error(reported["error"], self.folder)
        if self._report is not None and "value" in reported:
            self._report(_raw_run(reported), error)
            return
        reporter = self.context.errant_record_reporter()
        if reporter is None or "block" not in reported:
            raise ConnectError("This connector has no error reporting configured")
        reporter.report(_made_record(reported), error)


def _block(batch: JavaBatch, run: RawRun) -> BlockWriter:
    """What Java's SinkCalls.block reads."""
    from kconnect.java.plugins.blocks import BlockWriter

    block = BlockWriter({"batch": batch.number, **_raw_head(run)})
    _write_raw(block, run)
    return block


def _raw_head(run: RawRun) -> dict[str, Any]:
    head: dict[str, Any] = {
        "topic": run.topic,
        "partition": run.partition,
        "rows": len(run.values),
        "time": run.time_type,
    }
    if run.headers is not None:
        head["headers"] = written_headers(run.headers)
    return head


def _write_raw(block: BlockWriter, run: RawRun) -> None:
    """What Java's SinkCalls.fetched reads."""
    import pyarrow as pa

    count = len(run.values)
    block.longs(run.offsets)
    block.longs([NO_TIME] * count if run.times is None else pa.array(run.times, pa.int64()).fill_null(NO_TIME))
    block.binary(pa.nulls(count, pa.binary()) if run.keys is None else pa.array(run.keys, pa.binary()))
    block.binary(pa.array(run.values, pa.binary()))


def _raw_run(reported: Mapping[str, Any]) -> RawRun:
    """A record as Java's SinkCalls.described tells it."""
    headers = read_headers([reported["headers"]])
    return RawRun(
        reported["topic"],
        reported["partition"],
        [reported["offset"]],
        [bytes_of_text(reported["key"])],
        [bytes_of_text(reported["value"])],
        None if reported["timestamp"] is None else [reported["timestamp"]],
        reported["time"],
        list(headers.values()),
    )


def _made_record(reported: Mapping[str, Any]) -> SinkRecord:
    """A record that the task made, as Java's SinkCalls.described tells it for converters of ours."""
    from kconnect.java.plugins.blocks import BlockReader
    from kconnect.java.plugins.runs import Run

    block = BlockReader(base64.b64decode(reported["block"]))
    run = Run(block, block.head()["runs"][0], by_rows=True)
    ((key, value, time, headers),) = run.records()
    topic, partition, offset = reported["original"]
    return SinkRecord(
        run.topic,
        run.head["partition"],
        run.key.schema,
        key,
        run.value.schema,
        value,
        reported["offset"],
        timestamp=time,
        timestamp_type=TimestampType(reported["time"]),
        headers=headers,
        original_topic=topic,
        original_kafka_partition=partition,
        original_kafka_offset=offset,
    )


def _places(partitions: Collection[TopicPartition]) -> list[list[Any]]:
    return [[place.topic, place.partition] for place in partitions]
