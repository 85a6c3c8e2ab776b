"""When the real SparkLauncher does things, by a clock that stands still: how soon it heals, gives up and stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from kconnect.errors import NotAllowedError
from kconnect.model import ConnectorOffset, ConnectorType, RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.metrics import TaskCounters
from kconnect.spark.executors import Executor
from kconnect.spark.launcher import SparkLauncher
from kconnect.spark.messages import Heartbeat, OffsetsCommit, OffsetsRead, TaskMetrics
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_spec import SlotSpec
from kit.launchers import RecordedEvents
from kit.memory_spark import MemorySlot, MemorySpark
from kit.pace import ample_s
from kit.waiting import eventually


class World:
    """A launcher with its Spark."""

    def __init__(self, spark: MemorySpark, slots: int, settings: SparkSettings, events: RecordedEvents) -> None:
        self.spark = spark
        self.slots = slots
        self.events = events
        self.launcher = SparkLauncher(settings, spark, spark.ports())

    def settle(self) -> None:
        self.spark.settle(self.launcher, self.slots)

    def steps_until(self, seconds: int, done: str) -> int:
        """Lets time pass; gives the second in which the process of this kind was found, with all others beating."""
        for second in range(1, seconds + 1):
            self.spark.step(self.launcher, self.slots)
            if self.is_done(done):
                return second
        raise AssertionError(f"not {done} in {seconds} s")

    def is_done(self, done: str) -> bool:
        if done == "noticed":
            return not any(one.is_hung for one in self.spark.live())
        return any(one.working() for one in self.spark.live() if not one.is_hung)

    def up(self, slot: int) -> MemorySlot:
        process = self.spark.connect(slot)
        self.settle()
        return process


@contextmanager
def launched(
    spark: MemorySpark, slots: int = 2, settings: SparkSettings | None = None, events: RecordedEvents | None = None
) -> Iterator[World]:
    world = World(spark, slots, settings or SparkSettings(slots=slots), events or RecordedEvents())
    world.launcher.start(world.events)
    with ThreadPoolExecutor(1, thread_name_prefix="stopper") as pool:
        try:
            yield world
        finally:
            stop = pool.submit(world.launcher.stop, 10.0)
            while not stop.done():
                eventually(lambda: stop.done() or "stopper_0" in spark.clock.waiting(), 5.0, pause_s=0.001)
                spark.clock.advance(1.0)
            stop.result()
    assert spark.crashes == []


def spec(name: str, run: int = 1) -> TaskSpec:
    return TaskSpec(TaskId(name, 0), run, ConnectorType.SOURCE, {}, {}, {})


def test_a_slot_that_dies_without_a_word_is_noticed_after_its_time_and_its_task_moves_after_ten_seconds() -> None:
    with launched(MemorySpark()) as world:
        world.settle()
        first, _ = world.up(0), world.up(1)
        world.launcher.start_tasks([spec("a")])
        world.settle()
        first.is_hung = True

        assert world.steps_until(20, "noticed") == 11
        assert first.pid in world.spark.killed
        assert world.steps_until(20, "placed") == 10


def test_a_task_waits_for_its_slot_to_come_back() -> None:
    with launched(MemorySpark()) as world:
        world.settle()
        first, second = world.up(0), world.up(1)
        world.launcher.start_tasks([spec("a")])
        world.settle()
        world.spark.end_process(first, "exit 1")
        world.settle()
        world.spark.step(world.launcher, 2)  # its job is submitted again within 0.1 s
        again = world.up(0)

        assert TaskId("a", 0) in again.working()
        assert second.starts == []


def test_a_task_does_not_move_to_a_slot_that_is_given_up_at_the_same_moment() -> None:
    """It waits for its slot for ten seconds, when the other one has been silent for eleven."""
    with launched(MemorySpark()) as world:
        world.settle()
        first, second = world.up(0), world.up(1)
        world.launcher.start_tasks([spec("a")])
        world.settle()
        second.is_hung = True
        world.spark.step(world.launcher, 2)
        world.spark.end_process(first, "exit 1")
        for _ in range(12):
            world.spark.step(world.launcher, 2)

        assert second.pid in world.spark.killed
        assert second.starts == []
        assert world.events.by_run()[TaskId("a", 0), 1] == [RunState.RUNNING, RunState.UNASSIGNED]


def test_a_slot_on_another_host_is_ended_by_spark() -> None:
    spark = MemorySpark()
    spark.is_local_host = False
    with launched(spark, 1) as world:
        world.settle()
        world.up(0).is_hung = True

        assert world.steps_until(20, "noticed") == 11
        assert spark.killed == []
        assert spark.jobs.keys() <= {0}
        assert 0 not in spark.processes


def test_slots_that_never_start_are_a_failure_with_sparks_reason_after_five_attempts_and_are_tried_on() -> None:
    with launched(MemorySpark(), 1) as world:
        for attempt in range(1, 6):
            world.settle()
            assert world.launcher.failure() is None, attempt
            world.spark.end_job(0, "no memory")
            world.settle()
            for _ in range(5):
                world.spark.clock.advance(1.0)
                world.settle()

        assert world.launcher.failure() == "Slots cannot start: no memory"
        world.up(0)
        assert world.launcher.failure() is None


def test_jobs_that_break_where_they_are_submitted_are_a_failure_too(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is raised: without its thread a slot would be away for ever, and nobody would say why."""

    class Broken(MemorySpark):
        def run_slot(self, spec: SlotSpec) -> None:
            if self.submitted:
                raise ConnectionRefusedError("Nobody answers")
            super().run_slot(spec)

    with launched(Broken(), 1) as world:
        world.settle()
        world.spark.end_process(world.up(0), "its JVM was killed")
        for _ in range(6):
            world.settle()
            world.spark.clock.advance(5.0)
        world.settle()
        assert world.launcher.failure() == "Slots cannot start: Nobody answers"
    assert "The job of slot 0 failed" in caplog.text


