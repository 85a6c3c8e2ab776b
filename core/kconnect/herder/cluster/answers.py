"""Those who wait for answers of the herder's thread."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from itertools import count

from kconnect.errors import ConnectError

__all__ = ["Answers"]


class Answers:
    """Futures by number. Threads: any. Who comes too late is told nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count(1)  # guarded by _lock
        self._waiting: dict[int, Future[object]] = {}  # guarded by _lock

    def expect(self) -> tuple[int, Future[object]]:
        with self._lock:
            number = next(self._numbers)
            future = self._waiting[number] = Future()
            return number, future

    def give(self, number: int, value: object) -> None:
        future = self.forget(number)
        if future is not None:
            future.set_result(value)

    def fail(self, number: int, error: ConnectError) -> None:
        future = self.forget(number)
        if future is not None:
            future.set_exception(error)

    def fail_all(self, error: ConnectError) -> None:
        with self._lock:
            numbers = list(self._waiting)
        for number in numbers:
            self.fail(number, error)

    def forget(self, number: int) -> Future[object] | None:
        with self._lock:
            return self._waiting.pop(number, None)
