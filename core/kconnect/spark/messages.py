"""Messages of the control link, and the table that defines the JSON of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

import kconnect
from kconnect.errors import LinkError, LinkRefusedError
from kconnect.logs.traces import sendable
from kconnect.model import ConnectorOffset, RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.metrics import TaskCounters

PROTOCOL_VERSION: Final = 1
"""Incremented with every incompatible change; both sides refuse any other version."""


# The handshake, in this order; nothing else is accepted before it is complete.
@dataclass(frozen=True, slots=True)
class Challenge:
    """Worker to slot: prove that you know the token."""

    nonce: str


@dataclass(frozen=True, slots=True)
class ChallengeResponse:
    """Slot to worker: my proof; now prove that you know it too."""

    nonce: str
    proof: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Welcome:
    """Worker to slot: my proof."""

    proof: str = field(repr=False)


# Slot to worker.
@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a slot: who it is. `parent_pid` is the Python daemon that forked it."""

    slot: int
    host: str
    pid: int
    parent_pid: int
    version: str = kconnect.__version__


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task of the slot reached a state."""

    id: TaskId
    run: int
    state: RunState
    trace: str | None


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """Answer to StopTasks; `left` are the tasks that did not end in time."""

    request: int
    left: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """A task asks for committed source offsets."""

    request: int
    connector: str
    partitions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class OffsetsCommit:
    """A task asks to make source offsets durable."""

    request: int
    connector: str
    offsets: tuple[ConnectorOffset, ...]


@dataclass(frozen=True, slots=True)
class RunCheck:
    """An exactly-once task is about to write, and asks whether this run is still current."""

    request: int
    id: TaskId
    run: int


@dataclass(frozen=True, slots=True)
class ReconfigureRequest:
    """A task asks for new task configs from its connector."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskTopic:
    """A task has written to a topic or read from it; sent once, and again after ForgetTopics."""

    id: TaskId
    topic: str


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Changed counters: task, run, and its totals since it started."""

    tasks: tuple[tuple[TaskId, int, TaskCounters], ...]


@dataclass(frozen=True, slots=True)
class FailedRecords:
    """A process of a query asks which of these records, of one range, are reported; or says that all of them are.

    The answer to the question is the same with those that are.
    """

    id: TaskId
    run: int
    topic: str
    partition: int
    begin: int
    end: int
    offsets: tuple[int, ...]
    are_reported: bool


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """What a slot's threads want: percent of a core, used or waited for, since the last time."""

    percent: float
    tasks: tuple[tuple[TaskId, float], ...]
    """The part of the threads of these tasks. Others want nothing, or it is not known."""


@dataclass(frozen=True, slots=True)
class TaskConditions:
    """Changed conditions: task, run, and condition."""

    tasks: tuple[tuple[TaskId, int, TaskCondition], ...]


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line for the worker's log. `context` is the text of the task's log context, such as `[orders|task-0] `."""

    level: int
    logger: str
    line: int
    created_s: float
    thread: str
    context: str
    text: str


@dataclass(frozen=True, slots=True)
class Console:
    """What a plugin wrote to standard output."""

    text: str


# Worker to slot.
@dataclass(frozen=True, slots=True)
class StartTask:
    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class StopTasks:
    """Stop these gracefully, then answer with TasksStopped."""

    request: int
    ids: tuple[TaskId, ...]
    timeout_ms: int
    is_cut_off: bool = False
    """Is that of `Launcher.stop_tasks`."""


@dataclass(frozen=True, slots=True)
class SetTargetState:
    ids: tuple[TaskId, ...]
    state: TargetState


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Report each topic that tasks of this connector use from now on again."""

    connector: str


@dataclass(frozen=True, slots=True)
class SetLogLevel:
    """Give a logger, and those below it, a level."""

    logger: str
    level: int


@dataclass(frozen=True, slots=True)
class OffsetsReply:
    """Answer to OffsetsRead: one offset for each partition, or the reason why not."""

    request: int
    offsets: tuple[Mapping[str, Any] | None, ...]
    error: str | None


@dataclass(frozen=True, slots=True)
class OffsetsAck:
    """Answer to OffsetsCommit: durable when `error` is None. To RunCheck: current when it is."""

    request: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Quit:
    """Stop all tasks gracefully within the timeout, then exit."""

    timeout_ms: int


# Both ways.
@dataclass(frozen=True, slots=True)
class Refused:
    """Ends the handshake: the two sides do not match; the reason names both."""

    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The sender is alive. A slot adds its number of abandoned tasks and its resource usage; a worker adds nothing.

    The name is that of the link's protocol; `herder.group.frames.Heartbeat` is that of Kafka's.
    """

    leftovers: int = 0
    cpu_s: float = 0.0
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    java_ports: tuple[int, ...] = ()
    """On which its JVMs of Java's plugins listen."""


