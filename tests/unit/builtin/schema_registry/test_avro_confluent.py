"""confluent-kafka's deserializer reads what our columns wrote, and its serializer writes the same bytes again."""

from __future__ import annotations

import json
from random import Random

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kconnect.api.columns import column_of
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kit.memory_registry import MemoryRegistry
from kit.random_avro import random_row_schema, random_rows

_SEEDS = range(15)
_ROWS = 25


def test_confluent_kafkas_serializers_read_and_write_the_same() -> None:
    compared = sum(_compare(seed) for seed in _SEEDS)

    assert compared > len(_SEEDS) * _ROWS / 2


def _compare(seed: int) -> int:
    """How many records were compared: none of a schema with a decimal of negative scale, which fastavro refuses."""
    random, registry = Random(seed), MemoryRegistry()
    made = AvroConverter(registry)
    settings = {"scrub.invalid.names": "true", "enhanced.avro.schema.support": "true"}
    made.configure({"schema.registry.url": "http://unused:1", **settings}, False)
    schema = random_row_schema(random)
    written = made.from_connect_batch("t", schema, column_of(schema, random_rows(random, schema, _ROWS))).to_pylist()
    text = registry.schemas[1]["schema"]
    if '"scale":-' in text:
        return 0
    client = SchemaRegistryClient.new_client({"url": f"mock://{seed}"})
    client.register_schema("t-value", Schema(text, "AVRO"))
    deserialize, serialize = AvroDeserializer(client), AvroSerializer(client, text)
    context = SerializationContext("t", MessageField.VALUE)

    values = [deserialize(data, context) for data in written]

    assert [list(value) for value in values] == [[entry["name"] for entry in json.loads(text)["fields"]]] * _ROWS
    again = [serialize(value, context) for value in values]
    assert [data[5:] for data in again] == [data[5:] for data in written]
    return _ROWS