def test_pauses_between_attempts_grow_to_five_seconds_and_no_further() -> None:
    with launched(MemorySpark(), 1) as world:
        for _ in range(12):
            world.settle()
            world.spark.end_job(0, "no memory")
            world.settle()
            world.spark.clock.advance(5.0)
        world.settle()
        assert world.spark.submitted == [0] * 13


def test_a_spark_that_cannot_start_is_the_reason_that_no_task_runs() -> None:
    with launched(MemorySpark(failure="no Java")) as world:
        assert eventually(world.launcher.failure) == "no Java"
        assert world.launcher.waits_for() is None


def test_a_stop_while_spark_starts_ends_the_start_and_no_slot_is_submitted() -> None:
    spark = MemorySpark(is_gated=True)
    with launched(spark) as world:
        assert world.launcher.waits_for() == "Spark is starting"
        world.launcher.start_tasks([spec("a")])
    assert spark.submitted == []
    assert world.launcher.failure() is None


def test_slots_that_do_not_end_are_killed_at_the_stop() -> None:
    spark = MemorySpark()
    with launched(spark) as world:
        world.settle()
        hung, good = world.up(0), world.up(1)
        hung.is_hung = True
    assert hung.pid in spark.killed
    assert good.link.is_broken


def test_an_older_process_of_a_slot_reports_nothing_after_its_successor_is_up() -> None:
    with launched(MemorySpark(), 1) as world:
        world.settle()
        old = world.up(0)
        del world.spark.processes[0]
        world.spark.end_job(0, "executor lost")
        world.settle()
        world.spark.step(world.launcher, 1)
        new = world.up(0)

        assert old.link.is_broken
        assert [one.pid for one in world.launcher.slots()] == [new.pid]


def test_on_a_cluster_slots_follow_the_executors_and_its_end_is_a_failure() -> None:
    spark = MemorySpark()
    settings = SparkSettings(spark={"spark.master": "spark://host:7077"})
    with launched(spark, 2, settings) as world:
        eventually(lambda: "spark-start" in spark.clock.waiting())
        assert world.launcher.waits_for() == "Waiting for executors from spark.master=spark://host:7077"
        spark.cluster.found = [Executor("1", "host", 2)]
        for _ in range(20):
            spark.clock.advance(0.1)
            eventually(lambda: "spark-start" in spark.clock.waiting(), pause_s=0.001)
        world.settle()
        assert sorted(spark.submitted) == [0, 1]
        world.up(0)
        assert spark.cluster.up == [0]

        spark.cluster.is_ended = True
        spark.clock.advance(1.0)
        assert "has ended this worker's application" in eventually(world.launcher.failure)