Message = (
    Challenge
    | ChallengeResponse
    | Welcome
    | Hello
    | TaskReport
    | TasksStopped
    | OffsetsRead
    | OffsetsCommit
    | RunCheck
    | ReconfigureRequest
    | TaskTopic
    | TaskMetrics
    | FailedRecords
    | TaskConditions
    | SlotDemand
    | LogLine
    | Console
    | StartTask
    | StopTasks
    | SetTargetState
    | ForgetTopics
    | SetLogLevel
    | OffsetsReply
    | OffsetsAck
    | Quit
    | Refused
    | Heartbeat
)


def encode(message: Message) -> bytes:
    """The JSON body of a message. Errors: LinkError for a value JSON cannot carry, such as a plugin's own type."""
    name, fields = _BY_CLASS[type(message)]
    body: dict[str, Any] = {"v": PROTOCOL_VERSION, "type": name}
    for key, codec in fields.items():
        body[key] = codec.write(getattr(message, key))
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        if isinstance(message, StartTask):  # all text; of REST, and of Java's workers, also half a surrogate pair
            return json.dumps(body).encode("ascii")
        raise LinkError(
            f"A {name} message cannot be sent: {error}",
            hint="Source partitions and offsets may hold text, numbers, booleans and null only.",
        ) from error


def decode(body: bytes | bytearray | memoryview) -> Message:
    """Read what `encode` wrote.

    Errors: LinkRefusedError for another version, LinkError for all else: unknown type, missing or odd field.
    """
    try:
        raw = _loaded(body)
    except (ValueError, RecursionError) as error:
        raise LinkError("Not a message: the frame is not JSON") from error
    version = raw.get("v") if isinstance(raw, dict) else None
    if type(version) is not int:  # bool is an int to Python, never to us
        raise LinkError("Not a message: the frame has no version of the control link")
    if version != PROTOCOL_VERSION:
        raise LinkRefusedError(
            f"one end speaks version {version} of the control link, the other version {PROTOCOL_VERSION}: "
            "install one version of kconnect on both"
        )
    name = raw.get("type")
    if not isinstance(name, str) or name not in _BY_NAME:
        raise LinkError("A message of an unknown type was refused")
    cls, fields = _BY_NAME[name]
    try:
        values = {key: codec.read(raw[key]) for key, codec in fields.items()}
    except (KeyError, TypeError, ValueError, LinkError) as error:
        raise LinkError(f"A {name} message with a missing or wrong field was refused") from error
    message: Message = cls(**values)
    return message


