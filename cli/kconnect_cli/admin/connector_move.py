"""Connectors that are deleted, copied or renamed with their offsets; undone when a step fails."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.admin.cluster.rest_changes import offset_table
from kconnect.client.offset_move import refuse_unassigned
from kconnect.errors import AlreadyExistsError, ConflictError, ConnectError, NotFoundError, TimedOutError
from kconnect.model import ConnectorOffset, RunState, TargetState
from kconnect_cli.screen.output import json_cell

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Changes, PreparedChange
    from kconnect_cli.session import CliSession

# A worker stops a task within task.shutdown.graceful.timeout.ms, 5 s; a rebalance may come first
_STOP_S = 60.0
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class _Steps:
    """Single changes, made at once and reported as they are made."""

    session: CliSession
    admin: Changes

    def do(self, change: PreparedChange) -> None:
        for line in change.make():
            self.session.say(line)

    def state_before(self, name: str) -> RunState:
        """The state to return to. Errors: ConflictError when no worker has it: that state is unknown."""
        state = self.session.reader.connector_status(name).connector.state
        refuse_unassigned(name, state)
        return state

    def stop(self, name: str, before: RunState) -> None:
        """Stop it, which is in state `before`, and wait until its tasks are gone."""
        if before is not RunState.STOPPED:
            self.do(self.admin.stop(name))
        self._await_stopped(name)

    def _await_stopped(self, name: str) -> None:
        deadline, state = time.monotonic() + _STOP_S, "without a status"
        while True:
            with suppress(NotFoundError):  # one that was just created has no status yet
                status = self.session.reader.connector_status(name)
                state = str(status.connector.state)
                if status.connector.state is RunState.STOPPED and not status.tasks:
                    return
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{name} did not stop within {_STOP_S:.0f} s: it is {state}",
                    hint="`connect tasks list` shows which task does not end.",
                )
            time.sleep(_LOOK_EVERY_S)

    def run_on(self, name: str, before: RunState) -> None:
        """Back to the state it was in."""
        if before is RunState.PAUSED:
            self.do(self.admin.pause(name))
        elif before is not RunState.STOPPED:
            self.do(self.admin.resume(name))

    def create_at(self, name: str, config: Mapping[str, str], offsets: Sequence[ConnectorOffset]) -> None:
        """Create it STOPPED at these offsets, and verify them; it is deleted again if that fails."""
        self.do(self.admin.create(name, {**config, "name": name}, TargetState.STOPPED))
        try:
            self._await_stopped(name)
            wanted, left = _by_partition(offsets), self.session.reader.connector_offsets(name)
            former = [ConnectorOffset(item.partition, None) for item in left if json_cell(item.partition) not in wanted]
            if offsets or former:  # what a former connector of this name left is no place to go on at
                self.do(self.admin.alter_offsets(name, [*offsets, *former]))
            self._verify(name, offsets)
        except ConnectError:
            self.do(self.admin.delete(name))
            raise

    def _verify(self, name: str, wanted: Sequence[ConnectorOffset]) -> None:
        now = _by_partition(self.session.reader.connector_offsets(name))
        for partition, offset in _by_partition(wanted).items():
            if now.get(partition) != offset:
                raise ConflictError(
                    f"{name}: {partition} is at {json_cell(now.get(partition))} and not at {json_cell(offset)}",
                    hint="The connector adjusts offsets, or somebody else changes them.",
                )


@dataclass(frozen=True, slots=True)
class DeletionWithOffsets:
    """Stop, reset the offsets, delete; a `PreparedChange`. If the offsets cannot be reset, it runs on as before."""

    session: CliSession
    admin: Changes
    name: str
    is_empty: bool = False
    needs_consent: bool = True

    def description(self) -> Sequence[str]:
        old = self.session.reader.connector_offsets(self.name)
        if not old:
            return (f"Delete {self.name}, which has no offsets",)
        none = [ConnectorOffset(item.partition, None) for item in old]
        return (f"Delete {self.name} and its offsets", offset_table(old, none))

    def check(self) -> Sequence[str]:
        return ()

    def make(self) -> Sequence[str]:
        steps = _Steps(self.session, self.admin)
        before = steps.state_before(self.name)
        try:
            steps.stop(self.name, before)
            if self.session.reader.connector_offsets(self.name):
                steps.do(self.admin.reset_offsets(self.name))
        except ConnectError:
            steps.run_on(self.name, before)
            raise
        steps.do(self.admin.delete(self.name))
        return ()


@dataclass(frozen=True, slots=True)
class ConnectorCopy:
    """A connector of another name with the same config, at the same offsets; a `PreparedChange`.

    `moves`: the old one is stopped before, and deleted at last; its offsets stay, as with any deletion. `starts`: a
    copy runs at once; else it is STOPPED. If a step fails, there is no new connector and the old one runs on.
    """

    session: CliSession
    admin: Changes
    old: str
    new: str
    moves: bool
    starts: bool = False
    is_empty: bool = False
    needs_consent: bool = True

    def description(self) -> Sequence[str]:
        offsets = self.session.reader.connector_offsets(self.old)
        what = f"{'Rename' if self.moves else 'Copy'} {self.old} to {self.new}"
        if not offsets:
            return (f"{what}; it has no offsets",)
        return (what, offset_table([], offsets))

    def check(self) -> Sequence[str]:
        """Errors: AlreadyExistsError, before anything is stopped."""
        if self.new in self.session.reader.connectors():
            raise AlreadyExistsError(f"Connector {self.new} already exists", hint="Choose another name, or delete it.")
        return ()

    def make(self) -> Sequence[str]:
        steps, reader = _Steps(self.session, self.admin), self.session.reader
        config = reader.connector(self.old).config
        if not self.moves:
            steps.create_at(self.new, config, reader.connector_offsets(self.old))
            if self.starts:
                steps.do(self.admin.resume(self.new))
            return (f"copied {self.old} to {self.new}{'' if self.starts else ', which is STOPPED'}",)
        before = steps.state_before(self.old)
        try:
            steps.stop(self.old, before)
            steps.create_at(self.new, config, reader.connector_offsets(self.old))
            try:
                steps.do(self.admin.delete(self.old))
            except ConnectError:
                steps.do(self.admin.delete(self.new))
                raise
        except ConnectError:
            steps.run_on(self.old, before)
            raise
        steps.run_on(self.new, before)
        return (f"renamed {self.old} to {self.new}",)


def _by_partition(offsets: Sequence[ConnectorOffset]) -> dict[str, Mapping[str, Any] | None]:
    return {json_cell(item.partition): item.offset for item in offsets}
