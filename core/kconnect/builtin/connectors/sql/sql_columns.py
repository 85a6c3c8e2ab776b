"""Columns of a result: their Connect schemas, as Confluent's connector has them, and their values as Arrow columns."""

from __future__ import annotations

import datetime
import decimal
import functools
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, DataError, Date, Decimal, Schema, SchemaBuilder, Time, Timestamp
from kconnect.builtin.connectors.sql.sql_values import (
    COERCE,
    WHOLE,
    Unreadable,
    decimal_of,
    element_bytes,
    known_of,
    list_of,
    readable,
    utc_of,
)
from kconnect.builtin.types.seen import see

if TYPE_CHECKING:
    import pyarrow as pa

_PRECISION = "connect.decimal.precision"
DEBEZIUM = "micros_debezium"
"""A granularity: what keeps microseconds on the way through a topic, by Debezium's schemas."""
_OF_DEBEZIUM = {
    "time": ("int64", "MicroTime"),
    "timestamp": ("int64", "MicroTimestamp"),
    "timestamptz": ("string", "ZonedTimestamp"),
}
# The scale of a NUMERIC that has none. Source: GenericDatabaseDialect.NUMERIC_TYPE_SCALE_HIGH
_ANY_SCALE = 127
_LOWEST_SCALE = -84
_MOST_DIGITS = 18  # of a whole number that always fits into 64 bits
_ARROW_DIGITS = 38

_REFUSALS = (ValueError, TypeError, ArithmeticError, LookupError, NotImplementedError)  # with ArrowException's classes
_TIMES = ("date", "time", "timestamp", "timestamptz")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the database. `kind`: a name in `_PLAIN`, decimal, date, time, timestamp, timestamptz, array ..

    .. money (a text, as its locale writes it), unsigned (whole numbers of 64 bits without sign), any (derived from its
    values). What Connect has no type for is a string: the text that the database has for it.
    """

    name: str
    kind: str
    is_optional: bool = True
    precision: int = 0
    scale: int = 0
    type_name: str = ""
    element: Column | None = None
    """Says what the elements of an array are."""


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """The settings that say what types become."""

    numerics: str
    granularity: str
    zone: str
    """Names the zone of times that have none in the database."""
    keeps_unbounded: bool = False
    """Whether a NUMERIC without precision is a Decimal of 127 digits behind the point, as Confluent's, and no text."""
    unsigned: str = "long"
    """What whole numbers of 64 bits without sign are: long, or precise for decimals."""


