"""One value as another type, as Java's casts and parsers do it: what Cast does to a record."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from functools import partial
from typing import Any, Final

from kconnect.api import DataError, Date, Schema, Struct, Time, Timestamp, Type
from kconnect.api.config_parse import java_trim
from kconnect.api.values_text import single_precision, text_of
from kconnect.java.compat.to_string import float_text, java_class, java_text

OUTPUTS: Final = (
    *(Type.INT8, Type.INT16, Type.INT32, Type.INT64),
    *(Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING),
)
INPUTS: Final = (*OUTPUTS, Type.BYTES)

_KINDS: dict[type, Type] = {
    bool: Type.BOOLEAN,
    int: Type.INT64,
    float: Type.FLOAT64,
    str: Type.STRING,
    **dict.fromkeys((bytes, bytearray, memoryview), Type.BYTES),
    list: Type.ARRAY,
    dict: Type.MAP,
    Struct: Type.STRUCT,
}
_BITS: dict[Type, int] = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}

# Java reads digits of every script, but only those of the first 65,536 characters.
_INTEGER = re.compile("[+-]?\\d+")
_FLOAT = re.compile(r"[+-]?(?:NaN|Infinity|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def schemaless_type(value: Any, transformation: str) -> Type:
    """The type of a value that has no schema. Errors: DataError for what Connect does not know as such, as dates."""
    kind = _KINDS.get(type(value))
    if kind is None:
        raise DataError(
            f"{transformation} transformation was passed a value of type class {java_class(value)} "
            "which is not supported by Connect's data API"
        )
    return kind


def cast_value(schema: Schema | None, value: Any, target: Type) -> Any:
    """The value as the target type; None stays None. Errors: DataError. Source: Cast.castValueToType.

    Without a schema a FLOAT32 is the number with the digits Java shows: 5.7, not 5.699999809.
    """
    if value is None:
        return None
    kind = schemaless_type(value, "Cast") if schema is None else schema.type
    if kind not in INPUTS:
        supported = ", ".join(str(known) for known in INPUTS)
        raise DataError(f"Cast transformation does not support casting from {kind}; supported types are [{supported}]")
    if target is Type.STRING:
        return _text(schema, value)
    if schema is not None and schema.type is Type.FLOAT32 and isinstance(value, float):
        value = single_precision(value)  # code of Python may have given a double, of which a column is the nearest
    encode = None if schema is None else _RAW.get(schema.name or "")
    if encode is not None and schema is not None:
        value = encode(schema, value)
    made = _CASTS[target](value)
    return float(float_text(made)) if schema is None and target is Type.FLOAT32 else made


def _text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time | bytes | bytearray | memoryview):
        return text_of(value)
    return java_text(value, schema)


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return _cut(value, bits)
    if isinstance(value, float):
        return _cut(_saturated(value, 64 if bits == 64 else 32), bits)
    if isinstance(value, PyDecimal):
        # 10 ** 64 is a multiple of 2 ** 64: digits that far left do not reach the low 64 bits
        return 0 if int(value.as_tuple().exponent) >= 64 else _cut(int(value), bits)
    if isinstance(value, str):
        number = int(value) if _INTEGER.fullmatch(value) and max(value) <= "\uffff" else None
        if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise _out_of_range(value)
        return number
    raise _unexpected(value)


def _double(value: Any) -> float:
    if isinstance(value, str):
        number = _parsed(value)
        return float(number)
    if isinstance(value, int | float | PyDecimal):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    raise _unexpected(value)


def _single(value: Any) -> float:
    if isinstance(value, str):
        return single_precision(_parsed(value))
    if isinstance(value, int):
        return single_precision(PyDecimal(value))
    if isinstance(value, float | PyDecimal):
        return single_precision(value)
    raise _unexpected(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    return _integer(value, 64) != 0


def _parsed(text: str) -> float | PyDecimal:
    """A text as Java's Double.parseDouble reads it, before it is rounded. Errors: DataError."""
    stripped = java_trim(text)
    found = _FLOAT.fullmatch(stripped)
    if found is None:
        in_hex = _HEX_FLOAT.fullmatch(stripped)
        if in_hex is None:
            raise _out_of_range(text)
        try:
            return float.fromhex(in_hex[1])
        except OverflowError:
            return float("-inf") if stripped.startswith("-") else float("inf")
    if found[1] is None:
        return float(stripped)
    number = PyDecimal(found[1])
    # Decimal has no zero of its own sign once it is rounded by way of float; Java keeps it
    return -number if stripped.startswith("-") and number else (-0.0 if stripped.startswith("-") else number)


def _saturated(value: float, bits: int) -> int:
    """Java's cast of a floating number: the nearest there is, 0 for NaN."""
    if value != value:
        return 0
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if value >= high:
        return high
    return low if value <= low else int(value)


def _cut(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _out_of_range(value: str) -> DataError:
    return DataError(f"Value ({value}) was out of range for requested data type")


def _unexpected(value: Any) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: class {java_class(value)}")


_RAW: dict[str, Callable[[Schema, Any], int]] = {
    Date.LOGICAL_NAME: Date.from_logical,
    Time.LOGICAL_NAME: Time.from_logical,
    Timestamp.LOGICAL_NAME: Timestamp.from_logical,
}

_CASTS: dict[Type, Callable[[Any], Any]] = {
    **{kind: partial(_integer, bits=bits) for kind, bits in _BITS.items()},
    Type.FLOAT32: _single,
    Type.FLOAT64: _double,
    Type.BOOLEAN: _boolean,
}
