"""SqlSink's transactions: one connection of a driver, the statements for rows, tables made and given columns."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kconnect.api import DataError, Type
from kconnect.builtin.connectors.sql.sql_blocks import Block
from kconnect.builtin.connectors.sql.sql_bulk import array_text, array_type, bulk_statement, last_of_each
from kconnect.builtin.connectors.sql.sql_dialect import EXACT_COLLATIONS, values_of_marks
from kconnect.builtin.connectors.sql.sql_errors import Cause, RefusedRecordError, blame
from kconnect.builtin.connectors.sql.sql_rows import Row, kind_of_values, runs_of
from kconnect.builtin.connectors.sql.sql_shapes import FittedBlock, TableShapes
from kconnect.builtin.connectors.sql.sql_sink_database import SinkDatabase

log = logging.getLogger(__name__)


# As many shapes as rows of one topic have; where names are data, each has its own
_MOST_STATEMENTS = 1000
# Rows from which on PostgreSQL is given arrays
_FEWEST_UNFOLDED = 10
# Of a character in a statement of MySQL, and of a number, time or null in it
_MOST_BYTES, _MOST_BYTES_OF_OTHERS = 4, 100


class ChangedTableError(Exception):
    """A table has no place for rows any more, as `found` tells."""

    def __init__(self, found: Exception) -> None:
        super().__init__(str(found))
        self.found = found


class TableWriter:
    """`begin`, then `shape` and `run` with its cursor, then `commit` or `roll_back`. Errors: the driver's."""

    def __init__(self, database: SinkDatabase, settings: Mapping[str, Any], shapes: TableShapes) -> None:
        self._database, self._settings, self._shapes = database, settings, shapes
        self._driver, self._dialect = database.driver, database.dialect
        self.prepares = True
        """Whether new connections may prepare statements, where the session is theirs."""
        self._connection: Any = None  # the driver's
        self._beginning = ""  # the statement that begins each of its transactions
        self._longest: int | None = None  # bytes of a statement
        self._created: set[str] = set()
        self._complete: set[tuple[str, tuple[str, ...]]] = set()  # tables with the columns that they are known to have
        self._columns: dict[str, tuple[str, ...]] = {}  # of tables, those that were written last
        self._pending: dict[str, tuple[str, ...]] = {}  # the same of the transaction
        self._rows: Sequence[Row] = ()  # of the transaction
        self._statements: dict[tuple[str, tuple[str, ...], tuple[str, ...], bool], str] = {}

    # --- transactions ---

    def begin(self, rows: Sequence[Row] = ()) -> Any:
        """A cursor of a new transaction for these rows, which tables that are missing are made for."""
        self._rows = rows
        if self._connection is None:
            self._connection = self._database.connect()
            self._beginning = self._database.begin(self._connection, prepares=self.prepares)
            self._longest = self._database.longest_statement(self._connection)
        cursor = self._connection.cursor()
        if self._longest is not None and hasattr(cursor, "max_stmt_length"):  # of rows that go together
            cursor.max_stmt_length = min(cursor.max_stmt_length, self._longest)
        if self._beginning:
            cursor.execute(self._beginning)
        return cursor

    @property
    def connection(self) -> Any:
        """The driver's, behind a `begin`."""
        return self._connection

    def commit(self) -> None:
        self._connection.commit()
        self._shapes.committed()
        self._columns.update(self._pending)
        self._pending.clear()

    def cancel(self) -> None:
        """End a transaction that has written nothing."""
        self._connection.rollback()

    def roll_back(self) -> None:
        """Roll back, and reconnect next time: after an error a connection may be unusable."""
        connection, self._connection = self._connection, None
        self.forget_tables()
        self._shapes.rolled_back()
        self._pending.clear()
        if connection is not None:
            with contextlib.suppress(self._driver.Error):  # the first error is more informative
                connection.rollback()
            with contextlib.suppress(self._driver.Error):
                connection.close()

    def forget_tables(self) -> None:
        """Tables and columns that were made since a point to which was rolled back are gone."""
        self._created.clear()
        self._complete.clear()
        self._shapes.forget()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- rows ---

    def fitted(self, cursor: Any, blocks: Iterable[Block]) -> list[FittedBlock] | None:
        """The blocks as `write` takes them; None where their rows go by `run`."""
        mode, made = self._settings["insert.mode"], []
        for block in blocks:
            one = self._shapes.block(cursor, block, pads=mode == "insert")
            if one is None or (mode == "update" and len(one.cells) == len(one.keys) and not one.is_delete):
                return None
            statement = self._statement(one.table, tuple(one.cells), one.keys, is_delete=one.is_delete)
            if self._may_be_too_long(statement, one.cells.values()):
                return None
            made.append(one)
        return made

    def write(self, cursor: Any, block: FittedBlock) -> None:
        """All rows of a block, in order."""
        size, columns = self._settings["batch.size"], tuple(block.cells)
        cells = [*block.cells.values()]
        for start in range(0, len(cells[0]), size):
            part = [column[start : start + size] for column in cells]
            if not self._has_unfolded(cursor, block, part):
                statement = self._statement(block.table, columns, block.keys, is_delete=block.is_delete)
                cursor.executemany(statement, self._given(part, 0 if block.is_delete else len(block.keys)))
        if not block.is_delete:
            self._pending[block.table] = columns

    def _has_unfolded(self, cursor: Any, block: FittedBlock, cells: Sequence[Sequence[Any]]) -> bool:
        """Whether PostgreSQL has taken the rows in one statement."""
        mode = self._settings["insert.mode"]
        if self._driver.__name__ != "psycopg" or mode == "update" or len(cells[0]) < _FEWEST_UNFOLDED:
            return False
        if block.is_delete:
            return False
        kinds = {name: array_type(column.type_name) for name, column in block.columns.items()}
        types = {name: kind for name, kind in kinds.items() if kind is not None}
        if len(types) < len(kinds):
            return False
        if mode == "upsert" and (places := last_of_each(cells[: len(block.keys)])) is not None:
            cells = [[column[place] for place in places] for column in cells]
        arrays = [array_text(kind, column) for kind, column in zip(types.values(), cells, strict=True)]
        if None in arrays:
            return False
        names = {self._marked(name): kind for name, kind in types.items()}
        keys = [self._marked(name) for name in block.keys] if mode == "upsert" else None
        marks = self._database.marks(len(arrays))
        cursor.execute(bulk_statement(self._dialect, self._marked(block.table), names, marks, keys), arrays)
        return True

    def shape(self, cursor: Any, rows: Sequence[Row]) -> None:
        for run in runs_of(self._shapes.known(cursor, rows, self._rows)):
            self._create(cursor, run)
            self._evolve(cursor, run)
            self._fitted(cursor, run)

    def run(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Rows in order; neighbours of one shape go to the driver together."""
        size = self._settings["batch.size"]
        for run in self._runs(cursor, rows):
            if self._settings["insert.mode"] == "update" and run[0].columns == run[0].keys and not run[0].is_delete:
                continue  # nothing besides the key
            if run[0].is_delete and self._settings["auto.create"] and not self._shapes.is_there(cursor, run[0].table):
                continue  # as in a compacted topic, whose first records may be tombstones
            for part in self._fitted(cursor, run):
                statement = self._statement(part[0].table, part[0].columns, part[0].keys, is_delete=part[0].is_delete)
                columns = self._shapes.values(cursor, part)
                values = self._given(columns, 0 if part[0].is_delete else len(part[0].keys))
                if self._may_be_too_long(statement, columns):
                    self._require_short(cursor, statement, values)
                for start in range(0, len(part), size):
                    cursor.executemany(statement, values[start : start + size])
                if not part[0].is_delete:
                    self._pending[part[0].table] = part[0].columns

    def _may_be_too_long(self, statement: str, columns: Iterable[Sequence[Any]]) -> bool:
        """Whether it may be more than the server takes with a row of these columns; seldom."""
        if self._longest is None:
            return False
        return _MOST_BYTES * len(statement) + sum(map(_most_bytes, columns)) > self._longest

    def _require_short(self, cursor: Any, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Errors: RefusedRecordError for a row that the server does not take; ask for each row alone."""
        if not hasattr(cursor, "mogrify"):  # mysql.connector, which is asked for by its name alone
            return
        for row in rows:
            size = len(cursor.mogrify(statement, row).encode(errors="surrogateescape"))
            if self._longest is not None and size > self._longest:
                raise RefusedRecordError(
                    f"It is a statement of {size} bytes, and the server takes {self._longest} (max_allowed_packet)",
                    hint="Set max_allowed_packet of the server to more, or leave the largest field out.",
                )

    def _runs(self, cursor: Any, rows: Sequence[Row]) -> Iterable[list[Row]]:
        """Neighbours of one shape, whose tables have a place for them."""
        rows = self._shapes.known(cursor, rows, self._rows)
        if self._settings["insert.mode"] != "insert":  # what a row lacks stays there as it is
            for run in runs_of(rows):
                self._create(cursor, run)
                self._evolve(cursor, run)
                yield run
            return
        for run in runs_of(rows):
            self._create(cursor, run)
            self._evolve(cursor, run)
        yield from runs_of(self._shapes.padded(cursor, rows))

    def _fitted(self, cursor: Any, run: Sequence[Row]) -> Iterable[Sequence[Row]]:
        """The rows with values that their columns take without change. Errors: MisfitError, DiscardedRowError."""
        return self._shapes.fitted(cursor, run, partial(self._add, cursor))

    def _add(self, cursor: Any, table: str, name: str, kind: str) -> None:
        """Add a column."""
        cursor.execute(self._dialect.add_column(table, name, kind))
        self._shapes.changed(table)
        log.info("Table %s has got the column %s", table, name)

    def _given(self, columns: Sequence[Sequence[Any]], keys: int) -> list[tuple[Any, ...]]:
        """What the driver is given for rows of one shape, of which so many columns are the key."""
        if self._settings["insert.mode"] == "update":
            columns = [*columns[keys:], *columns[:keys]]
        return list(zip(*columns, strict=True))

    def _statement(
        self, table: str, columns: tuple[str, ...], keys: tuple[str, ...], *, is_delete: bool = False
    ) -> str:
        """Measured where a member comes and goes, so that each row has another: 12 of 55 us a row."""
        key = table, columns, keys, is_delete
        found = self._statements.get(key)
        if found is None:
            if len(self._statements) >= _MOST_STATEMENTS:
                self._statements.clear()
            found = self._statements[key] = self._made_statement(*key)
        return found

    def _made_statement(self, table: str, columns: tuple[str, ...], keys: tuple[str, ...], is_delete: bool) -> str:
        table, *names = (self._marked(name) for name in (table, *columns))
        key = names[: len(keys)]  # key columns come first
        marks = self._database.marks(len(names))
        if is_delete:
            return self._dialect.delete(table, names, marks)
        if self._settings["insert.mode"] == "upsert":
            return self._dialect.upsert(table, names, key, values_of_marks(marks))
        if self._settings["insert.mode"] == "update":
            return self._dialect.update(table, names, key, marks)
        return self._dialect.insert(table, names, values_of_marks(marks))

    def _marked(self, name: str) -> str:
        """A name in a statement with marks, as one of which no % in it must read."""
        return name.replace("%", "%%") if self._driver.paramstyle in ("format", "pyformat") else name

    def _create(self, cursor: Any, run: Sequence[Row]) -> None:
        """Create the table of a run, once, with the columns that its rows have."""
        row = run[0]
        if not self._settings["auto.create"] or row.is_delete or row.table in self._created:
            return
        kinds = {name: self._kind(run, name) for name in row.columns}
        collation = ""
        if self._dialect.name == "mysql" and any(self._dialect.is_text(kinds[name]) for name in row.keys):
            names = ", ".join(f"'{name}'" for name in EXACT_COLLATIONS)
            cursor.execute(
                f"SELECT collation_name FROM information_schema.collations WHERE collation_name IN ({names})"
            )
            collation = min((name for (name,) in cursor.fetchall()), key=EXACT_COLLATIONS.index, default="")
        cursor.execute(self._dialect.create(row.table, kinds, row.keys, collation))
        self._created.add(row.table)

    def _evolve(self, cursor: Any, run: Sequence[Row]) -> None:
        """Add the columns that a run's table lacks; each set of columns is looked at once.

        Errors: DataError for a field that is neither optional nor has a default. Source: DbStructure.amendIfNecessary.
        """
        row = run[0]
        if not self._settings["auto.evolve"] or row.is_delete or (row.table, row.columns) in self._complete:
            return
        cursor.execute(f"SELECT * FROM {self._dialect.name_of(row.table)} WHERE 1=0")
        named: Callable[[str], str] = str if self._dialect.tells_case else str.lower
        there = {named(column[0]) for column in cursor.description}
        for name in row.columns:
            if named(name) in there or not self._shapes.may_add(name):
                continue
            field = row.schema.field(name) if row.schema is not None and row.schema.type is Type.STRUCT else None
            if field is not None and not field.schema.is_optional and field.schema.default is None:
                raise DataError(
                    f"Table {row.table} lacks column {name}, which cannot be added: its field is not optional and has "
                    "no default"
                )
            self._add(cursor, row.table, name, self._kind(run, name))
        self._complete.add((row.table, row.columns))

    def _kind(self, run: Sequence[Row], name: str) -> str:
        """What a new column must be: as the schema says, or to hold what all rows of the transaction have for it."""
        index = run[0].columns.index(name)
        if not run[0].is_seen and (known := next((row.kinds[index] for row in run if row.kinds[index]), None)):
            return known
        rows = [row for row in (*run, *self._rows) if row.table == run[0].table and name in row.columns]
        return kind_of_values(row.values[row.columns.index(name)] for row in rows) or "text"

    # --- refusals ---

    def require_same_tables(self, cursor: Any, refused: Iterable[tuple[Row, Exception]]) -> None:
        """Errors: ChangedTableError if rows are refused for their columns because somebody has changed the table.

        It has changed if it has no place any more for columns that were written before. Where none were, several rows
        that are all refused alike say so.
        """
        unfit: dict[str, list[Exception]] = {}
        for row, error in refused:
            if blame(self._dialect.name, error) is Cause.SHAPE:
                unfit.setdefault(row.table, []).append(error)
        for table in self._pending:
            unfit.pop(table, None)  # rows of this very transaction have a place there
        for table, errors in unfit.items():
            columns = self._columns.get(table)
            if columns is None:
                is_changed = len(errors) > 1 and len({str(error) for error in errors}) == 1
            else:
                is_changed = not self._has_place(cursor, table, columns)
            if is_changed:
                raise ChangedTableError(errors[0])

    def _has_place(self, cursor: Any, table: str, columns: Sequence[str]) -> bool:
        """Whether a table takes rows of these columns. Errors: the driver's, when it is lost."""
        cursor.execute("SAVEPOINT kconnect_row")
        try:
            cursor.execute(self._dialect.insert_nothing(table, columns))
        except Exception as error:  # as in put
            cursor.execute("ROLLBACK TO SAVEPOINT kconnect_row")
            return blame(self._dialect.name, error) is not Cause.SHAPE
        cursor.execute("RELEASE SAVEPOINT kconnect_row")
        return True


def _most_bytes(cells: Sequence[Any]) -> int:
    """No value of these is longer in a statement of MySQL. Measured: 0.12 us a text."""
    long = {*map(type, cells)} & {str, bytes, bytearray}
    longest = max(map(len, filter(lambda cell: type(cell) in long, cells))) if long else 0
    return _MOST_BYTES * longest + _MOST_BYTES_OF_OTHERS
