"""Bytes of records in a form that people can read: guessed, and by a connector's converters."""

from __future__ import annotations

import datetime
import decimal
import json
import struct

import pytest

from kconnect.admin.records import GuessDecoder, RecordDecoder, RegistryDecoder, converter_decoder, guess, plain
from kconnect.api import ConsumerRecord, Schema, SchemaBuilder, Struct
from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.plugins import PluginRegistry

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def plugins() -> PluginRegistry:
    return PluginRegistry.load()


def _record(value: bytes | None, key: bytes | None = None, **more: object) -> ConsumerRecord:
    return ConsumerRecord("orders", 1, 12, key, value, 1_767_225_600_000, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "value", "how"),
    [
        (None, None, "null"),
        (b"", "", "text"),
        (b'{"a": 1}', {"a": 1}, "json"),
        (b" [1, 2]", [1, 2], "json"),
        (b'"said"', "said", "json"),
        (b'{"schema": {"type": "int32"}, "payload": 7}', 7, "json with schema"),
        (b'{"schema": 1, "payload": 7}', {"schema": 1, "payload": 7}, "json"),
        (b"{broken", "{broken", "text"),
        (b"[" * 100_000, "[" * 100_000, "text"),
        (b"0042", "0042", "text"),
        ("Grüße\n".encode(), "Grüße\n", "text"),
        (struct.pack(">q", 42), 42, "long"),
        (struct.pack(">q", -1), -1, "long"),
        (struct.pack(">q", 1_767_225_600_000), 1_767_225_600_000, "long"),
        (struct.pack(">i", 42), 42, "int"),
        (b"\x00\x01", b"\x00\x01", "bytes"),
        (b"\xff\xfe\xfd", b"\xff\xfe\xfd", "bytes"),
    ],
)
def test_bytes_are_guessed_and_the_guess_is_named(data: bytes | None, value: object, how: str) -> None:
    found = guess(data)
    assert (found.value, found.how, found.problem) == (value, how, None)


@pytest.mark.parametrize(
    "data", [b"\x00\x00\x00\x00\x0c\x02a", b"\x00\x00\x00\x00\x0c\x04ab", b"\x00\x00\x01\x00\x00" * 9]
)
def test_bytes_with_a_schema_id_say_what_would_decode_them(data: bytes) -> None:
    found = guess(data)
    assert found.value == data
    assert found.how.startswith("bytes with schema id ")
    assert "--registry" in found.how


def test_text_full_of_control_characters_is_not_taken_for_text() -> None:
    assert guess(b"\x1b[31mred\x1b[0m").how == "text"
    assert guess(b"\x01\x02ab\x03").how == "bytes"
    assert guess(b"some\x00text").how == "bytes"


def test_a_record_is_given_as_stable_json() -> None:
    decoder = RecordDecoder(GuessDecoder(), GuessDecoder(), GuessDecoder())
    found = decoder.decode(_record(b'{"id": 7}', b"k", headers=[("trace", b"\xff"), ("trace", None)])).to_json()
    assert found == {
        "topic": "orders",
        "partition": 1,
        "offset": 12,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "timestamp_type": "CreateTime",
        "key": "k",
        "value": {"id": 7},
        "headers": [{"key": "trace", "value": {"base64": "/w=="}}, {"key": "trace", "value": None}],
        "size": 10,
        "decoded": {"key": "text", "value": "json"},
    }
    assert json.loads(json.dumps(found)) == found


def test_a_connectors_converters_come_before_the_workers(plugins: PluginRegistry) -> None:
    connector = {"value.converter": _JSON, "value.converter.schemas.enable": "true"}
    worker = {"key.converter": _STRING, "value.converter": _STRING}
    decoder = converter_decoder(connector, worker, plugins)
    body = {"schema": {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}, "payload": {"id": 7}}
    found = decoder.decode(_record(json.dumps(body).encode(), b"k", headers=[("n", b"12")]))
    assert (found.key.value, found.key.how) == ("k", "StringConverter")
    assert isinstance(found.value.value, Struct)
    assert (found.value.plain, found.value.how) == ({"id": 7}, "JsonConverter")
    assert [(name, decoded.value) for name, decoded in found.headers] == [("n", 12)]
    assert found.to_sink_record().value == found.value.value
    decoder.close()


def test_what_a_converter_refuses_is_guessed_with_the_reason_and_the_place(plugins: PluginRegistry) -> None:
    decoder = converter_decoder({"value.converter": _JSON}, {}, plugins)
    found = decoder.decode(_record(b"no json", b"k"))
    assert (found.value.value, found.value.how) == ("no json", "text")
    (problem,) = found.problems
    assert problem.startswith("orders-1@12: value: JsonConverter cannot read it: ")
    assert found.to_json()["errors"] == [problem]
    assert found.key.how == "text"  # neither config names a converter of keys


def test_a_lenient_converter_leaves_what_it_cannot_read_to_the_guess(plugins: PluginRegistry) -> None:
    found = converter_decoder({}, {"value.converter": _JSON}, plugins, is_lenient=True).decode(_record(b"no json"))
    assert (found.value.value, found.problems) == ("no json", [])


def test_a_converter_that_is_not_installed_here_is_named(plugins: PluginRegistry) -> None:
    with pytest.raises(ConfigError, match=r"com\.acme\.Conv"):
        converter_decoder({"value.converter": "com.acme.Conv"}, {}, plugins)


def test_settings_of_converters_are_resolved_by_the_workers_providers(
    plugins: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMAS", "false")
    worker = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    connector = {
        "value.converter": _JSON,
        "value.converter.schemas.enable": "${env:SCHEMAS}",
        "connection.password": "${env:NOT_HERE}",
    }
    assert converter_decoder(connector, worker, plugins).decode(_record(b'{"a": 1}')).value.plain == {"a": 1}


def test_a_registry_that_is_away_is_asked_once(plugins: PluginRegistry) -> None:
    decoder = RegistryDecoder({"schema.registry.url": "http://127.0.0.1:1"}, plugins)
    data = b"\x00\x00\x00\x00\x0c\x04ab\x00"
    found = decoder.decode("orders", data)
    assert found.value == data
    assert found.problem is not None
    assert "127.0.0.1:1" in found.problem
    assert decoder.away == found.problem
    assert decoder.decode("orders", data).problem == found.problem
    assert decoder.decode("orders", b"plain").how == "text"


def test_a_registry_address_that_is_none_is_an_error_of_the_settings(plugins: PluginRegistry) -> None:
    with pytest.raises(ConnectError, match=r"schema\.registry\.url"):
        RegistryDecoder({"schema.registry.url": "nonsense"}, plugins).decode(
            "orders", b"\x00\x00\x00\x00\x0c\x04ab\x00"
        )


def test_connects_values_become_data_of_json() -> None:
    schema = SchemaBuilder.struct().field("a", Schema.INT32_SCHEMA).build()
    value = {
        "struct": Struct(schema).put("a", 1),
        "when": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "day": datetime.date(2026, 1, 1),
        "price": decimal.Decimal("1.50"),
        "raw": b"\x00",
        "odd": [float("nan"), float("inf"), 1.5],
        7: "seven",
    }
    assert plain(value) == {
        "struct": {"a": 1},
        "when": "2026-01-01T00:00:00.000Z",
        "day": "2026-01-01",
        "price": "1.50",
        "raw": {"base64": "AA=="},
        "odd": ["nan", "inf", 1.5],
        "7": "seven",
    }
