"""ASSEMBLY of a standalone worker: config -> stores, launcher, herder, REST; started in order, stopped in reverse.

Source: ConnectStandalone, AbstractConnectCli, Connect, Worker (Kafka 4.3).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kconnect import redaction
from kconnect.config import ConnectorFile, StandaloneConfig
from kconnect.config.client_config import admin_config, override_error
from kconnect.config.variables import Variables, secret_values
from kconnect.errors import (
    ConfigError,
    ConfigProblem,
    ConnectError,
    EnvironmentProblemError,
    RetriableError,
    TimedOutError,
    UnreachableError,
)
from kconnect.herder.hosted_connector import PluginTimes
from kconnect.herder.interface import Launcher
from kconnect.herder.kafka_groups import kafka_group_offsets
from kconnect.herder.parts import HerderParts
from kconnect.herder.plugin_config import plugin_config_keys
from kconnect.herder.standalone import StandaloneHerder
from kconnect.herder.validation import ConnectorValidator, InvalidConnectorError
from kconnect.metrics import TaskCounters
from kconnect.model import ConnectorStatus, RunState, TaskId
from kconnect.plugins import PluginRegistry
from kconnect.redaction import redact
from kconnect.storage import FileOffsetStore

if TYPE_CHECKING:
    from kconnect.rest import RestServer

__all__ = ["EXIT_CONNECTORS", "EXIT_WORKER", "StandaloneWorker", "StartupError"]

log = logging.getLogger(__name__)

# Exit codes of connect-standalone.
EXIT_WORKER = 2
"""The worker itself can not start: settings, a taken port, no broker."""
EXIT_CONNECTORS = 3
"""The offsets file is damaged, or a connector can not be created."""

# Requests that run when the worker stops may take this long to end
_REST_STOP_S = 2.0
# Slots and the Spark application, after tasks had their own time: 1 to 3 s on 2 cores
_LAUNCHER_STOP_S = 8.0
# How soon a launcher that gave up, or a stop asked for while starting, is noticed
_POLL_S = 0.25
# One try to reach the broker; librdkafka connects in some 10 ms where there is one
_BOOTSTRAP_TRY_S = 1.0


class StartupError(ConnectError):
    """The worker could not start. `exit_code` is that of Java's connect-standalone; `__cause__` the reason.

    `file` is the one to correct. Wrong settings are told one sentence each, where REST has Java's longer message.
    """

    def __init__(self, cause: ConnectError, exit_code: int, lead: str = "", file: Path | None = None) -> None:
        problems = cause.problems if isinstance(cause, ConfigError | InvalidConnectorError) else ()
        told = " ".join(f"{problem.message.rstrip('.')}." for problem in problems)
        super().__init__(redact(f"{lead}{told or cause}"), hint=cause.hint or _what_to_do(problems, file))
        self.exit_code = exit_code


def _what_to_do(problems: Sequence[ConfigProblem], file: Path | None) -> str | None:
    where = f"in {file}" if file is not None else "in the worker's properties"
    steps = []
    if missing := [problem.key for problem in problems if problem.value is None]:
        steps.append(f"Set {' and '.join(f'{key}=..' for key in dict.fromkeys(missing))} {where}.")
    if wrong := [problem.key for problem in problems if problem.value is not None]:
        steps.append(f"Correct {' and '.join(dict.fromkeys(wrong))} {where}.")
    return " ".join(steps) or None


class StandaloneWorker:
    """A worker in this process. States: new -> started -> stopped; also a context manager.

    `file` is where the properties were read from, for messages. `launcher` makes another one than Spark's, from the
    worker's properties (tests). Threads: start, create_connectors
    and stop from one thread at a time; the rest from any, `request_stop` from a signal handler too.
    """

    def __init__(
        self,
        worker_props: Mapping[str, str],
        connectors: Sequence[ConnectorFile] = (),
        *,
        file: Path | None = None,
        launcher: Callable[[Mapping[str, str]], Launcher] | None = None,
    ) -> None:
        self._props = dict(worker_props)
        self._file = file
        self._connectors = tuple(connectors)
        self._new_launcher = launcher or _spark_launcher
        self._launcher: Launcher | None = None
        self._herder: StandaloneHerder | None = None
        self._rest: RestServer | None = None
        self._stack = ExitStack()
        self._stop_requested = threading.Event()
        self._stopped = False
        self._task_stop_s = 5.0  # replaced by task.shutdown.graceful.timeout.ms

    def start(self) -> None:
        """Start everything and create the connectors given. Errors: StartupError; nothing is left running then.

        Spark comes up in the background, before anything else is looked at; REST answers before Kafka does.
        """
        try:
            with _exit_code(EXIT_WORKER):
                offsets, cluster_id = self._start_serving()
            with _exit_code(EXIT_CONNECTORS):
                offsets.start()
            self.herder.start(self._worker_id(), cluster_id)
            self.create_connectors(self._connectors)
            self.herder.ready()
        except BaseException:
            self.stop()
            raise

    def create_connectors(self, files: Sequence[ConnectorFile]) -> None:
        """Create connectors one after the other. Errors: StartupError at the first that fails, naming its file."""
        for file in files:
            with _exit_code(EXIT_CONNECTORS, f"Failed to create connector for {file.path}: ", file.path):
                self.herder.put_connector(file.name, file.config, initial_state=file.initial_state, replace=False)
            log.info("Created connector %s from %s", file.name, file.path)

    def request_stop(self) -> None:
        """Make `wait` return, and `start` give up where it waits. Does not stop anything by itself."""
        self._stop_requested.set()

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop gracefully: REST, then tasks and connectors, then slots, then the stores. Idempotent, never raises.

        `timeout_s` bounds the tasks; by default `task.shutdown.graceful.timeout.ms`.
        """
        self._stop_requested.set()
        if self._stopped:
            return
        self._stopped = True
        if timeout_s is not None:
            self._task_stop_s = timeout_s
        began = time.monotonic()
        try:
            self._stack.close()
        except Exception:  # top of the worker: one part that fails to stop must not hide that the others did
            log.exception("A part of the worker did not stop well")
        log.info("Worker stopped in %.1f s", time.monotonic() - began)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a stop to be asked for; says whether it was. Errors: as raise_if_failed."""
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while not self._stop_requested.wait(min(_POLL_S, max(0.0, deadline - time.monotonic()))):
            self.raise_if_failed()
            if time.monotonic() >= deadline:
                return False
        return True

    def raise_if_failed(self) -> None:
        """Errors: EnvironmentProblemError when tasks can never run here (no Java, Spark refused)."""
        failure = self._launcher.failure() if self._launcher else None
        if failure is not None:
            raise EnvironmentProblemError(failure)

    def statuses(self) -> list[ConnectorStatus]:
        """Every connector with its tasks."""
        return [self.herder.connector_status(name) for name in self.herder.connectors()]

    def wait_until_running(self, timeout_s: float) -> bool:
        """Wait until no task waits for its slot any more; says whether all of them run. Errors: as raise_if_failed."""
        deadline = time.monotonic() + timeout_s
        while True:
            states = [task.state for status in self.statuses() for task in status.tasks]
            if RunState.UNASSIGNED not in states or time.monotonic() >= deadline:
                return all(state is RunState.RUNNING for state in states)
            self.raise_if_failed()
            if self._stop_requested.wait(0.02):
                return False

    def task_counters(self) -> Mapping[TaskId, TaskCounters]:
        """What each task has moved so far, a second old at most; empty before the start."""
        return self._launcher.task_counters() if self._launcher is not None else {}

    @property
    def herder(self) -> StandaloneHerder:
        if self._herder is None:
            raise ConnectError("The worker is not started")
        return self._herder

    @property
    def rest_url(self) -> str:
        """Where the REST API answers, for this machine."""
        if self._rest is None or not self._rest.urls:
            raise ConnectError("The worker is not started")
        return self._rest.urls[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- the order of things ------------------------------------------------------------------------------------------

    def _start_serving(self) -> tuple[FileOffsetStore, str]:
        """Spark in the background, REST, then Kafka. What is begun first is stopped last."""
        plugins = PluginRegistry.load(self._props.get("plugin.path"))  # first: it may hold config providers
        raw = self._props
        with _exit_code(EXIT_WORKER, self._lead(), self._file):
            variables = self._resolve_properties()
        with _exit_code(EXIT_WORKER, self._lead(), self._file):
            config = StandaloneConfig.parse(self._props, lambda name: _worker_plugin(plugins, name))
            override_error(config.connector_client_config_override_policy, "client.id")  # an unknown one is told now
        self._task_stop_s = config.task_shutdown_graceful_timeout_ms / 1000
        with _exit_code(EXIT_WORKER, self._lead(), self._file):
            launcher = self._launcher = self._new_launcher(self._props)
        offsets = FileOffsetStore(config.offset_storage_file_filename)
        herder = self._herder = StandaloneHerder(
            replace(_herder_parts(config, plugins, launcher, offsets, variables), worker_config=raw)
        )

        self._stack.callback(offsets.stop)
        self._stack.callback(lambda: launcher.stop(_LAUNCHER_STOP_S))
        launcher.start(herder.events)
        self._stack.callback(lambda: herder.stop(self._task_stop_s))
        _warn_of_keys(config)
        self._start_rest(config, herder)
        return offsets, self._find_cluster(config)

    def _resolve_properties(self) -> Variables:
        """Put values in place of the worker's own `${..}`. Errors: ConfigError. Source: AbstractConfig (Kafka 4.3)."""
        variables = Variables.of_worker(self._props)
        self._stack.callback(variables.close)
        resolved = variables.resolve(self._props, "the worker")
        redaction.remember("worker", {*secret_values(resolved.values), *resolved.references})
        self._props = dict(resolved.values)
        return variables

    def _start_rest(self, config: StandaloneConfig, herder: StandaloneHerder) -> None:
        from kconnect.rest import AppSettings, RestOptions, RestServer  # here: they load while Spark's JVM starts

        with _exit_code(EXIT_WORKER, self._lead(), self._file):
            settings = AppSettings(request_timeout_s=config.kconnect.request_timeout_ms / 1000)
            options = RestOptions.parse(config, os.environ)
            rest = self._rest = RestServer(herder, config.listeners, settings, options)
            self._stack.callback(lambda: rest.stop(_REST_STOP_S))
            rest.start()

    def _lead(self) -> str:
        return f"{self._file}: " if self._file is not None else ""

    def _worker_id(self) -> str:
        from kconnect.rest import advertised_address

        if self._rest is None:
            raise ConnectError("The worker is not started")
        with _exit_code(EXIT_WORKER, self._lead(), self._file):
            host, port = advertised_address(self._props, self._rest.bound)
        return f"{host}:{port}"

    def _find_cluster(self, config: StandaloneConfig) -> str:
        """The id of the Kafka cluster. Errors: UnreachableError after kconnect.bootstrap.timeout.ms."""
        from kconnect.kafka.admin import KafkaAdmin

        timeout_s = config.kconnect.bootstrap_timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        settings, warnings = admin_config(self._props, client_id="worker-admin")
        for warning in warnings:
            log.warning("%s", warning)
        with KafkaAdmin(settings, "worker") as admin:
            while True:
                try:
                    return admin.cluster_id(min(_BOOTSTRAP_TRY_S, timeout_s))
                except (UnreachableError, TimedOutError, RetriableError) as err:
                    if time.monotonic() >= deadline:
                        raise UnreachableError(
                            f"No Kafka broker answers at bootstrap.servers={self._props.get('bootstrap.servers')} "
                            f"within {timeout_s:g} s ({err})",
                            hint=f"Start the broker or correct bootstrap.servers in {self._file or 'the settings'}; "
                            "kconnect.bootstrap.timeout.ms is how long a worker waits for it.",
                        ) from err
                self.raise_if_failed()
                if self._stop_requested.wait(_POLL_S):
                    raise ConnectError("The worker was stopped while it waited for the broker")


