"""What a task has counted, as its slot looks at it every second: no work for one that idles, each maximum reported
once.
"""

from __future__ import annotations

from typing import Any, cast

from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts


def idle_control() -> TaskControl:
    ports = TaskPorts(
        report=lambda *_: None,
        offsets=cast("Any", None),
        reconfigure=lambda name: None,
        housekeeping=cast("Any", None),
        plugins=cast("Any", None),
        topic_used=lambda task, topic: None,
    )
    return TaskControl(TaskSpec(TaskId("idle", 0), 1, ConnectorType.SOURCE, {}, {}, {}), ports)


def test_a_task_that_moved_nothing_gives_the_same_counters_again() -> None:
    control = idle_control()

    assert control.counter_snapshot() is control.counter_snapshot()


def test_a_task_that_moved_something_gives_new_ones() -> None:
    control = idle_control()
    before = control.counter_snapshot()
    control.counters.records_polled += 1

    after = control.counter_snapshot()

    assert (before.records_polled, after.records_polled) == (0, 1)


def test_what_is_counted_only_at_a_look_is_seen() -> None:
    control = idle_control()
    control.counter_snapshot()

    def count(counters: TaskCounters) -> None:
        counters.partitions = 3

    control.count_with(count)

    assert control.counter_snapshot().partitions == 3


def test_a_maximum_is_reported_once_even_where_all_else_is_as_before() -> None:
    """Up to five and back to none between two looks, twice: the third look saw none of it."""
    control = idle_control()
    reported = []
    for peak in (5, 5, 0):
        control.counters.note_active(peak)
        control.counters.note_active(0)
        reported.append(control.counter_snapshot().records_active_most)

    assert reported == [5, 5, 0]
