"""What both kinds of worker share: Spark in the background, REST, Kafka's availability, waiting, stopping.

Source: AbstractConnectCli, Connect, Worker (Kafka 4.3).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, Self, TypeVar

from kconnect.admin.preflight.start_problems import refuse_start
from kconnect.client.outage import Outage
from kconnect.errors import (
    ConnectError,
    EnvironmentProblemError,
    NotFoundError,
)
from kconnect.files.guarded import guard
from kconnect.java.plugins import JavaSettings, Preparation
from kconnect.logs.log_tail import LogTail
from kconnect.logs.timeline import note_step
from kconnect.model import ConnectorStatus, RunState, TaskCondition, TaskId
from kconnect.runtime.config.live_settings import LiveSettings
from kconnect.runtime.config.removed_settings import removed_of_worker
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.config.worker_config import WorkerConfig
from kconnect.runtime.herder.connectors.hosted_connector import PluginTimes
from kconnect.runtime.herder.health.reasons import Health, Reason
from kconnect.runtime.herder.interface import Herder, Launcher
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.sink_lags import Lags, SinkLags
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.queries.worker_metrics import HistorySampler, LagWatch
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.herder.validation.override_policies import load_policy
from kconnect.runtime.herder.validation.plugin_config import plugin_config_keys
from kconnect.runtime.metrics import Moves
from kconnect.runtime.metrics.history import History
from kconnect.runtime.plugins import PluginRegistry, worker_variables
from kconnect.runtime.storage import OffsetStore
from kconnect.runtime.webhooks.worker_webhooks import WorkerWebhooks
from kconnect.worker.kafka_availability import KafkaAvailability
from kconnect.worker.startup_errors import EXIT_WORKER, exit_code

if TYPE_CHECKING:
    from kconnect.runtime.rest import RestServer
    from kconnect.runtime.rest.late_console import Console, MakeConsole

log = logging.getLogger(__name__)

# Requests that run when the worker stops may take this long to end
_REST_STOP_S = 2.0
# A request to REST waits for it, and has offsets to show without it
_LAG_TIMEOUT_S = 10.0
# Slots and the Spark application, after tasks had their own time: 1 to 3 s on 2 cores
LAUNCHER_STOP_S = 8.0
# How soon a launcher that gave up, or a stop asked for while starting, is noticed
POLL_S = 0.25

MakeLauncher = Callable[[Mapping[str, str]], Launcher]


class StartedHerder(Herder, Protocol):
    """What a worker needs of its herder."""

    def ready(self) -> None: ...
    def refuse_waiting(self) -> None: ...
    def heard_at_s(self) -> float | None:
        """When (monotonic) it last heard from Kafka by itself; None while it has not."""
        ...

    def what_happens(self) -> str:
        """What happens to the work while Kafka is unavailable, in a sentence."""
        ...

    def stop(self, timeout_s: float) -> None: ...


H = TypeVar("H", bound=StartedHerder)
C = TypeVar("C", bound=WorkerConfig)


class RunningWorker(ABC, Generic[H, C]):
    """A worker in this process. States: new -> started -> stopped; also a context manager.

    `file` is where the properties were read from, for messages. `launcher` makes another one than Spark's, from the
    worker's properties (tests). Threads: start and stop from one thread at a time; the rest from any. A signal handler
    has a thread call `request_stop`: it may have interrupted `wait`.
    """

    java_main: ClassVar[str]
    """The class of Java's worker of this kind, which plugins look for in their JVM's command."""

    def __init__(
        self, worker_props: Mapping[str, str], *, file: Path | None = None, launcher: MakeLauncher | None = None
    ) -> None:
        # A JVM has its own idea of the present folder in slots elsewhere
        own = {} if file is None else {"kconnect.java.command": f"{self.java_main} {file.resolve()}"}
        self._props: Mapping[str, str] = {**own, **worker_props}
        self._file = file
        self._new_launcher = launcher or _spark_launcher
        self._launcher: Launcher | None = None
        self._plugins: PluginRegistry | None = None
        self._herder: H | None = None
        self._rest: RestServer | None = None
        self.health = Health()
        """Why the worker is not healthy, from its construction on; live views ask it before there is a herder."""
        self.history = History()
        self.sink_lags = SinkLags()
        self.log_tail = LogTail()
        self._stack = ExitStack()
        self._stop_requested = threading.Event()
        self._stopped = False
        self._has_started = False
        self._availability: KafkaAvailability | None = None
        self._preparation: Preparation | None = None
        self._task_stop_s = 5.0  # replaced by task.shutdown.graceful.timeout.ms

    @abstractmethod
    def _start(self) -> None:
        """Start the parts in order; each is put on the stack, which stops them in reverse."""

    def start(self) -> None:
        """Start everything. Errors: StartupError; nothing is left running then.

        Spark comes up in the background, before anything else is looked at; REST answers before Kafka does.
        """
        try:
            root = logging.getLogger()
            root.addHandler(self.log_tail.handler)
            self._stack.callback(root.removeHandler, self.log_tail.handler)
            self._start()
            self._has_started = True
            note_step("The worker has started")
        except BaseException:
            self.stop()
            raise

    def request_stop(self) -> None:
        """Make `wait` return, and `start` give up where it waits. Does not stop anything by itself."""
        self._stop_requested.set()
        if self._herder is not None:
            self._herder.refuse_waiting()

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop gracefully: REST, then tasks and connectors, then slots, then the stores. Idempotent, never raises.

        `timeout_s` bounds the tasks; by default `task.shutdown.graceful.timeout.ms`.
        """
        self.request_stop()
        if self._stopped:
            return
        self._stopped = True
        if timeout_s is not None:
            self._task_stop_s = timeout_s
        began = time.monotonic()
        try:
            self._stack.close()
        except Exception:  # top of the worker: one part that fails to stop must not hide that the others did
            log.exception("Part of the worker failed to stop")
        log.log(self._stop_level(), "Worker stopped in %.1f s", time.monotonic() - began)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a stop to be asked for; says whether it was. Errors: as raise_if_failed."""
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while not self._stop_requested.wait(min(POLL_S, max(0.0, deadline - time.monotonic()))):
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
        """Every connector with its tasks, except those being deleted or without a status yet."""
        found, conditions, own = [], self.herder.task_conditions(), self.herder.connector_conditions()
        for name in self.herder.connectors():
            with suppress(NotFoundError):
                status = self.herder.with_restarts(self.herder.connector_status(name))
                found.append(_with_conditions(status, own, conditions))
        return found

    def wait_until_running(self, timeout_s: float) -> bool:
        """Wait until no task is UNASSIGNED; says whether all are RUNNING. Errors: as raise_if_failed."""
        deadline = time.monotonic() + timeout_s
        while True:
            states = [task.state for status in self.statuses() for task in status.tasks]
            if RunState.UNASSIGNED not in states or time.monotonic() >= deadline:
                return all(state is RunState.RUNNING for state in states)
            self.raise_if_failed()
            if self._stop_requested.wait(0.02):
                return False

    def outage(self) -> Outage | None:
        """The current outage of Kafka; None while it answers."""
        return None if self._availability is None else self._availability.contact.outage

    def moves(self) -> Mapping[TaskId, Moves]:
        """What each task moves, by counters at most a second old; empty before the start."""
        return {} if self._herder is None else self._herder.moves()

    @property
    def kafka(self) -> KafkaAvailability:
        """Whether Kafka answers; only once the settings are read."""
        if self._availability is None:
            raise ConnectError("The worker is not started")
        return self._availability

    @property
    def herder(self) -> H:
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

    # -- steps of starting --------------------------------------------------------------------------------------------

    def _read_settings(
        self, parse: Callable[[Mapping[str, str], Callable[[str], object]], C]
    ) -> tuple[C, PluginRegistry, Variables]:
        """Typed settings, with the worker's own `${..}` resolved."""
        # First: it may hold config providers
        java = JavaSettings.of(self._props).of_worker()
        plugins = self._plugins = PluginRegistry.load(self._props.get("plugin.path"), java=java)
        self._stack.callback(plugins.close)
        with exit_code(EXIT_WORKER, self._lead(), self._file):
            variables = self._resolve_properties(plugins)
            config = parse(self._props, lambda name: plugins.any_converter(name))
            refuse_start(config)
            self._guard_files(config)
            self.override_policy = load_policy(plugins, config.originals)
            self._prepare(plugins)
            discovery = plugins.check_discovery()
            self.webhooks = WorkerWebhooks(config.kconnect, getattr(config, "group_id", None))
        note_step("Settings are read")
        if discovery is not None:
            self._stack.callback(discovery.stop)
        self._stack.callback(self.webhooks.stop)
        if self.override_policy is not None:
            self._stack.callback(self.override_policy.close)
        self._task_stop_s = config.task_shutdown_graceful_timeout_ms / 1000
        self._availability = KafkaAvailability(self._props, config, self._file, self.health)
        self._stack.callback(self._availability.stop)
        return config, plugins, variables

    def _guard_files(self, config: C) -> None:
        """Keep connectors from the files of logins, roles and the audit log: before tasks' processes are started."""
        own = config.kconnect
        if not (own.rest_roles_file or own.audit_log_file or own.jaas_file or config.values["rest.extension.classes"]):
            return
        from kconnect.runtime.rest.options import guarded_files  # imports the web server: 0.2 s that others need later

        self._stack.callback(guard(guarded_files(config, os.environ)))

    def _prepare(self, plugins: PluginRegistry) -> None:
        """Have what Java's plugins need fetched while Spark starts: 25 s for the first of a machine, nothing later."""
        preparation = plugins.prepare()
        if preparation is None:
            return
        self._stack.callback(preparation.stop)
        self._preparation = preparation

        def java() -> Iterator[Reason]:
            if (waits_for := preparation.waits_for()) is not None:
                yield Reason(*waits_for, is_starting=True)

        self.health.add_source(java)

    def _resolve_properties(self, plugins: PluginRegistry) -> Variables:
        """Resolve the worker's own `${..}`. Errors: ConfigError. Source: AbstractConfig (Kafka 4.3)."""
        variables = worker_variables(self._props, plugins)
        self._stack.callback(variables.close)
        self._props = LiveSettings(self._props, variables)
        return variables

    def _make_launcher(self) -> Launcher:
        with exit_code(EXIT_WORKER, self._lead(), self._file):
            launcher = self._launcher = self._new_launcher(self._launcher_props())
        began_ms = time.time_ns() // 1_000_000

        def spark() -> Iterator[Reason]:
            if (waits_for := launcher.waits_for()) is not None:
                yield Reason(waits_for, began_ms, is_starting=True)

        self.health.add_source(spark)
        sampler = HistorySampler(launcher, self.history, self.sink_lags)
        self._stack.callback(sampler.stop)
        sampler.start()
        return launcher

    def _launcher_props(self) -> Mapping[str, str]:
        """The worker's properties, and where slots get its JVM of Java's plugins if they share it."""
        from kconnect.spark.settings import slots_share_jvm

        if self._plugins is None or not slots_share_jvm(self._props):
            return self._props
        return {**self._props, **self._plugins.share_java()}

    def _herder_parts(
        self,
        config: C,
        plugins: PluginRegistry,
        launcher: Launcher,
        offsets: OffsetStore,
        variables: Variables,
        raw: Mapping[str, str],
    ) -> HerderParts:
        """What any herder works with; `raw`: the worker's properties as written, which tasks get."""
        validator = ConnectorValidator(plugins, config.originals, variables, policy=self.override_policy)
        return HerderParts(
            worker_config=raw,
            settings=config.originals,
            variables=variables,
            plugins=plugins,
            launcher=launcher,
            offsets=offsets,
            groups=kafka_group_offsets(
                config.originals,
                config.kconnect.request_timeout_ms / 1000,
                timeout_setting="kconnect.request.timeout.ms",
            ),
            validate=validator.raise_if_invalid,
            explain=validator.validate,
            plugin_config=partial(plugin_config_keys, plugins),
            tracks_topics=config.topic_tracking_enable,
            allows_topics_reset=config.topic_tracking_allow_reset,
            times=PluginTimes(
                call_s=config.kconnect.connector_start_timeout_ms / 1000,
                stop_s=config.task_shutdown_graceful_timeout_ms / 1000,
            ),
            health=self.health,
            restarts=RestartSettings.of_worker(config.originals),
            answer_s=config.kconnect.kafka_answer_timeout_ms / 1000,
            kafka=self.kafka.contact,
            webhooks=self.webhooks,
            history=self.history,
            sink_lags=self.sink_lags,
            log_tail=self.log_tail,
            lags=lambda: _lag_reader(config),
        )

    def _serve(self, config: C, herder: H, plugins: PluginRegistry) -> None:
        """Let REST answer; /health says that the worker is starting."""
        # Here: they load while Spark's JVM starts
        from kconnect.admin.served.routes import served_endpoints
        from kconnect.runtime.rest import AppSettings, RestOptions, RestServer

        self._warn_of_keys(config)
        with exit_code(EXIT_WORKER, self._lead(), self._file):
            settings = AppSettings(config.kconnect.request_timeout_ms / 1000, config.kconnect.rest_max_body_bytes)
            options = RestOptions.parse(config, os.environ, plugins)
            if options.trail is not None:
                self.health.add_source(options.trail.reasons)
            read_s = config.kconnect.ui_read_timeout_ms / 1000
            console = _console(self._props, read_s) if config.kconnect.ui_enable else None
            served = served_endpoints(self._props, lambda: plugins) if config.kconnect.rest_records_enable else ()
            rest = self._rest = RestServer(herder, config.listeners, settings, options, console, served)
            self._stack.callback(lambda: rest.stop(_REST_STOP_S, log_level=self._stop_level()))
            rest.start()
        note_step("REST answers")

    def _warn_of_keys(self, config: WorkerConfig) -> None:
        for key in config.unknown_keys():
            instead = removed_of_worker(key)
            if instead is None:
                log.warning("Unknown worker setting %s has no effect", key)
            else:
                log.warning("Worker setting %s has no effect: Kafka has removed it. %s", key, instead)
        if ineffective := config.keys_without_effect():
            log.info("These worker settings have no effect here: %s", ", ".join(ineffective))

    def _stop_level(self) -> int:
        """Log level of the stop; quiet for a worker that could not start, whose error matters more."""
        return logging.INFO if self._has_started else logging.DEBUG

    def _lead(self) -> str:
        return f"{self._file}: " if self._file is not None else ""

    def _worker_id(self) -> str:
        """The advertised host:port."""
        from kconnect.runtime.rest import worker_id

        if self._rest is None:
            raise ConnectError("The worker is not started")
        with exit_code(EXIT_WORKER, self._lead(), self._file):
            return worker_id(self._props, self._rest.bound)

    def _watch_kafka(self, interval_s: float, look: Callable[[], None] = lambda: None) -> None:
        self.kafka.watch(
            interval_s,
            heard_at_s=self.herder.heard_at_s,
            what_happens=self.herder.what_happens(),
            has_started=lambda: self._has_started,
            look=look,
        )

    def _watch_lag(
        self,
        config: WorkerConfig,
        parts: HerderParts,
        sinks: Callable[[Callable[[Mapping[str, str]], bool]], Mapping[str, Mapping[str, str]]],
    ) -> None:
        """From now on lag is looked up, and events are posted."""
        assert parts.lags is not None  # _herder_parts() gives one

        def is_away() -> bool:
            return self.kafka.contact.outage is not None

        def watched() -> Mapping[str, Mapping[str, str]]:
            return sinks(self.webhooks.has_lag_bound)

        watch = LagWatch(watched, parts.lags, parts.sink_lags, config.kconnect.sink_lag_interval_ms / 1000, is_away)
        self._stack.callback(watch.stop)
        watch.start()
        self.webhooks.start(self.herder, parts.sink_lags)

    def _find_cluster(self) -> str:
        """The id of the Kafka cluster. Errors: as KafkaAvailability.find_cluster."""
        found = self.kafka.find_cluster(self._stop_requested, self.raise_if_failed)
        note_step("Kafka answers")
        return found


def _with_conditions(
    status: ConnectorStatus, own: Mapping[str, TaskCondition], conditions: Mapping[TaskId, TaskCondition]
) -> ConnectorStatus:
    connector = replace(status.connector, condition=own.get(status.name))
    tasks = (replace(task, condition=conditions.get(TaskId(status.name, task.id))) for task in status.tasks)
    return replace(status, connector=connector, tasks=tuple(tasks))


def _lag_reader(config: WorkerConfig) -> Lags:
    from kconnect.runtime.herder.offsets.lag_reader import LagReader  # here: a worker without sinks needs none of it

    return LagReader(config.originals, _LAG_TIMEOUT_S, "the deadline for lag")


def _console(props: Mapping[str, str], read_s: float) -> MakeConsole:
    def load() -> Callable[..., Console]:
        from kconnect.admin.console import worker_console  # here: for the first page that somebody asks for

        return worker_console

    return lambda app: load()(app, props, read_s)


def _spark_launcher(props: Mapping[str, str]) -> Launcher:
    from kconnect.spark import SparkSettings
    from kconnect.spark.worker_launcher import WorkerLauncher

    return WorkerLauncher(SparkSettings.parse(props))
