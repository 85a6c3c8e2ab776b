"""The seams around the herder: to REST (Herder, in parts as its roots need them), and to the runtime (Launcher)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api.config_key import ConfigKey
from kconnect.client.outage import Outage
from kconnect.logs.log_context import LoggerLevel
from kconnect.logs.log_tail import LogTail
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    RunState,
    SinkLag,
    TargetState,
    TaskCondition,
    TaskId,
    TaskInfo,
    TaskSpec,
    TaskState,
)
from kconnect.runtime.herder.health.reasons import Reason
from kconnect.runtime.herder.validation.config_infos import ConfigInfos
from kconnect.runtime.metrics import Moves, Reading, TaskCounters, TaskMeter
from kconnect.runtime.metrics.history import History

if TYPE_CHECKING:  # of a cluster's worker; a standalone one starts without them
    from kconnect.runtime.herder.decisions.rebalances import Rebalance
    from kconnect.runtime.herder.decisions.request_signatures import RequestSignature


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """One slot as the worker sees it: `pid` and `host` are None until it has registered."""

    slot: int | None
    """Its number; None: the worker's own process, Spark's driver, in which queries run."""
    attached: bool
    host: str | None
    pid: int | None
    tasks: tuple[TaskId, ...]
    job_group: str | None = None
    """Spark's name of its job; used in the Spark UI and by the status tracker."""
    executor: str | None = None
    """Spark's id of the executor it runs in; `driver` in local mode."""
    cpu_seconds: float | None = None
    """CPU seconds of its entire life; like the fields below, it is up to a second old."""
    cpu_percent: float | None = None
    """Is a share of one core, over the last seconds."""
    memory_bytes: int | None = None
    """Resident memory."""
    java_ports: tuple[int, ...] = ()
    """On which JVMs of Java's plugins listen that its process has started, by kconnect.java.opts."""
    connector: str | None = None
    """Whose own it is, by kconnect.slot; None: connectors share it."""
    memory_limit_bytes: int | None = None
    """Is kconnect.slot.memory of that connector."""
    cores_limit: int | None = None
    """Is kconnect.slot.cores of that connector."""
    shared_least: int | None = None
    """How many slots the worker has at least that connectors share, by kconnect.slots; None: a connector's own."""
    shared_most: int | None = None
    """How many it has of them at most."""

    def to_json(self) -> dict[str, Any]:
        body = asdict(self)
        body["tasks"] = [task_id.to_json() for task_id in self.tasks]
        return body


