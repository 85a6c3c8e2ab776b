"""The one thread of a cluster's herder: takes events, lets the state machine decide, performs its instructions, polls
the group.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from kconnect.clock import Clock
from kconnect.errors import ConnectError
from kconnect.runtime.herder.cluster.herder_inbox import HerderInbox
from kconnect.runtime.herder.cluster.performer import Performer
from kconnect.runtime.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.decisions.events import Event, Placed, Started, StopAsked, Tick
from kconnect.runtime.herder.decisions.machine import HerderState
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
