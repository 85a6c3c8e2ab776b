"""SqlSink: records as rows of a database; with upserts, or exactly once, each row exists once.

Connections are opened by SQLAlchemy from a URL, or by a DB-API driver that the settings name. Statements are made here
and go to the driver: measured with upserts of four columns into PostgreSQL 6.9 us of CPU a row, by SQLAlchemy's 9.1.
"""

from __future__ import annotations

import contextlib
import logging
import zoneinfo
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from kconnect.api import (
    ConfigError,
    ConnectError,
    DataError,
    RetriableError,
    SinkRecord,
    SinkTask,
    TopicPartition,
    Type,
)
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector
from kconnect.builtin.connectors.sql.sql_config import CONFIG, EXACTLY_ONCE
from kconnect.builtin.connectors.sql.sql_dialect import placeholders
from kconnect.builtin.connectors.sql.sql_offsets import (
    MovedOffsetsError,
    OffsetTable,
    Span,
    WrittenOffsets,
    alter,
    found_offsets,
    place_of,
    writer_of,
)
from kconnect.builtin.connectors.sql.sql_rows import Row, RowMaker, runs_of
from kconnect.builtin.connectors.sql.sql_sink_database import sink_database
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)


class SqlSinkConnector(UniformSinkConnector):
    """Writes rows; each task has its own connection."""

    table = CONFIG

    def task_class(self) -> type[SinkTask]:
        return SqlSinkTask

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """Combinations of settings, and the driver."""
        return _problems(CONFIG.parse(props), props)

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[TopicPartition, int | None]) -> bool:
        """With exactly_once commit them to the table of offsets as well, in which the tasks look first.

        Errors: RetriableError, ConnectError.
        """
        parsed = CONFIG.parse(config)
        if parsed["delivery.guarantee"] == EXACTLY_ONCE:
            database = sink_database(parsed, config)
            alter(OffsetTable(database, parsed["offsets.table"], writer_of(config)), database, offsets)
        return True


# Settings of Confluent's sink that change what is written
_NOT_DONE = ("timestamp.fields.list", "date.timezone", "string.output.value.column.name")


