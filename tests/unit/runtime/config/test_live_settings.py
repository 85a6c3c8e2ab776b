"""What Kafka clients are made of, as files and references say it now."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.files import reread
from kconnect.logs import redaction
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.client_security import client_files, client_secrets
from kconnect.runtime.config.live_settings import LiveSettings, live_clients
from kconnect.runtime.config.variables import Variables
from kit.certificates import Authority

FILES = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """And hides nothing from the tests that follow."""
    monkeypatch.setattr(reread, "LOOK_EVERY_S", 0.0)
    yield
    for owner in ("worker", "worker, renewed"):
        redaction.forget(owner)


@pytest.fixture
def trust(tmp_path: Path) -> Path:
    return Authority("old").file(tmp_path / "trust.pem")


def tls(trust: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
    }


def test_files_of_clients_are_found_under_any_prefix_and_those_of_rest_are_not() -> None:
    config = {
        "security.protocol": "SSL",
        "ssl.keystore.location": "/own",
        "producer.ssl.truststore.location": "/producers",
        "consumer.override.ssl.keystore.location": "/consumers",
        "source.cluster.ssl.truststore.location": "/clusters",
        "librdkafka.ssl.ca.location": "/passed",
        "sasl.oauthbearer.assertion.private.key.file": "/key",
        "listeners.https.ssl.keystore.location": "/rest",
        "admin.listeners.https.ssl.keystore.location": "/rest",
        "ssl.keystore.type": "PEM",
        "admin.ssl.keystore.location": " ",
        "sslx.keystore.location": "/none",
    }
    found = ("/own", "/producers", "/consumers", "/clusters", "/passed", "/key")

    assert client_files(config) == tuple(map(Path, found))
    assert client_files({**config, "security.protocol": "PLAINTEXT"}) == tuple(map(Path, found[1:-1]))
    assert set(config) - set(client_secrets(config)) == {
        "security.protocol",
        "listeners.https.ssl.keystore.location",
        "admin.listeners.https.ssl.keystore.location",
        "sslx.keystore.location",
    }


def test_a_reference_in_a_login_is_resolved_again_and_no_other_setting_changes(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=first\nname=one\n")
    worker = LiveSettings(
        {
            **FILES,
            "producer.sasl.jaas.config": f"${{file:{secrets}:password}}",
            "client.id": f"${{file:{secrets}:name}}",
        },
        Variables.of_worker(FILES),
    )

    secrets.write_text("password=second\nname=two\n")
    assert (worker["producer.sasl.jaas.config"], worker["client.id"]) == ("second", "one")
    secrets.unlink()
    assert dict(worker)["producer.sasl.jaas.config"] == "second", "what cannot be read changes nothing"


def test_clients_are_replaced_for_a_file_that_changed_and_it_is_said_in_one_line(
    trust: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker = tls(trust)
    live = live_clients(lambda: worker, lambda: internal_clients(worker, client_id="c"), "the test")
    former = live.value()

    trust.write_bytes(trust.read_bytes())
    assert live.value() is former, "its content is the same"
    Authority("new").file(trust)
    assert live.value().admin["ssl.ca.pem"] == trust.read_text() != former.admin["ssl.ca.pem"]
    assert live.value() is live.value()
    assert [record.getMessage() for record in caplog.records] == [
        f"Replacing Kafka clients of the test: {trust} changed"
    ]


def test_a_file_that_is_half_written_leaves_the_clients_as_they_are(
    trust: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = tls(trust)
    live = live_clients(lambda: worker, lambda: internal_clients(worker, client_id="c"), "the test")
    former, whole = live.value(), Authority("new").pem

    trust.write_bytes(whole[: len(whole) // 2])
    assert live.value() is live.value() is former
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"ssl.truststore.location: {trust} is not readable PEM")
    assert said.endswith("Kafka clients of the test keep the settings from before")
    trust.write_bytes(whole)
    assert live.value().admin["ssl.ca.pem"] == whole.decode()
