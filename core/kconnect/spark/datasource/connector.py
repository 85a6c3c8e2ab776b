"""One connector behind `format("kconnect")`: its settings checked as a worker checks them, its task configs, its parts.

Threads: one. The object is pickled from Spark's planner to executors; plugins are looked up again where it arrives.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Mapping
from typing import Any, Final

from kconnect.api import Connector, SinkConnector, SourceConnector
from kconnect.errors import ConfigError
from kconnect.java.plugins import JavaSettings
from kconnect.logs import redaction
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.config.connector_config import SinkConnectorConfig, SourceConnectorConfig
from kconnect.runtime.config.connector_keys import DEAD_LETTER_KEYS, SINK_CONFIG, SOURCE_CONFIG
from kconnect.runtime.config.misspelt import misspelt_settings
from kconnect.runtime.config.own_worker_keys import ONLY_ON_WORKERS, OWN_OF_CONNECTORS
from kconnect.runtime.config.variables import Variables, secret_values
from kconnect.runtime.herder.decisions.connector_entry import complete_task_configs
from kconnect.runtime.herder.validation.config_infos import ConfigInfos
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.herder.validation.plugin_keys import enriched, instance_of
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.plugin_parts import parse_config
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.plugins.connector_answers import checked_task_class, checked_task_configs
from kconnect.spark.datasource.options import (
    OPTIONS,
    FormatOptions,
    connector_settings,
    provider_settings,
    with_aliases,
)

log = logging.getLogger(__name__)

# Where a config names no converter, the column keeps its own type: this class stands for that.
NO_CONVERTER = "kconnect.spark.datasource.chain.KeepsType"
_DLQ = "errors.deadletterqueue.topic.name"
# What `topics` says where neither options nor rows are known to name one
_ANY_TOPIC = "spark"
_lock: Final = threading.Lock()  # guards _held
_held: Final[dict[tuple[str | None, JavaSettings], tuple[object, PluginRegistry]]] = {}


class ConnectorOfFormat:
    """A connector, its settings checked. Errors of the constructor: ConfigError with a sentence for each problem."""

    def __init__(self, options: Mapping[str, str], kind: type[SourceConnector] | type[SinkConnector]) -> None:
        """`options`: as Spark gives them, names in lower case. References such as ${env:..} are resolved here."""
        self.options = FormatOptions.parse(options)
        self._load()
        named = with_aliases({**options, "name": options.get("name", "kconnect")})
        self._class_name = _class_name(named)
        self.is_named = "name" in options
        connector_class = self.plugins.connector_class(self._class_name)
        _require(connector_class, kind)
        written = self._settings(named, connector_class, kind)
        self.topic = self.options.topic or _only_topic(written)
        if kind is SinkConnector and not (written.keys() & {"topics", "topics.regex"}):
            written["topics"] = self.topic or _ANY_TOPIC  # a sink must name topics; rows have them here
        self.config: dict[str, str] = _resolved(written, provider_settings(named))
        self._hide_secrets()
        _refuse_problems(self._infos(), self.config)
        self._refuse_dead_letters()
        for key in ONLY_ON_WORKERS:
            if key in self.config:
                log.warning("%s has no effect here: Spark runs the tasks, not a worker", key)

    @property
    def worker(self) -> dict[str, str]:
        """What a worker's config would say."""
        brokers = self.options.bootstrap_servers
        return {
            "key.converter": NO_CONVERTER,
            "value.converter": NO_CONVERTER,
            **({"bootstrap.servers": brokers} if brokers else {}),
        }

    def spec(
        self, kind: ConnectorType, index: int, task_config: Mapping[str, str], *, letters: bool = True
    ) -> TaskSpec:
        """A task as the pipeline knows it. `letters`: with its dead letter queue, if it has one."""
        config = self.config if letters else {key: value for key, value in self.config.items() if key != _DLQ}
        return TaskSpec(
            id=TaskId(self.config["name"], index),
            run=1,
            type=kind,
            connector_config=config,
            task_config=task_config,
            worker_config=self.worker,
        )

    def source_config(self) -> SourceConnectorConfig:
        return parse_config(SourceConnectorConfig, self.config, self.plugins)

    def sink_config(self) -> SinkConnectorConfig:
        return parse_config(SinkConnectorConfig, self.config, self.plugins)

    def task_configs(self, context: Any) -> list[dict[str, str]]:
        """Start the connector, ask it for the configs of its tasks, stop it.

        `context`: a SourceConnectorContext or SinkConnectorContext. Errors: ConnectError naming the call that failed.
        """
        most = int(self.config.get("tasks.max", "1"))
        with plugin_call(self._class, "__init__"):
            connector: Any = self._class()
        with plugin_call(connector, "initialize"):
            connector.initialize(context)
        try:
            with plugin_call(connector, "start"):
                connector.start(dict(self.config))
            with plugin_call(connector, "task_configs"):
                answer = connector.task_configs(most)
            with plugin_call(connector, "task_class"):
                task = connector.task_class()
        finally:
            with plugin_call(connector, "stop"):
                connector.stop()
        given, task_class = checked_task_configs(connector, answer), checked_task_class(connector, task)
        if len(given) > most:
            raise ConfigError(
                f"{self._class.__name__}.task_configs() gave {pluralize(len(given), 'task')}, tasks.max is {most}"
            )
        class_name = f"{task_class.__module__}.{task_class.__qualname__}"
        configs = complete_task_configs(self.config["name"], self.config, class_name, given)
        return [{"connector.class": self._class_name, **config} for config in configs]

    def hides_secrets(self, configs: Collection[Mapping[str, str]]) -> None:
        """Hide secrets of task configs in all text of this process."""
        found = secret_values(self.config, self.plugins.password_keys(self.config))
        for config in configs:
            found |= secret_values(config, self.plugins.password_keys(config))
        redaction.remember("format kconnect", found)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "plugins"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._load()
        self._hide_secrets()

    def __repr__(self) -> str:
        return f"ConnectorOfFormat({self._class_name})"  # no settings: they may be secret

    @property
    def _class(self) -> type[Connector]:
        return self.plugins.connector_class(self._class_name)

    def _load(self) -> None:
        self.plugins = process_plugins(self.options.plugin_path, self.options.java)

    def _hide_secrets(self) -> None:
        self.hides_secrets(())

    def _settings(
        self, named: Mapping[str, str], connector_class: type[Connector], kind: type[Connector]
    ) -> dict[str, str]:
        """The connector's own settings, named as their tables spell them. Errors: ConfigError for a misspelt one."""
        is_source = kind is SourceConnector
        own = instance_of(connector_class).config().config_keys
        table = enriched(SOURCE_CONFIG if is_source else SINK_CONFIG, named, self.plugins, self.worker).config_keys
        known = {*own, *table, *OWN_OF_CONNECTORS, *DEAD_LETTER_KEYS, *_of_converters(named, self.plugins)}
        found = connector_settings(named, known)
        if "path" not in known and (path := named.get("path") or named.get("paths")):
            raise ConfigError(
                f"{self._class_name} has no setting path: {path}",
                hint='Name the file, folder or table by the connector\'s own setting, as .option("file", ..), and '
                "leave load(), save() and start() empty.",
            )
        meant = misspelt_settings(found, {*known, *OPTIONS.config_keys})
        if meant:
            raise ConfigError("\n".join(f"Unknown setting: {key}. Did you mean {name}?" for key, name in meant.items()))
        return found

    def _refuse_dead_letters(self) -> None:
        if self.config.get(_DLQ, "").strip() and not self.options.bootstrap_servers:
            raise ConfigError(f"{_DLQ} needs bootstrap.servers, the brokers that have the topic")

    def _infos(self) -> ConfigInfos:
        return ConnectorValidator(self.plugins, self.worker).validate(self.config, offers=False)


