"""Clusters as `connect top` knows them, and a screen driven by keys: for its unit tests."""

from __future__ import annotations

from dataclasses import replace

from kconnect.admin.cluster.activity import NO_ACTIVITY, Activity
from kconnect.model import (
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TaskCondition,
    TaskId,
    TaskState,
)
from kconnect.runtime.health.flow_metrics import FlowMetrics, summed
from kconnect_cli.top.events import Event, Key, Request, Resized
from kconnect_cli.top.facts import ClusterFacts, StatusLook, WorkerFacts, WorkerLook
from kconnect_cli.top.lines import text_of
from kconnect_cli.top.screen_state import TopState
from kconnect_cli.top.state import step
from kconnect_cli.top.view import draw

__all__ = ["Driven", "connector", "look", "worker"]

WORKER = "w1:8083"


def connector(
    name: str,
    *states: str,
    own: str = "RUNNING",
    trace: str | None = None,
    worker: str = WORKER,
    condition: TaskCondition | None = None,
) -> ConnectorStatus:
    """A connector with a task for each state; tasks that FAILED have the trace."""
    tasks = tuple(
        TaskState(
            number, RunState(state), worker, trace if state == "FAILED" else None, condition=condition
        )
        for number, state in enumerate(states)
    )  # fmt: skip
    return ConnectorStatus(name, ConnectorState(RunState(own), worker), tasks, ConnectorType.SOURCE)


def look(*connectors: ConnectorStatus, at_s: float = 100.0, **more: object) -> StatusLook:
    return StatusLook(at_s=at_s, statuses={each.name: each for each in connectors}, **more)  # type: ignore[arg-type]


def worker(
    id_: str = WORKER, at_s: float = 100.0, problem: str = "", rates: dict[TaskId, float] | None = None, **more: object
) -> WorkerLook:
    moves: dict[str, Activity] = {}
    for task, rate in (rates or {}).items():
        metrics = FlowMetrics(rate=rate, records=int(rate * 10), errors=0)
        known = moves.get(task.connector, NO_ACTIVITY)
        tasks = {**known.tasks, task.task: metrics}
        moves[task.connector] = Activity(summed(list(tasks.values())), tasks)
    facts = WorkerFacts(id=id_, url=f"http://{id_}", kind="" if problem else "kconnect", problem=problem, moves=moves)
    return WorkerLook(at_s, replace(facts, **more))


class Driven:
    """A screen that takes events and shows its lines. `asked`: requests since the last look at them."""

    def __init__(self, columns: int = 100, lines: int = 24, *, is_direct: bool = False) -> None:
        self.state = TopState(facts=ClusterFacts(place="http://w1:8083", is_direct=is_direct))
        self.now_s = 100.0
        self._asked: list[Request] = []
        self.take(Resized(columns, lines))

    def take(self, *events: Event, now_s: float | None = None) -> Driven:
        self.now_s = self.now_s if now_s is None else now_s
        for event in events:
            self.state, requests = step(self.state, event, self.now_s)
            self._asked += requests
        return self

    def press(self, *keys: str) -> Driven:
        """Letters, or names of keys."""
        for key in keys:
            self.take(Key(key, key if len(key) == 1 else None))
        return self

    def type(self, text: str) -> Driven:
        return self.press(*text)

    @property
    def asked(self) -> list[Request]:
        found, self._asked = self._asked, []
        return found

    @property
    def text(self) -> str:
        return text_of(draw(self.state).lines)

    @property
    def names(self) -> list[str]:
        """The first column of all rows, in their order."""
        return [row.id for row in self.state.rows]

    @property
    def under_cursor(self) -> str:
        return self.state.rows[self.state.cursor].id
