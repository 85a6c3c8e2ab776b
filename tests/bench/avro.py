"""Cases of AvroConverter's columns beside confluent-kafka's serializers: one process, by turns, CPU time."""

from __future__ import annotations

import datetime
import statistics
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pyarrow as pa
from confluent_kafka.serialization import MessageField, SerializationContext

from bench.ground import Ground, Metrics
from kconnect.api import Schema, SchemaBuilder, Struct, Timestamp
from kconnect.api.columns import column_of
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kit.memory_registry import MemoryRegistry

__all__ = ["avro_lines", "avro_read", "avro_write"]

_TOPIC = "avro"
_ROWS = 10_000
_ROUNDS = 7
_HEAD_BYTES = 5
_EPOCH = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
_LINE = SchemaBuilder.struct().name("com.example.Line").field("line", Schema.STRING_SCHEMA).build()
_ROW = (
    SchemaBuilder.struct()
    .name("com.example.Row")
    .field("id", Schema.INT64_SCHEMA)
    .field("price", Schema.FLOAT64_SCHEMA)
    .field("ok", Schema.BOOLEAN_SCHEMA)
    .field("note", Schema.OPTIONAL_STRING_SCHEMA)
    .field("at", Timestamp.SCHEMA)
    .field("count", Schema.OPTIONAL_INT32_SCHEMA)
    .build()
)


class _Sides:
    """The same rows for our converters and for confluent-kafka's, each with a registry in memory."""

    def __init__(self, schema: Schema, rows: list[dict[str, Any]]) -> None:
        # needs packages that only `make dev` installs
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

        registry = MemoryRegistry()
        self.rows, self._schema = rows, schema
        self._column = column_of(schema, [Struct(schema, row) for row in rows])
        self._avro, self._json = AvroConverter(registry), JsonConverter()
        self._avro.configure({"schema.registry.url": "http://unused:1"}, False)
        self._json.configure({}, False)
        self.data = self.avro()
        client = SchemaRegistryClient.new_client({"url": "mock://bench"})
        self._serializer = AvroSerializer(client, registry.schemas[1]["schema"])
        self._deserializer = AvroDeserializer(client)
        self._context = SerializationContext(_TOPIC, MessageField.VALUE)
        self.theirs = self.serializer()
        assert [each[_HEAD_BYTES:] for each in self.theirs] == [each[_HEAD_BYTES:] for each in self.data]

    def avro(self) -> list[Any]:
        found: list[Any] = self._avro.from_connect_batch(_TOPIC, self._schema, self._column).to_pylist()
        return found

    def json(self) -> list[Any]:
        found: list[Any] = self._json.from_connect_batch(_TOPIC, self._schema, self._column).to_pylist()
        return found

    def serializer(self) -> list[Any]:
        serialize, context = self._serializer, self._context
        return [serialize(row, context) for row in self.rows]

    def read(self) -> Any:
        found = self._avro.to_connect_batch(_TOPIC, pa.array(self.data, pa.binary()))
        assert found is not NotImplemented
        return found

    def deserializer(self) -> list[Any]:
        deserialize, context = self._deserializer, self._context
        return [deserialize(each, context) for each in self.theirs]


def avro_write(side: str, ground: Ground) -> Metrics:
    """Columns of six fields to Avro, beside confluent-kafka's AvroSerializer and our JSON with schemas."""
    return _written(_Sides(_ROW, _rows()))


def avro_lines(side: str, ground: Ground) -> Metrics:
    """The same of lines of a file in a struct."""
    return _written(_Sides(_LINE, [{"line": f"{number:09d}" + "x" * 90} for number in range(_ROWS)]))


def avro_read(side: str, ground: Ground) -> Metrics:
    """Avro of six fields to columns, beside confluent-kafka's AvroDeserializer."""
    sides = _Sides(_ROW, _rows())
    found = _by_turns({"avro_us": sides.read, "serializer_us": sides.deserializer})
    return {**found, "times_serializer": found["serializer_us"] / found["avro_us"]}


def _written(sides: _Sides) -> Metrics:
    found = _by_turns({"avro_us": sides.avro, "serializer_us": sides.serializer, "json_us": sides.json})
    return {
        **found,
        "times_serializer": found["serializer_us"] / found["avro_us"],
        "times_json": found["json_us"] / found["avro_us"],
    }


def _by_turns(ways: Mapping[str, Callable[[], Any]]) -> Metrics:
    """Median CPU time of each way, in us a record."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            taken[name].append((time.process_time() - begin) / _ROWS * 1e6)
    return {name: statistics.median(values) for name, values in taken.items()}


def _rows() -> list[dict[str, Any]]:
    """Numbers of all sizes, text of 200 bytes, a null here and there."""
    random = Random(13)
    return [
        {
            "id": random.getrandbits(random.choice((6, 20, 40, 63))),
            "price": random.random(),
            "ok": random.random() < 0.5,
            "note": None if random.random() < 0.1 else "x" * random.randint(100, 300),
            "at": _EPOCH + datetime.timedelta(milliseconds=random.getrandbits(30)),
            "count": None if random.random() < 0.3 else random.getrandbits(15),
        }
        for _ in range(_ROWS)
    ]