@dataclass(frozen=True, slots=True)
class ExecutorInfo:
    """One executor of Spark; `excluded`: Spark gives it nothing now."""

    id: str
    host: str
    slots: int
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The Spark application that runs a worker's tasks. Without executors its slots are on the worker's machine."""

    master: str
    version: str
    application_id: str
    ui_url: str | None
    """It is None where spark.ui.enabled is off, as it is by default."""
    executors: tuple[ExecutorInfo, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class LauncherEvents(Protocol):
    """A launcher's callbacks. Threads: the launcher's own; must return quickly and never raise."""

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        """A task reached a state. UNASSIGNED: its slot is gone or not up yet, it restarts automatically; `trace` says
        what is in the way of that slot.
        """
        ...

    def reconfiguration_requested(self, connector: str) -> None:
        """A task requested that its connector be asked for task configs again."""
        ...

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        """A task wrote to a topic or read from it; reported once per run, and again after forget_topics."""
        ...

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Committed source offsets, one for each requested partition, None where there is none. May block on a file."""
        ...

    def check_run(self, task_id: TaskId, run: int) -> None:
        """An exactly-once task is ready to write. May block. Errors: ConnectError if that run is obsolete."""
        ...

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Make source offsets durable. Returns when they are; raises ConnectError when they are not."""
        ...


class Launcher(Protocol):
    """A herder's view of where tasks run. Every method is safe from any thread."""

    def start(self, events: LauncherEvents) -> None:
        """Begin to bring slots up, in the background; returns at once."""
        ...

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        """Start tasks, or queue them until slots are up; their states arrive by events.task_status."""
        ...

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        """Stop tasks gracefully and wait. Returns the ids that did not end in time: abandoned and fenced off.

        `is_cut_off`: others may soon run them: plugins stop first, and what is left to commit is committed after that.
        """
        ...

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        """Pause or resume running tasks; their new states arrive by events.task_status."""
        ...

    def forget_topics(self, connector: str) -> None:
        """Make the tasks of a connector report each topic they use again."""
        ...

    def set_log_level(self, logger: str, level: int) -> None:
        """Give a logger, and those below it, a level wherever tasks run, in later slots too."""
        ...

    def task_counters(self) -> Mapping[TaskId, TaskCounters]:
        """What each task has processed so far, up to a second old; zero again after each start of a task."""
        ...

    def task_meters(self) -> Mapping[TaskId, TaskMeter]:
        """The same with the last minute of it, for rates and averages."""
        ...

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        """Conditions of the running tasks, a second old at most; none for tasks that have ended or have no slot."""
        ...

    def slots(self) -> Sequence[SlotInfo]: ...

    def runtime(self) -> RuntimeInfo | None:
        """What runs the slots; None while it starts, and where there is no Spark. May take some milliseconds."""
        ...

    def waits_for(self) -> str | None:
        """What must start before any task can run, as a sentence; None once one could run."""
        ...

    def failure(self) -> str | None:
        """Why no slot can ever start (no Java, Spark refused), or None."""
        ...

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks, the slots and what runs them. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Body of `GET /`."""

    version: str
    commit: str
    kafka_cluster_id: str | None


@dataclass(frozen=True, slots=True)
class PluginDescription:
    """One line of `GET /connector-plugins`."""

    class_name: str
    type: str
    version: str | None
    location: str = ""
    """The folder or jar it is in, or `classpath` for what is included."""


class AnyWorker(Protocol):
    """A worker by its name."""

    @property
    def worker_id(self) -> str:
        """The advertised host:port of this worker, as in statuses; empty before the start."""
        ...


class Health(AnyWorker, Protocol):
    """`/` and `/health`: what a worker is, and its health."""

    def server_info(self) -> ServerInfo: ...

    def is_ready(self) -> bool:
        """Whether start-up is complete: `GET /health` turns green."""
        ...

    def is_open(self) -> bool:
        """Whether queries can be answered: a starting worker has not read its stores yet.

        Errors: ConflictError when the worker is stopping.
        """
        ...

    def health(self) -> Sequence[Reason]:
        """Why the worker is unhealthy, and what its start waits for; empty if all is well. Never waits."""
        ...

    def notices(self) -> Sequence[str]:
        """Sentences that a healthy worker has to say, such as what its group holds back. Never waits."""
        ...

    def outage(self) -> Outage | None:
        """Kafka does not answer this worker; None while it does."""
        ...


class Connectors(Protocol):
    """`/connectors`: what connectors and tasks are, and their states."""

    def connectors(self) -> list[str]: ...

    def connector_info(self, name: str) -> ConnectorInfo: ...

    def connector_config(self, name: str) -> Mapping[str, str]: ...

    def connector_status(self, name: str) -> ConnectorStatus: ...

    def with_restarts(self, status: ConnectorStatus) -> ConnectorStatus:
        """The status, with the automatic restarts of the connector and its tasks."""
        ...

    def task_infos(self, name: str) -> list[TaskInfo]: ...

    def task_status(self, task_id: TaskId) -> TaskState: ...

    def connector_topics(self, name: str) -> list[str]:
        """Topics the connector was seen to use. ForbiddenError when they are not tracked."""
        ...


class ConnectorChanges(Protocol):
    """`/connectors`: what can be done to connectors and tasks."""

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        initial_state: TargetState | None = None,
        replace: bool,
        expected: Collection[str] | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        """Create or change a connector; returns whether it is new. With replace=False an existing name is an error.

        `expected`, here and below: entity tags (`decisions.etags`) of which the connector must have one where the
        change is decided. Errors: PreconditionFailedError.
        """
        ...

    def create_with_offsets(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Sequence[ConnectorOffset],
        *,
        initial_state: TargetState | None = None,
    ) -> tuple[ConnectorInfo, str]:
        """Create a connector whose tasks start at these offsets, in place of any that a former one of its name left.

        Gives the message about the offsets too. When they are refused there is no connector (KIP-995).
        """
        ...

    def patch_connector(
        self, name: str, changes: Mapping[str, str | None], *, expected: Collection[str] | None = None
    ) -> ConnectorInfo:
        """Change some settings; None removes one. Target state and offsets are kept."""
        ...

    def delete_connector(self, name: str, *, expected: Collection[str] | None = None) -> None: ...

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, resume or stop; for STOPPED it returns when the tasks have ended."""
        ...

    def restart_connector(self, name: str) -> None:
        """Restart the connector alone, not its tasks (plain POST restart)."""
        ...

    def restart_by_plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restart the connector and tasks that the flags select; returns the status with these as RESTARTING."""
        ...

    def restart_task(self, task_id: TaskId) -> None: ...

    def request_task_reconfiguration(self, name: str) -> None: ...

    def reset_connector_topics(self, name: str) -> None: ...


class Offsets(Protocol):
    """`/connectors/{name}/offsets`: how far connectors have got."""

    def connector_offsets(self, name: str) -> list[ConnectorOffset]: ...

    def sink_lag(self, name: str) -> SinkLag | None:
        """How far a sink is behind the ends of its topics; None for a source."""
        ...

    def alter_connector_offsets(
        self, name: str, offsets: Sequence[ConnectorOffset], *, expected: Collection[str] | None = None
    ) -> str:
        """Alter offsets of a STOPPED connector; returns the message that REST shows."""
        ...

    def reset_connector_offsets(self, name: str, *, expected: Collection[str] | None = None) -> str: ...


class Plugins(Protocol):
    """`/connector-plugins`: what can be configured."""

    def connector_plugins(self, connectors_only: bool = True) -> list[PluginDescription]: ...

    def plugin_config(self, plugin: str, version: str | None = None) -> Sequence[ConfigKey]:
        """Settings of a plugin of any type; `version`: one, or a range of them, that it must have."""
        ...

    def validate_config(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """Every setting of a connector's config, with its errors and recommended values; creates nothing."""
        ...


