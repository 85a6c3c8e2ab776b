"""JSON to Connect values. Source: io.confluent.connect.json.JsonSchemaData.toConnectData.

Differs: JSON of another type than the schema's is a DataError, where Java reads 0, false or null; so is a number that
the type does not hold, of which Java cuts the fraction or the high bits.
"""

from __future__ import annotations

import decimal
import logging
from collections.abc import Callable, Mapping
from ctypes import c_float
from typing import Any, Final

from kconnect.api import DataError, Date, Decimal, Schema, Struct, Time, Timestamp, Type
from kconnect.builtin.schema_registry.json_schema.json_names import JsonOptions, has_text_keys, is_union
from kconnect.java.compat.jackson import MISSING, read_base64, write_double

log = logging.getLogger(__name__)

Reader = Callable[[Any], Any]

_MOST_SHOWN: Final = 200
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_EXACT: Final = decimal.Context(1000, traps=[decimal.Inexact, decimal.InvalidOperation])  # as many as JSON may have
_FLOATS: Final = (Type.FLOAT32, Type.FLOAT64)
_WHOLE: Final[Mapping[str, Callable[[Schema, int], Any]]] = {
    Date.LOGICAL_NAME: Date.to_logical,
    Time.LOGICAL_NAME: Time.to_logical,
    Timestamp.LOGICAL_NAME: Timestamp.to_logical,
}


def reader_of(schema: Schema, options: JsonOptions) -> Reader:
    """A function from JSON to values of a schema. Errors: the function's DataError."""
    read = _present(schema, options)
    default, is_optional, kind = schema.default, schema.is_optional, schema.type

    def value_of(node: Any) -> Any:
        if node is not None and node is not MISSING:
            return read(node)
        if default is not None or node is MISSING or is_optional:
            return default
        raise DataError(f"Invalid null value for required {kind} field")

    return value_of


def has_decimals(schema: Schema) -> bool:
    """Whether numbers of a schema must be read with all their digits."""
    inner = [schema.key_schema, schema.value_schema] if schema.type is Type.MAP else []
    if schema.type is Type.ARRAY:
        inner = [schema.value_schema]
    elif schema.type is Type.STRUCT:
        inner = [field.schema for field in schema.fields]
    return schema.name == Decimal.LOGICAL_NAME or any(has_decimals(each) for each in inner if each is not None)


def _present(schema: Schema, options: JsonOptions) -> Reader:
    if schema.name == Decimal.LOGICAL_NAME:
        return lambda node: _decimal(schema, node)
    whole = _WHOLE.get(schema.name or "")
    if whole is not None:
        return lambda node: whole(schema, _int(node, schema))
    kind = schema.type
    if kind in _BITS:
        half = 1 << _BITS[kind] - 1
        return lambda node: _held(node, half, schema)
    if kind in _FLOATS:
        if kind is Type.FLOAT32:
            return lambda node: c_float(_float(node, schema)).value  # as Java's floatValue() rounds
        return lambda node: _float(node, schema)
    if kind is Type.BOOLEAN:
        return lambda node: _of(node, bool, schema)
    if kind is Type.STRING and options.enum_parameter in (schema.parameters or {}):
        return lambda node: node if type(node) is str else enum_text(node)
    if kind is Type.STRING:
        return lambda node: _of(node, str, schema)
    if kind is Type.BYTES:
        return lambda node: _base64(node, schema)
    if kind is Type.ARRAY:
        assert schema.value_schema is not None
        read = reader_of(schema.value_schema, options)
        return lambda node: [read(each) for each in _of(node, list, schema)]
    if kind is Type.MAP:
        return _map(schema, options)
    return _union(schema, options) if is_union(schema) else _struct(schema, options)


def enum_text(node: Any) -> str:
    """A value of an enum as the text that it is in Connect: its JSON. Errors: DataError for lists and objects."""
    if isinstance(node, str):
        return node
    if isinstance(node, dict | list):
        raise DataError(f"Invalid type for an enum: JSON {_said(node)}")
    if isinstance(node, bool):
        return "true" if node else "false"
    return write_double(node) if isinstance(node, float) else str(node)


def _of(node: Any, wanted: type, schema: Schema) -> Any:
    if type(node) is not wanted:
        raise DataError(f"Invalid type for {schema.name or schema.type}: JSON {_said(node)}")
    return node


def _int(node: Any, schema: Schema) -> int:
    return int(_of(node, int, schema))


def _held(node: Any, half: int, schema: Schema) -> int:
    """A whole number from -`half` on and below `half`; 3.0 is one."""
    is_fraction = isinstance(node, float | decimal.Decimal)
    found = node if is_fraction else _int(node, schema)
    if not -half <= found < half:  # before int(), which writes out all digits of 1E+999999
        raise DataError(f"{node} is out of the range of {schema.type}")
    if found != int(found):
        raise DataError(f"{node} is not a whole number, which {schema.type} requires")
    return int(found)


