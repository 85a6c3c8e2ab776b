"""`df.write` and `df.writeStream.format("kconnect")`: each Spark partition is written by a task of the sink."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kconnect.errors import ConfigError, ConflictError
from kconnect.model import TopicPartition
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.stages import StageError
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.failures import told_to_spark
from kconnect.spark.datasource.sink_rows import RowsAsRead, SinkLayout
from kconnect.spark.datasource.sink_task import SinkTaskRun

if TYPE_CHECKING:
    import pyarrow as pa

# Local properties that Spark sets on the jobs of a streaming query
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
# Offsets of one partition in one batch of a query
_OFFSETS_OF_A_BATCH: Final = 1 << 32
# A write of its own begins at its time in ms, and no task writes a million rows a ms: a later write has later offsets
_OFFSETS_OF_A_MS: Final = 1 << 20
_PARTITIONS_OF_A_QUERY: Final = 1 << 16
_QUERIES: Final = 1 << 15


@dataclass
class WrittenRows(WriterCommitMessage):
    """What one Spark task wrote."""

    rows: int
    skipped: int


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


class _Writing:
    """What both writers share: made in Spark's planner, used on executors.

    A record's place is the same in a replay, so that a sink that knows records by topic, partition and offset has each
    once: in a query the partition is made of the query's id and Spark's partition, the offset of batch and row; in a
    write of its own they are Spark's partition, and the time of the write and the row.
    """

    def __init__(self, connector: ConnectorOfFormat, names: Sequence[str]) -> None:
        settings = connector.sink_config()
        self._connector = connector
        self._layout = SinkLayout.of(
            names,
            connector.options.columns,
            connector.topic,
            reads_key=settings.key_converter is not None,
            reads_value=settings.value_converter is not None,
        )
        self._configs = connector.task_configs(_SinkPlanningContext())
        if not self._configs:
            raise ConfigError(f"The connector {connector.config['connector.class']} has no task to run")
        self._begun_ms = time.time_ns() // 1_000_000

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """On an executor: all rows of one partition, durable when it returns."""
        context = TaskContext.get()
        assert context is not None, "Spark calls it in its tasks"
        span = self._span(context)
        with told_to_spark(f"writing {span}"):
            config = self._named(context.getLocalProperty(_QUERY_ID))
            run = SinkTaskRun(self._connector, config, context.partitionId())
            try:
                run.start()
                rows = self._put_all(run, iterator, span)
                run.finish()
            except StageError as failure:
                offset = getattr(failure.record, "original_kafka_offset", None)
                if offset is not None:
                    failure.place += f" (row {offset - span.first} of {span})"
                raise
            finally:
                run.stop()
        return WrittenRows(rows, run.skipped)

    def _span(self, context: TaskContext) -> Span:
        """Where the rows of this Spark task belong."""
        number, batch_id = context.partitionId(), context.getLocalProperty(_BATCH_ID)
        query_id = context.getLocalProperty(_QUERY_ID)
        if batch_id is None or query_id is None:
            first = self._begun_ms * _OFFSETS_OF_A_MS
            # Of its own rows a first attempt has written none
            return Span(number, first, first if context.attemptNumber() == 0 else None, f"partition {number}")
        if number >= _PARTITIONS_OF_A_QUERY:
            raise ConfigError(f"Partition {number} is beyond the {_PARTITIONS_OF_A_QUERY:,} that a query may write")
        partition = (zlib.crc32(query_id.encode()) % _QUERIES) * _PARTITIONS_OF_A_QUERY + number
        first = int(batch_id) * _OFFSETS_OF_A_BATCH
        return Span(partition, first, first + _OFFSETS_OF_A_BATCH, f"partition {number} of batch {batch_id}")

    def _put_all(self, run: SinkTaskRun, batches: Iterator[pa.RecordBatch], span: Span) -> int:
        next_offsets: dict[TopicPartition, int] = {}
        rows = 0
        for batch in batches:
            for topic, part in self._layout.by_topic(batch, rows):
                place = TopicPartition(topic, span.partition)
                at = next_offsets.get(place, span.first)
                done = min(max(span.known(place, run.open(place, at)) - at, 0), part.num_rows)
                next_offsets[place] = at + part.num_rows
                if done < part.num_rows:
                    rest = RowsAsRead(self._layout, part.slice(done), place, at + done)
                    run.put(place, rest.fetched, rest.records)
            rows += batch.num_rows
        return rows

    def _named(self, query_id: str | None) -> dict[str, str]:
        """The config of a task, with a name that lasts as long as the checkpoint, unless the options give one.

        Writes of their own share a name: a sink that keeps offsets by it must not keep those of each write for ever.
        """
        index = TaskContext.get().partitionId() % len(self._configs)  # type: ignore[union-attr]  # checked in write
        if self._connector.is_named:
            return self._configs[index]
        name = "spark-write" if query_id is None else f"spark-{query_id}"
        self._connector.config["name"] = name
        return {**self._configs[index], "name": name}


class ConnectorWriter(_Writing, DataSourceArrowWriter):
    """df.write: append only."""


class ConnectorStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """df.writeStream: rows are durable in the sink before Spark commits the batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is left to do: each task has flushed."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What other tasks have written stays: Spark repeats the batch, and at least once is what sinks give."""


class _SinkPlanningContext:
    """What a sink connector may ask while Spark plans: a SinkConnectorContext."""

    def plugin_metrics(self) -> Any:
        return PluginMetricsRegistry().of_plugin(connector="kconnect")

    def request_task_reconfiguration(self) -> None:
        """The tasks of a write are planned once."""

    def raise_error(self, error: BaseException) -> None:
        raise error