def test_on_a_cluster_a_slot_is_shown_as_up_once_tasks_may_go_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is asked for its executor first, which takes a while: a connector restarted meanwhile goes elsewhere."""
    spark, shown = MemorySpark(), []
    settings = SparkSettings(slots=1, spark={"spark.master": "spark://host:7077"})
    with launched(spark, 1, settings) as world:
        monkeypatch.setattr(spark.cluster, "settled", lambda slot: shown.append(world.launcher.slots()[slot].attached))
        eventually(lambda: "spark-start" in spark.clock.waiting())
        spark.cluster.found = [Executor("1", "host", 1)]
        for _ in range(20):
            spark.clock.advance(0.1)
            eventually(lambda: "spark-start" in spark.clock.waiting(), pause_s=0.001)
        world.settle()
        world.up(0)

        assert shown == [False]
        assert [one.attached for one in world.launcher.slots()] == [True]


@pytest.mark.parametrize("count", [1, 16])
def test_abandoned_tasks_cost_a_working_slot_its_life_only_when_they_are_many(count: int) -> None:
    with launched(MemorySpark(), 1) as world:
        world.settle()
        process = world.up(0)
        world.launcher.start_tasks([spec("a")])
        world.settle()
        process.say(Heartbeat(leftovers=count))
        world.settle()
        world.spark.clock.advance(1.0)
        world.settle()

        assert process.is_live is (count < 16)


def test_a_stop_ends_at_once_when_the_slot_is_lost_since_its_tasks_ended_with_it() -> None:
    with launched(MemorySpark(), 1) as world, ThreadPoolExecutor(1, thread_name_prefix="caller") as pool:
        world.settle()
        process = world.up(0)
        world.launcher.start_tasks([spec("a")])
        world.settle()
        process.is_hung = True
        left = pool.submit(world.launcher.stop_tasks, [TaskId("a", 0)], 5.0)
        eventually(lambda: "caller_0" in world.spark.clock.waiting(), pause_s=0.001)
        world.spark.end_process(process, "exit 1")

        assert left.result(5.0) == set()


def test_a_pause_of_a_task_whose_slot_is_gone_holds_when_it_starts_again() -> None:
    with launched(MemorySpark(), 1) as world:
        world.settle()
        first = world.up(0)
        world.launcher.start_tasks([spec("a")])
        world.settle()
        world.spark.end_process(first, "exit 1")
        world.settle()
        world.launcher.set_target_state([TaskId("a", 0)], TargetState.PAUSED)
        world.spark.step(world.launcher, 1)
        again = world.up(0)

        assert again.tasks[TaskId("a", 0)].target_state is TargetState.PAUSED


def test_counters_of_a_stopped_task_and_of_another_slots_task_are_dropped() -> None:
    with launched(MemorySpark()) as world:
        world.settle()
        first, second = world.up(0), world.up(1)
        world.launcher.start_tasks([spec("a")])
        world.settle()
        count = TaskMetrics(((TaskId("a", 0), 1, TaskCounters(records_polled=7)),))
        second.say(count)
        world.settle()
        assert all(counters.records_polled == 0 for counters in world.launcher.task_counters().values())

        world.launcher.stop_tasks([TaskId("a", 0)], 5.0)
        first.say(count)
        world.settle()
        assert world.launcher.task_counters() == {}


def test_a_job_that_waits_to_be_submitted_again_is_not_once_the_stop_has_begun() -> None:
    spark = MemorySpark()
    with launched(spark) as world:
        world.settle()
        hung, lost = world.up(0), world.up(1)
        hung.is_hung = True  # the stop waits for it
        spark.end_process(lost, "exit 1")
        world.settle()
        submitted = list(spark.submitted)
    assert spark.submitted == submitted


def test_each_request_for_offsets_has_one_answer() -> None:
    with launched(MemorySpark(), 1) as world:
        world.settle()
        process = world.up(0)
        for number in range(1, 4):
            process.say(OffsetsRead(number, "a", ({"file": "f"},)))
        eventually(lambda: {number for number, _ in process.replies} == {1, 2, 3}, pause_s=0.001)
    assert sorted(process.replies) == [(1, None), (2, None), (3, None)]


class RefusingStore(RecordedEvents):
    """Stores no offsets, and says what to do about it."""

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        raise NotAllowedError("User:w lacks WRITE on topic offsets.", hint="Grant it: kafka-acls --add")


def test_a_task_whose_offsets_are_refused_hears_what_to_do_about_it() -> None:
    with launched(MemorySpark(), 1, events=RefusingStore()) as world:
        world.settle()
        process = world.up(0)
        process.say(OffsetsCommit(1, "a", ()))
        eventually(lambda: process.replies, pause_s=0.001)
    assert process.replies == [(1, "User:w lacks WRITE on topic offsets. Grant it: kafka-acls --add")]


class SlowStore(RecordedEvents):
    """Offsets of one connector take until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.gate, self.given = threading.Event(), threading.Event(), threading.Event()

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        if connector == "slow":
            self.asked.set()
            assert self.gate.wait(ample_s(20))
            self.given.set()
        return super().read_offsets(connector, partitions)


def test_the_answer_to_a_process_that_has_died_is_not_given_to_the_next_one_of_its_slot() -> None:
    """Both count their requests from one: it would take the offsets of another connector for its own."""
    store = SlowStore()
    with launched(MemorySpark(), 1, events=store) as world:
        world.settle()
        first = world.up(0)
        first.say(OffsetsRead(1, "slow", ({"file": "f"},)))
        assert store.asked.wait(ample_s(10))
        world.spark.end_process(first, "exit 1")
        world.settle()
        world.spark.step(world.launcher, 1)
        second = world.up(0)
        store.gate.set()
        assert store.given.wait(ample_s(10))
        second.say(OffsetsRead(2, "quick", ({"file": "f"},)))
        eventually(lambda: (2, None) in second.replies, pause_s=0.001)
    assert second.replies == [(2, None)]
