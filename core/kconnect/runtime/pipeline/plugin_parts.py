"""Creates and configures the plugins of one task: the task itself, its transformations, its converters.

Who calls it: build.py, and `kconnect.testing`, which runs the same plugins without Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kconnect.api import Connector, Converter, HeaderConverter
from kconnect.builtin.types.declarations import VALUE_SCHEMA, declarations, without_taken
from kconnect.errors import ConfigError
from kconnect.java.plugins import Deferrable, JavaConnector
from kconnect.runtime.config.connector_config import ConnectorConfig, TransformSpec, prefixed
from kconnect.runtime.config.worker_config import worker_value
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.runtime.pipeline.stages import FailurePolicy, TransformStep, tell_nobody
from kconnect.runtime.plugins.connector_answers import checked_task_class

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)
P = TypeVar("P")
C = TypeVar("C", bound=ConnectorConfig)
Closes = list[Callable[[], object]]
_VERSION: Final = "plugin.version"


@contextmanager
def closed_if_it_fails() -> Iterator[Closes]:
    """A block that gives the close() of what it makes: called, the last first, if it raises; then errors are logged."""
    closes: Closes = []
    try:
        yield closes
    except BaseException:
        for close in reversed(closes):
            try:
                close()
            except Exception:  # the plugin's; what failed before it counts
                log.warning("What was made of a task that does not start could not be closed", exc_info=True)
        raise


def make_task(config: Mapping[str, str], plugins: PluginRegistry, kind: type[P], named: str | None = None) -> P:
    """A new task of the connector's class. Errors: ConfigError when it has the wrong kind or version.

    `named`: the task's class by its config. A Java connector is not asked then: only a started one has to know.
    """
    name, version = config.get("connector.class", ""), config.get("connector.plugin.version")
    connector_class = plugins.connector_class(name, version)
    with plugin_call(connector_class, "task_class"):
        connector = connector_class()
        given: Any
        if named and isinstance(connector, JavaConnector):
            given = connector.task_named(named)
        else:
            given = connector.task_class()
    task_class = checked_task_class(connector, given)
    plugins.require_version(connector, version)
    if not issubclass(task_class, kind):
        raise ConfigError(
            f"The task class {task_class.__name__} of {name} is not a {kind.__name__}, which its connector needs"
        )
    with plugin_call(task_class, "__init__"):
        return task_class()


def parse_config(kind: type[C], props: Mapping[str, str], plugins: PluginRegistry) -> C:
    """What Connect reads from a connector's config; settings of ours whose names its own table has are the connector's.

    Errors: as `kind.parse`; what the connector's `config` raises.
    """
    connector_class = connector_of(props, plugins) if declarations(props, is_sink=True) else None
    if connector_class is None:
        return kind.parse(props)
    with plugin_call(connector_class, "config"):
        return kind.parse(without_taken(props, connector_class().config()))


def make_steps(
    config: ConnectorConfig, plugins: PluginRegistry, monitor: PluginMonitor, *, defers: bool = False
) -> list[TransformStep]:
    """The configured transformations of a connector, in order, with their predicates.

    `defers`: their whole chain runs in Java, so that those of Java are made only if they are used all the same.
    Errors: ConfigError for one that is not installed, or not in the requested version.
    """
    beside = connector_of(config.originals, plugins)
    with closed_if_it_fails() as closes:
        return [_step(spec, plugins, monitor, beside, defers, closes) for spec in config.transforms]


def connector_of(config: Mapping[str, str], plugins: PluginRegistry) -> type[Connector] | None:
    """The connector's class, whose folder's own plugins go before others; None when it is not here."""
    name = config.get("connector.class")
    try:
        return None if not name else plugins.connector_class(name, config.get("connector.plugin.version"))
    except ConfigError:  # reported where it is needed
        return None


def _step(
    spec: TransformSpec,
    plugins: PluginRegistry,
    monitor: PluginMonitor,
    beside: type[Connector] | None,
    defers: bool,
    closes: Closes,
) -> TransformStep:
    own = spec.transform.config
    found = plugins.transformation(spec.transform.type, own.get(_VERSION), beside)
    place = f"transforms.{spec.transform.alias}"
    transformation = _made(plugins, found, own, defers, place)
    _configure(transformation, place, spec.transform.config)
    closes.append(transformation.close)
    monitor.attach(transformation, transformation=spec.transform.alias)
    if spec.predicate is None:
        return TransformStep(transformation, place=place)
    own = spec.predicate.config
    guard = plugins.predicate(spec.predicate.type, own.get(_VERSION), beside)
    predicate_place = f"predicates.{spec.predicate.alias}"
    predicate = _made(plugins, guard, own, defers, predicate_place)
    _configure(predicate, predicate_place, spec.predicate.config)
    closes.append(predicate.close)
    monitor.attach(predicate, predicate=spec.predicate.alias)
    return TransformStep(transformation, predicate, spec.negate, place, predicate_place)


def make_converters(
    config: ConnectorConfig,
    worker: Mapping[str, str],
    plugins: PluginRegistry,
    policy: FailurePolicy,
    monitor: PluginMonitor,
    by_records: Callable[[str], None] = tell_nobody,
    *,
    defers: bool = False,
) -> Converters:
    """The connector's converters, or the worker's with the worker's settings where it names none, as in Java.

    `defers`: as of `make_steps`; `by_records`: as of Converters.
    """
    beside = connector_of(config.originals, plugins)

    def converter(key: str, named: str | None, *, is_key: bool) -> Converter:
        settings = prefixed(worker if named is None else config.originals, f"{key}.")
        name, version = named or worker_value(worker, key), settings.get(_VERSION)
        made = _made(plugins, plugins.converter(name, version, None if version else beside), settings, defers, key)
        if not is_key and any(spec.transform.alias == VALUE_SCHEMA for spec in config.transforms):
            made.keeps_digits = True
        _configure(made, key, settings, is_key=is_key)
        closes.append(made.close)
        monitor.attach(made, converter="key" if is_key else "value")
        return made

    def header_converter() -> HeaderConverter:
        key, named = "header.converter", config.header_converter
        settings = prefixed(worker if named is None else config.originals, f"{key}.")
        name, version = named or worker_value(worker, key), settings.get(_VERSION)
        found = plugins.header_converter(name, version, None if version else beside)
        made = _made(plugins, found, settings, defers, key)
        _configure(made, key, {**settings, "converter.type": "header"})
        closes.append(made.close)
        monitor.attach(made, converter="header")
        return made

    with closed_if_it_fails() as closes:
        return Converters(
            converter("key.converter", config.key_converter, is_key=True),
            converter("value.converter", config.value_converter, is_key=False),
            header_converter(),
            policy,
            by_records,
        )


def _made(plugins: PluginRegistry, plugin_class: type[P], settings: Mapping[str, str], defers: bool, place: str) -> P:
    """A new, unconfigured plugin, which settings at `place` name.

    Errors: ConfigError when its version is not the one its settings request.
    """
    with plugin_call(plugin_class, "__init__", place=place):
        plugin = plugin_class()
    if defers and isinstance(plugin, Deferrable):
        plugin.defer()
    plugins.require_version(plugin, settings.get(_VERSION))
    return plugin


def _configure(plugin: Any, place: str, *settings: Any, **more: Any) -> None:  # of any type, and what it takes
    with plugin_call(plugin, "configure", place=place):
        plugin.configure(*settings, **more)