def _resolved(written: Mapping[str, str], providers: Mapping[str, str]) -> dict[str, str]:
    """The settings with their references resolved. Errors: ConfigError naming reference and provider, never a value."""
    variables = Variables.of_worker(providers)
    try:
        return dict(variables.resolve(written, f"connector {written.get('name', '')}").values)
    finally:
        variables.close()


def _only_topic(config: Mapping[str, str]) -> str | None:
    topics = [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
    return topics[0] if len(topics) == 1 else None


class SourcePlanningContext:
    """What a source connector may ask while Spark plans: a SourceConnectorContext over offsets."""

    def __init__(self, offsets: Any) -> None:  # an OffsetStorageReader
        self._offsets = offsets
        self._metrics = PluginMetricsRegistry().of_plugin(connector="kconnect")

    def offset_storage_reader(self) -> Any:
        return self._offsets

    def plugin_metrics(self) -> Any:
        return self._metrics

    def request_task_reconfiguration(self) -> None:
        log.warning("The connector asks for other tasks: that happens when the query is started again")

    def raise_error(self, error: BaseException) -> None:
        raise error


def _class_name(options: Mapping[str, str]) -> str:
    name = options.get("connector.class", "").strip()
    if not name:
        raise ConfigError(
            'Missing required configuration "connector.class" which has no default value.',
            hint='Name the connector: .option("connector.class", "FileStreamSource"). `connect plugins` lists them.',
        )
    return name


def _require(connector_class: type[Connector], kind: type[Connector]) -> None:
    if issubclass(connector_class, kind):
        return
    is_source = kind is SourceConnector
    raise ConfigError(
        f"{connector_class.__name__} is not a {'source' if is_source else 'sink'} connector",
        hint="spark.read and spark.readStream take sources."
        if is_source
        else "df.write and df.writeStream take sinks.",
    )


def _refuse_problems(infos: ConfigInfos, config: Mapping[str, str]) -> None:
    messages = [message for info in infos.configs if info.value for message in info.value.error_messages]
    if messages:
        raise ConfigError("\n".join(dict.fromkeys(messages)))


def _of_converters(named: Mapping[str, str], plugins: PluginRegistry) -> set[str]:
    finders = {
        "key.converter": plugins.converter,
        "value.converter": plugins.converter,
        "header.converter": plugins.header_converter,
    }
    return {
        f"{key}.{name}"
        for key, find in finders.items()
        if key in named
        for name in instance_of(find(named[key])).config().config_keys
    }


def process_plugins(plugin_path: str | None, java: JavaSettings) -> PluginRegistry:
    """The registry of this `plugin.path`; another one once its folders have changed. Threads: any."""
    key, seen = (plugin_path, java), _as_it_is(plugin_path)
    with _lock:
        before, registry = _held.get(key, (None, None))
        if registry is None or before != seen:
            if registry is not None:
                registry.close()
            registry = PluginRegistry.load(plugin_path, tells_skipped=False, java=java)
            _held[key] = seen, registry
        return registry


def _as_it_is(plugin_path: str | None) -> object:
    """What changes when something is put into one of the folders, or taken out."""
    found: list[tuple[str, int]] = []
    for folder in filter(None, (part.strip() for part in (plugin_path or "").split(","))):
        if os.path.isdir(folder):
            entries = [(entry.path, entry.stat().st_mtime_ns) for entry in os.scandir(folder)]
            found += [(folder, os.stat(folder).st_mtime_ns), *sorted(entries)]
    return found
