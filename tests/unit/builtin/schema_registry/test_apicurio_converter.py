"""Apicurio's AvroConverter: its settings as Confluent's, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConfigError, Schema
from kconnect.builtin.schema_registry.avro.apicurio_converter import ApicurioAvroConverter, confluent_settings
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kconnect.runtime.plugins import PluginRegistry
from kit.memory_registry import MemoryRegistry

V3 = "http://host:8080/apis/registry/v3"
V2 = "http://host:8080/apis/registry/v2"
CCOMPAT = "http://host:8080/apis/ccompat/v7"


def settings(url: str, **given: Any) -> dict[str, Any]:
    return confluent_settings(
        {"apicurio.registry.url": url, **{f"apicurio.registry.{key}".replace("__", "-"): given[key] for key in given}}
    )


def test_records_are_confluents() -> None:
    registry = MemoryRegistry()
    made = ApicurioAvroConverter(registry)
    made.configure({"apicurio.registry.url": V3, "apicurio.registry.auto-register": "true"}, False)
    data = made.from_connect_data("t", Schema.STRING_SCHEMA, "x")

    assert data == b"\x00\x00\x00\x00\x01\x02x"
    assert list(registry.subjects) == ["t-value"]
    assert made.to_connect_data("t", data).value == "x"


@pytest.mark.parametrize(
    ("url", "given"),
    [
        (V3, {}),
        (V3 + "/", {"id__handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler"}),
        (V2, {"as__confluent": "true", "use__id": "contentId"}),
        (CCOMPAT, {"id__handler": "io.apicurio.registry.serde.Default4ByteIdHandler", "use__id": "contentId"}),
    ],
)
def test_the_registry_is_asked_by_its_confluent_api(url: str, given: dict[str, str]) -> None:
    assert settings(url, **given) == {
        "schema.registry.url": CCOMPAT, "auto.register.schemas": False, "use.latest.version": False,
    }  # fmt: skip


def test_registration_authentication_and_the_mapping_are_carried_over() -> None:
    given = {"apicurio.registry.url": V3, "apicurio.registry.auto-register": "true", "connect.meta.data": "false"}
    secret = {"apicurio.registry.auth.username": "me@x", "apicurio.registry.auth.password": "a/b"}

    assert confluent_settings({**given, **secret}) == {
        "schema.registry.url": "http://me%40x:a%2Fb@host:8080/apis/ccompat/v7",
        "auto.register.schemas": True,
        "use.latest.version": False,
        "connect.meta.data": "false",
    }


@pytest.mark.parametrize(
    ("url", "given", "message"),
    [
        ("http://host:8080", {}, "expected an address that ends with"),
        (V2, {}, "only ids of four bytes"),
        (V2, {"as__confluent": "true"}, "only contentId works here"),
        (V3, {"id__handler": "io.apicurio.registry.serde.Legacy8ByteIdHandler"}, "only ids of four bytes"),
        (V3, {"use__id": "globalId"}, "only contentId works here"),
        (V3, {"headers.enabled": "true"}, "ids in headers"),
        (V3, {"artifact__resolver__strategy": "io.x.RecordIdStrategy"}, "only TopicIdStrategy works here"),
    ],
)
def test_what_is_not_confluents_wire_format_is_refused(url: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(url, **given)


def test_ext_json_converter_is_refused_by_name_with_the_reason() -> None:
    plugins = PluginRegistry.load()
    assert plugins.converter("io.apicurio.registry.utils.converter.AvroConverter") is ApicurioAvroConverter
    assert plugins.converter("AvroConverter") is AvroConverter  # the short name stays Confluent's

    with pytest.raises(ConfigError) as caught:
        plugins.converter("io.apicurio.registry.utils.converter.ExtJsonConverter")
    assert "JsonSchemaConverter" in (caught.value.hint or "")
