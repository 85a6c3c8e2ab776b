"""CommitTroubles: logs and counts a task's failed offset commits, and logs when they succeed again."""

from __future__ import annotations

import logging
import time

from kconnect.errors import with_hint
from kconnect.logs.repeats import RepeatedMessages
from kconnect.runtime.pipeline.error_texts import one_line
from kconnect.runtime.pipeline.ports import TaskControl


class CommitTroubles:
    """Threads: the committer's, one at a time. The caller has set the log's context."""

    def __init__(self, control: TaskControl, logger: logging.Logger) -> None:
        self._control = control
        self._log = logger
        self._messages = RepeatedMessages(logger)

    def failed(self, level: int, message: str, name: str, cause: object) -> None:
        """A commit failed; `message` takes the task's name and the cause."""
        self._control.counters.commit_failures += 1
        why = with_hint(cause) if isinstance(cause, BaseException) else str(cause)
        self._control.health.commit_failed(f"Offsets cannot be stored: {one_line(why)}", time.monotonic())
        self._messages.log(level, message, name, why)

    def over(self) -> None:
        """A commit succeeded."""
        trouble = self._control.health.commit_done()
        if trouble is None or not self._messages.is_due("stored again"):
            return
        attempts = "1 failed commit" if trouble.count == 1 else f"{trouble.count:,} failed commits"
        lasted_s = time.monotonic() - trouble.since_s
        self._log.info("Offsets of %s are stored again after %s in %.1f s", self._control.spec.id, attempts, lasted_s)
