"""Options of commands that look again and again, or at many things."""

from __future__ import annotations

from typing import Annotated

import typer

from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep showing what is written, until Ctrl-C.")]
Interval = Annotated[str, typer.Option("--interval", metavar="TIME", help="Between two looks.")]
Regexp = Annotated[bool, typer.Option("--regexp", "-e", help="Names are regular expressions for the whole name.")]


def interval_s(text: str) -> float:
    """Reads --interval. Errors: UsageProblem, also for none at all."""
    found = seconds_of(text, "--interval")
    if found <= 0:
        raise UsageProblem(f"--interval {text} must be greater than zero")
    return found
