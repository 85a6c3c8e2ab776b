"""What commands report of changes: warnings, and the end of a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from kconnect.errors import ConnectError
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.runtime.config.dropins import ConnectorFile


def each_or_nothing(
    session: CliSession,
    names: Sequence[str],
    action: Callable[[str], None],
    *,
    connectors: bool = True,
    which: Callable[[str], str] | None = None,
) -> None:
    """Works as `session.each`, for checks before anything is written."""
    try:
        session.each(names, action, connectors=connectors, which=which)
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


def not_done(name: str, file: ConnectorFile | None, done: str) -> str:
    """`orders of orders.toml could not be created:`, above the reason, which names neither."""
    return f"{name}{f' of {file.path}' if file else ''} could not be {done}:"
