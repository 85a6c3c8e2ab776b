"""The one thread of a cluster's herder: takes events, lets the state machine decide, performs its instructions, polls
the group.

Here is also who watches the thread from outside: `CutOffWatch` stops the work of a member that is cut off from its
group while the thread is busy, as others will start it. A thread that is not busy learns this from its membership and
stops the work itself; but it may hang in a write to an unreachable broker, for longer than a session. `save_trace`
writes the state machine's trace to a file when a worker fails; `connect cluster trace` shows the same.
Differs: Java's worker keeps its tasks running.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kconnect.clock import Clock
from kconnect.errors import ConnectError
from kconnect.files.folders import state_folder
from kconnect.logs.redaction import redact
from kconnect.runtime.herder.cluster.change_requests import PendingRequests
from kconnect.runtime.herder.cluster.herder_inbox import HerderInbox
from kconnect.runtime.herder.cluster.performer import Performer
from kconnect.runtime.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.decisions.events import Asked, Event, Placed, Started, StopAsked, Tick
from kconnect.runtime.herder.decisions.machine import HerderState
from kconnect.runtime.herder.health.watch_thread import WatchThread
from kconnect.runtime.herder.membership import Assigned, GroupEvent, Membership
from kconnect.runtime.metrics import SettleMeter
from kconnect.runtime.storage.config_store import ConfigStore

log = logging.getLogger(__name__)

# Between two looks at the clock when nothing is due: a lost wakeup costs this much
_LONGEST_POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadParts:
    """What the herder's thread works with."""

    state: HerderState
    configs: ConfigStore
    membership: Membership
    rounds: RebalanceRounds
    inbox: HerderInbox
    performer: Performer
    stages: ThreadStage
    pending: PendingRequests
    clock: Clock
    save_trace: Callable[[], str]
    """Write the state machine's trace to a file; returns a sentence about it. Never raises."""


class HerderThread:
    """States: new -> start() -> stop(). `on_crash` is called on the thread when it ends by an error."""

    def __init__(self, parts: ThreadParts, on_crash: Callable[[BaseException], None]) -> None:
        self._parts = parts
        self._on_crash = on_crash
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="herder", daemon=True)
        self.settling = SettleMeter(parts.clock)
        self.has_joined = threading.Event()
        """Set with the first assignment."""

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Stop all work, leave the group, end. False: it did not end in time. Idempotent."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._parts.inbox.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        parts = self._parts
        try:
            self._tick()
            self._take(Started(parts.configs.snapshot()))
            while not self._stopping.is_set():
                self._poll()
                self._take_all()
            self._tick()
            self._take(StopAsked())  # not from the inbox: it may just have been looked through
            self._take_all()
        except ConnectError as err:  # the group refuses this worker for good: no fault of ours to be traced
            log.error("The worker cannot continue: %s. %s", err, parts.save_trace())
            self._on_crash(err)
        except Exception as err:  # top of the thread
            log.exception("The herder's thread has ended: the worker cannot continue. %s", parts.save_trace())
            self._on_crash(err)
        finally:
            parts.performer.close()

    def _poll(self) -> None:
        """Wait for the group, an event or the time."""
        parts = self._parts
        due_ms = parts.state.next_due_ms()
        wait_s = _LONGEST_POLL_S
        if due_ms is not None:
            wait_s = min(wait_s, max(0.0, (due_ms - parts.clock.time_ms()) / 1000))
        if parts.inbox.is_awake():
            wait_s = 0.0
        if not parts.state.wants_group:
            parts.inbox.wait(parts.clock, wait_s)
            return
        with parts.stages.stage("polling the group coordinator"):
            happened = parts.membership.poll(wait_s)
        parts.inbox.is_awake()
        if happened:
            self._tick()
        for event in happened:
            self._take(self._event_of(event))

    def _event_of(self, event: GroupEvent) -> Event:
        if isinstance(event, Assigned):
            self.has_joined.set()
            rounds = self._parts.rounds
            workers, javas = rounds.workers_of(event.generation)
            return Placed(event.assignment, event.generation, event.member_id, rounds.reported, workers, javas)
        return event

    def _take_all(self) -> None:
        """Process what has arrived, config changes first: requests are decided with the configs they were based on."""
        self._tick()
        changes = self._parts.inbox.changes()
        if changes is not None:
            self._take(changes)
        for event in self._parts.inbox.events():
            if not isinstance(event, Asked) or self._parts.pending.begin(event.id):
                self._take(event)

    def _tick(self) -> None:
        self._take(Tick(self._parts.clock.time_ms()))

    def _take(self, event: Event) -> None:
        """Decide and perform, then the same with the events that result."""
        state, rounds, performer = self._parts.state, self._parts.rounds, self._parts.performer
        events, settled = deque([event]), state.facts.settled_rebalances
        while events:
            if isinstance(events[0], Placed):
                self.settling.begin()
            for instruction in state.step(events.popleft()):
                rounds.owned = state.owned_assignment
                outcome = performer.perform(instruction)
                if outcome is not None:
                    events.append(outcome)
            rounds.owned = state.owned_assignment
        if state.facts.settled_rebalances != settled:
            self.settling.end()


_LOOK_EVERY_S = 0.2
# Runs this much later than the herder's thread, which acts first if it can
_GRACE_S = 0.3


class CutOffWatch:
    """States: new -> start() -> stop(). `runs_until` as of a Membership; `cut_off` is called when it has passed."""

    def __init__(self, runs_until: Callable[[], float | None], cut_off: Callable[[], None]) -> None:
        self._runs_until = runs_until
        self._cut_off = cut_off
        self._thread = WatchThread("herder-watch", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._thread.stop(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        cut_off_at: float | None = None
        while not stop.wait(_LOOK_EVERY_S):
            until = self._runs_until()
            if until is None or until == cut_off_at or time.monotonic() < until + _GRACE_S:
                continue
            cut_off_at = until
            log.warning("This worker has not reached its group in time: it stops its work before others start it")
            try:
                self._cut_off()
            except Exception:  # top of a thread
                log.exception("Work could not be stopped")


_PREFIX = "herder-trace-"
# A worker that its supervisor restarts fails repeatedly: the last of these files are enough
_KEPT_FILES = 5
# The configs of some ten thousand connectors; a larger trace omits its checkpoint, and can still be read
_MAX_CHARS = 32 * 1024 * 1024


def save_trace(state: HerderState, worker_id: str, now_ms: int) -> str:
    """Write the trace for its owner's eyes alone; a sentence that names the file. Never raises."""
    try:
        folder = state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / _file_name(worker_id, now_ms)
        text = _text(state, worker_id, now_ms, None)
        if len(text) > _MAX_CHARS:
            text = _text(state, worker_id, now_ms, 0)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        _remove_old(folder)
    except Exception as err:  # whatever the error, the failure itself must be reported
        return f"The trace of its last decisions could not be written: {type(err).__name__}: {err}"
    return f"The trace of its last decisions is in {path}"


def _text(state: HerderState, worker_id: str, now_ms: int, since: int | None) -> str:
    document: dict[str, Any] = {"worker_id": worker_id, "written_ms": now_ms, **state.trace(since, redact)}
    return json.dumps(document, separators=(",", ":")) + "\n"


def _file_name(worker_id: str, now_ms: int) -> str:
    worker = re.sub(r"[^A-Za-z0-9.-]", "_", worker_id)[:100] or "worker"
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return f"{_PREFIX}{worker}-{when}Z.json"


def _remove_old(folder: Path) -> None:
    files = sorted(folder.glob(f"{_PREFIX}*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in files[:-_KEPT_FILES]:
        path.unlink(missing_ok=True)
