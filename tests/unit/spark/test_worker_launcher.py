"""WorkerLauncher, whose slots and queries are played: what it tells each of them, and when."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any, cast

from kconnect.model import ConnectorType, TargetState, TaskId, TaskSpec
from kconnect.spark.query.marks import query_task
from kconnect.spark.settings import SparkSettings
from kconnect.spark.worker_launcher import WorkerLauncher
from kit.pace import ample_s

QUERY, IN_SLOT = TaskId("lake", 0), TaskId("file", 0)


class Host:
    """The TaskHost of the queries."""

    def __init__(self) -> None:
        self.runs: dict[TaskId, int] = {}
        self.stopped: list[int] = []

    def start(self, spec: TaskSpec) -> None:
        self.runs[spec.id] = spec.run

    def begin_stop(self, ids: Collection[TaskId]) -> list[int]:
        stopping = [self.runs.pop(task_id) for task_id in ids if task_id in self.runs]
        self.stopped += stopping
        return stopping

    def await_end(self, tasks: Sequence[int], timeout_s: float) -> set[TaskId]:
        return set()

    def stop(self, ids: Collection[TaskId], timeout_s: float) -> set[TaskId]:
        return self.await_end(self.begin_stop(ids), timeout_s)

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None: ...
    def close(self, timeout_s: float) -> None: ...


class Slots:
    """A SparkLauncher whose slot answers when the gate opens."""

    def __init__(self) -> None:
        self.is_asked, self.gate = threading.Event(), threading.Event()

    def start(self, events: object) -> None: ...
    def start_tasks(self, specs: Sequence[TaskSpec]) -> None: ...
    def stop(self, timeout_s: float) -> None: ...

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        self.is_asked.set()
        assert self.gate.wait(ample_s(10))
        return set(ids)


def test_a_query_that_is_started_again_while_a_slot_is_waited_for_is_not_stopped_with_its_former_run() -> None:
    launcher, host, slots = WorkerLauncher(SparkSettings()), Host(), Slots()
    launcher._slots, launcher._queries._host = cast("Any", slots), host  # as they are with a Spark
    launcher.start(cast("Any", None))
    launcher._queries._events = cast("Any", object())
    launcher.start_tasks([_spec(QUERY, 1), _spec(IN_SLOT, 1)])
    left: list[set[TaskId]] = []
    stopping = threading.Thread(target=lambda: left.append(launcher.stop_tasks([QUERY, IN_SLOT], 5.0)))
    stopping.start()
    assert slots.is_asked.wait(ample_s(10))
    launcher.start_tasks([_spec(QUERY, 2)])
    slots.gate.set()
    stopping.join(ample_s(10))
    assert (host.stopped, host.runs, left) == ([1], {QUERY: 2}, [{IN_SLOT}])
    assert [slot.tasks for slot in launcher._queries.slots()] == [(QUERY,)]
    launcher.stop(1.0)


def _spec(task_id: TaskId, run: int) -> TaskSpec:
    return TaskSpec(task_id, run, ConnectorType.SINK, {}, query_task({}, 1) if task_id == QUERY else {}, {})
