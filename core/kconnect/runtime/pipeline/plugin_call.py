"""Names the plugin call that failed, so that a trace starts with what failed and where."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from kconnect.api import ErrantRecordsError
from kconnect.errors import ConnectError, RetriableError, sayable
from kconnect.runtime.pipeline.health import TaskHealth

Calling = Callable[[object, str], AbstractContextManager[None]]
"""A block around a call of a plugin's method: gives what it raises its name, and may watch it. `plugin_call` is one."""


class plugin_call:  # read as a call of a function: with plugin_call(..)
    """A block that wraps what a plugin raises into a ConnectError that names the class and method.

    A RetriableError stays one, and so does an ErrantRecordsError, which names the records. With `health` the call is
    registered there while it runs, so that a hanging call can be named. It takes half the time of a generator.
    """

    __slots__ = ("_health", "_method", "_place", "_plugin")

    def __init__(self, plugin: object, method: str, health: TaskHealth | None = None, place: str = "") -> None:
        """`place`: the settings that name the plugin, such as transforms.X, where its class does not say it."""
        self._place = place
        self._plugin = plugin
        self._method = method
        self._health = health

    def __enter__(self) -> None:
        if self._health is not None:
            self._health.call = (f"{_name(self._plugin)}.{self._method}()", time.monotonic())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._health is not None:
            self._health.call = None
        if isinstance(error, Exception) and not isinstance(error, RetriableError | ErrantRecordsError):
            plugin, error = self._plugin, sayable(error)
            # A step of a task in Java, which starts it
            name, method, place = getattr(error, "java_step", None) or (_name(plugin), self._method, self._place)
            failure = call_error(name, method, error, place)
            failure.plugin = plugin if isinstance(plugin, type) else type(plugin)
            raise failure from error


class PluginCallError(ConnectError):
    """A plugin raised; its own error is the cause (`__cause__`). `plugin` is its class, where the caller knows it."""

    plugin: type | None = None
    method = ""


def call_error(name: str, method: str, error: BaseException, place: str = "") -> PluginCallError:
    """The error to raise when a plugin's method raised; raise it `from` the original."""
    hint = error.hint if isinstance(error, ConnectError) else None
    of = f" of {place}" if place else ""
    failure = PluginCallError(f"{name}.{method}(){of} raised {type(error).__name__}: {error}", hint=hint)
    failure.method = method
    failure.log_stage = _STAGES.get(method, method)
    return failure


def _name(plugin: object) -> str:
    return plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__


# Methods whose lines belong to a stage of another name.
_STAGES = {"put_batch": "put", "pre_commit": "offsets"}
