"""ProtobufConverter and JsonSchemaConverter with a real registry."""

from __future__ import annotations

import datetime
import decimal
from typing import Any
from urllib.request import Request, urlopen

import pytest

from kconnect.admin.records import RegistryDecoder
from kconnect.api import Converter, DataError, Date, Decimal, Schema, SchemaBuilder, Struct, Timestamp
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kconnect.builtin.schema_registry.json_schema.json_schema_converter import JsonSchemaConverter
from kconnect.builtin.schema_registry.protobuf.protobuf_converter import ProtobufConverter
from kconnect.java.devbroker.dev_registry import DevRegistry
from kconnect.runtime.plugins import PluginRegistry
from kit.pace import ample_s
from kit.topics import topic_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]


def configured(made: Converter, registry: DevRegistry, **settings: str) -> Any:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    made.configure({"schema.registry.url": registry.url, **given}, False)
    return made


def order_schema(*more: str) -> Schema:
    builder = SchemaBuilder.struct().name("com.example.Order").field("id", Schema.INT64_SCHEMA)
    builder.field("note", Schema.STRING_SCHEMA).field("tags", SchemaBuilder.array(Schema.STRING_SCHEMA).build())
    for name in more:
        builder.field(name, Schema.OPTIONAL_STRING_SCHEMA)
    return builder.build()


def test_protobuf_with_logical_types_maps_and_references_is_taken_by_the_registry(
    request: pytest.FixtureRequest, registry: DevRegistry
) -> None:
    topic = topic_for(request)
    made = configured(ProtobufConverter(), registry)
    schema = (
        SchemaBuilder.struct()
        .name("com.example.Rich")
        .field("price", Decimal.schema(2))
        .field("day", Date.SCHEMA)
        .field("at", Timestamp.SCHEMA)
        .field("small", Schema.INT8_SCHEMA)
        .field("by_name", SchemaBuilder.map(Schema.STRING_SCHEMA, order_schema()).name("by_name").build())
        .build()
    )
    order = Struct(order_schema(), {"id": 1, "note": "n", "tags": []})
    value = Struct(
        schema,
        {
            "price": decimal.Decimal("1.10"),
            "day": datetime.date(2026, 1, 2),
            "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
            "small": -1,
            "by_name": {"k": order},
        },
    )
    found = made.to_connect_data(topic, made.from_connect_data(topic, schema, value)).value

    assert [found[name] for name in ("price", "day", "at", "small")] == [
        value[name] for name in ("price", "day", "at", "small")
    ]
    assert found["by_name"]["k"]["note"] == "n"


@pytest.mark.parametrize("kind", [ProtobufConverter, JsonSchemaConverter])
def test_an_incompatible_schema_is_refused_by_subject_and_rule(
    request: pytest.FixtureRequest, registry: DevRegistry, kind: type[Converter]
) -> None:
    topic = topic_for(request)
    made = configured(kind(), registry)
    first = made.from_connect_data(topic, order_schema(), Struct(order_schema(), {"id": 1, "note": "n", "tags": []}))
    assert made.to_connect_data(topic, first).schema.version == 1
    body, headers = b'{"compatibility": "FULL"}', {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    change = Request(f"{registry.url}/config/{topic}-value", body, headers, method="PUT")
    urlopen(change, timeout=ample_s(30)).close()

    other = SchemaBuilder.struct().name("com.example.Order").field("id", Schema.BOOLEAN_SCHEMA).build()
    with pytest.raises(DataError, match=f"subject {topic}-value, whose compatibility rule is FULL"):
        made.from_connect_data(topic, other, Struct(other, {"id": True}))


def test_records_of_every_kind_are_decoded_by_their_schema_ids(
    request: pytest.FixtureRequest, registry: DevRegistry
) -> None:
    topic, plugins = topic_for(request), PluginRegistry.load()
    order = Struct(order_schema(), {"id": 1, "note": "n", "tags": ["a"]})
    kinds = {"avro": AvroConverter(), "protobuf": ProtobufConverter(), "json schema": JsonSchemaConverter()}
    decoder = RegistryDecoder({"schema.registry.url": registry.url}, plugins)
    for word, made in kinds.items():
        of_kind = f"{topic}-{word.replace(' ', '-')}"
        data = configured(made, registry).from_connect_data(of_kind, order_schema(), order)
        for found in (decoder.decode(of_kind, data), decoder.decode(of_kind, data)):
            assert found.plain == {"id": 1, "note": "n", "tags": ["a"]}
            assert found.how == f"{word}, schema {int.from_bytes(data[1:5], 'big')}"
            assert found.problem is None
    unknown = b"\x00\x00\x00\xff\xff" + b"data"
    found = decoder.decode(topic, unknown)
    assert found.value == unknown
    assert found.problem is not None
    assert "65535" in found.problem
    assert decoder.away is None
    assert decoder.decode(topic, b'{"a": 1}').how == "json"
    decoder.close()
