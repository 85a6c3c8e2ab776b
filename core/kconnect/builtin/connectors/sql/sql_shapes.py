"""Rows of SqlSink made to fit the columns that their tables have: looked up once, widened, or others added."""

from __future__ import annotations

import contextlib
import logging
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from kconnect.api import DataError
from kconnect.builtin.connectors.sql.sql_blocks import Block
from kconnect.builtin.connectors.sql.sql_errors import RefusedRecordError
from kconnect.builtin.connectors.sql.sql_fit import MisfitError, TableColumn, TableColumns, fitted, is_safe
from kconnect.builtin.connectors.sql.sql_rows import MOST_WIDENED, Row, kind_of_values, runs_of
from kconnect.builtin.connectors.sql.sql_sink_database import SinkDatabase
from kconnect.builtin.connectors.sql.sql_target_columns import (
    MYSQL_COLUMNS,
    POSTGRES_COLUMNS,
    mysql_columns,
    postgres_columns,
    sqlite_columns,
)
from kconnect.builtin.connectors.sql.sql_targets import plain_target
from kconnect.builtin.connectors.sql.sql_widening import Widening
from kconnect.builtin.types.contracts import VARIANT, Contract, Contracts, DiscardedRowError, Discards
from kconnect.builtin.types.fitting import as_text
from kconnect.builtin.types.seen_columns import NO_VALUE

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FittedBlock:
    """Columns as the driver takes them, and those of the table that they go into."""

    table: str
    cells: Mapping[str, Sequence[Any]]
    keys: tuple[str, ...]
    columns: Mapping[str, TableColumn]
    is_delete: bool = False


