"""Restarts the FAILED connectors and tasks of a standalone worker, by the rules of a cluster's leader.

What counts against a budget is in memory, as are the connectors: a new process has full budgets.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from kconnect.clock import Clock
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.decisions.auto_restarts import AutoRestarts, Notice, budget_of, name_of
from kconnect.runtime.herder.decisions.failures import NoHelp, failure_of
from kconnect.runtime.herder.decisions.notice_texts import level_of, notice_text
from kconnect.runtime.herder.standalone.memory_config import MemoryConfig
from kconnect.runtime.storage.config_topic import PartRestarts
from kconnect.runtime.storage.status_topic import Subject

log = logging.getLogger(__name__)

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