class Peers(AnyWorker, Protocol):
    """What other workers of the cluster ask for, and how they know each other."""

    def check_peer(self, signature: RequestSignature | None, *, always: bool = False) -> None:
        """Whether a request comes from another worker of the cluster; without a cluster nothing is checked.

        `always`: also where the group's protocol asks for no signatures.

        Errors: BadRequestError, ForbiddenError; NotReadyError while there is no key for the check.
        """
        ...

    def peer_signature(self, message: bytes) -> bytes | None:
        """A message authentication code that only workers of the cluster can make; None while they have no key."""
        ...

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Take task configs that another worker of the cluster generated; BadRequestError without a cluster."""
        ...

    def fence_zombies(self, name: str) -> None:
        """Fence off earlier exactly-once tasks; BadRequestError without a cluster."""
        ...


class Work(AnyWorker, Protocol):
    """`/metrics`, `/conditions`, `/admin/slots` and `/admin/webhooks`: what this worker runs now."""

    def metrics(self) -> Sequence[Reading]:
        """All metrics of this worker, at this moment."""
        ...

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        """Conditions of the tasks this worker runs."""
        ...

    def connector_conditions(self) -> Mapping[str, TaskCondition]:
        """Conditions of the connectors this worker runs, of those alone with which something is wrong."""
        ...

    def slots(self) -> Sequence[SlotInfo]:
        """Where tasks run."""
        ...

    def runtime(self) -> RuntimeInfo | None:
        """What runs the slots; None while it starts, and where there is no Spark."""
        ...

    def webhooks(self) -> Sequence[Mapping[str, Any]]:
        """Gives how webhook deliveries are doing, one for each target."""
        ...


class WorkHistory(AnyWorker, Protocol):
    """`/admin/history`, `/admin/logs`, `/admin/rebalances` and `/admin/herder-trace`: what this worker did."""

    def history(self) -> History:
        """What the tasks and slots of this worker did over the last hour."""
        ...

    def moves(self) -> Mapping[TaskId, Moves]:
        """What the tasks that this worker runs move now."""
        ...

    def log_tail(self) -> LogTail:
        """The last lines of this worker's log, its slots' among them."""
        ...

    def rebalances(self) -> Sequence[Rebalance]:
        """The last rebalances of this worker, in order; none without a cluster."""
        ...

    def trace(self, since: int | None = None) -> Mapping[str, Any]:
        """The herder's last events and decisions, as JSON without values of configs; `since`: only entries after this
        one.

        Errors: NotFoundError without a cluster.
        """
        ...


class Loggers(Protocol):
    """`/admin/loggers`: levels of loggers."""

    def loggers(self) -> Mapping[str, LoggerLevel]: ...

    def logger(self, name: str) -> LoggerLevel: ...

    def set_logger(self, name: str, level: int, *, whole_cluster: bool) -> list[str]:
        """Give a logger, and those below it, a level; names of those of this worker that had another one."""
        ...


class Herder(Health, Connectors, ConnectorChanges, Offsets, Plugins, Peers, Work, WorkHistory, Loggers, Protocol):
    """REST's interface to a worker: all that its modules ask for, each by the parts that it needs.

    Threads: any; each call blocks until done or until its deadline (TimedOutError).
    Errors: NotFoundError, AlreadyExistsError, BadRequestError, ForbiddenError, ConfigError, ConflictError,
    TimedOutError; WrongWorkerError if another worker of the cluster must do it.
    """
