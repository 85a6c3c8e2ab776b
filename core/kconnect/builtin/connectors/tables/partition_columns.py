"""`partition.by`: the columns that a table is divided by, some made of dates, and the values they can have. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
_ENTRY = re.compile(r"(?:(?P<unit>[a-z]+)\((?P<of>[^()]*)\)|(?P<column>[^()]+))")
RECORD_TIME = "record"
"""Begins the names of columns made of the record's own time: record_day."""


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """One entry of partition.by: a column, or a date of a column, or of the record's time (`source` None)."""

    name: str
    source: str | None
    unit: str | None = None

    @property
    def is_made(self) -> bool:
        return self.unit is not None


def partition_columns(entries: Sequence[str]) -> tuple[PartitionColumn, ...]:
    """The entries `region`, `day(created)`, `day()` of partition.by. Errors: DataError that says which is wrong."""
    found = []
    for entry in entries:
        match = _ENTRY.fullmatch(entry.strip())
        unit = match["unit"] if match else None
        if match is None or (unit is not None and unit not in _UNITS):
            raise DataError(
                f"'{entry}' is neither a column nor one of {', '.join(f'{name}()' for name in _UNITS)}, "
                "with a column between the brackets, or nothing for the record's time"
            )
        if unit is None:
            found.append(PartitionColumn(match["column"].strip(), match["column"].strip()))
        else:
            source = match["of"].strip() or None
            found.append(PartitionColumn(f"{source or RECORD_TIME}_{unit}", source, unit))
    names = [column.name for column in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"Column {twice[0]} is named twice")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Places:
    """What a format makes of the values of partition columns: names of folders, which readers take for values again."""

    format: str
    """For sentences."""
    folder: Callable[[str, Any], str]
    """Gives the folder of a column's value, as long as it is at most."""
    nulls: Collection[str] = ()
    """Texts that come back as null."""
    takes_bytes: bool = False
    takes_negative_decimals: bool = True
    takes_nan: bool = True

    def misplaced(self, rows: pa.RecordBatch, columns: Sequence[str], *, is_local: bool) -> str:
        """Why a table cannot be divided by a value of these rows; empty when it can.

        Such a value would be another one, or would end the task, or the table itself.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in columns:
            place = rows.schema.get_field_index(name)
            if place < 0:
                continue
            kind = rows.schema.field(place).type
            is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
            if pa.types.is_nested(kind) or (is_bytes and not self.takes_bytes):
                return f"column {name} is {kind}, by which {self.format} cannot be divided (partition.by)"
            if is_bytes or pa.types.is_string(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
                for value in pc.unique(rows.column(place)).to_pylist():
                    if value is not None and (wrong := self._wrong(name, value, is_local)):
                        return f"column {name} has {wrong}, and the table is divided by it (partition.by)"
        return ""

    def _wrong(self, name: str, value: Any, is_local: bool) -> str:
        if isinstance(value, str) and value in self.nulls:
            return f"the text '{value}', which is null to readers of {self.format}"
        if isinstance(value, float) and math.isnan(value) and not self.takes_nan:
            return f"NaN, which {self.format} cannot have there"
        if isinstance(value, Decimal) and value < 0 and not self.takes_negative_decimals and value.as_tuple().exponent:
            return f"{value}, and deltalake cannot read a negative decimal there again"
        most = _MOST_LOCAL if is_local else _MOST_STORED
        size = len(self.folder(name, value).encode())
        return f"a value whose folder has a name of {size} bytes, where {most} fit" if size > most else ""


def is_local_path(where: str) -> bool:
    """Whether a path or URL is one of this machine."""
    return "://" not in where or where.startswith("file:")


# What Linux takes
_MOST_LOCAL = 255
# Stores take keys of 1024 bytes, in which the table and the file have theirs
_MOST_STORED = 900


def with_partition_columns(
    batch: pa.RecordBatch, columns: Sequence[PartitionColumn], times: pa.Array | int | None
) -> pa.RecordBatch:
    """The batch with the columns that are made of dates: text in UTC, such as 2026-11-23.

    `times` are the records' times in ms. Errors: DataError for a column that is missing or is no date.
    """
    import pyarrow as pa

    for column in columns:
        if not column.is_made:
            if column.name not in batch.schema.names:
                batch = batch.append_column(column.name, pa.nulls(len(batch), pa.string()))
            continue
        made = _formatted(_source_of(batch, column, times), column, len(batch))
        place = batch.schema.get_field_index(column.name)
        if place >= 0 and _is_another(batch.column(place), made):
            raise DataError(
                f"partition.by: the table's column {column.name} is made of the {column.unit} of "
                f"{column.source or 'the record'}, and the record has a field of that name with another value"
            )
        batch = batch.append_column(column.name, made) if place < 0 else batch.set_column(place, column.name, made)
    return batch


def _is_another(given: pa.Array, made: pa.Array) -> bool:
    """Whether a field has another value than its column; a record that was read from such a table has the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = given.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists and structs
        return bool(given.null_count < len(given))
    return bool(pc.any(pc.and_(texts.is_valid(), pc.fill_null(pc.not_equal(texts, made), True))).as_py())


def _source_of(batch: pa.RecordBatch, column: PartitionColumn, times: pa.Array | int | None) -> Any:
    """The times that a column is made of: an array, or an int or None for all rows."""
    if column.source is None:
        return times
    if column.source not in batch.schema.names:
        return None
    return batch.column(column.source)


def _formatted(source: Any, column: PartitionColumn, length: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    pattern = _UNITS[column.unit or ""]
    if source is None or isinstance(source, int):
        one = pc.strftime(_in_calendar(pa.array([source], pa.int64()).cast(pa.timestamp("ms")), column), pattern)
        return pa.repeat(one[0], length)
    return pc.strftime(_in_calendar(_as_times(source, column), column), pattern)


# The years 1 and 10000
_CALENDAR_MS = (-62_135_596_800_000, 253_402_300_800_000)


def _in_calendar(times: pa.Array, column: PartitionColumn) -> pa.Array:
    """The times. Errors: DataError for those in which no reader has a day, as of microseconds for milliseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first, behind = (pa.scalar(one, pa.timestamp("ms")).cast(times.type) for one in _CALENDAR_MS)
    strange = pc.or_(pc.less(times, first), pc.greater_equal(times, behind))
    if pc.any(strange).as_py():
        where = f"column {column.source}" if column.source else "the record's timestamp"
        number = times.filter(strange)[0].cast(pa.int64()).as_py()
        raise DataError(
            f"partition.by: {where} is {number} {times.type.unit} since 1970, which is not in the years 1 to 9999"
        )
    return times


def _as_times(source: pa.Array, column: PartitionColumn) -> pa.Array:
    """Times without a zone, in UTC."""
    import pyarrow as pa

    kind = source.type
    if pa.types.is_integer(kind):
        return source.cast(pa.int64()).cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            return source.cast(pa.timestamp("us"))
        except pa.ArrowInvalid as error:
            raise DataError(f"partition.by: column {column.source} has a time that is too far away: {error}") from error
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataError(f"partition.by: column {column.source} has type {kind}, which is not a date")
    try:
        return source.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        pass  # texts with a zone
    try:
        return source.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise DataError(f"partition.by: column {column.source} has a text that is not a date: {error}") from error
