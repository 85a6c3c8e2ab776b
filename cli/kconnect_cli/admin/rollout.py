"""Waits until what `connectors apply` has written runs. `Rollout` decides, `await_applied` looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kconnect.errors import ConnectError, TimedOutError
from kconnect_cli.admin.awaited_states import is_reached, raise_if_hopeless, state_text

if TYPE_CHECKING:
    from kconnect.model import ConnectorState, ConnectorStatus, TaskState
    from kconnect_cli.session import CliSession
    from kconnect_cli.settings.changes import Change

# A worker answers a new config before it restarts the connector; by then it has, and the tasks too
SETTLES_S: Final = 3.0
_IDLE_STATES: Final = ("PAUSED", "STOPPED")
# As of `connectors wait`
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.05, 0.5


def await_applied(
    session: CliSession, changes: Sequence[Change], before: Mapping[str, ConnectorStatus], timeout_s: float
) -> None:
    """Look until all of them run, are paused or stopped; says each. `before`: statuses ahead of the first change.

    Errors: ConnectError when one is FAILED for good; TimedOutError.
    """
    updated = {change.name for change in changes if change.action == "update"}
    applied = [change.name for change in changes if change.new is not None]
    start = time.monotonic()
    rollout, pause, pause_s = Rollout(applied, updated, before, start), threading.Event(), _FIRST_LOOK_S
    while True:
        for name, state in rollout.look(session.reader.connector_statuses(), time.monotonic()).items():
            session.say(f"{name} is {state}")
        if not rollout.open:
            return
        if time.monotonic() + pause_s > start + timeout_s:
            raise TimedOutError(
                f"Not RUNNING within {timeout_s:g} s: {'; '.join(rollout.open_texts())}",
                hint="--timeout gives them more time; connect connectors status --watch shows what they are doing.",
            )
        pause.wait(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_LOOK_S)


class Rollout:
    """Whether applied connectors have arrived. Pure: times are given.

    A connector has arrived when it and its tasks are RUNNING, or when it is paused or stopped. The status of one that
    was updated is the old config's for a moment: it arrives after SETTLES_S in that state, and a failure it had before
    counts after that only.
    """

    def __init__(
        self, names: Sequence[str], updated: Collection[str], before: Mapping[str, ConnectorStatus], start_s: float
    ) -> None:
        self.open: list[str] = list(names)
        self._updated = frozenset(updated)
        self._before = before
        self._start_s = start_s
        self._since: dict[str, float] = {}
        self._last: Mapping[str, ConnectorStatus] = {}

    def look(self, statuses: Mapping[str, ConnectorStatus], now_s: float) -> dict[str, str]:
        """Connectors that have arrived with this look, with their state.

        Errors: ConnectError for one that is FAILED and no automatic restart follows, or that is gone.
        """
        self._last = statuses
        arrived = {}
        for name in list(self.open):
            found = statuses.get(name)
            if found is None:
                if name in self._before:
                    raise ConnectError(f"{name} was deleted meanwhile")
                continue
            if self._has_failed(name, found, now_s):
                raise_if_hopeless([found], "RUNNING")
            if self._has_arrived(name, found, now_s):
                arrived[name] = str(found.connector.state)
                self.open.remove(name)
        return arrived

    def open_texts(self) -> list[str]:
        """What those that have not arrived are doing, with the cause of a failure."""
        return [state_text(name, self._last.get(name)) for name in self.open]

    def _has_arrived(self, name: str, found: ConnectorStatus, now_s: float) -> bool:
        if not (_is_idle(found) or is_reached(found, "RUNNING")):
            self._since[name] = now_s
            return False
        since_s = self._since.get(name, self._start_s)
        return name not in self._updated or now_s - since_s >= SETTLES_S

    def _has_failed(self, name: str, found: ConnectorStatus, now_s: float) -> bool:
        is_old = name in self._updated and _failures(found) == _failures(self._before.get(name))
        return not (is_old and now_s - self._start_s < SETTLES_S)


def _is_idle(found: ConnectorStatus) -> bool:
    state = str(found.connector.state)
    return state in _IDLE_STATES and all(str(task.state) == state for task in found.tasks)


def _failures(found: ConnectorStatus | None) -> list[tuple[int | None, str | None]]:
    """What is FAILED, with its trace."""
    return [] if found is None else [(getattr(part, "id", None), part.trace) for part in _failed(found)]


def _failed(found: ConnectorStatus) -> list[ConnectorState | TaskState]:
    parts: list[ConnectorState | TaskState] = [found.connector, *found.tasks]
    return [part for part in parts if str(part.state) == "FAILED"]
