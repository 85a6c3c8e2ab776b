"""What a task is made of: no plugin of another version than its settings want, wherever that comes to light."""

from __future__ import annotations

import re

import pytest

from kconnect.api import SourceTask
from kconnect.errors import ConfigError, ConnectError
from kconnect.model import TaskId
from kconnect.runtime.config.connector_config import ConnectorConfig
from kconnect.runtime.herder.connectors.plugin_classes import new_connector
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.runtime.pipeline.plugin_parts import closed_if_it_fails, make_converters, make_steps, make_task
from kconnect.runtime.pipeline.stages import RaiseAlways
from kconnect.runtime.plugins import PluginRegistry
from kit.failing_transform import NotesClose

PLUGINS = PluginRegistry.load()
MONITOR = PluginMonitor(TaskId("c", 0))
CONNECTOR = {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}
WORKER = {"key.converter": "StringConverter", "value.converter": "JsonConverter"}
HOIST = {"transforms": "a", "transforms.a.type": "HoistField$Value", "transforms.a.field": "x"}
GUARD = {"transforms.a.predicate": "p", "predicates": "p", "predicates.p.type": "TopicNameMatches"}
GUARD |= {"predicates.p.pattern": "x"}


def reported(plugin: str, count: int = 1) -> str:
    return re.escape(
        f"{plugin} not found that matches the version range [9.9,9.9], available versions: "
        f"[{', '.join(['4.3.0'] * count)}]"
    )


def test_a_connector_and_its_tasks_are_made_in_the_wanted_version_only() -> None:
    config = {**CONNECTOR, "connector.plugin.version": "[4.0,5.0)"}
    assert new_connector(PLUGINS, config).version() == "4.3.0"
    make_task(config, PLUGINS, SourceTask)  # type: ignore[type-abstract]
    config["connector.plugin.version"] = "9.9"
    with pytest.raises(ConfigError, match=reported("FileStreamSourceConnector")):
        new_connector(PLUGINS, config)
    with pytest.raises(ConfigError, match=reported("FileStreamSourceConnector")):
        make_task(config, PLUGINS, SourceTask)  # type: ignore[type-abstract]


@pytest.mark.parametrize(
    ("settings", "plugin"),
    [
        ({"transforms.a.plugin.version": "9.9"}, "HoistField$Value"),
        ({**GUARD, "predicates.p.plugin.version": "9.9"}, "TopicNameMatches"),
    ],
)
def test_a_transformation_of_another_version_fails_the_task(settings: dict[str, str], plugin: str) -> None:
    assert len(make_steps(ConnectorConfig.parse({**CONNECTOR, **HOIST}), PLUGINS, MONITOR)) == 1
    with pytest.raises(ConfigError, match=reported(plugin)):
        make_steps(ConnectorConfig.parse({**CONNECTOR, **HOIST, **settings}), PLUGINS, MONITOR)


@pytest.mark.parametrize(
    ("own", "of_worker", "plugin", "kinds"),
    [
        (
            {"key.converter": "JsonConverter", "key.converter.plugin.version": "9.9"},
            {},
            "JsonConverter",
            2,
        ),
        ({}, {"value.converter.plugin.version": "9.9"}, "JsonConverter", 2),
        (
            {"header.converter": "SimpleHeaderConverter", "header.converter.plugin.version": "9.9"},
            {},
            "SimpleHeaderConverter",
            1,
        ),
    ],
    ids=["the connector's", "the worker's", "of headers"],
)
def test_a_converter_of_another_version_fails_the_task(
    own: dict[str, str], of_worker: dict[str, str], plugin: str, kinds: int
) -> None:
    config = ConnectorConfig.parse({**CONNECTOR, **own})
    with pytest.raises(ConfigError, match=reported(plugin, kinds)):
        make_converters(config, {**WORKER, **of_worker}, PLUGINS, RaiseAlways(), MONITOR)


def test_a_version_of_the_workers_converter_is_none_of_the_connectors_own() -> None:
    config = ConnectorConfig.parse({**CONNECTOR, "value.converter.plugin.version": "9.9"})
    make_converters(
        config, WORKER, PLUGINS, RaiseAlways(), MONITOR
    )  # as in Java it says nothing without value.converter


def test_transformations_are_closed_when_a_later_one_can_not_be_configured() -> None:
    steps = {"transforms": "a,b", "transforms.a.type": "kit.failing_transform:NotesClose"}
    steps |= {"transforms.b.type": "HoistField$Value"}  # without its field
    NotesClose.closed.clear()
    with pytest.raises(ConnectError, match="field"):
        make_steps(ConnectorConfig.parse({**CONNECTOR, **steps}), PLUGINS, MONITOR)
    assert NotesClose.closed == [True]


def test_what_was_made_is_closed_the_last_first_and_what_failed_before_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []

    def fail() -> None:
        raise ValueError("no file any more")

    def start() -> None:
        with closed_if_it_fails() as closes:
            closes += [lambda: closed.append("first"), fail, lambda: closed.append("last")]
            raise KeyError("the start")

    with pytest.raises(KeyError, match="the start"):
        start()
    assert closed == ["last", "first"]
    assert "no file any more" in caplog.text
