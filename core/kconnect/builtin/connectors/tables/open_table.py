"""The table of a topic in the format that the settings name; the format's package is imported only now.

Compaction joins small files of tables into larger ones now and then, beside the task's own work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, DataError, TopicPartition
from kconnect.builtin.connectors.tables.table_config import STORAGE_PREFIX, TableConfig
from kconnect.builtin.connectors.tables.table_format import TableFormat
from kconnect.builtin.stores.file_store import FileStore, StoreSettings, file_store
from kconnect.builtin.stores.flush_plan import FlushPlan
from kconnect.builtin.types.contracts import Discards
from kconnect.builtin.types.evolution import Evolution, SchemaRules, conformed, merged, schema_for, without_column
from kconnect.builtin.types.seen_columns import NO_VALUE
from kconnect.builtin.types.settling import Settling, settled

if TYPE_CHECKING:
    import pyarrow as pa


class OpenTable:
    """A table that the task writes to: its format, the columns it has by now, and what waits for it."""

    def __init__(self, config: TableConfig, topic: str) -> None:
        self.topic = topic
        self.owner = ""
        """The topic of its first record, after the transformations."""
        self.base: dict[TopicPartition, int | None] = {}
        """The offset that the table has for each partition of ours; None when it has none."""
        self.moved: set[TopicPartition] = set()
        """Partitions of other topics, whose records a transformation moved here: other tables may have more of them."""
        self.format: TableFormat = open_table(config, topic)
        self.plan = FlushPlan(config.limits)
        self.schema: pa.Schema | None = None
        self.keys: tuple[str, ...] = ()
        """The columns that identify a row; none when rows are only added."""
        self.stored: frozenset[str] = frozenset()
        """The columns that are in the table, and not only in rows that wait."""
        self._empty: set[str] = set()
        """Fields of which it was said that they are null, though they are not."""
        self.rules = SchemaRules(
            self.format.where,
            config.evolution,
            self.format.stored_type,
            self.format.can_widen,
            config.contracts,
            lambda column: column in self.stored,
        )

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self.format.open(partitions)
        self.base.update({at: found.get(at) for at in partitions})
        if (schema := self.format.schema()) is not None:
            self.know(schema)
        return found

    def open_moved(self, at: TopicPartition) -> int | None:
        """Take over a partition whose first record came here by a transformation; the offset that the table has."""
        if at not in self.moved:
            self.open([at])
            self.moved.add(at)
        return self.base[at]

    def behind(self, at: TopicPartition) -> int | None:
        """Where to read a partition again to get all that waits of it; None when only the consumer group knows."""
        return self.plan.start(at) if at in self.moved else self.base.get(at)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """These are no longer ours."""
        self.plan.drop(partitions)
        self.moved.difference_update(partitions)
        for at in partitions:
            self.base.pop(at, None)

    def know(self, schema: pa.Schema) -> None:
        """These are the table's columns, as written or read last."""
        self.schema, self.stored = schema, frozenset(schema.names)

    def fitted(
        self,
        rows: pa.RecordBatch,
        discards: Discards,
        *,
        moves: bool,
        came: Callable[[], Sequence[Any] | None] = lambda: None,
    ) -> pa.RecordBatch:
        """The rows as the table has them, whose columns become more or wider as they may.

        `moves`: whether values that do not fit may get a second column. `came`: as of `settled`.
        Errors: DataError, DiscardedRowError.
        """
        try:
            schema = self._with(rows, self.rules)
        except DataError:
            if self.schema is None:
                raise
            rules = self.rules
            if self._is_waiting_unfit(rows):
                rules = replace(rules, is_stored=lambda column: True, can_widen=lambda column, old, new: False)
            discarded: list[tuple[str, int, DataError]] = []
            how = Settling(
                rules.contracts,
                lambda old, column, path: merged(old, column, path, rules),
                moves and rules.evolution is Evolution.WIDEN,
                self.keys,
                lambda *one: discarded.append(one),
            )
            rows = settled(rows, self.schema, how, came())
            schema = self._with(rows, rules)
            for one in discarded:
                discards.some(*one)
        if not len(schema):
            raise DataError(NO_VALUE)
        if schema is not self.schema and (refusal := self.format.refusal(schema)):
            raise DataError(refusal)
        made = conformed(rows, schema)
        if misplaced := self.format.misplaced(made):
            raise DataError(misplaced)
        self.schema = schema
        self._tell_empty(rows, schema)
        return made

    def _tell_empty(self, rows: pa.RecordBatch, schema: pa.Schema) -> None:
        for path in without_column(rows, schema):
            if path not in self._empty:
                self._empty.add(path)
                text = "Column %s of table %s: [], {} and lists of nulls are null until one has a value of some type"
                log.warning(text, path, self.format.where)

    def _with(self, rows: pa.RecordBatch, rules: SchemaRules) -> pa.Schema:
        """The columns with these rows, which those that wait fit as well. Errors: DataError."""
        import pyarrow as pa

        schema = schema_for(self.schema, rows, rules)
        if self.schema is not None and schema is not self.schema:
            before = {field.name: field.type for field in self.schema}
            changed = pa.schema([field for field in schema if before.get(field.name, field.type) != field.type])
            waiting = self.plan.commits(joins_partitions=True) if len(changed) else []
            for batch in (batch for commit in waiting for one in commit.values() for batch in one.batches):
                there = set(batch.schema.names)
                conformed(batch.select([name for name in changed.names if name in there]), changed)
        return schema

    def _is_waiting_unfit(self, rows: pa.RecordBatch) -> bool:
        """Whether it is the rows that wait which do not let a column become wider."""
        try:
            schema_for(self.schema, rows, self.rules)
        except DataError:
            return False
        return True


