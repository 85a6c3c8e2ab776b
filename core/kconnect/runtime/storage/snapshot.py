"""The state of a cluster's connectors: an immutable snapshot, and its fold from the records of the config topic.

Pure: records in, changes out. Compaction complicates it: a topic read from its start may lack records that later
ones replaced. So task configs wait for their commit, and a commit with missing task configs marks the connector as
inconsistent until a complete set has been written.
Source: ClusterConfigState, AppliedConnectorConfig, KafkaConfigBackingStore.ConsumeCallback (Kafka 4.3).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage.config_topic import (
    COMMIT,
    ConfigRecord,
    ConnectorConfigured,
    LoggerLevelSet,
    Malformed,
    PartRestarts,
    RestartRequested,
    SessionKeySet,
    StringMap,
    TargetStateSet,
    TaskConfigured,
    TaskCountRecorded,
    TasksCommitted,
    Tombstone,
    Unknown,
    decode,
    read_key,
)
from kconnect.runtime.storage.session_key import SessionKey

NO_OFFSET = -1


class Transform(Protocol):
    """Resolves references in settings (`${file:..}`). Source: WorkerConfigTransformer."""

    def __call__(self, config: StringMap, connector: str | None) -> StringMap:
        """The settings with values filled in; `connector` is restarted when a leased value expires."""
        ...


class AppliedConfig:
    """The connector config that the current tasks were generated from; resolved once. Threads: any."""

    def __init__(self, config: StringMap) -> None:
        self.raw = config
        self._lock = threading.Lock()
        self._resolved: StringMap | None = None  # guarded by _lock

    def resolved(self, transform: Transform | None) -> StringMap:
        with self._lock:
            if self._resolved is None:
                self._resolved = self.raw if transform is None else transform(self.raw, None)
            return self._resolved


K = TypeVar("K")
V = TypeVar("V")


def _none() -> Mapping[str, Any]:  # an empty mapping fits any value
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The state of the config topic at one offset. Immutable: its mappings are read-only.

    Snapshots of two workers are equal if they read the same; local counts and resolved values are not compared.
    """

    offset: int = NO_OFFSET
    """The offset after the last record read, -1 before the first; group members compare it."""
    session_key: SessionKey | None = None
    configs: Mapping[str, StringMap] = field(default_factory=_none, repr=False)
    target_states: Mapping[str, TargetState] = field(default_factory=_none)
    """May contain connectors that do not exist (yet)."""
    task_counts: Mapping[str, int] = field(default_factory=_none)
    task_configs: Mapping[str, Mapping[int, StringMap]] = field(default_factory=_none, repr=False)
    task_count_records: Mapping[str, int] = field(default_factory=_none)
    task_config_generations: Mapping[str, int] = field(default_factory=_none, compare=False)
    applied_configs: Mapping[str, AppliedConfig] = field(default_factory=_none, repr=False, compare=False)
    pending_fencing: frozenset[str] = frozenset()
    """Connectors whose former tasks must be fenced before the current ones may start."""
    inconsistent: frozenset[str] = frozenset()
    """Connectors that must generate their task configs again, since some of the last set are lost."""
    overtaken: frozenset[str] = field(default=frozenset(), compare=False)
    """Connectors without tasks whose commit precedes what is left of their config: the commit belongs to a deleted
    connector of that name, or to theirs before compaction (KAFKA-17719).
    """
    automatic_restarts: Mapping[str, tuple[PartRestarts, ...]] = field(default_factory=_none)
    """What counts against the budgets of connectors that were restarted by themselves. A restart by request and a new
    config end it.
    """
    transform: Transform | None = field(default=None, repr=False, compare=False)

    def contains(self, connector: str) -> bool:
        return connector in self.configs

    @property
    def connectors(self) -> tuple[str, ...]:
        """In order of first appearance."""
        return tuple(self.configs)

    def config(self, connector: str) -> StringMap | None:
        """The connector's settings, resolved: may hold secrets."""
        return self._resolved(self.configs.get(connector), connector)

    def raw_config(self, connector: str) -> StringMap | None:
        return self.configs.get(connector)

    def applied_config(self, connector: str) -> StringMap | None:
        """The resolved settings from which the current tasks were generated; None if there are none."""
        applied = self.applied_configs.get(connector)
        return None if applied is None else applied.resolved(self.transform)

    def target_state(self, connector: str) -> TargetState | None:
        return self.target_states.get(connector)

    def task_count(self, connector: str) -> int:
        return self.task_counts.get(connector, 0)

    def tasks(self, connector: str) -> tuple[TaskId, ...]:
        """The tasks that may run; none while their configs are inconsistent."""
        if connector in self.inconsistent:
            return ()
        return tuple(TaskId(connector, number) for number in range(self.task_count(connector)))

    def task_config(self, task: TaskId) -> StringMap | None:
        """The task's settings, resolved: may hold secrets."""
        return self._resolved(self.raw_task_config(task), task.connector)

    def raw_task_config(self, task: TaskId) -> StringMap | None:
        return self.task_configs.get(task.connector, {}).get(task.task)

    def task_count_record(self, connector: str) -> int | None:
        return self.task_count_records.get(connector)

    def task_config_generation(self, connector: str) -> int | None:
        """Increases with each set of task configs this process has read; differs between workers."""
        return self.task_config_generations.get(connector)

    def is_pending_fencing(self, connector: str) -> bool:
        return connector in self.pending_fencing

    def _resolved(self, config: StringMap | None, connector: str) -> StringMap | None:
        return config if config is None or self.transform is None else self.transform(config, connector)


