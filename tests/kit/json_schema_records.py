"""Orders as JSON with JSON Schema in a registry in memory: for tests of the converter."""

from __future__ import annotations

import json
from typing import Any

from kconnect.api import (
    Schema,
    SchemaBuilder,
    Struct,
)
from kconnect.builtin.schema_registry.json_schema.json_schema_converter import JsonSchemaConverter
from kit.memory_registry import MemoryRegistry

ENUM = "io.confluent.connect.json.Enum"
ORDER = (
    SchemaBuilder.struct()
    .name("com.example.Order")
    .field("id", Schema.INT64_SCHEMA)
    .field("note", Schema.OPTIONAL_STRING_SCHEMA)
    .build()
)
ORDER_TEXT = (
    '{"type":"object","title":"com.example.Order","properties":{"note":{"connect.index":1,"oneOf":[{"type":"null"},'
    '{"type":"string"}]},"id":{"type":"integer","connect.index":0,"connect.type":"int64"}}}'
)


def converter(registry: MemoryRegistry, is_key: bool = False, /, **settings: str) -> JsonSchemaConverter:
    made = JsonSchemaConverter(registry)
    given = {key.replace("_", "."): value for key, value in settings.items()}
    made.configure({"schema.registry.url": "http://unused:1", **given}, is_key)
    return made


def order(number: int, note: str | None = None) -> Struct:
    return Struct(ORDER, {"id": number, "note": note})


def written(made: JsonSchemaConverter, schema: Schema, value: Any) -> bytes:
    data = made.from_connect_data("t", schema, value)
    assert data is not None
    return data


def read(made: JsonSchemaConverter, data: bytes | None) -> Any:  # its schema is never None, as in the type
    return made.to_connect_data("t", data)


def registered(registry: MemoryRegistry, schema: Any, **more: Any) -> int:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return registry.add("t-value", text, schemaType="JSON", **more)


def record(schema_id: int, value: Any) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + json.dumps(value).encode()


def found(registry: MemoryRegistry, schema: Any, value: Any, **settings: str) -> Any:
    """What is read of JSON with a JSON Schema."""
    return read(converter(registry, **settings), record(registered(registry, schema), value))


def plain(value: Any) -> Any:
    """A value without its schemas."""
    if isinstance(value, Struct):
        return {field.name: plain(value[field.name]) for field in value.schema.fields}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


UNION = {
    "oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "object", "properties": {"a": {"type": "boolean"}}}]
}
