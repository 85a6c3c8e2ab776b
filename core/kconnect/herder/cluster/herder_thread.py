"""The one thread of a cluster's herder: takes events, has them decided, performs what was decided, polls the group."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from kconnect.clock import Clock
from kconnect.errors import ConnectError
from kconnect.herder.cluster.performer import Performer
from kconnect.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.herder.cluster.thread_stage import ThreadStage
from kconnect.herder.decisions.events import ConfigsChanged, Event, Placed, Started, StopAsked, Tick
from kconnect.herder.decisions.machine import HerderState
from kconnect.herder.membership import Assigned, GroupEvent, Membership
from kconnect.metrics import SettleMeter
from kconnect.storage.config_store import ConfigStore
from kconnect.storage.snapshot import Change

log = logging.getLogger(__name__)
Item = TypeVar("Item")

# Between two looks at the clock when nothing is due: a wakeup that went missing costs this much
_LONGEST_POLL_S = 1.0


class HerderThread:
    """States: new -> start() -> stop(). Threads: `post`, `note_change` from any."""

    def __init__(
        self,
        state: HerderState,
        configs: ConfigStore,
        rounds: RebalanceRounds,
        stages: ThreadStage,
        clock: Clock,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._state = state
        self._configs = configs
        self._rounds = rounds
        self._stages = stages
        self._clock = clock
        self._on_crash = on_crash
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._changes: queue.SimpleQueue[tuple[Change, int]] = queue.SimpleQueue()
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._membership: Membership | None = None
        self._thread: threading.Thread | None = None
        self.settling = SettleMeter(clock)
        self.has_joined = threading.Event()
        """Set with the first assignment."""

    def start(self, membership: Membership, performer: Performer) -> None:
        self._membership = membership
        self._thread = threading.Thread(target=self._run, args=(membership, performer), name="herder", daemon=True)
        self._thread.start()

    def post(self, event: Event) -> None:
        """Have an event taken in soon."""
        self._events.put(event)
        self._wake()

    def note_change(self, change: Change) -> None:
        """The config store's listener: what is read is taken in soon, all that has come by then at once."""
        self._changes.put((change, self._configs.snapshot().offset))
        self._wake()

    def stop(self, timeout_s: float) -> bool:
        """Stop all work, leave the group, end. False: it did not end in time. Idempotent."""
        if not self._stopping.is_set():
            self._stopping.set()
            self.post(StopAsked())
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    def _run(self, membership: Membership, performer: Performer) -> None:
        try:
            self._take(Tick(self._clock.time_ms()), performer)
            self._take(Started(self._configs.snapshot()), performer)
            while not self._stopping.is_set():
                self._poll(membership, performer)
                self._take_all(performer)
            self._take_all(performer)
        except ConnectError as err:  # the group refuses this worker for good: no fault of ours to be traced
            log.error("The worker cannot continue: %s", err)
            self._on_crash(err)
        except Exception as err:  # top of the thread
            log.exception("The herder's thread has ended: the worker cannot continue")
            self._on_crash(err)
        finally:
            performer.close()

    def _poll(self, membership: Membership, performer: Performer) -> None:
        """Wait for the group, an event or the time."""
        due_ms = self._state.next_due_ms()
        wait_s = _LONGEST_POLL_S
        if due_ms is not None:
            wait_s = min(wait_s, max(0.0, (due_ms - self._clock.time_ms()) / 1000))
        if self._awake.is_set():
            self._awake.clear()
            wait_s = 0.0
        if not self._state.wants_group:
            self._clock.wait(self._awake, wait_s)
            return
        with self._stages.stage("polling the group coordinator"):
            happened = membership.poll(wait_s)
        self._awake.clear()
        if happened:
            self._take(Tick(self._clock.time_ms()), performer)
        for event in happened:
            self._take(self._event_of(event), performer)

    def _event_of(self, event: GroupEvent) -> Event:
        if isinstance(event, Assigned):
            self.has_joined.set()
            return Placed(event.assignment, event.generation, event.member_id, self._rounds.told)
        return event

    def _take_all(self, performer: Performer) -> None:
        """Take in what has come, changes of configs first: requests are decided with what they were made from."""
        self._take(Tick(self._clock.time_ms()), performer)
        changes = _drained(self._changes)
        if changes:
            self._take(ConfigsChanged(tuple(changes), self._configs.snapshot(), self._configs.foreign), performer)
        for event in _drained(self._events):
            self._take(event, performer)

    def _take(self, event: Event, performer: Performer) -> None:
        """Decide and perform, and so on with what comes of it."""
        events, settled = deque([event]), self._state.facts.settled_rebalances
        while events:
            if isinstance(events[0], Placed):
                self.settling.begin()
            for instruction in self._state.step(events.popleft()):
                self._rounds.owned = self._state.owned_assignment
                outcome = performer.perform(instruction)
                if outcome is not None:
                    events.append(outcome)
            self._rounds.owned = self._state.owned_assignment
        if self._state.facts.settled_rebalances != settled:
            self.settling.end()

    def _wake(self) -> None:
        self._awake.set()
        if self._membership is not None:
            self._membership.wakeup()


def _drained(source: queue.SimpleQueue[Item]) -> list[Item]:
    found: list[Item] = []
    while True:
        try:
            found.append(source.get_nowait())
        except queue.Empty:
            return found
