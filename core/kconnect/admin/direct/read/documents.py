"""What the three topics hold, as documents for JSON and tables. Pure; secrets are masked unless requested."""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

from kconnect.admin.direct.read.connector_types import connector_type
from kconnect.admin.direct.read.reader import ConfigView, Latest, OffsetView, StatusView
from kconnect.admin.direct.read.record_json import moment
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.logs.redaction import HIDDEN
from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage.config_topic import (
    LOGGER,
    SESSION_KEY,
    LoggerLevelSet,
    decode,
    tombstone_of_connector,
    tombstone_of_target_state,
)
from kconnect.runtime.storage.offset_topic import decode_key
from kconnect.runtime.storage.status_topic import StoredStatus


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
