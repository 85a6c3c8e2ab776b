"""Moves a running connector: stop, change its offsets, verify them, and run on; or all as it was when a step fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.errors import ConflictError, ConnectError, TimedOutError
from kconnect.model import ConnectorOffset, RunState
from kconnect_cli.admin.rest_admin import offset_table
from kconnect_cli.screen.output import json_cell

if TYPE_CHECKING:
    from kconnect.client import ConnectClient
    from kconnect_cli.admin.offset_changes import OffsetChanges

# A worker stops a task within task.shutdown.graceful.timeout.ms, 5 s; a rebalance may come first
_STOP_S = 60.0
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The move of one connector over a worker's REST API; a `PreparedChange`. It says what it does as it does it.

    `wanted` gives the new offsets once the connector is stopped, as its tasks commit while they stop.
    """

    client: ConnectClient
    changes: OffsetChanges
    name: str
    wanted: Callable[[], Sequence[ConnectorOffset]]
    say: Callable[[str], None]

    @property
    def is_empty(self) -> bool:
        return False

    @property
    def needs_consent(self) -> bool:
        return True

    def description(self) -> Sequence[str]:
        """Old and new offsets as they are now; what its tasks commit while they stop comes on top."""
        return (f"Move {self.name}", offset_table(self.client.connector_offsets(self.name), self.wanted()))

    def check(self) -> Sequence[str]:
        return ()

    def make(self) -> Sequence[str]:
        """Errors: ConnectError of the step that failed; offsets and state are then what they were before."""
        before = self.client.connector_status(self.name).connector.state
        try:
            self._stop(before)
            old = self.client.connector_offsets(self.name)
            try:
                self._change()
            except ConnectError:
                self._restore(old)
                raise
        finally:
            self._run_on(before)
        return ()

    def _stop(self, before: RunState) -> None:
        if before is not RunState.STOPPED:
            self.client.stop_connector(self.name)
        deadline = time.monotonic() + _STOP_S
        while True:
            status = self.client.connector_status(self.name)
            if status.connector.state is RunState.STOPPED and not status.tasks:
                return
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{self.name} did not stop within {_STOP_S:.0f} s: it is {status.connector.state}",
                    hint="Nothing was changed; it is resumed. `connect tasks list` shows which task does not end.",
                )
            time.sleep(_LOOK_EVERY_S)

    def _change(self) -> None:
        wanted = self.wanted()
        for line in self.changes.alter(self.name, wanted, "move").make():
            self.say(line)
        now = _by_partition(self.client.connector_offsets(self.name))
        for partition, offset in _by_partition(wanted).items():
            if now.get(partition) != offset:
                raise ConflictError(
                    f"{self.name}: {partition} is at {json_cell(now.get(partition))} and not at {json_cell(offset)}",
                    hint="Somebody else changes these offsets, or the connector adjusts them.",
                )

    def _restore(self, old: Sequence[ConnectorOffset]) -> None:
        """Back to the offsets it stopped with."""
        before, now = _by_partition(old), self.client.connector_offsets(self.name)
        if before == _by_partition(now):
            return
        added = [ConnectorOffset(item.partition, None) for item in now if json_cell(item.partition) not in before]
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


def _by_partition(offsets: Sequence[ConnectorOffset]) -> dict[str, Mapping[str, Any] | None]:
    return {json_cell(item.partition): item.offset for item in offsets}
