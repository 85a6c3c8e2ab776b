"""The loop of a source with every order of acknowledgement, refusal, stop, cancel and crash, over several lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import ConfigDef, ConnectRecord, Transformation
from kconnect.errors import ConnectError, RetriableError
from kconnect.runtime.pipeline.boundaries import Boundary, IntervalBoundary, PollBoundary
from kconnect.runtime.pipeline.health import CONVERSION
from kconnect.runtime.pipeline.stages import TransformStep
from kit.examples import examples
from kit.source_bench import MovedNumbers, Numbers, ReportedNumbers, ReportedRuns, Run, Runs, SourceBench
from kit.waiting import eventually

Action = tuple[str, int]
Life = list[Action]
LIVES = st.lists(
    st.lists(
        st.one_of(
            st.tuples(st.just("give"), st.integers(1, 70)),  # from 64 on a list may become columns
            st.tuples(st.just("acknowledge"), st.integers(1, 90)),
            st.tuples(st.just("refuse"), st.integers(0, 5)),
            st.tuples(
                st.sampled_from(["tick", "idle", "break offsets", "repair offsets", "retry", "crash", "cancel"]),
                st.just(0),
            ),
            st.tuples(st.just("stop"), st.integers(0, 1)),
        ),
        max_size=14,
    ),
    max_size=4,
)


KINDS = (Numbers, ReportedNumbers, MovedNumbers, Runs, ReportedRuns)
BOUNDARIES = (PollBoundary, lambda: IntervalBoundary(0), lambda: IntervalBoundary(1e9))


class Crash(Exception):
    """What the plugin raises."""


class Script:
    """Performs a life's actions, one poll after the other; behind the last one the task is asked to stop."""

    def __init__(self, actions: Life, look: Callable[[Run], None]) -> None:
        self._actions = list(actions)
        self._look = look
        self.run: Run | None = None
        self.is_cancelled = False

    def __call__(self) -> int:
        run = self.run
        assert run is not None
        self._look(run)
        if not self._actions:
            run.control.stop()
            return 0
        what, number = self._actions.pop(0)
        match what:
            case "give":
                return number
            case "acknowledge":
                run.producer.acknowledge(number)
            case "refuse" if number < len(run.producer):
                run.producer.refuse(number)
            case "tick":
                run.timers.tick()
            case "idle":
                run.now_s += 60  # a producer with nothing on its way is closed from now on
            case "break offsets":
                run.ports.offsets.fail_with = ConnectError("away")  # type: ignore[attr-defined]
            case "repair offsets":
                run.ports.offsets.fail_with = None  # type: ignore[attr-defined]
            case "retry":
                raise RetriableError("later", retry_after_s=0.001)
            case "crash":
                raise Crash("now")
            case "cancel":
                self.is_cancelled = True
                run.control.cancel()
            case "stop":
                run.producer.is_stopped = bool(number)  # nothing is acknowledged any more
                run.control.stop()
        return 0


def is_quiet(actions: Life) -> bool:
    """Whether nothing went wrong in this life."""
    return not {
        what
        for what, number in actions
        if what not in ("give", "acknowledge", "tick", "idle") and (what, number) != ("stop", 0)
    }


@examples(150)
@given(lives=LIVES, kind=st.sampled_from(KINDS), room=st.sampled_from([None, 1000]))
def test_at_least_once_loses_nothing_whatever_happens(lives: list[Life], kind: type[Numbers], room: int | None) -> None:
    bench = SourceBench()

    def nothing_uncommitted_is_passed_over(run: Run) -> None:
        there = {*bench.log, *(int(value or 0) for _, _, value in run.producer.log)}
        assert set(range(1, bench.committed + 1)) <= there

    furthest = 0
    for actions in [*lives, [("give", 3)]]:
        bench.offsets.fail_with = None
        script = Script(actions, nothing_uncommitted_is_passed_over)
        task = kind(script)
        script.run = run = bench.at_least_once(task, room=room)
        before = bench.committed
        ended = run()
        furthest = max(furthest, task.last)
        nothing_uncommitted_is_passed_over(run)
        assert all(first < second for first, second in pairwise(int(value or 0) for _, _, value in run.producer.log))
        if is_quiet(actions):
            assert ended is None
            assert (bench.committed, len(run.producer)) == (task.last, 0)
            if kind is ReportedNumbers:
                assert task.reported == [(number, True) for number in range(before + 1, task.last + 1)]
        eventually(lambda run=run: all(client.is_closed for client in run.clients), 10, "clients closed")
    assert set(range(1, bench.committed + 1)) <= set(bench.log)
    assert 3 <= bench.committed <= furthest


