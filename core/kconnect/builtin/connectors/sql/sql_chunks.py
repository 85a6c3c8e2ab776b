"""Rows of a table or query as columns, with those apart that cannot be read, and the columns that a mode goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, DataError
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.sql.sql_columns import Column, Misfit, RowShape, find_column
from kconnect.builtin.connectors.sql.sql_cursor import Cursor, nullable
from kconnect.builtin.connectors.sql.sql_describe import Description
from kconnect.builtin.connectors.sql.sql_tables import TableId
from kconnect.builtin.connectors.sql.sql_values import Unreadable, first_time, is_before_calendar

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table or a query, and the columns that its mode goes by."""

    table: TableId | None
    query: str
    mode: str
    incrementing: str
    """Empty: the column that the database counts up."""
    timestamps: tuple[str, ...]
    requires_values: bool
    """Whether columns of the mode may not be nullable."""
    initial_ms: int | None = None
    """Where to begin without an offset; -1: at the present."""

    @property
    def name(self) -> str:
        """For messages."""
        return self.table.full_name if self.table is not None else "the query"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows as columns, in order; `ids` and `times` are those the mode goes by."""

    shape: RowShape
    raw: dict[str, pa.Array]
    ids: pa.Array | None
    times: pa.Array | None
    length: int
    misfits: tuple[Misfit, ...] = ()
    """Rows that cannot be read: here all of their columns are null but those that the mode goes by."""

    def slice(self, start: int, length: int) -> Chunk:
        def cut(column: pa.Array | None) -> pa.Array | None:
            return None if column is None else column.slice(start, length)

        raw = {name: column.slice(start, length) for name, column in self.raw.items()}
        length = min(length, self.length - start)
        misfits = tuple(replace(one, row=one.row - start) for one in self.misfits if start <= one.row < start + length)
        return Chunk(self.shape, raw, cut(self.ids), cut(self.times), length, misfits)


def cursor_of(target: Target, description: Description) -> Cursor | None:
    """The columns that the mode goes by; None for bulk. Errors: ConnectError if one is missing or may be null."""
    if target.mode == "bulk":
        return None

    def find(name: str) -> Column | None:
        return find_column(description.columns, name, target.name) if description.columns else None

    incrementing: str | None = None
    timestamps: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()
    has_zone = False
    if "incrementing" in target.mode:
        name = target.incrementing or description.autoincrement
        if name is None:
            raise ConnectError(
                f"{target.name} has no column that the database counts up",
                hint="Name one in incrementing.column.name.",
            )
        column = find(name)
        incrementing = column.name if column is not None else name
        if column is not None and column.is_optional and target.requires_values:
            raise nullable(target.name, f"its column {name} for mode={target.mode} may be null")
    if "timestamp" in target.mode:
        columns = [find(name) for name in target.timestamps]
        timestamps = tuple(c.name if c else n for c, n in zip(columns, target.timestamps, strict=True))
        present = [column for column in columns if column is not None]
        has_zone = any(column.kind == "timestamptz" for column in present)
        if has_zone:
            walls = tuple(column.name for column in present if column.kind != "timestamptz")
        if present and all(column.is_optional for column in present) and target.requires_values:
            raise nullable(target.name, f"its columns {', '.join(timestamps)} for mode={target.mode} may all be null")
    return Cursor(incrementing, timestamps, has_zone, walls)


def chunk_with_misfits(shape: RowShape, cursor: Cursor | None, rows: Sequence[Sequence[Any]], target: Target) -> Chunk:
    """The rows with those apart that cannot be read. Errors: ColumnError where it is unknown where one is.

    A time before year 1 is before all others, where rows of year 1 begin.
    """
    misfits, kept = shape.misfits(rows), list(rows)
    places, times = (cursor.names, {*map(str.lower, cursor.timestamps)}) if cursor is not None else (set(), set())
    for one in misfits:
        cells: list[Any] = []
        for column, value in zip(shape.columns, rows[one.row], strict=True):
            name = column.name.lower()
            if name in times and is_before_calendar(value):
                cells.append(first_time(column.kind))
            elif name in places and (isinstance(value, Unreadable) or name == one.error.column.name.lower()):
                raise one.error
            else:
                cells.append(value if name in places else None)
        kept[one.row] = tuple(cells)
    return replace(chunk_of(shape, cursor, kept, target), misfits=tuple(misfits))


def chunk_of(shape: RowShape, cursor: Cursor | None, rows: Sequence[Sequence[Any]], target: Target) -> Chunk:
    """The rows as columns. Errors: ColumnError for a value that its column cannot hold; DataError for the mode's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = shape.raw(rows)
    ids = times = None
    if cursor is not None and cursor.incrementing is not None:
        name = find_column(shape.columns, cursor.incrementing, target.name).name
        try:
            ids = raw[name].cast(pa.int64())
        except (pa.ArrowException, KeyError) as err:
            raise DataError(
                f"Column {name} of {target.name} does not hold whole numbers of 64 bits, so it cannot be an id"
            ) from err
        if ids.null_count:
            raise DataError(
                f"Column {name} of {target.name} is null in {pluralize(ids.null_count, 'row')}, without an offset then",
                hint="Fill the column, or use mode=timestamp.",
            )
    if cursor is not None and cursor.timestamps:
        names = [find_column(shape.columns, name, target.name).name for name in cursor.timestamps]
        try:
            times = pc.coalesce(*(shape.moments(raw[name]) for name in names)).cast(pa.timestamp("us", "UTC"))
        except (pa.ArrowException, KeyError) as err:
            raise DataError(f"{', '.join(cursor.timestamps)} of {target.name} are not timestamps") from err
    return Chunk(shape, raw, ids, times, len(rows))
