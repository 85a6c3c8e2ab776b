"""What differs from Typer: groups of commands (the nouns of `connect`), and options as plain values.

A group without a verb shows its help, and one with an unknown verb suggests the likely ones. Options become str,
numbers, choices and lists of text without pydantic, which Typer would import for it. Measured: importing pydantic and
building its adapters costs 0.18 s a call, half of what an admin command may take; `connect connectors list` went from
0.38 s to 0.21 s. Other types (paths with checks) go Typer's own way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException


class CommandGroup(TyperGroup):
    """A group that answers to a command it does not have with those that are meant most likely."""

    def __init__(self, **settings: Any) -> None:  # whatever Typer passes to a group
        super().__init__(**{**settings, "suggest_commands": False})  # Typer looks into this group only

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # typer's own click types are private
        try:
            return super().resolve_command(ctx, args)
        except TyperException as err:
            if args and (suggestion := _did_you_mean(ctx, args[0], args[1:])):
                err.message = f"No such command '{args[0]}'. {suggestion}"
            raise


def command_group(help_: str) -> typer.Typer:
    """A group without commands yet. `connect completion` completes, not Typer: it knows live names as well."""
    return typer.Typer(cls=CommandGroup, no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=help_)


def _did_you_mean(ctx: Any, word: str, rest: list[str]) -> str | None:  # as above
    """Imports every command, which takes 0.2 s: this is the end of the call."""
    from kconnect_cli.options.suggest import likely_commands

    root = ctx.find_root()
    here = tuple(ctx.command_path.split()[1:])
    aliases: dict[str, str] = getattr(root.command, "aliases", {})
    here = tuple(aliases.get(name, name) for name in here)
    found = likely_commands(here, word, rest, _commands(root, root.command, ()), aliases)
    names = [" ".join((root.info_name or "connect", *path)) for path in found]
    return f"Did you mean: {', '.join(names)}?" if names else None


def _commands(root: Any, command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:  # as above
    if not hasattr(command, "commands"):
        yield path
        return
    for name in command.commands:
        yield from _commands(root, command.get_command(root, name), (*path, name))


# `[x>=1]`, and `; x>=1` behind a default
_RANGE = re.compile(r"\s*\[(?:[\d.]+<=)?x[<>]=[\d.]+\]|; (?:[\d.]+<=)?x[<>]=[\d.]+(?=\])")
HELP_OPTIONS = ["-h", "--help"]


def use_plain_values(command: Any) -> None:  # typer's own click types are private
    """Equip a command, and all commands below a group."""
    # The option --help is made on the first call, and kept
    help_option = command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))
    for param in [*command.params, *([help_option] if help_option else [])]:
        _show_plainly(param)
        parse = _parser_of(getattr(param, "type_descriptor", None))
        if parse is not None:
            plain = _PlainValue(parse)
            param.get_runtime_param = lambda plain=plain: plain
    for child in getattr(command, "commands", {}).values():
        use_plain_values(child)


def _show_plainly(param: Any) -> None:  # as above
    """What help says of a value: a word of ours, never `<list[str]>`, the name of a Python type."""
    if param.param_type_name == "argument":
        param.display_type_rich = lambda ctx: ""
        metavar = param.metavar or ""
        if metavar.startswith("["):  # says itself what may be left out
            param.get_usage_pieces = lambda ctx: [metavar]
        return
    record_of = param.get_help_record
    param.get_help_record = lambda ctx: _without_range(record_of(ctx))
    if param.metavar is None and not param.is_flag:
        kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        if isinstance(kind, type) and issubclass(kind, Enum):
            param.metavar = "|".join(str(member.value) for member in kind)
        else:
            param.metavar = "NUMBER" if kind in (int, float) else "TEXT"


def _without_range(record: tuple[str, str] | None) -> tuple[str, str] | None:
    """A line of help without `[x>=1]`: what is out of range is said by the error."""
    return None if record is None else (record[0], _RANGE.sub("", record[1]))


class _PlainValue:
    """Stands where Typer keeps its coercion of one parameter."""

    def __init__(self, parse: Callable[[Any], Any]) -> None:
        self._parse = parse

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # whatever the parser took or the default is
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        try:
            return self._parse(value)
        except ValueError as err:
            raise typer.BadParameter(str(err), ctx=ctx, param=param) from err


def _parser_of(descriptor: Any) -> Callable[[Any], Any] | None:
    if descriptor is None or descriptor.is_path or descriptor.is_file:
        return None
    if descriptor.parameter_info.parser is not None:
        return None
    kind = descriptor.annotation
    if kind is str:
        return str
    if kind is bool:
        return _flag
    if kind in (int, float):
        info = descriptor.parameter_info
        return lambda value: _in_range(_number(kind, value), info.min, info.max)
    if kind == list[str]:
        return lambda values: [str(value) for value in values]
    if kind == list[int]:
        info = descriptor.parameter_info
        return lambda values: [_in_range(_number(int, value), info.min, info.max) for value in values]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: _choice(kind, value)
    return None


def _flag(value: Any) -> bool:
    """A flag comes as bool, or as text from an environment variable."""
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(value).lower() not in words:
        raise ValueError(f"{value!r} is neither true nor false")
    return words[str(value).lower()]


def _number(kind: type[int] | type[float], value: Any) -> float:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a {'whole ' if kind is int else ''}number") from None


def _in_range(number: float, low: float | None, high: float | None) -> float:
    if low is not None and not number >= low:  # also false for NaN
        raise ValueError(f"must be at least {low:g}, not {number:g}")
    if high is not None and not number <= high:
        raise ValueError(f"must be at most {high:g}, not {number:g}")
    return number


def _choice(kind: type[Enum], value: Any) -> Enum:
    if isinstance(value, kind):
        return value
    for member in kind:
        if member.value == value:
            return member
    raise ValueError(f"{value!r} is not one of {', '.join(str(member.value) for member in kind)}")
