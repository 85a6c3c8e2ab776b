"""Reads rounds of tables on a thread of its own, a few batches ahead of the task, which can so be stopped at any time.

One reader has one connection and reads one round at a time: describe the columns, then one statement whose rows are
fetched as they are taken. Measured with a million rows of 8 columns of PostgreSQL, to Arrow columns: SQLAlchemy with a
server's cursor 1.8 us a row, psycopg's cursor in binary 1.7, COPY as CSV parsed by Arrow 1.3; so the simplest.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConnectError, DataError
from kconnect.builtin.connectors.sql.sql_chunks import Chunk, Target, chunk_of, chunk_with_misfits, cursor_of
from kconnect.builtin.connectors.sql.sql_columns import Column, ColumnError, RowShape, TypeSettings, inferred
from kconnect.builtin.connectors.sql.sql_connection import cancel, driver_connection, give_up_rows
from kconnect.builtin.connectors.sql.sql_cursor import (
    MARK,
    UTC_TEXT,
    Cursor,
    Place,
    SqlStyle,
    before_repeat,
    moment_of,
    of_two_zones,
    statement,
)
from kconnect.builtin.connectors.sql.sql_describe import Description, columns_of, describe, nested, selected
from kconnect.builtin.connectors.sql.sql_dialect import kind_of, placeholders
from kconnect.builtin.connectors.sql.sql_session import MYSQL_UTC
from kconnect.builtin.connectors.sql.sql_values import utc_text

if TYPE_CHECKING:
    import sqlalchemy as sa

log = logging.getLogger(__name__)

# Batches that wait for the task; with the one being read, the one being sent and a remainder there are four at most.
_AHEAD: Final = 1
_STEP_S: Final = 0.1
# Clocks differ: of a database and of the standby that took over
_AHEAD_S: Final = 60

# What reads any query as a table. Differs: Confluent's adds its WHERE to the query's own end, so that it has to have
# none, and a UNION is read without end
_NESTS: Final = ("postgresql", "mysql", "sqlite")
_NOW: Final = {
    "postgresql": "SELECT CURRENT_TIMESTAMP",
    "mysql": "SELECT UTC_TIMESTAMP(6)",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "mssql": "SELECT SYSUTCDATETIME()",
    "oracle": "SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) FROM DUAL",
}


@dataclass(frozen=True, slots=True)
class RoundBegin:
    """The first item of a round that could be begun, with where it begins."""

    place: Place


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """No row is left; `error` if that is because of one. `shape`: that of rows, where there was none."""

    error: Exception | None = None
    shape: RowShape | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """The settings of all rounds."""

    types: TypeSettings
    zone: Any  # a ZoneInfo
    batch_rows: int
    delay_ms: int
    suffix: str
    quotes: bool
    gives_up_rows: bool = False
    """Whether a row that cannot be read is left out, and does not end the round."""
    idle_s: float = 60.0
    """How long rows wait to be taken (the task is paused, Kafka is away) before the database is released."""


class RoundReader:
    """Threads: `begin`, `take`, `stop` are the task's; the rest is the reader's own, named after the task.

    States: constructed -> start -> begin, take until RoundEnd, begin .. -> stop.
    """

    def __init__(self, name: str, engine: sa.Engine, settings: ReadSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._kind = kind_of(engine.dialect)
        self._style = SqlStyle(self._kind, self._quote, settings.zone)
        self._orders: queue.Queue[tuple[Target, Place] | None] = queue.Queue()
        self._found: queue.Queue[Chunk | RoundBegin | RoundEnd] = queue.Queue(_AHEAD)
        self._stopping = threading.Event()
        self._connection: sa.Connection | None = None  # the reader's, but that stop() may cancel what runs on it
        self._shapes: dict[str, RowShape] = {}
        self._waits: dict[str, int] = {}  # by target, the beginning of the two equal hours that it waits for
        self._texts: dict[str, set[str]] = {}  # by target, columns of SQLite that held what is not of their type
        self._ahead: set[str] = set()  # targets whose offset was said to be in the future
        self._thread = threading.Thread(target=self._run, name=f"sql-reader-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin(self, target: Target, place: Place) -> None:
        """Read a round. NOT before the one before has ended."""
        self._orders.put((target, place))

    def take(self, timeout_s: float) -> Chunk | RoundBegin | RoundEnd | None:
        """What comes next; None if it takes longer."""
        with contextlib.suppress(queue.Empty):
            return self._found.get(timeout=timeout_s)
        return None

    @property
    def has_let_go(self) -> bool:
        """Whether no connection is open."""
        return self._connection is None

    def stop(self, timeout_s: float) -> None:
        """Cancel what runs and end the thread; it is left to itself if the driver does not return."""
        self._stopping.set()
        self._orders.put(None)
        deadline = time.monotonic() + timeout_s
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._cancel()  # again and again: a statement may begin just after it
            self._thread.join(_STEP_S)
        if self._thread.is_alive():
            log.warning("The driver of the database does not return; its thread is left to itself")

    def _cancel(self) -> None:
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(Exception):  # closed by the reader meanwhile
                cancel(driver_connection(connection), self._engine)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                order = self._orders.get()
                if order is not None:
                    self._give(self._round(*order))
        finally:
            self._close()

    def _round(self, target: Target, place: Place) -> RoundEnd:
        """Read a round to its end."""
        try:
            connection, description, select = self._described(target)
            shape = self._read(connection, target, place, description, select)
        except Exception as error:  # the driver's and the database's: the task decides what becomes of them
            self._close()
            return RoundEnd(error)
        with contextlib.suppress(Exception):  # the next round finds out
            connection.rollback()
        return RoundEnd(shape=shape)

    def _described(self, target: Target) -> tuple[sa.Connection, Description, str]:
        """A connection that works, with the columns of the target; an old connection that is lost is replaced."""
        was_open = self._connection is not None
        try:
            return self._describe(target)
        except Exception as error:
            if not was_open or not getattr(error, "connection_invalidated", False):
                raise
            self._close()
        return self._describe(target)

    def _describe(self, target: Target) -> tuple[sa.Connection, Description, str]:
        if self._connection is None:
            self._connection = self._engine.connect()
            if self._kind == "sqlite" and self._style.is_zoned:
                given = partial(utc_text, zone=self._settings.zone)
                driver_connection(self._connection).create_function(UTC_TEXT, 1, given, deterministic=True)
            if self._kind == "mysql" and target.table is not None:
                self._connection.exec_driver_sql(MYSQL_UTC)
        if target.table is None:
            found = describe(self._connection, None, target.query)
            is_part = target.mode != "bulk" and self._kind in _NESTS
            return self._connection, found, f"SELECT * FROM {nested(target.query)}" if is_part else target.query
        name = target.table.sql(self._quote, self._kind)
        found = describe(self._connection, target.table, f"SELECT * FROM {name}")
        return self._connection, found, f"SELECT {selected(found.columns, self._quote, self._kind)} FROM {name}"

    def _read(
        self, connection: sa.Connection, target: Target, place: Place, description: Description, select: str
    ) -> RowShape | None:
        """Give all rows; the shape of them if there is none."""
        cursor = cursor_of(target, description)
        if cursor is not None and cursor.walls and self._kind == "mysql" and self._style.is_zoned:
            raise of_two_zones(target.name, target.mode, cursor, self._style)
        has_times = cursor is not None and bool(cursor.timestamps)
        end_us = None
        if has_times:
            now_us = self._now_us(connection)
            self._look_ahead(target, place, now_us)
            end_us = self._end_us(target, cursor, now_us)
        if has_times and place == Place() and target.initial_ms is not None:
            present_us = self._now_us(connection) if target.initial_ms == -1 else target.initial_ms * 1000
            place = Place(None, present_us)
        self._give(RoundBegin(place))
        text, params = statement(select, cursor, place, end_us, self._style, self._settings.suffix)
        size = self._settings.batch_rows
        text = self._marked(text, len(params))
        options = connection.execution_options(stream_results=True, max_row_buffer=size, no_parameters=not params)
        result = options.exec_driver_sql(text, tuple(params) if params else None)
        cursor_of_driver: Any = result.cursor
        is_read, has_rows = False, False
        try:
            names = list(result.keys())
            columns = description.columns or columns_of(cursor_of_driver, names, self._kind)
            while not self._stopping.is_set():
                rows = result.fetchmany(size)
                if not rows:
                    is_read = True
                    return None if has_rows else self._shape(target, columns, names, [])
                has_rows = True
                # A round of everything would begin at its first row again
                patience_s = self._settings.idle_s if cursor is not None else None
                if not self._give(self._chunk(target, cursor, columns, names, rows), patience_s):
                    raise RoundLeftError(f"{target.name} was left alone for {patience_s:g} s in mid round")
            return None
        finally:
            if not is_read:
                give_up_rows(connection, cursor_of_driver)
            for opened in (result, cursor_of_driver):  # SQLAlchemy forgets the driver's when the connection is lost
                with contextlib.suppress(Exception):
                    opened.close()

    def _chunk(
        self,
        target: Target,
        cursor: Cursor | None,
        columns: Sequence[Column],
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> Chunk:
        """Errors: DataError, ColumnError, TableChangedError."""
        while True:
            shape = self._shape(target, columns, names, rows)
            try:
                return chunk_of(shape, cursor, rows, target)
            except ColumnError as error:
                known, name = self._texts.setdefault(target.name, set()), error.column.name
                if self._kind != "sqlite" or name in known or (cursor is not None and name.lower() in cursor.names):
                    found = error
                    if self._settings.gives_up_rows:
                        try:
                            return chunk_with_misfits(shape, cursor, rows, target)
                        except ColumnError as placeless:
                            found = placeless
                    raise DataError(f"{target.name} cannot be read: {found}", hint=found.hint) from found
                known.add(name)
                log.warning("%s: %s. The column is read as text from now on", target.name, error)

    def _shape(
        self, target: Target, columns: Sequence[Column], names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> RowShape:
        """The shape of these rows: the same object while the columns stay the same. Errors: DataError."""
        doubles = {name for name in names if names.count(name) > 1}
        if doubles:
            raise DataError(
                f"{target.name} gives several columns named {', '.join(sorted(doubles))}: name them with AS"
            )
        if [column.name for column in columns] != list(names):
            raise TableChangedError(f"The columns of {target.name} changed while it was read")
        known = self._shapes.get(target.name)
        texts = self._texts.get(target.name, set())
        if texts:  # any column of SQLite may hold anything
            columns = [replace(one, kind="string") if one.name in texts else one for one in columns]
        before = {one.name: one.kind for one in known.columns if one.name not in texts} if known is not None else {}
        columns = inferred(columns, rows, before)
        if known is None or known.columns != columns:
            known = RowShape(target.table.name if target.table else None, columns, self._settings.types)
            self._shapes[target.name] = known
        return known

    def _look_ahead(self, target: Target, place: Place, now_us: int) -> None:
        """Tell once of an offset that rows have yet to come to: of a database of another zone, say."""
        ahead_s = ((place.time_us or now_us) - now_us) / 1_000_000
        if ahead_s > _AHEAD_S and target.name not in self._ahead:
            self._ahead.add(target.name)
            log.warning(
                "The offset of %s is %d s ahead of the database's clock: rows before it are not read. If they should "
                "be, move it back with `connect offsets move`",
                target.name,
                ahead_s,
            )

    def _end_us(self, target: Target, cursor: Cursor | None, now_us: int) -> int:
        """Up to when rows are read."""
        wanted_us = now_us - self._settings.delay_ms * 1000
        end_us = wanted_us if cursor is None else before_repeat(wanted_us, cursor, self._style)
        if end_us != wanted_us and self._waits.get(target.name) != end_us:
            log.info(
                "%s: clocks in %s repeat an hour. Rows of both hours are read when they are over",
                target.name,
                self._style.zone,
            )
            self._waits[target.name] = end_us
        return end_us

    def _now_us(self, connection: sa.Connection) -> int:
        """The database's present."""
        value = connection.exec_driver_sql(_NOW.get(self._kind, "SELECT CURRENT_TIMESTAMP")).scalar_one()
        return moment_of(value, datetime.UTC)

    def _quote(self, name: str) -> str:
        """Not SQLAlchemy's own: it doubles percent signs, which are marks only in statements with parameters."""
        if not self._settings.quotes:
            return name
        preparer = self._engine.dialect.identifier_preparer
        end = preparer.final_quote
        return f"{preparer.initial_quote}{name.replace(end, end * 2)}{end}"

    def _marked(self, text: str, count: int) -> str:
        """The statement with the driver's placeholders."""
        module = self._engine.dialect.dbapi
        style = module.paramstyle if module is not None else "qmark"
        if count and style in ("format", "pyformat"):
            text = text.replace("%", "%%")
        for mark in placeholders(style, count):
            text = text.replace(MARK, mark, 1)
        return text

    def _give(self, item: Chunk | RoundBegin | RoundEnd, patience_s: float | None = None) -> bool:
        """Hand it to the task; False if nothing was taken for so long. None waits until the task stops."""
        give_up_at = None if patience_s is None else time.monotonic() + patience_s
        while not self._stopping.is_set():
            with contextlib.suppress(queue.Full):
                self._found.put(item, timeout=_STEP_S)
                return True
            if give_up_at is not None and time.monotonic() >= give_up_at:
                return False
        return True

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it may be lost, and is given up in any case
                connection.close()


class RoundLeftError(ConnectError):
    """Nobody took the rows: the round was ended, so that the database has no transaction open endlessly."""


class TableChangedError(ConnectError):
    """The columns are others than a moment before: the round is read again."""