@contextmanager
def _exit_code(code: int, lead: str = "", file: Path | None = None) -> Iterator[None]:
    try:
        yield
    except StartupError:
        raise
    except ConnectError as err:
        raise StartupError(err, code, lead, file) from err


def _spark_launcher(props: Mapping[str, str]) -> Launcher:
    from kconnect.spark import SparkLauncher, SparkSettings

    return SparkLauncher(SparkSettings.parse(props))


def _herder_parts(
    config: StandaloneConfig,
    plugins: PluginRegistry,
    launcher: Launcher,
    offsets: FileOffsetStore,
    variables: Variables,
) -> HerderParts:
    validator = ConnectorValidator(plugins, config.originals, variables)
    return HerderParts(
        worker_config=config.originals,
        variables=variables,
        plugins=plugins,
        launcher=launcher,
        offsets=offsets,
        groups=kafka_group_offsets(config.originals, config.kconnect.request_timeout_ms / 1000),
        validate=validator.raise_if_invalid,
        explain=validator.validate,
        plugin_config=partial(plugin_config_keys, plugins),
        tracks_topics=config.topic_tracking_enable,
        allows_topics_reset=config.topic_tracking_allow_reset,
        times=PluginTimes(
            call_s=config.kconnect.connector_start_timeout_ms / 1000,
            stop_s=config.task_shutdown_graceful_timeout_ms / 1000,
        ),
    )


def _worker_plugin(plugins: PluginRegistry, name: str) -> object:
    """A converter or header converter of the worker. Errors: ConfigError, with a hint at converters."""
    try:
        return plugins.converter(name)
    except ConfigError as no_converter:
        try:
            return plugins.header_converter(name)
        except ConfigError:
            raise no_converter from None


def _warn_of_keys(config: StandaloneConfig) -> None:
    for key in config.unknown_keys():
        log.warning("The worker setting %s is not known and has no effect", key)
    if ineffective := config.keys_without_effect():
        log.info("These worker settings have no effect here: %s", ", ".join(ineffective))
