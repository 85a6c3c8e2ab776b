"""What commands report of changes: warnings, and the end of a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import typer

from kconnect.errors import ConnectError
from kconnect_cli.session import CliSession


def each_or_nothing(
    session: CliSession, names: Sequence[str], action: Callable[[str], None], *, connectors: bool = True
) -> None:
    """As `session.each`, for checks before anything is written."""
    try:
        session.each(names, action, connectors=connectors)
    except typer.Exit:
        session.say("Nothing was changed.")
        raise


def say_warnings(session: CliSession, warnings: Iterable[str]) -> None:
    """What to know before anything is written, each sentence once."""
    for sentence in dict.fromkeys(warnings):
        session.say(f"Warning: {sentence}")


def say_dry_run(session: CliSession, check: Callable[[], Iterable[str]]) -> None:
    """The end of a dry run: why the write would be refused right now, if it would be."""
    try:
        say_warnings(session, check())
    except ConnectError as err:
        session.say(f"As things are: {err}")
        if err.hint:
            session.say(f"Hint: {err.hint}")
    session.say("Dry run: nothing was changed.")
