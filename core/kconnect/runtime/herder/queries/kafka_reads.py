"""KafkaReads: what only Kafka knows, for requests that cannot wait: an answer in time, or why there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

from kconnect.client.outage import NO_ANSWER
from kconnect.errors import TimedOutError, UnreachableError
from kconnect.runtime.herder.health.change_patience import on_own_thread
from kconnect.runtime.herder.health.kafka_contact import KafkaContact

Result = TypeVar("Result")

ANSWER_SETTING: Final = "kconnect.kafka.answer.timeout.ms"


class KafkaReads:
    """Threads: any. A read that Kafka does not answer goes on by itself until its own deadline, and who asks for the
    same meanwhile shares it: a request waits for none but its own, and threads do not pile up.

    Differs: Java's requests wait for 90 s, whatever is known of the brokers.
    """

    def __init__(self, contact: KafkaContact, within_s: float) -> None:
        """`within_s`: what ANSWER_SETTING says."""
        self._contact = contact
        self._within_s = within_s
        self._lock = threading.Lock()  # guards the field below
        self._pending: dict[Hashable, Future[Any]] = {}

    def ask(self, key: Hashable, what: str, read: Callable[[], Result]) -> Result:
        """What `read` gives; `what` is the subject of a sentence: `The offsets of connector x`.

        Errors: UnreachableError at once while Kafka is known to be away; TimedOutError; those of `read`.
        """
        outage = self._contact.outage
        if outage is not None:
            raise UnreachableError(f"{what} cannot be read: {outage.sentence()}")
        with self._lock:
            future: Future[Result] | None = self._pending.get(key)
            if future is None:
                future = self._pending[key] = on_own_thread("kafka-read", lambda: self._read(key, read))
        try:
            return future.result(self._within_s)
        except FutureTimeoutError:
            if future.done():  # the read itself raised it, or has just ended
                return future.result()
            raise TimedOutError(f"{what} cannot be read: {NO_ANSWER} {self._within_s:g} s ({ANSWER_SETTING})") from None

    def _read(self, key: Hashable, read: Callable[[], Result]) -> Result:
        try:
            return read()
        finally:
            with self._lock:  # before anybody has the answer: who asks then gets a new one
                del self._pending[key]
