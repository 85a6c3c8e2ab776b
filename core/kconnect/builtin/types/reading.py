"""Reads values as declared types say: decimals from the text of a number, times from ISO text and from numbers. Pure.

The plain twin of `fitting.fit`: one value after the other, and what is not exactly of the type is an error.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kconnect.api import Date, Decimal, Schema, Struct, Time, Timestamp, Type
from kconnect.api.values_text import single_precision
from kconnect.api.wording import pluralize
from kconnect.builtin.types.column_type import Column, ColumnType
from kconnect.builtin.types.exact_numbers import json_of, number_of
from kconnect.builtin.types.fitting import NotFittingError, as_text, json_text, misfit
from kconnect.builtin.types.iso_text import clock_of_iso, moment_of_iso
from kconnect.java.compat.to_string import float_text

Read = Callable[[Any], Any]


def reader_of(kind: ColumnType, schema: Schema, given: Schema | None = None) -> Read:
    """What makes the value of `schema`, which is that of the type, of a value; never called with None.

    `given`: the schema that the values have; None for those of JSON or Python. What it calls a time, in which unit,
    counts before what the type says. Errors of the reader: NotFittingError.
    """
    if given is not None and (special := _SPECIAL.get(given.name or "")) is not None:
        return special(kind, schema, given)
    if given is not None and given.type is Type.FLOAT32:
        of_number = reader_of(kind, schema)
        # a FLOAT32 has the digits that tell it from others of its size: 5.7, and as a double 5.699999809265137
        single = single_precision if kind.name in ("double", "float") else _digits_of_single
        return lambda value: of_number(single(value))
    if given is not None and given.type in _INTEGERS and given.name is None and kind.name == "boolean":
        return _bit_reader(kind)
    match kind.name:
        case "struct":
            return _struct_reader(kind, schema, given)
        case "array":
            return _list_reader(kind, schema, given)
        case "map":
            return _map_reader(kind, schema, given)
        case "date" | "time" | "timestamp" | "timestamp_ntz":
            return time_reader(kind, kind.unit)
        case _:
            return _LEAVES[kind.name](kind)


# --- structs, lists, maps ---


def _struct_reader(kind: ColumnType, schema: Schema, given: Schema | None) -> Read:
    parts: list[tuple[str, Read, Column]] = []
    for column, field in zip(kind.columns, schema.fields, strict=True):
        found = None if given is None or given.type is not Type.STRUCT else given.field(column.name)
        of_column = reader_of(column.type, field.schema, None if found is None else found.schema)
        parts.append((column.name, of_column, column))

    def read(value: Any) -> Struct:
        row = _members(value, kind)
        values: list[Any] = []
        for name, of, column in parts:
            item = row.get(name)
            if item is None:
                if column.is_required:
                    message = "is null" if name in row else "is missing"
                    raise NotFittingError(name, None, f"{column.type} NOT NULL", says=message)
                values.append(None)
                continue
            try:
                values.append(of(item))
            except NotFittingError as error:
                raise error.within(name) from error
        return Struct.from_values(schema, values)

    return read


def _members(value: Any, kind: ColumnType) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Struct):
        return {field.name: value.get(field) for field in value.schema.fields}
    if isinstance(value, str) and isinstance(found := json_of(value, "{"), dict):
        return found
    raise misfit(value, kind, "and has no fields")


def _list_reader(kind: ColumnType, schema: Schema, given: Schema | None) -> Read:
    assert kind.item is not None
    assert schema.value_schema is not None
    inner = given.value_schema if given is not None and given.type is Type.ARRAY else None
    of, holds_null = reader_of(kind.item, schema.value_schema, inner), kind.holds_null

    def read(value: Any) -> list[Any]:
        if isinstance(value, str):
            value = json_of(value, "[")
        if not isinstance(value, list | tuple):
            raise misfit(value, kind)
        made: list[Any] = []
        for item in value:
            if item is None:
                if not holds_null:
                    raise NotFittingError(f"[{len(made)}]", None, kind, says="is null, which the list must not hold")
                made.append(None)
                continue
            try:
                made.append(of(item))
            except NotFittingError as error:
                raise error.within(f"[{len(made)}]") from error
        return made

    return read


def _map_reader(kind: ColumnType, schema: Schema, given: Schema | None) -> Read:
    assert kind.key is not None
    assert kind.item is not None
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    has_types = given is not None and given.type is Type.MAP
    of_key = reader_of(kind.key, schema.key_schema, given.key_schema if given is not None and has_types else None)
    of = reader_of(kind.item, schema.value_schema, given.value_schema if given is not None and has_types else None)

    def read(value: Any) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, item in _entries(value, kind):
            try:
                if key is None:
                    raise NotFittingError("", None, kind, says="is null, and a map has no null key")
                if (place := of_key(key)) in made:
                    raise NotFittingError("", None, kind, says=f"is there twice: the map has {place!r} already")
                made[place] = None if item is None else of(item)
            except NotFittingError as error:
                raise error.within(f"[{key!r}]") from error
        return made

    return read


def _entries(value: Any, kind: ColumnType) -> Any:
    """Keys and items: of objects, and of lists of pairs, as Connect's JSON has maps whose keys are no texts."""
    if isinstance(value, str):
        value = json_of(value, "{[")
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, Struct):
        return [(field.name, value.get(field)) for field in value.schema.fields]
    is_pairs = isinstance(value, list) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value)
    if not is_pairs:
        raise misfit(value, kind)
    return value


