"""Functions that sources and sinks call: with what they take, by name."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from kconnect.api import ConfigError, ConnectError, RetriableError
from kconnect.builtin.user_functions import FUNCTION_CONFIG, found_function, place_of

ARGUMENTS_PREFIX = "function.args."


class UserFunction:
    """A function of the user's. Errors: ConfigError if it cannot be found, or cannot be called with what is given.

    `given` are the arguments that the caller has, by name; others come from the settings `function.args.NAME`. A
    function gets those that it has parameters for.
    """

    def __init__(self, name: str, props: Mapping[str, str], given: tuple[str, ...] = (), first: bool = False) -> None:
        """`first`: the function is called with one argument more, before all others, whatever its name."""
        self.name = name.strip()
        self.call = found_function(self.name)
        self._parameters = _parameters(self.call)
        if first and self._parameters:
            del self._parameters[next(iter(self._parameters))]
        self._settings = self._typed(
            {key[len(ARGUMENTS_PREFIX) :]: value for key, value in props.items() if key.startswith(ARGUMENTS_PREFIX)}
        )
        self._check(given)

    def takes(self, name: str) -> bool:
        """Whether it has a parameter of this name."""
        return name in self._parameters

    def arguments(self, **given: Any) -> dict[str, Any]:
        """Named arguments for a call: of what is given, what it takes."""
        return {**self._settings, **{name: value for name, value in given.items() if self.takes(name)}}

    def failure(self, error: BaseException) -> ConnectError:
        """The error to raise instead, from this one: it names function, file and line. RetriableError stays one."""
        text = f"{self.name} raised {type(error).__name__}" + (f": {error}" if str(error) else "")
        place = place_of(error)
        text = f"{text}, at {place}" if place else text
        if isinstance(error, RetriableError):
            return RetriableError(text, retry_after_s=error.retry_after_s)
        return ConnectError(text)

    def _typed(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Settings as the parameters' annotations say: int, float, bool; else text."""
        kinds = _hints(self.call)
        found: dict[str, Any] = {}
        for name, text in settings.items():
            kind = kinds.get(name)
            try:
                found[name] = _BY_KIND[kind](text) if kind in _BY_KIND else text
            except ValueError:
                problem = f"It must be of type {getattr(kind, '__name__', kind)}"
                raise ConfigError.invalid(ARGUMENTS_PREFIX + name, text, problem) from None
        return found

    def _check(self, given: tuple[str, ...]) -> None:
        known = {**dict.fromkeys(given), **self._settings}
        takes_all = any(part.kind is inspect.Parameter.VAR_KEYWORD for part in self._parameters.values())
        for name, part in self._parameters.items():
            is_needed = part.default is inspect.Parameter.empty and part.kind in _NAMED
            if is_needed and name not in known:
                problem = f"It needs the argument {name}: set {ARGUMENTS_PREFIX}{name}"
                raise ConfigError.invalid(FUNCTION_CONFIG, self.name, problem)
        for name in self._settings:
            if name not in self._parameters and not takes_all:
                wanted = ", ".join(self._parameters) or "none"
                problem = f"{self.name} has no such argument; it has: {wanted}"
                raise ConfigError.invalid(ARGUMENTS_PREFIX + name, self._settings[name], problem)


def takes_of(call: Callable[..., Any]) -> str | None:
    """What the first parameter's annotation says a sink's function takes: record, records, arrow; None if nothing."""
    names = list(_parameters(call))
    if not names:
        return None
    hint = _hints(call).get(names[0])
    origin = typing.get_origin(hint)
    if origin in (list, tuple) or hint in (list, tuple):
        return "records"
    named = getattr(origin or hint, "__name__", "")
    module = getattr(origin or hint, "__module__", "")
    if named == "SinkRecord":
        return "record"
    return "arrow" if module.partition(".")[0] == "pyarrow" and named in ("Table", "RecordBatch") else None


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY)


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_BY_KIND: dict[Any, Callable[[str], Any]] = {int: int, float: float, bool: _bool}


def _parameters(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(call).parameters)
    except (TypeError, ValueError):  # of C
        return {}


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(call)
    except Exception:  # annotations are the user's code, and may name what is imported for checkers only
        return {}
