"""Frozen values that all packages share: ids, states, statuses, REST bodies. JSON is spelled as in Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

from kconnect.errors import BadRequestError

CONNECT_VERSION = "4.3.0"
"""The Apache Kafka Connect version whose behaviour, REST bodies and file formats we keep."""


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One task of a connector. Source: ConnectorTaskId."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    def to_json(self) -> dict[str, Any]:
        return {"connector": self.connector, "task": self.task}


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class NotedOffset(int):
    """An offset to commit with a text for its group beside it, and else a number. Source: OffsetAndMetadata."""

    note: str

    def __new__(cls, offset: int, note: str) -> NotedOffset:
        made = super().__new__(cls, offset)
        made.note = note
        return made


class Edge(Enum):
    """An end of a partition: its first record, or the one that will be written next."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of each partition at or after a time, in ms since 1970; the end where there is none."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The same offset in each partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The position of a record in an internal topic."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of an internal topic; a None value is a tombstone. `timestamp_ms` is None if it has none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None = field(repr=False)  # may hold secrets
    timestamp_ms: int | None = None


class ConnectorType(StrEnum):
    """The type of a connector, as REST spells it."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


class TargetState(StrEnum):
    """What the user wants of a connector. Source: TargetState."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"

    @property
    def in_statuses(self) -> str:
        """The state as statuses and REST spell it: RUNNING for STARTED."""
        return "RUNNING" if self is TargetState.STARTED else str(self)


class RunState(StrEnum):
    """The reported state of a connector or task. Source: AbstractStatus.State."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"


class Condition(StrEnum):
    """The health of what is RUNNING, worst first: whether it does what its state says it should."""

    STUCK = "stuck"
    """A call to its plugin has not returned for kconnect.task.stuck.after.ms."""
    KEEPS_FAILING = "keeps failing"
    """It has failed again after an automatic restart, and has run for less than errors.restart.backoff.max.ms since."""
    NO_TASK_CONFIGS = "no task configs"
    """A connector's task_configs raised or gave none and is called again: it has no tasks, or those of before."""
    RETRYING = "retrying"
    """A call failed with a retriable error and is retried after a pause."""
    NOT_COMMITTING = "not committing"
    """Its offsets could not be stored: its records would be re-sent after a restart."""
    LAGGING = "lagging"
    """It has processed records more slowly than they arrive for kconnect.task.lagging.after.ms."""
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class TaskCondition:
    """The condition of one task, or of a connector that gives no task configs.

    Differs: Java has only states, and what makes no progress is RUNNING.
    """

    condition: Condition
    since_ms: int
    """Since when, in ms since 1970."""
    count: int = 0
    """retrying, no task configs: attempts that failed; not committing: commits that failed; lagging: records it is
    behind; keeps failing: restarts; else 0."""
    cause: str | None = None
    """A sentence with the root cause; None when healthy."""
    stack: str | None = None
    """stuck: the stack of the call, in Python's format."""

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"name": str(self.condition), "since_ms": self.since_ms, "count": self.count}
        return body | {key: text for key, text in (("cause", self.cause), ("stack", self.stack)) if text is not None}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskCondition:
        """Errors: KeyError, TypeError, ValueError for what `to_json` did not write."""
        cause, stack = body.get("cause"), body.get("stack")
        return cls(
            Condition(body["name"]),
            int(body["since_ms"]),
            int(body["count"]),
            None if cause is None else str(cause),
            None if stack is None else str(stack),
        )


