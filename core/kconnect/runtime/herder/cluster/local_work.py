"""Connectors and tasks that run on this worker of a cluster: started and stopped side by side, in pools.

Source: DistributedHerder#startAndStop, #startConnector, #startTask, #doRestartConnectorAndTasks (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from kconnect.errors import ConnectError
from kconnect.logs.redaction import redact
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorType, RunState, TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.config_entries import entry_of
from kconnect.runtime.herder.cluster.fenced_starts import FencedStarts
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.herder.connectors.hosted_connector import PluginTimes
from kconnect.runtime.herder.connectors.orders import Orders
from kconnect.runtime.herder.connectors.runner import trace_of
from kconnect.runtime.herder.connectors.task_runs import TaskRuns
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.decisions.events import (
    Event,
    Reconfigure,
    TaskConfigsFailed,
    TaskConfigsGiven,
    ValuesChanged,
)
from kconnect.runtime.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

# Plugins mostly wait for other systems, not for the processor; Java has 8 threads, of which a hanging call takes one
_POOL_THREADS = 16
# Stops of tasks wait behind no plugin. The herder's thread and the watch of the group order them, and a stop lasts
# little longer than they wait for it: of each, one may be late
_TASK_STOP_THREADS = 4


class LocalWork:
    """States: open -> closed. Threads: start, stop, .. from the herder's; long work runs in the pool.

    Starts of connectors are not waited for, stops are. A start that was overtaken by its stop does nothing, and a stop
    that is late leaves alone what was started since.
    `post` takes the resulting events; it is called from the pool.
    """

    def __init__(
        self,
        host: ConnectorHost,
        tasks: TaskRuns,
        status: ClusterStatus,
        post: Callable[[Event], None],
        times: PluginTimes,
        fenced_starts: FencedStarts | None = None,
    ) -> None:
        self._host = host
        self._tasks = tasks
        self._status = status
        self._orders = Orders(times.call_s)
        self._times = times
        self._post = post
        self._fenced_starts = fenced_starts  # of source tasks that deliver exactly once
        self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="herder-work")
        self._task_stops = ThreadPoolExecutor(_TASK_STOP_THREADS, thread_name_prefix="task-stops")
        self._lock = threading.Lock()
        self._wanted: dict[str, int] = {}  # guarded by _lock: the start or stop that counts, by connector
        self._starts = 0  # guarded by _lock
        self._targets: dict[str, TargetState] = {}  # the target states of connectors, as last requested
        self._is_closed = False
        self._versions: dict[tuple[str, str | None], str | None] = {}  # of connectors, by class and version wanted

    # -- orders of the herder's thread --------------------------------------------------------------------------------

    def start(self, work: Work, snapshot: ClusterSnapshot) -> None:
        """Begin to start connectors and tasks; each status reports the result."""
        for name in work.connectors:
            entry = entry_of(snapshot, name)
            if entry is None:
                log.warning("Connector %s is assigned to this worker, but its config is gone", name)
                continue
            self._start_soon(entry)
        tasks = _by_connector(work.tasks)
        entries = {name: entry_of(snapshot, name) for name in tasks}
        self._note(entries.values())
        for name, ids in tasks.items():
            self._start_tasks(entries[name], ids)

    def stop(self, work: Work, *, is_cut_off: bool = False) -> None:
        """Stop connectors and tasks, all at once, and wait; what does not stop in time is abandoned.

        `is_cut_off`: as of `StopWork`.
        """
        stops = [self._in_pool(self._stop_connector, name, self._next_start(name)) for name in work.connectors]
        if work.tasks:
            stops.append(self._queue(self._task_stops, self._stop_runs, self._called_off(work.tasks), is_cut_off))
        over, late = wait(stops, self._times.stop_s + self._times.stop_margin_s)
        for stop in over:
            if (error := stop.exception()) is not None:
                log.error("Connectors or tasks could not be stopped", exc_info=error)
        if late:
            log.warning(
                "%s still stopping after %g s",
                pluralize(len(late), "connector or set of tasks", "connectors or sets of tasks"),
                self._times.stop_s,
            )
        for name in {*work.connectors, *(task_id.connector for task_id in work.tasks)}:
            self._forget_if_gone(name)

    def look_again(self, entry: ConnectorEntry) -> None:
        """The values that a connector's config refers to may have changed: if so, its parts here restart.

        The herder's thread decides, so that work that was just revoked does not restart. Threads: any.
        """
        try:
            if (why := self._host.change_of(entry)) is not None:
                self._post(ValuesChanged(entry.name, why))
        except ConnectError as err:
            log.error("Connector %s and its tasks keep the values they have: %s", entry.name, err)

    def restart_connector(self, entry: ConnectorEntry, done: Callable[[ConnectorError], None]) -> None:
        """Stop and start it in the pool; `done` is called with the result."""
        self._start_soon(entry, done)

    def restart_task(self, entry: ConnectorEntry, task_id: TaskId, state: RunState = RunState.UNASSIGNED) -> None:
        self._stop_runs(self._called_off([task_id]))
        self._note([entry])
        self._start_tasks(entry, [task_id], state)

    def restart_parts(self, entry: ConnectorEntry, *, connector: bool, tasks: Collection[TaskId]) -> None:
        """Restart some of a connector's parts here; all of them show as RESTARTING first."""
        if connector:
            stopping = self._in_pool(self._stop_connector, entry.name, self._next_start(entry.name))
        if tasks:
            self._stop_runs(self._called_off(tasks))
        if connector:
            wait([stopping], self._times.stop_s + self._times.stop_margin_s)
            self._status.set_restarting(entry.name)
            self._start_soon(entry)
        if tasks:
            self._note([entry])
            self._start_tasks(entry, list(tasks), RunState.RESTARTING)

    def set_target(self, name: str, state: TargetState, here: Work) -> None:
        """Pause, resume or stop a connector's parts here; a connector that starts is asked for task configs.

        Parts that still wait to start, behind other orders or a round of fencing, start in that state.
        """
        self._targets[name] = state
        if here.tasks:
            self._tasks.set_target_state(here.tasks, state)
        if name in here.connectors:
            self._submit(name, lambda: self._transition(name, state))

    def ask_task_configs(self, entry: ConnectorEntry) -> None:
        """Request task configs from a connector here; returns TaskConfigsGiven or TaskConfigsFailed."""
        self._in_pool(self._give_task_configs, entry)

    def close(self, timeout_s: float) -> None:
        """Stop all that is left. Idempotent."""
        self._host.close_reloads(timeout_s)
        self._orders.close(timeout_s)
        self._host.shut_down_all()
        self._is_closed = True
        for pool in (self._pool, self._task_stops):
            pool.shutdown(wait=False, cancel_futures=True)
        if self._fenced_starts is not None:
            self._fenced_starts.close()

    # -- in the pool --------------------------------------------------------------------------------------------------

    def _in_pool(self, action: Callable[..., None], *args: object) -> Future[None]:
        return self._queue(self._pool, action, *args)

    def _queue(self, pool: ThreadPoolExecutor, action: Callable[..., None], *args: object) -> Future[None]:
        """Errors: none. After the close it does nothing: a stop of the worker may overtake a start."""
        try:
            return pool.submit(action, *args)
        except RuntimeError:
            if not self._is_closed:
                raise
            log.debug("The herder has stopped: a pending order is dropped")
            ended: Future[None] = Future()
            ended.set_result(None)
            return ended

    def _start_soon(self, entry: ConnectorEntry, done: Callable[[ConnectorError], None] = lambda _: None) -> None:
        """Stop its running parts, then start it. `done` is called with the result."""
        self._targets[entry.name] = entry.target_state
        number = self._next_start(entry.name)
        self._in_pool(lambda: done(self._try_start(entry, number)))

    def _try_start(self, entry: ConnectorEntry, number: int) -> ConnectorError:
        """Returns the error; the connector's status also shows it."""
        try:
            self._start_connector(entry, number)
        except ConnectError as err:
            log.error("Connector %s could not be started: %s", entry.name, err)
            return err
        except Exception as err:  # top of a thread
            log.exception("Connector %s could not be started", entry.name)
            self._status.set_connector(entry.name, RunState.FAILED, redact(trace_of(f"Connector {entry.name}", err)))
            return ConnectError(f"Connector {entry.name} could not be started: {type(err).__name__}: {err}")
        return None

    def _start_connector(self, entry: ConnectorEntry, number: int) -> None:
        with self._orders.of(entry.name):
            if not self._counts(entry.name, number):
                return
            self._host.shut_down(entry.name)
            target = self._target(entry)
            self._host.start(entry.with_target(target))
        if target is TargetState.STARTED:
            self._post(Reconfigure(entry.name))

    def _stop_connector(self, name: str, number: int) -> None:
        """A late call, behind an order that hung, must not stop what was started since."""
        try:
            with self._orders.of(name):
                if self._counts(name, number):
                    self._host.shut_down(name)
        except ConnectError as err:
            log.error("Connector %s could not be stopped: %s", name, err)

    def _transition(self, name: str, state: TargetState) -> None:
        if self._host.find(name) is None:
            return
        try:
            self._host.transition(name, state)
        except ConnectError as err:
            log.error("Connector %s did not reach the state %s: %s", name, state, err.hint or err)
            return
        if state is TargetState.STARTED:
            self._post(Reconfigure(name))

    def _give_task_configs(self, entry: ConnectorEntry) -> None:
        """The result is always reported: the herder does not ask again before."""
        name = entry.name
        try:
            with self._orders.of(name):
                hosted = self._host.find(name)
                given = None if hosted is None else self._host.task_configs(entry, is_asked_again=True)
        except Exception as err:  # top of a thread; what a plugin raises comes as a ConnectError
            hosted = self._host.find(name)
            is_final = hosted is None or not hosted.is_running  # gone, or it has failed; else it was only busy
            what = "cannot be updated" if is_final else "are asked for again"
            trace = err.__cause__ if isinstance(err, ConnectError) else err
            log.error("Connector %s gave no task configs, its tasks %s: %s", name, what, err, exc_info=trace)
            self._post(TaskConfigsFailed(name, str(err), is_final))
            return
        if given is None:
            self._post(TaskConfigsFailed(name, "it is not running", is_final=True))
        else:
            self._post(TaskConfigsGiven(name, given.configs, entry.config))

    def _submit(self, name: str, action: Callable[[], None]) -> Future[None]:
        """Do something in the connector's turn."""

        def run() -> None:
            try:
                with self._orders.of(name):
                    action()
            except ConnectError as err:
                log.error("An order of connector %s failed: %s", name, err)
            except Exception:  # top of a thread
                log.exception("An order of connector %s failed", name)

        return self._in_pool(run)

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _start_tasks(
        self, entry: ConnectorEntry | None, ids: Iterable[TaskId], state: RunState = RunState.UNASSIGNED
    ) -> None:
        present = [] if entry is None else [task_id for task_id in ids if task_id in entry.task_ids]
        if entry is None or not present:
            log.warning("Tasks %s are assigned to this worker, but their configs are gone", list(ids))
            return
        self._targets[entry.name] = entry.target_state
        starts = self._fenced_starts
        if starts is None or self._host.kind(entry.config) is not ConnectorType.SOURCE:
            self._start_now(entry, present, state)
            return
        starts.begin(
            entry.name,
            present,
            entry.task_generation,
            lambda ids: self._start_now(entry, ids, state),
            lambda ids, error: self._fail(ids, error),
        )

    def _start_now(self, entry: ConnectorEntry, present: Sequence[TaskId], state: RunState) -> None:
        target = self._target(entry)
        try:
            wanted = entry.with_target(target)
            self._tasks.start(wanted, present, self._host.kind(entry.config), self._version(entry), state)
            now = self._target(entry)
            if now is not target and now is not TargetState.STOPPED:  # reported when no one had the tasks yet
                self._tasks.set_target_state(present, now)
        except Exception as err:  # what a launcher raises belongs to the task
            log.exception("Tasks of connector %s cannot be started", entry.name)
            self._fail(present, err)

    def _note(self, entries: Iterable[ConnectorEntry | None]) -> None:
        """Note what the tasks of all these connectors start with, in one wait: the group waits for this thread.

        So no change is missed; files are read in 1 ms. A provider that takes longer delays nothing: a change between a
        start and its note is found with the next one.
        """
        present = [entry for entry in entries if entry is not None]
        referring = [entry for entry in present if self._host.refers(entry)]
        wait([self._in_pool(self._note_tasks, entry) for entry in referring], self._times.note_s)

    def _note_tasks(self, entry: ConnectorEntry) -> None:
        """In the pool: a config provider may take its time."""
        try:
            self._host.note_tasks(entry)
        except Exception:  # top of a thread
            log.exception("What the config of connector %s refers to cannot be watched", entry.name)

    def _forget_if_gone(self, name: str) -> None:
        if self._host.find(name) is None and not self._status.runs(name):
            self._host.forget(name)

    def _fail(self, ids: Sequence[TaskId], error: Exception) -> None:
        for task_id in ids:
            self._status.fail_task(task_id, redact(trace_of(f"Task {task_id}", error)))

    def _called_off(self, ids: Collection[TaskId]) -> Mapping[TaskId, int | None]:
        """Calls off those of these tasks that have not started yet; gives the runs that are to stop."""
        if self._fenced_starts is not None:
            self._fenced_starts.cancel(ids)
        return self._status.runs_of(ids)

    def _stop_runs(self, runs: Mapping[TaskId, int | None], is_cut_off: bool = False) -> None:
        """A late call must not stop, or end, a run that began since the stop was ordered."""
        now = self._status.runs_of(runs)
        ids = [task_id for task_id, run in runs.items() if now[task_id] in (run, None)]
        self._tasks.stop(ids, is_cut_off=is_cut_off)
        self._status.end_runs(runs)

    def _version(self, entry: ConnectorEntry) -> str | None:
        """The version of the connector's tasks: its own, until a slot reports another."""
        wanted = entry.config.get("connector.class", ""), entry.config.get("connector.plugin.version")
        if wanted not in self._versions:
            try:
                self._versions[wanted] = str(self._host.new_plugin(entry.config).version())
            except Exception:  # a plugin call
                log.debug("The version of %s is unknown", wanted[0], exc_info=True)
                self._versions[wanted] = None
        return self._versions[wanted]

    def _target(self, entry: ConnectorEntry) -> TargetState:
        return self._targets.get(entry.name, entry.target_state)

    def _counts(self, name: str, number: int) -> bool:
        """Whether no other start or stop of the connector was requested since."""
        with self._lock:
            return self._wanted.get(name) == number

    def _next_start(self, name: str) -> int:
        """The number of the connector's next start or stop, which supersedes all earlier ones."""
        with self._lock:
            self._starts += 1
            self._wanted[name] = self._starts
            return self._starts


ConnectorError = ConnectError | None


def _by_connector(ids: Iterable[TaskId]) -> dict[str, list[TaskId]]:
    found: dict[str, list[TaskId]] = {}
    for task_id in ids:
        found.setdefault(task_id.connector, []).append(task_id)
    return found
