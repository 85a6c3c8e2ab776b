"""What the converters write is read by confluent-kafka's own deserializers, and the other way round."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kconnect.api import Converter, Schema, SchemaBuilder, Struct
from kconnect.builtin.schema_registry.json_schema.json_schema_converter import JsonSchemaConverter
from kconnect.builtin.schema_registry.protobuf.proto_parser import parse_proto
from kconnect.builtin.schema_registry.protobuf.protobuf_converter import ProtobufConverter
from kconnect.builtin.schema_registry.registry.registry_http import RegistryRefusal
from kit.memory_registry import MemoryRegistry

VALUE = SerializationContext("t", MessageField.VALUE)
ORDER = (
    SchemaBuilder.struct()
    .name("com.example.Order")
    .field("id", Schema.INT64_SCHEMA)
    .field("note", Schema.STRING_SCHEMA)
    .field("tags", SchemaBuilder.array(Schema.STRING_SCHEMA).build())
    .build()
)
VALUES = [{"id": number - 3, "note": f"\u00e4{number}", "tags": ["a"] * (number % 3)} for number in range(7)]


class _Handler(BaseHTTPRequestHandler):
    registry: MemoryRegistry

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        try:
            status, said = 200, self.registry.answer(self.command, self.path, body)
        except RegistryRefusal as error:
            status, said = error.status, {"error_code": error.code, "message": error.said}
        if "format=serialized" in self.path:  # as the client asks for Protobuf, and Confluent's registry answers
            file = parse_proto(said["schema"]).SerializeToString()
            said = {**said, "schema": base64.b64encode(file).decode()}
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *parts: Any) -> None:
        """Requests are not logged."""


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def client(registry: MemoryRegistry) -> Iterator[SchemaRegistryClient]:
    handler = type("Handler", (_Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="registry")
        thread.start()
        with SchemaRegistryClient({"url": f"http://127.0.0.1:{server.server_port}"}) as made:
            yield made
        server.shutdown()
        thread.join()


def configured(made: Converter) -> Any:
    made.configure({"schema.registry.url": "http://unused:1"}, False)
    return made


def order_class() -> Any:
    fields = "int64 id = 1; string note = 2; repeated string tags = 3;"
    file = parse_proto(f'syntax = "proto3"; package com.example; message Order {{ {fields} }}')
    file.name = "order.proto"
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("com.example.Order"))


def test_protobuf(registry: MemoryRegistry, client: SchemaRegistryClient) -> None:
    made, order = configured(ProtobufConverter(registry)), order_class()
    settings = {"use.deprecated.format": False}
    theirs = ProtobufDeserializer(order, settings, client)
    for value in VALUES:
        read = theirs(made.from_connect_data("t", ORDER, Struct(ORDER, value)), VALUE)
        assert {"id": read.id, "note": read.note, "tags": list(read.tags)} == value

    write = ProtobufSerializer(order, client, settings)
    for value in VALUES:
        found = made.to_connect_data("t", write(order(**value), VALUE)).value
        assert {name: found[name] for name in value} == value


def test_json(registry: MemoryRegistry, client: SchemaRegistryClient) -> None:
    made = configured(JsonSchemaConverter(registry))
    theirs = JSONDeserializer(None, schema_registry_client=client)
    for value in VALUES:
        assert theirs(made.from_connect_data("t", ORDER, Struct(ORDER, value)), VALUE) == value

    parts = {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    write = JSONSerializer(json.dumps({"title": "Order", "type": "object", "properties": parts}), client)
    for value in VALUES:
        found = made.to_connect_data("t", write(value, VALUE)).value
        assert {name: found[name] for name in value} == value