def _float(node: Any, schema: Schema) -> float:
    if isinstance(node, bool) or not isinstance(node, int | float | decimal.Decimal):
        if node in ("NaN", "Infinity", "-Infinity"):  # as Jackson writes them
            return float(node)
        raise DataError(f"Invalid type for {schema.type}: JSON {_said(node)}")
    try:
        return float(node)
    except OverflowError:
        return float("inf") if node > 0 else float("-inf")


def _base64(node: Any, schema: Schema) -> bytes:
    try:
        return read_base64(_of(node, str, schema))
    except ValueError as error:
        raise DataError(f"Invalid bytes field: {error}") from error


def _decimal(schema: Schema, node: Any) -> decimal.Decimal:
    if isinstance(node, str):
        return Decimal.to_logical(schema, _base64(node, schema))
    if isinstance(node, float):
        return _of_scale(schema, decimal.Decimal(repr(node)))
    if isinstance(node, int | decimal.Decimal) and not isinstance(node, bool):
        return _of_scale(schema, decimal.Decimal(node))
    raise DataError(
        f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {_said(node)}"
    )


def _of_scale(schema: Schema, number: decimal.Decimal) -> decimal.Decimal:
    """The number with the schema's scale, which other writers leave zeros out of; as it is where it has more places.

    Differs: Java leaves 1.5 with a scale of 1 where the schema says 2, which its other converters refuse.
    """
    scale = Decimal.scale(schema)
    try:
        return number.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    except (decimal.Inexact, decimal.InvalidOperation):
        return number


def _map(schema: Schema, options: JsonOptions) -> Reader:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    read = reader_of(schema.value_schema, options)
    if has_text_keys(schema):
        return lambda node: {key: read(item) for key, item in _of(node, dict, schema).items()}
    read_key = reader_of(schema.key_schema, options)

    def entries(node: Any) -> dict[Any, Any]:
        found = {}
        for entry in _of(node, list, schema):
            if not isinstance(entry, dict) or len(entry) != 2:
                raise DataError(f"Found invalid map entry: JSON {_said(entry)}")
            try:
                found[read_key(entry.get("key", MISSING))] = read(entry.get("value", MISSING))
            except TypeError as error:
                raise DataError("A key of this map is a list or a map, which Python cannot have as a key") from error
        return found

    return entries


def _struct(schema: Schema, options: JsonOptions) -> Reader:
    parts = [(field.name, reader_of(field.schema, options)) for field in schema.fields]
    names = {name for name, _ in parts}
    has_said = not names  # of a schema without properties json_schema_mapping.py says it

    def struct(node: Any) -> Struct:
        nonlocal has_said
        found = _of(node, dict, schema)
        if not has_said and not found.keys() <= names:
            has_said = True
            left_out = ", ".join(sorted(found.keys() - names))
            log.warning(
                "The JSON Schema%s does not name %s: such members are left out",
                f" {schema.name}" if schema.name else "",
                left_out if len(left_out) <= _MOST_SHOWN else left_out[:_MOST_SHOWN] + "..",
            )
        values: list[Any] = []
        for name, read in parts:
            try:
                values.append(read(found.get(name, MISSING)))
            except DataError as error:
                raise DataError(f"Field {name}: {error}") from error
        return Struct.from_values(schema, values)

    return struct


def _union(schema: Schema, options: JsonOptions) -> Reader:
    members = [(field.schema, reader_of(field.schema, options)) for field in schema.fields]

    def union(node: Any) -> Struct:
        best, best_score = None, 0
        for index, (member, _) in enumerate(members):
            if _is_instance(member, node):
                best = index
                break
            score = _likeness(member, node)
            if score > best_score:
                best, best_score = index, score
        if best is None:
            raise DataError("Did not find matching oneof field for data")
        values: list[Any] = [None] * len(members)
        values[best] = members[best][1](node)
        return Struct.from_values(schema, values)

    return union


def _is_instance(schema: Schema, node: Any) -> bool:
    """Whether JSON is of the type of a member that is no struct."""
    kind = schema.type
    if kind in _BITS:
        return type(node) is int
    if kind in _FLOATS:
        return isinstance(node, int | float | decimal.Decimal) and not isinstance(node, bool)
    if kind is Type.BOOLEAN:
        return isinstance(node, bool)
    if kind is Type.STRING:
        return isinstance(node, str)
    if kind is Type.ARRAY:
        return isinstance(node, list)
    return kind is Type.MAP and isinstance(node, dict | list)


def _likeness(schema: Schema, node: Any) -> int:
    """How many of a struct's fields JSON has, at all depths."""
    if schema.type is not Type.STRUCT or not isinstance(node, dict):
        return 0
    common = [field for field in schema.fields if field.name in node]
    return len(common) + sum(_likeness(field.schema, node[field.name]) for field in common)


def _said(node: Any) -> str:
    return {dict: "object", list: "array", str: "string", bool: "boolean"}.get(type(node), "number")
