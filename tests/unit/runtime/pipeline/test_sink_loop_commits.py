"""The loop of a sink: when and what it commits, and what a commit's answer says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest

from kconnect.api import SinkRecord
from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.model import TopicPartition
from kit.sink_bench import PLACES, Buffered, SinkBench, SinkRun, Steps, idle

ONE, TWO, _ = PLACES


def test_a_commit_without_an_answer_is_given_up_and_its_late_answer_is_no_answer_to_the_next() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)

    def be_silent(run: SinkRun) -> None:
        run.consumer.commit_mode = "silent"
        run.clock.advance(1.1)

    def write_more(run: SinkRun) -> None:
        bench.write(ONE, 1)
        run.clock.advance(0.6)  # of the commit, which was sent just before; more than its timeout

    def answer(run: SinkRun) -> None:
        run.consumer.answer_first()

    run = SinkRun(bench, task, Steps(be_silent, write_more, lambda run: run.clock.advance(1.1), idle, answer, idle))
    assert run() is None
    assert run.control.counters.commits_skipped == 1
    assert run.control.counters.commit_failures >= 1


def test_an_answer_says_nothing_of_a_partition_that_was_rewound_while_the_commit_was_on_its_way() -> None:
    """Else a flush that fails later would go on behind what the task asked to read again."""
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 6)
    given: list[int] = []

    def be_silent(run: SinkRun) -> None:
        run.consumer.commit_mode = "silent"
        run.clock.advance(1.1)

    def rewind(run: SinkRun) -> None:
        task.in_put.append(lambda context: context.offset(ONE, 2))
        run.bench.skipped[ONE] = 2

    def fail_to_flush(run: SinkRun) -> None:
        run.consumer.answer()
        run.consumer.commit_mode = "ok"
        task.flushes.append(RetriableError("later"))
        run.task.context.request_commit()

    run = SinkRun(
        bench, task, Steps(be_silent, rewind, fail_to_flush, lambda run: given.append(run.expected[ONE])), most=6
    )
    assert run() is None
    assert given == [2]
    assert bench.position(ONE) == 6


def test_a_commit_is_made_once_in_each_interval() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    seen: list[int] = []

    def look(run: SinkRun) -> None:
        seen.append(task.calls.count("pre_commit"))

    # Fetches that find nothing take 0.1 s each; the interval is 1 s
    assert SinkRun(bench, task, Steps(*[idle] * 8, look, *[idle] * 9, look))() is None
    assert seen == [0, 1]


@pytest.mark.parametrize("asks", ["in put", "from another thread"])
def test_a_commit_that_the_task_asks_for_does_not_wait_for_the_interval_and_is_one(asks: str) -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    if asks == "in put":
        task.in_put.append(lambda context: context.request_commit())
    seen: list[tuple[int, int]] = []

    def look(run: SinkRun) -> None:
        seen.append((task.calls.count("pre_commit"), bench.position(ONE)))

    def ask(run: SinkRun) -> None:
        if asks == "from another thread":
            asking = threading.Thread(target=run.task.context.request_commit)
            asking.start()
            asking.join()

    assert SinkRun(bench, task, Steps(ask, idle, look, idle, look))() is None
    assert seen == [(1, 2), (1, 2)]


def test_a_pre_commit_that_gives_nothing_commits_nothing_and_is_not_followed_by_a_flush() -> None:
    class Flushes(Buffered):
        def flush(self, current_offsets: Mapping[TopicPartition, int]) -> None:
            self.calls.append("flush")

    bench, task = SinkBench(), Flushes()
    bench.write(ONE, 2)
    task.flushes.extend(["none", "none"])
    assert SinkRun(bench, task, Steps(lambda run: run.clock.advance(1.1), idle))() is None
    assert task.calls.count("pre_commit") == 2
    assert "flush" not in task.calls, "a task with a pre_commit of its own is not flushed, as in Java"
    assert bench.kafka.committed == {}


def test_revoked_partitions_are_flushed_closed_and_committed_at_once() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    seen: list[tuple[int, list[str]]] = []

    def take_away(run: SinkRun) -> None:
        run.consumer.revoke(ONE)
        seen.append((bench.position(ONE), task.calls[-2:]))

    assert SinkRun(bench, task, Steps(take_away))() is None
    assert seen == [(2, ["pre_commit", "close"])]


def test_a_refused_commit_is_made_again_and_nothing_is_sent_while_one_is_on_its_way() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    seen: list[tuple[int, int]] = []

    def look(run: SinkRun) -> None:
        seen.append((task.calls.count("pre_commit"), bench.position(ONE)))

    def commit(mode: str) -> Callable[[SinkRun], None]:
        def ask(run: SinkRun) -> None:
            look(run)
            run.consumer.commit_mode = mode
            run.task.context.request_commit()

        return ask

    def answer(run: SinkRun) -> None:
        look(run)
        run.consumer.answer()

    run = SinkRun(bench, task, Steps(commit("refused"), commit("silent"), commit("ok"), answer, look, look))
    assert run() is None
    # asked for while the second one is silent, the third begins once that is answered; it has nothing new
    assert seen == [(0, 0), (1, 0), (2, 0), (2, 0), (3, 2), (3, 2)]
    assert run.control.counters.commit_failures == 1


class AsksInCommit(Buffered):
    """Asks in its first pre_commit to read on from offset 1 of a partition; keeps the offsets of each put."""

    def __init__(self) -> None:
        super().__init__()
        self.put_offsets: list[list[int]] = []

    def put(self, records: list[SinkRecord]) -> None:
        if records:
            self.put_offsets.append([record.kafka_offset for record in records])
        super().put(records)

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if "pre_commit" not in self.calls:
            self.context.offset(ONE, 1)
        return super().pre_commit(current_offsets)


def test_a_rewind_asked_for_in_a_commit_is_done_before_the_next_put() -> None:
    bench, task = SinkBench(), AsksInCommit()
    bench.write(ONE, 6)
    bench.skipped[ONE] = 1
    run = SinkRun(bench, task, Steps(lambda run: run.clock.advance(2), idle, idle, idle), most=2)
    assert run() is None
    assert task.put_offsets == [[0, 1], [2, 3], [1, 2], [3, 4], [5]]


def test_dead_letters_that_nobody_acknowledges_hold_the_commit_back_and_a_lost_one_fails_the_task() -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    seen: list[int] = []

    def be_late(run: SinkRun) -> None:
        run.settles.append(TimedOutError("not yet"))
        run.clock.advance(1.1)

    def lose_one(run: SinkRun) -> None:
        seen.append(bench.position(ONE))
        run.settles.extend([ConnectError("refused")] * 2)
        run.clock.advance(1.1)

    ended = SinkRun(bench, task, Steps(be_late, lose_one))()
    assert str(ended) == "refused"
    assert seen == [0]
    assert bench.kafka.committed == {}


def test_a_task_that_commits_offsets_itself_is_given_nothing_before_the_dead_letters_are_written() -> None:
    class Keeps(Buffered):
        keeps_offsets = True

    bench, task = SinkBench(), Keeps()
    bench.write(ONE, 2)
    run = SinkRun(bench, task, Steps(*[idle] * 10))
    settle, answers = run.letters.settle, [TimedOutError("not yet")]

    def settle_late(timeout_s: float) -> None:
        task.calls.append("settle")
        if answers:
            raise answers.pop()
        settle(timeout_s)

    run.letters.settle = settle_late  # type: ignore[method-assign]  # looks at the order
    assert run() is None
    before = task.calls[: task.calls.index("put 2")]
    assert before.count("settle") > 1
    assert before[-1] == "settle"
    assert bench.kafka.committed == {ONE: 2}


def test_offsets_beyond_what_was_read_and_of_other_partitions_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    bench, task = SinkBench(), Buffered()
    bench.write(ONE, 2)
    task.flushes.append("more")
    assert SinkRun(bench, task, Steps())() is None
    assert bench.kafka.committed == {}
    assert "Ignoring offset 7 of numbers-0: only 2 was reached" in caplog.text
    assert "Ignoring the offset that the task returned for strangers-0: it was not asked for" in caplog.text


def test_a_task_learns_which_pre_commit_is_its_last() -> None:
    bench = SinkBench()
    bench.write(ONE, 1)
    reported: list[bool] = []

    class Asks(Buffered):
        def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            reported.append(self.context.is_closing())
            return super().pre_commit(current_offsets)

    assert (
        SinkRun(bench, Asks(), Steps(lambda run: None, lambda run: run.clock.advance(1.1), lambda run: None))() is None
    )
    assert reported == [False, True]
