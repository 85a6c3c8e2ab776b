"""What decodes the records of `connect records`: options, the environment, the worker's file."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.admin.direct.access import ClusterAccess
from kconnect.api import ConsumerRecord
from kconnect.errors import ConfigError, NotFoundError
from kconnect.model import ConnectorInfo, ConnectorType
from kconnect.runtime.plugins import PluginRegistry
from kconnect_cli.admin.record_decoding import record_decoder, registry_settings
from kconnect_cli.session import CliSession

RECORD = ConsumerRecord("orders", 0, 1, b"k", b'{"a": 1}')
CONFIG = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


class _Connectors:
    """Stands where the connectors of a cluster are read."""

    place = "here"

    def connector(self, name: str) -> ConnectorInfo:
        if name != "orders":
            raise NotFoundError(f"Connector {name} not found")
        return ConnectorInfo(name, CONFIG, (), ConnectorType.SINK)

    def connectors(self) -> list[str]:
        return ["orders"]


@pytest.fixture
def session() -> CliSession:
    made = CliSession()
    made.direct = _Connectors()  # type: ignore[assignment]  # as much of it as is asked
    return made


def _how(session: CliSession, worker: dict[str, str], **options: Any) -> tuple[str, str]:
    decoder = record_decoder(session, ClusterAccess(worker), PluginRegistry.load(), **options)
    found = decoder.decode(RECORD)
    decoder.close()
    return found.key.how, found.value.how


def test_a_connectors_converters_are_used_and_behind_them_the_workers(session: CliSession) -> None:
    assert _how(session, {}, connector="orders") == ("text", "JsonConverter")
    assert _how(session, {"key.converter": "StringConverter"}, connector="orders") == (
        "StringConverter",
        "JsonConverter",
    )


def test_an_unknown_connector_is_told_with_those_that_are_there(session: CliSession) -> None:
    with pytest.raises(NotFoundError) as caught:
        _how(session, {}, connector="order")
    assert "orders" in str(caught.value.hint)


def test_a_converter_that_is_not_installed_here_is_told_with_what_to_do(
    session: CliSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIG, "value.converter", "com.acme.Odd")
    with pytest.raises(ConfigError, match=r"com\.acme\.Odd") as caught:
        _how(session, {}, connector="orders")
    assert caught.value.hint


def test_a_workers_converters_are_used_unless_they_take_everything(session: CliSession) -> None:
    assert _how(session, {}) == ("text", "json")
    string = "org.apache.kafka.connect.storage.StringConverter"
    assert _how(session, {"key.converter": string, "value.converter": string}) == ("text", "json")
    assert _how(session, {"key.converter": string, **CONFIG}) == ("text", "JsonConverter")


def test_the_registry_is_that_of_the_option_the_environment_or_the_workers_converters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://of-worker:8081",
        "value.converter.basic.auth.user.info": "ann:secret",
        "value.converter.enhanced.avro.schema.support": "true",
    }
    monkeypatch.delenv("KCONNECT_REGISTRY", raising=False)
    assert registry_settings({}, None) == {}
    assert registry_settings(worker, None) == {
        "schema.registry.url": "http://of-worker:8081",
        "basic.auth.user.info": "ann:secret",
    }
    monkeypatch.setenv("KCONNECT_REGISTRY", "http://of-environment:8081")
    assert registry_settings(worker, None) == {"schema.registry.url": "http://of-environment:8081"}
    assert registry_settings(worker, "http://given:8081") == {"schema.registry.url": "http://given:8081"}
