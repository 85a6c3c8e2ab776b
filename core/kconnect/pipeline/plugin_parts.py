"""Creates and configures the plugins of one task: the task itself, its transformations, its converters.

Who calls it: build.py, and `kconnect.testing`, which runs the same plugins without Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.api import Converter, HeaderConverter, Task
from kconnect.api.config_parse import parse_type
from kconnect.config.connector_config import ConnectorConfig, TransformSpec, prefixed
from kconnect.config.worker_config import STANDALONE_CONFIG
from kconnect.errors import ConfigError
from kconnect.pipeline.conversion import Converters
from kconnect.pipeline.plugin_call import plugin_call
from kconnect.pipeline.plugin_monitor import PluginMonitor
from kconnect.pipeline.stages import FailurePolicy, TransformStep

if TYPE_CHECKING:
    from kconnect.plugins import PluginRegistry

P = TypeVar("P")


def make_task(config: Mapping[str, str], plugins: PluginRegistry, kind: type[P]) -> P:
    """A new task of the connector's class. Errors: ConfigError when it has the wrong kind or version."""
    name = config.get("connector.class", "")
    connector_class = plugins.connector_class(name)
    with plugin_call(connector_class, "task_class"):
        connector = connector_class()
        task_class: type[Task] = connector.task_class()
    plugins.require_version(connector, config.get("connector.plugin.version"))
    if not issubclass(task_class, kind):
        raise ConfigError(
            f"The task class {task_class.__name__} of {name} is not a {kind.__name__}, which its connector needs"
        )
    with plugin_call(task_class, "__init__"):
        return task_class()


def make_steps(config: ConnectorConfig, plugins: PluginRegistry, monitor: PluginMonitor) -> list[TransformStep]:
    """The configured transformations of a connector, in order, with their predicates.

    Errors: ConfigError for one that is not installed, or not in the requested version.
    """
    return [_step(spec, plugins, monitor) for spec in config.transforms]


def _step(spec: TransformSpec, plugins: PluginRegistry, monitor: PluginMonitor) -> TransformStep:
    transformation = _made(plugins, plugins.transformation(spec.transform.type), spec.transform.config)
    _configure(transformation, spec.transform.config)
    monitor.attach(transformation, transformation=spec.transform.alias)
    if spec.predicate is None:
        return TransformStep(transformation)
    predicate = _made(plugins, plugins.predicate(spec.predicate.type), spec.predicate.config)
    _configure(predicate, spec.predicate.config)
    monitor.attach(predicate, predicate=spec.predicate.alias)
    return TransformStep(transformation, predicate, spec.negate)


def make_converters(
    config: ConnectorConfig,
    worker: Mapping[str, str],
    plugins: PluginRegistry,
    policy: FailurePolicy,
    monitor: PluginMonitor,
) -> Converters:
    """The connector's converters, or the worker's with the worker's settings where it names none, as in Java."""

    def converter(key: str, named: str | None, *, is_key: bool) -> Converter:
        settings = prefixed(worker if named is None else config.originals, f"{key}.")
        made = _made(plugins, plugins.converter(named or worker_value(worker, key)), settings)
        _configure(made, settings, is_key=is_key)
        monitor.attach(made, converter="key" if is_key else "value")
        return made

    def header_converter() -> HeaderConverter:
        key, named = "header.converter", config.header_converter
        settings = prefixed(worker if named is None else config.originals, f"{key}.")
        made = _made(plugins, plugins.header_converter(named or worker_value(worker, key)), settings)
        _configure(made, {**settings, "converter.type": "header"})
        monitor.attach(made, converter="header")
        return made

    return Converters(
        converter("key.converter", config.key_converter, is_key=True),
        converter("value.converter", config.value_converter, is_key=False),
        header_converter(),
        policy,
    )


def _made(plugins: PluginRegistry, plugin_class: type[P], settings: Mapping[str, str]) -> P:
    """A new, unconfigured plugin. Errors: ConfigError when its version is not the one its settings request."""
    with plugin_call(plugin_class, "__init__"):
        plugin = plugin_class()
    plugins.require_version(plugin, settings.get("plugin.version"))
    return plugin


def _configure(plugin: Any, *settings: Any, **more: Any) -> None:  # a plugin of any type, and what it takes
    with plugin_call(plugin, "configure"):
        plugin.configure(*settings, **more)


def worker_value(worker: Mapping[str, str], name: str) -> Any:  # any type that ConfigDef parses to
    """One setting of the worker, typed; its default when it is not set."""
    key = STANDALONE_CONFIG.config_keys[name]
    value = worker.get(name)
    return key.default if value is None else parse_type(name, value, key.type)
