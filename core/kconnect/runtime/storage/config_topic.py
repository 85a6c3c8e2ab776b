"""Records of the config topic as bytes and as values: connectors, tasks, commits, target states and the rest.

Pure. Writes what Java writes, byte for byte, and reads what Java reads, however its JSON is spelled.
Source: KafkaConfigBackingStore with JsonConverter(schemas.enable=false) (Kafka 4.3).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from kconnect.java.compat import jackson
from kconnect.java.compat.jackson import jackson_text
from kconnect.java.compat.utf8 import decode_as_java
from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage.session_key import SessionKey

StringMap = Mapping[str, str]
"""Settings. A plugin may have given a task a None value, which is kept; the type omits that, as Java's does."""

TARGET_STATE: Final = "target-state-"
CONNECTOR: Final = "connector-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
RESTART: Final = "restart-connector-"
_AUTOMATIC: Final = "kconnect.automatic"
TASK_COUNT: Final = "tasks-fencing-"
LOGGER: Final = "logger-cluster-"
SESSION_KEY: Final = "session-key"


@dataclass(frozen=True, slots=True)
class ForeignRecord:
    """A record that another leader wrote; only leaders write its kind."""

    key: str
    offset: int


@dataclass(frozen=True, slots=True)
class ConnectorConfigured:
    """`connector-X`: the config of a connector; None if deleted."""

    connector: str
    config: StringMap | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskConfigured:
    """`task-X-N`: the config of a task, in effect from the next commit."""

    task: TaskId
    config: StringMap = field(repr=False)


@dataclass(frozen=True, slots=True)
class TasksCommitted:
    """`commit-X`: the number of tasks of a connector, with the configs written before it."""

    connector: str
    count: int


@dataclass(frozen=True, slots=True)
class TargetStateSet:
    """`target-state-X`: the target state of a connector; None if removed."""

    connector: str
    state: TargetState | None


CONNECTOR_ITSELF: Final = -1
"""Stands for the connector among the numbers of its tasks."""


@dataclass(frozen=True, slots=True)
class PartRestarts:
    """How often one part of a connector was restarted by itself, within its window."""

    part: int
    """The number of a task, or `CONNECTOR_ITSELF`."""
    count: int
    last_ms: int
    """When last."""
    record: str = ""
    """A digest of the record that it last failed on; empty if it was not about a record."""


@dataclass(frozen=True, slots=True)
class AutomaticRestart:
    """What the leader restarts, and all that counts against the connector's budget: it is the memory of the next
    leader.
    """

    parts: tuple[int, ...]
    restarts: tuple[PartRestarts, ...]


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """`restart-connector-X` (KIP-745). Source: RestartRequest."""

    connector: str
    only_failed: bool
    include_tasks: bool
    automatic: AutomaticRestart | None = None
    """Marks a restart that nobody requested: the leader restarts what has failed. Java's workers do not look at it."""


@dataclass(frozen=True, slots=True)
class TaskCountRecorded:
    """`tasks-fencing-X`: how many task producers must be fenced before the next tasks run (KIP-618)."""

    connector: str
    count: int


@dataclass(frozen=True, slots=True)
class SessionKeySet:
    """`session-key`: the key with which workers sign requests from now on."""

    session_key: SessionKey


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """`logger-cluster-NAME`: the level of a logger on every worker (KIP-976)."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A null value that means nothing to Connect: task, commit, fencing, restart, session key, logger."""

    key: str
    offset: int


@dataclass(frozen=True, slots=True)
class Malformed:
    """A malformed record of a known kind; Connect ignores it."""

    key: str
    offset: int
    why: str
    is_json: bool = True
    """False if the value could not even be parsed: Java then does not count the record as read."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A record of an unknown kind."""

    key: str
    offset: int
    is_json: bool = True


ConfigRecord = (
    ConnectorConfigured
    | TaskConfigured
    | TasksCommitted
    | TargetStateSet
    | RestartRequested
    | TaskCountRecorded
    | SessionKeySet
    | LoggerLevelSet
    | Tombstone
    | Malformed
    | Unknown
)


