"""Groups of commands, the nouns of `connect`: without a verb they show their help, which is plain text."""

from __future__ import annotations

import typer

__all__ = ["command_group"]


def command_group(help_: str) -> typer.Typer:
    """A group without commands yet. `connect completion` completes, not Typer: it knows live names as well."""
    return typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=help_)
