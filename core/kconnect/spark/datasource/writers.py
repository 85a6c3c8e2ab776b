"""`df.write` and `df.writeStream.format("kconnect")`: each Spark partition is written by a task of the sink."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kconnect.api import SinkTask
from kconnect.errors import ConfigError
from kconnect.model import ConnectorType
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.build_stages import sink_stages
from kconnect.runtime.pipeline.plugin_parts import make_task
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.retries import FIRST_PUT_PAUSE_S, Patience, Retries
from kconnect.runtime.pipeline.sink import SinkLoop, SinkParts
from kconnect.runtime.pipeline.sink_commits import CommitTimes
from kconnect.runtime.pipeline.sink_context import SinkContext
from kconnect.runtime.pipeline.stages import StageError
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.failures import reported_to_spark
from kconnect.spark.datasource.rows_as_topic import RowsCalls, RowsConsumer, RowsConversion, Span
from kconnect.spark.datasource.sink_rows import SinkLayout
from kconnect.spark.no_host import ports_without_host

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
        with reported_to_spark(f"writing {span}"):
            config = self._named(context.getLocalProperty(_QUERY_ID))
            write = RowsWrite(self._connector, config, context.partitionId(), self._layout, iterator, span)
            try:
                return write.run()
            except StageError as failure:
                offset = getattr(failure.record, "original_kafka_offset", None)
                if offset is not None:
                    failure.place += f" (row {offset - span.first} of {span})"
                raise

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

    def _named(self, query_id: str | None) -> dict[str, str]:
        """The config of a task, with a name that lasts as long as the checkpoint, unless the options give one.

        Writes of their own share a name: a sink that keeps offsets by it must not keep those of each write endlessly.
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


class RowsWrite:
    """A task of the sink, run by the worker's loop over the rows of one Spark partition. Threads: one.

    A task may skip ahead to an offset when a partition is opened, as one does that keeps offsets with its data: rows
    before it are there already.
    """

    def __init__(
        self,
        connector: ConnectorOfFormat,
        config: Mapping[str, str],
        index: int,
        layout: SinkLayout,
        batches: Iterator[pa.RecordBatch],
        span: Span,
    ) -> None:
        connector.hides_secrets([config])
        ports, options = ports_without_host(connector.plugins), connector.options
        control = self._control = TaskControl(connector.spec(ConnectorType.SINK, index, config), ports)
        task: SinkTask = make_task(connector.config, connector.plugins, SinkTask)  # type: ignore[type-abstract]  # looks for a subclass
        stages = sink_stages(control, ports, type(task))
        self._tolerance = tolerance = stages.tolerance
        self._flush_timeout_s = options.flush_timeout_s
        patience = Patience(options.retry_timeout_s, "kconnect.retry.timeout.ms")
        cap_s = tolerance.settings.retry_delay_max_ms / 1000
        flushes = Retries(control, task, "pre_commit", first_s=FIRST_PUT_PAUSE_S, cap_s=cap_s, patience=patience)
        consumer = self._consumer = RowsConsumer(control, task, layout, batches, span, options)
        context = SinkContext(consumer, lambda: config, control.monitor.of_task, stages.reporter)
        consumer.request_commit = context.request_commit
        parts = SinkParts(
            calls=RowsCalls(consumer, control, flushes, task, config, context, stages.raw_records),
            forms=RowsConversion(stages, takes_batches=task.supports_batches),
            stages=stages,
            consumer=consumer,
            # When to commit, the consumer says
            commit_times=CommitTimes(
                interval_s=float("inf"), timeout_s=self._flush_timeout_s, end_timeout_s=self._flush_timeout_s
            ),
            topics=(),
            max_records=1,
            patience=patience,
            clock=ports.clock,
        )
        self._loop = SinkLoop(control, parts)

    def run(self) -> WrittenRows:
        """Have the task write all rows; they are durable when it returns.

        Errors: StageError; ConflictError; TimedOutError; ConnectError for rows that the task wants again, but that are
        not kept any more; what the task raises.
        """
        try:
            self._loop.start()
            self._loop.run()
            self._tolerance.settle(self._flush_timeout_s)
        finally:
            self._control.stop()
            self._loop.close()
        return WrittenRows(self._consumer.rows, self._tolerance.counts.skipped)
