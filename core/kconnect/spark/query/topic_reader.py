"""TopicReader: a range of a partition through converters and transformations into Arrow, in an executor's process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar, Final

from kconnect.api import DataError, RecordBatch, SinkRecord
from kconnect.builtin.types.contracts import INFER, Contracts, Discards
from kconnect.model import TaskSpec, TopicPartition
from kconnect.runtime.config.client_config import consumer_config
from kconnect.runtime.kafka import RangeConsumer
from kconnect.runtime.pipeline.build_stages import SinkStages, sink_stages
from kconnect.runtime.pipeline.lifecycle import resolved_spec
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.stages import StageError
from kconnect.runtime.plugins import PluginRegistry
from kconnect.spark.arrow_types import arrow_schema
from kconnect.spark.messages import FailedRecords
from kconnect.spark.no_host import ports_without_host
from kconnect.spark.query.sink_settings import SinkQuerySettings
from kconnect.spark.query.spark_sink import SparkSinkTask
from kconnect.spark.query.tallies import TallySender
from kconnect.spark.query.topic_rows import RowsOfBatch
from kconnect.spark.slot_spec import TallyAddress

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.spark.query.topic_order import TopicOrder

_FETCH: Final = 5_000
_SILENT_S: Final = 60.0
_SETTLE_S: Final = 30.0


class TopicReader:
    """The data path of a sink up to Arrow. Threads: one. Kept for the next range by the process that made it.

    Errors: StageError for a record that fails the task; SchemaGrownError.
    """

    _kept: ClassVar[TopicReader | None] = None

    def __init__(self, order: TopicOrder) -> None:
        from pyspark.sql.types import StructType

        plugins = plugins_of(order)
        spec = resolved_spec(TaskSpec.from_json(order.spec), plugins)
        self.key = order.key
        self._path = TopicPath(spec, plugins, order.tally)
        schema = arrow_schema(StructType.fromJson(dict(order.schema)))
        settings = SinkQuerySettings.parse(spec.connector_config)
        fixed = None if order.fixed is None else frozenset(order.fixed)
        self._rows = RowsOfBatch(
            schema,
            order.about,
            is_inferred=order.is_inferred,
            keeps_tombstones=order.keeps_tombstones,
            merge_keys=order.merge_keys,
            contracts=replace(Contracts.parse(spec.connector_config), fixed=fixed),
            discard=self._path.discard,
            infers=spec.connector_config.get(INFER, "true").strip().lower() != "false",
            widens=settings.widens,
            where=settings.where,
        )

    @classmethod
    def of_order(cls, order: TopicOrder) -> TopicReader:
        """The one this process has kept if it is of the same start of the query; else a new one in its place."""
        kept = cls._kept
        if kept is None or kept.key != order.key:
            if kept is not None:
                kept.close()
            kept = cls._kept = cls(order)
        return kept

    def read(self, at: TopicPartition, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """All records of the range; returns when the dead letters among them are acknowledged.

        None of them is written before the range is read: what ends the query, such as a new field, has it read again.
        None of them is written again when another range has ended it.
        """
        path = self._path
        path.hold()
        try:
            for payload in path.read(at, begin, end):
                made = self._rows.of(payload, path.report)
                if made.num_rows:
                    yield made
            path.settle(at, begin, end)
        except GeneratorExit:  # Spark wants no more of it, and ends the batch
            path.settle(at, begin, end)
            raise
        except BaseException:
            path.forget()
            raise
        finally:
            path.tell_counted()

    def close(self) -> None:
        self._path.close()


class TopicPath:
    """Fetches ranges and runs the stages of a sink on them. Threads: one."""

    def __init__(
        self, spec: TaskSpec, plugins: PluginRegistry, tally: TallyAddress | None = None, *, is_sample: bool = False
    ) -> None:
        """`spec` with its references resolved. `is_sample`: the records will be read again, and reported then."""
        ports = ports_without_host(plugins)
        self._control = TaskControl(spec, ports)
        self._stages: SinkStages = sink_stages(self._control, ports, SparkSinkTask)
        self._tally = TallySender(self._control, tally)
        if is_sample:
            self._stages.tolerance.report_to(())
        elif self._stages.dead_letters is not None:
            self._stages.dead_letters.start()
        self._conversion = self._stages.conversion(
            self._control.used_topics, takes_batches=SparkSinkTask.supports_batches
        )
        name = spec.id.connector
        settings, _ = consumer_config(
            spec.worker_config,
            spec.connector_config,
            client_id=f"connector-consumer-{spec.id}",
            group_id=f"connect-{name}",
        )
        self._consumer = RangeConsumer(settings, str(spec.id))
        self._discards = Discards(lambda: self._control.monitor.of_task)
        self._discarded: list[tuple[int, Callable[[], None]]] = []  # where, and what counts it, since `hold`

    def read(self, at: TopicPartition, begin: int, end: int) -> Iterator[RecordBatch | list[SinkRecord]]:
        """Converted records. Errors: StageError for one that is not tolerated; RetriableError without brokers."""
        for run in self._consumer.read(at, begin, end, _FETCH, _SILENT_S):
            made = self._conversion.convert(run)
            if len(made):
                yield made

    def report(self, record: SinkRecord, error: Exception) -> None:
        """A record fits no row. Errors: StageError if that is not tolerated."""
        self._stages.errant.report(record, error)

    def discard(self, record: SinkRecord, error: DataError, column: str = "", count: int = 0) -> None:
        """A contract leaves out a record, or so many values of a column of it. Counted by `settle`."""
        where = f"{record.topic}-{record.kafka_partition}, offset {record.kafka_offset}"
        some, row = partial(self._discards.some, column, count, error), partial(self._discards.row, error, where)
        self._discarded.append((int(record.original_kafka_offset), some if count else row))

    def hold(self) -> None:
        """Keep errors of records, and what is left out, until `settle`, or `forget`."""
        self._stages.tolerance.hold()
        self._discarded.clear()

    def forget(self) -> None:
        """The records since `hold` are read again."""
        self._stages.tolerance.forget()
        self._discarded.clear()

    def settle(self, at: TopicPartition, begin: int, end: int) -> None:
        """Write dead letters of the range that were not written before, and wait for them; count what is left out.

        Errors: ConnectError.
        """
        tolerance, spec = self._stages.tolerance, self._control.spec
        offsets = tuple(sorted({*map(_offset_of, tolerance.held), *(offset for offset, _ in self._discarded)}))
        if not offsets:
            return
        failed = FailedRecords(spec.id, spec.run, at.topic, at.partition, begin, end, offsets, are_reported=False)
        known = set(self._tally.reported(failed))
        tolerance.release(lambda failure: _offset_of(failure) in known)
        tolerance.settle(_SETTLE_S)
        for offset, count in self._discarded:
            if offset not in known:
                count()
        counters, self._discarded = self._control.counters, []
        counters.records_discarded, counters.values_discarded = self._discards.rows, self._discards.values
        self._tally.are_reported(failed)

    def tell_counted(self) -> None:
        """Say to the worker what has failed since the last time."""
        self._tally.send()

    def close(self) -> None:
        self._consumer.close()
        self._stages.close()


def _offset_of(failure: StageError) -> int:
    """Where the record was read, whatever transformations have made of its place."""
    record = failure.record
    return int(record.original_kafka_offset if isinstance(record, SinkRecord) else record.kafka_offset)


@cache
def _registry(path: str | None) -> PluginRegistry:
    return PluginRegistry.load(path, tells_skipped=False)


def plugins_of(order: TopicOrder) -> PluginRegistry:
    """The plugins of this process: from the worker's folders, or from where Spark has unpacked them."""
    return registry_of(order.plugin_path, order.plugins)


def registry_of(plugin_path: str | None, shipped: Sequence[str]) -> PluginRegistry:
    """The same, of a worker's `plugin.path` and the names of what was shipped."""
    if not shipped:
        return _registry(plugin_path)
    from pyspark import SparkFiles

    root = SparkFiles.getRootDirectory()
    return _registry(",".join(os.path.join(root, name) for name in shipped))
