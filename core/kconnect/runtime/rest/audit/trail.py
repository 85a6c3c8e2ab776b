"""AuditTrail: lines on their way from requests to a file or topic, by a thread of its own.

States: new -> started -> stopped. A sink that fails is tried again with the same line, once a second; meanwhile lines
wait in a bounded queue. `is_required`: requests that change something are refused as long as lines cannot be written,
so that at most the queue is ever lost. Otherwise the queue overflows, and what is lost is counted.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect.runtime.herder.health.reasons import Reason

log = logging.getLogger(__name__)

# Lines of some 1 kB: a minute of 16 changes a second, within a megabyte
_MOST_LINES: Final = 1000
_RETRY_S: Final = 1.0


class Sink(Protocol):
    """Where lines go. Called on the trail's thread only."""

    @property
    def where(self) -> str:
        """Its name, with the setting, for messages."""
        ...

    def write(self, line: bytes) -> None:
        """Errors: ConnectError; then nothing of the line is there, or all of it."""
        ...

    def close(self) -> None: ...


class AuditTrail:
    """Threads: `record` and the rest from any; the sink is used by its own thread alone."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        is_required: bool = False,
        most_lines: int = _MOST_LINES,
        closes_idle: bool = False,
    ) -> None:
        """`closes_idle`: the sinks, which open by themselves, are closed whenever nothing waits."""
        self.is_required = is_required
        self._closes_idle = closes_idle
        self._sinks = tuple(sinks)
        self._most_lines = most_lines
        self._changed = threading.Condition()  # guards the fields below
        self._lines: deque[Callable[[], bytes]] = deque()
        self._is_stopping = False
        self._problem: str | None = None
        self._since_ms = 0
        self.written = 0
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def record(self, line: Callable[[], bytes]) -> None:
        """Take a line, rendered later; never waits. One that finds the queue full is lost, logged and counted."""
        with self._changed:
            if len(self._lines) >= self._most_lines:
                self.lost += 1
                is_first = self.lost == 1
            else:
                self._lines.append(line)
                self._changed.notify()
                return
        log.log(logging.ERROR if is_first else logging.DEBUG, "A line of the audit log is lost: %s", self._problem)

    @property
    def problem(self) -> str | None:
        """Why lines cannot be written now; None if they can."""
        return self._problem

    @property
    def refuses_changes(self) -> bool:
        """Whether nothing may be changed, since it could not be written down."""
        with self._changed:
            is_full = len(self._lines) >= self._most_lines
        return self.is_required and (self._problem is not None or is_full)

    def reasons(self) -> Sequence[Reason]:
        """For `/health`: a worker that must write down changes and cannot is not healthy."""
        problem = self._problem
        if problem is None or not self.is_required:
            return ()
        return (Reason(f"Changes are refused, as they cannot be written to the audit log: {problem}", self._since_ms),)

    def stop(self, timeout_s: float = 2.0) -> None:
        """Write what waits, as far as that goes. Idempotent."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if self._lines:
            log.error(
                "The audit log has lost %s: %s", pluralize(len(self._lines), "line"), self._problem or "it is too slow"
            )
        for sink in self._sinks:
            sink.close()

    def _run(self) -> None:
        """The thread's top."""
        while (render := self._next()) is not None:
            line = _rendered(render)
            for sink in self._sinks:
                while not self._write(sink, line):
                    if self._wait_before_retry():
                        return
            with self._changed:
                self._lines.popleft()
                self.written += 1
                is_idle = not self._lines
            if is_idle and self._closes_idle:
                for sink in self._sinks:
                    sink.close()

    def _next(self) -> Callable[[], bytes] | None:
        """The oldest line, which stays in the queue; None at the end."""
        with self._changed:
            while not self._lines:
                if self._is_stopping:
                    return None
                self._changed.wait()
            return self._lines[0]

    def _write(self, sink: Sink, line: bytes) -> bool:
        try:
            sink.write(line)
        except ConnectError as err:
            if self._problem is None:
                log.error("%s cannot be written: %s. %s", sink.where, err, self._consequence())
                self._since_ms = time.time_ns() // 1_000_000
            self._problem = f"{sink.where}: {err}"
            return False
        except Exception as err:  # top of the thread
            log.exception("%s failed", sink.where)
            self._problem = f"{sink.where}: {err}"
            return False
        if self._problem is not None:
            log.info("%s is written again", sink.where)
            self._problem = None
        return True

    def _consequence(self) -> str:
        if self.is_required:
            return "Changes over REST are refused until it can (kconnect.audit.log.required)."
        return f"The next {pluralize(self._most_lines, 'line')} can wait; changes are carried out."

    def _wait_before_retry(self) -> bool:
        """Whether to give up, since the worker stops."""
        with self._changed:
            if not self._is_stopping:
                self._changed.wait_for(lambda: self._is_stopping, _RETRY_S)
            return self._is_stopping


def _rendered(render: Callable[[], bytes]) -> bytes:
    try:
        return render()
    except Exception as err:  # top of the thread: what was done must not go unnoticed
        log.exception("A line of the audit log cannot be made")
        return (
            json.dumps({"connector": None, "outcome": "unknown", "message": f"{type(err).__name__}"}).encode() + b"\n"
        )
