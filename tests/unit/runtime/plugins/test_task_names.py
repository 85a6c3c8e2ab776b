"""The task of a connector that we ship has Java's name: a Java worker of the same cluster has to find its own class."""

from __future__ import annotations

import pytest

from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.plugins.aliases import BUILTINS, BuiltinPlugin

CONNECTORS = [plugin for plugin in BUILTINS if plugin.types[0].is_connector]


@pytest.mark.parametrize("plugin", CONNECTORS, ids=lambda plugin: plugin.java_name)
def test_the_task_of_a_shipped_connector_is_named_as_its_connector_is(plugin: BuiltinPlugin) -> None:
    registry = PluginRegistry.load()
    task_class = registry.connector_class(plugin.java_name)().task_class()
    assert registry.java_name(task_class) == plugin.java_name.removesuffix("Connector") + "Task"


def test_the_file_source_task_has_the_name_that_java_gave_it() -> None:
    registry = PluginRegistry.load()
    task_class = registry.connector_class("FileStreamSource")().task_class()
    assert registry.java_name(task_class) == "org.apache.kafka.connect.file.FileStreamSourceTask"
