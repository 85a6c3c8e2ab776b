"""Orders of one connector one after the other, those of different connectors side by side."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kconnect.errors import ConflictError, TimedOutError

log = logging.getLogger(__name__)

# Delay before a retry after a RetriableError: doubles from the first to the last
_FIRST_DELAY_S, _LAST_DELAY_S = 0.25, 60.0


class Orders:
    """A lock for each connector, with a deadline, and work in the background that is joined at the end.

    States: open -> closed. Threads: any.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}  # guarded by _lock
        # Guarded by _lock: work that has not begun its turn, by connector and action
        self._pending: dict[tuple[str, str], threading.Thread] = {}
        self._running: set[threading.Thread] = set()  # guarded by _lock
        self._closed = threading.Event()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Take the connector's turn. Errors: ConflictError when closed, TimedOutError when another order is at it."""
        with self._lock:
            turn = self._turns.setdefault(name, threading.Lock())
        self._refuse_when_closed()
        if not turn.acquire(timeout=self._patience_s):
            raise TimedOutError(
                f"Another request for connector {name} has been running for {self._patience_s:g} s",
                hint="Its plugin may hang: see the connector's status, then delete it or restart the worker.",
            )
        try:
            self._refuse_when_closed()
            yield
        finally:
            turn.release()

    def soon(self, name: str, action: Callable[[], bool], what: str = "tasks") -> None:
        """Run `action` in the connector's turn, on a thread; retry with growing delays while it returns False.

        Requests for the same `what` that arrive before the action has begun are merged.
        """
        with self._lock:
            if (name, what) in self._pending or self._closed.is_set():
                return
            thread = threading.Thread(target=self._work, args=(name, action, what), name=f"orders-{name}", daemon=True)
            self._pending[name, what] = thread
            self._running.add(thread)
            thread.start()  # inside the lock: `close` joins the threads it finds running

    def _work(self, name: str, action: Callable[[], bool], what: str) -> None:
        delay_s = _FIRST_DELAY_S
        try:
            while not self._once(name, action, what):
                if self._closed.wait(delay_s):
                    return
                delay_s = min(2 * delay_s, _LAST_DELAY_S)
        except (ConflictError, TimedOutError) as err:
            log.warning("Connector %s is not asked for task configs: %s", name, err)
        except Exception:  # top of a thread
            log.exception("An order of connector %s failed", name)
        finally:
            with self._lock:
                self._running.discard(threading.current_thread())
                if self._pending.get((name, what)) is threading.current_thread():
                    del self._pending[name, what]

    def _once(self, name: str, action: Callable[[], bool], what: str) -> bool:
        with self.of(name):
            with self._lock:
                self._pending.pop((name, what), None)  # later requests need another run
            return action()

    def close(self, timeout_s: float) -> bool:
        """Refuse further orders and wait for those that run. False when it was closed already."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            if self._closed.is_set():
                return False
            self._closed.set()
            turns, threads = list(self._turns.items()), list(self._running)
        for name, turn in turns:
            if turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
                turn.release()
            else:
                log.warning("A request for connector %s is still running and was abandoned", name)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return True

    def _refuse_when_closed(self) -> None:
        if self._closed.is_set():
            raise ConflictError("The worker is shutting down")