def table_files(where: str, config: TableConfig) -> FileStore:
    """Where the files of a table of plain files are. Errors: ConfigError when a package is missing."""
    return file_store(where, config.storage, StoreSettings("table.path", STORAGE_PREFIX))


def open_table(config: TableConfig, topic: str) -> TableFormat:
    """Opens no connection yet. Errors: ConfigError when a package is missing."""
    where = config.table_of(topic)
    columns = [column.name for column in config.partition_by]
    if config.format == "parquet":
        from kconnect.builtin.connectors.tables.parquet_table import ParquetTable

        return ParquetTable(where, table_files(where, config), config.writer, columns, config.compression)
    if config.format == "delta":
        from kconnect.builtin.connectors.tables.delta_table import DeltaLakeTable

        own = (config.storage, config.writer, columns, config.compression, config.properties)
        return DeltaLakeTable(where, *own, is_declared=config.is_declared)
    from kconnect.builtin.connectors.tables.iceberg_table import IcebergTable

    return IcebergTable(
        where,
        config.catalog,
        config.writer,
        columns,
        config.compression,
        config.properties,
        config.catalog_timeout_s,
    )


log = logging.getLogger(__name__)

# Of the five seconds that a stop may take (task.shutdown.graceful.timeout.ms): the consumer is closed behind it
_STOP_WAIT_S = 2.0


class Compaction:
    """On a thread of its own, with tables of its own. A failure is logged, and costs nothing but the small files.

    `open_table` opens those to compact, by topic. Times are seconds of a monotonic clock. Threads: the task's.
    One that outlives its task harms nobody: its commit is refused where somebody has changed the same files, as beside
    a running task, and offsets stay as they are. One that is cut off leaves files that no table has.
    """

    def __init__(
        self, name: str, every_s: float, aim_bytes: int, open_table: Callable[[str], TableFormat], now_s: float
    ) -> None:
        self._name = name
        self._every_s, self._aim_bytes = every_s, aim_bytes
        self._open_table = open_table
        self._due_at_s = now_s + every_s
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def tend(self, topics: Sequence[str], now_s: float) -> None:
        """Begin when it is time, and the one before has ended."""
        if not self._every_s or now_s < self._due_at_s or (self._thread is not None and self._thread.is_alive()):
            return
        self._due_at_s = now_s + self._every_s
        self._thread = threading.Thread(target=self._run, args=(tuple(topics),), name=f"compaction-{self._name}")
        self._thread.start()

    def stop(self) -> None:
        """Begin no further table, and wait for the one that runs, for a while."""
        self._is_stopping = True
        if self._thread is not None:
            self._thread.join(_STOP_WAIT_S)
            if self._thread.is_alive():
                log.warning("The compaction of %s still runs; it ends by itself", self._name)

    def _run(self, topics: Sequence[str]) -> None:
        for topic in topics:
            if self._is_stopping:
                return
            try:
                table = self._open_table(topic)
                try:
                    done = table.compact(self._aim_bytes)
                finally:
                    table.close()
            except ConnectError as error:
                log.warning("The table of topic %s is not compacted: %s", topic, error)
            except Exception:  # the top of a thread
                log.warning("The table of topic %s is not compacted", topic, exc_info=True)
            else:
                if done is not None:
                    log.info("Compacted table %s: %s", table.where, done)
