"""Spark, slots and their links in memory: what a real SparkLauncher with a real SlotPool runs on in unit tests.

Threads are real, time is a SteppedClock: nothing happens later unless a test lets time pass. `MemorySpark.settle` waits
until every thread of the launcher waits for something.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import kconnect
from kconnect.errors import ConnectError, LinkError, LinkRefusedError
from kconnect.model import RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.herder.interface import RuntimeInfo
from kconnect.spark.executors import Executor, RunningSlot
from kconnect.spark.messages import (
    ForgetTopics,
    Heartbeat,
    Hello,
    Message,
    OffsetsAck,
    OffsetsReply,
    Quit,
    ReconfigureRequest,
    SetTargetState,
    StartTask,
    StopTasks,
    TaskReport,
    TasksStopped,
)
from kconnect.spark.ports import PoolPorts, Serve
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_spec import SlotSpec
from kconnect.testing import ManualClock
from kit.waiting import eventually

_STATES = {
    TargetState.STARTED: RunState.RUNNING,
    TargetState.PAUSED: RunState.PAUSED,
    TargetState.STOPPED: RunState.STOPPED,
}
# How soon a wait sees that its event was set: an Event tells nobody but those who wait for it alone
_LOOK_S = 0.001


class SteppedClock(ManualClock):
    """A ManualClock for several threads: a wait ends when its event is set, or when `advance` has passed its end."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = threading.Condition()  # guards the dictionary below
        self._waiting: dict[str, tuple[float, threading.Event]] = {}

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        end_s, name = self.monotonic() + timeout_s, threading.current_thread().name
        with self._moved:
            self._waiting[name] = (end_s, event)
            while not event.is_set() and self.monotonic() < end_s:
                self._moved.wait(_LOOK_S)
            del self._waiting[name]
        return event.is_set()

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        with self._moved:
            self._moved.notify_all()

    def waiting(self) -> set[str]:
        """The threads whose wait goes on: nothing has ended it."""
        with self._moved:
            now_s = self.monotonic()
            return {name for name, (end_s, event) in self._waiting.items() if end_s > now_s and not event.is_set()}


class MemoryLink:
    """The worker's end of a connection to a MemorySlot; implements SlotLink."""

    def __init__(self, slot: MemorySlot, clock: ManualClock) -> None:
        self._slot = slot
        self._clock = clock
        self._changed = threading.Condition()  # guards the three below
        self._inbox: deque[Message | None] = deque()
        self._broken: str | None = None
        self._reads = False
        self.is_served = threading.Event()
        self.last_received_s = clock.monotonic()

    @property
    def is_broken(self) -> bool:
        return self._broken is not None

    @property
    def is_quiet(self) -> bool:
        """Whether the worker has read all there is."""
        with self._changed:
            return self._reads and not self._inbox if self._broken is None else self.is_served.is_set()

    def send(self, message: Message) -> None:
        if self.is_broken:
            raise LinkError("The control link broke while sending")
        self._slot.take(message)

    def receive(self, timeout_s: float) -> Message | None:
        with self._changed:
            self._reads = True
            self._changed.wait_for(lambda: self._inbox or self._broken is not None)
            if not self._inbox:
                raise LinkError(self._broken or "")
            self._reads = False
            message = self._inbox.popleft()
        if message is not None:
            self.last_received_s = self._clock.monotonic()
        return message

    def put(self, message: Message | None) -> None:
        """The slot says something; None: nothing for as long as the worker waits."""
        with self._changed:
            if self._broken is None:
                self._inbox.append(message)
                self._changed.notify_all()

    def cut(self, reason: str) -> None:
        """Break it for this reason, unless it is broken."""
        with self._changed:
            if self._broken is not None:
                return
            self._broken = reason
            self._changed.notify_all()
        self._slot.on_cut()

    def abort(self) -> None:
        self.cut("The other side of the control link is gone")

    def refuse(self, reason: str) -> LinkRefusedError:
        self._slot.refused = reason
        self.abort()
        return LinkRefusedError(reason)


