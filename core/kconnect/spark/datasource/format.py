"""`format("kconnect")` as Spark sees it: `register`, `spark.read`, and `df.write` and `df.writeStream`.

Each Spark partition is written by a task of the sink. Streams that are read need a later pyspark: stream_reader.py.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from kconnect.api import SinkConnector, SinkTask, SourceConnector
from kconnect.errors import ConfigError, ConnectError
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
from kconnect.spark.arrow_types import arrow_schema, check_record_types, struct_type
from kconnect.spark.datasource.columns import Columns, check_record_columns, inferred, is_record_schema
from kconnect.spark.datasource.connector import ConnectorOfFormat, SourcePlanningContext
from kconnect.spark.datasource.failures import ROWS_OF_A_WRITE, reported_to_spark
from kconnect.spark.datasource.positions import Positions
from kconnect.spark.datasource.rows_as_topic import RowsCalls, RowsConsumer, RowsConversion, Span
from kconnect.spark.datasource.sink_rows import SinkLayout
from kconnect.spark.datasource.source_task import read_to_end
from kconnect.spark.no_host import ports_without_host

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("kconnect")` known to a Spark session: once, before the first use."""
    if not is_remote():  # a session of Spark Connect has no context, and its Python is the server's
        context = spark.sparkContext
        if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # else Spark runs python3 of the PATH, which a notebook's is often not
    spark.dataSource.register(KConnectFormat)


class KConnectFormat(DataSource):
    """Made by Spark wherever a query is planned; holds the options only."""

    _is_inferred = False

    @classmethod
    def name(cls) -> str:
        return "kconnect"

    def schema(self) -> StructType:
        """Asked for when the user gives none: what the first records look like."""
        with reported_to_spark(""):
            connector = self._connector(SourceConnector)
        with reported_to_spark("looking for its columns"):
            self._is_inferred = True
            return struct_type(_inferred_schema(connector))

    def reader(self, schema: StructType) -> DataSourceReader:
        with reported_to_spark(""):
            return ConnectorReader(self._connector(SourceConnector), self._columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with reported_to_spark(""):
            if not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
                raise ConnectError(
                    f"readStream.format('kconnect') needs pyspark 4.2 or later, this is {pyspark.__version__}",
                    hint="Install a later pyspark, or read with spark.read, which works here.",
                )
            from kconnect.spark.datasource.stream_reader import ConnectorStreamReader

            return ConnectorStreamReader(self._connector(SourceConnector), self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with reported_to_spark(""):
            if overwrite:
                raise ConfigError(
                    'A connector cannot overwrite what it has written: mode("overwrite") does not exist here',
                    hint='Write with .mode("append").',
                )
            return ConnectorWriter(self._connector(SinkConnector), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        with reported_to_spark(""):
            if overwrite:
                raise ConfigError(
                    'A connector cannot write each batch over the last: outputMode("complete") does not exist here',
                    hint='Write with .outputMode("append"), or "update" for a sink that upserts by key.',
                )
            return ConnectorStreamWriter(self._connector(SinkConnector), schema)

    def _connector(self, kind: Any) -> ConnectorOfFormat:  # SourceConnector or SinkConnector
        return ConnectorOfFormat(dict(self.options), kind)

    def _columns(self, schema: StructType) -> Columns:
        chosen = self.options.get("kconnect.columns", "auto")
        is_record = is_record_schema(schema.fieldNames()) if chosen == "auto" else chosen == "record"
        check_record_types(schema)
        columns = arrow_schema(schema)
        if is_record:
            check_record_columns(columns)
        return Columns(columns, is_record, is_strict=self._is_inferred)


def _inferred_schema(connector: ConnectorOfFormat) -> Any:  # a pa.Schema
    is_record = connector.options.columns != "value"
    for index, config in enumerate(connector.task_configs(SourcePlanningContext(Positions()))):
        rows = read_to_end(
            connector, config, index, timeout_s=connector.options.schema_timeout_s, letters=False, even_empty=True
        )
        try:
            first = list(itertools.islice(rows, 1))
        finally:
            rows.close()  # type: ignore[attr-defined]  # a generator: the task stops here
        if first:
            return inferred(first, is_record=is_record)
    raise ConnectError(
        "No record came by which to see the columns: the source is empty, or it needs longer than "
        f"{connector.options.schema_timeout_s:g} s (kconnect.schema.timeout.ms)",
        hint='Give them: .schema("value STRING, topic STRING") for records, or the fields of the value: '
        '.schema("id BIGINT, name STRING").',
    )


class TaskPart(InputPartition):
    """One task of the connector."""

    def __init__(self, index: int, config: dict[str, str]) -> None:
        self.index = index
        self.config = config

    def __repr__(self) -> str:
        return f"TaskPart({self.index})"  # no settings: they may be secret


class ConnectorReader(DataSourceReader):
    """Planned beside the driver; `read` runs on executors."""

    def __init__(self, connector: ConnectorOfFormat, columns: Columns) -> None:
        self._connector, self._columns = connector, columns

    def partitions(self) -> Sequence[InputPartition]:
        with reported_to_spark("planning its tasks"):
            configs = self._connector.task_configs(SourcePlanningContext(Positions()))
            return [TaskPart(index, config) for index, config in enumerate(configs)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPart)
        with reported_to_spark(f"reading task {partition.index}"):
            for rows in read_to_end(self._connector, partition.config, partition.index):
                yield self._columns.batch(rows)


# Local properties that Spark sets on the jobs of a streaming query
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
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

    def __init__(self, connector: ConnectorOfFormat, columns: StructType) -> None:
        settings = connector.sink_config()
        self._connector = connector
        check_record_types(columns)
        self._layout = SinkLayout.of(
            arrow_schema(columns),
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
        with reported_to_spark(f"writing {span}", span.first):
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
        first = int(batch_id) * ROWS_OF_A_WRITE
        return Span(partition, first, first + ROWS_OF_A_WRITE, f"partition {number} of batch {batch_id}")

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
