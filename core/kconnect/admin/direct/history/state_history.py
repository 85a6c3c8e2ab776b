"""The history of a connector in the status and offsets topics: what workers reported, and how far it had got. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.record_json import connector_of
from kconnect.clock import moment
from kconnect.model import LogRecord, TaskId
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key
from kconnect.runtime.storage.status_topic import StatusRead, StoredStatus, TopicRead, TopicUse, decode_record


@dataclass(frozen=True, slots=True)
class StatusStep:
    """One status, or use of a topic, as it was written. `before` and `state` are None where there was or is none.

    `who` is the worker, with the generation of its group: what such a record knows. A deletion knows nobody.
    """

    partition: int
    offset: int
    timestamp_ms: int | None
    subject: str
    before: str | None
    state: str | None
    worker_id: str | None = None
    generation: int | None = None
    version: str | None = None
    trace: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class OffsetStep:
    """One offset of a source partition, and the one before it; values are JSON as the topic has it."""

    partition: int
    offset: int
    timestamp_ms: int | None
    source_partition: Any
    before: Any
    value: Any


def status_history(records: Iterable[LogRecord], connector: str) -> list[StatusStep]:
    """Statuses of a connector and its tasks, and topics they were seen to use, in the order of time."""
    states: dict[str, str] = {}
    found: list[StatusStep] = []
    for record in _in_order(_decoded(records, connector)):
        subject, state, status = _said(record)
        place = (record.partition, record.offset, record.timestamp_ms)
        before = states.pop(subject, None)
        if state is not None:
            states[subject] = state
        if status is None:
            found.append(StatusStep(*place, subject, before, state))
        else:
            found.append(
                StatusStep(
                    *place,
                    subject,
                    before,
                    state,
                    worker_id=status.worker_id,
                    generation=status.generation,
                    version=status.version,
                    trace=status.trace,
                )
            )
    return found


def _decoded(records: Iterable[LogRecord], connector: str) -> Iterable[LogRecord]:
    for record in records:
        match decode_record(record.key, record.value):
            case StatusRead(TaskId(name, _), _) | StatusRead(str() as name, _) | TopicRead(name, _, _):
                if name == connector:
                    yield record


def _said(record: LogRecord) -> tuple[str, str | None, StoredStatus | None]:
    match decode_record(record.key, record.value):
        case StatusRead(subject, status):
            words = f"task {subject.task}" if isinstance(subject, TaskId) else "connector"
            return words, None if status is None else str(status.state), status
        case TopicRead(_, topic, TopicUse() as use):
            return f"topic {topic}", f"used by task {use.task}", None
        case TopicRead(_, topic, None):
            return f"topic {topic}", None, None
    return "", None, None  # `_decoded` lets no other through


def offset_history(records: Iterable[LogRecord], connector: str) -> list[OffsetStep]:
    """Offsets of a source connector, in the order of time; partitions that differ only in spelling are one."""
    values: dict[str | bytes, Any] = {}
    found: list[OffsetStep] = []
    for record in _in_order(record for record in records if connector_of(_OFFSET, record.key) == connector):
        form = canonical_key(record.key or b"")
        _, partition = decode_key(record.key or b"") or (connector, None)
        value = _value(record.value)
        found.append(
            OffsetStep(record.partition, record.offset, record.timestamp_ms, partition, values.get(form), value)
        )
        values[form] = value
    return found


_OFFSET = InternalTopic.OFFSET


def _value(value: bytes | None) -> Any:  # JSON, or the text of what is none
    if value is None:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value.decode(errors="backslashreplace")


def _in_order(records: Iterable[LogRecord]) -> list[LogRecord]:
    """By time between partitions. Within one the order of the records decides, whatever the workers' clocks say."""
    latest_ms: dict[int, int] = {}
    aged: list[tuple[int, LogRecord]] = []
    for record in records:
        latest_ms[record.partition] = max(record.timestamp_ms or 0, latest_ms.get(record.partition, 0))
        aged.append((latest_ms[record.partition], record))
    aged.sort(key=lambda item: (item[0], item[1].partition, item[1].offset))
    return [record for _, record in aged]


def step_to_json(step: StatusStep | OffsetStep) -> dict[str, Any]:
    """Shape of a status: partition, offset, timestamp, subject, before, state, who: {worker_id, generation} or null,
    version, trace. Of an offset: partition, offset, timestamp, source_partition, before, value, who (null).
    """
    place = {"partition": step.partition, "offset": step.offset, "timestamp": moment(step.timestamp_ms)}
    if isinstance(step, OffsetStep):
        change = {"source_partition": step.source_partition, "before": step.before, "value": step.value}
        return {**place, **change, "who": None}
    who = None if step.worker_id is None else {"worker_id": step.worker_id, "generation": step.generation}
    what = {"subject": step.subject, "before": step.before, "state": step.state}
    return {**place, **what, "who": who, "version": step.version, "trace": step.trace}
