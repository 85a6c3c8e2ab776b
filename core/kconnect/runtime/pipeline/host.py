"""Many tasks in one process: one thread per task, and one housekeeping thread for all timers."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError
from kconnect.logs.log_context import log_context
from kconnect.model import RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.build import build_loop
from kconnect.runtime.pipeline.lifecycle import TaskLoop, TaskThread
from kconnect.runtime.pipeline.ports import OffsetPort, TaskControl, TaskPorts, let_all_run, tell_nobody

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)


class TaskHost:
    """Runs tasks, each on its own thread. Every method is safe from any thread.

    Used by a slot and by the thread launcher of the tests. Lifecycle: constructed (no thread yet) -> start()s and
    stop()s -> close(). A task that outlives its stop is fenced off and counted in `leftovers()`.
    Source: the task half of o.a.k.connect.runtime.Worker (Kafka 4.3).
    """

    def __init__(
        self,
        *,
        report: Callable[[TaskId, int, RunState, str | None], None],
        offsets: OffsetPort,
        reconfigure: Callable[[str], None],
        plugins: PluginRegistry,
        topic_used: Callable[[TaskId, str], None] = tell_nobody,
        may_run: Callable[[TaskId, int], None] = let_all_run,
        clock: Clock | None = None,
        build: Callable[[TaskControl, TaskPorts], TaskLoop] = build_loop,
    ) -> None:
        """`build` makes the data path of a task."""
        self._build = build
        self._clock = clock or SystemClock()
        self._housekeeping = HousekeepingThread(self._clock)
        self._ports = TaskPorts(
            report=report,
            offsets=offsets,
            reconfigure=reconfigure,
            housekeeping=self._housekeeping,
            plugins=plugins,
            topic_used=topic_used,
            may_run=may_run,
            clock=self._clock,
        )
        self._lock = threading.Lock()  # guards the four below
        self._tasks: dict[TaskId, TaskThread] = {}
        self._stopping: list[TaskThread] = []  # asked to stop, and waited for
        self._left: list[TaskThread] = []
        self._closed = False

    def start(self, spec: TaskSpec) -> None:
        """Start a task. An earlier run of the same task that is still alive is cancelled first.

        Errors: ConnectError when the host is closed. Failures of the task itself are reported as FAILED.
        """
        with self._lock:
            if self._closed:
                raise ConnectError(f"Task {spec.id} cannot start: the slot is shutting down")
            runs = [*self._tasks.values(), *self._stopping]
            for earlier in [run for run in runs if run.id == spec.id and not run.join(0)]:
                earlier.cancel()
                self._left.append(earlier)
            task = self._tasks[spec.id] = TaskThread(spec, self._ports, self._build)
            self._housekeeping.start()
        task.start()

    def stop(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        """Stop tasks gracefully, within one shared deadline. Returns those that did not end; they are fenced off."""
        return self.await_end(self.begin_stop(ids, is_cut_off=is_cut_off), timeout_s)

    def begin_stop(self, ids: Collection[TaskId], *, is_cut_off: bool = False) -> list[TaskThread]:
        """Tell tasks to stop, and come back at once: a `start` after this starts another run of theirs.

        `is_cut_off`: they may soon run elsewhere, so their plugins stop before they commit.
        """
        with self._lock:
            asked = [task for task in self._stopping if task.id in ids]  # who asks again waits for them as well
            tasks = [*asked, *(self._tasks.pop(task_id) for task_id in ids if task_id in self._tasks)]
            self._stopping += tasks
        for task in tasks:
            task.request_stop(is_cut_off=is_cut_off)
        return tasks

    def await_end(self, tasks: Sequence[TaskThread], timeout_s: float) -> set[TaskId]:
        """Wait for tasks that were asked to stop, as `stop` does."""
        deadline = self._clock.monotonic() + timeout_s
        left = [task for task in tasks if not task.join(deadline - self._clock.monotonic())]
        for task in left:
            where = task.where()  # before its plugins in Java are let go
            task.cancel()
            with log_context(task.id.connector, task.id.task):
                message = "Task %s did not stop within %.1f s (task.shutdown.graceful.timeout.ms) and was abandoned: %s"
                log.warning(message, task.id, timeout_s, where)
        with self._lock:
            self._stopping = [task for task in self._stopping if task not in tasks]
            self._left = [task for task in {*self._left, *left} if not task.join(0)]
        return {task.id for task in left}

    def cancel(self, ids: Collection[TaskId]) -> None:
        """Fence tasks off at once, without waiting: from now on they report, produce and commit nothing.

        For tasks that may already run elsewhere, such as those of a slot that lost its worker.
        """
        with self._lock:
            tasks = [self._tasks.pop(task_id) for task_id in ids if task_id in self._tasks]
            self._left += tasks
        for task in tasks:
            task.cancel()

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        """Pause or resume tasks; their new states are reported when reached. Unknown ids are ignored."""
        with self._lock:
            tasks = [self._tasks[task_id] for task_id in ids if task_id in self._tasks]
        for task in tasks:
            if state is TargetState.PAUSED:
                task.pause()
            elif state is TargetState.STARTED:
                task.resume()
            else:
                task.request_stop()

    def forget_topics(self, connector: str) -> None:
        """Make a connector's tasks report each topic they use from now on again."""
        with self._lock:
            tasks = [task for task_id, task in self._tasks.items() if task_id.connector == connector]
        for task in tasks:
            task.forget_topics()

    def states(self) -> Mapping[TaskId, tuple[int, RunState]]:
        """Run and state of every task that has been started and not stopped."""
        with self._lock:
            return {task.id: (task.spec.run, task.state) for task in self._tasks.values()}

    def counters(self) -> Mapping[TaskId, TaskCounters]:
        """A copy of every task's counters."""
        with self._lock:
            return {task.id: task.counter_snapshot() for task in self._tasks.values()}

    def counters_by_run(self) -> Mapping[tuple[TaskId, int], TaskCounters]:
        """The same with the run each task is in."""
        with self._lock:
            return {(task.id, task.spec.run): task.counter_snapshot() for task in self._tasks.values()}

    def conditions(self) -> Mapping[tuple[TaskId, int], TaskCondition]:
        """The condition of each task that has not ended, by task and run. Calls that hang are named in the log.

        Threads: one at a time. Costs 2 us for each task; call it about once a second.
        """
        with self._lock:
            tasks = list(self._tasks.values())
        looks = (((task.id, task.spec.run), task.look()) for task in tasks)
        return {key: condition for key, condition in looks if condition is not None}

    def threads(self) -> Mapping[TaskId, int]:
        """The system's number of each task's thread."""
        with self._lock:
            found = {task.id: task.thread_id for task in self._tasks.values()}
        return {task_id: number for task_id, number in found.items() if number is not None}

    def leftovers(self) -> int:
        """How many threads of stopped tasks are still alive."""
        with self._lock:
            self._left = [task for task in self._left if not task.join(0)]
            return len(self._left)

    def close(self, timeout_s: float) -> set[TaskId]:
        """Stop every task and the housekeeping. Returns the ids of tasks that did not end. Idempotent."""
        with self._lock:
            self._closed = True
            ids = list(self._tasks)
        left = self.stop(ids, timeout_s)
        self._housekeeping.stop(timeout_s=1.0)
        return left


