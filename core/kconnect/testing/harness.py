"""Harness: the life of a connector in a test, the same for sources and sinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from kconnect.testing.connector_run import ConnectorRun


class TaskRun(Protocol):
    """A task that runs in a harness."""

    @property
    def task(self) -> Any:  # the author's own class
        ...

    @property
    def config(self) -> Mapping[str, str]: ...


TaskRunT = TypeVar("TaskRunT", bound=TaskRun)


class Harness(ABC, Generic[TaskRunT]):
    """Starts and ends a connector with its tasks, and shows them. Threads: the test's, for everything.

    States: constructed -> start -> stop or crash -> start ..; as a context manager it starts, and stops unless the
    block raised: then it crashes.
    """

    def __init__(self, run: ConnectorRun) -> None:
        self._run = run
        self._tasks: list[TaskRunT] = []

    @abstractmethod
    def start(self) -> Self:
        """Check the settings, start the connector and its tasks. Errors: ConfigError; what the plugins raise."""

    @abstractmethod
    def stop(self) -> None:
        """Commit, then stop the tasks and the connector."""

    @abstractmethod
    def crash(self) -> None:
        """End without a commit, as after a kill; stop() of the plugins is called, to free what they hold."""

    def crash_after_error(self) -> None:
        """End likewise; what stop() of a plugin raises now comes second and is left out."""
        with suppress(Exception):  # plugins that did not start do not stop well
            self.crash()

    def restart(self) -> Self:
        """Stop, and start new objects, which go on from the committed offsets."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.stop()
        else:
            self.crash_after_error()

    @property
    def connector(self) -> Any:  # the author's own class
        """The connector object that runs now."""
        return self._run.connector

    @property
    def tasks(self) -> list[Any]:
        """The task objects that run now."""
        return [task.task for task in self._tasks]

    @property
    def task(self) -> Any:
        """The only task. Errors: ValueError when there are none or several."""
        (only,) = self.tasks
        return only

    @property
    def task_configs(self) -> list[dict[str, str]]:
        """The config of each task that runs now."""
        return [dict(task.config) for task in self._tasks]
