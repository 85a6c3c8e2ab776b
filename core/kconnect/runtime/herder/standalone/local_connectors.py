"""The connectors of a standalone herder: their instances, their tasks, and changes of their configs.

Source: StandaloneHerder, AbstractHerder, Worker; of the topics that connectors were seen to use,
AbstractHerder#connectorActiveTopics, TopicStatus (Kafka 4.3; KIP-558).

AutoRestarter restarts what is FAILED, by the rules of a cluster's leader.

What counts against a budget is in memory, as are the connectors: a new process has full budgets.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from kconnect.clock import Clock
from kconnect.errors import ConnectError, ForbiddenError, RetriableError
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.herder.connectors.orders import Orders
from kconnect.runtime.herder.connectors.task_runs import TaskRuns
from kconnect.runtime.herder.decisions.auto_restarts import AutoRestarts, Notice, budget_of, name_of
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.decisions.failures import NoHelp, failure_of
from kconnect.runtime.herder.decisions.notice_texts import level_of, notice_text
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.standalone.memory_config import MemoryConfig
from kconnect.runtime.herder.standalone.memory_status import MemoryStatus
from kconnect.runtime.storage.config_topic import PartRestarts
from kconnect.runtime.storage.status_topic import Subject

log = logging.getLogger(__name__)


class HostedConnectors:
    """Steps of the herder's requests. States: open -> stopped.

    Threads: any; the caller of a method that takes a name or an entry holds that connector's order. `update_tasks_soon`
    needs none.
    """

    def __init__(
        self, parts: HerderParts, config: MemoryConfig, status: MemoryStatus, orders: Orders, tasks: TaskRuns
    ) -> None:
        self._config = config
        self._status = status
        self._orders = orders
        self._tasks = tasks
        self.host = ConnectorHost(parts, status, request_tasks=self.update_tasks_soon, look_again=self._look_again)

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks gracefully, then the connectors. The orders are closed: nothing arrives meanwhile."""
        self.host.close_reloads(timeout_s)
        ids = [task_id for entry in self._config.all() for task_id in entry.task_ids]
        self._tasks.stop(ids, timeout_s)
        self.host.shut_down_all()

    def configure(self, entry: ConnectorEntry) -> None:
        """Replace the entry, restart its connector and give it its tasks."""
        name = entry.name
        self.host.shut_down(name)
        self._config.put(entry)
        self.start(name)
        try:
            self.update_tasks(name)
        except RetriableError as err:
            log.warning("Connector %s has given no task configs yet and will be asked again: %s", name, err)
            self.update_tasks_soon(name)

    def start(self, name: str) -> None:
        """Create the instance and bring it to its target state. Errors: ConnectError; its status shows why."""
        self.host.start(self._config.get(name))

    def try_start(self, name: str) -> None:
        """Start it; an error is logged and shown in its status."""
        try:
            self.start(name)
        except ConnectError as err:
            log.error("Connector %s was restarted and failed: %s", name, err)

    def remove(self, name: str) -> None:
        """Stop the connector and its tasks, and forget its config and secrets."""
        self.remove_tasks(name)
        self.host.shut_down(name)
        self._config.remove(name)
        self.host.forget(name)

    def update_tasks(self, name: str) -> None:
        """Ask for task configs; restart tasks if they changed. Errors: RetriableError; others fail the connector."""
        entry = self._config.get(name)
        given = self.host.task_configs(entry)
        if given is not None and entry.tasks_differ(given.configs):
            self.remove_tasks(name)
            entry = self._config.put(entry.with_tasks(given.configs))
            if self.host.refers(entry):
                self.host.note_tasks(entry)
            self._tasks.start(entry, entry.task_ids, self.host.kind(entry.config), given.version)

    def update_tasks_soon(self, name: str) -> None:
        """The same in the background, in the connector's turn; retried after a RetriableError."""
        self._orders.soon(name, lambda: self._try_update(name))

    def remove_tasks(self, name: str) -> None:
        """Stop the tasks and forget that there were any."""
        entry = self._config.get(name)
        self._tasks.stop(entry.task_ids)
        self._status.remove_tasks(entry.task_ids)
        self._config.put(entry.without_tasks())

    def _try_update(self, name: str) -> bool:
        """Returns False to be retried."""
        if self._config.find(name) is None or self.host.find(name) is None:
            return True
        try:
            self.update_tasks(name)
        except RetriableError as err:
            log.warning("Connector %s gave no task configs and will be asked again: %s", name, err)
            return False
        except ConnectError as err:
            log.error("Tasks of connector %s cannot be updated: %s", name, err)
        return True

    def _look_again(self, name: str) -> None:
        self._orders.soon(name, lambda: self._reload(name), "reload")

    def _reload(self, name: str) -> bool:
        """Restart connector and tasks if a value they were started with has changed; returns True: done."""
        entry = self._config.find(name)
        try:
            why = None if entry is None else self.host.change_of(entry)
            if why is None:
                return True
            log.info("Connector %s: restarting it and its tasks: %s", name, why)
            self.remove_tasks(name)
            self.host.shut_down(name)
            self.start(name)
        except ConnectError as err:
            log.error("Connector %s cannot be restarted with what its config refers to: %s", name, err)
            return True
        return self._try_update(name)


