"""Commands wrapped in functions that add options to theirs: the signature that Typer, or the next wrapper, reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

__all__ = ["as_command", "keyword", "parameters_of"]


def parameters_of(command: Callable[..., None]) -> list[inspect.Parameter]:
    """What a command takes, its annotations as types; all behind the first by keyword only."""
    hints = get_type_hints(command, include_extras=True)
    first, *others = inspect.signature(command).parameters.values()
    return [
        first.replace(annotation=hints[first.name]),
        *(other.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[other.name]) for other in others),
    ]


def keyword(name: str, annotation: Any, default: object = None) -> inspect.Parameter:  # Annotated, as Typer reads it
    """One more parameter of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def as_command(
    call: Callable[..., None], command: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """`call` with these parameters, and the name and help of the command that it wraps."""
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect.signature reads
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    return call
