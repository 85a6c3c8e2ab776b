"""What a record changes, in a sentence, for people following a topic. Pure; shows no values of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.record_json import shown_bytes
from kconnect.errors import DataError
from kconnect.java.compat.jackson import jackson_text
from kconnect.model import LogRecord, TaskId
from kconnect.runtime.storage.config_topic import (
    ConnectorConfigured,
    LoggerLevelSet,
    Malformed,
    RestartRequested,
    SessionKeySet,
    StringMap,
    TargetStateSet,
    TaskConfigured,
    TaskCountRecorded,
    TasksCommitted,
    Tombstone,
    decode,
)
from kconnect.runtime.storage.offset_topic import decode_key, decode_value
from kconnect.runtime.storage.snapshot import ConfigFold
from kconnect.runtime.storage.status_topic import Ignored, StatusRead, Subject, TopicRead, decode_record

Describe = Callable[[LogRecord], str]
"""A record, taken in order -> a sentence."""


def describer_of(which: InternalTopic, configs: ConfigFold | None = None) -> Describe:
    """Describes each record of a topic in a sentence. `configs`: what was read before; it is folded further."""
    if which is InternalTopic.STATUS:
        return _of_status
    if which is InternalTopic.OFFSET:
        return _of_offset
    fold = configs or ConfigFold()
    known: dict[str, StringMap] = dict(fold.snapshot().configs)

    def of_config(record: LogRecord) -> str:
        fold.apply(record)
        sentence = _of_config(record, known, fold)
        match decode(record):
            case ConnectorConfigured(name, None):
                known.pop(name, None)
            case ConnectorConfigured(name, config) if config is not None:
                known[name] = config
        return sentence

    return of_config


def _of_config(record: LogRecord, before: Mapping[str, StringMap], fold: ConfigFold) -> str:
    match decode(record):
        case ConnectorConfigured(name, None):
            return f"{name} is deleted"
        case ConnectorConfigured(name, config) if config is not None:
            return f"{name}: {_difference(before.get(name), config)}"
        case TaskConfigured(task, _):
            return f"{task.connector}: a config of task {task.task}, for the next commit"
        case TasksCommitted(name, count):
            missing = "; some of their configs are missing" if name in fold.snapshot().inconsistent else ""
            return f"{name}: {_many(count, 'task')} committed{missing}"
        case TargetStateSet(name, state):
            return f"{name}: its target state is removed" if state is None else f"{name}: target state {state}"
        case RestartRequested(name, only_failed, include_tasks):
            tasks = " and its tasks" if include_tasks else ""
            return f"{name}: restart of it{tasks} requested{', only if FAILED' if only_failed else ''}"
        case TaskCountRecorded(name, count):
            return f"{name}: {_many(count, 'producer')} of tasks to be fenced next time"
        case SessionKeySet():
            return "a new session key"
        case LoggerLevelSet(logger, level):
            return f"logger {logger}: {level} on all workers"
        case Tombstone(key, _):
            return f"{key} is deleted, which means nothing to a worker"
        case Malformed(key, _, why):
            return f"{key} is skipped by workers: {why}"
    return f"{_shown(record.key)} is of an unknown kind"


def _difference(before: StringMap | None, after: StringMap) -> str:
    if before is None:
        return "created"
    parts = [
        f"{what} {', '.join(sorted(keys))}"
        for what, keys in (
            ("changed", {key for key in before.keys() & after.keys() if before[key] != after[key]}),
            ("added", after.keys() - before.keys()),
            ("removed", before.keys() - after.keys()),
        )
        if keys
    ]
    return "; ".join(parts) or "the same config is written again"


def _of_status(record: LogRecord) -> str:
    match decode_record(record.key, record.value):
        case StatusRead(subject, None):
            return f"{_subject(subject)}: its status is removed"
        case StatusRead(subject, status) if status is not None:
            why = f": {status.trace.splitlines()[0]}" if status.trace else ""
            return f"{_subject(subject)} {status.state} on {status.worker_id}, generation {status.generation}{why}"
        case TopicRead(connector, topic, use):
            return f"{connector} {'no longer has topic' if use is None else 'uses topic'} {topic}"
        case Ignored(reason):
            return f"{_shown(record.key)} is skipped by workers: {reason}"
    return _shown(record.key)


def _of_offset(record: LogRecord) -> str:
    decoded = decode_key(record.key or b"")
    if decoded is None:
        return f"{_shown(record.key)} is of no connector"
    connector, partition = decoded
    try:
        offset = decode_value(record.value)
    except DataError as err:
        return f"{connector} {jackson_text(partition)}: {err}"
    return f"{connector} {jackson_text(partition)}: {'reset' if offset is None else jackson_text(offset)}"


def _subject(subject: Subject) -> str:
    return f"{subject.connector} task {subject.task}" if isinstance(subject, TaskId) else subject


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _shown(key: bytes | None) -> str:
    shown = shown_bytes(key)
    return f"base64:{shown['base64']}" if isinstance(shown, dict) else shown or "(no key)"