class ActiveTopics:
    """Topics by connector. They outlive restarts and other configs of it; a reset and a deletion end them.

    Threads: any. Errors: ForbiddenError where the worker's settings say so.
    """

    def __init__(self, *, is_tracking: bool, allows_reset: bool) -> None:
        self._is_tracking = is_tracking
        self._allows_reset = allows_reset
        self._lock = threading.Lock()
        self._topics: dict[str, set[str]] = {}  # guarded by _lock

    def used(self, connector: str, topic: str) -> None:
        if self._is_tracking:
            with self._lock:
                self._topics.setdefault(connector, set()).add(topic)

    def of(self, connector: str) -> list[str]:
        """The topics of a connector, sorted. Differs: Java's are in the order of its hash set."""
        self._require_tracking()
        with self._lock:
            return sorted(self._topics.get(connector, ()))

    def reset(self, connector: str) -> None:
        """Reset them at a user's request."""
        self._require_tracking()
        if not self._allows_reset:
            raise ForbiddenError(
                "Topic tracking reset is disabled.", hint="Set topic.tracking.allow.reset=true for the worker."
            )
        self.forget(connector)

    def forget(self, connector: str) -> None:
        """Forget them, because the connector is gone."""
        with self._lock:
            self._topics.pop(connector, None)

    def _require_tracking(self) -> None:
        if not self._is_tracking:
            raise ForbiddenError("Topic tracking is disabled.", hint="Set topic.tracking.enable=true for the worker.")


# Between two looks when nothing is due
_LONGEST_WAIT_S = 60.0
# What was due is still due after an error, which should not fill the log
_AFTER_ERROR_S = 5.0
Seen = tuple[Subject, RunState | None, str | None]


class AutoRestarter:
    """States: new -> start() -> stop(). Threads: `note` from any, it does not block; the rules run on its own.

    `restart(name, parts)` begins a restart in the background; `announce` gets all notices.
    """

    def __init__(
        self,
        config: MemoryConfig,
        defaults: RestartSettings,
        restart: Callable[[str, Sequence[int]], None],
        announce: Callable[[Notice], None],
        clock: Clock,
    ) -> None:
        self.worker_id = ""
        self._restarts = AutoRestarts()
        self._budgets = _LocalBudgets(config, defaults)
        self._restart = restart
        self._announce = announce
        self._clock = clock
        self._seen: queue.SimpleQueue[Seen] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="auto-restart", daemon=True)

    @property
    def restarted(self) -> int:
        """Connectors and tasks restarted so far."""
        return self._restarts.restarted

    def failed_ms(self, subject: Subject) -> int | None:
        """Works as that of `AutoRestarts`. Threads: any."""
        return self._restarts.failed_ms(subject)

    def last_said(self, subject: Subject) -> str | None:
        """Works as that of `AutoRestarts`. Threads: any."""
        return self._restarts.last_said(subject)

    def restarts(self, name: str) -> Sequence[PartRestarts]:
        """What counts against a connector's budget, however old. Threads: any."""
        return self._budgets.restarts(name)

    def start(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Idempotent."""
        self._is_stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def note(self, subject: Subject, state: RunState | None, trace: str | None = None) -> None:
        """A connector or task is in this state from now on; None: it is gone."""
        self._seen.put((subject, state, trace))
        self._wake.set()

    def _run(self) -> None:
        wait_s = _LONGEST_WAIT_S
        while not self._is_stopped:
            self._clock.wait(self._wake, wait_s)
            self._wake.clear()
            if self._is_stopped:
                return
            try:
                wait_s = self._look()
            except Exception:  # top of the thread
                log.exception("Automatic restarts could not be decided")
                wait_s = _AFTER_ERROR_S

    def _look(self) -> float:
        """Take what was noted, do what is due; the seconds until the next look."""
        now_ms, budgets = self._clock.time_ms(), self._budgets
        while not self._seen.empty():
            subject, state, trace = self._seen.get()
            if state is RunState.FAILED:
                self._restarts.fails(subject, failure_of(self.worker_id, trace), now_ms)
            else:
                self._restarts.stands(subject, state, now_ms, budgets)
        self._restarts.weigh_again()
        for notice in self._restarts.notices(now_ms, budgets):
            log.log(level_of(notice), "%s", notice_text(notice))
            self._announce(notice)
        while (found := self._restarts.restart(now_ms, budgets)) is not None:
            budgets.counted[found.connector] = found.restarts
            self._restart(found.connector, found.parts)
        due_ms = self._restarts.next_due_ms(now_ms, budgets)
        return _LONGEST_WAIT_S if due_ms is None else min(_LONGEST_WAIT_S, max(0.0, (due_ms - now_ms) / 1000))


class _LocalBudgets:
    """Implements `Budgets` on the configs of this process."""

    def __init__(self, config: MemoryConfig, defaults: RestartSettings) -> None:
        self._config = config
        self._defaults = defaults
        self.counted: dict[str, tuple[PartRestarts, ...]] = {}

    def settings(self, connector: str) -> RestartSettings:
        entry = self._config.find(connector)
        return self._defaults if entry is None else self._defaults.of_connector(entry.config)

    def most(self, connector: str) -> int:
        return budget_of(self.settings(connector)).most

    def why_none(self, connector: str) -> NoHelp | None:
        return budget_of(self.settings(connector)).why_none

    def restarts(self, connector: str) -> Sequence[PartRestarts]:
        return self.counted.get(connector, ())

    def may_run(self, subject: Subject) -> bool:
        entry = self._config.find(name_of(subject))
        if entry is None or entry.target_state is not TargetState.STARTED:
            return False
        return subject in entry.task_ids if isinstance(subject, TaskId) else True

    def is_here(self, worker_id: str) -> bool:
        return True
