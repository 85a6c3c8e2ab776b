"""Whether Kafka answers this worker, judged by its answers and silences so far.

KafkaContact decides, pure except for the given clock. KafkaWatch is the thread beside it: it uses the answers that
the worker gets anyway, and sends a probe if there are none.

Differs: Java's worker has no such watch; its screens and `/health` say nothing of Kafka.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kconnect.client.outage import Outage
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError
from kconnect.logs.redaction import redact
from kconnect.logs.wording import length_text
from kconnect.runtime.herder.health.watch_thread import WatchThread
from kconnect.runtime.metrics import KafkaView, Reading, kafka_readings

log = logging.getLogger(__name__)


# A broker that is asked answers within milliseconds: a second is beyond its pauses
_ANSWER_S = 1.0


@dataclass(frozen=True, slots=True)
class Back:
    """Kafka answers again."""

    outage: Outage
    """Its state when it ended; `lasted_s` is the length of the gap between two answers."""


class KafkaContact:
    """States: unknown -> answering <-> away. Threads: any.

    An outage begins with the last answer before it, not with the first silence: nothing is known of the time between.
    """

    def __init__(self, servers: str, clock: Clock | None = None) -> None:
        self.servers = servers
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards all below
        self._last_s: float | None = None
        self._answers_since_s = 0.0  # without a gap until _last_s
        self._since_s = self._clock.monotonic()
        self._since_ms = self._clock.time_ms()
        self._problem: str | None = None
        self._attempts = 0
        self._outages = 0
        self._replaced = 0
        self._overdue_s = math.inf

    def answered(self, at_s: float | None = None) -> Back | None:
        """Kafka answered, at a monotonic time or just now. Returns the outage that this ends, if any."""
        with self._lock:
            now_s = self._clock.monotonic()
            at_s = now_s if at_s is None else at_s
            if self._last_s is not None and at_s <= self._last_s:
                return None
            if self._last_s is None or self._problem is not None:
                self._answers_since_s = at_s
            ended = self._outage(at_s)
            self._last_s = self._since_s = at_s
            self._since_ms = self._clock.time_ms() - round((now_s - at_s) * 1000)
            self._problem, self._attempts = None, 0
            return None if ended is None else Back(ended)

    def silent(self, problem: str) -> Outage | None:
        """An attempt failed. Returns the outage if it is a new one."""
        with self._lock:
            is_news = self._problem is None
            self._problem = problem
            self._attempts += 1
            self._outages += is_news
            return self._outage(self._clock.monotonic()) if is_news else None

    @property
    def outage(self) -> Outage | None:
        """The current outage; None while Kafka answers, and before the first check."""
        with self._lock:
            return self._outage(self._clock.monotonic())

    @property
    def outages(self) -> int:
        """How many there were, the present one included."""
        with self._lock:
            return self._outages

    def answering(self) -> tuple[float, float] | None:
        """From when until when (monotonic) Kafka has answered without a gap; None while it is away or not known."""
        with self._lock:
            return None if self._problem is not None or self._last_s is None else (self._answers_since_s, self._last_s)

    def client_replaced(self) -> None:
        """A client of the worker no longer had answers, though Kafka answers, and was replaced."""
        with self._lock:
            self._replaced += 1

    def readings(self) -> list[Reading]:
        """For `/metrics`."""
        view = KafkaView(self.outage is None, self.since_answer_s(), self.outages, self._replaced)
        return list(kafka_readings(view))

    def expect_every(self, interval_s: float) -> None:
        """From now on Kafka is asked this often, and answers."""
        with self._lock:
            self._overdue_s = interval_s + _ANSWER_S

    @property
    def is_overdue(self) -> bool:
        """Whether an answer should have come by now; an outage is known a little later."""
        with self._lock:
            return self._last_s is not None and self._clock.monotonic() - self._last_s > self._overdue_s

    def since_answer_s(self) -> float:
        """Seconds since the last answer; infinite before the first."""
        with self._lock:
            return math.inf if self._last_s is None else self._clock.monotonic() - self._last_s

    def _outage(self, now_s: float) -> Outage | None:
        """Call with the lock held."""
        if self._problem is None:
            return None
        return Outage(self._since_ms, max(0.0, now_s - self._since_s), self.servers, self._problem, self._attempts)


# As a share of a heartbeat interval: a broker that does not answer at all is reported within two of them
_ASK_SHARE = 0.8
# While Kafka is away: soon enough that its return is no news to the reader, rare enough to cost nothing
_AGAIN_S = 1.0


class Probe(Protocol):
    """Checks that any broker answers."""

    def ask(self, within_s: float) -> None:
        """Errors: ConnectError with the address and the reason."""
        ...

    def close(self) -> None: ...


class KafkaWatch:
    """States: new -> start() -> stop(). `heard_at_s`: when (monotonic) the worker last had an answer from Kafka without
    a probe, or None.

    An idle worker of a cluster sends no probes: its group's heartbeats are answered more often.
    """

    def __init__(
        self,
        contact: KafkaContact,
        probe: Callable[[], Probe],
        *,
        interval_s: float,
        heard_at_s: Callable[[], float | None],
        what_happens: str,
        look: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        """`probe` is made on the thread; `what_happens` to the work during an outage, as a sentence for the log.
        `look` is called once an interval, while Kafka answers.
        """
        self._contact = contact
        self._make_probe = probe
        self._interval_s = interval_s
        self._heard_at_s = heard_at_s
        self._what_happens = what_happens
        self._look = look
        self._clock = clock or SystemClock()
        self._thread = WatchThread("kafka-watch", self._run)

    def start(self) -> None:
        self._contact.expect_every(self._interval_s)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Idempotent."""
        self._thread.stop(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        probe: Probe | None = None
        try:
            while not self._clock.wait(stop, self.pause_s()):
                if self.has_heard():
                    self._look()
                    continue
                try:
                    probe = probe or self._make_probe()
                    probe.ask(self._interval_s * _ASK_SHARE)
                except ConnectError as err:
                    self.note_silence(str(err))
                except Exception as err:  # whatever it is, the next answer must be seen
                    self._note_surprise(err)
                    if probe is not None:
                        probe.close()
                        probe = None
                else:
                    self.note_answer()
                    self._look()
        except Exception:  # top of a thread
            log.exception("The worker no longer knows whether Kafka answers")
        finally:
            if probe is not None:
                probe.close()

    def pause_s(self) -> float:
        """Time until the next check: an interval after the last answer, or less while there is none."""
        if self._contact.outage is not None:
            return min(_AGAIN_S, self._interval_s)
        self.has_heard()
        return max(0.0, self._interval_s - self._contact.since_answer_s())

    def has_heard(self) -> bool:
        """Take in the worker's own last answer; returns whether it is less than an interval old."""
        at_s = self._heard_at_s()
        if at_s is not None:
            self.note_answer(at_s)
        return self._contact.outage is None and self._contact.since_answer_s() < self._interval_s

    def note_answer(self, at_s: float | None = None) -> None:
        back = self._contact.answered(at_s)
        if back is not None:
            log.warning(
                "Kafka answers again at bootstrap.servers=%s, after %s without an answer (since %s)",
                back.outage.servers,
                length_text(back.outage.lasted_s),
                back.outage.since,
            )

    def _note_surprise(self, err: Exception) -> None:
        """Works as `note_silence`; with its trace, unless it repeats itself."""
        outage = self._contact.outage
        if outage is None or outage.problem != redact(repr(err)):
            log.exception("Asking whether Kafka answers failed unexpectedly")
        self.note_silence(repr(err))

    def note_silence(self, problem: str) -> None:
        outage = self._contact.silent(redact(problem))
        if outage is not None:
            log.error("%s. %s The worker asks again every second", outage.sentence(), self._what_happens)
