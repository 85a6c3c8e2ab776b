"""The Avro schema of a table, for objects that are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError

if TYPE_CHECKING:
    import pyarrow as pa

# Readers in Java refuse a whole file for any other
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_schema(fields: pa.Schema, name: str) -> dict[str, Any]:
    """The Avro schema of a table's rows. Errors: DataError for a type or the name of a field that Avro cannot have."""
    return {"type": "record", "name": name, "fields": [_field(field, f"{name}_") for field in fields]}


def _field(field: pa.Field, prefix: str) -> dict[str, Any]:
    if not _NAME.fullmatch(field.name):
        raise DataError(
            f"{field.name!r} cannot be a name in Avro, which has letters without accents, _, and digits behind them",
            hint="ReplaceField renames fields; JSON Lines and Parquet take any name.",
        )
    kind = _avro(field.type, prefix + field.name)
    return {"name": field.name, "type": ["null", kind], "default": None} if field.nullable else _named(field, kind)


def _named(field: pa.Field, kind: Any) -> dict[str, Any]:
    return {"name": field.name, "type": kind}


def _avro(kind: pa.DataType, name: str) -> Any:
    """Names of records inside of others are made of the way to them: Avro wants each once."""
    import pyarrow.types as is_

    for matches, made in _FROM_ARROW:
        if getattr(is_, matches)(kind):
            return made
    if is_.is_time(kind):
        return _TIMES[kind.unit]
    if is_.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[kind.unit]}"}
    if is_.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if is_.is_struct(kind):
        return {"type": "record", "name": name, "fields": [_field(part, f"{name}_") for part in kind]}
    if is_.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type, f"{name}_item")]}
    if is_.is_map(kind) and is_.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _avro(kind.item_type, f"{name}_value")]}
    raise DataError(f"A value of type {kind} cannot be written as Avro")


_FROM_ARROW: tuple[tuple[str, Any], ...] = (
    ("is_boolean", "boolean"),
    ("is_int8", "int"),
    ("is_int16", "int"),
    ("is_int32", "int"),
    ("is_int64", "long"),
    ("is_float32", "float"),
    ("is_float64", "double"),
    ("is_string", "string"),
    ("is_binary", "bytes"),
    ("is_null", "string"),
    ("is_date", {"type": "int", "logicalType": "date"}),
)
_UNITS = {"s": "millis", "ms": "millis", "us": "micros", "ns": "micros"}
_TIMES = {
    unit: {"type": "int" if name == "millis" else "long", "logicalType": f"time-{name}"}
    for unit, name in _UNITS.items()
}
