"""Preparation: what a host JVM needs is fetched and compiled while the worker starts, before somebody waits for it."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Final

from kconnect.errors import ConnectError
from kconnect.java.installed import find_java
from kconnect.java.plugins.program import HostProgram, class_path_jars

log = logging.getLogger(__name__)

_MEGABYTE: Final = 1_000_000
# A compiler that runs ends first: 5 s on a quiet machine
_END_S: Final = 10.0


class Preparation:
    """Kafka's jars and the program that hosts plugins; instantly over where both are in the cache.

    What fails is logged, and tried again by the first who needs it, who gets the error. Threads: any.
    States: new -> started -> over -> stopped.
    """

    def __init__(self, java_home: str | None, cache: Path | None = None) -> None:
        """`java_home`: kconnect.java.home. `cache`: the folder of class archives."""
        self._java_home = java_home
        self._cache = cache
        self._doing = "Java is looked for"
        self._began_ms = 0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        self._began_ms = time.time_ns() // 1_000_000
        self._thread = threading.Thread(target=self._run, name="java-preparation", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = _END_S) -> None:
        """End a download; wait for the compiler. Idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is over; whether it is."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self.waits_for() is None

    def waits_for(self) -> tuple[str, int] | None:
        """What is done now, a sentence, and since when, in ms; None once it is over. Never blocks."""
        if self._thread is None or not self._thread.is_alive():
            return None
        return f"Java's plugins are being prepared: {self._doing}", self._began_ms

    def _run(self) -> None:
        began_s = time.monotonic()
        try:
            java = find_java("Java's plugins", home=self._java_home)
            self._doing = "Kafka's jars are looked for"
            class_path_jars(self._fetched)
            self._doing = "the program that hosts them is compiled"
            HostProgram.find(java, self._cache)
        except ConnectError as error:
            if self._stopping.is_set():
                return
            log.warning("Java's plugins cannot run yet: %s%s", error, f". {error.hint}" if error.hint else "")
        except Exception:  # top of a thread: whoever needs a JVM meets it again
            log.exception("Java's plugins cannot run yet")
        else:
            log.debug("Java's plugins can run after %.1f s", time.monotonic() - began_s)

    def _fetched(self, done: int, total: int) -> None:
        if self._stopping.is_set():
            raise ConnectError("The worker stops")
        self._doing = f"{done // _MEGABYTE} of {total // _MEGABYTE} MB of Kafka's jars are fetched"
