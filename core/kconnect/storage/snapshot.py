"""The state of a cluster's connectors: an immutable snapshot, and its fold from the records of the config topic.

Pure: records in, changes out. What makes it less than obvious is compaction: a topic read from its start may lack
records that later ones replaced, so task configs wait for their commit, and a commit whose tasks are not all there
marks the connector as inconsistent until a whole set has been written.
Source: ClusterConfigState, AppliedConnectorConfig, KafkaConfigBackingStore.ConsumeCallback (Kafka 4.3).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.storage.config_topic import (
    COMMIT,
    ConfigRecord,
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
    Unknown,
    decode,
    read_key,
)
from kconnect.storage.session_key import SessionKey

NO_OFFSET = -1


class Transform(Protocol):
    """Resolves what settings refer to (`${file:..}`). Source: WorkerConfigTransformer."""

    def __call__(self, config: StringMap, connector: str | None) -> StringMap:
        """The settings with values in place; `connector` is who restarts when a value with a lease runs out."""
        ...


class AppliedConfig:
    """The connector config that the present tasks were made from; resolved once, and so kept. Threads: any."""

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
    """What the config topic said at one offset. Immutable: its mappings can only be read.

    Snapshots of two workers are equal when they read the same; what each of them counts or resolves does not matter.
    """

    offset: int = NO_OFFSET
    """The offset after the last record that was read, -1 before the first; members of a group compare it."""
    session_key: SessionKey | None = None
    configs: Mapping[str, StringMap] = field(default_factory=_none, repr=False)
    target_states: Mapping[str, TargetState] = field(default_factory=_none)
    """May hold connectors that are not there (yet)."""
    task_counts: Mapping[str, int] = field(default_factory=_none)
    task_configs: Mapping[str, Mapping[int, StringMap]] = field(default_factory=_none, repr=False)
    task_count_records: Mapping[str, int] = field(default_factory=_none)
    task_config_generations: Mapping[str, int] = field(default_factory=_none, compare=False)
    applied_configs: Mapping[str, AppliedConfig] = field(default_factory=_none, repr=False, compare=False)
    pending_fencing: frozenset[str] = frozenset()
    """Connectors whose former tasks are to be fenced before the present ones may start."""
    inconsistent: frozenset[str] = frozenset()
    """Connectors that have to give their task configs anew, since some of the last set are lost."""
    overtaken: frozenset[str] = field(default=frozenset(), compare=False)
    """Connectors without tasks, with a commit before all that is left of their config: of a deleted one of that name,
    or theirs, and lost by compaction (KAFKA-17719).
    """
    transform: Transform | None = field(default=None, repr=False, compare=False)

    def contains(self, connector: str) -> bool:
        return connector in self.configs

    @property
    def connectors(self) -> tuple[str, ...]:
        """In the order in which they appeared."""
        return tuple(self.configs)

    def config(self, connector: str) -> StringMap | None:
        """The connector's settings, resolved: may hold secrets."""
        return self._resolved(self.configs.get(connector), connector)

    def raw_config(self, connector: str) -> StringMap | None:
        return self.configs.get(connector)

    def applied_config(self, connector: str) -> StringMap | None:
        """The resolved settings of which the present tasks were made, as they were then; None if there are none."""
        applied = self.applied_configs.get(connector)
        return None if applied is None else applied.resolved(self.transform)

    def target_state(self, connector: str) -> TargetState | None:
        return self.target_states.get(connector)

    def task_count(self, connector: str) -> int:
        return self.task_counts.get(connector, 0)

    def tasks(self, connector: str) -> tuple[TaskId, ...]:
        """The tasks that may run: none while their configs are inconsistent."""
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
        """Grows with each set of task configs this process has read; not the same number on every worker."""
        return self.task_config_generations.get(connector)

    def is_pending_fencing(self, connector: str) -> bool:
        return connector in self.pending_fencing

    def _resolved(self, config: StringMap | None, connector: str) -> StringMap | None:
        return config if config is None or self.transform is None else self.transform(config, connector)