class AutoRestart(StrEnum):
    """What becomes of a connector or task that has failed."""

    RESTARTED = "restarted"
    """It runs, and was restarted by itself lately."""
    WAITING = "waiting"
    """It will be restarted."""
    GIVEN_UP = "given up"
    """Its restarts are used up."""
    NOT_RESTARTED = "not restarted"
    """A restart does not help, or is switched off."""
    HELD_BACK = "held back"
    """Its worker has left the group, which waits for it before others run it: scheduled.rebalance.max.delay.ms."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The automatic restarts of a connector or task. Differs: Java has none."""

    state: AutoRestart
    count: int
    """Within errors.restart.window.ms."""
    most: int
    """errors.restart.max"""
    why: str | None = None
    """Why it is not restarted, or until when the next restart waits."""
    due_ms: int | None = None
    """When the next one is due, since the epoch, or when it is handed out: of what is WAITING, GIVEN_UP or HELD_BACK;
    None where nobody can say.
    """

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"state": str(self.state), "count": self.count, "max": self.most}
        body |= {} if self.why is None else {"why": self.why}
        return body if self.due_ms is None else {**body, "due_ms": self.due_ms}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Restarts:
        """Errors: KeyError, TypeError, ValueError for what `to_json` did not write."""
        why, due_ms = body.get("why"), body.get("due_ms")
        return cls(
            AutoRestart(body["state"]),
            int(body["count"]),
            int(body["max"]),
            None if why is None else str(why),
            None if due_ms is None else int(due_ms),
        )


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """Status of the connector itself, as REST shows it."""

    state: RunState
    worker_id: str
    trace: str | None = None
    version: str | None = None
    restarts: Restarts | None = None
    """It is None if not requested, or if there were none."""
    condition: TaskCondition | None = None
    """It is None if not requested, or if it gives task configs."""

    def to_json(self) -> dict[str, Any]:
        return _state_json(self)


@dataclass(frozen=True, slots=True)
class TaskState:
    """Status of one task, as REST shows it."""

    id: int
    state: RunState
    worker_id: str
    trace: str | None = None
    version: str | None = None
    condition: TaskCondition | None = None
    """It is None if not requested or not known: the task runs on a Java worker, or has ended."""
    restarts: Restarts | None = None
    """Holds the same as that of a connector."""

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, **_state_json(self)}


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector and its tasks. Source: ConnectorStateInfo."""

    name: str
    connector: ConnectorState
    tasks: tuple[TaskState, ...]
    type: ConnectorType

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "connector": self.connector.to_json(),
            "tasks": [task.to_json() for task in self.tasks],
            "type": str(self.type),
        }


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector's config and its tasks' ids. Source: ConnectorInfo."""

    name: str
    config: Mapping[str, str] = field(repr=False)  # may hold secrets
    tasks: tuple[TaskId, ...]
    type: ConnectorType

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "config": dict(self.config),
            "tasks": [task.to_json() for task in self.tasks],
            "type": str(self.type),
        }


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """One task with its config. Source: TaskInfo."""

    id: TaskId
    config: Mapping[str, str] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id.to_json(), "config": dict(self.config)}


class Unstorable(str):
    """The text of a value in a source's partition or offset that Connect cannot store, as a date of Java's.

    Whoever commits it is refused with `reason`; until then it is a value like others.
    """

    reason: str

    def __new__(cls, text: str, reason: str) -> Unstorable:
        made = super().__new__(cls, text)
        made.reason = reason
        return made


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """The position of a connector in one of its partitions; offset None requests a reset. Source: ConnectorOffset."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        return {
            "partition": dict(self.partition),
            "offset": None if self.offset is None else dict(self.offset),
        }


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a sink is behind the end of one partition. `offset`: the committed one, None if there is none."""

    topic: str
    partition: int
    offset: int | None
    end_offset: int
    lag: int

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "end_offset": self.end_offset,
            "lag": self.lag,
        }


@dataclass(frozen=True, slots=True)
class BatchShare:
    """How many batches there were for which columns were tried, and which of them went by records."""

    batches: int
    by_records: int
    because: str
    """Why, of the last one."""

    def to_json(self) -> dict[str, Any]:
        return {"batches": self.batches, "by_records": self.by_records, "because": self.because or None}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> BatchShare:
        return cls(int(body["batches"]), int(body["by_records"]), str(body["because"] or ""))


