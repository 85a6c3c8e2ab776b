"""Requests to the herder's thread that wait for its answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from itertools import count

from kconnect.errors import ConnectError, TimedOutError
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.decisions.events import Asked, Event, GivenUp
from kconnect.runtime.herder.decisions.requests import Request


class PendingRequests:
    """Futures by number. States: open -> closed. Threads: any. A late caller gets no answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count(1)  # guarded by _lock
        self._waiting: dict[int, Future[object]] = {}  # guarded by _lock
        self._elsewhere: dict[int, str] = {}  # guarded by _lock
        self._end: ConnectError | None = None  # guarded by _lock; set when closed

    def ask(self, request: Request, post: Callable[[Event], None], timeout_s: float, stages: ThreadStage) -> object:
        """Post the request and wait. Errors: the refusal; TimedOutError, which says what it waits for."""
        with self._lock:
            if self._end is not None:
                raise self._end
            number = next(self._numbers)
            future = self._waiting[number] = Future()
        post(Asked(number, request))
        try:
            return future.result(timeout_s)
        except LateError as err:
            with self._lock:
                summary = self._elsewhere.get(number) or stages.summary()
            if self._forget(number) is None:
                return future.result()  # the answer just arrived
            post(GivenUp(number))
            raise TimedOutError(f"Request timed out. {summary}") from err

    def tell(self, number: int, summary: str) -> None:
        """From now on a request waits for something else than the herder's thread: a sentence on it."""
        with self._lock:
            if number in self._waiting:
                self._elsewhere[number] = summary

    def give(self, number: int, value: object) -> None:
        future = self._forget(number)
        if future is not None:
            future.set_result(value)

    def fail(self, number: int, error: ConnectError) -> None:
        future = self._forget(number)
        if future is not None:
            future.set_exception(error)

    def close(self, error: ConnectError) -> None:
        """No more answers: pending and later requests get this error; the first of two errors wins."""
        with self._lock:
            self._end = self._end or error
            numbers = list(self._waiting)
        for number in numbers:
            self.fail(number, error)

    def _forget(self, number: int) -> Future[object] | None:
        with self._lock:
            self._elsewhere.pop(number, None)
            return self._waiting.pop(number, None)
