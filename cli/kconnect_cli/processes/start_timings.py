"""`--timings`: what a start spent its time on, as a table once everything runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from kconnect.logs.timeline import Step, Timeline, note_step

if TYPE_CHECKING:
    from kconnect.model import ConnectorStatus
    from kconnect.runtime.herder.health.reasons import Health


class Starting(Protocol):
    """What is asked of a worker: whether its start is over."""

    @property
    def health(self) -> Health: ...

    def statuses(self) -> list[ConnectorStatus]: ...


TimingsFlag = Annotated[
    bool, typer.Option("--timings", help="Print what the start took, once all tasks run: a line for each step.")
]

# How soon after the last step the table is printed, and when that of a start which does not end
_LOOK_EVERY_S = 0.05
_MOST_S = 120.0


class StartTimings:
    """Collects the steps of a start from its construction on, if it `is_on`."""

    def __init__(self, is_on: bool) -> None:
        self._timeline = Timeline() if is_on else None

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Steps inside are collected."""
        if self._timeline is None:
            yield
            return
        with self._timeline:
            note_step("The command is loaded")
            yield

    @contextmanager
    def printed(self, worker: Starting) -> Iterator[None]:
        """Inside, the table is printed once the worker waits for nothing more and its tasks run."""
        if self._timeline is None:
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._print, args=(worker, self._timeline, ended), name="timings", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(_LOOK_EVERY_S * 10)

    def _print(self, worker: Starting, timeline: Timeline, ended: threading.Event) -> None:
        from kconnect_cli.screen.output import write_text

        waited_s = 0.0
        while not (is_whole := _is_running(worker)) and waited_s < _MOST_S:
            if ended.wait(_LOOK_EVERY_S):
                break
            waited_s += _LOOK_EVERY_S
        write_text(timings_text(timeline.steps, is_whole=is_whole))
        sys.stdout.flush()  # the worker goes on for long


def _is_running(worker: Starting) -> bool:
    """Whether the start is over: it waits for nothing, and no task is UNASSIGNED."""
    if any(reason.is_starting for reason in worker.health.reasons()):
        return False
    return all(task.state != "UNASSIGNED" for status in worker.statuses() for task in status.tasks)


def timings_text(steps: list[Step], *, is_whole: bool) -> str:
    """The table: seconds since the process was started, seconds since the step before, the step."""
    from kconnect_cli.screen.output import Column, table_text  # here: no part of the start that is measured

    rows = [
        {"at": step.s, "took": step.s - before.s, "what": step.what}
        for before, step in zip([Step(0.0, ""), *steps], steps, strict=False)
    ]
    columns = (
        Column("AT S", lambda row: f"{row['at']:.2f}"),
        Column("STEP S", lambda row: f"{row['took']:.2f}"),
        Column("WHAT HAS HAPPENED", lambda row: row["what"]),
    )
    text = table_text(columns, rows)
    return text if is_whole else f"{text}The start was not over.\n"
