"""Configs and plugins -> a loop that is ready to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kconnect.errors import ConnectError
from kconnect.pipeline.ports import TaskControl, TaskPorts

if TYPE_CHECKING:
    from kconnect.pipeline.lifecycle import TaskLoop

__all__ = ["build_loop"]


def build_loop(control: TaskControl, ports: TaskPorts) -> TaskLoop:
    """The loop of a task, not started. Errors: ConfigError, NotFoundError of what its configs name."""
    raise ConnectError(f"Task {control.spec.id} can not run: its loop is not built yet")
