"""Versions that settings ask for, against what Java Connect 4.3.0 answered (tests/golden/rest/plugin_versions.json)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kconnect.errors import BadRequestError, ConfigError
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.herder.validation.plugin_config import plugin_config_keys
from kconnect.runtime.plugins import PluginRegistry
from kit.differences import hold_alike, numbered
from kit.places import GOLDEN

RECORDED = json.loads((GOLDEN / "rest/plugin_versions.json").read_text())
WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}

OURS_MORE = ".schemas.infer.enable"
"""A setting of JsonConverter's that Java lacks."""


def asked(entry: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in entry["config"].items() if key.endswith(".version"))


@pytest.fixture(scope="module")
def validator() -> ConnectorValidator:
    return ConnectorValidator(PluginRegistry.load(), WORKER)


ANSWERED = [entry for entry in RECORDED["entries"] if entry["validate_status"] == 200]


def test_each_report_on_versions_is_javas(validator: ConnectorValidator) -> None:
    assert hold_alike(numbered(ANSWERED, asked), lambda entry: compare_report(entry, validator)) == 47


def compare_report(entry: dict[str, Any], validator: ConnectorValidator) -> None:
    java = entry["validate"]
    ours = validator.validate(entry["config"])
    values = {
        info.value.name: {"errors": info.value.error_messages, "visible": info.value.visible}
        for info in ours.configs
        if info.value and not info.value.name.endswith(OURS_MORE)
    }
    assert ours.error_count == java["error_count"]
    assert sorted(ours.groups) == sorted(java["groups"])
    assert values == {
        name: {"errors": value["errors"], "visible": value["visible"]} for name, value in java["values"].items()
    }


def test_connectors_are_created_or_refused_as_by_java(validator: ConnectorValidator) -> None:
    creates = [entry for entry in RECORDED["entries"] if "create_status" in entry]
    assert hold_alike(numbered(creates, asked), lambda entry: compare_create(entry, validator)) == 46


def compare_create(entry: dict[str, Any], validator: ConnectorValidator) -> None:
    if entry["create_status"] == 201:
        validator.raise_if_invalid(entry["config"])
        return
    with pytest.raises(BadRequestError) as refused:
        validator.raise_if_invalid(entry["config"])
    assert str(refused.value) == entry["create_message"]


def test_a_connector_is_refused_however_often_one_asks_for_its_version(validator: ConnectorValidator) -> None:
    config = {"name": "v", "connector.class": "FileStreamSource", "topic": "t", "connector.plugin.version": "9.51"}
    message = "Plugin org.apache.kafka.connect.file.FileStreamSourceConnector not found that matches the version range"
    for _ in range(2):
        with pytest.raises(
            BadRequestError, match=rf"2 error\(s\):\n{message} \[9\.51,9\.51\], available versions: \[4"
        ):
            validator.raise_if_invalid(config)


@pytest.mark.parametrize("entry", RECORDED["gets"], ids=lambda entry: repr(entry["version"]))
def test_settings_of_a_version_are_shown_or_refused_as_by_java(entry: dict[str, Any]) -> None:
    plugins = PluginRegistry.load()
    if entry["status"] == 200:
        assert plugin_config_keys(plugins, "FileStreamSource", entry["version"])
        return
    with pytest.raises(BadRequestError) as refused:
        plugin_config_keys(plugins, "FileStreamSource", entry["version"])
    assert str(refused.value) == entry["message"]


def test_what_is_wanted_in_another_version_names_the_one_there_is() -> None:
    plugins = PluginRegistry.load()
    with pytest.raises(ConfigError) as refused:
        plugins.require_version(plugins.predicate("TopicNameMatches")(), "[5,6)")
    assert refused.value.hint == "This worker has version 4.3.0: ask for that one, or for none."
