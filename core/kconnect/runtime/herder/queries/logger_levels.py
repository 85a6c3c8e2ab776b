"""Levels of loggers of one worker: in its own process, and wherever its tasks run."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kconnect.errors import NotFoundError
from kconnect.logs.log_context import LoggerLevel, LogLevels, level_number
from kconnect.runtime.herder.interface import Launcher

log = logging.getLogger(__name__)


class WorkerLoggers:
    """Threads: any."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._levels = LogLevels()

    def all(self) -> Mapping[str, LoggerLevel]:
        return self._levels.all()

    def get(self, name: str) -> LoggerLevel:
        """Errors: NotFoundError."""
        found = self._levels.find(name)
        if found is None:
            raise NotFoundError(f"Logger {name} not found.")
        return found

    def set(self, name: str, level: int) -> list[str]:
        """Give a logger, and those below it, a level; names of those of this process that had another one."""
        changed = self._levels.set(name, level)
        self._launcher.set_log_level(name, level)
        return changed

    def set_named(self, name: str, level: str) -> None:
        """The same from the config topic, where a level is a word that anybody may have written."""
        number = level_number(level)
        if number is None:
            log.warning("Unknown level %s for logger %s in the config topic", level, name)
        else:
            self.set(name, number)
