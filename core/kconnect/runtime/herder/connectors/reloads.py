"""When a connector is looked at again: after a time, when a config provider says so, or when a file has changed.

Source: WorkerConfigTransformer.scheduleReload (Kafka 4.3).
Differs: Java restarts a connector when the time is over, changed or not, and leaves its tasks alone; here the values
are checked repeatedly, and connector and tasks restart when one has changed. Java's clients keep the files that they
were made with until somebody restarts them; here tasks restart with what these hold.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kconnect.files.reread import Version, version_of
from kconnect.runtime.config.variables import Variables

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


class Reloads:
    """One thread with the due times of all connectors; it runs only while some connector has one.

    States: open -> closed. Threads: any. `look` is called on the thread and must return at once.
    """

    def __init__(self, look: Callable[[str], None]) -> None:
        self._look = look
        self._changed = threading.Condition()  # guards the fields below
        self._due: dict[str, tuple[float, float]] = {}  # connector -> (due time, interval in seconds)
        self._thread: threading.Thread | None = None
        self._closed = False

    def schedule(self, connector: str, after_ms: int | None) -> None:
        """Check the connector every `after_ms`; None: stop checking it."""
        with self._changed:
            if self._closed or after_ms is None:
                self._due.pop(connector, None)
                return
            period_s = max(after_ms, 1) / 1000
            self._due[connector] = (time.monotonic() + period_s, period_s)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="herder-reloads", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Look at nothing any more. Idempotent."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while (ready := self._await_due()) is not None:
            for connector in ready:
                try:
                    self._look(connector)
                except Exception:  # top of a thread
                    log.exception("Could not check again what connector %s refers to", connector)

    def _await_due(self) -> list[str] | None:
        """Connectors whose time has come, rescheduled; None when closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                ready = [name for name, (when, _) in self._due.items() if when <= now]
                for name in ready:
                    self._due[name] = (now + self._due[name][1], self._due[name][1])
                if ready:
                    return ready
                self._changed.wait(min((when for when, _ in self._due.values()), default=now + 3600) - now)
            return None


class WatchedConfigs:
    """The subscriptions of all connectors. States: open -> closed. Threads: any.

    `look` is called on a thread of the provider and must return at once.
    """

    def __init__(self, variables: Variables, look: Callable[[str], None]) -> None:
        self._variables = variables
        self._look = look
        self._lock = threading.RLock()  # guards the two below; a provider may call back while it subscribes
        self._watched: dict[str, tuple[Mapping[str, str], Callable[[], None]]] = {}
        self._closed = False

    def watch(self, connector: str, config: Mapping[str, str]) -> None:
        """Watch the references of this config, in place of those watched so far; an empty one ends it."""
        with self._lock:
            if self._closed or self._watched.get(connector, ({}, None))[0] == config:
                return
            self._end(connector)
            if config:
                end = self._variables.watch(config, f"connector {connector}", partial(self._look, connector))
                self._watched[connector] = (config, end)

    def close(self) -> None:
        """End all subscriptions. Idempotent."""
        with self._lock:
            self._closed = True
            for connector in list(self._watched):
                self._end(connector)

    def _end(self, connector: str) -> None:
        _, end = self._watched.pop(connector, (None, None))
        if end is not None:
            end()
