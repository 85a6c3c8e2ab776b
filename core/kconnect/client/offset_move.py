"""Moves a running connector: stop, change its offsets, verify them, and run on; or all as it was when a step fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kconnect.client.connect_client import ConnectClient
from kconnect.client.offset_history import offset_text
from kconnect.errors import ConflictError, ConnectError, TimedOutError
from kconnect.model import ConnectorOffset, RunState

WHICH_TASK_HINT: Final = "`connect tasks list` shows which task does not end."
"""What to look at where a connector does not stop."""

STOP_S: Final = 60.0
"""A worker stops a task within task.shutdown.graceful.timeout.ms, 5 s; a rebalance may come first."""
_LOOK_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The move of one connector over a worker's REST API. Threads: one. What `connect offsets move` and the console do.

    `wanted` gives the new offsets once the connector is stopped, as its tasks commit while they stop; `alter` makes
    that change, and `say` gets a sentence on each step.
    """

    client: ConnectClient
    name: str
    wanted: Callable[[], Sequence[ConnectorOffset]]
    alter: Callable[[Sequence[ConnectorOffset]], object]
    say: Callable[[str], None]

    def make(self, stop_s: float = STOP_S) -> RunState:
        """Gives the state that it was in before, and is in again.

        Errors: ConnectError of the step that failed; offsets and state are then what they were before. ConflictError
        when no worker has the connector: the state to return to is unknown.
        """
        before = self.client.connector_status(self.name).connector.state
        refuse_unassigned(self.name, before)
        try:
            self._stop(before, stop_s)
            old = self.client.connector_offsets(self.name)
            try:
                self._change()
            except ConnectError:
                self._restore(old)
                raise
        finally:
            self._run_on(before)
        return before

    def _stop(self, before: RunState, stop_s: float) -> None:
        if before is not RunState.STOPPED:
            self.client.stop_connector(self.name)
        deadline = time.monotonic() + stop_s
        while True:
            status = self.client.connector_status(self.name)
            if status.connector.state is RunState.STOPPED and not status.tasks:
                return
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{self.name} did not stop within {stop_s:.0f} s: it is {status.connector.state}",
                    hint=f"Nothing was changed; it is resumed. {WHICH_TASK_HINT}",
                )
            time.sleep(_LOOK_EVERY_S)

    def _change(self) -> None:
        wanted = self.wanted()
        self.alter(wanted)
        now = _by_partition(self.client.connector_offsets(self.name))
        for partition, offset in _by_partition(wanted).items():
            if now.get(partition) != offset:
                found = offset_text(now.get(partition))
                raise ConflictError(
                    f"{self.name}: {partition} is at {found} and not at {offset_text(offset)}",
                    hint="Somebody else changes these offsets, or the connector adjusts them.",
                )

    def _restore(self, old: Sequence[ConnectorOffset]) -> None:
        """Back to the offsets it stopped with."""
        before, now = _by_partition(old), self.client.connector_offsets(self.name)
        if before == _by_partition(now):
            return
        added = [ConnectorOffset(item.partition, None) for item in now if offset_text(item.partition) not in before]
        self.client.alter_connector_offsets(self.name, [*old, *added])
        self.say(f"{self.name}: the offsets are as before.")

    def _run_on(self, before: RunState) -> None:
        if before is RunState.STOPPED:
            return
        if before is RunState.PAUSED:
            self.client.pause_connector(self.name)
        else:
            self.client.resume_connector(self.name)
        self.say(f"{'paused' if before is RunState.PAUSED else 'resumed'} {self.name}")


def refuse_unassigned(name: str, state: RunState) -> None:
    """Errors: ConflictError when no worker has it: the API does not show its target state."""
    if state is RunState.UNASSIGNED:
        raise ConflictError(
            f"{name} is UNASSIGNED: no worker has it, so the state to return to is unknown",
            hint="Nothing was changed. Try again once a worker has it: after a worker has died, that takes "
            "scheduled.rebalance.max.delay.ms (5 minutes by default).",
        )


def _by_partition(offsets: Sequence[ConnectorOffset]) -> dict[str, Mapping[str, Any] | None]:
    return {offset_text(item.partition): item.offset for item in offsets}
