"""`df.write` and `df.writeStream.format("kconnect")`: each Spark partition is written by a task of the sink."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kconnect.errors import ConfigError
from kconnect.metrics import PluginMetricsRegistry
from kconnect.model import TopicPartition
from kconnect.pipeline.stages import StageError
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.failures import told_to_spark
from kconnect.spark.datasource.sink_rows import SinkLayout
from kconnect.spark.datasource.sink_task import SinkTaskRun

if TYPE_CHECKING:
    import pyarrow as pa

# Local properties that Spark sets on the jobs of a streaming query
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
# Rows of one batch in one partition: offsets are batch number and row
_OFFSETS_OF_A_BATCH: Final = 1 << 32


@dataclass
class WrittenRows(WriterCommitMessage):
    """What one Spark task wrote."""

    rows: int
    skipped: int


class _Writing:
    """What both writers share: made in Spark's planner, used on executors.

    A record's offset is the number of its batch and row, the same in a replay, so that a sink that knows records by
    topic, partition and offset has each once. Its partition is Spark's.
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
        self._job = uuid.uuid4().hex[:8]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """On an executor: all rows of one partition, durable when it returns."""
        context = TaskContext.get()
        assert context is not None, "Spark calls it in its tasks"
        partition, batch_id = context.partitionId(), context.getLocalProperty(_BATCH_ID)
        place = f"partition {partition}" + ("" if batch_id is None else f" of batch {batch_id}")
        first = int(batch_id or 0) * _OFFSETS_OF_A_BATCH
        with told_to_spark(f"writing {place}"):
            config = self._named(context.getLocalProperty(_QUERY_ID))
            run = SinkTaskRun(self._connector, config, partition)
            try:
                run.start()
                rows = self._put_all(run, iterator, partition, first)
                run.finish()
            except StageError as failure:
                offset = getattr(failure.record, "original_kafka_offset", None)
                if offset is not None:
                    failure.place += f" (row {offset - first} of {place})"
                raise
            finally:
                run.stop()
        return WrittenRows(rows, run.tolerance.counts.skipped)

    def _put_all(self, run: SinkTaskRun, batches: Iterator[pa.RecordBatch], partition: int, first: int) -> int:
        next_offsets: dict[TopicPartition, int] = {}
        rows = 0
        for batch in batches:
            for topic, part in self._layout.by_topic(batch, rows):
                place = TopicPartition(topic, partition)
                at = next_offsets.get(place, first)
                done = min(max(run.open(place, at) - at, 0), part.num_rows)
                next_offsets[place] = at + part.num_rows
                if done < part.num_rows:
                    made = self._layout.records(part.slice(done), topic, partition, at + done, run.converters)
                    run.put(place, made, next_offsets[place])
            rows += batch.num_rows
        return rows

    def _named(self, query_id: str | None) -> dict[str, str]:
        """The config of a task, with a name that lasts as long as the checkpoint, unless the options give one."""
        index = TaskContext.get().partitionId() % len(self._configs)  # type: ignore[union-attr]  # checked in write
        if self._connector.is_named:
            return self._configs[index]
        name = f"spark-{query_id}" if query_id is not None else f"spark-write-{self._job}"
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
