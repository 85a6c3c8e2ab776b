"""What decodes the records of a topic: a connector's converters, a registry, the worker's converters, a guess."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.admin.records.decoders import record_decoder, registry_settings
from kconnect.api import ConsumerRecord
from kconnect.errors import ConfigError
from kconnect.runtime.plugins import PluginRegistry

RECORD = ConsumerRecord("orders", 0, 1, b"k", b'{"a": 1}')
CONFIG = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


def _how(worker: dict[str, str], **options: Any) -> tuple[str, str]:
    decoder = record_decoder(worker, PluginRegistry.load(), **options)
    found = decoder.decode(RECORD)
    decoder.close()
    return found.key.how, found.value.how


def test_a_connectors_converters_are_used_and_behind_them_the_workers() -> None:
    assert _how({}, config=CONFIG) == ("text", "JsonConverter")
    assert _how({"key.converter": "StringConverter"}, config=CONFIG) == ("StringConverter", "JsonConverter")


def test_a_converter_that_is_not_installed_here_is_named() -> None:
    with pytest.raises(ConfigError, match=r"com\.acme\.Odd"):
        _how({}, config={"value.converter": "com.acme.Odd"})


def test_a_workers_converters_are_used_unless_they_take_everything() -> None:
    assert _how({}) == ("text", "json")
    string = "org.apache.kafka.connect.storage.StringConverter"
    assert _how({"key.converter": string, "value.converter": string}) == ("text", "json")
    assert _how({"key.converter": string, **CONFIG}) == ("text", "JsonConverter")


def test_the_registry_is_the_one_that_is_given_or_that_of_the_workers_converters() -> None:
    worker = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://of-worker:8081",
        "value.converter.basic.auth.user.info": "ann:secret",
        "value.converter.enhanced.avro.schema.support": "true",
    }
    assert registry_settings({}, None) == {}
    assert registry_settings(worker, None) == {
        "schema.registry.url": "http://of-worker:8081",
        "basic.auth.user.info": "ann:secret",
    }
    assert registry_settings(worker, "http://given:8081") == {"schema.registry.url": "http://given:8081"}