class HousekeepingThread:
    """Timers of many tasks on one thread; implements Housekeeping.

    A slow tick delays the others, as in Java, where one thread commits the offsets of all source tasks.
    Source: o.a.k.connect.runtime.SourceTaskOffsetCommitter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # guards the two below
        self._due: list[tuple[float, int, _Timer]] = []
        self._stopping = False
        self._order = itertools.count()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread unless it runs. Idempotent."""
        with self._changed:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)
                self._thread.start()

    def every(self, interval_s: float, tick: Callable[[], None], name: str) -> _Timer:
        timer = _Timer(interval_s, tick, name)
        with self._changed:
            self._push(timer)
            self._changed.notify()
        return timer

    def stop(self, timeout_s: float) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
            if thread.is_alive():
                log.warning("Housekeeping did not end within %.1f s: an offset commit is still running", timeout_s)

    def _push(self, timer: _Timer) -> None:
        heapq.heappush(self._due, (self._clock.monotonic() + timer.interval_s, next(self._order), timer))

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            try:
                timer.tick()
            except Exception:
                log.exception("Housekeeping %s failed; it will be retried in %.1f s", timer.name, timer.interval_s)
            with self._changed:
                self._push(timer)

    def _next(self) -> _Timer | None:
        with self._changed:
            while not self._stopping:
                while self._due and self._due[0][2].is_cancelled:
                    heapq.heappop(self._due)
                wait_s = self._due[0][0] - self._clock.monotonic() if self._due else 60.0
                if wait_s <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait_s)
            return None


class _Timer:
    __slots__ = ("interval_s", "is_cancelled", "name", "tick")

    def __init__(self, interval_s: float, tick: Callable[[], None], name: str) -> None:
        self.interval_s = interval_s
        self.tick = tick
        self.name = name
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
