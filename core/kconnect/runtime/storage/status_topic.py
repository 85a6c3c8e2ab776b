"""Records of the status topic: keys and values in Java's bytes, and records parsed into events.

Source: KafkaStatusBackingStore, ConnectorStatus, TaskStatus, TopicStatus (Kafka 4.3, the first that writes `version`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from kconnect.java.compat.jackson import jackson_text
from kconnect.model import RunState, TaskId

Subject = str | TaskId
"""The subject of a status: a connector, by name, or a task."""

_CONNECTOR, _TASK, _TOPIC, _TOPIC_END = "status-connector-", "status-task-", "status-topic-", ":connector-"
_TASK_KEY = re.compile(r"(.+)-([0-9]{1,10})", re.DOTALL)
_MAX_INT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """What a worker reports of a connector or task; `generation` is that of the worker group at the time.

    A status DESTROYED is written as a tombstone. Source: AbstractStatus.
    """

    state: RunState
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    at_ms: int | None = field(default=None, compare=False)
    """When its record was written, of one that was read; None: the log does not say."""


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A topic that a connector has used, by which of its tasks and when first. Source: TopicStatus (KIP-558)."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


@dataclass(frozen=True, slots=True)
class StatusRead:
    """A status was read; None means deleted."""

    subject: Subject
    status: StoredStatus | None


@dataclass(frozen=True, slots=True)
class TopicRead:
    """The use of a topic was read; None means removed."""

    connector: str
    topic: str
    use: TopicUse | None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A record that is ignored, and why."""

    reason: str


StatusEvent = StatusRead | TopicRead | Ignored


def status_key(subject: Subject) -> bytes:
    """The key of a status: `status-connector-X` or `status-task-X-0`."""
    prefix = _TASK if isinstance(subject, TaskId) else _CONNECTOR
    return f"{prefix}{subject}".encode(errors="replace")  # like Java's String.getBytes


def topic_key(connector: str, topic: str) -> bytes:
    """The key of a topic's use: `status-topic-T:connector-X`."""
    return f"{_TOPIC}{topic}{_TOPIC_END}{connector}".encode(errors="replace")


def encode_status(status: StoredStatus) -> bytes | None:
    """The value of a status, None (a tombstone) for DESTROYED."""
    if status.state is RunState.DESTROYED:
        return None
    return jackson_text(
        {
            "state": str(status.state),
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }
    ).encode()


def encode_topic_use(use: TopicUse) -> bytes:
    """The value of a topic's use."""
    inner = {
        "name": use.topic,
        "connector": use.connector,
        "task": use.task,
        "discoverTimestamp": use.discovered_ms,
    }
    return jackson_text({"topic": inner}).encode()


def decode_record(key: bytes | None, value: bytes | None) -> StatusEvent:
    """Parse a record. Never raises: unreadable records become `Ignored`, with the reason.

    Differs: keys that Java reads by accident (`status-task--0`, `status-task-X-0-`, another word in place of
    `:connector-`) and values without a worker or with a number beyond 32 bits are ignored.
    """
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return Ignored("its key is not UTF-8")
    try:
        if text.startswith(_CONNECTOR):
            return _read_status(text.removeprefix(_CONNECTOR), value)
        if text.startswith(_TASK):
            return _read_status(_task_of(text.removeprefix(_TASK)), value)
        if text.startswith(_TOPIC):
            return _read_topic(text.removeprefix(_TOPIC), value)
    except _NotReadable as err:
        return Ignored(err.reason)
    return Ignored("its key is none of a status topic")


class _NotReadable(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _task_of(text: str) -> TaskId:
    """Connector and task number; the name may contain dashes and end in numbers itself."""
    found = _TASK_KEY.fullmatch(text)
    if found is None or int(found[2]) > _MAX_INT:
        raise _NotReadable("its key does not end in a connector's name and the number of a task")
    return TaskId(found[1], int(found[2]))


def _read_status(subject: Subject, value: bytes | None) -> StatusRead:
    if not subject:
        raise _NotReadable("its key names no connector")
    if value is None:
        return StatusRead(subject, None)
    body = _object(value)
    state = body.get("state")
    if not isinstance(state, str) or state not in RunState.__members__:
        raise _NotReadable("its value has no known state")
    generation = _integer(body, "generation", 32)
    worker_id = _text(body, "worker_id")
    if worker_id is None:
        raise _NotReadable("its value has no worker_id")
    return StatusRead(
        subject, StoredStatus(RunState(state), worker_id, generation, _text(body, "trace"), _text(body, "version"))
    )


def _read_topic(text: str, value: bytes | None) -> TopicRead:
    topic, separator, rest = text.partition(":")  # a topic name has no colon, a connector name may
    if not separator or not f":{rest}".startswith(_TOPIC_END):
        raise _NotReadable("its key has no :connector- behind the topic")
    connector = f":{rest}".removeprefix(_TOPIC_END)
    if not topic or not connector:
        raise _NotReadable("its key names no topic or no connector")
    if value is None:
        return TopicRead(connector, topic, None)
    inner = _object(value).get("topic")
    if not isinstance(inner, dict):
        raise _NotReadable("its value has no object topic")
    name, owner = _text(inner, "name"), _text(inner, "connector")
    if name is None or owner is None:
        raise _NotReadable("its value names no topic or no connector")
    use = TopicUse(name, owner, _integer(inner, "task", 32), _integer(inner, "discoverTimestamp", 64))
    return TopicRead(connector, topic, use)


def _object(value: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(value, parse_constant=_no_number)
    except (ValueError, RecursionError) as err:
        raise _NotReadable("its value is not JSON") from err
    if not isinstance(parsed, dict):
        raise _NotReadable("its value is not a JSON object")
    return parsed


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _text(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _NotReadable(f"its {name} is not a text")


def _integer(body: dict[str, Any], name: str, bits: int) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _NotReadable(f"its {name} is not a whole number of {bits} bits")
    return value
