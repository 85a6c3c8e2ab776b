"""Files that the Kafka clients of connectors read: looked at once a second, so that tasks restart with what they hold.

Differs: Java's clients keep what they were made with until somebody restarts them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from kconnect.files.reread import Version, version_of

log = logging.getLogger(__name__)


class WatchedFiles:
    """The files that clients of connectors read. States: open -> closed. Threads: any.

    One thread looks at them once a second, and only while there are any; it calls `look`, which must return at once,
    when a file has changed and then stayed for a second: files that belong together change one after the other.
    """

    def __init__(self, look: Callable[[str], None], every_s: float = 1.0) -> None:
        self._look = look
        self._every_s = every_s
        self._lock = threading.Lock()  # guards the two below
        self._watched: dict[str, _Files] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def watch(self, connector: str, files: Collection[Path]) -> None:
        """Look at these files for the connector, in place of those so far."""
        with self._lock:
            self._watched.pop(connector, None)
            if not files or self._closed.is_set():
                return
            now = {path: version_of(path) for path in files}
            self._watched[connector] = _Files(now, now)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="herder-client-files", daemon=True)
                self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Look at nothing any more. Idempotent."""
        self._closed.set()
        with self._lock:
            self._watched.clear()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            for connector in self._changed():
                try:
                    self._look(connector)
                except Exception:  # top of a thread
                    log.exception("Could not look at the files of connector %s again", connector)

    def _changed(self) -> list[str]:
        """Connectors whose files differ from those last reported, and are as they were a second ago."""
        seen: dict[Path, Version] = {}
        changed = []
        with self._lock:
            for connector, files in self._watched.items():
                now = {
                    path: seen[path] if path in seen else seen.setdefault(path, version_of(path)) for path in files.last
                }
                if now == files.last and now != files.reported:
                    files.reported = now
                    changed.append(connector)
                files.last = now
        return changed


@dataclass(slots=True)
class _Files:
    reported: Mapping[Path, Version]
    last: Mapping[Path, Version]
