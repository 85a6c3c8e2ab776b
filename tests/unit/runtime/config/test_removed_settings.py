"""What Kafka has removed: an error where something would pass that it kept back, a word of what to write otherwise."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.connector_config import transform_specs
from kconnect.runtime.config.removed_settings import (
    opens_rest,
    removed_of_mirror,
    removed_of_worker,
    removed_problems,
)
from kconnect.runtime.config.worker_config import StandaloneConfig
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.plugins import PluginRegistry

REPORTED = "transforms.x.blacklist was removed in Kafka 4.0: use transforms.x.exclude"


def step(name: str, **settings: str) -> dict[str, str]:
    return {"transforms": "x", "transforms.x.type": name} | {f"transforms.x.{key}": v for key, v in settings.items()}


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "org.apache.kafka.connect.transforms.ReplaceField$Key",
        "ReplaceField$Value",
        "ReplaceFieldValue",
    ],
)
def test_a_list_of_fields_that_are_left_out_is_an_error_of_every_reader(name: str) -> None:
    config = step(name, blacklist="ssn")
    assert removed_problems(config) == [("transforms.x.blacklist", REPORTED)]
    with pytest.raises(ConfigError, match=r"transforms\.x\.blacklist was removed in Kafka 4\.0"):
        transform_specs(config)


def test_validation_says_it_of_the_setting() -> None:
    config = {"connector.class": "FileStreamSink", "name": "n", "topics": "t", "file": "/f"}
    infos = ConnectorValidator(PluginRegistry.load(), {"key.converter": "x", "value.converter": "x"}).validate(
        {**config, **step("ReplaceField$Value", whitelist="id")}
    )
    assert "transforms.x.whitelist was removed in Kafka 4.0: use transforms.x.include" in infos.errors


@pytest.mark.parametrize(
    "config",
    [
        step("ReplaceField$Value", exclude="ssn", blacklist="ssn"),  # for workers before and after
        step("com.acme.ReplaceField$Value", blacklist="ssn"),
        step("MaskField$Value", blacklist="ssn"),
        {"transforms.y.type": "Filter", "connector.class": "JdbcSource", "table.blacklist": "t"},
    ],
)
def test_what_somebody_reads_is_none(config: dict[str, str]) -> None:
    assert removed_problems(config) == []


def test_topics_that_a_mirror_leaves_out_are_an_error() -> None:
    config = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "topics.blacklist": "pii.*"}
    reported = [("topics.blacklist", "topics.blacklist was removed in Kafka 4.0: use topics.exclude")]
    assert removed_problems(config) == reported
    assert removed_problems({**config, "topics.exclude": "pii.*"}) == []
    assert removed_of_mirror({"A->B.groups.blacklist": "g"}, "A->B.") == [
        ("A->B.groups.blacklist", "A->B.groups.blacklist was removed in Kafka 4.0: use A->B.groups.exclude")
    ]


def test_a_workers_setting_says_what_to_write_instead() -> None:
    assert removed_of_worker("rest.port") == "Use listeners, such as listeners=http://:PORT."
    assert removed_of_worker("internal.key.converter.schemas.enable") == removed_of_worker("internal.key.converter")
    assert removed_of_worker("listeners") is None


def test_rest_does_not_open_to_more_than_the_removed_host() -> None:
    message = "rest.host.name was removed in Kafka 3.0, and REST would listen on all addresses: use listeners=http://[::1]:8083"
    assert opens_rest({"rest.host.name": "::1"}) == message
    assert opens_rest({"rest.host.name": "0.0.0.0"}) is None
    assert opens_rest({"rest.host.name": "localhost", "listeners": "http://localhost:8083"}) is None
    assert opens_rest({}) is None
    with pytest.raises(ConfigError, match="use listeners=http://localhost:9000"):
        StandaloneConfig.parse({"rest.host.name": "localhost", "rest.port": "9000"})