class TableShapes:
    """The columns of the tables that one connection writes to. Threads: the task's."""

    def __init__(
        self, database: SinkDatabase, settings: Mapping[str, Any], props: Mapping[str, str], discards: Discards
    ) -> None:
        self._database, self._dialect = database, database.dialect
        self._contracts = Contracts.parse(props)
        self._evolves, self._creates = settings["auto.evolve"], settings["auto.create"]
        self._names_keys = bool(settings["pk.fields"])
        self._discards = discards
        self._zone = zoneinfo.ZoneInfo(settings["db.timezone"])
        self._adapt = partial(database.dialect.adapt, zone=self._zone)
        self._widening = Widening(database, self._column_now)
        self._tables: dict[str, TableColumns] = {}
        self._others: dict[str, str] = {}  # by table, the name of what SQLite takes for it
        self._nulls: list[tuple[str, DataError]] = []  # values that became null in this transaction

    def committed(self) -> None:
        """Count what the transaction leaves out."""
        for name, error in self._nulls:
            self._discards.some(name, 1, error)
        self._nulls.clear()

    def rolled_back(self) -> None:
        self._nulls.clear()
        self.forget()

    def forget(self) -> None:
        """The tables may have other columns: a transaction that made some was rolled back."""
        self._tables.clear()
        self._others.clear()
        self._widening.forget()

    def changed(self, table: str) -> None:
        """The table has got columns."""
        self._tables.pop(table, None)

    def fitted(self, cursor: Any, run: Sequence[Row], add: Callable[[str, str, str], None]) -> Iterable[list[Row]]:
        """Rows of one shape as their table takes them, again by shape. `add(table, column, kind)` adds a column.

        Errors: MisfitError for a value that has no place; ask for each row alone. DataError for two fields that are one
        column, of which SQLite would take the first without a word. The driver's.
        """
        if other := self._other(cursor, run[0].table):
            raise DataError(
                f"Table {run[0].table} cannot be created: table {other} exists, and to SQLite both names are one table",
                hint="Choose another name with table.name.format or RegexRouter. If these rows belong in "
                f"{other}, use that name.",
            )
        if not self._dialect.tells_case and (twins := _twins(run[0].columns)) is not None:
            one, other = twins
            raise RefusedRecordError(
                f"{one} and {other} differ in case alone, and are one column of table {run[0].table}"
            )
        columns = self._columns(cursor, run[0].table)
        if run[0].keys and not self._names_keys:
            _require_whole_key(columns, run[0])
        if columns and not self._contracts.is_open:
            run = self._without_new(columns, run)
        unsafe = [
            index
            for index, name in enumerate(run[0].columns)
            if not is_safe(columns.get(name), [row.values[index] for row in run])
        ]
        if not unsafe:
            return [list(run)]
        if (made := _fitted_by_columns(columns, run, unsafe)) is not None:
            return [made]
        return runs_of([self._row(cursor, row, unsafe, add) for row in run])

    def block(self, cursor: Any, block: Block, *, pads: bool) -> FittedBlock | None:
        """The block as its table takes it; None where single rows tell what is wrong, or get columns of their own.

        `pads`: whether rows may have null for a column that they lack. Errors: the driver's.
        """
        columns = self._columns(cursor, block.table)
        if not columns or (not self._dialect.tells_case and _twins(block.columns) is not None):
            return None
        if self._other(cursor, block.table):
            return None
        if block.keys and not self._names_keys and _missing_keys(columns, block.keys):
            return None
        made: dict[str, Sequence[Any]] = {}
        for name, cells in block.columns.items():
            column = columns.get(name)
            if column is None:
                if not (self._evolves and block.is_seen and all(cell is None for cell in cells)):
                    return None
                continue  # nothing is known of it yet, as in `known`
            if name in block.lacking and not (pads and column.is_null_if_left_out):
                return None
            fit = _fitted_cells(column, cells, is_seen=block.is_seen)
            if fit is None:
                return None
            made[name] = fit
        into = {name: columns[name] for name in made}
        return FittedBlock(block.table, made, block.keys, into, block.is_delete) if made else None

    def padded(self, cursor: Any, rows: Sequence[Row]) -> list[Row]:
        """Rows for an insert, with null for what some of them lack: they share one statement then.

        Only where the table would have null there anyway. Measured with SQLite, a member that is missing in a third of
        the rows: 13 us a row, not 29.
        """
        made: list[Row] = []
        for (table, is_delete), run in groupby(rows, _TABLE):
            group = list(run)
            made += group if is_delete else _padded(self._columns(cursor, table), group)
        return made

    def known(self, cursor: Any, rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
        """The rows without fields of which nothing is known yet: no columns, and null in all rows of the transaction.

        `others`: those. A column made for such a field would be one of texts, and numbers would become texts later. A
        row that has no other field is one of nulls. Errors: RefusedRecordError where there is no table to have it.
        """
        made: list[Row] = []
        for (table, is_delete), run in groupby(rows, _TABLE):
            group = list(run)
            if not is_delete and self._evolves:
                same = [row for row in others if row.table == table]
                group = _known(table, self._columns(cursor, table), group, same)
            made += group
        return made

    def values(self, cursor: Any, rows: Sequence[Row]) -> list[Sequence[Any]]:
        """The columns of rows that `fitted` gave, each as the driver takes it."""
        columns = self._columns(cursor, rows[0].table)
        other = plain_target(self._adapt)
        targets = [column.target if (column := columns.get(name)) else other for name in rows[0].columns]
        given = zip(*(row.values for row in rows), strict=True)
        return [target.cells(values) for target, values in zip(targets, given, strict=True)]

    def is_there(self, cursor: Any, table: str) -> bool:
        """Whether the table exists. Errors: the driver's."""
        return bool(self._columns(cursor, table))

    def may_add(self, name: str) -> bool:
        """Whether a field may become a column of a table that is there."""
        return self._contracts.of(name) is Contract.EVOLVE

    # --- one row ---

    def _without_new(self, columns: TableColumns, run: Sequence[Row]) -> Sequence[Row]:
        """The rows without fields that are no columns and must not become any.

        Errors: DataError, DiscardedRowError for a row that has a value in one, unless the contract leaves that out.
        """
        table, names = run[0].table, run[0].columns
        new = [i for i, name in enumerate(names) if name not in columns and not self.may_add(name)]
        for index in new:
            contract = self._contracts.of(names[index])
            for value in (row.values[index] for row in run if row.values[index] is not None):
                message = (
                    f"Table {table} has no column {names[index]}, whose value is {value!r:.60}, and schema.contract is "
                    f"{contract} for it"
                )
                if contract is not Contract.DISCARD_VALUE:
                    raise (
                        DiscardedRowError(message) if contract is Contract.DISCARD_ROW else RefusedRecordError(message)
                    )
                self._nulls.append((names[index], DataError(message)))
        if not new:
            return run
        kept = _kept(table, columns, names, [i for i in range(len(names)) if i not in new])
        return [_of_columns(row, *kept) for row in run]

    def _row(self, cursor: Any, row: Row, unsafe: Sequence[int], add: Callable[[str, str, str], None]) -> Row:
        values = list(row.values)
        beside: dict[str, Any] = {}
        for index in unsafe:
            name = row.columns[index]
            column = self._columns(cursor, row.table).get(name)
            if column is None:
                continue
            try:
                values[index] = fitted(column, values[index], is_seen=row.is_seen)
            except MisfitError as error:
                is_key = name in row.keys
                values[index], more = self._unfit(cursor, row, column, values[index], error, add, is_key=is_key)
                beside.update(more)
        if not beside:
            return row._replace(values=tuple(values))
        names = (*row.columns, *(name for name in beside if name not in row.columns))
        given = dict(zip(row.columns, values, strict=True)) | beside
        kinds = (*row.kinds, *(None for _ in names[len(row.columns) :]))
        return row._replace(columns=names, values=tuple(given[name] for name in names), kinds=kinds)

    def _unfit(
        self,
        cursor: Any,
        row: Row,
        column: TableColumn,
        value: Any,
        error: MisfitError,
        add: Callable[[str, str, str], None],
        *,
        is_key: bool,
    ) -> tuple[Any, dict[str, Any]]:
        """What the column gets instead, and other columns with their values. Errors: MisfitError, DiscardedRowError."""
        contract = self._contracts.of(column.name)
        if is_key or contract is Contract.FREEZE:
            raise error
        if contract is Contract.DISCARD_ROW:
            raise DiscardedRowError(f"{error}") from error
        if contract is Contract.DISCARD_VALUE:
            self._nulls.append((column.name, error))
            return None, {}
        if not self._evolves:
            raise error
        found = self._widening.widened(cursor, row.table, column, value, is_seen=row.is_seen)
        if found is not None:
            with contextlib.suppress(MisfitError):
                return fitted(found, value, is_seen=row.is_seen), {}
        if not row.is_seen:
            raise error  # whose schema says where the value belongs
        return None, self._beside(cursor, row.table, column, value, error, add)

    def _beside(
        self,
        cursor: Any,
        table: str,
        column: TableColumn,
        value: Any,
        error: MisfitError,
        add: Callable[[str, str, str], None],
    ) -> dict[str, Any]:
        """The second column for the value, which is added where it is missing. Errors: MisfitError."""
        kind = kind_of_values([value]) or "text"
        label = {"int64": "bigint", "float64": "double"}.get(kind, kind)
        for place, given, wanted in (
            (f"{column.name}{VARIANT}{label}", value, kind),
            (f"{column.name}{VARIANT}text", value if isinstance(value, str) else as_text(value), "text"),
        ):
            there = self._columns(cursor, table).get(place)
            if there is None:
                add(table, place, wanted)
                there = self._columns(cursor, table)[place]
            with contextlib.suppress(MisfitError):
                return {there.name: fitted(there, given, is_seen=True)}
        raise error

    # --- the tables ---

    def _columns(self, cursor: Any, table: str) -> TableColumns:
        found = self._tables.get(table)
        if found is None:
            found = TableColumns(self._look(cursor, table), tells_case=self._dialect.tells_case)
            if found:  # else there is no table yet
                self._tables[table] = found
        return found

    def _other(self, cursor: Any, table: str) -> str:
        """The table that is there for one that would be made, where its name differs in case; else nothing."""
        if self._dialect.name != "sqlite" or not self._creates:
            return ""
        found = self._others.get(table)
        if found is None:
            schema, name = self._dialect.parts(table)
            where = f"{self._dialect.column(schema)}." if schema else ""
            (mark,) = self._database.marks(1)
            cursor.execute(f"SELECT name FROM {where}sqlite_master WHERE name = {mark} COLLATE NOCASE", (name,))
            names = {row[0] for row in cursor.fetchall()}
            found = self._others[table] = "" if name in names else next(iter(names), "")
        return found

    def _look(self, cursor: Any, table: str) -> list[TableColumn]:
        dialect = self._dialect
        if dialect.name == "postgresql":
            literal = "'" + dialect.name_of(table).replace("'", "''") + "'"
            cursor.execute(POSTGRES_COLUMNS.format(table=literal))
            return postgres_columns(cursor.fetchall(), self._zone)
        schema, name = dialect.parts(table)
        if dialect.name == "sqlite":
            where = f"{dialect.column(schema)}." if schema else ""
            cursor.execute(f"PRAGMA {where}table_info({dialect.column(name)})")
            return sqlite_columns(cursor.fetchall(), self._adapt)
        one, other = self._database.marks(2)
        cursor.execute(MYSQL_COLUMNS.format(schema=one, table=other), (schema or None, name))
        return mysql_columns(cursor.fetchall(), self._adapt)

    def _column_now(self, cursor: Any, table: str, name: str) -> TableColumn | None:
        self._tables.pop(table, None)
        return self._columns(cursor, table).get(name)


def _fitted_by_columns(columns: TableColumns, run: Sequence[Row], unsafe: Sequence[int]) -> list[Row] | None:
    """The rows with the values of these columns as they take them; None where a value has no place in its own."""
    given: list[Sequence[Any]] = list(zip(*(row.values for row in run), strict=True))
    try:
        for index in unsafe:
            column = columns[run[0].columns[index]]
            cells = zip(given[index], run, strict=True)
            given[index] = [fitted(column, value, is_seen=row.is_seen) for value, row in cells]
    except MisfitError:
        return None
    return [row._replace(values=values) for row, values in zip(run, zip(*given, strict=True), strict=True)]


_TABLE: Final = attrgetter("table", "is_delete")


def _padded(columns: TableColumns, rows: Sequence[Row]) -> Sequence[Row]:
    given = dict.fromkeys(row.columns for row in rows)
    names = tuple(dict.fromkeys(name for shape in given for name in shape))
    if len(given) == 1 or len(names) > MOST_WIDENED * max(map(len, given)):
        return rows
    if _twins(names) is not None:  # one column, whose value in a row the null of the other name would replace
        return rows
    optional = {name for name in names if (column := columns.get(name)) and column.is_null_if_left_out}
    made = {}
    for shape in given:
        wanted = tuple(name for name in names if name in shape or name in optional)
        made[shape] = wanted, [shape.index(name) if name in shape else None for name in wanted]
    return [_of_columns(row, *made[row.columns]) for row in rows]


def _fitted_cells(column: TableColumn, cells: Sequence[Any], *, is_seen: bool) -> Sequence[Any] | None:
    """The values as the driver takes them; None where one does not fit."""
    if is_safe(column, cells):
        return column.target.cells(cells)
    try:
        return column.target.cells([fitted(column, cell, is_seen=is_seen) for cell in cells])
    except MisfitError:
        return None


def _require_whole_key(columns: TableColumns, row: Row) -> None:
    """Errors: DataError for a key of which a part is missing: a delete would find the rows of others, too."""
    if missing := _missing_keys(columns, row.keys):
        raise RefusedRecordError(f"The key lacks {', '.join(missing)}, which the primary key of table {row.table} has")


def _missing_keys(columns: TableColumns, keys: Iterable[str]) -> list[str]:
    """Columns of the table's primary key beside all of these."""
    given = {column.name if (column := columns.get(name)) else name for name in keys}
    wanted = {column.name for column in columns.values() if column.is_key}
    return [column.name for column in columns.values() if column.name in wanted - given] if given < wanted else []


def _twins(names: Iterable[str]) -> tuple[str, str] | None:
    """Two names that differ in upper and lower case alone."""
    seen: dict[str, str] = {}
    return next(((twin, name) for name in names if (twin := seen.setdefault(name.lower(), name)) != name), None)


def _known(table: str, columns: TableColumns, rows: list[Row], others: Sequence[Row]) -> list[Row]:
    given = {row.columns for row in rows}
    unknown = {name for shape in given for name in shape if name not in columns}
    unknown = {name for name in unknown if not any(_says(row, name) for row in others)}
    made: dict[tuple[str, ...], tuple[tuple[str, ...], Sequence[int | None]]] = {}
    for shape in given:
        kept = [at for at, name in enumerate(shape) if name not in unknown]
        made[shape] = _kept(table, columns, shape, kept)
    return [_of_columns(row, *made[row.columns]) for row in rows] if unknown else rows


def _kept(
    table: str, columns: TableColumns, shape: tuple[str, ...], places: Sequence[int]
) -> tuple[tuple[str, ...], Sequence[int | None]]:
    """The columns at these places of a row, for `_of_columns`: where none is left, one that has null.

    Errors: RefusedRecordError where there is no such column.
    """
    if places:
        return tuple(shape[at] for at in places), places
    if not columns:
        raise RefusedRecordError(NO_VALUE)
    found = next((column.name for column in columns.values() if column.is_null_if_left_out), None)
    if found is None:
        raise RefusedRecordError(f"It has no field with a value, and table {table} has no column that may be null")
    return (found,), [None]


def _says(row: Row, name: str) -> bool:
    """Whether it says what the field is: with a value, or with a schema."""
    if name not in row.columns:
        return False
    at = row.columns.index(name)
    return row.values[at] is not None or row.kinds[at] is not None


def _of_columns(row: Row, columns: tuple[str, ...], places: Sequence[int | None]) -> Row:
    """The row in these columns. `places`: where it has each of them; None where it has null."""
    if columns == row.columns:
        return row
    values, kinds = row.values, row.kinds
    return row._replace(
        columns=columns,
        values=tuple(None if at is None else values[at] for at in places),
        kinds=tuple(None if at is None else kinds[at] for at in places),
    )
