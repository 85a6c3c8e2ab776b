"""The worker side of the slots: the Spark job under each, its link, its loss and its replacement."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import kconnect
from kconnect.clock import Backoff
from kconnect.errors import ConnectError, LinkError
from kconnect.logs.wording import pluralize
from kconnect.runtime.herder.interface import SlotInfo
from kconnect.spark.messages import Console, FailedRecords, Heartbeat, Hello, LogLine, Message, Quit, TaskMetrics
from kconnect.spark.ports import PoolEvents, PoolPorts, SlotLink
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_io import replay_log_line
from kconnect.spark.slot_spec import SlotSpec, TallyAddress

log = logging.getLogger(__name__)

_BACKOFF = Backoff(first_s=0.1, most_s=5.0, jitter=(0.5, 1.0))  # not all slots at the same moment
# After so many failures in a row without a hello a slot will most likely never start: that is two seconds of
# attempts at least, and several executors if there are some.
_HOPELESS_AFTER = 5
# Abandoned tasks that a slot may carry beside working ones; each holds a thread and what its plugin holds.
_MAX_LEFTOVERS = 16


@dataclass(slots=True)
class _Attached:
    """A slot that has said hello and has not been given up."""

    hello: Hello
    link: SlotLink
    outbox: queue.SimpleQueue[Message | None] = field(default_factory=queue.SimpleQueue)
    """What its sender thread sends next; unbounded, but a slot that takes nothing is given up after seconds."""
    gone: threading.Event = field(default_factory=threading.Event)
    """Set once its loss has been reported."""
    beat: Heartbeat | None = None
    """Its latest heartbeat."""
    reason: str = ""
    """Why we broke the link, when it was us."""
    is_over: bool = False
    """Whether its slot has been ended."""

    @property
    def leftovers(self) -> int:
        return self.beat.leftovers if self.beat is not None else 0


class SlotPool:
    """N slots, kept alive. Lifecycle: constructed -> start -> (slots come and go) -> quit -> stop.

    Threads: one per slot waits in its Spark job, two per link read and send, one does the heartbeats.
    """

    def __init__(self, settings: SparkSettings, ports: PoolPorts, events: PoolEvents) -> None:
        self._settings = settings
        self._jobs = ports.jobs
        self._kill_process = ports.kill
        self._memory_of = ports.memory
        self._clock = ports.clock
        self._events = events
        self._token = secrets.token_bytes(32)
        self._listener = ports.listen(settings, self._token, self._serve)
        self._host = ""
        self._quitting = threading.Event()  # no job is submitted again
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards the five below; nothing that blocks is called under it
        self._running: set[int] = set()
        """Slots whose job is kept running, or has not ended yet."""
        self._ended: set[int] = set()
        """Holds those of them that are not to start again."""
        self._attached: dict[int, _Attached] = {}
        self._failed_starts: dict[int, tuple[int, str]] = {}
        self._came_up: set[int] = set()
        self._threads: list[threading.Thread] = []

    def start(self, host: str) -> None:
        """Listen; slots connect to `host`. Errors: LinkError when the link cannot listen."""
        self._host = host
        self._listener.start()
        self._start_thread(self._beat_until_closed, "slot-heartbeat")

    def begin(self, slots: Mapping[int, str | None]) -> None:
        """Submit a job for each of these slots, and keep it running. Gives the connector whose own it is, or None."""
        with self._lock:
            self._running |= slots.keys()
        for slot, connector in slots.items():
            self._start_thread(self._keep_running, f"slot-job-{slot}", slot, connector)

    def end(self, slot: int, why: str) -> None:
        """End a slot for good, at once: it has no task. `slot_lost` follows if it was up."""
        with self._lock:
            self._ended.add(slot)
            attached = self._attached.get(slot)
        if attached is not None:
            attached.is_over = True
            # Killed: Spark would use a process again that ends by itself, with all that connectors left in it
            self.replace(slot, why)
        else:
            self._jobs.cancel_slot(slot)

    def taken(self) -> set[int]:
        """The numbers of slots whose job has not ended."""
        with self._lock:
            return set(self._running)

    @property
    def address(self) -> str:
        """Where slots connect to; only after start."""
        return f"{self._host}:{self._listener.port}"

    def tally_address(self) -> TallyAddress:
        """Where processes of queries say what they have counted; only after start."""
        return TallyAddress(self._host, self._listener.port, self._token)

    def send(self, slot: int, message: Message) -> None:
        """Send to a slot, in the order of the calls. Never blocks; messages to a lost slot are dropped."""
        with self._lock:
            attached = self._attached.get(slot)
        if attached is not None:
            attached.outbox.put(message)

    def attached(self) -> dict[int, Hello]:
        """The slots that are up."""
        with self._lock:
            return {slot: attached.hello for slot, attached in self._attached.items()}

    def given_up(self) -> set[int]:
        """The slots whose link we have broken, until their loss is reported."""
        with self._lock:
            return {slot for slot, attached in self._attached.items() if attached.reason}

    def processes(self) -> dict[int, SlotInfo]:
        """The slots that are up and not given up, with what is known of their processes."""
        with self._lock:
            alive = {slot: attached for slot, attached in self._attached.items() if not attached.reason}
            up = {slot: (attached.hello, attached.beat) for slot, attached in alive.items()}
        return {slot: _process(hello, beat) for slot, (hello, beat) in up.items()}

    def memory_bytes(self, slot: int) -> int | None:
        """What its process has in memory: now on this host, else at its last heartbeat; None while it is not known."""
        with self._lock:
            attached = self._attached.get(slot)
        if attached is None:
            return None
        now = self._memory_of(attached.hello)
        return now if now is not None or attached.beat is None else attached.beat.memory_bytes

    def start_problem(self, slot: int) -> str | None:
        """Why its last start failed; None if it did not."""
        with self._lock:
            _, reason = self._failed_starts.get(slot, (0, ""))
        return reason or None

    def start_problems(self) -> dict[int, str]:
        """Why the last start of slots failed, of those that have not come up since."""
        with self._lock:
            return {slot: reason for slot, (_, reason) in self._failed_starts.items() if reason}

    def failure(self) -> str | None:
        """Why no slot comes up, once that has been tried often enough; None while there is hope."""
        with self._lock:
            if self._attached:
                return None
            hopeless = [reason for times, reason in self._failed_starts.values() if times >= _HOPELESS_AFTER]
        return f"Slots cannot start: {hopeless[0]}" if hopeless else None

    def replace(self, slot: int, reason: str) -> None:
        """Give a slot up and restart it: kill its process, break its link. Its tasks are reported lost."""
        with self._lock:
            attached = self._attached.get(slot)
        if attached is None:
            return
        attached.reason = reason
        # Killed first: a process that sees its link break says that it has lost its worker
        is_killed = self._kill_process(attached.hello)
        attached.link.abort()
        if not is_killed:
            self._jobs.cancel_slot(slot)

    def quit(self, task_timeout_s: float, timeout_s: float) -> None:
        """Ask all slots to stop their tasks and end; kill those that do not. No slot starts again after this."""
        deadline_s = self._clock.monotonic() + timeout_s
        self._quitting.set()
        with self._lock:
            attached = dict(self._attached)
        for slot in attached:
            self.send(slot, Quit(int(task_timeout_s * 1000)))
        stuck = {
            slot: one
            for slot, one in attached.items()
            if not self._clock.wait(one.gone, max(deadline_s - self._clock.monotonic(), 0.0))
        }
        for slot, one in stuck.items():
            self._kill(slot, one.hello)

    def stop(self, timeout_s: float) -> None:
        """Break every link and end the threads; the jobs must be ended by Spark's own stop. Idempotent."""
        deadline_s = self._clock.monotonic() + timeout_s
        self._quitting.set()
        self._closed.set()
        self._listener.stop(timeout_s)
        for thread in self._threads:
            thread.join(max(deadline_s - self._clock.monotonic(), 0.01))
            if thread.is_alive():
                log.warning("Thread %s did not end in time", thread.name)

    def _start_thread(self, target: Callable[..., None], name: str, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    # The job of a slot.

    def _keep_running(self, slot: int, connector: str | None) -> None:
        for failures in itertools.count():  # pragma: no branch
            try:
                self._jobs.run_slot(self._spec(slot, connector))
                problem = None
            except Exception as error:  # the thread's top: without it the slot would never be started again
                problem = str(error) or type(error).__name__
                if not isinstance(error, ConnectError):
                    log.exception("The job of slot %d failed", slot)
            if self._quitting.is_set() or self._is_over(slot):
                return
            pause_s = self._pause_after(slot, problem)
            log.debug("Job %d of slot %d ended (%s); again in %.1f s", failures, slot, problem or "no error", pause_s)
            if self._clock.wait(self._quitting, pause_s) or self._is_over(slot):
                return

    def _is_over(self, slot: int) -> bool:
        """Whether the slot has been ended; forgets it then: its number is free."""
        with self._lock:
            if slot not in self._ended:
                return False
            self._ended.discard(slot)
            self._running.discard(slot)
            self._came_up.discard(slot)
            self._failed_starts.pop(slot, None)
            return True

    def _pause_after(self, slot: int, problem: str | None) -> float:
        """Back-off before the job is resubmitted; grows while its slot fails before saying hello."""
        with self._lock:
            times, reported = self._failed_starts.get(slot, (0, ""))
            has_failed = problem is not None and slot not in self._came_up
            self._came_up.discard(slot)
            if has_failed:
                self._failed_starts[slot] = (times + 1, problem or "")
        if has_failed and times + 1 == _HOPELESS_AFTER:
            log.error("Slot %d cannot start and will be retried: %s", slot, problem)
        elif has_failed and problem != reported:
            log.warning("Slot %d did not start, it will be retried: %s", slot, problem)
        return _BACKOFF.pause_s(times)

    def _spec(self, slot: int, connector: str | None) -> SlotSpec:
        settings = self._settings
        return SlotSpec(
            slot=slot,
            host=self._host,
            port=self._listener.port,
            token=self._token,
            heartbeat_interval_s=settings.heartbeat_interval_s,
            heartbeat_timeout_s=settings.heartbeat_timeout_s,
            start_timeout_s=settings.start_timeout_s,
            offsets_timeout_s=settings.offsets_timeout_s,
            plugin_path=settings.plugin_path,
            # A slot of a connector's own is to keep it apart from the others
            java=settings.java if connector is not None else {**settings.java, **settings.shared_java},
            log_level=logging.getLogger("kconnect").getEffectiveLevel(),
            worker_host=socket.gethostname(),
            worker_pid=os.getpid(),
            connector=connector,
            tells_demand=connector is None and settings.most_slots is not None,
        )

    # The link of a slot.

    def _serve(self, link: SlotLink) -> None:
        hello = link.receive(self._settings.heartbeat_timeout_s)
        if isinstance(hello, TaskMetrics | FailedRecords):  # of a process that works for a query, which goes then
            answer = self._events.query_said(hello)
            if answer is not None:
                link.send(answer)
            return
        if not isinstance(hello, Hello):
            raise LinkError("A slot must say hello first")
        if hello.version != kconnect.__version__:
            both = f"the slot has kconnect {hello.version}, the worker {kconnect.__version__}"
            raise link.refuse(f"{both}: install one version on both")
        threading.current_thread().name = f"link-slot-{hello.slot}"
        slot = _Attached(hello, link)
        sender = threading.Thread(target=_send_all, args=(slot,), name=f"slot-send-{hello.slot}", daemon=True)
        self._attach(slot)
        sender.start()
        reason = ""
        try:
            log.info("Slot %d is up: process %d on %s", hello.slot, hello.pid, hello.host)
            self._events.slot_attached(hello.slot)
            while True:
                message = link.receive(self._settings.heartbeat_timeout_s)
                if message is not None:
                    self._dispatch(slot, message)
        except LinkError as error:
            reason = slot.reason or str(error)
        finally:
            link.abort()
            slot.outbox.put(None)
            sender.join(self._settings.heartbeat_timeout_s)
            self._detach(slot, reason)

    def _attach(self, newcomer: _Attached) -> None:
        """Wait until an earlier process of the slot is given up, then take its place. Errors: LinkError."""
        deadline_s = self._clock.monotonic() + self._settings.heartbeat_timeout_s
        # An earlier process reports its loss before this one is announced, so that events keep their order.
        while (earlier := self._take_place(newcomer)) is not None:
            earlier.reason = "another process took its place"
            earlier.link.abort()
            if not self._clock.wait(earlier.gone, max(deadline_s - self._clock.monotonic(), 0.0)):
                raise LinkError(f"The earlier process of slot {newcomer.hello.slot} has not been released yet")

    def _take_place(self, newcomer: _Attached) -> _Attached | None:
        """Make this process the slot's; gives the one that is in the way, if there is one. Errors: LinkError."""
        slot = newcomer.hello.slot
        with self._lock:
            if (earlier := self._attached.get(slot)) is not None:
                return earlier
            if slot in self._ended or slot not in self._running:
                raise LinkError(f"This worker needs slot {slot} no more")
            self._attached[slot] = newcomer
            self._came_up.add(slot)
            self._failed_starts.pop(slot, None)
        return None

    def _detach(self, lost: _Attached, reason: str) -> None:
        slot = lost.hello.slot
        if lost.is_over:
            log.info("Slot %d has ended: %s", slot, reason)
        elif not self._quitting.is_set():
            log.warning("Slot %d is gone (process %d): %s", slot, lost.hello.pid, reason)
        self._events.slot_lost(slot, reason)
        with self._lock:
            if self._attached.get(slot) is lost:
                del self._attached[slot]
        lost.gone.set()

    def _dispatch(self, sender: _Attached, message: Message) -> None:
        match message:
            case Heartbeat():
                sender.beat = message
            case LogLine():
                replay_log_line(message, sender.hello.slot)
            case Console(text):
                sys.stdout.write(text)
                sys.stdout.flush()
            case _:
                self._events.slot_said(sender.hello.slot, message, sender.outbox.put)

    # Heartbeats, both ways.

    def _beat_until_closed(self) -> None:
        while not self._clock.wait(self._closed, self._settings.heartbeat_interval_s):
            with self._lock:
                slots = dict(self._attached)
            for slot, attached in slots.items():
                silent_s = self._clock.monotonic() - attached.link.last_received_s
                if silent_s > self._settings.heartbeat_timeout_s:
                    self.replace(slot, f"it has been silent for {silent_s:.1f} s")
                elif self._is_held(slot, attached):
                    self.replace(slot, f"held by {pluralize(attached.leftovers, 'abandoned task')}")
                else:
                    self.send(slot, Heartbeat())
            self._events.tick()

    def _is_held(self, slot: int, attached: _Attached) -> bool:
        """Whether abandoned tasks make a slot worth replacing: any in an idle slot, many in a working one."""
        if attached.leftovers == 0:
            return False
        return attached.leftovers >= _MAX_LEFTOVERS or not self._events.has_tasks(slot)

    def _kill(self, slot: int, hello: Hello) -> None:
        """End a slot's process for certain. A stopped or hung one does not see that its link is broken."""
        if not self._kill_process(hello):
            self._jobs.cancel_slot(slot)


def _process(hello: Hello, beat: Heartbeat | None) -> SlotInfo:
    known = SlotInfo(hello.slot, True, hello.host, hello.pid, ())
    if beat is None:
        return known
    return replace(
        known,
        cpu_seconds=round(beat.cpu_s, 2),
        cpu_percent=beat.cpu_percent,
        memory_bytes=beat.memory_bytes,
        java_ports=beat.java_ports,
    )


def _send_all(attached: _Attached) -> None:
    while (message := attached.outbox.get()) is not None:
        try:
            attached.link.send(message)
        except LinkError as error:
            if not attached.link.is_broken:  # the message is at fault, not the slot: without it the two would disagree
                log.error("Replacing slot %d: %s", attached.hello.slot, error)
                attached.reason = str(error)
                attached.link.abort()
            return
