"""update_offsets(): offsets of a source that has nothing to send, at least once and exactly once (KIP-910)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from kconnect.api import SourceRecord
from kconnect.api.task import SourcePartitionOffset
from kconnect.errors import DataError
from kconnect.model import ConnectorOffset
from kconnect.runtime.pipeline.boundaries import (
    Boundary,
    ConnectorBoundary,
    IntervalBoundary,
    PollBoundary,
    TransactionRequests,
)
from kconnect.runtime.pipeline.inflight import partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets
from kit.source_bench import PARTITION, MovedNumbers, Run, SourceBench

Step = Callable[[Run], int | None]
A, B = {"table": "a"}, {"table": "b"}
BOUNDARIES = [
    PollBoundary,
    lambda: IntervalBoundary(0),
    lambda: IntervalBoundary(1e9),
    lambda: ConnectorBoundary(TransactionRequests()),
]


class Heartbeats(MovedNumbers):
    """Numbers of which none is worth a record, unless `sends`: its place moves on all the same."""

    def __init__(self, *steps: Step) -> None:
        super().__init__(lambda: 0)
        self.steps = list(steps)
        self.run: Run | None = None
        self.sends = False
        self.asked: list[list[SourcePartitionOffset]] = []
        self.error: Exception | None = None

    def poll(self) -> list[SourceRecord] | None:
        assert self.run is not None
        if not self.steps:
            self.run.control.stop()
            return None
        count = self.steps.pop(0)(self.run) or 0
        self.last += count
        if not self.sends or not count:
            return None
        return [SourceRecord(PARTITION, {"last": self.last}, "numbers", value=str(self.last))]

    def update_offsets(self, offsets: Sequence[SourcePartitionOffset]) -> Iterable[SourcePartitionOffset] | None:
        self.asked.append(list(offsets))
        if self.error is not None:
            raise self.error
        return super().update_offsets(offsets)


def at_least_once(bench: SourceBench, *steps: Step, sends: bool = False) -> Heartbeats:
    task = Heartbeats(*steps)
    task.sends = sends
    task.run = bench.at_least_once(task)
    return task


def tick(run: Run) -> None:
    run.timers.tick()


def moves(count: int) -> Step:
    return lambda run: count


def test_the_offset_of_a_source_without_records_moves_and_a_restart_goes_on_there() -> None:
    bench = SourceBench()
    seen: list[int] = []
    task = at_least_once(bench, moves(5), tick, tick, lambda run: seen.append(bench.committed))
    assert task.run is not None
    assert task.run() is None
    assert seen == [5]
    assert (bench.committed, bench.log) == (5, [])
    again = at_least_once(bench, moves(2))
    assert again.run is not None
    assert again.run() is None
    assert (again.last, bench.committed) == (7, 7)


def test_it_is_asked_on_its_own_thread_with_the_offsets_that_are_about_to_be_committed() -> None:
    bench = SourceBench()
    task = at_least_once(bench, moves(3), lambda run: run.producer.acknowledge(9), tick, moves(0), sends=True)
    assert task.run is not None
    assert task.run() is None
    assert task.asked[0] == [(PARTITION, {"last": 3})]


def test_what_it_says_of_a_partition_with_unacknowledged_records_has_no_effect() -> None:
    bench = SourceBench()
    seen: list[int] = []
    look: Step = lambda run: seen.append(bench.committed)  # noqa: E731
    task = at_least_once(bench, moves(3), tick, tick, look, lambda run: run.producer.acknowledge(9), tick, tick, look)
    task.sends = True
    assert task.run is not None
    assert task.run() is None
    assert seen == [0, 3]
    assert task.asked[0] == []


def test_a_poll_that_sits_through_an_interval_does_not_hold_the_commit_up() -> None:
    bench = SourceBench()
    seen: list[int] = []

    def sits(run: Run) -> None:
        run.producer.acknowledge(9)
        run.timers.tick()
        seen.append(bench.committed)
        run.timers.tick()
        seen.append(bench.committed)

    task = at_least_once(bench, moves(3), sits, sends=True)
    assert task.run is not None
    assert task.run() is None
    assert seen == [0, 3]


def test_an_error_of_the_hook_changes_nothing() -> None:
    bench = SourceBench()
    task = at_least_once(bench, moves(3), lambda run: run.producer.acknowledge(9), sends=True)
    task.error = ValueError("not now")
    assert task.run is not None
    assert task.run() is None
    assert (bench.committed, len(task.asked)) == (3, 1)


def test_it_is_asked_at_the_end_although_the_flush_took_all_the_time_of_the_stop() -> None:
    bench = SourceBench()
    task = Heartbeats(moves(3))
    task.run = bench.at_least_once(task, stop_budget_s=0)
    assert task.run() is None
    assert bench.committed == 3


def test_a_task_that_failed_is_not_asked() -> None:
    bench = SourceBench()

    def fails(run: Run) -> None:
        raise ValueError("gone")

    task = at_least_once(bench, moves(3), fails)
    assert task.run is not None
    assert "gone" in str(task.run())
    assert (bench.committed, task.asked) == (0, [])


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=["poll", "interval", "long interval", "connector"])
def test_under_exactly_once_the_offset_moves_without_records(boundary: Callable[[], Boundary]) -> None:
    bench = SourceBench()
    task = Heartbeats(moves(4), moves(1))
    task.run = bench.exactly_once(task, boundary())
    assert task.run() is None
    assert (bench.committed, bench.log) == (5, [])
    assert task.asked, "asked with nothing to commit"


def test_under_exactly_once_it_does_not_end_a_transaction_that_the_connector_has_open() -> None:
    bench = SourceBench()
    task = Heartbeats(moves(4), moves(0))
    task.sends = True
    task.run = bench.exactly_once(task, ConnectorBoundary(TransactionRequests()))
    assert task.run() is None
    assert (bench.committed, bench.log, task.asked) == (0, [], [])


def test_a_poll_in_parts_is_asked_about_only_behind_its_last_part() -> None:
    bench = SourceBench()
    requests = TransactionRequests()

    class Parts(MovedNumbers):
        def poll(self) -> list[SourceRecord] | None:
            records = super().poll()
            if records:
                requests.commit_transaction(records[0])
            return records

    given = [3]

    def script() -> int:
        if not given:
            run.producer.fail_commit = None
            run.control.stop()
            return 0
        return given.pop()

    task = Parts(script)
    run = bench.exactly_once(task, ConnectorBoundary(requests))
    assert run() is None
    assert (bench.committed, bench.log) == (1, [1]), "the other two were not committed, nor passed over"


def test_offsets_are_changed_added_and_removed() -> None:
    given = [ConnectorOffset(A, {"row": 1}), ConnectorOffset(B, {"row": 1})]
    kept = updated_offsets("c", lambda pairs: [(A, {"row": 2}), ({"table": "c"}, {"row": 0}), (B, None)], given)
    assert kept == [
        ConnectorOffset(A, {"row": 2}),
        ConnectorOffset(B, None),
        ConnectorOffset({"table": "c"}, {"row": 0}),
    ]
    assert updated_offsets("c", lambda pairs: None, given) == given
    assert updated_offsets("c", lambda pairs: [(A, {"row": 9})], given[1:], {partition_key(A)}) == given[1:]


@pytest.mark.parametrize(
    "wrong",
    [[5], [("a", {})], [(A, {"row": [1]})], [({"table": {}}, {"row": 1})], [(A,)], [(A, "text")], [(A, {1: 2})]],
)
def test_what_cannot_be_stored_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(DataError):
        updated_offsets("c", lambda pairs: wrong, [])