class RowShape:
    """The schema of a result's rows, and how rows become columns of it.

    Threads: one. Source: SchemaMapping, GenericDatabaseDialect.addFieldToSchema.
    """

    def __init__(self, name: str | None, columns: Sequence[Column], settings: TypeSettings) -> None:
        self.columns = tuple(columns)
        self._zone = settings.zone
        self._fields = [_Field(column, settings) for column in columns]
        if not self._fields:
            raise ConnectError(f"{name or 'The query'} has no column")
        builder = SchemaBuilder.struct()
        if name:
            builder.name(name)
        for field in self._fields:
            builder.field(field.column.name, field.schema)
        self.schema: Schema = builder.build()

    def raw(self, rows: Sequence[Sequence[Any]]) -> dict[str, pa.Array]:
        """A column for each field, by name: times in microseconds and UTC. Errors: ColumnError."""
        values: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(self._fields)
        return {field.column.name: field.raw(column) for field, column in zip(self._fields, values, strict=True)}

    def moments(self, column: pa.Array) -> pa.Array:
        """A column of `raw` by which a mode may go: a day begins by the clock of the database's zone."""
        import pyarrow as pa

        if not pa.types.is_date(column.type):
            return column
        return _of_clock(column.cast(pa.timestamp("us")), self._zone)

    def misfits(self, rows: Sequence[Sequence[Any]]) -> list[Misfit]:
        """The rows that have a value which is none of its column's type: halves of them, down to each alone."""
        found: list[Misfit] = []
        parts = [(0, len(rows))]
        while parts:
            start, end = parts.pop()
            try:
                self.raw(rows[start:end])
            except ColumnError as error:
                if end - start > 1:
                    middle = (start + end) // 2
                    parts += [(middle, end), (start, middle)]
                    continue
                values = zip(self.columns, rows[start], strict=True)
                found.append(Misfit(start, {column.name: known_of(value) for column, value in values}, error))
        return found

    def struct(self, raw: dict[str, pa.Array]) -> pa.StructArray:
        """The records' values."""
        import pyarrow as pa

        children = [field.final(raw[field.column.name]) for field in self._fields]
        names = [pa.field(f.column.name, child.type) for f, child in zip(self._fields, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=names)


class ColumnError(DataError):
    """A column has a value that is none of its type: which, and the first that is."""

    def __init__(
        self, column: Column, kind: str, values: Sequence[Any], make: Callable[[Sequence[Any]], object]
    ) -> None:
        wrong = next((value for value in values if value is not None and not _can(make, value)), None)
        if isinstance(wrong, Unreadable):
            what = f"a value that is not of type {kind}: {wrong.says}"
        else:
            shown = "" if isinstance(wrong, str | bytes | list) else f": {wrong}"  # a text may be a secret
            what = f"a value ({type(wrong).__name__}) that is not of type {kind}{shown}"
        super().__init__(
            f"Column {column.name} has {what}",
            hint="Set bigint.unsigned.handling.mode=precise."
            if column.type_name == "unsigned"
            else "Convert it in a `query`, or correct the rows.",
        )
        self.column = column


@dataclass(frozen=True, slots=True)
class Misfit:
    """A row that cannot be read: its number, what is known of it, and why."""

    row: int
    known: dict[str, Any]
    error: ColumnError


def _can(make: Callable[[Sequence[Any]], object], value: Any) -> bool:
    try:
        make([value])
    except _REFUSALS:  # ArrowException's classes are among these
        return False
    return True


class _Field:
    """One column's schema and conversions."""

    def __init__(self, column: Column, settings: TypeSettings) -> None:
        if column.kind == "unsigned":
            wanted = "int64" if settings.unsigned == "long" else "decimal"
            column = replace(column, kind=wanted, precision=20)
        self.column = column
        self._settings = settings
        self.kind, self.schema = _kind_and_schema(column, settings)
        self._element = None if column.element is None else _Field(column.element, settings)
        self._type: Any = None  # Arrow's, made at first use: its import is slow

    def raw(self, values: Sequence[Any]) -> pa.Array:
        """Errors: ColumnError."""
        if self._element is not None:
            return self._lists(values, self._element)
        if self._type is None:
            self._type = _raw_type(self.kind, self.column)
        try:
            found = self._made(values)
        except _REFUSALS as err:
            raise ColumnError(self.column, self.kind, values, self._made) from err
        if self.kind == "timestamp":
            return _with_zone(found, values, self._settings.zone)
        return found

    def _made(self, values: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        try:
            if self.kind in _TIMES and any(type(value) in (int, float) for value in values):
                raise TypeError("SQLite counts milliseconds or days, Arrow would take them for its own unit")
            if self.kind == "time" and any(type(value) is datetime.timedelta for value in values):
                raise TypeError("Arrow would wrap what is longer than a day")
            return pa.array(values, self._type)
        except _REFUSALS:
            coerce = COERCE.get(self.kind, _same)
            if self.kind == "decimal":
                coerce = functools.partial(decimal_of, scale=_scale(self.column), is_bytes=self._type == pa.binary())
            return pa.array([None if value is None else coerce(readable(value)) for value in values], self._type)

    def _lists(self, values: Sequence[Any], element: _Field) -> pa.Array:
        import pyarrow as pa

        try:
            lists = [None if value is None else list_of(readable(value)) for value in values]
            if element.kind == "bytes":
                lists = [None if one is None else list(map(element_bytes, one)) for one in lists]
        except _REFUSALS as err:
            raise ColumnError(self.column, self.kind, values, lambda one: list_of(readable(one[0]))) from err
        flat: list[Any] = []
        starts: list[int | None] = []
        for value in lists:
            starts.append(None if value is None else len(flat))
            flat.extend(value or ())
        return pa.ListArray.from_arrays(pa.array([*starts, len(flat)], pa.int32()), element.raw(flat))

    def final(self, raw: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._element is not None:
            whole = pa.concat_arrays([raw]) if raw.offset else raw  # a slice has a mask that from_arrays refuses
            mask = whole.is_null() if whole.null_count else None
            return pa.ListArray.from_arrays(whole.offsets, self._element.final(whole.values), mask=mask)
        granularity = self._settings.granularity
        if self.kind == "time":
            return raw.cast(pa.int64()) if granularity == DEBEZIUM else raw.cast(pa.time32("ms"), safe=False)
        if self.kind not in ("timestamp", "timestamptz"):
            return raw
        if granularity == DEBEZIUM:
            is_text = self.kind == "timestamptz"
            return pc.strftime(raw, format="%Y-%m-%dT%H:%M:%SZ") if is_text else raw.cast(pa.int64())
        if granularity == "connect_logical":
            return pc.floor_temporal(raw, unit="millisecond").cast(pa.timestamp("ms", "UTC"))
        unit, _, form = granularity.partition("_")
        if form == "iso_datetime_string":
            local = raw.cast(pa.timestamp("us", self._settings.zone))
            text = pc.strftime(local, format="%Y-%m-%dT%H:%M:%S")  # Arrow adds the fraction of its unit
            return text if unit == "micros" else pc.binary_join_element_wise(text, "000", "")
        number = raw.cast(pa.int64())
        if unit == "nanos":
            number = pc.multiply_checked(number, 1000)
        return number if form == "long" else number.cast(pa.string())


def find_column(columns: Sequence[Column], name: str, where: str) -> Column:
    """The column of that name; upper and lower case count only where two columns differ by it.

    Errors: ConnectError if there is none, or several.
    """
    exact = [column for column in columns if column.name == name]
    found = exact or [column for column in columns if column.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    given = ", ".join(column.name for column in columns)
    raise ConnectError(f"{where} has {'several columns' if found else 'no column'} named {name}; it has {given}")


def inferred(columns: Sequence[Column], rows: Sequence[Sequence[Any]], before: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns with those of kind any replaced by what all rows have; a string where nothing else holds all.

    `before`: kinds that rows before had, by name; a kind goes on from there, so that it changes in one direction only.
    """
    found = []
    for index, column in enumerate(columns):
        if column.kind != "any":
            found.append(column)
            continue
        kind = _kind_of_values([row[index] for row in rows], before.get(column.name))
        scale = _ANY_SCALE if kind == "decimal" else column.scale
        found.append(replace(column, kind=kind, scale=scale))
    return tuple(found)


def _kind_of_values(values: Sequence[Any], known: str | None) -> str:
    """The kind that holds them all, and what was `known` before; without any, a string."""
    kinds = {kind for kind in (known, *map(_kind_of_value, values)) if kind is not None}
    if len(kinds) <= 1:
        return kinds.pop() if kinds else "string"
    if kinds == {"int64", "float64"}:  # a double, unless that would lose a digit
        seen = see([*values, 0.5] if known == "float64" else values)
        return "float64" if str(seen.type) == "double" else "string"
    return "decimal" if kinds == {"int64", "decimal"} else "string"


def _kind_of_value(value: Any) -> str | None:
    if value is None:
        return None
    kind = next((name for python_type, name in _KIND_OF_VALUE if isinstance(value, python_type)), "string")
    if kind == "int64" and not -(1 << 63) <= value < 1 << 63:
        return "decimal"
    return "timestamptz" if kind == "timestamp" and value.tzinfo is not None else kind


_KIND_OF_VALUE: tuple[tuple[Any, str], ...] = (
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
    (decimal.Decimal, "decimal"),
    ((bytes, bytearray, memoryview), "bytes"),
    (datetime.datetime, "timestamp"),
    (datetime.date, "date"),
    ((datetime.time, datetime.timedelta), "time"),
)

_PLAIN = {
    "bool": (Schema.BOOLEAN_SCHEMA, Schema.OPTIONAL_BOOLEAN_SCHEMA),
    "int8": (Schema.INT8_SCHEMA, Schema.OPTIONAL_INT8_SCHEMA),
    "int16": (Schema.INT16_SCHEMA, Schema.OPTIONAL_INT16_SCHEMA),
    "int32": (Schema.INT32_SCHEMA, Schema.OPTIONAL_INT32_SCHEMA),
    "int64": (Schema.INT64_SCHEMA, Schema.OPTIONAL_INT64_SCHEMA),
    "float32": (Schema.FLOAT32_SCHEMA, Schema.OPTIONAL_FLOAT32_SCHEMA),
    **dict.fromkeys(("float64", "money"), (Schema.FLOAT64_SCHEMA, Schema.OPTIONAL_FLOAT64_SCHEMA)),
    "string": (Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
    "bytes": (Schema.BYTES_SCHEMA, Schema.OPTIONAL_BYTES_SCHEMA),
}


def _kind_and_schema(column: Column, settings: TypeSettings) -> tuple[str, Schema]:
    """What the values are, and their schema."""
    kind = _numeric_kind(column, settings) if column.kind == "decimal" else column.kind
    if column.element is not None:
        array = SchemaBuilder.array(_kind_and_schema(column.element, settings)[1])
        return kind, (array.optional() if column.is_optional else array).build()
    if kind in _PLAIN:
        return kind, _PLAIN[kind][column.is_optional]
    if settings.granularity == DEBEZIUM and kind in _OF_DEBEZIUM:
        plain, name = _OF_DEBEZIUM[kind]
        builder = getattr(SchemaBuilder, plain)().name(f"io.debezium.time.{name}").version(1)
        return kind, (builder.optional() if column.is_optional else builder).build()
    if kind in ("timestamp", "timestamptz") and settings.granularity != "connect_logical":
        plain = "int64" if settings.granularity.endswith("long") else "string"
        return kind, _PLAIN[plain][column.is_optional]
    if kind == "decimal":
        builder = Decimal.builder(_scale(column)).parameter(_PRECISION, str(column.precision))
    else:
        builder = Date.builder() if kind == "date" else Time.builder() if kind == "time" else Timestamp.builder()
    return kind, (builder.optional() if column.is_optional else builder).build()


def _numeric_kind(column: Column, settings: TypeSettings) -> str:
    """What a NUMERIC becomes by numeric.mapping.

    Differs: a NUMERIC of any size is a text, which holds all of its values, and a FLOAT64 with best_fit_eager_double.
        Under Confluent's name it is a Decimal, as there, with best_fit as well, where theirs makes it an INT8.
    """
    digits, scale, mapping = column.precision, column.scale, settings.numerics
    if _scale(column) == _ANY_SCALE:
        if mapping == "best_fit_eager_double":
            return "float64"
        return "decimal" if settings.keeps_unbounded else "string"
    is_whole = scale == 0 if mapping == "precision_only" else _LOWEST_SCALE <= scale < 1
    if mapping != "none" and is_whole and digits <= _MOST_DIGITS:
        return "int64" if digits > 9 else "int32" if digits > 4 else "int16" if digits > 2 else "int8"
    if mapping.startswith("best_fit") and scale > 0 and (digits <= _MOST_DIGITS or mapping != "best_fit"):
        return "float64"
    return "decimal"


def _scale(column: Column) -> int:
    return _ANY_SCALE if column.precision == 0 and column.scale == 0 else column.scale


def _raw_type(kind: str, column: Column) -> pa.DataType:
    import pyarrow as pa

    if kind == "decimal":
        fits = 0 < column.precision <= _ARROW_DIGITS
        return pa.decimal128(_ARROW_DIGITS, column.scale) if fits else pa.binary()
    types: dict[str, Callable[[], pa.DataType]] = {
        "bool": pa.bool_,
        "float32": pa.float32,
        "float64": pa.float64,
        "money": pa.float64,
        "string": pa.string,
        "bytes": pa.binary,
        "date": pa.date32,
        "time": lambda: pa.time64("us"),
        "timestamp": lambda: pa.timestamp("us"),
        "timestamptz": lambda: pa.timestamp("us", "UTC"),
    }
    return pa.type_for_alias(kind) if kind in WHOLE else types[kind]()


def _with_zone(column: pa.Array, values: Sequence[Any], zone: str) -> pa.Array:
    """The times of these values in UTC."""
    import pyarrow as pa

    if zone == "UTC":
        return column.cast(pa.timestamp("us", "UTC"))
    if not set(map(type, values)) <= _LOCAL:  # SQLite's, by which rows are compared as well
        of_zone = zoneinfo.ZoneInfo(zone)
        return pa.array([None if one is None else utc_of(one, of_zone) for one in values], pa.timestamp("us", "UTC"))
    return _of_clock(column, zone)


def _of_clock(column: pa.Array, zone: str) -> pa.Array:
    """Times of a clock in a zone, in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.assume_timezone(column, timezone=zone, ambiguous="earliest", nonexistent="latest")
    return found.cast(pa.timestamp("us", "UTC"))


_LOCAL = {datetime.datetime, type(None)}


def _same(value: Any) -> Any:
    return value
