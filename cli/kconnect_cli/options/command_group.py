"""Groups of commands, the nouns of `connect`: without a verb they show their help, an unknown one names the likely."""

from __future__ import annotations

from collections.abc import Iterator
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