@dataclass(frozen=True, slots=True)
class ConnectorUpdated:
    """A connector has a config, new or the same again. Source: onConnectorConfigUpdate."""

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
    """Something else than before is wanted of a connector that is there. Source: onConnectorTargetStateChange."""

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
"""What a record did: news for a herder, or (the last three) that it did nothing."""


class ConfigFold:
    """Folds records, in their order, into the state. Threads: one at a time.

    Each record costs the same however many came before; memory follows the keys, not the history.
    """

    def __init__(self, transform: Transform | None = None) -> None:
        self._transform = transform
        self._offset = NO_OFFSET
        self._session_key: SessionKey | None = None
        self._configs: dict[str, StringMap] = {}
        self._target_states: dict[str, TargetState] = {}
        self._task_counts: dict[str, int] = {}
        self._task_configs: dict[str, Mapping[int, StringMap]] = {}  # the inner ones never change: snapshots share them
        self._deferred: dict[str, dict[int, StringMap]] = {}  # waiting for a commit; stays, empty, after one
        self._task_count_records: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._applied: dict[str, AppliedConfig] = {}
        self._pending_fencing: set[str] = set()
        self._inconsistent: set[str] = set()
        self._ownerless: set[str] = set()  # had a commit while they were not there; they may have come since
        self._snapshot: ClusterSnapshot | None = None

    def contains(self, connector: str) -> bool:
        return connector in self._configs

    def snapshot(self) -> ClusterSnapshot:
        """The state as it is now; the same object until the next record."""
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
                transform=self._transform,
            )
        return self._snapshot

    def apply(self, record: LogRecord) -> list[Change]:
        """Take in one record. Never raises, whatever its bytes are."""
        event = decode(record)
        if not isinstance(event, Malformed | Unknown) or event.is_json:
            self._offset = record.offset + 1
        self._snapshot = None
        return self._apply(event)

    def _apply(self, event: ConfigRecord) -> list[Change]:
        match event:
            case ConnectorConfigured(connector, config):
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
            case RestartRequested() | LoggerLevelSet() | Unknown():
                return [event]
            case Tombstone() | Malformed():
                return self._skip(event)
        return []

    def _forget(self, connector: str) -> None:
        """What a deletion takes along. As in Java the target state goes by its own tombstone; the task count record,
        the pending fencing and the generation stay, for the tasks of the deleted connector may still run.
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
        """Tasks of a connector that is not there are what compaction left of a deleted one.

        As in Java this also holds for a connector that was changed after its tasks were committed, once compaction has
        taken its former config: who starts then sees it without tasks, until its leader gives them anew (KAFKA-17719).
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
                # Java counts each commit as a generation, also without new configs, once there were any
                self._generations[connector] = self._generations.get(connector, -1) + 1
            self._task_configs[connector] = _frozen({number: (deferred or {})[number] for number in range(count)})
            self._inconsistent.discard(connector)
            self._applied[connector] = AppliedConfig(self._configs[connector])
        else:
            self._inconsistent.add(connector)
        if deferred is not None:
            # also when they were not applied: they belong to a set that is lost, and must not mix with the next one
            self._deferred[connector] = {}
        self._task_counts[connector] = count
        self._pending_fencing.add(connector)
        return [TasksUpdated(connector, tuple(TaskId(connector, number) for number in updated))]

    def _set_target_state(self, connector: str, state: TargetState | None) -> list[Change]:
        """No news of a removed state (the deletion of the connector is news) or of a connector that is not there."""
        if state is None:
            self._target_states.pop(connector, None)
            if connector in self._configs:
                self._target_states[connector] = TargetState.STARTED
            return []
        before = self._target_states.get(connector)
        self._target_states[connector] = state
        return [TargetStateChanged(connector)] if state is not before and connector in self._configs else []


def _is_complete(configs: Mapping[int, StringMap], count: int) -> bool:
    """More than `count` are fine: compaction may leave a task of an earlier, larger set before the commit."""
    return len(configs) >= count and all(number in configs for number in range(count))


def _frozen(mapping: Mapping[K, V]) -> Mapping[K, V]:
    return MappingProxyType(dict(mapping))
