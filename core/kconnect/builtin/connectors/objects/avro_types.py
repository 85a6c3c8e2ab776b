"""Types between Avro and Arrow, for objects: what a table can hold."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Plain = Callable[[Any], Any]
# Readers in Java refuse a whole file for any other
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def arrow_fields(schema: Any) -> tuple[pa.Schema, Plain]:
    """The columns of an object's Avro schema, and what makes a value of it plain for Arrow.

    A schema that is not a record becomes the one column `value`. Errors: DataError for unions of several types.
    """
    import pyarrow as pa

    kind, nullable = _arrow(schema, {})
    if pa.types.is_struct(kind) and not nullable:
        return pa.schema(list(kind)), _plain if _has_uuid(schema) else lambda value: value
    return pa.schema([pa.field("value", kind, nullable)]), lambda value: {"value": _plain(value)}


def avro_schema(fields: pa.Schema, name: str) -> dict[str, Any]:
    """The Avro schema of a table's rows. Errors: DataError for a type or the name of a field that Avro cannot have."""
    return {"type": "record", "name": name, "fields": [_field(field, f"{name}_") for field in fields]}


def _arrow(schema: Any, named: dict[str, Any]) -> tuple[Any, bool]:
    import pyarrow as pa

    if isinstance(schema, list):
        others = [part for part in schema if part != "null"]
        if len(others) != 1:
            raise DataError(f"A union of {len(others)} types cannot be a column: {schema}")
        return _arrow(others[0], named)[0], len(others) < len(schema)
    if isinstance(schema, str):
        if schema in named:
            return named[schema], False
        found = _PRIMITIVES.get(schema)
        if found is None:
            raise DataError(f"Avro type {schema} cannot be a column")
        return found(pa), schema == "null"
    logical = schema.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical](pa, schema), False
    kind = schema["type"]
    if kind == "record":
        made = pa.struct([pa.field(part["name"], *_arrow(part["type"], named)) for part in schema["fields"]])
    elif kind == "array":
        made = pa.list_(pa.field("item", *_arrow(schema["items"], named)))
    elif kind == "map":
        made = pa.map_(pa.string(), pa.field("value", *_arrow(schema["values"], named)))
    elif kind == "enum":
        made = pa.string()
    elif kind == "fixed":
        made = pa.binary()
    else:
        return _arrow(kind, named)
    if "name" in schema:
        named[schema["name"]] = made
    return made, False


_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "null": lambda pa: pa.null(),
    "boolean": lambda pa: pa.bool_(),
    "int": lambda pa: pa.int32(),
    "long": lambda pa: pa.int64(),
    "float": lambda pa: pa.float32(),
    "double": lambda pa: pa.float64(),
    "bytes": lambda pa: pa.binary(),
    "string": lambda pa: pa.string(),
}
_LOGICAL: dict[str, Callable[[Any, Any], Any]] = {
    "decimal": lambda pa, schema: pa.decimal128(min(38, schema["precision"]), schema.get("scale", 0)),
    "uuid": lambda pa, _: pa.string(),
    "date": lambda pa, _: pa.date32(),
    "time-millis": lambda pa, _: pa.time32("ms"),
    "time-micros": lambda pa, _: pa.time64("us"),
    "timestamp-millis": lambda pa, _: pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": lambda pa, _: pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": lambda pa, _: pa.timestamp("ms"),
    "local-timestamp-micros": lambda pa, _: pa.timestamp("us"),
}


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


def _has_uuid(schema: Any) -> bool:
    return "'uuid'" in repr(schema)


def _plain(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value
