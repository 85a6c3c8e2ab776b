"""What processes of a query count is added up, and sent only where something failed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.spark.messages import FailedRecords, TaskMetrics
from kconnect.spark.query.loop import query_loop
from kconnect.spark.query.tallies import Tallies, since

TASK = TaskId("lake", 0)


def test_what_processes_say_is_added_up_for_the_run_that_they_work_for() -> None:
    tallies = Tallies()
    for more in (TaskCounters(errors=2, dead_letters=2, last_error_ms=90), TaskCounters(errors=1, last_error_ms=70)):
        tallies.add(TaskMetrics(((TASK, 3, more),)))
    tallies.add(TaskMetrics(((TASK, 2, TaskCounters(errors=100)),)))

    counters = TaskCounters(records_put=7)
    tallies.copy_to(TASK, 3, counters)

    assert counters == TaskCounters(records_put=7, errors=3, dead_letters=2, last_error_ms=90)
    tallies.forget([TASK])
    untouched = TaskCounters()
    tallies.copy_to(TASK, 3, untouched)
    assert untouched == TaskCounters()


def test_what_contracts_leave_out_is_in_the_metrics_of_the_task() -> None:
    tallies, config = Tallies(), {"topics": "t", "spark.format": "parquet", "spark.options.path": "/data"}
    control = TaskControl(TaskSpec(TASK, 3, ConnectorType.SINK, config, {}, {}), cast("Any", None))
    query_loop(cast("Any", SimpleNamespace(tallies=tallies)))(control, cast("Any", None))

    assert not _left_out(control)
    for more in (TaskCounters(values_discarded=2), TaskCounters(values_discarded=1, records_discarded=4)):
        tallies.add(TaskMetrics(((TASK, 3, more),)))
        control.counter_snapshot()

    assert _left_out(control) == {"values-discarded-total": 3, "records-discarded-total": 4}


def _left_out(control: TaskControl) -> dict[str, Any]:
    tags = (("connector", "lake"), ("task", "0"))
    found = control.counter_snapshot().plugins
    return {value.name: value.value for value in found if "discarded" in value.name and value.tags == tags}


def test_a_record_is_reported_once_however_often_its_range_is_read() -> None:
    tallies = Tallies()
    asked = FailedRecords(TASK, 3, "t", 1, begin=10, end=20, offsets=(11, 17), are_reported=False)
    other = replace(asked, partition=2)
    assert tallies.reported(asked) == replace(asked, offsets=())
    assert tallies.reported(replace(asked, offsets=(11,), are_reported=True)) is None
    assert tallies.reported(asked) == replace(asked, offsets=(11,))
    assert tallies.reported(other) == replace(other, offsets=())
    assert tallies.reported(replace(asked, begin=11)) == replace(asked, begin=11, offsets=()), "another batch"
    for forget in (lambda: tallies.forget([TASK]), lambda: tallies.forget_reported(TASK)):
        tallies.reported(replace(asked, are_reported=True))
        assert tallies.reported(asked) == asked
        forget()
        assert tallies.reported(asked) == replace(asked, offsets=())


def test_only_what_is_new_is_said() -> None:
    before = TaskCounters(errors=2, dead_letters=2, last_error_ms=90)

    assert since(before, before) == TaskCounters()
    now = TaskCounters(errors=5, dead_letters=3, last_error_ms=99, records_put=10)
    assert since(before, now) == TaskCounters(errors=3, dead_letters=1, last_error_ms=99)
