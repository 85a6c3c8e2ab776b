"""The real SparkLauncher and SlotPool on a Spark in memory: in whatever order things happen, each task runs once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kconnect.model import ConnectorType, RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.metrics import TaskCounters
from kconnect.spark.launcher import SparkLauncher
from kconnect.spark.messages import (
    Heartbeat,
    OffsetsCommit,
    OffsetsRead,
    ReconfigureRequest,
    RunCheck,
    TaskMetrics,
    TaskReport,
    TaskTopic,
)
from kconnect.spark.settings import SparkSettings
from kit.examples import examples
from kit.launchers import RecordedEvents
from kit.memory_spark import MemorySlot, MemorySpark
from kit.waiting import eventually

SLOTS = 3
TASKS = [TaskId(name, number) for name in ("a", "b") for number in range(2)]
# A silent slot is noticed after 10 s, in the next second; its job is submitted again within 5 s; tasks wait 10 s for
# their slot, then go to another in the next second.
HEALED_S = 10 + 1 + 10 + 1

slots = st.integers(0, SLOTS - 1)
tasks = st.sampled_from(TASKS)


class LauncherOrders(RuleBasedStateMachine):
    """Rules are what the herder, the slots, the network and Spark do; the model is what the herder wants."""

    def __init__(self) -> None:
        super().__init__()
        self.spark = MemorySpark()
        self.spark.wanted = lambda task_id, run: task_id in self.wanted and self.wanted[task_id].run == run
        self.spark.refuses_start = lambda spec: "no" if spec.id in self.refused else None
        self.wanted: dict[TaskId, TaskSpec] = {}
        self.refused: set[TaskId] = set()
        self.notices: list[object] = []
        self.numbers = iter(range(1, 10_000))
        self.events = RecordedEvents()
        self.launcher = SparkLauncher(SparkSettings(slots=SLOTS), self.spark, self.spark.ports())
        self.threads_before = set(threading.enumerate())
        self.launcher.start(self.events)
        self.settle()

    @initialize(up=st.sets(slots), at_work=st.sets(tasks))
    def some_slots_are_up_and_some_tasks_run(self, up: set[int], at_work: set[TaskId]) -> None:
        for slot in sorted(up):
            self.a_slot_comes_up(slot)
        for task_id in sorted(at_work):
            self.a_run_is_started(task_id, TargetState.STARTED, refused=False)

    def settle(self) -> None:
        self.spark.settle(self.launcher, SLOTS)

    def step(self, *late: int) -> None:
        self.spark.step(self.launcher, SLOTS, late=late)

    def live(self, slot: int) -> MemorySlot | None:
        return next((one for one in self.spark.live() if one.slot == slot), None)

    def working(self, task_id: TaskId) -> list[MemorySlot]:
        return [one for one in self.spark.live() if task_id in one.working()]

    def has_ended(self, task_id: TaskId) -> bool:
        """Its run has failed: nobody starts it again."""
        return self.spark.expected[task_id, self.wanted[task_id].run][-1:] == [RunState.FAILED]

    # The herder.

    @rule(task_id=tasks, wish=st.sampled_from([TargetState.STARTED, TargetState.PAUSED]), refused=st.booleans())
    def a_run_is_started(self, task_id: TaskId, wish: TargetState, refused: bool) -> None:
        spec = TaskSpec(task_id, next(self.numbers), ConnectorType.SOURCE, {}, {}, {}, wish)
        self.wanted[task_id] = spec
        self.refused = self.refused | {task_id} if refused else self.refused - {task_id}
        self.launcher.start_tasks([spec])
        self.settle()
        if not any((task_id, spec.run) in one.starts for one in self.spark.all_processes):
            self.spark.expect(task_id, spec.run, RunState.UNASSIGNED)

    @rule(task_id=tasks, holds=st.booleans())
    def a_task_is_stopped(self, task_id: TaskId, holds: bool) -> None:
        reported = {one: [*one.tasks] for one in self.spark.live() if task_id in one.tasks}
        is_known = task_id in self.wanted
        self.wanted.pop(task_id, None)
        for one in reported:
            one.holds_stops = holds
        left = self.while_time_passes(lambda: self.launcher.stop_tasks([task_id], 5.0))
        expected = {task_id} if is_known and any(one.is_hung or holds for one in reported) else set()
        # A slot that is given up meanwhile takes its tasks along; it may be so in the second in which the wait ends
        is_gone = any(not one.is_live for one in reported)
        assert left == expected or (is_gone and not left)
        assert not self.working(task_id)

    @rule(task_id=tasks, wish=st.sampled_from([TargetState.STARTED, TargetState.PAUSED]))
    def a_task_is_paused_or_resumed(self, task_id: TaskId, wish: TargetState) -> None:
        if spec := self.wanted.get(task_id):
            self.wanted[task_id] = replace(spec, target_state=wish)
        self.launcher.set_target_state([task_id], wish)
        self.settle()

    # Slots.

    @rule(slot=slots)
    def a_slot_comes_up(self, slot: int) -> None:
        if slot in self.spark.jobs and slot not in self.spark.processes:
            self.spark.connect(slot)
            self.settle()

    @rule(slot=slots)
    def a_slot_of_another_version_is_refused(self, slot: int) -> None:
        if slot in self.spark.jobs and slot not in self.spark.processes:
            process = self.spark.connect(slot, version="0.0.1")
            eventually(process.link.is_served.is_set)
            assert process.refused is not None
            self.spark.end_process(process, "refused")
            self.settle()

    @rule(slot=slots)
    def a_slot_says_no_hello(self, slot: int) -> None:
        if slot in self.spark.jobs and slot not in self.spark.processes:
            process = self.spark.connect(slot, says_hello=False)
            eventually(process.link.is_served.is_set)
            self.spark.end_process(process, "no hello")
            self.settle()

    @rule(slot=slots)
    def a_slot_dies(self, slot: int) -> None:
        if process := self.live(slot):
            self.spark.end_process(process, "exit 1")
            self.settle()

    @rule(slot=slots)
    def a_slot_dies_without_a_word(self, slot: int) -> None:
        """Its machine is gone: no end of the connection, no end of the job."""
        if process := self.live(slot):
            process.is_hung = True

    @rule(slot=slots)
    def a_link_is_cut_in_mid_frame(self, slot: int) -> None:
        if process := self.live(slot):
            process.link.cut("The other side of the control link stopped in the middle of a message")
            self.settle()
            self.spark.end_process(process, "lost its worker")
            self.settle()

    @rule(slot=slots, seconds=st.integers(1, 9))
    def heartbeats_are_late(self, slot: int, seconds: int) -> None:
        """Later than they should be, in time for the worker."""
        process = self.live(slot)
        is_healthy = process is not None and not process.is_hung
        for _ in range(seconds):
            self.step(slot)
        self.step()
        assert process is None or not is_healthy or process.is_live

    @rule(slot=slots)
    def a_job_ends_before_its_process(self, slot: int) -> None:
        """As when Spark gives an executor up that goes on: the next process of the slot takes its place."""
        process = self.live(slot)
        if process is not None and self.spark.processes.get(slot) is process:
            del self.spark.processes[slot]
            self.spark.end_job(slot, "executor lost")
            self.settle()
            assert process.is_live

    @rule(slot=slots)
    def a_job_fails_to_start(self, slot: int) -> None:
        if slot in self.spark.jobs and slot not in self.spark.processes:
            self.spark.end_job(slot, "no memory")
            self.settle()

    @rule(slot=slots, count=st.integers(1, 20))
    def a_slot_carries_abandoned_tasks(self, slot: int, count: int) -> None:
        """Many, or in a slot with no work, are reason to replace it."""
        process = self.live(slot)
        if process is None or process.is_hung:
            return
        is_worth_replacing = count >= 16 or not process.working()
        process.say(Heartbeat(leftovers=count))
        self.settle()
        self.spark.clock.advance(1.0)
        self.settle()
        assert process.is_live is not is_worth_replacing
        if process.is_live:
            process.say(Heartbeat())

    @rule()
    def spark_restarts_everything(self) -> None:
        for process in self.spark.live():
            self.spark.end_process(process, "stage cancelled")
        for slot in list(self.spark.jobs):
            self.spark.end_job(slot, "stage cancelled")
        self.settle()

    # What slots say of their tasks.

    @rule(task_id=tasks)
    def a_task_fails(self, task_id: TaskId) -> None:
        for process in self.working(task_id):
            if not process.is_hung:
                process.report(task_id, RunState.FAILED, "trace")
        self.settle()

    @rule(task_id=tasks, slot=slots, state=st.sampled_from([RunState.RUNNING, RunState.FAILED, RunState.PAUSED]))
    def an_older_run_reports(self, task_id: TaskId, slot: int, state: RunState) -> None:
        process = self.live(slot)
        if process is None:
            return
        older = self.wanted[task_id].run - 1 if task_id in self.wanted else 1
        process.say(TaskReport(task_id, older, state, None))
        process.say(TaskMetrics(((task_id, older, TaskCounters(records_polled=10**9)),)))
        self.settle()
        assert task_id not in self.launcher.task_counters() or self.counted(task_id) < 10**9

    @rule(task_id=tasks, slot=slots)
    def another_slot_reports_a_task_it_does_not_have(self, task_id: TaskId, slot: int) -> None:
        process = self.live(slot)
        if process is not None and task_id not in process.tasks and task_id in self.wanted:
            if process.slot in [info.slot for info in self.launcher.slots() if task_id in info.tasks]:
                return  # its own: it was lost here, and has not been sent again
            process.say(TaskReport(task_id, self.wanted[task_id].run, RunState.FAILED, "not mine"))
            self.settle()

    @rule(task_id=tasks, records=st.integers(1, 100))
    def a_task_counts(self, task_id: TaskId, records: int) -> None:
        for process in self.working(task_id):
            spec = process.tasks[task_id]
            process.say(TaskMetrics(((task_id, spec.run, TaskCounters(records_polled=records)),)))
            self.settle()
            assert self.counted(task_id) == records

    def counted(self, task_id: TaskId) -> int:
        return self.launcher.task_counters()[task_id].records_polled

    @rule(task_id=tasks)
    def a_task_uses_a_topic_and_asks_for_configs(self, task_id: TaskId) -> None:
        for process in self.working(task_id):
            topic = f"topic-{next(self.numbers)}"
            process.say(TaskTopic(task_id, topic))
            process.say(ReconfigureRequest(task_id.connector))
            self.notices += [(task_id, topic), task_id.connector]
            self.settle()

    @rule(task_id=tasks)
    def a_task_asks_for_offsets(self, task_id: TaskId) -> None:
        for process in self.working(task_id):
            first = next(self.numbers) * 10
            process.say(OffsetsRead(first, task_id.connector, ({"file": "f"},)))
            process.say(OffsetsCommit(first + 1, task_id.connector, ()))
            process.say(RunCheck(first + 2, task_id, process.tasks[task_id].run))
            self.await_answers(process, {(first + number, None) for number in range(3)})

    def await_answers(self, process: MemorySlot, answers: set[tuple[int, None]]) -> None:
        eventually(lambda: answers <= set(process.replies), 5.0, "an answer to each request", pause_s=0.001)
        assert len(process.replies) == len(set(process.replies))

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step()

    # What holds at all times.

    @invariant()
    def no_task_runs_twice_and_no_older_run(self) -> None:
        for task_id in TASKS:
            places = self.working(task_id)
            assert len(places) <= 1
            for process in places:
                assert task_id in self.wanted
                assert process.tasks[task_id] == self.wanted[task_id], "an older run, or another state than wished for"
        for process in self.spark.all_processes:
            assert len(process.starts) == len(set(process.starts)), "reported twice to start one run"
            assert len(process.replies) == len(set(process.replies)), "answered twice"
        assert self.spark.crashes == []

    @invariant()
    def the_herder_is_reported_everything_once_and_in_order(self) -> None:
        def differences() -> list[object]:
            seen = self.events.by_run(with_reasons=False)
            runs = {*seen, *self.spark.expected}
            return [
                (run, self.spark.expected[run], seen.get(run))
                for run in runs
                if self.spark.expected[run] != seen.get(run, [])
            ]

        eventually(lambda: not differences() or _fail(differences()), 5.0, "all states reported", pause_s=0.001)
        eventually(lambda: self.events.notices == self.notices, 5.0, "all notices reported", pause_s=0.001)

    @precondition(lambda self: bool(self.wanted))
    @rule()
    def healed(self) -> None:
        """Where Spark can start slots again, every task runs again in time, as it should."""
        for _ in range(HEALED_S):
            self.bring_up_what_is_submitted()
            self.step()
        self.everything_runs()

    def bring_up_what_is_submitted(self) -> None:
        for slot in list(self.spark.jobs):
            if slot not in self.spark.processes:
                self.spark.connect(slot)
        self.settle()

    def everything_runs(self) -> None:
        assert not [one for one in self.spark.live() if one.is_hung], "a silent slot is still believed in"
        for task_id, spec in self.wanted.items():
            places = self.working(task_id)
            if self.has_ended(task_id):
                assert not places
            else:
                assert [one.tasks[task_id] for one in places] == [spec], "placed once, with the state wished for"
        if self.spark.live():
            assert self.launcher.failure() is None

    def while_time_passes(self, call: Callable[[], set[TaskId]]) -> set[TaskId]:
        """What a call gives that may wait; time passes until it returns."""
        with ThreadPoolExecutor(1, thread_name_prefix="caller") as pool:
            future = pool.submit(call)
            for _ in range(40):
                eventually(lambda: future.done() or "caller_0" in self.spark.clock.waiting(), 5.0, pause_s=0.001)
                if future.done():
                    break
                self.step()
            return future.result(5.0)

    def teardown(self) -> None:
        pool = ThreadPoolExecutor(1, thread_name_prefix="caller")
        stop = pool.submit(self.launcher.stop, 10.0)
        while not stop.done():
            eventually(lambda: stop.done() or self.spark.clock.waiting(), 5.0, pause_s=0.001)
            self.spark.clock.advance(1.0)
        stop.result()
        pool.shutdown()
        reported, submitted = self.events.count(), len(self.spark.submitted)
        assert self.spark.jobs == {}
        assert self.spark.live() == []
        assert self.spark.is_stopped
        eventually(lambda: set(threading.enumerate()) <= self.threads_before, 5.0, "no thread is left", pause_s=0.001)
        self.launcher.tick()
        self.launcher.stop(1.0)
        assert (self.events.count(), len(self.spark.submitted)) == (reported, submitted)


def _fail(differences: list[object]) -> bool:
    raise AssertionError(f"expected and reported differ: {differences}")


TestLauncherOrders = LauncherOrders.TestCase
TestLauncherOrders.settings = examples(20, stateful_step_count=30)
