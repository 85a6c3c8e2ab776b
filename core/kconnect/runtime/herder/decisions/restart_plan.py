"""The parts of a connector that a restart request affects, and the status that shows it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kconnect.model import ConnectorStatus, RunState, TaskId
from kconnect.runtime.storage.config_topic import CONNECTOR_ITSELF


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What is restarted: the connector itself, some of its tasks; `status` shows these as RESTARTING."""

    restart_connector: bool
    tasks: tuple[TaskId, ...]
    status: ConnectorStatus


def restart_plan(
    status: ConnectorStatus, *, include_tasks: bool, only_failed: bool, parts: Collection[int] | None = None
) -> RestartPlan:
    """The plan for `POST /connectors/X/restart?includeTasks=..&onlyFailed=..`; with `parts`, for these alone.

    Source: RestartRequest, RestartPlan (KIP-745).
    """

    def chosen(part: int, state: RunState) -> bool:
        return (parts is None or part in parts) and (not only_failed or state is RunState.FAILED)

    connector = chosen(CONNECTOR_ITSELF, status.connector.state)
    tasks = tuple(task.id for task in status.tasks if include_tasks and chosen(task.id, task.state))
    shown = replace(
        status,
        connector=replace(status.connector, state=RunState.RESTARTING) if connector else status.connector,
        tasks=tuple(replace(task, state=RunState.RESTARTING) if task.id in tasks else task for task in status.tasks),
    )
    return RestartPlan(connector, tuple(TaskId(status.name, task) for task in tasks), shown)