@dataclass(frozen=True, slots=True)
class ConnectorUpdated:
    """A connector config was written, possibly unchanged. Source: onConnectorConfigUpdate."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector was deleted. Source: onConnectorConfigRemove."""

    connector: str


@dataclass(frozen=True, slots=True)
class TasksUpdated:
    """Tasks were committed; `tasks` are those with a new config: none when only the count changed, or when configs
    are missing. Source: onTaskConfigUpdate.
    """

    connector: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """The target state of an existing connector changed. Source: onConnectorTargetStateChange."""

    connector: str


Change = (
    ConnectorUpdated
    | ConnectorRemoved
    | TasksUpdated
    | TargetStateChanged
    | SessionKeySet
    | RestartRequested
    | LoggerLevelSet
    | Tombstone
    | Malformed
    | Unknown
)
"""The effect of a record: a change for the herder, or (the last three) none."""


class ConfigFold:
    """Folds records into the state, in order. Threads: one at a time.

    The cost per record is constant; memory grows with the keys, not the history.
    """

    def __init__(self, transform: Transform | None = None) -> None:
        self._transform = transform
        self._offset = NO_OFFSET
        self._session_key: SessionKey | None = None
        self._configs: dict[str, StringMap] = {}
        self._target_states: dict[str, TargetState] = {}
        self._task_counts: dict[str, int] = {}
        self._task_configs: dict[str, Mapping[int, StringMap]] = {}  # the inner ones never change: snapshots share them
        self._deferred: dict[str, dict[int, StringMap]] = {}  # waiting for a commit; stays as an empty entry after it
        self._task_count_records: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._applied: dict[str, AppliedConfig] = {}
        self._pending_fencing: set[str] = set()
        self._inconsistent: set[str] = set()
        self._ownerless: set[str] = set()  # had a commit before they existed; they may exist by now
        self._automatic: dict[str, tuple[PartRestarts, ...]] = {}
        self._snapshot: ClusterSnapshot | None = None

    def contains(self, connector: str) -> bool:
        return connector in self._configs

    def snapshot(self) -> ClusterSnapshot:
        """The current state; the same object until the next record."""
        if self._snapshot is None:
            self._snapshot = ClusterSnapshot(
                offset=self._offset,
                session_key=self._session_key,
                configs=_frozen(self._configs),
                target_states=_frozen(self._target_states),
                task_counts=_frozen(self._task_counts),
                task_configs=_frozen(self._task_configs),
                task_count_records=_frozen(self._task_count_records),
                task_config_generations=_frozen(self._generations),
                applied_configs=_frozen(self._applied),
                pending_fencing=frozenset(self._pending_fencing),
                inconsistent=frozenset(self._inconsistent),
                overtaken=frozenset(self._ownerless & self._configs.keys()),
                automatic_restarts=_frozen(self._automatic),
                transform=self._transform,
            )
        return self._snapshot

    def apply(self, record: LogRecord) -> list[Change]:
        """Apply one record. Never raises, whatever its bytes are."""
        event = decode(record)
        if not isinstance(event, Malformed | Unknown) or event.is_json:
            self._offset = record.offset + 1
        self._snapshot = None
        return self._apply(event)

    def _apply(self, event: ConfigRecord) -> list[Change]:
        match event:
            case ConnectorConfigured(connector, config):
                self._automatic.pop(connector, None)
                if config is None:
                    self._forget(connector)
                    return [ConnectorRemoved(connector)]
                self._configs[connector] = MappingProxyType(config)
                self._target_states.setdefault(connector, TargetState.STARTED)
                return [ConnectorUpdated(connector)]
            case TaskConfigured(task, task_config):
                self._deferred.setdefault(task.connector, {})[task.task] = MappingProxyType(task_config)
            case TasksCommitted(connector, count):
                return self._commit(connector, count)
            case TargetStateSet(connector, state):
                return self._set_target_state(connector, state)
            case TaskCountRecorded(connector, count):
                self._task_count_records[connector] = count
                self._pending_fencing.discard(connector)
            case SessionKeySet(session_key):
                self._session_key = session_key
                return [event]
            case RestartRequested(connector, automatic=automatic):
                self._automatic.pop(connector, None)
                if automatic is not None:
                    self._automatic[connector] = automatic.restarts
                return [event]
            case LoggerLevelSet() | Unknown():
                return [event]
            case Tombstone() | Malformed():
                return self._skip(event)
        return []

    def _forget(self, connector: str) -> None:
        """Remove a deleted connector. As in Java, the target state has its own tombstone; the task count record, the
        pending fencing and the generation stay, because tasks of the deleted connector may still run.
        """
        self._configs.pop(connector, None)
        self._task_counts.pop(connector, None)
        self._task_configs.pop(connector, None)
        self._deferred.pop(connector, None)
        self._applied.pop(connector, None)
        self._ownerless.discard(connector)

    def _skip(self, event: Tombstone | Malformed) -> list[Change]:
        match read_key(event.key):
            case (prefix, connector) if prefix == COMMIT and connector not in self._configs:
                if not isinstance(event, Malformed) or event.is_json:
                    self._forget(connector)
        return [event]

    def _commit(self, connector: str, count: int) -> list[Change]:
        """Tasks of a connector that does not exist are left over from a deleted one after compaction.

        As in Java this also applies to a connector changed after its tasks were committed, once compaction has removed
        its former config: a worker that starts then sees no tasks until the leader writes them again (KAFKA-17719).
        """
        if connector not in self._configs:
            self._forget(connector)
            if count:
                self._ownerless.add(connector)
            return []
        self._ownerless.discard(connector)
        deferred = self._deferred.get(connector)
        updated: Iterable[int] = ()
        if _is_complete(deferred or {}, count):
            if deferred is not None:
                updated = sorted(deferred)
                # Java counts each commit as a generation once there were configs, even one without new configs
                self._generations[connector] = self._generations.get(connector, -1) + 1
            self._task_configs[connector] = _frozen({number: (deferred or {})[number] for number in range(count)})
            self._inconsistent.discard(connector)
            self._applied[connector] = AppliedConfig(self._configs[connector])
        else:
            self._inconsistent.add(connector)
        if deferred is not None:
            # even if not applied: they belong to a lost set and must not mix with the next one
            self._deferred[connector] = {}
        self._task_counts[connector] = count
        self._pending_fencing.add(connector)
        return [TasksUpdated(connector, tuple(TaskId(connector, number) for number in updated))]

    def _set_target_state(self, connector: str, state: TargetState | None) -> list[Change]:
        """Removed states are not reported (the deletion of the connector is), nor those of unknown connectors."""
        if state is None:
            self._target_states.pop(connector, None)
            if connector in self._configs:
                self._target_states[connector] = TargetState.STARTED
            return []
        before = self._target_states.get(connector)
        self._target_states[connector] = state
        return [TargetStateChanged(connector)] if state is not before and connector in self._configs else []


def _is_complete(configs: Mapping[int, StringMap], count: int) -> bool:
    """More than `count` is fine: compaction may leave a task of an earlier, larger set before the commit."""
    return len(configs) >= count and all(number in configs for number in range(count))


def _frozen(mapping: Mapping[K, V]) -> Mapping[K, V]:
    return MappingProxyType(dict(mapping))
