"""WatchThread: runs next to the herder's thread until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable


class WatchThread:
    """States: new -> start() -> stop(). `run` gets the event that stops it, and ends soon after that is set."""

    def __init__(self, name: str, run: Callable[[threading.Event], None]) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._stop,), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Idempotent; one that was never started may be stopped."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
