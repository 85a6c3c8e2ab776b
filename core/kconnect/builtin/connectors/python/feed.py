"""A function that gives items, run on a thread of its own: what it gives waits here until it is polled."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any

log = logging.getLogger(__name__)

# A few polls' worth: the function waits when Kafka is slower than it is
_MOST_WAITING = 20_000
_ASYNC_PAUSE_S = 0.005


class Feed:
    """One call of a generator, a function, or an asynchronous one of either. States: start() -> .. -> stop().

    Threads: the caller's, and `python-source-NAME`, which runs the function and calls `wake` for what is new.
    """

    def __init__(self, name: str, call: Callable[[], Any], wake: Callable[[], None]) -> None:
        self._call, self._wake = call, wake
        self._items: deque[Any] = deque()
        self._room = threading.Condition()  # notified when items were taken, and by stop()
        self._is_stopping = False
        self._is_over = False
        self._failure: BaseException | None = None
        self._stop_async: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"python-source-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self, most: int) -> list[Any]:
        """What it gave since, at most so many items. Errors: what the function raised, after all that it gave."""
        was_over = self._is_over  # looked at before the items: what comes after is taken the next time
        items = self._items
        found = [items.popleft() for _ in range(min(most, len(items)))]
        if found:
            with self._room:
                self._room.notify_all()
        elif was_over and self._failure is not None:
            raise self._failure
        return found

    @property
    def is_done(self) -> bool:
        """Whether the function has ended, and all was taken."""
        return self._is_over and not self._items and self._failure is None

    def stop(self, timeout_s: float) -> bool:
        """Ask it to end, and wait; False if it runs on, in code that takes its time."""
        with self._room:
            self._is_stopping = True
            self._room.notify_all()
            stop_async = self._stop_async
        if stop_async is not None:
            stop_async()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # --- on its thread ---

    def _run(self) -> None:
        try:
            made = self._call()
            if inspect.isasyncgen(made) or inspect.isawaitable(made):
                asyncio.run(self._take_async(made))
            elif inspect.isgenerator(made) or (isinstance(made, Iterable) and hasattr(made, "__next__")):
                self._take_from(made)
            else:
                self._put_result(made)
        except asyncio.CancelledError:
            log.debug("%s was stopped", self._thread.name)
        except BaseException as err:  # the function's own, SystemExit too: told by take()
            self._failure = err
        finally:
            self._is_over = True
            self._wake()

    def _take_from(self, made: Any) -> None:
        try:
            for item in made:
                if not self._put(item):
                    return
        finally:
            close = getattr(made, "close", None)
            if close is not None:
                close()

    def _put_result(self, made: Any) -> None:
        """What a function returned: a list is its items."""
        for item in made if isinstance(made, list) else [made]:
            if not self._put(item):
                return

    def _put(self, item: Any) -> bool:
        """False if the feed should end. Waits while too much is waiting."""
        if len(self._items) >= _MOST_WAITING:
            with self._room:
                self._room.wait_for(lambda: self._is_stopping or len(self._items) < _MOST_WAITING)
        if self._is_stopping:
            return False
        self._items.append(item)
        if len(self._items) == 1:
            self._wake()
        return True

    async def _take_async(self, made: Any) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._room:
            if self._is_stopping:
                return
            self._stop_async = lambda: _cancel(loop, task)
        try:
            if not isinstance(made, AsyncIterable):
                self._put_result(await made)
                return
            async for item in made:
                while len(self._items) >= _MOST_WAITING:
                    await asyncio.sleep(_ASYNC_PAUSE_S)
                self._put(item)
        finally:
            with self._room:
                self._stop_async = None


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:  # the loop has just ended by itself
        log.debug("%s has ended already", task)