class MemorySlot:
    """The process of a slot: does at once what it is reported, unless it hangs. Its tasks are entries in a table."""

    def __init__(self, spark: MemorySpark, slot: int, pid: int) -> None:
        self._spark = spark
        self.slot = slot
        self.pid = pid
        self.link = MemoryLink(self, spark.clock)
        self.tasks: dict[TaskId, TaskSpec] = {}
        """What it was asked to run, and has not been asked to stop; those that have ended are in `ended`."""
        self.ended: set[TaskId] = set()
        self.starts: list[tuple[TaskId, int]] = []
        self.markers: list[str] = []
        self.replies: list[tuple[int, str | None]] = []
        self.is_hung = False
        """Takes messages and does nothing; it says nothing either."""
        self.holds_stops = False
        """Its tasks do not end when they are asked to."""
        self.refused: str | None = None
        self.is_attached = False

    @property
    def is_live(self) -> bool:
        return self.is_attached and not self.link.is_broken

    def say(self, message: Message) -> None:
        self.link.put(message)

    def report(self, task_id: TaskId, state: RunState, trace: str | None = None) -> None:
        """One of its tasks reaches a state; an end is final."""
        spec = self.tasks[task_id]
        if state in (RunState.FAILED, RunState.STOPPED):
            self.ended.add(task_id)
        self._spark.expect(task_id, spec.run, state)
        self.say(TaskReport(task_id, spec.run, state, trace))

    def working(self) -> dict[TaskId, TaskSpec]:
        """Its tasks that have not ended."""
        return {task_id: spec for task_id, spec in self.tasks.items() if task_id not in self.ended}

    def take(self, message: Message) -> None:
        """The worker says something."""
        with self._spark.lock:
            match message:
                case StartTask(spec):
                    self._start(spec)
                case SetTargetState(ids, state):
                    self._set_target(ids, state)
                case StopTasks(request, ids, _):
                    self._stop(request, ids)
                case ForgetTopics(connector):
                    self.markers.append(connector)
                case OffsetsAck(request, error) | OffsetsReply(request, _, error):
                    self.replies.append((request, error))
                case Quit() if not self.is_hung:
                    self.tasks.clear()
                    self._spark.end_process(self, None)

    def on_cut(self) -> None:
        """What it runs is lost from this moment on, also while its process lives."""
        with self._spark.lock:
            if self.is_attached:
                for task_id, spec in self.working().items():
                    self._spark.expect(task_id, spec.run, RunState.UNASSIGNED)

    def _start(self, spec: TaskSpec) -> None:
        self.starts.append((spec.id, spec.run))
        self.tasks[spec.id] = spec
        self.ended.discard(spec.id)
        if not self.is_hung:
            refusal = self._spark.refuses_start(spec)
            self.report(spec.id, RunState.FAILED if refusal else _STATES[spec.target_state], refusal)

    def _set_target(self, ids: Sequence[TaskId], state: TargetState) -> None:
        for task_id in ids:
            if task_id in self.working():
                spec = self.tasks[task_id]
                self.tasks[task_id] = TaskSpec(
                    spec.id, spec.run, spec.type, spec.connector_config, spec.task_config, spec.worker_config, state
                )
                if not self.is_hung:
                    self.report(task_id, _STATES[state])

    def _stop(self, request: int, ids: Sequence[TaskId]) -> None:
        for task_id in ids:
            self.tasks.pop(task_id, None)
            self.ended.discard(task_id)
        if not self.is_hung:
            self.say(TasksStopped(request, tuple(ids) if self.holds_stops else ()))


class MemoryCluster:
    """Executors as a test sets them."""

    def __init__(self) -> None:
        self.is_ended = False
        self.found: list[Executor] = []
        self.up: list[int] = []

    def executors(self) -> list[Executor]:
        return list(self.found)

    def settled(self, slot: int) -> None:
        self.up.append(slot)

    def running(self, slot: int) -> RunningSlot | None:
        return None


@dataclass(slots=True)
class _Job:
    spec: SlotSpec
    ended: threading.Event = field(default_factory=threading.Event)
    problem: str | None = None


