"""Orders as Protobuf in a registry in memory: for tests of the converter."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kconnect.api import (
    Schema,
    SchemaBuilder,
    Struct,
)
from kconnect.builtin.schema_registry.protobuf.protobuf_converter import ProtobufConverter
from kit.memory_registry import MemoryRegistry

TAG = "io.confluent.connect.protobuf.Tag"
ORDER = (
    SchemaBuilder.struct()
    .name("com.example.Order")
    .field("id", Schema.INT64_SCHEMA)
    .field("note", Schema.OPTIONAL_STRING_SCHEMA)
    .build()
)
ORDER_TEXT = """\
syntax = "proto3";
package com.example;

message Order {
  int64 id = 1;
  string note = 2;
}
"""


def converter(registry: MemoryRegistry, is_key: bool = False, /, **settings: str) -> ProtobufConverter:
    made = ProtobufConverter(registry)
    given = {key.replace("_", "."): value for key, value in settings.items()}
    made.configure({"schema.registry.url": "http://unused:1", **given}, is_key)
    return made


def order(number: int, note: str | None = None) -> Struct:
    return Struct(ORDER, {"id": number, "note": note})


def written(made: ProtobufConverter, schema: Schema, value: Any) -> bytes:
    data = made.from_connect_data("t", schema, value)
    assert data is not None
    return data


def read(made: ProtobufConverter, data: bytes | None) -> Any:  # its schema is never None, as in the type
    return made.to_connect_data("t", data)


def registered(registry: MemoryRegistry, text: str, **more: Any) -> int:
    return registry.add("t-value", text, schemaType="PROTOBUF", **more)


def record(schema_id: int, data: bytes, indexes: bytes = b"\x00") -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + indexes + data


def _order_class() -> Any:
    """What `protoc` would have made of ORDER_TEXT, to write and read without the converter."""
    file = FileDescriptorProto(name="order.proto", package="com.example", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="note", number=2, type=9, label=1)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("com.example.Order"))


Order = _order_class()
NEWEST = """
syntax = "proto3"; package com.example;
message Other { } message Order { string extra = 9; string note = 5; int64 id = 4; }
"""


def latest(registry: MemoryRegistry, **settings: str) -> ProtobufConverter:
    return converter(registry, auto_register_schemas="false", use_latest_version="true", **settings)


def plain(value: Any) -> Any:
    """A value without its schemas."""
    if isinstance(value, Struct):
        return {field.name: plain(value[field.name]) for field in value.schema.fields}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value
