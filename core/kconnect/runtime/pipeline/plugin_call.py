"""Names the plugin call that failed, so that a trace starts with what failed and where."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kconnect.api import ErrantRecordsError
from kconnect.errors import ConnectError, RetriableError
from kconnect.runtime.pipeline.health import TaskHealth


@contextmanager
def plugin_call(plugin: object, method: str, health: TaskHealth | None = None) -> Iterator[None]:
    """Wrap what a plugin raises into a ConnectError that names the class and method.

    A RetriableError stays one, and so does an ErrantRecordsError, which names the records.

    With `health` the call is registered there while it runs, so that a hanging call can be named.
    """
    if health is not None:
        health.call = (f"{_name(plugin)}.{method}()", time.monotonic())
    try:
        yield
    except (RetriableError, ErrantRecordsError):
        raise
    except Exception as error:
        failure = call_error(_name(plugin), method, error)
        failure.plugin = plugin if isinstance(plugin, type) else type(plugin)
        raise failure from error
    finally:
        if health is not None:
            health.call = None


class PluginCallError(ConnectError):
    """A plugin raised; its own error is the cause (`__cause__`). `plugin` is its class, where the caller knows it."""

    plugin: type | None = None
    method = ""


def call_error(name: str, method: str, error: Exception) -> PluginCallError:
    """The error to raise when a plugin's method raised; raise it `from` the original."""
    hint = error.hint if isinstance(error, ConnectError) else None
    failure = PluginCallError(f"{name}.{method}() raised {type(error).__name__}: {error}", hint=hint)
    failure.method = method
    failure.log_stage = _STAGES.get(method, method)
    return failure


def _name(plugin: object) -> str:
    return plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__


# Methods whose lines belong to a stage of another name.
_STAGES = {"put_batch": "put", "pre_commit": "offsets"}