# --- single values ---


def _whole_reader(kind: ColumnType) -> Read:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[kind.name]
    most = (1 << (bits - 1)) - 1
    least = -most - 1

    def read(value: Any) -> int:
        if type(value) is not int:
            value = _whole(value, kind)
        if not least <= value <= most:
            raise misfit(value, kind)
        return value  # type: ignore[no-any-return]  # an int by now

    return read


def _whole(value: Any, kind: ColumnType) -> int:
    number = number_of(value, kind)
    if number != number.to_integral_value():
        raise misfit(value, kind)
    return int(number)


def _decimal_reader(kind: ColumnType) -> Read:
    scale = decimal.Decimal(1).scaleb(-kind.scale)
    limit = decimal.Decimal(10) ** ((kind.digits or 0) - kind.scale)

    def read(value: Any) -> decimal.Decimal:
        number = number_of(value, kind)
        if number.copy_abs() >= limit:  # abs() rounds to 28 digits
            raise misfit(value, kind)
        made = number.quantize(scale, context=_EXACT)
        if made != number:
            raise misfit(value, kind)
        return made if made else made.copy_abs()  # zero has no sign

    return read


_EXACT: Final = decimal.Context(prec=1000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def _float_reader(kind: ColumnType) -> Read:
    is_single = kind.name == "float"

    def read(value: Any) -> float:
        is_whole = False
        if type(value) is float:
            made = value
        elif isinstance(value, str) and value.strip().lower() in _NOT_FINITE:
            made = float(value)
        else:
            number = number_of(value, kind)
            made = float(number)
            is_whole = isinstance(value, int) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit())
            if not math.isfinite(made) or (is_whole and int(made) != number):
                raise misfit(value, kind)
        if not is_single:
            return made
        single = single_precision(made)
        if (math.isfinite(made) and not math.isfinite(single)) or (is_whole and single != made):
            raise misfit(value, kind)
        return single

    return read


def _digits_of_single(value: float) -> float:
    return float(float_text(value))


_NOT_FINITE: Final = frozenset(("nan", "inf", "infinity", "+inf", "+infinity", "-inf", "-infinity"))


def _boolean_reader(kind: ColumnType) -> Read:
    def read(value: Any) -> bool:
        if type(value) is bool:
            return value
        found = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else None
        if found is None:
            raise misfit(value, kind)
        return found

    return read


_BOOLEANS: Final = {"true": True, "false": False}
_INTEGERS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def _bit_reader(kind: ColumnType) -> Read:
    """Reads what databases without booleans have in their place, such as MySQL."""

    def read(value: Any) -> bool:
        if value not in (0, 1):
            raise misfit(value, kind)
        return bool(value)

    return read


def _text_reader(kind: ColumnType) -> Read:
    most = kind.length

    def read(value: Any) -> str:
        text = value if type(value) is str else as_text(value)
        if most is not None and len(text) > most:
            raise misfit(value, kind, f"and has {pluralize(len(text), 'character')}")
        return text

    return read


def _bytes_reader(kind: ColumnType) -> Read:
    """Texts are base64, as Connect's converters and Spark write bytes into JSON."""

    def read(value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if not isinstance(value, str):
            raise misfit(value, kind)
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise misfit(value, kind, "and no base64") from error

    return read


def _uuid_reader(kind: ColumnType) -> Read:
    def read(value: Any) -> str:
        try:
            return str(value if isinstance(value, uuid.UUID) else uuid.UUID(value))
        except (ValueError, AttributeError, TypeError) as error:
            raise misfit(value, kind) from error

    return read


def _json_reader(kind: ColumnType) -> Read:
    """A text of JSON as it is; all else, texts that are none too, written as JSON: times and NaN in quotes."""

    def read(value: Any) -> str:
        if isinstance(value, str) and _is_json(value):
            return value
        is_number = isinstance(value, decimal.Decimal) and value.is_finite()
        return str(value) if is_number else json_text(value)

    return read


def _is_json(text: str) -> bool:
    """Whether it is JSON to all who read it: Python's reader alone takes NaN and Infinity."""
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


# --- what a schema says of the values that it has ---

_UNIT_OF_NAME: Final = {
    Date.LOGICAL_NAME: "d",
    Time.LOGICAL_NAME: "ms",
    Timestamp.LOGICAL_NAME: "ms",
    "io.debezium.time.Date": "d",
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
}
"""What the numbers of these schemas count. Source: io.debezium.time (Debezium 3)."""


def _unit_said(unit: str) -> Callable[[ColumnType, Schema, Schema], Read]:
    def reader(kind: ColumnType, schema: Schema, given: Schema) -> Read:
        if kind.name in ("date", "time", "timestamp", "timestamp_ntz"):
            return time_reader(kind, unit)
        return reader_of(kind, schema)

    return reader


def _variable_scale(kind: ColumnType, schema: Schema, given: Schema) -> Read:
    """Debezium's numbers of any scale: a struct of the scale and the unscaled bytes."""
    of = reader_of(kind, schema)

    def read(value: Any) -> Any:
        if not isinstance(value, Struct):
            return of(value)
        raw = Decimal.to_logical(Decimal.schema(0), value.get("value"))
        return of(raw.scaleb(-value.get("scale"), _EXACT))

    return read


_SPECIAL: Final[dict[str, Callable[[ColumnType, Schema, Schema], Read]]] = {
    **{name: _unit_said(unit) for name, unit in _UNIT_OF_NAME.items()},
    "io.debezium.data.VariableScaleDecimal": _variable_scale,
}

_LEAVES: Final[dict[str, Callable[[ColumnType], Read]]] = {
    "boolean": _boolean_reader,
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _whole_reader),
    **dict.fromkeys(("float", "double"), _float_reader),
    "decimal": _decimal_reader,
    **dict.fromkeys(("string", "varchar", "char"), _text_reader),
    "binary": _bytes_reader,
    "uuid": _uuid_reader,
    **dict.fromkeys(("json", "variant"), _json_reader),
}


