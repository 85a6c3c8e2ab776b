"""Connectors and tasks that run on this worker of a cluster: started and stopped side by side, in a pool.

Source: DistributedHerder#startAndStop, #startConnector, #startTask, #doRestartConnectorAndTasks (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from kconnect.config.variables import has_reference
from kconnect.errors import ConnectError, NotFoundError, RetriableError
from kconnect.herder.assignment.protocol import Work
from kconnect.herder.cluster.config import entry_of
from kconnect.herder.cluster.fenced_starts import FencedStarts
from kconnect.herder.cluster.status import ClusterStatus
from kconnect.herder.connector_host import ConnectorHost
from kconnect.herder.connector_runner import trace_of
from kconnect.herder.interface import Launcher
from kconnect.herder.memory_config import ConnectorEntry
from kconnect.herder.orders import Orders
from kconnect.herder.state.events import Event, Reconfigure, TaskConfigsFailed, TaskConfigsGiven, ValuesChanged
from kconnect.herder.task_runs import TaskRuns
from kconnect.model import ConnectorType, RunState, TargetState, TaskId
from kconnect.storage.snapshot import ClusterSnapshot

__all__ = ["LocalWork"]

log = logging.getLogger(__name__)

# Plugins wait for other systems rather than for the processor; Java has 8, of which one that hangs is one less
_POOL_THREADS = 16
# What tasks start with is noted before they do, so that no change is missed; files are read in 1 ms. A provider that
# takes longer holds nothing up: a change between a start and its note is then seen with the next one
_NOTE_S = 1.0
# After plugins had the time of task.shutdown.graceful.timeout.ms: what else a stop costs
_STOP_MARGIN_S = 1.0


class LocalWork:
    """States: open -> closed. Threads: start, stop, .. from the herder's; what takes long goes on in the pool.

    Starts of connectors are not waited for, stops are. A start that its stop has overtaken does nothing.
    `post` takes the events that come of it; it is called from the pool.
    """

    def __init__(
        self,
        host: ConnectorHost,
        tasks: TaskRuns,
        status: ClusterStatus,
        launcher: Launcher,
        *,
        call_s: float,
        stop_s: float,
        post: Callable[[Event], None],
        fenced_starts: FencedStarts | None = None,
    ) -> None:
        self._host = host
        self._tasks = tasks
        self._status = status
        self._launcher = launcher
        self._orders = Orders(call_s)
        self._stop_s = stop_s
        self._post = post
        self._fenced_starts = fenced_starts  # of source tasks that deliver exactly once
        self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="herder-work")
        self._lock = threading.Lock()
        self._wanted: dict[str, int] = {}  # guarded by _lock: the start that counts, by connector
        self._starts = 0  # guarded by _lock
        self._versions: dict[str, str | None] = {}  # of task classes' connectors, by connector.class

    # -- orders of the herder's thread --------------------------------------------------------------------------------

    def start(self, work: Work, snapshot: ClusterSnapshot) -> None:
        """Begin to start connectors and tasks; each tells by its status how that ended."""
        for name in work.connectors:
            entry = entry_of(snapshot, name)
            if entry is None:
                log.warning("Connector %s is assigned to this worker, but its config is gone", name)
                continue
            self._start_connector_soon(entry)
        for name, ids in _by_connector(work.tasks).items():
            self._start_tasks(entry_of(snapshot, name), ids)

    def stop(self, work: Work) -> None:
        """Stop connectors and tasks, all at once, and wait; what does not stop in time is left behind."""
        for name in work.connectors:
            self._next_start(name)
        stops = [self._pool.submit(self._stop_connector, name) for name in work.connectors]
        if work.tasks:
            stops.append(self._pool.submit(self._stop_tasks, work.tasks))
        _, late = wait(stops, self._stop_s + _STOP_MARGIN_S)
        if late:
            log.warning("%d connectors or sets of tasks are still stopping after %g s", len(late), self._stop_s)
        for name in {*work.connectors, *(task_id.connector for task_id in work.tasks)}:
            self._forget_if_gone(name)

    def look_again(self, entry: ConnectorEntry) -> None:
        """What the config of a connector refers to may have changed: what is here of it restarts then.

        The herder's thread decides, so that nothing starts again that was just revoked. Threads: any.
        """
        try:
            if self._host.has_changed(entry):
                self._post(ValuesChanged(entry.name))
        except ConnectError as err:
            log.error("Connector %s and its tasks keep the values they have: %s", entry.name, err)

    def restart_connector(self, entry: ConnectorEntry, done: Callable[[ConnectorError], None]) -> None:
        """Stop and start it in the pool; `done` is told how it ended."""
        number = self._next_start(entry.name)

        def restart() -> None:
            error: ConnectError | None = None
            try:
                with self._orders.of(entry.name):
                    self._host.shut_down(entry.name)
                self._start_connector(entry, number)
            except ConnectError as err:
                error = err
            done(error)

        self._pool.submit(restart)

    def restart_task(self, entry: ConnectorEntry, task_id: TaskId, state: RunState = RunState.UNASSIGNED) -> None:
        self._stop_tasks([task_id])
        self._start_tasks(entry, [task_id], state)

    def restart_parts(self, entry: ConnectorEntry, *, connector: bool, tasks: Collection[TaskId]) -> None:
        """Restart some of what is here; all of it shows as RESTARTING first."""
        if connector:
            self._next_start(entry.name)
            stopping = self._pool.submit(self._stop_connector, entry.name)
        if tasks:
            self._stop_tasks(tasks)
        if connector:
            wait([stopping], self._stop_s + _STOP_MARGIN_S)
            self._status.set_restarting(entry.name)
            self._start_connector_soon(entry)
        if tasks:
            self._start_tasks(entry, list(tasks), RunState.RESTARTING)

    def set_target(self, name: str, state: TargetState, here: Work) -> None:
        """Pause, resume or stop what is here; a connector that is started now is asked for task configs."""
        if here.tasks:
            self._launcher.set_target_state(here.tasks, state)
        if name in here.connectors:
            self._submit(name, lambda: self._transition(name, state))

    def ask_task_configs(self, entry: ConnectorEntry) -> None:
        """Ask a connector here; gives TaskConfigsGiven or TaskConfigsFailed."""
        self._submit(entry.name, lambda: self._give_task_configs(entry))

    def close(self, timeout_s: float) -> None:
        """Stop all that is left. Idempotent."""
        self._host.close_reloads(timeout_s)
        self._orders.close(timeout_s)
        self._host.shut_down_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._fenced_starts is not None:
            self._fenced_starts.close()

    # -- in the pool --------------------------------------------------------------------------------------------------

    def _start_connector_soon(self, entry: ConnectorEntry) -> None:
        number = self._next_start(entry.name)

        def start() -> None:
            try:
                self._start_connector(entry, number)
            except ConnectError as err:
                log.error("Connector %s could not be started: %s", entry.name, err)

        self._pool.submit(start)

    def _start_connector(self, entry: ConnectorEntry, number: int) -> None:
        with self._orders.of(entry.name):
            with self._lock:
                if self._wanted.get(entry.name) != number:
                    return
            self._host.shut_down(entry.name)
            self._host.start(entry)
        if entry.target_state is TargetState.STARTED:
            self._post(Reconfigure(entry.name))

    def _stop_connector(self, name: str) -> None:
        try:
            with self._orders.of(name):
                self._host.shut_down(name)
        except ConnectError as err:
            log.error("Connector %s could not be stopped: %s", name, err)

    def _transition(self, name: str, state: TargetState) -> None:
        if self._host.find(name) is None:
            return
        try:
            self._host.transition(name, state)
        except ConnectError as err:
            log.error("Failed to transition connector %s to target state %s: %s", name, state, err)
            return
        if state is TargetState.STARTED:
            self._post(Reconfigure(name))

    def _give_task_configs(self, entry: ConnectorEntry) -> None:
        name = entry.name
        try:
            given = self._host.task_configs(entry) if self._host.find(name) is not None else None
        except RetriableError as err:
            log.warning("Connector %s gave no task configs and is asked again: %s", name, err)
            self._post(TaskConfigsFailed(name, str(err)))
        except ConnectError as err:
            log.error("Tasks of connector %s can not be updated: %s", name, err)
            self._post(TaskConfigsFailed(name, str(err), is_final=True))
        else:
            if given is None:
                self._post(TaskConfigsFailed(name, "it is not running", is_final=True))
            else:
                self._post(TaskConfigsGiven(name, given.configs, entry.config))

    def _submit(self, name: str, action: Callable[[], None]) -> Future[None]:
        """Do something in the connector's turn."""

        def run() -> None:
            with suppress(NotFoundError):
                try:
                    with self._orders.of(name):
                        action()
                except ConnectError as err:
                    log.error("An order of connector %s failed: %s", name, err)
                except Exception:  # top of a thread
                    log.exception("An order of connector %s failed", name)

        return self._pool.submit(run)

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _start_tasks(
        self, entry: ConnectorEntry | None, ids: Iterable[TaskId], state: RunState = RunState.UNASSIGNED
    ) -> None:
        present = [] if entry is None else [task_id for task_id in ids if task_id in entry.task_ids]
        if entry is None or not present:
            log.warning("Tasks %s are assigned to this worker, but their configs are gone", list(ids))
            return
        starts = self._fenced_starts
        if starts is None or self._host.kind(entry.config) is not ConnectorType.SOURCE:
            self._start_now(entry, present, state)
            return
        starts.begin(
            entry.name,
            present,
            lambda ids: self._start_now(entry, ids, state),
            lambda ids, error: self._fail(ids, error),
        )

    def _start_now(self, entry: ConnectorEntry, present: Sequence[TaskId], state: RunState) -> None:
        try:
            if any(has_reference(value) for value in entry.config.values()):
                wait([self._pool.submit(self._note_tasks, entry)], _NOTE_S)
            self._tasks.start(entry, present, self._host.kind(entry.config), self._version(entry), state)
        except Exception as err:  # what a launcher raises belongs to the task
            log.exception("Tasks of connector %s can not be started", entry.name)
            self._fail(present, err)

    def _note_tasks(self, entry: ConnectorEntry) -> None:
        """In the pool: a config provider may take its time."""
        try:
            self._host.note_tasks(entry)
        except Exception:  # top of a thread
            log.exception("What the config of connector %s refers to can not be watched", entry.name)

    def _forget_if_gone(self, name: str) -> None:
        if self._host.find(name) is None and not self._status.runs(name):
            self._host.forget(name)

    def _fail(self, ids: Sequence[TaskId], error: Exception) -> None:
        for task_id in ids:
            self._status.fail_task(task_id, trace_of(error))

    def _stop_tasks(self, ids: Collection[TaskId]) -> None:
        if self._fenced_starts is not None:
            self._fenced_starts.cancel(ids)
        self._tasks.stop(ids)
        self._status.end_runs(ids)

    def _version(self, entry: ConnectorEntry) -> str | None:
        """What tasks of the connector call their version: as its connector does, until a slot could say otherwise."""
        name = entry.config.get("connector.class", "")
        if name not in self._versions:
            try:
                self._versions[name] = str(self._host.new_plugin(entry.config).version())
            except Exception:  # a plugin call
                log.debug("The version of %s is not known", name, exc_info=True)
                self._versions[name] = None
        return self._versions[name]

    def _next_start(self, name: str) -> int:
        """The number of the connector's next start, which makes all before it count no more."""
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
