"""Names the plugin call that failed, so that a trace begins with what and where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kconnect.errors import ConnectError, RetriableError

__all__ = ["call_error", "plugin_call"]


@contextmanager
def plugin_call(plugin: object, method: str) -> Iterator[None]:
    """Wrap what a plugin raises into a ConnectError that names the class and method; a RetriableError stays one."""
    try:
        yield
    except RetriableError:
        raise
    except Exception as error:
        name = plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__
        raise call_error(name, method, error) from error


def call_error(name: str, method: str, error: Exception) -> ConnectError:
    """What to raise for an error of a plugin's method; raise it `from` that error."""
    failure = ConnectError(f"{name}.{method}() raised {type(error).__name__}: {error}")
    failure.log_stage = _STAGES.get(method, method)
    return failure


# Methods whose lines belong to a stage of another name.
_STAGES = {"put_batch": "put", "pre_commit": "offsets"}
