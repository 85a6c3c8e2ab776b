"""The history of a connector in the three topics: what each record changed, and configs to bring back. Pure.

The config topic tells what was changed and when; it does not record who did it. A version of a config is named by
its offset: compaction takes versions away, and never renames one. The status and offsets topics tell what workers
reported, and how far it had got.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.record_json import connector_of
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.clock import moment
from kconnect.errors import ConflictError, NotFoundError
from kconnect.logs.wording import pluralize
from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage.config_topic import (
    ConnectorConfigured,
    Malformed,
    RestartRequested,
    StringMap,
    TargetStateSet,
    TaskConfigured,
    TaskCountRecorded,
    TasksCommitted,
    Tombstone,
    decode,
)
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key
from kconnect.runtime.storage.status_topic import StatusRead, StoredStatus, TopicRead, TopicUse, decode_record


class ChangeKind(StrEnum):
    """What a version did."""

    CREATED = "created"
    RECONFIGURED = "reconfigured"
    REWRITTEN = "rewritten"
    PAUSED = "paused"
    RESUMED = "resumed"
    STOPPED = "stopped"
    STATE_REMOVED = "state-removed"
    TASKS = "tasks"
    RESTART = "restart-requested"
    FENCED = "fenced"
    DELETED = "deleted"
    MALFORMED = "malformed"


class Earlier(StrEnum):
    """Whether there were versions before the first remaining one."""

    NONE = "none"
    MAYBE = "maybe"
    """Offsets before it have no record (any more): compaction, or the marks of transactions."""
    LOST = "lost"
    """What is left of its tasks is older than what is left of its config."""


@dataclass(frozen=True, slots=True)
class Version:
    """One change: where it stands, what it did, the settings before and after where it is about settings.

    `sentence` says it in words. For tasks `old` and `new` are None: their configs are in `task_changes`, by number.
    """

    partition: int
    offset: int
    timestamp_ms: int | None
    kind: ChangeKind
    sentence: str
    old: StringMap | None = field(default=None, repr=False)
    new: StringMap | None = field(default=None, repr=False)
    task_changes: Mapping[int, tuple[StringMap | None, StringMap | None]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class History:
    """All remaining versions of a connector, oldest first."""

    connector: str
    versions: tuple[Version, ...]
    earlier: Earlier = Earlier.NONE


def config_history(records: Iterable[LogRecord], connector: str) -> History:
    """The versions of a connector, and whether there were earlier ones; `records` is the whole config topic.

    Never raises, whatever the records hold. Memory: the versions.

    Records that mean nothing (tombstones of tasks, tasks that no commit follows) are no versions.
    """
    teller = _Teller(connector)
    for record in records:
        teller.apply(record)
    return History(connector, tuple(teller.versions), teller.earlier)


class _Teller:
    """Folds records into versions of one connector."""

    def __init__(self, connector: str) -> None:
        self.versions: list[Version] = []
        self.earlier = Earlier.NONE
        self._connector = connector
        self._next_offset = 0
        self._has_gap = False
        self._has_remains = False  # tasks of it were read before any config
        self._config: StringMap | None = None
        self._is_known = False  # a record of its config was read, be it a deletion
        self._count: int | None = 0  # None: earlier commits may be gone
        self._is_counted = False  # a commit of it was read since it was created
        self._tasks: dict[int, StringMap] = {}
        self._waiting: dict[int, StringMap] = {}

    def apply(self, record: LogRecord) -> None:
        if record.offset != self._next_offset:
            self._has_gap = True
            # One offset is the mark of a transaction: a commit that is gone has taken configs of its tasks along
            if record.offset > self._next_offset + 1 and not self._is_counted:
                self._count = None
        self._next_offset = record.offset + 1
        match decode(record):
            case ConnectorConfigured(name, config) if name == self._connector:
                self._on_config(record, config)
            case TaskConfigured(task, settings) if task.connector == self._connector:
                self._has_remains = True
                self._waiting[task.task] = settings
            case TasksCommitted(name, count) if name == self._connector:
                self._on_commit(record, count)
            case TargetStateSet(name, state) if name == self._connector:
                kind, sentence = _STATES[state]
                self._add(record, kind, sentence)
            case RestartRequested(name, only_failed, include_tasks) if name == self._connector:
                whom = "the connector and its tasks" if include_tasks else "the connector"
                self._add(
                    record,
                    ChangeKind.RESTART,
                    f"restart of {whom}{', as far as FAILED,' if only_failed else ''} requested",
                )
            case TaskCountRecorded(name, count) if name == self._connector:
                self._add(record, ChangeKind.FENCED, f"producers of earlier tasks fenced off, {_tasks(count)} counted")
            case Malformed(key, _, why) if connector_of(InternalTopic.CONFIG, record.key) == self._connector:
                self._add(record, ChangeKind.MALFORMED, f"the record {key} cannot be understood: {why}")
            case Tombstone():
                pass

    def _on_config(self, record: LogRecord, config: StringMap | None) -> None:
        before, is_first = self._config, not self._is_known
        if is_first:
            self.earlier = self._what_was_before()
        self._config, self._is_known = config, True
        if config is None:
            self._count, self._is_counted, self._tasks, self._waiting = 0, False, {}, {}
            self._add(record, ChangeKind.DELETED, "deleted", old=before)
        elif before is None and is_first and self.earlier is not Earlier.NONE:
            self._add(record, ChangeKind.CREATED, "created, or what compaction has left of its changes", new=config)
        elif before is None:
            self._add(record, ChangeKind.CREATED, "created", new=config)
        elif dict(before) == dict(config):
            self._add(record, ChangeKind.REWRITTEN, "written again, with the same settings", old=before, new=config)
        else:
            changed = len(setting_changes(before, config))
            self._add(
                record,
                ChangeKind.RECONFIGURED,
                f"{pluralize(changed, 'setting')} changed",
                old=before,
                new=config,
            )

    def _what_was_before(self) -> Earlier:
        if self._has_remains:
            return Earlier.LOST
        return Earlier.MAYBE if self._has_gap else Earlier.NONE

    def _on_commit(self, record: LogRecord, count: int) -> None:
        self._has_remains = self._has_remains or not self._is_known
        waiting, self._waiting = self._waiting, {}
        if self._is_known and self._config is None:
            return  # it is deleted: no worker counts them
        if not self._is_counted and any(number >= count for number in waiting):
            self._count = None  # of a larger set, whose commit is gone
        before, self._count, self._is_counted = self._count, count, True
        old = self._tasks
        steps = f"tasks {'?' if before is None else before} -> {count}"
        if not count:  # a stop takes all of them: one line says it
            self._tasks = {}
            self._add(record, ChangeKind.TASKS, steps)
            return
        is_whole = all(number in waiting for number in range(count))
        self._tasks = {number: waiting[number] for number in range(count)} if is_whole else {}
        changes = {
            number: (old.get(number), waiting.get(number))
            for number in range(count)
            if is_whole and dict(old.get(number) or {}) != dict(waiting[number])
        }
        sentence = steps if before != count else f"{_tasks(count)} rewritten"
        if not is_whole:
            sentence += ", of which configs are missing: inconsistent"
            sentence += ", or compaction has removed them" if self._has_gap else ""
        self._add(record, ChangeKind.TASKS, sentence, task_changes=changes)

    def _add(
        self,
        record: LogRecord,
        kind: ChangeKind,
        sentence: str,
        *,
        old: StringMap | None = None,
        new: StringMap | None = None,
        task_changes: Mapping[int, tuple[StringMap | None, StringMap | None]] | None = None,
    ) -> None:
        place = (record.partition, record.offset, record.timestamp_ms)
        self.versions.append(Version(*place, kind, sentence, old, new, task_changes or {}))


_STATES = {
    TargetState.STARTED: (ChangeKind.RESUMED, "to run"),
    TargetState.PAUSED: (ChangeKind.PAUSED, "paused"),
    TargetState.STOPPED: (ChangeKind.STOPPED, "stopped"),
    None: (ChangeKind.STATE_REMOVED, "target state removed"),
}


def _tasks(count: int) -> str:
    return pluralize(count, "task")


def setting_changes(old: StringMap | None, new: StringMap | None) -> list[tuple[str, str | None, str | None]]:
    """Key, value before and after, of each setting that differs; sorted by key."""
    before, after = old or {}, new or {}
    return [
        (key, before.get(key), after.get(key))
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key) or (key in before) != (key in after)
    ]


def history_to_json(history: History, masks: SecretMasks | None = None) -> dict[str, Any]:
    """Shape: connector, earlier, versions: [{partition, offset, timestamp, kind, sentence, who, settings, tasks}].

    `settings` has {key, old, new} of each setting that differs, `tasks` the same by task number; `who` is always null.
    """
    masks = masks or SecretMasks()
    for version in history.versions:
        masks.learn({history.connector: version.new or {}})
    return {
        "connector": history.connector,
        "earlier": str(history.earlier),
        "versions": [_version_to_json(version, history.connector, masks) for version in history.versions],
    }


def _version_to_json(version: Version, connector: str, masks: SecretMasks) -> dict[str, Any]:
    def settings(old: StringMap | None, new: StringMap | None) -> list[dict[str, str | None]]:
        shown_old, shown_new = (masks.settings(connector, config or {}) for config in (old, new))
        return [
            {"key": key, "old": shown_old.get(key), "new": shown_new.get(key)}
            for key, _, _ in setting_changes(old, new)
        ]

    return {
        "partition": version.partition,
        "offset": version.offset,
        "timestamp": moment(version.timestamp_ms),
        "kind": str(version.kind),
        "sentence": version.sentence,
        "who": None,
        "settings": settings(version.old, version.new),
        "tasks": {str(number): settings(old, new) for number, (old, new) in version.task_changes.items()},
    }


_OF_CONFIGS = (ChangeKind.CREATED, ChangeKind.RECONFIGURED, ChangeKind.DELETED)


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """One config. `config` is None for a deletion, `before` where there was none."""

    version: int
    """Its offset in the config topic."""
    timestamp_ms: int | None
    kind: str
    config: StringMap | None = field(repr=False)
    before: StringMap | None = field(repr=False)
    is_current: bool = False


def config_versions(history: History) -> list[ConfigVersion]:
    """Every config that is left, oldest first; one that was written again without a change is not another."""
    found = [version for version in history.versions if version.kind in _OF_CONFIGS]
    return [
        ConfigVersion(
            version.offset, version.timestamp_ms, str(version.kind), version.new, version.old, version is found[-1]
        )
        for version in found
    ]


def the_version(connector: str, versions: Sequence[ConfigVersion], number: int) -> ConfigVersion:
    """The version of this number. Errors: NotFoundError that lists those there are."""
    for version in versions:
        if version.version == number:
            return version
    known = ", ".join(str(version.version) for version in versions[-10:]) or "none"
    raise NotFoundError(
        f"Connector {connector} has no version {number}",
        hint=f"Its versions: {known}. connect config history {connector} shows them.",
    )


def the_previous(connector: str, versions: Sequence[ConfigVersion]) -> ConfigVersion:
    """The config before the current one. Errors: NotFoundError if it is gone, or never was."""
    earlier = [version for version in versions[:-1] if version.config is not None]
    if not earlier:
        raise NotFoundError(
            f"There is no version of connector {connector} before its current config",
            hint="It was never changed, or compaction has removed what it was before.",
        )
    return earlier[-1]


def restorable(connector: str, version: ConfigVersion) -> StringMap:
    """Its config. Errors: ConflictError for a deletion, which has none."""
    if version.config is None:
        raise ConflictError(
            f"Version {version.version} of connector {connector} is its deletion",
            hint=f"connect connectors delete {connector} deletes it.",
        )
    return version.config


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
