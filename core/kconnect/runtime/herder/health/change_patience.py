"""ChangePatience: how long who changes something waits for a Kafka that says nothing, and what is known then."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any, TypeVar

from kconnect.client.outage import NOTHING_CHANGED, UNKNOWN_END
from kconnect.errors import TimedOutError, UnreachableError
from kconnect.runtime.herder.health.kafka_contact import KafkaContact

Result = TypeVar("Result")

# How soon a request that waits notices that Kafka is silent
_LOOK_EVERY_S = 0.2


class ChangePatience:
    """Threads: any.

    Differs: Java's changes wait for 90 s, a pause and a resume for 30 s, whatever is known of the brokers; those that
    wait are carried out later, though a failure was reported to their callers.
    """

    def __init__(
        self, contact: KafkaContact, answer_s: float, unclaimed: Callable[[], str | None] = lambda: None
    ) -> None:
        """`answer_s`: kconnect.kafka.answer.timeout.ms. `unclaimed`: why this worker, which leads, may not write."""
        self._contact = contact
        self._answer_s = answer_s
        self._unclaimed = unclaimed

    def refuse_if_away(self) -> None:
        """Errors: UnreachableError while Kafka is known to be away: nothing is begun that might be done later."""
        outage = self._contact.outage
        if outage is not None:
            raise UnreachableError(f"{NOTHING_CHANGED}: {outage.sentence()}", hint="Try again once Kafka answers.")

    def result(self, future: Future[Result], timeout_s: float) -> Result:
        """What the future gives. Errors: its own; `NotYet` once it has waited long enough, with `silence` or not."""
        deadline_s = time.monotonic() + timeout_s
        wait_s = min(self._answer_s, timeout_s)
        while True:
            try:
                return future.result(max(wait_s, 0.0))
            except NotYet:
                left_s = deadline_s - time.monotonic()
                if future.done() or left_s <= 0 or self.silence() is not None:
                    raise
                wait_s = min(_LOOK_EVERY_S, left_s)

    def silence(self) -> str | None:
        """A sentence without a full stop: Kafka is away, has not answered in time, or lets nobody write; else None."""
        outage = self._contact.outage
        if outage is not None:
            return outage.sentence()
        if self._contact.is_overdue:
            return f"Kafka has not answered this worker for {self._contact.since_answer_s():.0f} s"
        return self._unclaimed()

    def carry_out(self, write: Callable[[], Any]) -> None:
        """Do a write that waits for Kafka. It goes on by itself when its time is over.

        Errors: UnreachableError, nothing is written; TimedOutError, it may be written later; those of `write`.
        """
        self.refuse_if_away()
        future = on_own_thread("config-write", write)
        try:
            self.result(future, threading.TIMEOUT_MAX)
        except NotYet:
            if future.done():  # the write itself raised it, or has just ended
                future.result()
                return
            raise TimedOutError(f"Request timed out. {unknown_end(self.silence())}") from None


def unknown_end(silence: str | None) -> str:
    """What is reported of a change that has begun and has not ended."""
    return f"{silence}: {UNKNOWN_END}." if silence else f"{UNKNOWN_END.capitalize()}."


def on_own_thread(name: str, call: Callable[[], Result]) -> Future[Result]:
    """What a call will give that waits for Kafka as long as it likes. It has the context of who asks."""
    future: Future[Result] = Future()
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(_do, call, future), name=name, daemon=True).start()
    return future


def _do(call: Callable[[], Result], future: Future[Result]) -> None:
    try:
        found = call()
    except BaseException as err:  # top of a thread: it belongs to who asked
        future.set_exception(err)
    else:
        future.set_result(found)
