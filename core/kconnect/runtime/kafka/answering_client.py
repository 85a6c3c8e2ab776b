"""AnsweringClient: an admin client that is replaced when it no longer gets answers that others get.

A broker that has been frozen, or has just started, may name topics and no broker at all. librdkafka then drops each
broker that it knows, and a client that holds no partitions often does not go back to `bootstrap.servers`
(confluentinc/librdkafka#5301, open with 2.16): nothing is answered from then on, while other clients of the same
process are answered in 10 ms. Producers and consumers that hold partitions came back each time.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from confluent_kafka.admin import AdminClient

from kconnect.errors import ConnectError, TimedOutError, UnreachableError
from kconnect.logs.wording import length_text

log = logging.getLogger(__name__)

# Two requests of 5 s and a part of a third: brokers that restart one after the other are back by then
_WEDGED_AFTER_S: Final = 12.0
# The longest time until the next client is tried, where none helped: such as while a topic has lost its only replica
_NEXT_AFTER_S: Final = 600.0
# The same where nobody knows whether Kafka answers: it has most often been away, and is back
_NEXT_AFTER_UNSEEN_S: Final = 60.0
# Requests are answered for so long, at most, by a client that was replaced
_RETIRES_AFTER_S: Final = 120.0


class Witness(Protocol):
    """Knows by another way than the client whether Kafka answers, and learns what became of clients."""

    def answering(self) -> tuple[float, float] | None:
        """From when until when (monotonic) Kafka has answered without a gap; None while it is away or not known."""
        ...

    def client_replaced(self) -> None: ...


class AnsweringClient:
    """Threads: any; a request waits for no other.

    Without a witness Kafka is supposed to answer others: a client without answers is replaced, and nothing is said.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], AdminClient],
        witness: Witness | None = None,
        silence: Silence | None = None,
        is_outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        """`name`: what the client is for, in the log. `is_outdated`: whether `make` would now make another client."""
        self._name = name
        self._make = make
        self._is_outdated = is_outdated
        self._witness = witness
        self._lock = threading.Lock()  # guards the two below
        self._silence = silence or Silence(next_after_s=_NEXT_AFTER_S if witness else _NEXT_AFTER_UNSEEN_S)
        self._client: AdminClient | None = make()
        self._closed = threading.Event()

    @contextmanager
    def asking(self) -> Iterator[AdminClient]:
        """The client for one request, whose outcome is noted. Errors: ConnectError once it is closed."""
        began_s, client = time.monotonic(), self._current()
        try:
            yield client
        except (TimedOutError, UnreachableError):
            with self._lock:
                if client is self._client:  # and not one that was replaced meanwhile
                    self._silence.unanswered(began_s)
            raise
        except ConnectError:  # a refusal is an answer
            self._note_answer()
            raise
        self._note_answer()

    @property
    def is_unanswered(self) -> bool:
        """Whether the last request had no answer."""
        with self._lock:
            return self._silence.is_unanswered

    def silent_s(self) -> float | None:
        """For how long requests have had no answer though Kafka answers others; None while all is well."""
        if self._witness is None:
            return None
        with self._lock:
            began_s = self._silence.began_s(self._witness.answering())
        return None if began_s is None else time.monotonic() - began_s

    def close(self) -> None:
        """Close the client, on this thread if no request holds it. Idempotent."""
        self._closed.set()
        with self._lock:
            client, self._client = self._client, None
        del client

    def _answering(self) -> tuple[float, float] | None:
        return (-math.inf, time.monotonic()) if self._witness is None else self._witness.answering()

    def _note_answer(self) -> None:
        with self._lock:
            self._silence.answered(time.monotonic())

    def _current(self) -> AdminClient:
        """The client; another one if it is wedged, or its settings are others now."""
        with self._lock:
            client = self._client
            if client is None:
                raise ConnectError(f"The admin client of {self._name} is closed")
            is_wedged = self._silence.is_wedged(self._answering())
            if not is_wedged and not self._is_outdated():
                return client
            fresh = self._client = self._make()
            if is_wedged:
                self._note_wedged()
        # Its end may take long, and must not come on the thread of a request that still waits for it
        retired = [client]
        threading.Thread(target=self._retire, args=(retired,), name=f"admin-retire-{self._name}", daemon=True).start()
        return fresh

    def _note_wedged(self) -> None:
        """Holds the lock."""
        began_s, now_s = self._silence.began_s(self._answering()), time.monotonic()
        is_first = self._silence.replaced(now_s)
        if self._witness is not None:
            self._witness.client_replaced()
            log.log(
                logging.WARNING if is_first else logging.DEBUG,
                "The admin client of %s has had no answer for %s, though Kafka answers this worker: it is replaced",
                self._name,
                length_text(now_s - (began_s or now_s)),
            )

    def _retire(self, client: list[AdminClient]) -> None:
        self._closed.wait(_RETIRES_AFTER_S)
        client.clear()


class Silence:
    """How long a client has had no answer, and whether Kafka answered others meanwhile. Pure; the owner locks."""

    def __init__(self, after_s: float = _WEDGED_AFTER_S, next_after_s: float = _NEXT_AFTER_S) -> None:
        """`after_s`: without an answer until another client is tried; `next_after_s`: at most, after some in vain."""
        self._after_s = after_s
        self._next_after_s = next_after_s
        self._began_s: float | None = None  # of the first request since the last answer
        self._answered_s = -math.inf
        self._in_vain = 0  # clients that were replaced since the last answer
        self._client_began_s = 0.0  # the first request of this client that had no answer

    @property
    def is_unanswered(self) -> bool:
        """Whether the last request had no answer."""
        return self._began_s is not None

    def answered(self, now_s: float) -> None:
        """The client had an answer, or a broker's refusal."""
        self._began_s, self._in_vain, self._answered_s = None, 0, now_s

    def unanswered(self, began_s: float) -> None:
        """A request that was made then had no answer in its time."""
        if self._began_s is None:
            self._began_s = self._client_began_s = max(began_s, self._answered_s)

    def began_s(self, answering: tuple[float, float] | None) -> float | None:
        """Since when the client has had no answer, though Kafka has given others some for long enough; or None."""
        if self._began_s is None or not self._is_longer(self._began_s, answering, self._after_s):
            return None
        return self._began_s

    def is_wedged(self, answering: tuple[float, float] | None) -> bool:
        """Whether another client should be tried now. After one in vain it takes twice as long."""
        if self._began_s is None:
            return False
        after_s = min(self._after_s * 2**self._in_vain, max(self._after_s, self._next_after_s))
        return self._is_longer(self._client_began_s, answering, after_s)

    def replaced(self, now_s: float) -> bool:
        """Another client is asked from now on; whether it is the first since the last answer."""
        self._in_vain += 1
        self._client_began_s = now_s
        return self._in_vain == 1

    @staticmethod
    def _is_longer(began_s: float, answering: tuple[float, float] | None, than_s: float) -> bool:
        return answering is not None and answering[1] - max(began_s, answering[0]) >= than_s
