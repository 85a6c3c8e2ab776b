"""Calls of a plugin author's code: which one runs now, which one failed, and where in that code.

Who calls it: the harnesses, around every call; `connect try`, to name an error's or a hang's place.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kconnect.errors import ConnectError, TimedOutError, sayable
from kconnect.runtime.pipeline.plugin_call import PluginCallError
from kconnect.runtime.plugins.code_location import CodeLocation, PluginCode

# An error of start() is followed by those of some stop() at most
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class PluginCall:
    """One call: of which class, which method, since when (monotonic, s)."""

    plugin: type
    method: str
    since_s: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return f"{self.plugin.__name__}.{self.method}()"


class PluginFailure(ConnectError):
    """The author's code raised; the sentence names class, method, error, file and line. `__cause__` is the error."""

    def __init__(self, message: str, method: str, *, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.method = method


class LateCallError(TimedOutError):
    """A call of the author's code has not returned in its time."""

    def __init__(self, call: PluginCall, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.call = call


class PluginCalls:
    """Knows the call that runs. Threads: calls are made on one thread; `current` may be read on any."""

    def __init__(self) -> None:
        self.current: PluginCall | None = None
        self._failed: list[tuple[PluginCall, BaseException]] = []

    @contextmanager
    def calling(self, plugin: object, method: str) -> Iterator[None]:
        """Around one call of `method`; `plugin` is the object, or its class."""
        call = PluginCall(plugin if isinstance(plugin, type) else type(plugin), method)
        self.current = call
        try:
            yield
        except BaseException as error:
            self._failed = [*self._failed[-_REMEMBERED:], (call, error)]
            raise
        finally:
            self.current = None

    def call_of(self, error: BaseException) -> PluginCall | None:
        """The call that an error came out of; None when it was no call of a plugin."""
        return next((call for call, failed in self._failed if failed is error), None)


def explained(calls: PluginCalls, error: BaseException) -> BaseException:
    """The error to raise `from` one that ended a run; it names the author's code where that raised."""
    call = calls.call_of(error)
    if call is not None:
        return failure_of(call, error)
    if isinstance(error, PluginCallError) and error.plugin is not None and error.__cause__ is not None:
        return failure_of(PluginCall(error.plugin, error.method), error.__cause__)
    return error


def failure_of(call: PluginCall, error: BaseException) -> PluginFailure:
    """The error to raise `from` what a call raised."""
    error = sayable(error)
    code = PluginCode.of(call.plugin)
    entered = code.outermost(error)
    # validate() of the API calls config(), pre_commit() flush(): the author knows those
    method = entered.function if entered is not None and entered.function.isidentifier() else call.method
    place = code.innermost(error) or code.start_of(call.plugin, call.method)
    text = str(error)
    raised = f"{type(error).__name__}: {text}" if text else type(error).__name__
    sentence = f"{call.plugin.__name__}.{method}() raised {raised}{_at(place)}"
    advice = None if _is_ours(call.plugin) else _HINTS.get(method)
    hints = [getattr(error, "hint", None), advice, "--verbose shows the whole trace."]
    return PluginFailure(sentence, method, hint=" ".join(hint for hint in hints if hint))


def _is_ours(plugin: type) -> bool:
    """Whether a plugin is a built-in one, whose users need no advice for its author."""
    return plugin.__module__.partition(".")[0] == "kconnect"


def hang_of(call: PluginCall, thread_id: int | None, waited_s: float) -> LateCallError:
    """The error to raise for a call that does not return; its cause has the thread's whole stack."""
    frame = sys._current_frames().get(thread_id or 0)
    code = PluginCode.of(call.plugin)
    place = code.innermost_of_stack(frame) or code.start_of(call.plugin, call.method)
    late = LateCallError(
        call,
        f"{call.name} has not returned after {waited_s:.3g} s{_at(place)}",
        hint="--timeout SECONDS waits longer; --verbose shows the whole stack.",
    )
    late.__cause__ = ConnectError("The call was here:\n" + "".join(traceback.format_stack(frame) if frame else []))
    return late


_HINTS = {
    "poll": "Raise RetriableError for what may pass: poll is then called again. Any other error fails the task.",
    "put": (
        "Raise RetriableError to have put called again with the same records; "
        "report a single bad record to context.errant_record_reporter()."
    ),
    "config": "It is called on objects that were never started: it can only use what __init__ made.",
}


def _at(place: CodeLocation | None) -> str:
    return f", at {place}" if place is not None else ""
