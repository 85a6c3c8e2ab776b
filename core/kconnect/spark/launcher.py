"""The Launcher on Spark: decides which task belongs in which slot, and keeps it so whatever happens to the slots."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kconnect.errors import ConnectError
from kconnect.logs.log_context import given_levels
from kconnect.logs.timeline import note_step
from kconnect.logs.wording import pluralize
from kconnect.model import RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.config.slot_keys import SHARED, SlotSettings
from kconnect.runtime.herder.interface import LauncherEvents, RuntimeInfo, SlotInfo
from kconnect.runtime.metrics import TaskCounters, TaskMeter, TaskMeters
from kconnect.spark.application import SparkApplication
from kconnect.spark.cluster import slot_group
from kconnect.spark.event_relay import EventRelay
from kconnect.spark.executors import SlotTarget, UnreachableSlots
from kconnect.spark.known_slots import KnownSlots
from kconnect.spark.memory_watch import MemoryWatch
from kconnect.spark.messages import (
    FailedRecords,
    ForgetTopics,
    Hello,
    Message,
    OffsetsCommit,
    OffsetsRead,
    ReconfigureRequest,
    RunCheck,
    SetLogLevel,
    SetTargetState,
    SlotDemand,
    StartTask,
    StopTasks,
    TaskConditions,
    TaskMetrics,
    TaskReport,
    TasksStopped,
    TaskTopic,
)
from kconnect.spark.own_slots import not_started
from kconnect.spark.ports import Application, PoolPorts
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_pool import SlotPool
from kconnect.spark.slot_scaling import Look, Move
from kconnect.spark.slot_spec import TallyAddress
from kconnect.spark.task_table import TaskMoves, TaskStops, TaskTable

log = logging.getLogger(__name__)

# Poll interval while there is no executor
_LOOK_AGAIN_S = 0.1
# Stopping Spark takes 1.3 s (measured); this much of the stop timeout is reserved for it.
_SPARK_STOP_S = 4.0


class SparkLauncher:
    """Runs tasks in slots of a Spark application; implements Launcher.

    Lifecycle: constructed -> start (returns at once; Spark comes up on a thread) -> stop.
    Threads: all methods from any. Events are called one at a time from one thread, in the order things happened;
    offsets are read and committed on threads of their own.
    """

    def __init__(
        self,
        settings: SparkSettings,
        app: Application | None = None,
        ports: PoolPorts | None = None,
        *,
        query_said: Callable[[TaskMetrics | FailedRecords], FailedRecords | None] = lambda message: None,
    ) -> None:
        """`app` and `ports` stand in for a real Spark and its slots, in tests.

        `query_said` takes what processes of queries say, and gives the answer.
        """
        self._settings = settings
        self._app: Application = SparkApplication(settings) if app is None else app
        ports = ports or PoolPorts(jobs=self._app)
        self._clock = ports.clock
        self._query_said = query_said
        self._pool = SlotPool(settings, ports, self)
        self._meters = TaskMeters()
        self._relay = EventRelay()
        self._stop_numbers = itertools.count(1)
        self._lock = threading.Lock()  # guards the eleven below; nothing that blocks is called under it
        self._tasks = TaskTable()
        self._slots = KnownSlots(settings)
        self._moves = TaskMoves()
        self._over_bound: dict[int, str] = {}
        """Slots that are killed for the memory that they take, with a sentence on it."""
        self._stops = TaskStops()
        self._failure: str | None = None
        self._spark_is_up = False
        self._has_run = False  # a slot has been up
        self._log_levels = [SetLogLevel(logger, level) for logger, level in given_levels().items()]
        self._had_archive_made = False
        self._listens = threading.Event()
        self._stopping = threading.Event()
        self._stopped = False
        self._starter = threading.Thread(target=self._bring_up, name="spark-start", daemon=True)
        self._memory = MemoryWatch(self._clock, self._stopping, self._bounds, self._pool.memory_bytes, self._exceeded)

    def start(self, events: LauncherEvents) -> None:
        self._relay.start(events)
        note_step("Spark begins to start")
        self._starter.start()

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        with self._lock:
            for spec in specs:
                if (left := self._tasks.add(spec)) is not None:  # nobody waits for the answer
                    self._pool.send(left, StopTasks(next(self._stop_numbers), (spec.id,), 0, is_cut_off=True))
            self._place()
            for spec in specs:
                if not self._tasks.is_sent(spec.id):
                    self._relay.post(TaskReport(spec.id, spec.run, RunState.UNASSIGNED, None))
        self._follow_tasks()

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        deadline_s = self._clock.monotonic() + timeout_s + 1.0  # the slot keeps the time itself, this is for its answer
        by_slot: dict[int, list[TaskId]] = defaultdict(list)
        with self._lock:
            for task_id in ids:
                slot = self._tasks.remove(task_id)
                if slot is not None and slot in self._slots.up:
                    by_slot[slot].append(task_id)
            self._meters.forget(ids)
            stops = {}
            for slot, group in by_slot.items():
                number = next(self._stop_numbers)
                stop = stops[number] = self._stops.begin(number, slot, group)
                self._pool.send(slot, StopTasks(number, stop.ids, int(timeout_s * 1000), is_cut_off))
        left: set[TaskId] = set()
        for number, stop in stops.items():
            self._clock.wait(stop.answered, max(deadline_s - self._clock.monotonic(), 0.0))
            with self._lock:
                left.update(self._stops.end(number))
        return left

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        by_slot: dict[int, list[TaskId]] = defaultdict(list)
        with self._lock:
            for task_id in ids:
                slot = self._tasks.set_target(task_id, state)
                if slot is not None:
                    by_slot[slot].append(task_id)
            for slot, group in by_slot.items():
                self._pool.send(slot, SetTargetState(tuple(group), state))

    def forget_topics(self, connector: str) -> None:
        with self._lock:
            for slot in self._slots.up:
                self._pool.send(slot, ForgetTopics(connector))

    def set_log_level(self, logger: str, level: int) -> None:
        message = SetLogLevel(logger, level)
        with self._lock:
            self._log_levels = [known for known in self._log_levels if known.logger != logger] + [message]
            for slot in self._slots.up:
                self._pool.send(slot, message)

    def task_counters(self) -> Mapping[TaskId, TaskCounters]:
        return self._meters.counters()

    def task_meters(self) -> Mapping[TaskId, TaskMeter]:
        return self._meters.meters()

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        return self._meters.conditions()

    def slots(self) -> Sequence[SlotInfo]:
        processes = self._pool.processes()
        with self._lock:
            # One that has said hello is not up before tasks may go there
            up = {slot: process for slot, process in processes.items() if slot in self._slots.up}
            tasks, owners, bounds = self._tasks.by_slot(), self._slots.owners(), self._tasks.bounds()
            shared, numbers = self._slots.bounds(), self._slots.numbers()
        running = {slot: self._app.cluster.running(slot) for slot in up}
        return [
            replace(
                up.get(slot) or SlotInfo(slot, False, None, None, ()),
                tasks=tasks.get(slot, ()),
                job_group=slot_group(slot),
                executor=place.executor if (place := running.get(slot)) is not None else None,
                connector=owners.get(slot),
                memory_limit_bytes=bounds.get(slot, SHARED).memory_bytes,
                cores_limit=bounds.get(slot, SHARED).cores,
                shared_least=None if slot in owners else shared.least,
                shared_most=None if slot in owners else shared.most,
            )
            for slot in numbers
        ]

    def runtime(self) -> RuntimeInfo | None:
        with self._lock:
            is_up = self._spark_is_up and not self._stopped
        try:
            return self._app.about() if is_up else None
        except ConnectError as err:
            log.debug("Spark does not answer: %s", err)
            return None

    def tally_address(self, timeout_s: float) -> TallyAddress | None:
        """Where processes of queries say what they have counted; None if the link does not listen within the time."""
        return self._pool.tally_address() if self._listens.wait(timeout_s) else None

    def waits_for(self) -> str | None:
        with self._lock:
            if self._has_run or self._failure is not None:
                return None
            is_up, expects_slots = self._spark_is_up, self._slots.awaits
        if not is_up:
            return "Spark is starting"
        if self._settings.is_local or expects_slots:
            return "Spark has started, its first slot is starting"
        return f"Waiting for executors from spark.master={self._settings.spark.get('spark.master')}"

    def failure(self) -> str | None:
        with self._lock:
            failure = self._failure
        return failure or self._pool.failure()

    def stop(self, timeout_s: float) -> None:
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self._stopping.set()
        deadline_s = self._clock.monotonic() + timeout_s
        tasks_s = max(timeout_s - _SPARK_STOP_S, timeout_s / 2)
        self._pool.quit(tasks_s, tasks_s + 0.5)
        self._app.stop(max(deadline_s - self._clock.monotonic() - 0.5, 1.0))
        self._pool.stop(1.0)
        self._memory.join(1.0)
        self._relay.stop(max(deadline_s - self._clock.monotonic(), 0.5))
        if self._starter.ident is not None:
            self._starter.join(max(deadline_s - self._clock.monotonic(), 0.5))
            if self._starter.is_alive():
                log.warning("Thread %s did not end in time", self._starter.name)
        self._app.end_daemons(max(deadline_s - self._clock.monotonic(), 0.5))

    # Called by the pool, on its threads.

    def slot_attached(self, slot: int) -> None:
        hello = self._pool.attached().get(slot)
        if not self._settings.is_local:
            self._app.cluster.settled(slot)
        elif hello is not None:
            self._app.note_daemon(hello.parent_pid)
            _note_fork(slot, hello, is_first=self.waits_for() is not None)
        with self._lock:
            self._slots.came_up(slot)
            self._over_bound.pop(slot, None)
            self._has_run = True
            for levels in self._log_levels:
                self._pool.send(slot, levels)
            self._place()
            first_up = not self._slots.awaits and not self._had_archive_made
            self._had_archive_made |= first_up
        if first_up:
            self._app.make_archive_in_background()

    def slot_said(self, slot: int, message: Message, reply: Callable[[Message], None]) -> None:
        match message:
            case TaskReport():
                self._note_report(slot, message)
            case TasksStopped(request, left):
                with self._lock:
                    if not self._stops.answered(request, left) and (way := self._moves.stopped(request)) is not None:
                        self._go_on_elsewhere(*way)
            case TaskMetrics(counted):
                self._note_counters(slot, counted)
            case SlotDemand(percent, demands):
                self._note_demand(slot, percent, dict(demands))
            case TaskConditions(found):
                self._note_conditions(slot, found)
            case ReconfigureRequest() | TaskTopic():
                self._relay.post(message)
            case OffsetsRead() | OffsetsCommit() | RunCheck():
                self._relay.answer(message, reply)
            case _:
                log.warning("Slot %d sent a %s, which a slot does not send", slot, type(message).__name__)

    def slot_lost(self, slot: int, reason: str) -> None:
        with self._lock:
            self._slots.lost(slot, self._clock.monotonic())
            self._stops.lost(slot)
            if (problem := self._over_bound.pop(slot, None)) is not None:
                self._fail(slot, problem)
            self._moves.lost(slot)
            for spec in self._tasks.lost(slot):
                self._meters.forget([spec.id])  # the next process counts from zero
                self._relay.post(TaskReport(spec.id, spec.run, RunState.UNASSIGNED, None))
            self._place()  # those that were on their way to another slot

    def query_said(self, message: TaskMetrics | FailedRecords) -> FailedRecords | None:
        return self._query_said(message)

    def tick(self) -> None:
        with self._lock:
            self._place()
            for slot, problem in self._pool.start_problems().items():
                why = f"Slot {slot} cannot start, and is tried again: {problem}"
                for spec in self._tasks.explain(slot, why):
                    self._relay.post(TaskReport(spec.id, spec.run, RunState.UNASSIGNED, why))
            late = self._slots.late(self._clock.monotonic())
            for slot, connector in late.items():
                self._fail(slot, not_started(connector, self._settings, self._pool.start_problem(slot)))
        self._follow_tasks()
        self._follow_load()

    def has_tasks(self, slot: int) -> bool:
        with self._lock:
            return self._tasks.has_work(slot) or self._stops.has(slot)

    # Inside.

    def _bring_up(self) -> None:
        began_s = self._clock.monotonic()
        try:
            self._app.start()
            if self._stopping.is_set():
                return
            log.info("Spark is up after %.1f s", self._clock.monotonic() - began_s)
            with self._lock:
                self._spark_is_up = True
            self._pool.start(self._settings.link_advertised_host or self._app.driver_host)
            self._listens.set()
            if self._settings.is_local:
                self._grow(self._settings.slot_count())
            else:
                self._follow_executors()
        except Exception as error:  # thread top; whatever it is, without it no task will ever run
            if self._stopping.is_set():
                return
            hint = getattr(error, "hint", None)
            with self._lock:
                self._failure = f"{str(error).rstrip('.')}. {hint}" if hint else str(error)
            log.error("No task can run: %s", self._failure, exc_info=not isinstance(error, ConnectError))

    def _grow(self, count: int) -> None:
        """Begin so many slots that connectors share."""
        with self._lock:
            new = self._slots.grow(count, self._clock.monotonic())
            # Waiting tasks are placed before the first slot is up, so that they spread over all slots.
            self._place()
        self._pool.begin(new)
        log.info("Starting %s, %d in all", pluralize(len(new), "slot"), count)
        self._follow_tasks()

    def _follow_load(self) -> None:
        """Begin and end slots that connectors share, and move tasks between them, as the load says."""
        taken = self._pool.taken()
        with self._lock:
            if self._stopping.is_set():
                return
            working, now_s = self._tasks.working(self._slots.shared), self._clock.monotonic()
            steps, new = self._slots.follow_load(working, self._pool.given_up(), taken, now_s)
            for move in steps.moves:
                self._begin_move(move)
            for slot in steps.end:
                self._tasks.leave(slot)
            self._place()
        for slot in new:
            log.info("Slot %d starts: %s", slot, steps.begin_why)
        self._pool.begin(dict(new))
        for slot, why in steps.end.items():
            log.info("Slot %d ends: %s", slot, why)
            self._pool.end(slot, why)

    def _begin_move(self, move: Move) -> None:
        """Have a task stop in its slot, with a commit, to go on in another. Call with the lock held."""
        source = self._tasks.move(move.task, move.slot)
        if source is not None:
            request = next(self._stop_numbers)
            self._moves.begin(request, move.task, source, move.slot, move.why, self._clock.monotonic())
            timeout_ms = int(self._settings.task_stop_s * 1000)
            self._pool.send(source, StopTasks(request, (move.task,), timeout_ms, is_cut_off=False))

    def _go_on_elsewhere(self, slot: int, task_id: TaskId) -> None:
        """The slot has stopped a task that moves. Call with the lock held."""
        spec = self._tasks.stopped(slot, task_id)
        if spec is not None:
            self._meters.forget([task_id])  # the next process counts from zero
            self._relay.post(TaskReport(task_id, spec.run, RunState.UNASSIGNED, None))
            self._place()

    def _follow_tasks(self) -> None:
        """Begin and end slots of connectors' own, as their tasks need them."""
        taken = self._pool.taken()
        with self._lock:
            if self._stopping.is_set():
                return
            begin, end = self._slots.follow_tasks(self._tasks.own_tasks(), taken, self._clock.monotonic())
            if begin:
                self._place()
            if any(bound.memory_bytes is not None for bound in self._tasks.bounds().values()):
                self._memory.start()
        for slot, connector in begin.items():
            log.info("Starting slot %d for connector %s alone", slot, connector)
        self._pool.begin(dict(begin))
        for slot in end:
            self._pool.end(slot, "its connector has left this worker")

    def _bounds(self) -> dict[int, tuple[str, SlotSettings]]:
        with self._lock:
            owners = self._slots.owners()
            return {slot: (owners[slot], bound) for slot, bound in self._tasks.bounds().items() if slot in owners}

    def _exceeded(self, slot: int, problem: str) -> None:
        """A slot takes more memory than it may: its tasks fail as soon as its process is gone."""
        with self._lock:
            if slot not in self._slots.up:
                return
            self._over_bound[slot] = problem
        self._pool.replace(slot, problem)

    def _fail(self, slot: int, problem: str) -> None:
        """Report the tasks of a slot as FAILED. Call with the lock held."""
        for spec in self._tasks.fail(slot):
            self._meters.forget([spec.id])
            log.error("Task %s has failed: %s", spec.id, problem)
            self._relay.post(TaskReport(spec.id, spec.run, RunState.FAILED, problem))

    def _follow_executors(self) -> None:
        """On a cluster: add slots as executors register. Errors: ConnectError when Spark ends by itself."""
        target, unreachable = SlotTarget(self._settings), UnreachableSlots(self._settings, self._pool.address)
        reported: str | None = None
        while not self._stopping.is_set():
            if self._app.cluster.is_ended:
                raise ConnectError(
                    f"{self._settings.spark.get('spark.master')} has ended this worker's application",
                    hint="Look at the Spark master, then start the worker again.",
                )
            before = target.count
            count = target.look(self._app.cluster.executors(), self._clock.monotonic())
            if count > before:
                self._grow(count)
            missing = self._slots.shared - self._pool.attached().keys()
            silent = {slot: running for slot in missing if (running := self._app.cluster.running(slot)) is not None}
            problem = target.problem or unreachable.look(silent, self._clock.monotonic())
            if problem is not None and reported is None:
                log.error("%s", problem)  # not fatal: cores become free, networks recover
            reported = problem
            self._clock.wait(self._stopping, self._settings.heartbeat_interval_s if count else _LOOK_AGAIN_S)

    def _place(self) -> None:
        """Give every task a slot, and start in their slots those that do not run. Call with the lock held."""
        if self._stopping.is_set():
            return
        up, usable = self._slots.open(self._pool.given_up(), self._clock.monotonic())
        self._tasks.place(usable, self._slots.owners())
        for slot, spec in self._tasks.take_unsent(up):
            self._pool.send(slot, StartTask(spec))

    def _note_report(self, slot: int, report: TaskReport) -> None:
        with self._lock:
            if not self._tasks.reached(slot, report.id, report.run, report.state):
                return
            self._meters.entered(report.id, report.run, report.state)
            self._relay.post(report)
            moved = self._moves.reached(slot, report.id, report.state, self._clock.monotonic())
        if moved is not None:
            log.info("%s", moved)
        note_step(f"Task {report.id} is {report.state}")

    def _note_counters(self, slot: int, counted: Iterable[tuple[TaskId, int, TaskCounters]]) -> None:
        with self._lock:
            for task_id, run, counters in counted:
                if self._tasks.is_run_of(slot, task_id, run):
                    self._meters.take(task_id, run, counters)

    def _note_demand(self, slot: int, percent: float, demands: Mapping[TaskId, float]) -> None:
        with self._lock:
            counters = self._meters.counters()
            behind = sum(counters[task].lag_most for task in self._tasks.working([slot])[slot] if task in counters)
            self._slots.saw(slot, Look(self._clock.monotonic(), percent, demands, behind))

    def _note_conditions(self, slot: int, found: Iterable[tuple[TaskId, int, TaskCondition]]) -> None:
        with self._lock:
            for task_id, run, condition in found:
                if self._tasks.is_run_of(slot, task_id, run):
                    self._meters.fares(task_id, run, condition)


def _note_fork(slot: int, hello: Hello, *, is_first: bool) -> None:
    """The steps of a slot on this machine: when its process was forked, and that which it was forked from started."""
    if is_first:
        note_step("The process that slots are forked from begins its imports", hello.parent_pid)
    note_step(f"Slot {slot} is forked", hello.pid)
    note_step(f"Slot {slot} takes tasks")
