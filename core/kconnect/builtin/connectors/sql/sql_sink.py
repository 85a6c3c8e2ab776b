"""SqlSink: records as rows of a database; with upserts each row exists once.

Connections are opened by SQLAlchemy from a URL, or by a DB-API driver that the settings name. Statements are made here
and go to the driver: measured with upserts of four columns into PostgreSQL 6.9 us of CPU a row, by SQLAlchemy's 9.1.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from kconnect.api import ConfigError, ConnectError, DataError, RetriableError, SinkRecord, SinkTask, Type
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector
from kconnect.builtin.connectors.sql.sql_config import ARGUMENT_PREFIX, CONFIG
from kconnect.builtin.connectors.sql.sql_connection import driver_of
from kconnect.builtin.connectors.sql.sql_dialect import (
    Dialect,
    dialect_of,
    dialect_of_kind,
    placeholders,
)
from kconnect.builtin.connectors.sql.sql_rows import Row, RowMaker, runs_of
from kconnect.builtin.connectors.sql.sql_session import begin_session
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
        if not config["connection.driver"]:
            dialect_of_kind(driver_of(config).kind)
            return
        importlib.import_module(config["connection.driver"])
        dialect_of(config["connection.driver"], config["dialect"])
    except ImportError as err:
        yield "connection.driver", f"The module {config['connection.driver']} cannot be imported: {err}"
    except ConfigError as err:
        yield "dialect" if config["connection.driver"] else "connection.url", str(err) + (f" {err.hint or ''}")


class SqlSinkTask(SinkTask):
    """One put is one transaction: all of it is in the database when put returns, or nothing is.

    Records are delivered again after a crash between the database's commit and Connect's; with insert.mode=upsert they
    then overwrite their rows, so that each exists once. A record that the database refuses goes to the error reporter
    if the connector has one, else the task fails with the record's topic, partition and offset.
    """

    def __init__(self) -> None:
        self._connection: Any = None  # the driver's
        self._beginning = ""  # the statement that begins each of its transactions
        self._created: set[str] = set()
        self._complete: set[tuple[str, tuple[str, ...]]] = set()  # tables with the columns that they are known to have
        self._failures = 0

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = CONFIG.parse(props)
        for _, message in _problems(config, props):
            raise ConfigError(message)
        self._zone = zoneinfo.ZoneInfo(config["db.timezone"])
        self._driver: Any  # any DB-API module
        self._connect: Callable[[], Any]
        self._session = {"TimeZone": config["db.timezone"]}  # by it times become those of columns without a zone
        if config["connection.driver"]:
            self._driver = importlib.import_module(config["connection.driver"])
            dialect = dialect_of(config["connection.driver"], config["dialect"])
            positional = [config["connection.url"]] if config["connection.url"] else []
            self._connect = partial(self._driver.connect, *positional, **_arguments(config, props))
        else:
            found = driver_of(config)
            self._driver, self._connect = found.module, found.connect
            self._session.update(found.session)
            dialect = dialect_of_kind(found.kind)
        if config["quote.sql.identifiers"].lower() == "never":
            dialect = replace(dialect, quote="")
        self._dialect: Dialect = dialect
        self._rows = RowMaker(
            config["table.name.format"],
            config["pk.mode"],
            config["pk.fields"],
            config["fields.whitelist"],
            config["delete.enabled"],
            config["replace.null.with.default"],
        )
        placeholders(self._driver.paramstyle, 1)

    def put(self, records: list[SinkRecord]) -> None:
        """Write them in one transaction. Errors: RetriableError while max.retries lasts; ConnectError, DataError."""
        rows = list(self._made(records))
        if not rows:
            return
        try:
            self._write([row for row, _ in rows])
        except Exception as error:  # a driver's: any class of its own
            self._roll_back()
            if self._may_pass(error):
                self._retry_later(error)
            if not isinstance(error, self._driver.Error | ValueError | TypeError | OverflowError):
                raise
            self._write_one_by_one(rows)
        self._failures = 0

    def stop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

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
        reporter.report(record, failure)

    def _write_one_by_one(self, rows: Sequence[tuple[Row, SinkRecord]]) -> None:
        """The same transaction again, with a savepoint before each row, so that only refused rows are skipped."""
        refused: list[tuple[SinkRecord, Exception]] = []
        try:
            cursor = self._cursor()
            if self._dialect.commits_at_ddl:
                rows = self._with_tables(cursor, rows, refused)
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
            self._connection.commit()
        except Exception as error:  # as in put
            self._roll_back()
            if self._may_pass(error):
                self._retry_later(error)
            raise
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

    def _write(self, rows: Sequence[Row]) -> None:
        cursor = self._cursor()
        if self._dialect.commits_at_ddl:
            self._shape_tables(cursor, rows)
        self._run(cursor, rows)
        self._connection.commit()

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
            self._connection = self._connect()
            if self._dialect.name == "sqlite":
                # Python's sqlite3 does not begin a transaction for SAVEPOINT and CREATE by itself
                self._connection.isolation_level = None
                self._beginning = "BEGIN IMMEDIATE"
            if self._dialect.name == "postgresql":
                self._beginning = begin_session(self._connection, self._session)
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
        kinds = (self._driver.OperationalError, self._driver.InterfaceError)
        return isinstance(error, kinds) and self._dialect.passes(error)

    def _retry_later(self, error: Exception) -> NoReturn:
        self._failures += 1
        most = self._config["max.retries"]
        if self._failures > most:
            raise ConnectError(
                f"The database failed {self._failures} times in a row (max.retries={most}): {error}"
            ) from error
        self.context.timeout(self._config["retry.backoff.ms"])
        raise RetriableError(f"The database is away or busy: {type(error).__name__}: {error}") from error


def _arguments(config: Mapping[str, Any], props: Mapping[str, str]) -> dict[str, Any]:
    """Named arguments of connect(): numbers and true/false are converted, other values stay text."""
    found: dict[str, Any] = {
        key[len(ARGUMENT_PREFIX) :]: _typed(value) for key, value in props.items() if key.startswith(ARGUMENT_PREFIX)
    }
    if config["connection.user"]:
        found["user"] = config["connection.user"]
    if config["connection.password"] is not None:
        found["password"] = config["connection.password"].value
    return found


def _typed(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isdecimal() else text