class MemorySpark:
    """A Spark application in memory, and the network to its slots; implements Application and SlotListener."""

    def __init__(self, *, is_gated: bool = False, failure: str | None = None) -> None:
        self.lock = threading.RLock()  # guards all tables here and in the slots
        self.clock = SteppedClock()
        self.cluster = MemoryCluster()
        self.driver_host = "driver"
        self.port = 1
        self.jobs: dict[int, _Job] = {}
        self.processes: dict[int, MemorySlot] = {}
        self.all_processes: list[MemorySlot] = []
        self.expected: defaultdict[tuple[TaskId, int], list[RunState]] = defaultdict(list)
        """States that the herder has to be reported, by task and run, in order."""
        self.wanted: Callable[[TaskId, int], bool] = lambda _id, _run: True
        self.refuses_start: Callable[[TaskSpec], str | None] = lambda _: None
        self.is_stopped = False
        self.crashes: list[BaseException] = []
        """What came out of a thread top and should not have."""
        self.is_local_host = True
        self.memory: dict[int, int] = {}
        """Resident bytes of processes of this host, by pid."""
        self.submitted: list[int] = []
        self.killed: list[int] = []
        self._gate = threading.Event()
        self._failure = failure
        if not is_gated:
            self._gate.set()
        self._serve: Serve | None = None
        self._pids = itertools.count(100)
        self._markers = itertools.count(1)
        self._threads: list[threading.Thread] = []

    def ports(self) -> PoolPorts:
        return PoolPorts(jobs=self, listen=self._listen, kill=self._kill, memory=self._memory, clock=self.clock)

    def expect(self, task_id: TaskId, run: int, state: RunState) -> None:
        if self.wanted(task_id, run):
            self.expected[task_id, run].append(state)

    # Application.

    def start(self) -> None:
        self._gate.wait()
        if self._failure is not None:
            raise ConnectError(self._failure)

    def run_slot(self, spec: SlotSpec) -> None:
        with self.lock:
            if self.is_stopped:
                raise ConnectError("Spark was stopped")
            job = self.jobs[spec.slot] = _Job(spec)
            self.submitted.append(spec.slot)
        job.ended.wait()
        if job.problem is not None:
            raise ConnectError(job.problem)

    def cancel_slot(self, slot: int) -> None:
        if process := self.processes.get(slot):
            self.end_process(process, "cancelled")

    def about(self) -> RuntimeInfo:
        return RuntimeInfo("memory", "4.1.0", "app-1", None)

    def note_daemon(self, pid: int) -> None:
        """It has none."""

    def make_archive_in_background(self) -> None:
        """It has none."""

    def stop(self, timeout_s: float) -> None:
        self.is_stopped = True
        self._gate.set()
        for process in list(self.processes.values()):
            self.end_process(process, "Spark was stopped")
        for slot in list(self.jobs):
            self.end_job(slot, "Spark was stopped")

    def end_daemons(self, timeout_s: float) -> None:
        """It has none."""

    # The listener.

    def _listen(self, settings: SparkSettings, token: bytes, serve: Serve) -> MemoryListener:
        self._serve = serve
        return MemoryListener(self)

    def close_links(self) -> None:
        for process in self.all_processes:
            process.link.abort()
        for thread in self._threads:
            thread.join(5.0)

    def _converse(self, serve: Serve, process: MemorySlot) -> None:
        try:
            serve(process.link)
        except LinkError:
            process.link.abort()
        except BaseException as error:
            self.crashes.append(error)
            raise
        finally:
            process.link.is_served.set()

    # What happens to slots, as a test says.

    def connect(self, slot: int, *, version: str = kconnect.__version__, says_hello: bool = True) -> MemorySlot:
        """The process of a slot whose job runs is up, and says hello."""
        assert self._serve is not None, "nobody listens"
        process = MemorySlot(self, slot, next(self._pids))
        with self.lock:
            self.processes[slot] = process
            self.all_processes.append(process)
        process.is_attached = says_hello and version == kconnect.__version__
        hello = Hello(slot, "here", process.pid, 1, version)
        process.link.put(hello if says_hello else None)
        thread = threading.Thread(target=self._converse, args=(self._serve, process), name=f"link-{process.pid}")
        self._threads.append(thread)
        thread.start()
        return process

    def end_job(self, slot: int, problem: str | None) -> None:
        """Its job ends, whatever becomes of the process."""
        with self.lock:
            job = self.jobs.pop(slot, None)
        if job is not None:
            job.problem = problem
            job.ended.set()

    def end_process(self, process: MemorySlot, problem: str | None, *, cut: str = "The other side is gone") -> None:
        """A process ends, and the job that it is of."""
        with self.lock:
            is_current = self.processes.get(process.slot) is process
            if is_current:
                del self.processes[process.slot]
        process.link.cut(cut)
        if is_current:
            self.end_job(process.slot, problem)

    def _memory(self, hello: Hello) -> int | None:
        return self.memory.get(hello.pid)

    def _kill(self, hello: Hello) -> bool:
        if not self.is_local_host:
            return False
        self.killed.append(hello.pid)
        for process in list(self.all_processes):
            if process.pid == hello.pid:
                self.end_process(process, "killed")
        return True

    # Waiting until all is quiet.

    def live(self) -> list[MemorySlot]:
        """The slots that are up and have not been given up."""
        return [process for process in self.all_processes if process.is_live]

    def settle(self, launcher: Any, slots: int) -> None:
        """Wait until all that was said has arrived and been reported, and nothing moves, with no time passing."""
        eventually(lambda: self._is_quiet(slots), 10.0, "the launcher's threads wait", pause_s=_LOOK_S)
        marker = f"marker-{next(self._markers)}"
        launcher.forget_topics(marker)
        eventually(
            lambda: self._is_quiet(slots) and all(marker in one.markers for one in self.live()),
            10.0,
            "all slots have what was sent",
            pause_s=_LOOK_S,
        )
        relay = launcher._relay  # what it has still to deliver cannot be seen from outside
        relay.post(ReconfigureRequest(marker))
        eventually(lambda: marker in relay._events.markers, 10.0, "all events are delivered", pause_s=_LOOK_S)

    def step(self, launcher: Any, slots: int, *, late: Sequence[int] = ()) -> None:
        """A second passes, in which every slot beats that does not hang and is not late."""
        for process in self.live():
            if not process.is_hung and process.slot not in late:
                process.say(Heartbeat())
        self.settle(launcher, slots)
        self.clock.advance(1.0)
        self.settle(launcher, slots)

    def _is_quiet(self, slots: int) -> bool:
        waiting = self.clock.waiting()
        with self.lock:
            jobs = all(slot in self.jobs or f"slot-job-{slot}" in waiting for slot in range(slots))
        links = all(process.link.is_quiet for process in self.all_processes)
        return jobs and links and "slot-heartbeat" in waiting and not self.crashes


class MemoryListener:
    """The listener of a MemorySpark."""

    def __init__(self, spark: MemorySpark) -> None:
        self._spark = spark
        self.port = spark.port

    def start(self) -> None:
        """Slots may connect from the start."""

    def stop(self, timeout_s: float) -> None:
        self._spark.close_links()