def _problems(config: Mapping[str, Any], props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Invalid combinations of settings: pairs of setting and message."""
    if config["insert.mode"] != "insert" and config["pk.mode"] == "none":
        yield "pk.mode", f"insert.mode={config['insert.mode']} needs a primary key: set pk.mode"
    if not config["connection.driver"] and not config["connection.url"]:
        yield "connection.url", "Set connection.url, or connection.driver and what its connect() takes"
        return
    if config["pk.mode"] == "kafka" and len(config["pk.fields"]) not in (0, 3):
        yield "pk.fields", "pk.mode=kafka takes three names (topic, partition, offset) or none"
    if config["delete.enabled"] and config["pk.mode"] != "record_key":
        yield "delete.enabled", "delete.enabled needs pk.mode=record_key: a tombstone has nothing else"
    for name in _NOT_DONE:
        if name in props:
            yield "connection.url", f"{name} is not supported: leave it out"
    try:
        sink_database(config, props)
    except ImportError as err:
        yield "connection.driver", f"The module {config['connection.driver']} cannot be imported: {err}"
    except ConfigError as err:
        yield "dialect" if config["connection.driver"] else "connection.url", str(err) + (f" {err.hint or ''}")


class SqlSinkTask(SinkTask):
    """One put is one transaction: all of it is in the database when put returns, or nothing is.

    Records are delivered again after a crash between the database's commit and Connect's; with insert.mode=upsert they
    then overwrite their rows, so that each exists once. With delivery.guarantee=exactly_once the transaction has the
    offsets as well, from which reading goes on, so that each record is written once in any mode. A record that the
    database refuses goes to the error reporter if the connector has one, else the task fails with the record's topic,
    partition and offset.
    """

    def __init__(self) -> None:
        self._connection: Any = None  # the driver's
        self._beginning = ""  # the statement that begins each of its transactions
        self._created: set[str] = set()
        self._complete: set[tuple[str, tuple[str, ...]]] = set()  # tables with the columns that they are known to have
        self._failures = 0
        self._offsets: OffsetTable | None = None  # exactly once
        self._written = WrittenOffsets()
        self._looked_at: set[str] = set()  # tables that have transactions

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = CONFIG.parse(props)
        for _, message in _problems(config, props):
            raise ConfigError(message)
        self._zone = zoneinfo.ZoneInfo(config["db.timezone"])
        database = self._database = sink_database(config, props)
        self._driver, self._dialect = database.driver, database.dialect
        is_replay = props.get("kconnect.replay") == "true"  # as kconnect.testing.SinkChain says
        if config["delivery.guarantee"] == EXACTLY_ONCE and not is_replay:
            self._offsets = OffsetTable(database, config["offsets.table"], writer_of(props))
        self._rows = RowMaker(
            config["table.name.format"],
            config["pk.mode"],
            config["pk.fields"],
            config["fields.whitelist"],
            config["delete.enabled"],
            config["replace.null.with.default"],
        )

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """With exactly_once go on from where the table is; a database that is away is asked again by put."""
        if self._offsets is None:
            return
        try:
            self._look_up(partitions)
        except RetriableError as error:
            log.warning("%s", error)
            return
        self.context.request_commit()  # so that the group follows at once

    def put(self, records: list[SinkRecord]) -> None:
        """Write them in one transaction. Errors: RetriableError while max.retries lasts; ConnectError, DataError."""
        spans: tuple[Span, ...] = ()
        if self._offsets is not None:
            records = self._not_sought(records, self._offsets)
            spans = self._written.spans(records)
        rows = list(self._made(records))
        if not rows and not spans:
            return
        try:
            self._write_all(rows, spans)
        except MovedOffsetsError:
            self._go_on_from_table(spans)
        else:
            self._written.written(spans)
        self._failures = 0

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """All that was put, as put has committed it."""
        return {at: offset for at, offset in current_offsets.items() if at not in self._written.sought}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._written.forget(partitions)

    def stop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- offsets, exactly once ---

    def _not_sought(self, records: Sequence[SinkRecord], offsets: OffsetTable) -> list[SinkRecord]:
        """The records, less those of partitions that are read from elsewhere after this put."""
        self._written.sought.clear()  # the runtime went there behind the last put
        if unknown := self._written.unknown({place_of(record) for record in records}):
            self._written.sought |= self._look_up(unknown)
        return [record for record in records if place_of(record) not in self._written.sought]

    def _look_up(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Have the partitions read from where the table is; those that it has. Errors: RetriableError, ConnectError."""
        places = self._written.learn(self._in_table(), partitions)
        self._go_to(places)
        return set(places)

    def _go_on_from_table(self, spans: Sequence[Span]) -> None:
        """After a refused transaction. Errors: RetriableError, ConnectError."""
        places = self._written.moved(spans, self._in_table())
        if places:
            told = ", ".join(f"{at} from offset {offset}" for at, offset in places.items())
            log.warning("Another writer has committed since: nothing of this put was written, and %s is read on", told)
        self._go_to(places)

    def _go_to(self, places: Mapping[TopicPartition, int]) -> None:
        if places:
            self.context.offset(dict(places))

    def _in_table(self) -> dict[TopicPartition, int]:
        """What the table of offsets has; it is made if it is missing. Errors: RetriableError, ConnectError."""
        assert self._offsets is not None
        try:
            found = found_offsets(self._offsets, self._cursor, lambda: self._connection)
        except Exception as error:  # as in put
            self._roll_back()
            if self._may_pass(error):
                self._retry_later(error)
            raise ConnectError(
                f"The table of offsets {self._offsets.name} cannot be read: {type(error).__name__}: {error}",
                hint="Make it, or let the user of the connection create tables, or name another in offsets.table.",
            ) from error
        return found

    # --- rows ---

    def _made(self, records: Sequence[SinkRecord]) -> Iterable[tuple[Row, SinkRecord]]:
        for record in records:
            try:
                yield self._rows.row(record), record
            except DataError as error:
                self._give_up(record, error)

    def _give_up(self, record: SinkRecord, error: Exception) -> None:
        """To the error reporter if there is one; else the task fails, with the record's position."""
        where = f"{record.original_topic}-{record.original_kafka_partition}, offset {record.original_kafka_offset}"
        failure = DataError(f"The record at {where} cannot be written: {type(error).__name__}: {error}")
        failure.__cause__ = error
        reporter = self.context.errant_record_reporter()
        if reporter is None:
            raise failure
        reported = reporter.report(record, failure)
        if self._offsets is not None:
            reported.result()  # it would not come again once its offset is committed; the producer has a deadline

    def _write_all(self, rows: Sequence[tuple[Row, SinkRecord]], spans: Sequence[Span]) -> None:
        """In one transaction. Errors: as of put; MovedOffsetsError, and nothing is written."""
        try:
            self._write([row for row, _ in rows], spans)
        except Exception as error:  # a driver's: any class of its own
            self._roll_back()
            if self._may_pass(error):
                self._retry_later(error)
            if not isinstance(error, self._driver.Error | ValueError | TypeError | OverflowError):
                raise
            self._write_one_by_one(rows, spans)

    def _write_one_by_one(self, rows: Sequence[tuple[Row, SinkRecord]], spans: Sequence[Span]) -> None:
        """The same transaction again, with a savepoint before each row, so that only refused rows are skipped."""
        refused: list[tuple[SinkRecord, Exception]] = []
        try:
            cursor = self._cursor()
            if self._dialect.commits_at_ddl:
                rows = self._with_tables(cursor, rows, refused)
            self._move_offsets(cursor, spans)
            for row, record in rows:
                cursor.execute("SAVEPOINT kconnect_row")
                try:
                    self._run(cursor, [row])
                except Exception as error:  # as in put
                    if self._may_pass(error):
                        raise
                    cursor.execute("ROLLBACK TO SAVEPOINT kconnect_row")
                    if self.context.errant_record_reporter() is None:
                        self._give_up(record, error)
                    refused.append((record, error))
                cursor.execute("RELEASE SAVEPOINT kconnect_row")
            if self._offsets is not None:
                self._report(refused)
            self._connection.commit()
        except Exception as error:  # as in put
            self._roll_back()
            if self._may_pass(error):
                self._retry_later(error)
            raise
        if self._offsets is None:
            self._report(refused)

    def _report(self, refused: Sequence[tuple[SinkRecord, Exception]]) -> None:
        for record, cause in refused:
            self._give_up(record, cause)

    def _with_tables(
        self, cursor: Any, rows: Sequence[tuple[Row, SinkRecord]], refused: list[tuple[SinkRecord, Exception]]
    ) -> list[tuple[Row, SinkRecord]]:
        """The rows whose tables have a place for them now; others are refused. Errors: what may pass."""
        kept = []
        for row, record in rows:
            try:
                self._shape_tables(cursor, [row])
            except Exception as error:  # as in put
                if self._may_pass(error):
                    raise
                if self.context.errant_record_reporter() is None:
                    self._give_up(record, error)
                refused.append((record, error))
            else:
                kept.append((row, record))
        return kept

    # --- statements ---

    def _write(self, rows: Sequence[Row], spans: Sequence[Span]) -> None:
        cursor = self._cursor()
        if self._dialect.commits_at_ddl:
            self._shape_tables(cursor, rows)
        if self._offsets is not None and (new := {row.table for row in rows} - self._looked_at):
            self._offsets.require_transactions(cursor, new)
            self._looked_at |= new
        self._move_offsets(cursor, spans)
        self._run(cursor, rows)
        self._connection.commit()

    def _move_offsets(self, cursor: Any, spans: Sequence[Span]) -> None:
        """Errors: MovedOffsetsError."""
        if self._offsets is not None:
            self._offsets.move(cursor, spans)

    def _shape_tables(self, cursor: Any, rows: Sequence[Row]) -> None:
        for run in runs_of(rows):
            self._create(cursor, run)
            self._evolve(cursor, run)

    def _run(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Rows in order; neighbours of one shape go to the driver together."""
        size = self._config["batch.size"]
        for run in runs_of(rows):
            self._create(cursor, run)
            self._evolve(cursor, run)
            if self._config["insert.mode"] == "update" and run[0].columns == run[0].keys and not run[0].is_delete:
                continue  # nothing besides the key
            statement = self._statement(run[0])
            for start in range(0, len(run), size):
                cursor.executemany(statement, [self._values(row) for row in run[start : start + size]])

    def _values(self, row: Row) -> tuple[Any, ...]:
        adapt, zone = self._dialect.adapt, self._zone
        values = tuple(adapt(value, zone) for value in row.values)
        if self._config["insert.mode"] == "update" and not row.is_delete:
            return values[len(row.keys) :] + values[: len(row.keys)]
        return values

    def _statement(self, row: Row) -> str:
        style = self._driver.paramstyle
        # A % in a name must not read as a mark
        percent = "%%" if style in ("format", "pyformat") else "%"
        table, *columns = (name.replace("%", percent) for name in (row.table, *row.columns))
        keys = columns[: len(row.keys)]  # key columns come first
        marks = placeholders(style, len(columns))
        if row.is_delete:
            return self._dialect.delete(table, columns, marks)
        if self._config["insert.mode"] == "upsert":
            return self._dialect.upsert(table, columns, keys, marks)
        if self._config["insert.mode"] == "update":
            return self._dialect.update(table, columns, keys, marks)
        return self._dialect.insert(table, columns, marks)

    def _create(self, cursor: Any, run: Sequence[Row]) -> None:
        """Create the table of a run, once, with the columns its first row has."""
        row = run[0]
        if not self._config["auto.create"] or row.is_delete or row.table in self._created:
            return
        kinds = {
            name: next((found.kinds[index] for found in run if found.kinds[index]), None) or "text"
            for index, name in enumerate(row.columns)
        }
        cursor.execute(self._dialect.create(row.table, kinds, row.keys))
        self._created.add(row.table)

    def _evolve(self, cursor: Any, run: Sequence[Row]) -> None:
        """Add the columns that a run's table lacks; each set of columns is looked at once.

        Errors: DataError for a field that is neither optional nor has a default. Source: DbStructure.amendIfNecessary.
        """
        row = run[0]
        if not self._config["auto.evolve"] or row.is_delete or (row.table, row.columns) in self._complete:
            return
        cursor.execute(f"SELECT * FROM {self._dialect.name_of(row.table)} WHERE 1=0")
        there = {column[0].lower() for column in cursor.description}
        for index, name in enumerate(row.columns):
            if name.lower() in there:
                continue
            field = row.schema.field(name) if row.schema is not None and row.schema.type is Type.STRUCT else None
            if field is not None and not field.schema.is_optional and field.schema.default is None:
                raise DataError(
                    f"Table {row.table} lacks column {name}, which cannot be added: its field is not optional and has "
                    "no default"
                )
            kind = next((found.kinds[index] for found in run if found.kinds[index]), None) or "text"
            cursor.execute(self._dialect.add_column(row.table, name, kind))
            log.info("Table %s has got the column %s", row.table, name)
        self._complete.add((row.table, row.columns))

    # --- connection ---

    def _cursor(self) -> Any:
        if self._connection is None:
            self._connection = self._database.connect()
            self._beginning = self._database.begin(self._connection)
        cursor = self._connection.cursor()
        if self._beginning:
            cursor.execute(self._beginning)
        return cursor

    def _roll_back(self) -> None:
        """Roll back, and reconnect next time: after an error a connection may be unusable."""
        connection, self._connection = self._connection, None
        self._created.clear()  # a table made in this transaction is gone with it
        self._complete.clear()
        if connection is not None:
            with contextlib.suppress(self._driver.Error):  # the first error is more informative
                connection.rollback()
            with contextlib.suppress(self._driver.Error):
                connection.close()

    def _may_pass(self, error: Exception) -> bool:
        return self._database.may_pass(error)

    def _retry_later(self, error: Exception) -> NoReturn:
        self._failures += 1
        most = self._config["max.retries"]
        if self._failures > most:
            raise ConnectError(
                f"The database failed {self._failures} times in a row (max.retries={most}): {error}"
            ) from error
        self.context.timeout(self._config["retry.backoff.ms"])
        raise RetriableError(f"The database is away or busy: {type(error).__name__}: {error}") from error
