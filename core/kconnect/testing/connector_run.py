"""What both harnesses share: a connector made, checked and started, its task configs, and the stages of a task."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kconnect.api import Connector, PluginMetrics, SinkConnector, SourceConnector
from kconnect.api.config_key import MayPass
from kconnect.builtin.types.declarations import without_taken
from kconnect.builtin.types.declared import problems
from kconnect.clock import Clock, Pauses
from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.logs.wording import pluralize
from kconnect.model import TaskId
from kconnect.runtime.config.connector_config import ConnectorConfig, SinkConnectorConfig, SourceConnectorConfig
from kconnect.runtime.config.connector_keys import DEAD_LETTER_KEYS, SINK_CONFIG, SOURCE_CONFIG
from kconnect.runtime.config.misspelt import is_surely_unknown, misspelt_settings, unknown_settings
from kconnect.runtime.config.own_worker_keys import OWN_OF_CONNECTORS
from kconnect.runtime.herder.decisions.connector_entry import complete_task_configs
from kconnect.runtime.herder.validation.plugin_keys import enriched, instance_of
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.runtime.pipeline.plugin_parts import make_converters, make_steps, parse_config
from kconnect.runtime.pipeline.retries import backoff_of
from kconnect.runtime.pipeline.stages import StageError, TransformStep
from kconnect.runtime.pipeline.tolerance import ErrorReporter, Tolerance, ToleranceSettings
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.plugins.connector_answers import (
    checked_config,
    checked_definition,
    checked_task_class,
    checked_task_configs,
)
from kconnect.testing.plugin_calls import PluginCalls

# Converters have no default in Connect: these are the ones Connect's own sample files use.
WORKER_DEFAULTS: Mapping[str, str] = {
    "bootstrap.servers": "memory:0",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
log = logging.getLogger(__name__)


class HarnessPlugins(PluginRegistry):
    """The registry of this environment, which also knows the class that a test hands over."""

    @classmethod
    def with_class(cls, given: type[Connector] | str, plugin_path: str | None = None) -> tuple[HarnessPlugins, str]:
        """The registry, and the name under which it has the class."""
        plugins = cls.load(plugin_path)
        assert isinstance(plugins, HarnessPlugins)  # load() makes an object of the class it is called on
        if isinstance(given, str):
            return plugins, given
        name = f"{given.__module__}.{given.__qualname__}"
        plugins._found[name, Connector, None, None] = given
        return plugins, name


class TaskStages:
    """The transformations and converters of one task, made as the worker makes them."""

    def __init__(
        self,
        config: ConnectorConfig,
        worker: Mapping[str, str],
        plugins: PluginRegistry,
        tolerance: Tolerance,
        failures: LastFailure,
    ) -> None:
        monitor = PluginMonitor(TaskId(config.name, 0))
        self.metrics: PluginMetrics = monitor.of_task
        self.steps: list[TransformStep] = make_steps(config, plugins, monitor)
        self.names = [spec.transform.alias for spec in config.transforms]
        self.tolerance = tolerance
        self._failures = failures
        self.transforms = TransformChain(self.steps, tolerance)
        self.converters: Converters = make_converters(config, worker, plugins, tolerance, monitor)

    @property
    def last_failure(self) -> StageError | None:
        """What a stage failed with last, tolerated or not."""
        return self._failures.last

    def close(self) -> None:
        self.transforms.close()
        self.converters.close()


class LastFailure:
    """Keeps the last failure. Implements kconnect.runtime.pipeline.tolerance.ErrorReporter."""

    def __init__(self) -> None:
        self.last: StageError | None = None

    def report(self, failure: StageError, attempts: int) -> None:
        self.last = failure

    def settle(self, timeout_s: float) -> None:
        """Nothing is pending."""

    def close(self) -> None:
        """Nothing to close."""


class ConnectorRun:
    """A connector object, from validation to stop. Lifecycle: constructed -> start -> stop; Threads: the test's.

    Also the context of the connector: `is_reconfiguration_wanted` and `failure` tell what it asked for.
    """

    def __init__(
        self,
        connector: type[Connector] | str,
        config: Mapping[str, str],
        worker: Mapping[str, str] | None,
        clock: Clock,
    ) -> None:
        self.worker = {**WORKER_DEFAULTS, **(worker or {})}
        self.plugins, class_name = HarnessPlugins.with_class(connector, self.worker.get("plugin.path"))
        self.config = {"name": "test", "tasks.max": "1", "connector.class": class_name, **config}
        self.connector_class = self.plugins.connector_class(self.config["connector.class"])
        self.clock = clock
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self.is_reconfiguration_wanted = False
        self.failure: BaseException | None = None
        self.calls = PluginCalls()
        self.warn_unknown: Callable[[str], None] | None = None
        """Called with each misspelt setting and its likely correction, before anything is rejected."""
        self.connector: Any = None  # SourceConnector or SinkConnector; None before start

    @property
    def settings(self) -> ConnectorConfig:
        """What Connect itself reads of the config. Errors: ConfigError."""
        if issubclass(self.connector_class, SinkConnector):
            return parse_config(SinkConnectorConfig, self.config, self.plugins)
        return parse_config(SourceConnectorConfig, self.config, self.plugins)

    def check(self, kind: type[SourceConnector] | type[SinkConnector]) -> None:
        """Errors: ConfigError, when it is of the other kind or a setting is wrong; all problems in one error."""
        if not issubclass(self.connector_class, kind):
            raise ConfigError(f"{self.connector_class.__name__} is not a {kind.__name__}")
        _ = self.settings
        connector = self._new()
        with self.calls.calling(connector, "config"):
            table = connector.config()
        taken = without_taken(self.config, checked_definition(connector, table))
        declared = problems(taken, is_sink=kind is SinkConnector)
        with self.calls.calling(connector, "validate"):
            answer = connector.validate(self.config)
        found = checked_config(connector, answer)
        if self.warn_unknown is not None:
            known = known_settings(
                self.config, self.worker, self.plugins, [value.name for value in found.config_values]
            )
            meant = misspelt_settings(self.config, known)
            for key, reported in unknown_settings(self.config, known).items():
                if key in meant or is_surely_unknown(key):
                    self.warn_unknown(reported)
        wrong = [ConfigProblem(name, None, f"{name}: {message}") for name, message in declared] + [
            ConfigProblem(value.name, None, message)
            for value in found.config_values
            for message in value.error_messages
            if not isinstance(message, MayPass)  # it starts what somebody else has created
        ]
        if wrong:
            raise ConfigError("; ".join(problem.message for problem in wrong), wrong)

    def start(self, context: Any) -> list[dict[str, str]]:  # the harness's own SourceConnectorContext or the sink's
        """Make the connector, start it, and ask it for task configs. Errors: ConfigError, what the connector raises."""
        self._stopping.clear()
        self._woken.clear()
        self._metrics = PluginMetricsRegistry().of_plugin(connector=self.config["name"])
        self.connector = self._new()
        self.connector.initialize(context)
        with self.calls.calling(self.connector, "start"):
            self.connector.start(dict(self.config))
        return self.task_configs()

    def _new(self) -> Any:  # SourceConnector or SinkConnector
        with self.calls.calling(self.connector_class, "__init__"):
            return self.connector_class()

    def task_configs(self) -> list[dict[str, str]]:
        """The configs of the tasks, checked as the worker checks them. Errors: ConnectError."""
        most = self.settings.tasks_max
        with self.calls.calling(self.connector, "task_configs"):
            answer = self.connector.task_configs(most)
        given = checked_task_configs(self.connector, answer)
        name = self.connector_class.__name__
        if len(given) > most and self.settings.tasks_max_enforce:
            raise ConnectError(f"{name}.task_configs() gave {pluralize(len(given), 'task')}, tasks.max is {most}")
        with self.calls.calling(self.connector, "task_class"):
            answer = self.connector.task_class()
        task_class = checked_task_class(self.connector, answer)
        class_name = f"{task_class.__module__}.{task_class.__qualname__}"
        return complete_task_configs(self.config["name"], self.config, class_name, given)

    def stages(self, reporters: Sequence[ErrorReporter] = ()) -> TaskStages:
        """New transformations and converters."""
        config = self.settings
        settings = ToleranceSettings(
            tolerate_all=config.tolerates_errors,
            retry_timeout_ms=config.errors_retry_timeout_ms,
            retry_delay_max_ms=config.errors_retry_delay_max_ms,
        )
        failures = LastFailure()
        tolerance = Tolerance(settings, self.wait, [*reporters, failures], self.clock)
        return TaskStages(config, self.worker, self.plugins, tolerance, failures)

    def stop(self) -> None:
        self.end_waits()
        connector, self.connector = self.connector, None
        if connector is not None:
            with self.calls.calling(connector, "stop"):
                connector.stop()

    def wait(self, timeout_s: float) -> bool:
        """A pause of the runtime's own, as before a retry, on the harness's clock; returns whether all must stop."""
        return self.clock.wait(self._stopping, timeout_s)

    def pauses(self, first_s: float) -> Pauses:
        """The worker's pauses between retries, but for their spread: a test knows how long each is."""
        most_s = self.settings.errors_retry_delay_max_ms / 1000
        return Pauses(backoff_of(first_s, most_s, jitter=(1.0, 1.0)))

    def end_waits(self) -> None:
        """Have all waits come back at once, now and later: everything must stop. Threads: any."""
        self._stopping.set()
        self._woken.set()

    def raise_failure(self) -> None:
        """Raise what the connector gave to raise_error."""
        if self.failure is not None:
            with self.calls.calling(self.connector, "raise_error"):
                raise self.failure

    # --- WorkWaits ---

    def wait_for_work(self, timeout_s: float) -> bool:
        self.clock.wait(self._woken, timeout_s)
        if not self._stopping.is_set():
            self._woken.clear()
        return self._stopping.is_set()

    def wake(self) -> None:
        self._woken.set()

    # --- ConnectorContext ---

    def plugin_metrics(self) -> PluginMetrics:
        return self._metrics

    def request_task_reconfiguration(self) -> None:
        self.is_reconfiguration_wanted = True

    def raise_error(self, error: BaseException) -> None:
        self.failure = error


def known_settings(
    config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginRegistry, own: Collection[str]
) -> Collection[str]:
    """Connect's own, those of the plugins that the config names, and `own`, the connector's.

    Every name of the config where a plugin cannot tell its settings: what is wrong with it shows when it is made.
    """
    is_source = issubclass(plugins.connector_class(config["connector.class"]), SourceConnector)
    try:
        table = enriched(SOURCE_CONFIG if is_source else SINK_CONFIG, config, plugins, worker)
        return {*OWN_OF_CONNECTORS, *DEAD_LETTER_KEYS, *own, *table.config_keys, *_of_converters(config, plugins)}
    except Exception:  # whatever a plugin raises from its constructor or config()
        log.debug("Settings cannot be checked for spelling", exc_info=True)
        return config.keys()


def _of_converters(config: Mapping[str, str], plugins: PluginRegistry) -> set[str]:
    finders = {
        "key.converter": plugins.converter,
        "value.converter": plugins.converter,
        "header.converter": plugins.header_converter,
    }
    found = set()
    for key, find in finders.items():
        if key in config:
            found |= {f"{key}.{name}" for name in instance_of(find(config[key])).config().config_keys}
    return found
