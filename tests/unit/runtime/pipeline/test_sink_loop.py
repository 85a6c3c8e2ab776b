"""The loop of a sink: puts, retries, flushes, commits, rebalances, rewinds, pauses and ends, one at a time.

All of them in every order: test_sink_lives.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kconnect.errors import ConnectError, RetriableError
from kconnect.model import RunState, TargetState, TopicPartition
from kit.sink_bench import PLACES, TIMES, Buffered, SinkBench, SinkRun, Steps, idle


class Crash(Exception):
    """What the plugin raises."""


ONE, TWO, _ = PLACES


def test_a_put_is_retried_when_the_task_said_with_the_same_records_and_nothing_is_fetched_meanwhile() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    task.in_put.append(lambda context: context.timeout(250))
    task.puts.append(RetriableError("later"))
    held: list[set[TopicPartition]] = []

    def write(run: SinkRun) -> None:
        bench.write(TWO, 1)
        held.append(set(run.consumer.paused))

    run = SinkRun(bench, task, Steps(write, idle, idle, idle, idle))
    assert run() is None
    assert held == [set(PLACES)]
    assert [call for call in task.calls if call.startswith("put") and call != "put 0"] == ["put 2", "put 2", "put 1"]
    assert task.put_at_s[1] == pytest.approx(0.25)
    assert run.consumer.paused == set()
    assert run.consumer.waits[1:4] == [pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.05)]


def test_a_task_that_wants_to_be_retried_much_later_is_retried_when_a_commit_is_due_as_in_java() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    task.in_put.append(lambda context: context.timeout(2**63 - 1))
    task.puts.append(RetriableError("later"))

    def later(run: SinkRun) -> None:
        run.clock.advance(TIMES.interval_s)

    assert SinkRun(bench, task, Steps(idle, later, idle, idle))() is None
    assert [call for call in task.calls if call == "put 2"] == ["put 2"] * 2


def test_a_put_of_nothing_may_fail_and_is_retried() -> None:
    bench, task = SinkBench(), Buffered()
    task.puts.append(RetriableError("later"))
    run = SinkRun(bench, task, Steps(lambda run: bench.write(ONE, 2), *[idle] * 5))
    assert run() is None
    assert task.calls.count("put 2") == 1
    assert task.put_at_s[1] - task.put_at_s[0] > 0.2


def test_a_retry_is_over_when_its_partition_goes() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    task.in_put.append(lambda context: context.timeout(60_000))
    task.puts.append(RetriableError("later"))
    run = SinkRun(bench, task, Steps(lambda run: run.consumer.revoke(ONE), lambda run: bench.write(TWO, 3), idle, idle))
    assert run() is None
    assert (bench.position(ONE), bench.position(TWO)) == (0, 3)
    assert not run.control.health.look(0).cause


def test_partitions_the_task_pauses_are_not_fetched_until_it_resumes_them_also_after_a_rebalance() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 1)
    task.in_put.append(lambda context: context.pause(ONE, TWO))
    seen: list[set[TopicPartition]] = []

    def look(run: SinkRun) -> None:
        seen.append(set(run.consumer.paused))

    def take_away(run: SinkRun) -> None:
        look(run)
        run.consumer.revoke(ONE)
        run.consumer.assign(ONE)
        look(run)
        task.in_put.append(lambda context: context.resume(TWO))

    run = SinkRun(bench, task, Steps(take_away, look))
    assert run() is None
    assert seen == [{ONE, TWO}, {TWO}, set()], "what the task paused of a partition that went is forgotten"


def test_a_paused_task_commits_keeps_its_partitions_and_is_given_nothing() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    seen: list[tuple[int, set[TopicPartition]]] = []

    def look(run: SinkRun) -> None:
        run.consumer.assign(*PLACES)
        seen.append((bench.position(ONE), set(run.consumer.paused)))

    run = SinkRun(
        bench,
        task,
        Steps(
            lambda run: run.control.set_target(TargetState.PAUSED),
            lambda run: bench.write(ONE, 2),
            lambda run: run.consumer.revoke(TWO),
            look,
            lambda run: run.control.set_target(TargetState.STARTED),
            idle,
            idle,
        ),
    )
    assert run() is None
    assert seen == [(2, set(PLACES))]
    assert run.states == [RunState.PAUSED, RunState.RUNNING]
    assert bench.position(ONE) == 4


def test_a_flush_that_fails_while_a_put_waits_for_its_retry_has_both_read_again_at_once() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 1)

    def fail_to_put(run: SinkRun) -> None:
        bench.write(ONE, 1)
        task.in_put.append(lambda context: context.timeout(60_000))
        task.puts.append(RetriableError("busy"))

    def fail_to_flush(run: SinkRun) -> None:
        task.flushes.append(RetriableError("later"))
        task.context.request_commit()

    run = SinkRun(bench, task, Steps(fail_to_put, fail_to_flush, idle, idle, idle))
    assert run() is None
    assert bench.position(ONE) == 2
    assert task.put_at_s[-1] < 60
    assert not run.control.health.look(0).cause


def test_where_the_task_asks_to_begin_in_open_is_where_it_begins() -> None:
    class Begins(Buffered):
        def open(self, partitions: Collection[TopicPartition]) -> None:
            super().open(partitions)
            self.context.offset(ONE, 2)

    bench, task = SinkBench(), Begins()
    bench.write(ONE, 2)
    bench.skipped[ONE] = 2
    assert SinkRun(bench, task, Steps(idle))() is None
    assert "put 2" not in task.calls
    assert task.calls[-3:] == ["pre_commit", "close", "stop"], "its offset is known before there is a record"


def test_a_task_that_asks_for_a_negative_offset_fails_and_does_not_go_to_the_end_of_the_partition() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 4)
    task.in_put.append(lambda context: context.offset({ONE: -1}))
    error = SinkRun(bench, task, Steps(idle, idle))()
    assert f"offset({ONE}, -1): seek offset must not be a negative number" in str(error)


def test_a_task_fenced_off_while_it_flushes_commits_nothing() -> None:
    class IsFenced(Buffered):
        def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            found = super().pre_commit(current_offsets)
            self.run.control.cancel()  # type: ignore[union-attr]  # set when a run begins
            return found

    for steps in ([lambda run: run.clock.advance(2.0), idle], []):  # the timed commit, and the last one
        bench, task = SinkBench(), IsFenced()
        bench.write(ONE, 2)
        assert SinkRun(bench, task, Steps(*steps))() is None
        assert task.calls.count("pre_commit") == 1
        assert bench.kafka.committed == {}


def test_a_rewind_asked_for_in_a_put_that_failed_takes_the_place_of_its_retry() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 4)
    task.in_put.append(lambda context: (context.offset(ONE, 3), context.timeout(60_000)))  # type: ignore[func-returns-value]
    bench.skipped[ONE] = 3
    task.puts.append(RetriableError("later"))
    assert SinkRun(bench, task, Steps(idle, idle))() is None
    assert [call for call in task.calls if call.startswith("put") and call != "put 0"] == ["put 3", "put 1"]
    assert bench.position(ONE) == 4


def test_nothing_is_heard_or_committed_once_the_task_is_fenced_off() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)

    def cancel(run: SinkRun) -> None:
        run.control.cancel()
        run.consumer.revoke(TWO)

    run = SinkRun(bench, task, Steps(cancel))
    assert run() is None
    assert task.calls == ["start", "open", "put 2", "stop"]
    assert bench.kafka.committed == {}


def test_the_end_flushes_closes_and_stops_once_in_this_order() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    assert SinkRun(bench, task, Steps())() is None
    assert [call for call in task.calls if call != "put 0"] == ["start", "open", "put 2", "pre_commit", "close", "stop"]


def test_a_task_that_is_cut_off_closes_and_stops_and_flushes_nothing() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    run = SinkRun(bench, task, Steps(idle, lambda run: run.control.stop(is_cut_off=True)))
    assert run() is None
    assert [call for call in task.calls if call != "put 0"] == ["start", "open", "put 2", "close", "stop"]
    assert bench.kafka.committed == {}


def test_a_failing_task_commits_what_it_took_and_its_error_names_what_it_was_given() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)

    def break_put(run: SinkRun) -> None:
        task.puts.append(Crash("now"))
        bench.write(ONE, 1)

    ended = SinkRun(bench, task, Steps(break_put))()
    assert str(ended) == "Buffered.put() raised Crash: now (it was given numbers-0 2 to 2)"
    assert bench.position(ONE) == 2


@pytest.mark.parametrize(
    ("method", "committed"), [("start", {}), ("open", {}), ("put", {}), ("pre_commit", {}), ("stop", {ONE: 2})]
)
def test_what_a_plugin_raises_ends_the_loop_with_the_call_in_its_first_line_and_stop_is_called(
    method: str, committed: dict[TopicPartition, int]
) -> None:
    def crash(self: Buffered, *given: object) -> None:
        self.calls.append(method)
        raise Crash("now")

    bench, task = SinkBench(), type("Breaks", (Buffered,), {method: crash})()
    bench.write(ONE, 2)
    run = SinkRun(bench, task, Steps(lambda run: run.clock.advance(1.1), idle))
    ended: Exception | None = None
    try:
        ended = run()
    except ConnectError as error:  # of stop(), behind the loop
        ended = error
    assert str(ended).startswith(f"Breaks.{method}() raised Crash: now")
    assert task.calls[-1] == "stop"
    assert bench.kafka.committed == committed


def test_a_task_is_called_again_as_soon_as_it_asks_and_only_that_once() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 1)
    task.in_put.append(lambda context: context.put_within(5))
    run = SinkRun(bench, task, Steps(*[lambda run: None] * 4))
    assert run() is None
    waits = run.consumer.waits
    assert waits.count(0.005) == 1
    assert waits[waits.index(0.005) + 1] == 0.1