@examples(150)
@given(
    lives=LIVES,
    kind=st.sampled_from(KINDS),
    boundary=st.sampled_from(BOUNDARIES),
)
def test_exactly_once_repeats_and_loses_nothing_whatever_happens(
    lives: list[Life], kind: type[Numbers], boundary: Callable[[], Boundary]
) -> None:
    bench = SourceBench()
    for actions in [*lives, [("give", 3)]]:
        script = Script(actions, lambda run: None)
        task = kind(script)
        script.run = run = bench.exactly_once(task, boundary())
        run()
        assert bench.log == list(range(1, bench.committed + 1)), "records and offsets count together"
        if is_quiet(actions):
            assert bench.committed == task.last
        if kind is ReportedNumbers:
            assert {number for number, there in task.reported if there} <= set(bench.log)
    assert len(bench.log) >= 3


def test_a_refused_record_fails_the_task_and_its_offset_is_not_committed() -> None:
    bench = SourceBench()
    script = Script([("give", 5), ("refuse", 2), ("acknowledge", 4)], lambda run: None)
    script.run = run = bench.at_least_once(Numbers(script))
    ended = run()
    assert "topic 'numbers', partition 0" in str(ended)
    assert (bench.committed, bench.log) == (0, [1, 2, 4, 5])


def test_a_tolerated_refusal_is_passed_over() -> None:
    bench = SourceBench()
    script = Script([("give", 5), ("refuse", 2), ("acknowledge", 4)], lambda run: None)
    script.run = run = bench.at_least_once(Numbers(script), tolerates_all=True)
    assert run() is None
    assert (bench.committed, bench.log) == (5, [1, 2, 4, 5])


def test_nothing_is_committed_once_the_task_is_fenced_off() -> None:
    bench = SourceBench()
    script = Script([("give", 5), ("acknowledge", 5), ("cancel", 0)], lambda run: None)
    script.run = run = bench.at_least_once(Numbers(script))
    assert run() is None
    assert (bench.committed, bench.log) == (0, [1, 2, 3, 4, 5])


class Held(MovedNumbers, ReportedNumbers):
    """Holds something that nobody else may have meanwhile, and says what it is called."""

    def __init__(self, script: Callable[[], int], committed: Callable[[], int]) -> None:
        super().__init__(script)
        self._committed = committed
        self.calls: list[str] = []

    def stop(self) -> None:
        self.calls.append(f"stop, committed {self._committed()}")

    def commit(self) -> None:
        self.calls.append("commit")

    def update_offsets(self, offsets: Any) -> Any:
        self.calls.append("update_offsets")
        return super().update_offsets(offsets)


@pytest.mark.parametrize("boundary", [None, *BOUNDARIES])
def test_a_task_that_is_cut_off_stops_first_and_what_kafka_has_is_committed_after(
    boundary: Callable[[], Boundary] | None,
) -> None:
    bench = SourceBench()

    def poll() -> int:
        if task.last:
            task.calls.clear()
            run.producer.acknowledge(5)
            run.control.stop(is_cut_off=True)
            return 0
        return 5

    task = Held(poll, lambda: bench.committed)
    run = bench.at_least_once(task) if boundary is None else bench.exactly_once(task, boundary())
    assert run() is None
    stops = [number for number, call in enumerate(task.calls) if call.startswith("stop")]
    assert stops == [len(task.calls) - 1], "it is stopped once, and asked nothing after that"
    assert bench.committed in (0, 5)
    assert boundary is not None or (task.calls, bench.committed) == (["stop, committed 0"], 5)


def test_a_run_whose_producer_broke_down_at_the_end_never_commits_over_the_next_one() -> None:
    bench = SourceBench()
    script = Script([("give", 3), ("acknowledge", 3)], lambda run: None)
    script.run = run = bench.at_least_once(Numbers(script))
    run.producer.fail_flush = ConnectError("broke down")
    assert "broke down" in str(run())
    script = Script([("give", 5)], lambda run: None)
    script.run = again = bench.at_least_once(Numbers(script))
    assert again() is None
    run.timers.tick()
    assert bench.committed == 5


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_wait_for_room_ends_with_a_refusal_or_goes_on_with_an_acknowledgement(is_refused: bool) -> None:
    bench = SourceBench()
    script = Script([("give", 5)], lambda run: None)
    script.run = run = bench.at_least_once(Numbers(script), room=2)
    producer = run.producer
    producer.when_full = (lambda: producer.refuse(0)) if is_refused else (lambda: producer.acknowledge(1))
    ended = run()
    assert (ended is not None) == is_refused
    assert bench.committed == (0 if is_refused else 5)