def _loaded(body: bytes | bytearray | memoryview) -> Any:  # JSON
    """Errors: ValueError, RecursionError."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:  # half a surrogate pair, see `encode`
        return json.loads(bytes(body).decode("ascii"))


@dataclass(frozen=True, slots=True)
class _Codec:
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _plain(*kinds: type) -> _Codec:
    def read(value: Any) -> Any:
        # bool is an int to Python, never to us
        if type(value) not in kinds:
            raise ValueError(f"expected {kinds}")
        return value

    return _Codec(lambda value: value, read)


def _many(item: _Codec) -> _Codec:
    return _Codec(
        lambda values: [item.write(value) for value in values],
        lambda values: tuple(item.read(value) for value in _LIST.read(values)),
    )


def _read_task_id(value: Any) -> TaskId:
    return TaskId(_TEXT.read(value["connector"]), _INT.read(value["task"]))


def _read_spec(value: Any) -> TaskSpec:
    _TEXT.read(value["connector"])
    _INT.read(value["task"])
    _INT.read(value["run"])
    for key in ("connector_config", "task_config", "worker_config"):
        for name, text in _MAP.read(value[key]).items():
            _TEXT.read(name)
            _TEXT_OR_NONE.read(text)  # a connector may give its tasks settings without value, as in Java
    return TaskSpec.from_json(value)


def _read_offset(value: Any) -> ConnectorOffset:
    return ConnectorOffset(_MAP.read(value["partition"]), _MAP_OR_NONE.read(value["offset"]))


def _write_counted(value: tuple[TaskId, int, TaskCounters]) -> list[Any]:
    task_id, run, counters = value
    return [task_id.connector, task_id.task, run, counters.to_json()]


def _read_counted(value: Any) -> tuple[TaskId, int, TaskCounters]:
    connector, task, run, counters = value
    return TaskId(_TEXT.read(connector), _INT.read(task)), _INT.read(run), TaskCounters.from_json(_MAP.read(counters))


def _write_share(value: tuple[TaskId, float]) -> list[Any]:
    task_id, percent = value
    return [task_id.connector, task_id.task, percent]


def _read_share(value: Any) -> tuple[TaskId, float]:
    connector, task, percent = value
    return TaskId(_TEXT.read(connector), _INT.read(task)), _FLOAT.read(percent)


def _write_condition(value: tuple[TaskId, int, TaskCondition]) -> list[Any]:
    task_id, run, condition = value
    said = {key: sendable(item) if isinstance(item, str) else item for key, item in condition.to_json().items()}
    return [task_id.connector, task_id.task, run, said]


def _read_condition(value: Any) -> tuple[TaskId, int, TaskCondition]:
    connector, task, run, condition = value
    return TaskId(_TEXT.read(connector), _INT.read(task)), _INT.read(run), TaskCondition.from_json(_MAP.read(condition))


_INT = _plain(int)
_BOOL = _plain(bool)
_FLOAT = _plain(float, int)
_TEXT = _plain(str)
_TEXT_OR_NONE = _plain(str, type(None))
# Of plugins: their errors and lines may have text that no UTF-8 has
_SAID = _Codec(sendable, _TEXT.read)
_SAID_OR_NONE = _Codec(lambda value: None if value is None else sendable(value), _TEXT_OR_NONE.read)
_LIST = _plain(list)
_MAP = _plain(dict)
_MAP_OR_NONE = _plain(dict, type(None))
_A_MAP = _Codec(dict, _MAP.read)
_A_MAP_OR_NONE = _Codec(lambda value: None if value is None else dict(value), _MAP_OR_NONE.read)
_TASK_ID = _Codec(TaskId.to_json, _read_task_id)
_SPEC = _Codec(TaskSpec.to_json, _read_spec)
_OFFSET = _Codec(ConnectorOffset.to_json, _read_offset)
_RUN_STATE = _Codec(str, RunState)
_TARGET_STATE = _Codec(str, TargetState)

_BY_NAME: Final[dict[str, tuple[Any, dict[str, _Codec]]]] = {
    "challenge": (Challenge, {"nonce": _TEXT}),
    "answer": (ChallengeResponse, {"nonce": _TEXT, "proof": _TEXT}),
    "welcome": (Welcome, {"proof": _TEXT}),
    "hello": (Hello, {"slot": _INT, "host": _TEXT, "pid": _INT, "parent_pid": _INT, "version": _TEXT}),
    "task_report": (TaskReport, {"id": _TASK_ID, "run": _INT, "state": _RUN_STATE, "trace": _SAID_OR_NONE}),
    "tasks_stopped": (TasksStopped, {"request": _INT, "left": _many(_TASK_ID)}),
    "offsets_read": (OffsetsRead, {"request": _INT, "connector": _TEXT, "partitions": _many(_A_MAP)}),
    "offsets_commit": (OffsetsCommit, {"request": _INT, "connector": _TEXT, "offsets": _many(_OFFSET)}),
    "run_check": (RunCheck, {"request": _INT, "id": _TASK_ID, "run": _INT}),
    "reconfigure": (ReconfigureRequest, {"connector": _TEXT}),
    "task_topic": (TaskTopic, {"id": _TASK_ID, "topic": _TEXT}),
    "task_metrics": (TaskMetrics, {"tasks": _many(_Codec(_write_counted, _read_counted))}),
    "failed_records": (
        FailedRecords,
        {
            "id": _TASK_ID,
            "run": _INT,
            "topic": _TEXT,
            "partition": _INT,
            "begin": _INT,
            "end": _INT,
            "offsets": _many(_INT),
            "are_reported": _BOOL,
        },
    ),
    "slot_demand": (SlotDemand, {"percent": _FLOAT, "tasks": _many(_Codec(_write_share, _read_share))}),
    "task_conditions": (TaskConditions, {"tasks": _many(_Codec(_write_condition, _read_condition))}),
    "log": (
        LogLine,
        {
            "level": _INT,
            "logger": _TEXT,
            "line": _INT,
            "created_s": _FLOAT,
            "thread": _TEXT,
            "context": _TEXT,
            "text": _SAID,
        },
    ),
    "console": (Console, {"text": _SAID}),
    "start_task": (StartTask, {"spec": _SPEC}),
    "stop_tasks": (StopTasks, {"request": _INT, "ids": _many(_TASK_ID), "timeout_ms": _INT, "is_cut_off": _BOOL}),
    "set_target_state": (SetTargetState, {"ids": _many(_TASK_ID), "state": _TARGET_STATE}),
    "forget_topics": (ForgetTopics, {"connector": _TEXT}),
    "set_log_level": (SetLogLevel, {"logger": _TEXT, "level": _INT}),
    "offsets_reply": (OffsetsReply, {"request": _INT, "offsets": _many(_A_MAP_OR_NONE), "error": _TEXT_OR_NONE}),
    "offsets_ack": (OffsetsAck, {"request": _INT, "error": _TEXT_OR_NONE}),
    "quit": (Quit, {"timeout_ms": _INT}),
    "refused": (Refused, {"reason": _TEXT}),
    "heartbeat": (
        Heartbeat,
        {
            "leftovers": _INT,
            "cpu_s": _FLOAT,
            "cpu_percent": _FLOAT,
            "memory_bytes": _INT,
            "java_ports": _many(_INT),
        },
    ),
}
_BY_CLASS: Final = {cls: (name, fields) for name, (cls, fields) in _BY_NAME.items()}