def decode(record: LogRecord) -> ConfigRecord:
    """The meaning of a record. Never raises, whatever the bytes are."""
    key = decode_as_java(record.key or b"")
    kind = read_key(key)
    try:
        value = _parse(record.value)
    except (ValueError, ArithmeticError, RecursionError) as error:  # text, numbers and nesting that are not valid JSON
        why = f"the value is not JSON: {error}"
        return Unknown(key, record.offset, False) if kind is None else Malformed(key, record.offset, why, False)
    if kind is None:
        return Unknown(key, record.offset)
    prefix, name = kind
    if value is None and prefix not in _TOMBSTONE_COUNTS:
        return Tombstone(key, record.offset)
    if value is not None and not isinstance(value, dict):
        return Malformed(key, record.offset, f"the value is {_kind_of(value)}, not an object")
    try:
        return _READERS[prefix](name, value)
    except _WrongError as error:
        return Malformed(key, record.offset, str(error))


def read_key(key: str) -> tuple[str, str] | None:
    """The kind of record (the start of its key) and its subject (the rest); None if the kind is unknown."""
    if key == SESSION_KEY:
        return SESSION_KEY, ""
    for prefix in _PREFIXES:
        if key.startswith(prefix):
            return prefix, key[len(prefix) :]
    return None


def is_leaders(key: str) -> bool:
    """Whether only the leader writes such records; any worker may write target states and logger levels."""
    kind = read_key(key)
    return kind is not None and kind[0] not in (TARGET_STATE, LOGGER)


class _WrongError(Exception):
    """Why a value is not valid for its kind of record."""


def _parse(value: bytes | None) -> Any:
    parsed = None if value is None else jackson.parse(value)
    return None if parsed is jackson.MISSING else parsed


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "missing or null"
        case bool():
            return "a boolean"
        case str():
            return "text"
        case dict():
            return "an object"
        case list():
            return "a list"
    return "a number"


def _connector(name: str, value: dict[str, Any] | None) -> ConfigRecord:
    return ConnectorConfigured(name, None if value is None else _properties(value))


def _task(rest: str, value: dict[str, Any]) -> ConfigRecord:
    task = _task_id(rest)
    if task is None:
        raise _WrongError("the key does not end with the number of a task")
    return TaskConfigured(task, _properties(value))


_NUMBER = re.compile(r"\+?\d+")


def _task_id(rest: str) -> TaskId | None:
    """Connector and number of `X-N`, split as in Java: trailing dashes are ignored, and X may contain dashes."""
    connector, dash, number = rest.rstrip("-").rpartition("-")
    if not dash or not _NUMBER.fullmatch(number) or len(number) > _INT_DIGITS:
        return None
    task = int(number)
    return TaskId(connector, task) if task <= _INT_MAX else None


_INT_MAX = 2**31 - 1
_INT_DIGITS = 20  # more digits would be leading zeros, or too large


def _properties(value: dict[str, Any]) -> StringMap:
    """Differs: Java accepts a setting that is not text, and fails where it is used."""
    found = value.get("properties")
    if not isinstance(found, dict):
        raise _WrongError(f"'properties' is {_kind_of(found)}, not an object")
    for setting, text in found.items():
        if text is not None and not isinstance(text, str):
            raise _WrongError(f"'properties' has a setting {setting!r} that is {_kind_of(text)}, not text")
    return cast("StringMap", found)


def _commit(name: str, value: dict[str, Any]) -> ConfigRecord:
    return TasksCommitted(name, _count(value, "tasks"))


def _task_count(name: str, value: dict[str, Any]) -> ConfigRecord:
    return TaskCountRecorded(name, _count(value, "task-count"))


def _count(value: dict[str, Any], name: str) -> int:
    """Differs: Java accepts negative numbers, truncates large ones to 32 bits and stops reading at a fraction."""
    count = value.get(name)
    if isinstance(count, bool) or not isinstance(count, int):
        raise _WrongError(f"'{name}' is {_kind_of(count)}, not a whole number")
    if not 0 <= count <= _INT_MAX:
        raise _WrongError(f"'{name}' is {count}, not a number of tasks")
    return count


def _target_state(name: str, value: dict[str, Any] | None) -> ConfigRecord:
    if value is None:
        return TargetStateSet(name, None)
    found = value.get("state.v2")
    if not isinstance(found, str):
        found = value.get("state")  # written by a worker before 3.5, which does not know STOPPED
    if not isinstance(found, str):
        raise _WrongError(f"'state' is {_kind_of(found)}, not text")
    if found not in TargetState.__members__:
        raise _WrongError(f"unknown state {found!r}")
    return TargetStateSet(name, TargetState(found))


def _restart(name: str, value: dict[str, Any]) -> ConfigRecord:
    automatic = _automatic(value.get(_AUTOMATIC))
    return RestartRequested(name, value.get("only-failed") is True, value.get("include-tasks") is True, automatic)