def test_a_source_that_is_idle_for_long_sends_its_next_records_with_another_client() -> None:
    bench = SourceBench()
    polls = [("give", 2), ("acknowledge", 2), ("idle", 0), ("tick", 0), ("give", 2), ("acknowledge", 1), ("idle", 0)]
    script = Script([*polls, ("give", 1), ("acknowledge", 2)], lambda run: None)
    script.run = run = bench.at_least_once(Numbers(script))
    assert run() is None
    assert (bench.committed, bench.log, len(run.clients)) == (5, [1, 2, 3, 4, 5], 2)


class Looks(Transformation):
    """Notes which call the watch would name if a transformation did not return."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.seen: list[str | None] = []

    def configure(self, configs: Mapping[str, Any]) -> None: ...

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        assert self.run is not None
        call = self.run.control.health.call
        self.seen.append(None if call is None else call[0])
        return record

    def config(self) -> ConfigDef:
        return ConfigDef()


@pytest.mark.parametrize("kind", [Numbers, ReportedNumbers], ids=["by lists", "one by one"])
def test_a_conversion_that_hangs_has_a_name_and_one_that_is_over_has_none(kind: type[Numbers]) -> None:
    looks = Looks()
    script = Script([("give", 2), ("acknowledge", 2)], lambda run: None)
    looks.run = script.run = run = SourceBench().at_least_once(kind(script), steps=[TransformStep(looks)])
    assert run() is None
    assert looks.seen == [CONVERSION, CONVERSION]
    assert run.control.health.call is None


def test_a_transaction_with_half_of_a_poll_is_never_committed() -> None:
    bench = SourceBench()
    script = Script([("give", 2), ("give", 5)], lambda run: None)
    script.run = run = bench.exactly_once(Numbers(script), IntervalBoundary(1e9), room=4)
    run.producer.when_full = run.control.stop
    assert run() is None
    assert (bench.committed, bench.log) == (0, [])


@pytest.mark.parametrize("kind", [Runs, ReportedRuns], ids=["by lists", "one by one"])
def test_an_offset_is_not_committed_while_records_of_its_poll_are_still_to_be_sent(kind: type[Numbers]) -> None:
    bench, seen = SourceBench(), list[int]()
    script = Script([("give", 5)], lambda run: None)
    script.run = run = bench.at_least_once(kind(script), room=2)

    def commit_what_is_acknowledged() -> None:
        run.producer.acknowledge(2)
        run.timers.tick()
        seen.append(bench.committed)

    run.producer.when_full = commit_what_is_acknowledged
    assert run() is None
    assert (seen, bench.committed, bench.log) == ([0, 0], 5, [1, 2, 3, 4, 5])


@pytest.mark.parametrize("boundary", [PollBoundary, lambda: IntervalBoundary(0)], ids=["poll", "interval"])
def test_a_poll_in_several_runs_is_one_transaction(boundary: Callable[[], Boundary]) -> None:
    bench = SourceBench()
    script = Script([("give", 5), ("give", 3)], lambda run: None)
    script.run = run = bench.exactly_once(Runs(script), boundary())
    assert run() is None
    assert (run.control.counters.commits, bench.committed, bench.log) == (2, 8, [1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize("kind", [Runs, ReportedNumbers])
def test_a_stop_between_two_runs_or_records_of_a_poll_commits_neither_records_nor_offset(kind: type[Numbers]) -> None:
    bench, asked = SourceBench(), list[bool]()
    script = Script([("give", 4)], lambda run: None)
    script.run = run = bench.exactly_once(kind(script), PollBoundary())

    def is_there() -> bool:
        asked.append(True)
        if len(asked) == 2:
            run.control.stop()
        return len(asked) < 2

    run.topics.is_there = is_there
    assert run() is None
    assert (len(asked), bench.committed, bench.log) == (2, 0, [])


def test_a_stop_between_two_runs_of_a_poll_does_not_pass_over_the_second() -> None:
    bench, asked = SourceBench(), list[bool]()
    script = Script([("give", 4)], lambda run: None)
    script.run = run = bench.at_least_once(Runs(script))

    def is_there() -> bool:
        asked.append(True)
        if len(asked) == 2:
            run.control.stop()
        return len(asked) < 2

    run.topics.is_there = is_there
    assert run() is None
    assert (bench.committed, bench.log) == (0, [1, 2])
