"""Columns of a result: their Connect schemas, as Confluent's connector has them, and their values as Arrow columns."""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, DataError, Date, Decimal, Schema, SchemaBuilder, Time, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

_PRECISION = "connect.decimal.precision"
# The scale of a NUMERIC that has none. Source: GenericDatabaseDialect.NUMERIC_TYPE_SCALE_HIGH
_ANY_SCALE = 127
_LOWEST_SCALE = -84
_MOST_DIGITS = 18  # of a whole number that always fits into 64 bits
_ARROW_DIGITS = 38

WHOLE = ("int8", "int16", "int32", "int64")
_TIMES = ("date", "timestamp", "timestamptz")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the database. `kind`: a name in `_PLAIN`, decimal, date, time, timestamp, timestamptz, any, other.

    any: to be told from its values; other: Connect has no type for it, so it is left out.
    """

    name: str
    kind: str
    is_optional: bool = True
    precision: int = 0
    scale: int = 0
    type_name: str = ""


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """The settings that say what types become."""

    numerics: str
    granularity: str
    zone: str
    """Of times without one in the database."""


class RowShape:
    """The schema of a result's rows, and how rows become columns of it.

    Threads: one. Source: SchemaMapping, GenericDatabaseDialect.addFieldToSchema.
    """

    def __init__(self, name: str | None, columns: Sequence[Column], settings: TypeSettings) -> None:
        self.columns = tuple(columns)
        self._settings = settings
        self._fields = [
            (index, _Field(column, settings)) for index, column in enumerate(columns) if column.kind != "other"
        ]
        if not self._fields:
            raise ConnectError(f"{name or 'The query'} has no column of a type that Connect has")
        builder = SchemaBuilder.struct()
        if name:
            builder.name(name)
        for _, field in self._fields:
            builder.field(field.column.name, field.schema)
        self.schema: Schema = builder.build()

    def raw(self, rows: Sequence[Sequence[Any]]) -> dict[str, pa.Array]:
        """A column for each field, by name: times in microseconds and UTC. Errors: DataError that names the column."""
        values = list(zip(*rows, strict=True))
        return {field.column.name: field.raw(values[index]) for index, field in self._fields}

    def struct(self, raw: dict[str, pa.Array]) -> pa.StructArray:
        """The records' values."""
        import pyarrow as pa

        children = [field.final(raw[field.column.name]) for _, field in self._fields]
        names = [pa.field(f.column.name, child.type) for (_, f), child in zip(self._fields, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=names)


class _Field:
    """One column's schema and conversions."""

    def __init__(self, column: Column, settings: TypeSettings) -> None:
        self.column = column
        self._settings = settings
        self.kind, self.schema = _kind_and_schema(column, settings)
        self._type: Any = None  # Arrow's, made at first use: its import is slow

    def raw(self, values: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        if self._type is None:
            self._type = _raw_type(self.kind, self.column)
        try:
            try:
                if self.kind in _TIMES and any(type(value) is int for value in values):
                    raise TypeError("SQLite counts milliseconds, Arrow would take them for its own unit")
                found = pa.array(values, self._type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                coerce = _COERCE.get(self.kind, _same)
                if self.kind == "decimal":
                    coerce = functools.partial(_decimal, scale=_scale(self.column), is_bytes=self._type == pa.binary())
                found = pa.array([None if value is None else coerce(value) for value in values], self._type)
        except (pa.ArrowException, TypeError, ValueError, ArithmeticError, DataError) as err:
            kinds = sorted({type(value).__name__ for value in values if value is not None})
            raise DataError(
                f"Column {self.column.name} has values ({', '.join(kinds)}) that are no {self.kind}: "
                f"{type(err).__name__}",
                hint="Convert it in a `query`, or correct the rows.",
            ) from err
        if self.kind == "timestamp":
            return _with_zone(found, self._settings.zone)
        return found

    def final(self, raw: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.kind == "time":
            return raw.cast(pa.time32("ms"), safe=False)
        if self.kind not in ("timestamp", "timestamptz"):
            return raw
        granularity = self._settings.granularity
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


def inferred(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> list[Column]:
    """The columns with those of kind any replaced by what the first rows have; without values they are strings."""
    found = []
    for index, column in enumerate(columns):
        kind = column.kind
        if kind == "any":
            value = next((row[index] for row in rows if row[index] is not None), None)
            kind = next((name for python_type, name in _KIND_OF_VALUE if isinstance(value, python_type)), "string")
            if kind == "timestamp" and value is not None and value.tzinfo is not None:
                kind = "timestamptz"
            if kind == "int64" and any(isinstance(row[index], float) for row in rows):
                kind = "float64"
        scale = _ANY_SCALE if kind == "decimal" and column.kind == "any" else column.scale
        found.append(Column(column.name, kind, column.is_optional, column.precision, scale, column.type_name))
    return found


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
    "float64": (Schema.FLOAT64_SCHEMA, Schema.OPTIONAL_FLOAT64_SCHEMA),
    "string": (Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
    "bytes": (Schema.BYTES_SCHEMA, Schema.OPTIONAL_BYTES_SCHEMA),
}


def _kind_and_schema(column: Column, settings: TypeSettings) -> tuple[str, Schema]:
    """What the values are, and their schema."""
    kind = _numeric_kind(column, settings.numerics) if column.kind == "decimal" else column.kind
    if kind in _PLAIN:
        return kind, _PLAIN[kind][column.is_optional]
    if kind in ("timestamp", "timestamptz") and settings.granularity != "connect_logical":
        plain = "int64" if settings.granularity.endswith("long") else "string"
        return kind, _PLAIN[plain][column.is_optional]
    if kind == "decimal":
        builder = Decimal.builder(_scale(column)).parameter(_PRECISION, str(column.precision))
    else:
        builder = Date.builder() if kind == "date" else Time.builder() if kind == "time" else Timestamp.builder()
    return kind, (builder.optional() if column.is_optional else builder).build()


def _numeric_kind(column: Column, mapping: str) -> str:
    """What a NUMERIC becomes by numeric.mapping.

    Differs: a NUMERIC of any size stays a Decimal with best_fit, where Confluent's makes it an INT8, and is a FLOAT64
        with best_fit_eager_double.
    """
    digits, scale = column.precision, column.scale
    if _scale(column) == _ANY_SCALE:
        return "float64" if mapping == "best_fit_eager_double" else "decimal"
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
        "string": pa.string,
        "bytes": pa.binary,
        "date": pa.date32,
        "time": lambda: pa.time64("us"),
        "timestamp": lambda: pa.timestamp("us"),
        "timestamptz": lambda: pa.timestamp("us", "UTC"),
    }
    return pa.type_for_alias(kind) if kind in WHOLE else types[kind]()


def _with_zone(column: pa.Array, zone: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if zone == "UTC":
        return column.cast(pa.timestamp("us", "UTC"))
    found = pc.assume_timezone(column, timezone=zone, ambiguous="earliest", nonexistent="latest")
    return found.cast(pa.timestamp("us", "UTC"))


# --- values that Arrow does not take as they are, one by one ---


def _decimal(value: Any, scale: int, is_bytes: bool) -> Any:
    """A number with just that scale; as bytes where Arrow's decimals are too narrow."""
    number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
    exact = number.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    return Decimal.from_logical(Decimal.schema(scale), exact) if is_bytes else exact


_EXACT = decimal.Context(prec=100_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - SQLite's numbers have no zone either


def _same(value: Any) -> Any:
    return value


def _whole(value: Any) -> int:
    if isinstance(value, float | decimal.Decimal) and value == int(value):
        return int(value)
    if isinstance(value, bytes):  # MySQL's BIT
        return int.from_bytes(value, "big")
    if not isinstance(value, int):
        raise TypeError(type(value).__name__)
    return value


def _float(value: Any) -> float:
    return float(re.sub(r"[^0-9.eE+-]", "", value)) if isinstance(value, str) else float(value)  # text: money


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        return {"1": True, "0": False, "t": True, "f": False, "true": True, "false": False}[value.lower()]
    return bool(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _date(value: Any) -> datetime.date:
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value).date()
    return _moment(value).date()


def _time(value: Any) -> datetime.time:
    if isinstance(value, datetime.timedelta):
        return (_EPOCH + value).time()
    found = datetime.time.fromisoformat(value) if isinstance(value, str) else value
    clock: datetime.time = found.replace(tzinfo=None)
    return clock


def _moment(value: Any) -> datetime.datetime:
    """A time without zone: of text in ISO form, of milliseconds since 1970."""
    if isinstance(value, int | float):
        return _EPOCH + datetime.timedelta(milliseconds=value)
    found: datetime.datetime = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


_COERCE: dict[str, Callable[[Any], Any]] = {
    "bool": _bool,
    **dict.fromkeys(WHOLE, _whole),
    "float32": _float,
    "float64": _float,
    "string": _text,
    "bytes": _bytes,
    "date": _date,
    "time": _time,
    "timestamp": _moment,
    "timestamptz": lambda value: _moment(value).replace(tzinfo=datetime.UTC),
}