def _automatic(value: Any) -> AutomaticRestart | None:
    """What another form than ours says is left out: the record is then an ordinary request, as Java reads it."""
    try:
        parts = tuple(_int(part) for part in value["parts"])
        restarts = tuple(
            PartRestarts(_int(each["part"]), _int(each["count"]), _int(each["last-ms"]), str(each.get("record", "")))
            for each in value["restarts"]
        )
    except (TypeError, KeyError, AttributeError):
        return None
    return AutomaticRestart(parts, restarts)


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def _session_key(_: str, value: dict[str, Any]) -> ConfigRecord:
    text, algorithm, created_ms = value.get("key"), value.get("algorithm"), value.get("creation-timestamp")
    if not isinstance(text, str):
        raise _WrongError(f"'key' is {_kind_of(text)}, not text")
    if not isinstance(algorithm, str):
        raise _WrongError(f"'algorithm' is {_kind_of(algorithm)}, not text")
    if isinstance(created_ms, bool) or not isinstance(created_ms, int):
        raise _WrongError(f"'creation-timestamp' is {_kind_of(created_ms)}, not a whole number")
    try:
        key = base64.b64decode(text if text.endswith("=") else text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _WrongError("'key' is not Base64") from error
    if not key:
        raise _WrongError("'key' is empty")
    return SessionKeySet(SessionKey(key, algorithm, created_ms))


def _logger(name: str, value: dict[str, Any]) -> ConfigRecord:
    level = value.get("level")
    if not isinstance(level, str):
        raise _WrongError(f"'level' is {_kind_of(level)}, not text")
    return LoggerLevelSet(name, level)


_READERS: dict[str, Callable[[str, Any], ConfigRecord]] = {
    TARGET_STATE: _target_state,
    CONNECTOR: _connector,
    TASK: _task,
    COMMIT: _commit,
    RESTART: _restart,
    TASK_COUNT: _task_count,
    SESSION_KEY: _session_key,
    LOGGER: _logger,
}
_PREFIXES = tuple(prefix for prefix in _READERS if prefix != SESSION_KEY)
_TOMBSTONE_COUNTS = (CONNECTOR, TARGET_STATE)


EncodedRecord = tuple[bytes, bytes]


def encode_connector(connector: str, config: StringMap) -> EncodedRecord:
    """The order of the settings is kept."""
    return _written(CONNECTOR + connector, {"properties": config})


def encode_task(task: TaskId, config: StringMap) -> EncodedRecord:
    """The order of the settings is kept; Java's is that of `hash_map_order`."""
    return _written(f"{TASK}{task.connector}-{task.task}", {"properties": config})


def encode_commit(connector: str, task_count: int) -> EncodedRecord:
    return _written(COMMIT + connector, {"tasks": task_count})


def encode_target_state(connector: str, state: TargetState) -> EncodedRecord:
    """Workers before 3.5 read only `state` and do not know STOPPED: they see PAUSED."""
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _written(TARGET_STATE + connector, {"state": old, "state.v2": state})


def encode_restart(request: RestartRequested) -> EncodedRecord:
    value: dict[str, Any] = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    if request.automatic is not None:
        value[_AUTOMATIC] = {
            "parts": list(request.automatic.parts),
            "restarts": [
                {"part": each.part, "count": each.count, "last-ms": each.last_ms, "record": each.record}
                for each in request.automatic.restarts
            ],
        }
    return _written(RESTART + request.connector, value)


def encode_task_count(connector: str, task_count: int) -> EncodedRecord:
    return _written(TASK_COUNT + connector, {"task-count": task_count})


def encode_session_key(session_key: SessionKey) -> EncodedRecord:
    value = {
        "key": session_key.key,  # Base64 in JSON
        "algorithm": session_key.algorithm,
        "creation-timestamp": session_key.created_ms,
    }
    return _written(SESSION_KEY, value)


def encode_logger_level(logger: str, level: str) -> EncodedRecord:
    return _written(LOGGER + logger, {"level": level})


def tombstone_of_connector(connector: str) -> tuple[bytes, None]:
    return _key(CONNECTOR + connector), None


def tombstone_of_target_state(connector: str) -> tuple[bytes, None]:
    return _key(TARGET_STATE + connector), None


def _written(key: str, value: Mapping[str, Any]) -> EncodedRecord:
    return _key(key), jackson_text(value).encode()


def _key(key: str) -> bytes:
    return key.encode("utf-8", "replace")  # Java also writes `?` for half a surrogate pair
