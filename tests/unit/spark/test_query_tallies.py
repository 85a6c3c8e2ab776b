"""What processes of a query count is added up, and sent only where something failed."""

from __future__ import annotations

from kconnect.model import TaskId
from kconnect.runtime.metrics import TaskCounters
from kconnect.spark.messages import TaskMetrics
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


def test_only_what_is_new_is_said() -> None:
    before = TaskCounters(errors=2, dead_letters=2, last_error_ms=90)

    assert since(before, before) == TaskCounters()
    now = TaskCounters(errors=5, dead_letters=3, last_error_ms=99, records_put=10)
    assert since(before, now) == TaskCounters(errors=3, dead_letters=1, last_error_ms=99)
