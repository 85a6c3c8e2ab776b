"""What Spark says of a query's batches is counted once each, and asked for with as little work as it can be."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.spark.query.loop import Progress


@dataclass
class Said:
    """A StreamingQueryProgress."""

    batchId: int  # Spark's name
    rows: int
    timestamp: str
    is_idle: bool = False

    @property
    def json(self) -> str:
        took = {"latestOffset": 1} if self.is_idle else {"latestOffset": 1, "addBatch": 5, "triggerExecution": 9}
        return json.dumps({"batchId": self.batchId, "numInputRows": self.rows, "durationMs": took})


@dataclass
class Running:
    """A StreamingQuery, which counts how often all of its progress was asked for."""

    runId: str = "run 1"
    said: list[Said] = field(default_factory=list)
    wholes: int = 0

    def say(self, batch: int, rows: int, *, is_idle: bool = False) -> None:
        self.said.append(Said(batch, rows, f"at {len(self.said)}", is_idle))

    @property
    def lastProgress(self) -> Said | None:
        return self.said[-1] if self.said else None

    @property
    def recentProgress(self) -> list[Said]:
        self.wholes += 1
        return self.said


def control() -> TaskControl:
    ports = TaskPorts(
        report=lambda *_: None,
        offsets=cast("Any", None),
        reconfigure=lambda name: None,
        housekeeping=cast("Any", None),
        plugins=cast("Any", None),
    )
    return TaskControl(TaskSpec(TaskId("lake", 0), 1, ConnectorType.SINK, {}, {}, {}), ports)


def test_each_batch_counts_once_and_all_that_spark_keeps_is_read_only_after_several() -> None:
    task, running = control(), Running()
    progress = Progress(task)
    assert not progress.look(running)
    running.say(0, 10)
    assert progress.look(running)
    assert not progress.look(running)
    running.say(1, 20)
    assert progress.look(running)
    running.say(2, 0, is_idle=True)
    assert not progress.look(running)
    assert (task.counters.records_put, running.wholes) == (30, 0)

    running.say(2, 1)
    running.say(3, 2)
    running.say(4, 0, is_idle=True)
    assert progress.look(running)
    assert (task.counters.records_put, running.wholes) == (33, 1)
    running.say(4, 4)
    assert progress.look(running)
    assert (task.counters.records_put, running.wholes) == (37, 1)


def test_a_query_that_starts_again_is_counted_from_its_first_batch() -> None:
    task = control()
    progress = Progress(task)
    first: Any = Running()
    first.say(7, 10)
    progress.look(first)
    again: Any = Running(runId="run 2")
    again.say(7, 10)
    assert progress.look(again)
    assert task.counters.records_put == 20
