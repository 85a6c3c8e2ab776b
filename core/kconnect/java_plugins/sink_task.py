"""A Java sink task in a chain of ours, or with its whole chain in Java."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import RecordBatch, SinkRecord, SinkTask
from kconnect.errors import ConnectError
from kconnect.java_plugins.connection import JavaConnection
from kconnect.java_plugins.descriptions import version_of
from kconnect.java_plugins.encoded import EncodedFailure, JavaChain
from kconnect.java_plugins.hosting import Hosted
from kconnect.java_plugins.java_error import java_error
from kconnect.java_plugins.wire_format import NO_TIME
from kconnect.model import TopicPartition

if TYPE_CHECKING:
    from kconnect.java_plugins.runs import Column


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


Report = Callable[[RawRun, BaseException], object]
"""Takes a record that the task could not write, a run of one row, and its error."""


class JavaSinkTask(Hosted, SinkTask):
    """Runs o.a.k.connect.sink.SinkTask in the host JVM. Threads and errors as SinkTask's."""

    supports_batches = True

    def __init__(self) -> None:
        self._java: JavaConnection | None = None
        self._chain: JavaChain | None = None
        self._report: Report | None = None
        self.taken = 0
        """Records that Java has taken and not put."""

    def decode_with(self, chain: JavaChain, report: Report) -> None:
        """Have Java convert and transform as well: give records by `take`. Call before start().

        `report` takes what the task reports as errant, with the bytes it was read as.
        """
        self._chain = chain
        self._report = report

    @property
    def decodes(self) -> bool:
        """Whether Java converts and transforms."""
        return self._chain is not None

    def version(self) -> str:
        return version_of(type(self))

    def start(self, props: Mapping[str, str]) -> None:
        self._java = self.connect("sink", answer=self._answer)
        chain = None if self._chain is None else self._chain.to_json()
        reports = self.context.errant_record_reporter() is not None
        self._call("start", config=dict(props), chain=chain or {}, tags=self.tags(props), reports=reports)

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self._call("open", partitions=_places(partitions))

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._call("close", partitions=_places(partitions))

    def put(self, records: list[SinkRecord]) -> None:
        from kconnect.java_plugins.runs import batch_of_one

        for record in records:
            self._give(*batch_of_one(record))
        self.put_taken()

    def put_batch(self, batch: RecordBatch) -> None:
        from kconnect.java_plugins.runs import Column

        self._give(
            batch, Column.of_batch(batch.key_schema, batch.key), Column.of_batch(batch.value_schema, batch.value)
        )
        self.put_taken()

    def put_taken(self) -> None:
        """Have the task put what Java has taken since the last one; after a RetriableError it still has it."""
        self._call("put")
        self.taken = 0

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what Java has taken of these partitions: it will be read again, or by another task."""
        self.taken = int(self._call("drop", partitions=_places(partitions)))

    def take(self, run: RawRun) -> EncodedFailure | None:
        """Have Java convert and transform records; they are put with the next `put_taken`."""
        import pyarrow as pa

        from kconnect.java_plugins.blocks import BlockWriter

        count = len(run.values)
        head: dict[str, Any] = {
            "bytes": True,
            "topic": run.topic,
            "partition": run.partition,
            "rows": count,
            "time": run.time_type,
        }
        if run.headers is not None:
            head["headers"] = [
                [row, *(part for key, value in given for part in (key, _base64(value)))]
                for row, given in enumerate(run.headers)
                if given
            ]
        block = BlockWriter(head)
        block.longs(run.offsets)
        times = None if run.times is None else list(run.times)
        block.longs([NO_TIME] * count if times is None else [NO_TIME if time is None else time for time in times])
        block.binary(pa.nulls(count, pa.binary()) if run.keys is None else pa.array(run.keys, pa.binary()))
        block.binary(pa.array(run.values, pa.binary()))
        return self._failure(self._answered(self._connection.block(block.done())))

    def go_on(self, row: int) -> EncodedFailure | None:
        """Go on with the records of the last `take` from a row on, after one that failed."""
        return self._failure(self._call("go_on", **{"from": row}))

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        offsets = [[place.topic, place.partition, offset] for place, offset in current_offsets.items()]
        told = self._call("pre_commit", offsets=offsets)
        return {TopicPartition(topic, partition): offset for topic, partition, offset in told}

    def stop(self) -> None:
        if self._java is not None:
            try:
                self._call("stop")
            finally:
                self._java.close()
                self._java = None

    @property
    def _connection(self) -> JavaConnection:
        if self._java is None:
            raise ConnectError(f"{self.java_class} is not started")
        return self._java

    def _give(self, batch: RecordBatch, key: Column, value: Column) -> None:
        from kconnect.java_plugins.blocks import BlockWriter
        from kconnect.java_plugins.runs import run_head, write_run

        block = BlockWriter({"runs": [run_head(batch, key, value)]})
        write_run(block, batch, key, value)
        self._answered(self._connection.block(block.done()))

    def _call(self, method: str, **arguments: Any) -> Any:
        return self._answered(self._connection.call(method, **arguments))

    def _answered(self, told: Mapping[str, Any]) -> Any:
        """The result; what the task asked of its context meanwhile is done first."""
        asks = told.get("asks")
        if asks:
            for topic, partition, offset in asks["offsets"]:
                self.context.offset(TopicPartition(topic, partition), offset)
            for what, topic, partition in asks["pauses"]:
                change = self.context.pause if what == "pause" else self.context.resume
                change(TopicPartition(topic, partition))
            if asks["timeout"] is not None:
                self.context.timeout(asks["timeout"])
            if asks["commit"]:
                self.context.request_commit()
        return told["result"]

    def _failure(self, told: Mapping[str, Any]) -> EncodedFailure | None:
        self.taken = int(told["records"])
        found = told.get("failure")
        return None if found is None else EncodedFailure(found["row"], found["stage"], found["class"], found["error"])

    def _answer(self, what: str, arguments: Any) -> Any:
        if what == "configs":
            return dict(self.context.configs())
        if what == "report":
            reporter = self.context.errant_record_reporter()
            if reporter is None:
                raise ConnectError("This connector has no error reporting configured")
            record = SinkRecord(arguments["topic"], arguments["partition"], None, None, None, None, arguments["offset"])
            reporter.report(record, java_error(arguments["error"], self.folder))
            return None
        raise ConnectError(f"A sink task does not answer {what}")

    def _reported(self, told: Mapping[str, Any]) -> None:
        error = java_error(told["error"], self.folder)
        topic, partition, offset = told["topic"], told["partition"], told["offset"]
        if self._report is not None and "value" in told:
            key, value, headers = _bytes(told["key"]), _bytes(told["value"]), told["headers"][1:]
            pairs = [(headers[at], _bytes(headers[at + 1])) for at in range(0, len(headers), 2)]
            times = None if told["timestamp"] is None else [told["timestamp"]]
            self._report(RawRun(topic, partition, [offset], [key], [value], times, told["time"], [pairs]), error)
            return
        reporter = self.context.errant_record_reporter()
        if reporter is None:
            raise ConnectError("This connector has no error reporting configured")
        reporter.report(SinkRecord(topic, partition, None, None, None, None, offset), error)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _places(partitions: Collection[TopicPartition]) -> list[list[Any]]:
    return [[place.topic, place.partition] for place in partitions]


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
