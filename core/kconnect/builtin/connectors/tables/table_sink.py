"""TableSink: topics as tables, each record exactly once; the offsets are in the table's own commits.

`possible_topics` is pure: it reads from a config which topics its transformations may give to records of a topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kconnect.api import ConnectError, DataError, RecordBatch, RetriableError, SinkRecord, SinkTask, TopicPartition
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector
from kconnect.builtin.connectors.tables.open_table import Compaction, OpenTable, open_table
from kconnect.builtin.connectors.tables.partition_columns import with_partition_columns
from kconnect.builtin.connectors.tables.record_columns import Made, Rows, batch_of, batches_of_records, rows_of_batch
from kconnect.builtin.connectors.tables.table_config import CONFIG, TableConfig, problems, shared_table
from kconnect.builtin.connectors.tables.table_format import OffsetRange, StaleOffsetsError, TableWrite
from kconnect.builtin.connectors.tables.upserts import (
    by_offset,
    changes_schema,
    deletions,
    in_order,
    key_names,
    last_changes,
    with_keys,
)
from kconnect.builtin.stores.flush_plan import Waiting, due_plans
from kconnect.builtin.types.contracts import DiscardedRowError, Discards
from kconnect.builtin.types.evolution import conformed
from kconnect.builtin.types.seen_columns import require_fields
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.regex import compile_java, replace_first

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger(__name__)


class TableSinkConnector(UniformSinkConnector):
    """Writes tables; its tasks share the partitions of the topics, and may write to one table."""

    table = CONFIG

    def start(self, props: Mapping[str, str]) -> None:
        TableConfig.parse(props)
        super().start(props)

    def task_class(self) -> type[SinkTask]:
        return TableSinkTask

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """Combinations of settings, packages, and whether the folder can be written to."""
        return problems(CONFIG.parse(props), props)

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[TopicPartition, int | None]) -> bool:
        """Commit them to the tables as well, in which the tasks look first.

        Errors: as of the table's format; ConnectError where a transformation leaves open which tables these are.
        """
        parsed = TableConfig.parse(config)
        by_table: dict[str, tuple[str, dict[TopicPartition, int | None]]] = {}
        for at, offset in offsets.items():
            topics = possible_topics(config, at.topic) if parsed.has_table_for_each_topic else {at.topic}
            for topic in topics:
                by_table.setdefault(parsed.table_of(topic), (topic, {}))[1][at] = offset
        for topic, changes in by_table.values():
            table = open_table(parsed, topic)
            try:
                table.set_offsets(changes)
            finally:
                table.close()
        return True


class TableSinkTask(SinkTask):
    """Exactly once: rows and offsets are one commit, and open() goes on from the offsets that the table has.

    Where a transformation moved records to another topic, and with it to another table, that table is not known before
    the first of them: what it has already of the partition is left out, and the consumer group stays behind what waits.
    A commit that meets other offsets than this task knows is refused: a task that lost its partitions without knowing
    writes nothing any more; one that owns them goes on from what the table has.
    """

    supports_batches = True
    keeps_offsets = True

    def __init__(self) -> None:
        self._tables: dict[str, OpenTable] = {}
        self._sought: set[TopicPartition] = set()
        """Partitions that are read from another offset after this put: what came before is dropped."""
        self._compaction: Compaction | None = None
        self.now_s = time.monotonic

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        self._is_replay = props.get("kconnect.replay") == "true"  # as kconnect.testing.SinkChain says
        config = self._config = TableConfig.parse(props)
        self._discards = Discards(self.context.plugin_metrics)
        self._compaction = Compaction(
            config.writer, config.compact_every_s, config.compact_bytes, partial(open_table, config), self.now_s()
        )

    def open(self, partitions: Collection[TopicPartition]) -> None:
        for where, own in self._by_table(partitions).items():
            found = self._table(where, own[0].topic).open(own)
            if found:
                self.context.offset(found)
                self.context.request_commit()  # so that the group follows at once

    def put_batch(self, batch: RecordBatch) -> None:
        """Errors: RetriableError before anything of the batch is taken; DataError when it does not fit the table."""
        self._sought.clear()  # the runtime went there behind the last put
        self._flush_due()
        self._take([(batch, ())], batch.to_records)  # type: ignore[arg-type]  # a sink's batch
        self._end_put()

    def put(self, records: list[SinkRecord]) -> None:
        """Works as put_batch; with no records what is due by time is written."""
        self._sought.clear()
        self._flush_due()
        for batches, run in batches_of_records(records):
            self._take(batches, lambda run=run: run)  # type: ignore[misc]  # of this round
        self._end_put()

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What is in the tables: all that was put where nothing waits, else what the table says.

        Errors: StaleOffsetsError: only behind a put can a partition be read from elsewhere, so the task starts again.
        """
        refused: set[TopicPartition] = set()
        try:
            if self.context.is_closing():
                refused = self._flush_for_the_last_time(current_offsets)
            else:
                self._flush_due(goes_on=False)  # put is not called while the connector is paused
        except RetriableError as error:
            log.warning("%s", error)
        found = {}
        for at, offset in current_offsets.items():
            if at in self._sought or at in refused:
                continue
            behind = [table.behind(at) for table in self._tables.values() if table.plan.waits(at)]
            known = [one for one in behind if one is not None]
            if len(known) == len(behind):
                found[at] = min([offset, *known])
        return found

    def close(self, partitions: Collection[TopicPartition]) -> None:
        for table in self._tables.values():
            table.release(partitions)

    def stop(self) -> None:
        if self._compaction is not None:
            self._compaction.stop()
        for table in self._tables.values():
            table.format.close()
        self._tables.clear()

    # --- taking records ---

    def _take(
        self,
        batches: Sequence[Made],
        records: Callable[[], list[SinkRecord]],
    ) -> None:
        """Add batches of one run of records to what waits; what does not fit, or is no batch, record by record."""
        if batches:
            try:
                self._add_new(batches)
            except DataError:
                pass  # again by records: the same error comes with the record that caused it
            else:
                return
        self._take_one_by_one(records())

    def _take_one_by_one(self, records: list[SinkRecord]) -> None:
        for record in records:
            try:
                self._add_new([(batch_of([record]), [record])])
            except DiscardedRowError as error:
                self._discards.row(error, _place(record))
            except DataError as error:
                self._give_up(record, error)

    def _give_up(self, record: SinkRecord, error: DataError) -> None:
        """To the error reporter if there is one; else the task fails, with the record's position."""
        failure = DataError(f"The record at {_place(record)} cannot be written: {error}", hint=error.hint)
        failure.__cause__ = error
        reporter = self.context.errant_record_reporter()
        if reporter is None:
            raise failure
        reporter.report(record, failure)

    def _add_new(self, batches: Sequence[Made]) -> None:
        """The rows of batches, but for those that a table which got them by a transformation has already."""
        batch, _ = batches[0]
        original, partition = batch.original_topic or batch.topic, batch.original_kafka_partition
        if batch.topic == original or not self._config.has_table_for_each_topic or partition is None:
            table = self._own_table(original)
            self._add([rows_of_batch(one, came) for one, came in batches], table)
            return
        at = TopicPartition(original, partition)
        table = self._own_table(batch.topic)
        base = table.open_moved(at)
        if base is not None and not self._is_replay:
            batches = [_from_offset(one, came, base) for one, came in batches]
        if any(len(one) for one, _ in batches):
            self._add([rows_of_batch(one, came) for one, came in batches if len(one)], table)

    def _add(self, parts: Sequence[Rows], table: OpenTable) -> None:
        """Rows of one partition, whose offsets lie among each other."""
        at, start, stop = parts[0].at, min(rows.start for rows in parts), max(rows.stop for rows in parts)
        if at in self._sought:
            return
        self._require_known(at, start, table)
        changes = [
            self._changes(table, rows) if self._config.is_upsert else self._rows(table, rows, rows.columns)
            for rows in parts
        ]
        joined = changes[0] if len(parts) == 1 else by_offset(changes, [rows.offsets for rows in parts], table.schema)
        table.plan.add(at, joined, start, stop, self.now_s())

    def _rows(self, table: OpenTable, rows: Rows, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The columns as the table has them, which may get more or wider ones."""
        if not len(columns):
            return columns
        if rows.is_seen and not self._config.infers:
            raise DataError(
                "its value has no schema", hint="schema.infer=true takes the types that are seen in values."
            )
        if rows.is_seen:
            require_fields(columns.columns, lambda: rows.values() or ())
        columns = with_partition_columns(columns, self._config.partition_by, rows.times)
        return table.fitted(columns, self._discards, moves=rows.is_seen, came=rows.values)

    def _changes(self, table: OpenTable, rows: Rows) -> pa.RecordBatch | None:
        """Rows and deletions in the order of their offsets, with the key that each has."""
        keys = key_names(rows, self._config.merge_keys)
        if table.keys and keys != table.keys:
            raise DataError(f"Its key has the fields {', '.join(keys)}, and rows before it {', '.join(table.keys)}")
        given = with_keys(rows, keys, of_key=not self._config.merge_keys) if len(rows.columns) else rows.columns
        columns, deleted = self._rows(table, rows, given), deletions(rows, keys)
        if table.schema is None:
            return None  # no table, and no row to remove from it
        table.keys = keys
        return in_order(columns, deleted, rows.offsets, table.schema)

    def _require_known(self, at: TopicPartition, start: int, table: OpenTable) -> None:
        """Errors: ConnectError for records that the table has."""
        base = table.base.get(at)
        if base is not None and start < base and not self._is_replay:
            raise ConnectError(
                f"{at} begins again at offset {start}, and table {table.format.where} has "
                f"everything before offset {base}: was the topic created again?",
                hint="`connect offsets reset NAME` makes the table forget its offsets.",
            )

    # --- writing ---

    def _flush_due(self, *, goes_on: bool = True) -> None:
        """Write what is due. `goes_on`: where the table has other offsets, from those.

        Errors: RetriableError; StaleOffsetsError unless it goes on.
        """
        due = due_plans([table.plan for table in self._tables.values()], self._config.limits, self.now_s())
        for table in self._tables.values():
            if table.plan not in due:
                continue
            for commit in table.plan.commits(joins_partitions=table.format.joins_partitions):
                try:
                    self._write(table, commit)
                except StaleOffsetsError as error:
                    if not goes_on:
                        raise
                    self._go_to(table, error)

    def _end_put(self) -> None:
        """Write what is due now; what fails for the moment is due again at the next put."""
        try:
            self._flush_due()
        except RetriableError as error:
            log.warning("%s", error)
        # The task with the first partition of a topic looks after its table
        assert self._compaction is not None
        tended = [table.topic for table in self._tables.values() if any(at.partition == 0 for at in table.base)]
        self._compaction.tend(tended, self.now_s())
        waits = [table.plan.due_in_s(self.now_s()) for table in self._tables.values()]
        soonest = min((wait for wait in waits if wait is not None), default=None)
        if soonest is not None:
            self.context.put_within(int(soonest * 1000) + 1)

    def _flush_for_the_last_time(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Write all that waits of partitions that go away; gives those whose rows the table refused.

        Errors: RetriableError.
        """
        refused: set[TopicPartition] = set()
        for table in self._tables.values():
            for commit in table.plan.commits(joins_partitions=table.format.joins_partitions, only=partitions):
                try:
                    self._write(table, commit)
                except StaleOffsetsError as error:
                    log.warning("%s; this task no longer has them", error)
                    table.plan.drop(commit)
                    refused.update(commit)
        return refused

    def _write(self, table: OpenTable, commit: Mapping[TopicPartition, Waiting]) -> None:
        """Errors: as of TableFormat.write; then all of it waits as before."""
        import pyarrow as pa

        assert table.schema is not None
        ranges = tuple(OffsetRange(at, table.base.get(at), one.start, one.stop) for at, one in commit.items())
        schema = changes_schema(table.schema) if table.keys else table.schema
        batches = [conformed(batch, schema) for one in commit.values() for batch in one.batches]
        rows, deletes = pa.Table.from_batches(batches, schema), None
        if table.keys:
            rows, deletes = last_changes(rows, table.keys, table.schema)
        began_s = self.now_s()
        table.format.write(TableWrite(rows, ranges, table.keys, deletes))
        table.know(table.schema)
        table.plan.drop(commit)
        for span in ranges:
            table.base[span.at] = span.stop
        log.debug(
            "%s in %.0f ms to %s", pluralize(len(rows), "row"), (self.now_s() - began_s) * 1000, table.format.where
        )

    def _go_to(self, table: OpenTable, error: StaleOffsetsError) -> None:
        """Go on from what the table has. Errors: ConnectError when that is not known, or not everything to do."""
        if moved := table.moved & set(error.found):
            raise ConnectError(
                f"{error}",
                hint=f"Restart the task: records of {next(iter(moved))} may go to other tables too, so it has to begin "
                "where the consumer group stands.",
            )
        forgotten = [at for at, offset in error.found.items() if offset is None]
        if forgotten:
            raise ConnectError(
                f"The offset of {forgotten[0]} in table {table.format.where} was reset while this task ran",
                hint="Restart the task: it begins where the consumer group stands.",
            )
        log.warning("%s; reading goes on from there", error)
        table.plan.drop(error.found)
        places = {at: offset for at, offset in error.found.items() if offset is not None}
        table.base.update(places)
        self._sought.update(places)
        if (schema := table.format.schema()) is not None:
            table.know(schema)
        self.context.offset(places)

    # --- tables ---

    def _table(self, where: str, topic: str) -> OpenTable:
        found = self._tables.get(where)
        if found is None:
            found = self._tables[where] = OpenTable(self._config, topic)
        return found

    def _own_table(self, topic: str) -> OpenTable:
        """The table of a topic. Errors: DataError where another topic has it, as names of tables lack characters."""
        table = self._table(self._config.table_of(topic), topic)
        table.owner = table.owner or topic
        if self._config.has_table_for_each_topic and table.owner != topic:
            raise DataError(shared_table(table.owner, topic, table.format.where))
        return table

    def _by_table(self, partitions: Collection[TopicPartition]) -> dict[str, list[TopicPartition]]:
        found: dict[str, list[TopicPartition]] = {}
        for at in partitions:
            found.setdefault(self._config.table_of(at.topic), []).append(at)
        return found


def _from_offset(batch: RecordBatch, came: Sequence[SinkRecord], first: int) -> Made:
    """The rows from an offset on."""
    import pyarrow.compute as pc

    offsets = batch.kafka_offsets
    if offsets is None:
        return batch, came
    return batch.filter(pc.greater_equal(offsets, first)), [one for one in came if one.original_kafka_offset >= first]


def _place(record: SinkRecord) -> str:
    return f"{record.original_topic}-{record.original_kafka_partition}, offset {record.original_kafka_offset}"


_ROUTER: Final = "RegexRouter"
# What Kafka and kconnect bring that leaves the topic as it is
_STAYING: Final = frozenset(
    {
        "Cast",
        "DropHeaders",
        "ExtractField",
        "Filter",
        "Flatten",
        "HeaderFrom",
        "HoistField",
        "InsertField",
        "InsertHeader",
        "MaskField",
        "ReplaceField",
        "SetSchemaMetadata",
        "TimestampConverter",
        "ValueToKey",
        "SqlTransform",
        "WithSchema",
    }
)


def possible_topics(config: Mapping[str, str], topic: str) -> set[str]:
    """The topic itself, and what RegexRouters make of it; behind a predicate it may stay as well.

    Errors: ConnectError for a transformation of which only a record can tell.
    """
    found = {topic}
    for alias in filter(None, (part.strip() for part in config.get("transforms", "").split(","))):
        settings = {name: config.get(f"transforms.{alias}.{name}", "") for name in ("type", "regex", "replacement")}
        name = settings["type"].rpartition(".")[2].rpartition(":")[2].partition("$")[0]
        if name in _STAYING:
            continue
        if name != _ROUTER:
            raise ConnectError(
                f"Transformation {alias} ({settings['type']}) may have moved records of {topic} to other topics, and "
                "the tables of these keep their offsets",
                hint="Delete the tables, or create the connector under another name, which is a new writer to them.",
            )
        pattern = compile_java(settings["regex"])
        found |= {replace_first(pattern, one, settings["replacement"]) for one in found if pattern.fullmatch(one)}
    return found
