"""The automatic restarts of connectors and tasks, as requests and metrics show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kconnect.clock import Clock
from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorState,
    ConnectorStatus,
    Restarts,
    RunState,
    TargetState,
    TaskCondition,
    TaskId,
    TaskState,
)
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.decisions.auto_restarts import budget_of, keeps_failing, part_of, restarts_of
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.decisions.failures import NoHelp
from kconnect.runtime.metrics import Reading
from kconnect.runtime.metrics.readings import RestartsView, restart_readings
from kconnect.runtime.storage.config_topic import PartRestarts
from kconnect.runtime.storage.status_topic import Subject

_IDLE: Final = "once it is resumed"


@dataclass(frozen=True, slots=True)
class RestartViews:
    """Threads: any; only looks. Every worker of a cluster reads what its leader wrote, and so says the same."""

    defaults: RestartSettings
    counted: Callable[[str], Sequence[PartRestarts]]
    """What counts against the budget of a connector, however old."""
    failed_ms: Callable[[Subject], int | None]
    """Is that of `AutoRestarts`."""
    javas_place: Callable[[], NoHelp | None]
    """Is that of `budget_of`."""
    clock: Clock
    last_said: Callable[[Subject], str | None] = lambda _: None
    """Is that of `AutoRestarts`."""
    held_until_ms: Callable[[Subject], int | None] = lambda _: None
    """Until when the group holds it back, because its worker left; None: it does not."""

    def conditions(
        self, found: Mapping[TaskId, TaskCondition], find: Callable[[str], ConnectorEntry | None]
    ) -> dict[TaskId, TaskCondition]:
        """The conditions of running tasks, where one that fails again and again is not called healthy in between."""
        return {task_id: self._condition(task_id, each, find(task_id.connector)) for task_id, each in found.items()}

    def _condition(self, task_id: TaskId, found: TaskCondition, entry: ConnectorEntry | None) -> TaskCondition:
        if entry is None or found.condition is Condition.STUCK:
            return found
        known = next((each for each in self.counted(entry.name) if each.part == task_id.task), None)
        if known is None:
            return found
        settings = self.defaults.of_connector(entry.config)
        return keeps_failing(known, settings, self.clock.time_ms(), self.last_said(task_id)) or found

    def shown(self, entry: ConnectorEntry, status: ConnectorStatus) -> ConnectorStatus:
        """The status, with the restarts of the connector and its tasks."""
        known = {each.part: each for each in self.counted(entry.name)}
        own = status.connector
        states = {own.state, *(task.state for task in status.tasks)}
        if not known and not states & {RunState.FAILED, RunState.UNASSIGNED}:
            return status
        budget, now_ms = budget_of(self.defaults.of_connector(entry.config), self.javas_place()), self.clock.time_ms()
        is_idle = entry.target_state is not TargetState.STARTED

        def of(subject: Subject, state: ConnectorState | TaskState) -> Restarts | None:
            failed_ms = None if is_idle else self.failed_ms(subject)
            found = restarts_of(subject, state, known.get(part_of(subject)), budget, now_ms, failed_ms)
            until_ms = self.held_until_ms(subject)
            if until_ms is not None and not is_idle:
                return Restarts(
                    AutoRestart.HELD_BACK, 0 if found is None else found.count, budget.most, due_ms=until_ms
                )
            if found is not None and is_idle and found.state in (AutoRestart.WAITING, AutoRestart.GIVEN_UP):
                return replace(found, why=_IDLE, due_ms=None)
            return found

        tasks = tuple(replace(task, restarts=of(TaskId(entry.name, task.id), task)) for task in status.tasks)
        return replace(status, connector=replace(own, restarts=of(entry.name, own)), tasks=tasks)

    def readings(self, total: int, shown: Iterable[ConnectorStatus]) -> list[Reading]:
        """`total`: parts that this process has restarted. `shown`: as the method of that name gives them."""
        parts: dict[tuple[str, str], Restarts] = {}
        for status in shown:
            if status.connector.restarts is not None:
                parts[status.name, ""] = status.connector.restarts
            parts |= {(status.name, str(task.id)): task.restarts for task in status.tasks if task.restarts is not None}
        states = [each.state for each in parts.values()]
        view = RestartsView(
            total=total,
            waiting=states.count(AutoRestart.WAITING),
            given_up=states.count(AutoRestart.GIVEN_UP),
            not_restarted=states.count(AutoRestart.NOT_RESTARTED),
            parts=parts,
        )
        return list(restart_readings(view))
