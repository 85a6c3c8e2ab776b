"""What a data path gets in an executor's process, where no host is: it has no states, no source offsets, no timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kconnect.errors import ConnectError
from kconnect.model import ConnectorOffset, RunState, TaskId
from kconnect.runtime.pipeline.ports import TaskPorts, Ticket
from kconnect.runtime.plugins import PluginRegistry


class _NoOffsets:
    """Implements OffsetPort."""

    def read(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        raise ConnectError(f"Offsets of {connector} are read by its worker, not by Spark's tasks")

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        raise ConnectError(f"Offsets of {connector} are committed by its worker, not by Spark's tasks")


class _NoHousekeeping:
    """Implements Housekeeping."""

    def every(self, interval_s: float, tick: Callable[[], None], name: str) -> Ticket:
        raise ConnectError(f"There is no timer for {name} in Spark's tasks")


NO_OFFSETS: Final = _NoOffsets()
NO_HOUSEKEEPING: Final = _NoHousekeeping()


def tell_no_state(task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
    """States are reported by the worker, which sees the query."""


def ports_without_host(plugins: PluginRegistry) -> TaskPorts:
    """The ports of a data path that runs in a Spark task of its own."""
    return TaskPorts(
        report=tell_no_state,
        offsets=NO_OFFSETS,
        reconfigure=lambda connector: None,
        housekeeping=NO_HOUSEKEEPING,
        plugins=plugins,
    )
