"""Have the JVM's class archive made beside the first worker and out of its way, by a process of its own."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading

from kconnect.spark.settings import SparkSettings

__all__ = ["Training"]

log = logging.getLogger(__name__)

# The first records of a fresh worker should not share their cores with it.
_DELAY_S = 3.0


class Training:
    """The worker's side: begins the process after a while, ends it with the worker."""

    def __init__(self, settings: SparkSettings) -> None:
        self._cache = settings.cache
        self._lock = threading.Lock()  # guards the three below
        self._timer: threading.Timer | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False

    def begin(self) -> None:
        """Begin, if not begun; returns at once."""
        with self._lock:
            if self._timer is None and not self._over:
                self._timer = threading.Timer(_DELAY_S, self._run)
                self._timer.name, self._timer.daemon = "spark-train", True
                self._timer.start()

    def stop(self) -> None:
        """End it; an unfinished archive is made another time. Idempotent."""
        with self._lock:
            self._over = True
            timer, process = self._timer, self._process
        if timer is not None:
            timer.cancel()
        if process is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]  # opened as a pipe below
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(2.0)
        if timer is not None:
            timer.join(2.0)

    def _run(self) -> None:
        with self._lock:
            if self._over:
                return
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "kconnect.spark.make_archive", str(self._cache)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        code = process.wait()
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # opened as a pipe above
        log.debug("The process that makes the class archive ended with code %d", code)
