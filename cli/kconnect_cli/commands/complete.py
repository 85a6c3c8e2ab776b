"""`connect complete`: called by the completion scripts; hidden from the help."""

from __future__ import annotations

from typing import Annotated

import typer

from kconnect.errors import ConnectError
from kconnect_cli.screen.output import write_text


def complete(
    ctx: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(help="The line so far; the last word may be empty.")] = None,
) -> None:
    """Print candidates for the last word of a command line."""
    from kconnect_cli.completion.candidates import LiveNames
    from kconnect_cli.completion.candidates import complete as candidates

    typed = list(words or [""])
    try:
        found = candidates(ctx.find_root().command, typed, LiveNames(typed).sources())
    except ConnectError:  # a damaged contexts file is reported by the command itself, not by the tab key
        return
    write_text("".join(f"{candidate.word}\t{' '.join(candidate.help.split())}\n" for candidate in found))
