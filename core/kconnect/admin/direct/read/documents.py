"""What the three topics hold, for people: documents for JSON and tables, the newest record of one key, or similar keys,
and what a record changes, in a sentence.

Pure. Secrets are masked unless requested; sentences show no values of settings.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.connector_types import connector_type
from kconnect.admin.direct.read.reader import ConfigView, Latest, OffsetView, StatusView
from kconnect.admin.direct.read.record_json import shown_bytes
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.clock import moment
from kconnect.errors import DataError
from kconnect.java.compat.jackson import jackson_text
from kconnect.logs.redaction import HIDDEN
from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage.config_topic import (
    LOGGER,
    SESSION_KEY,
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
    tombstone_of_connector,
    tombstone_of_target_state,
)
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key, decode_value
from kconnect.runtime.storage.snapshot import ConfigFold
from kconnect.runtime.storage.status_topic import Ignored, StatusRead, StoredStatus, Subject, TopicRead, decode_record


def config_document(
    view: ConfigView,
    connectors: Collection[str] | None = None,
    *,
    masks: SecretMasks | None = None,
    settings: bool = True,
    now_ms: int | None = None,
) -> dict[str, Any]:
    """The config topic; of these connectors only, where they are given, and then without what is the cluster's.

    Shape: offset (the one the next record gets), connectors, session_key (or None), loggers. A connector has name,
    type, class, target_state, tasks (how many were committed), inconsistent, lost_tasks, task_count_record,
    pending_fencing, records (where its config and its target state were written), config, task_configs. Without
    `settings`, config and task_configs are left out: masking a thousand of them takes 0.1 s.
    """
    masks = masks or SecretMasks()
    names = view.snapshot.connectors if connectors is None else [n for n in view.snapshot.connectors if n in connectors]
    document = {
        "offset": max(view.snapshot.offset, 0),
        "connectors": [_connector(view, name) | (_settings(view, name, masks) if settings else {}) for name in names],
    }
    if connectors is None:
        document |= {"session_key": _session_key(view, masks.reveal, now_ms), "loggers": _loggers(view.latest)}
    return document


def status_document(view: StatusView, connectors: Collection[str] | None = None) -> list[dict[str, Any]]:
    """The status topic: an entry for each connector that has a status, a task with one or a topic.

    Shape: name, connector (state, worker_id, generation, version, trace; or None), tasks (the same with id), topics
    (name, task, discovered). A trace or version that is not there is left out.
    """
    by_name: dict[str, dict[str, Any]] = {}

    def entry(name: str) -> dict[str, Any]:
        return by_name.setdefault(name, {"name": name, "connector": None, "tasks": [], "topics": []})

    for subject, status in view.statuses.statuses().items():
        if isinstance(subject, TaskId):
            entry(subject.connector)["tasks"].append({"id": subject.task, **_status(status)})
        else:
            entry(subject)["connector"] = _status(status)
    for (name, topic), use in view.statuses.uses().items():
        entry(name)["topics"].append({"name": topic, "task": use.task, "discovered": moment(use.discovered_ms)})
    return [by_name[name] for name in sorted(by_name) if connectors is None or name in connectors]


def known_connectors(view: ConfigView | StatusView | OffsetView) -> set[str]:
    """Connectors that have anything in a topic."""
    match view:
        case ConfigView():
            return set(view.snapshot.connectors)
        case StatusView():
            statuses = view.statuses.statuses()
            return {name if isinstance(name, str) else name.connector for name in statuses} | {
                name for name, _ in view.statuses.uses()
            }
    return {decoded[0] for key in view.entries if (decoded := decode_key(key)) is not None}


def _connector(view: ConfigView, name: str) -> dict[str, Any]:
    state, config = view.snapshot, view.snapshot.configs[name]
    records = {
        "config": _place(view.latest.get(tombstone_of_connector(name)[0])),
        "target_state": _place(view.latest.get(tombstone_of_target_state(name)[0])),
    }
    return {
        "name": name,
        "type": str(connector_type(config)),
        "class": config.get("connector.class"),
        "target_state": str(state.target_state(name) or TargetState.STARTED),
        "tasks": state.task_count(name),
        "inconsistent": name in state.inconsistent,
        "lost_tasks": name in state.overtaken,
        "task_count_record": state.task_count_record(name),
        "pending_fencing": state.is_pending_fencing(name),
        "records": records,
    }


def _settings(view: ConfigView, name: str, masks: SecretMasks) -> dict[str, Any]:
    tasks = view.snapshot.task_configs.get(name, {})
    return {
        "config": masks.settings(name, view.snapshot.configs[name]),
        "task_configs": [masks.settings(name, tasks[number]) for number in sorted(tasks)],
    }


def _place(record: LogRecord | None) -> dict[str, Any] | None:
    """Where a record stands; None when there is none that counts."""
    if record is None:
        return None
    return {"partition": record.partition, "offset": record.offset, "timestamp": moment(record.timestamp_ms)}


def _session_key(view: ConfigView, reveal: bool, now_ms: int | None) -> dict[str, Any] | None:
    found = view.snapshot.session_key
    if found is None:
        return None
    return {
        "algorithm": found.algorithm,
        "created": moment(found.created_ms),
        "age_s": None if now_ms is None else (now_ms - found.created_ms) // 1000,
        "key": base64.b64encode(found.key).decode() if reveal else HIDDEN,
        "record": _place(view.latest.get(SESSION_KEY.encode())),
    }


def _loggers(latest: Latest) -> list[dict[str, Any]]:
    found = []
    for record in latest.all():
        if record.key is None or not record.key.startswith(LOGGER.encode()):
            continue
        event = decode(record)
        if isinstance(event, LoggerLevelSet):
            found.append({"name": event.logger, "level": event.level, "record": _place(record)})
    return sorted(found, key=lambda logger: str(logger["name"]))


def _status(status: StoredStatus) -> dict[str, Any]:
    shown = {"state": str(status.state), "worker_id": status.worker_id, "generation": status.generation}
    optional = {"version": status.version, "trace": status.trace}
    return shown | {name: text for name, text in optional.items() if text is not None}


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


_MOST_NEAR = 5
# difflib takes 20 us a key
_MOST_COMPARED = 10_000


@dataclass(frozen=True, slots=True)
class Found:
    """`record`: the newest one, whose value is None when the key was deleted; None when the key was never there."""

    record: LogRecord | None
    near: list[str] = field(default_factory=list)
    """Other keys with a value, the most alike first; only when there is no value."""


def look_up(records: Iterable[LogRecord], key: bytes, *, is_offset: bool = False) -> Found:
    """Go through the records of a topic. Memory: the keys.

    `is_offset`: a key of an offset is also found in another spelling; the newest of all spellings counts.
    """
    form = canonical_key(key) if is_offset else key
    newest: LogRecord | None = None
    live: dict[bytes, None] = {}
    for record in records:
        found = record.key or b""
        if found == key or (is_offset and canonical_key(found) == form):
            if newest is None or _is_newer(record, newest):
                newest = record
        elif record.value is None:
            live.pop(found, None)
        else:
            live[found] = None
    if newest is not None and newest.value is not None:
        return Found(newest)
    return Found(newest, _near(key, live))


def _is_newer(record: LogRecord, other: LogRecord) -> bool:
    """Within a partition the order decides, whatever the timestamps; between partitions there is only the time."""
    if record.partition == other.partition:
        return record.offset > other.offset
    return (record.timestamp_ms or 0) >= (other.timestamp_ms or 0)


def _near(key: bytes, live: Iterable[bytes]) -> list[str]:
    wanted = key.decode(errors="replace")
    texts = [text for text in map(shown_bytes, live) if isinstance(text, str)]
    # `connector-X` and `commit-X` before `task-X-0` for who asked for X
    holding = sorted((text for text in texts if wanted and wanted in text), key=lambda t: (not t.endswith(wanted), t))
    alike = [] if len(holding) >= _MOST_NEAR else get_close_matches(wanted, texts[:_MOST_COMPARED], n=_MOST_NEAR)
    return list(dict.fromkeys([*holding, *alike]))[:_MOST_NEAR]
