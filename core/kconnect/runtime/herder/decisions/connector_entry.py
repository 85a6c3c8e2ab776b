"""One connector's config, target state and task configs, and the rules that need nothing else.

Source: ClusterConfigState, AbstractHerder#taskConfigsChanged, Worker#connectorTaskConfigs (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kconnect.errors import BadRequestError, ConnectError
from kconnect.logs.traces import sendable
from kconnect.model import ConnectorOffset, TargetState, TaskId

log = logging.getLogger(__name__)
StringMap = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectorEntry:
    """One connector: its config, its target state, and the configs of its tasks."""

    name: str
    config: StringMap = field(repr=False)
    target_state: TargetState = TargetState.STARTED
    task_configs: tuple[StringMap, ...] = field(default=(), repr=False)
    applied_config: StringMap | None = field(default=None, repr=False)
    """The connector config the tasks were started with, or None if there are none."""
    task_generation: int | None = None
    """Numbers the task configs, as this worker counts them; None if they are not counted, or there never was a task."""

    @property
    def task_ids(self) -> tuple[TaskId, ...]:
        return tuple(TaskId(self.name, index) for index in range(len(self.task_configs)))

    @property
    def max_tasks(self) -> int:
        return int((self.config.get("tasks.max") or "1").strip())

    @property
    def enforces_max_tasks(self) -> bool:
        return (self.config.get("tasks.max.enforce") or "true").strip().lower() != "false"

    def reconfigured(self, config: StringMap, target_state: TargetState | None) -> ConnectorEntry:
        """A copy with another config; the target state is kept unless one is given, the tasks are kept until they are
        changed.
        """
        return replace(self, config=dict(config), target_state=target_state or self.target_state)

    def with_target(self, target_state: TargetState) -> ConnectorEntry:
        return replace(self, target_state=target_state)

    def with_tasks(self, task_configs: Sequence[StringMap]) -> ConnectorEntry:
        return replace(self, task_configs=tuple(dict(item) for item in task_configs), applied_config=self.config)

    def without_tasks(self) -> ConnectorEntry:
        return replace(self, task_configs=(), applied_config=None)

    def tasks_differ(self, task_configs: Sequence[StringMap]) -> bool:
        """Whether tasks must be restarted: other configs or count, or another connector config (converters...)."""
        if len(task_configs) != len(self.task_configs):
            return True
        if any(dict(new) != dict(old) for new, old in zip(task_configs, self.task_configs, strict=True)):
            return True
        return self.applied_config is None or dict(self.applied_config) != dict(self.config)


def patched(config: StringMap, changes: Mapping[str, str | None]) -> dict[str, str]:
    """A config with some settings changed; None removes one. Source: ConnectUtils#patchConfig (KIP-477)."""
    merged: dict[str, str | None] = {**config, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def complete_task_configs(
    connector: str, config: StringMap, task_class: str, given: Sequence[StringMap]
) -> list[dict[str, str]]:
    """Task configs as the plugin gave them, plus the task's class and the topics of a sink.

    Errors: ConnectError when the plugin gave something other than text, or a key with half a surrogate pair: the record
    of such a config could be written, and no worker could read it.
    """
    completed: list[dict[str, str]] = []
    for index, item in enumerate(given):
        for key, value in item.items():
            if not isinstance(key, str) or not (value is None or isinstance(value, str)):
                raise ConnectError(
                    f"Connector {connector} gave task {index} the config {key!r} of type {type(value).__name__}: "
                    "keys and values must be str",
                    hint="Make task_configs() of the connector return dict[str, str].",
                )
            if sendable(key) != key:
                raise ConnectError(
                    f"Connector {connector} gave task {index} the setting {key!r}, whose name has half a surrogate "
                    "pair",
                    hint="No worker could read that config: make task_configs() give whole characters.",
                )
        extra = {key: config[key] for key in ("topics", "topics.regex") if key in config}
        completed.append({**item, "task.class": task_class, **extra})
    return completed


def report_too_many_tasks(entry: ConnectorEntry, count: int) -> None:
    """More tasks than tasks.max. Errors: ConnectError, unless `tasks.max.enforce` is false: then a warning."""
    text = (
        f"The connector {entry.name} has generated {count} tasks, which is greater than {entry.max_tasks}, "
        "the maximum number of tasks it is configured to create. This behaviour should be considered a bug and is "
        "disallowed. If necessary, it can be permitted by reconfiguring the connector with 'tasks.max.enforce' set "
        "to false; however, this option will be removed in a future release of Kafka Connect."
    )
    if entry.enforces_max_tasks:
        raise ConnectError(text)
    log.warning("Connector %s gave %s tasks though tasks.max is %s", entry.name, count, entry.max_tasks)


def require_stopped(entry: ConnectorEntry) -> None:
    """Offsets may change only while nothing can commit. Errors: BadRequestError in Java's words."""
    if entry.target_state is not TargetState.STOPPED or entry.task_configs:
        raise BadRequestError(not_stopped(entry.name))


def require_offsets(offsets: Sequence[ConnectorOffset]) -> None:
    """Errors: BadRequestError in Java's words when there are none."""
    if not offsets:
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")


def not_stopped(connector: str) -> str:
    """Why the offsets of a connector cannot be changed now."""
    return (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        f"specified connector by issuing a 'PUT' request to the '/connectors/{connector}/stop' endpoint"
    )