@dataclass(frozen=True, slots=True)
class SinkLag:
    """How far a sink is behind, by partition; `problem` says why it is not known."""

    partitions: tuple[PartitionLag, ...] = ()
    problem: str | None = None

    @property
    def total(self) -> int | None:
        """Returns None if it is not known."""
        return None if self.problem is not None else sum(item.lag for item in self.partitions)

    @property
    def by_topic(self) -> dict[str, int]:
        """The lag in each topic."""
        found: dict[str, int] = {}
        for item in self.partitions:
            found[item.topic] = found.get(item.topic, 0) + item.lag
        return found

    def to_json(self) -> dict[str, Any]:
        body = {"total": self.total, "partitions": [item.to_json() for item in self.partitions]}
        return body if self.problem is None else {**body, "problem": self.problem}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> SinkLag:
        """Errors: KeyError, TypeError, ValueError for what `to_json` did not write."""
        partitions = tuple(
            PartitionLag(
                str(item["topic"]),
                int(item["partition"]),
                None if item["offset"] is None else int(item["offset"]),
                int(item["end_offset"]),
                int(item["lag"]),
            )
            for item in body["partitions"]
        )
        problem = body.get("problem")
        return cls(partitions, None if problem is None else str(problem))


def offsets_to_json(offsets: Sequence[ConnectorOffset]) -> dict[str, Any]:
    """The body of `GET /connectors/X/offsets`, which PATCH accepts as it is."""
    return {"offsets": [offset.to_json() for offset in offsets]}


def offsets_from_json(body: object) -> list[ConnectorOffset]:
    """Read what `offsets_to_json` wrote. Errors: BadRequestError that names the invalid place.

    Shape: an element `{}` is kept with an empty partition, as Java does; connectors ignore it.
    Differs: an offset without its partition, and unknown fields, Java answers with 500.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("offsets"), list):
        raise BadRequestError('Expected a JSON object {"offsets": [{"partition": {..}, "offset": {..}}, ..]}')
    found = []
    for index, item in enumerate(body["offsets"]):
        if not isinstance(item, Mapping):
            raise BadRequestError(f"offsets[{index}] must be an object with partition and offset")
        if unknown := item.keys() - {"partition", "offset"}:
            raise BadRequestError(f'offsets[{index}]: unknown field "{min(unknown)}"; known are partition and offset')
        partition, offset = item.get("partition"), item.get("offset")
        if partition is None and offset is not None:
            raise BadRequestError(f"offsets[{index}]: the partition of an offset cannot be null or missing")
        partition = {} if partition is None else partition
        if not isinstance(partition, Mapping) or not (offset is None or isinstance(offset, Mapping)):
            raise BadRequestError(f"offsets[{index}]: partition and offset must be objects")
        found.append(ConnectorOffset(partition, offset))
    return found


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Everything a slot needs to run one task; sent to it as JSON.

    `run` increases with each start of the same task, so that reports of earlier runs can be dropped.
    """

    id: TaskId
    run: int
    type: ConnectorType
    connector_config: Mapping[str, str] = field(repr=False)
    task_config: Mapping[str, str] = field(repr=False)
    worker_config: Mapping[str, str] = field(repr=False)
    target_state: TargetState = TargetState.STARTED

    def to_json(self) -> dict[str, Any]:
        return {
            "connector": self.id.connector,
            "task": self.id.task,
            "run": self.run,
            "type": str(self.type),
            "connector_config": dict(self.connector_config),
            "task_config": dict(self.task_config),
            "worker_config": dict(self.worker_config),
            "target_state": str(self.target_state),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TaskSpec:
        return cls(
            id=TaskId(body["connector"], body["task"]),
            run=body["run"],
            type=ConnectorType(body["type"]),
            connector_config=body["connector_config"],
            task_config=body["task_config"],
            worker_config=body["worker_config"],
            target_state=TargetState(body["target_state"]),
        )


def _state_json(status: ConnectorState | TaskState) -> dict[str, Any]:
    """In Java's field order; an unknown version is null, a trace appears only if there is one."""
    body: dict[str, Any] = {"state": str(status.state), "worker_id": status.worker_id, "version": status.version}
    if status.trace:
        body["trace"] = status.trace
    if status.restarts is not None:
        body["restarts"] = status.restarts.to_json()
    if status.condition is not None:
        body["condition"] = status.condition.to_json()
    return body
