"""Connect values to JSON as Jackson writes it. Source: io.confluent.connect.json.JsonSchemaData.fromConnectData.

What has to be decided is decided once a schema: each part of it becomes a function, and a record is a call of these.
"""

from __future__ import annotations

import base64
import decimal
from collections.abc import Callable, Mapping
from typing import Any, Final

from kconnect.api import DataError, Date, Decimal, Schema, Struct, Time, Timestamp, Type
from kconnect.api.schema_types import LOGICAL_CHECKS, TYPE_CHECKS
from kconnect.builtin.schema_registry.json_schema.json_names import JsonOptions, has_text_keys, is_union
from kconnect.java.compat.jackson import parse, quote, write_double, write_float

Writer = Callable[[Any], str | None]
_Present = Callable[[Any], str]

_WHOLE: Final[Mapping[str, Callable[[Schema, Any], int]]] = {
    Date.LOGICAL_NAME: Date.from_logical,
    Time.LOGICAL_NAME: Time.from_logical,
    Timestamp.LOGICAL_NAME: Timestamp.from_logical,
}
_SCALARS: Final[Mapping[Type, _Present]] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), str),
    Type.FLOAT32: write_float,
    Type.FLOAT64: write_double,
    Type.BOOLEAN: lambda value: "true" if value else "false",
    Type.STRING: quote,
    Type.BYTES: lambda value: f'"{base64.b64encode(value).decode()}"',
}


def writer_of(schema: Schema, options: JsonOptions) -> Writer:
    """A function from values of a schema to JSON; to None for null where there is no null. Errors: its DataError."""
    write = _present(schema, options)
    null: str | None = "null" if schema.is_optional else None
    if schema.default is not None and not options.ignore_default_for_nullables:
        null = write(schema.default)
    return lambda value: null if value is None else write(value)


def plain_json(schema: Schema, value: Any, options: JsonOptions) -> Any:
    """A default as a JSON Schema has it; None for none. A decimal loses the zeros behind it, as in Java."""
    if value is None:
        return None
    text = _present(schema, options)(value)
    if schema.name != Decimal.LOGICAL_NAME or not options.numeric_decimals:
        return parse(text.encode())
    number = decimal.Decimal(text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text)
    return number or decimal.Decimal(0)


def _present(schema: Schema, options: JsonOptions) -> _Present:
    """For values that are not null."""
    if schema.type is Type.STRUCT:
        return _union(schema, options) if is_union(schema) else _struct(schema, options)
    check = LOGICAL_CHECKS.get(schema.name or "") or TYPE_CHECKS[schema.type]
    write = _plain(schema, options)

    def checked(value: Any) -> str:
        if not check(value):
            schema.validate_value(value)
        return write(value)

    return checked


def _plain(schema: Schema, options: JsonOptions) -> _Present:
    if schema.name == Decimal.LOGICAL_NAME:
        return str if options.numeric_decimals else lambda value: _decimal(schema, value)
    whole = _WHOLE.get(schema.name or "")
    if whole is not None:
        return lambda value: str(whole(schema, value))
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        write = writer_of(schema.value_schema, options)
        return lambda value: f"[{','.join([write(each) or 'null' for each in value])}]"
    if schema.type is Type.MAP:
        return _map(schema, options)
    return _SCALARS[schema.type]


def _decimal(schema: Schema, value: decimal.Decimal) -> str:
    return f'"{base64.b64encode(Decimal.from_logical(schema, value)).decode()}"'


def _map(schema: Schema, options: JsonOptions) -> _Present:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    write_key, write = writer_of(schema.key_schema, options), writer_of(schema.value_schema, options)

    def as_object(value: dict[Any, Any]) -> str:
        return "{" + ",".join([f"{write_key(key)}:{write(item) or 'null'}" for key, item in value.items()]) + "}"

    def as_entries(value: dict[Any, Any]) -> str:
        entries = [
            f'{{"key":{write_key(key) or "null"},"value":{write(item) or "null"}}}' for key, item in value.items()
        ]
        return f"[{','.join(entries)}]"

    return as_object if has_text_keys(schema) else as_entries


def _struct(schema: Schema, options: JsonOptions) -> _Present:
    parts = [(field.name, f"{quote(field.name)}:", writer_of(field.schema, options)) for field in schema.fields]
    own = options.ignore_default_for_nullables

    def struct(value: Any) -> str:
        _require_struct(schema, value)
        made: list[str] = []
        for name, head, write in parts:
            found = value.get_without_default(name) if own else value[name]
            try:
                text = write(found)
            except DataError as error:
                raise DataError(f"Field {name}: {error}") from error
            if text is not None:
                made.append(head + text)
        return "{" + ",".join(made) + "}"

    return struct


def _union(schema: Schema, options: JsonOptions) -> _Present:
    members = [(field.name, writer_of(field.schema, options)) for field in schema.fields]
    own = options.ignore_default_for_nullables

    def union(value: Any) -> str:
        _require_struct(schema, value)
        for name, write in members:
            member = value.get_without_default(name) if own else value[name]
            if member is not None:
                return write(member) or "null"
        if schema.is_optional:
            return "null"
        raise DataError("No member of the union has a value")

    return union


def _require_struct(schema: Schema, value: Any) -> None:
    if not isinstance(value, Struct) or (value.schema is not schema and value.schema.fields != schema.fields):
        raise DataError("Mismatching schema.")