def others_of(kind: ColumnType, names: Sequence[str]) -> list[str]:
    """The names that no column has."""
    known = {column.name for column in kind.columns}
    return [name for name in names if name not in known]


_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_ONE: Final = datetime.date(1970, 1, 1).toordinal()
_MICRO: Final = datetime.timedelta(microseconds=1)
_MICROS_A_DAY: Final = 86_400_000_000
# Microseconds in each unit that numbers may count
_MICROS: Final = {"d": decimal.Decimal(_MICROS_A_DAY), "s": decimal.Decimal(1_000_000), "ms": decimal.Decimal(1000),
                  "us": decimal.Decimal(1), "ns": decimal.Decimal("0.001")}  # fmt: skip


def time_reader(kind: ColumnType, unit: str | None) -> Callable[[Any], Any]:
    unit = unit or ("d" if kind.name == "date" else "ms")
    make = {"date": _date, "time": _clock}.get(kind.name, _instant)
    a_unit, cut = _MICROS[unit], 10 ** (6 - min(6, 6 if kind.digits is None else kind.digits))
    whole = int(a_unit)  # 0 where a unit is less than a microsecond

    def read(value: Any) -> Any:
        if not isinstance(value, int | float | decimal.Decimal) or isinstance(value, bool):
            try:
                return make(value, kind, cut)
            except (ValueError, OverflowError, TypeError) as error:
                raise misfit(value, kind) from error
        # what is finer than a microsecond is cut off, before 1970 as well
        if whole and type(value) is int:
            micros = value * whole
        else:
            micros = int((number_of(value, kind) * a_unit).to_integral_value(decimal.ROUND_FLOOR))
        if make is _date and micros % _MICROS_A_DAY:
            raise misfit(value, kind, "and has a time of day")
        try:
            return make(micros, kind, cut)
        except (ValueError, OverflowError, NotFittingError) as error:
            raise misfit(value, kind) from error

    return read


def _instant(value: Any, kind: ColumnType, cut: int) -> datetime.datetime:
    """An aware time in UTC of microseconds since 1970, a time, a date or ISO text; without zone it is of UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _EPOCH + (value - value % cut) * _MICRO
    if isinstance(value, str):
        value = moment_of_iso(value)
    if isinstance(value, datetime.datetime):
        found = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
        return found if cut == 1 else found.replace(microsecond=found.microsecond - found.microsecond % cut)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    raise misfit(value, kind)


def _date(value: Any, kind: ColumnType, cut: int) -> datetime.date:
    """A day of microseconds since 1970, a date, or text; a time only if it is midnight in UTC, or in its own zone."""
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.date.fromordinal(_DAY_ONE + value // _MICROS_A_DAY)
    if isinstance(value, str):
        value = moment_of_iso(value)
    if isinstance(value, datetime.datetime):
        if value.time() != datetime.time():
            raise misfit(value.isoformat(), kind, "and has a time of day")
        return value.date()
    if isinstance(value, datetime.date):
        return value
    raise misfit(value, kind)


def _clock(value: Any, kind: ColumnType, cut: int) -> datetime.time:
    """A time of day of microseconds since midnight, a time, or text; one with a zone becomes one of UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < _MICROS_A_DAY:
            raise misfit(value, kind)
        return (_EPOCH + (value - value % cut) * _MICRO).time()
    if isinstance(value, str):
        value = clock_of_iso(value)
    if not isinstance(value, datetime.time):
        raise misfit(value, kind)
    if value.tzinfo is not None and (away := value.utcoffset()):
        value = (datetime.datetime.combine(_EPOCH.date(), value.replace(tzinfo=None)) - away).time()
    micros = value.microsecond - value.microsecond % cut
    return datetime.time(value.hour, value.minute, value.second, micros)
