"""What commands report of changes to the topics: plans, warnings, the end of a dry run, positions of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from kconnect.errors import ConnectError
from kconnect_cli.screen.plan_text import plan_text
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.direct.edit.apply import Applied
    from kconnect.admin.direct.edit.plan import EditPlan
    from kconnect.admin.direct.read.secret_masks import SecretMasks


def each_or_nothing(
    session: CliSession, names: Sequence[str], action: Callable[[str], None], *, connectors: bool = True
) -> None:
    """As `session.each`, for checks before anything is written."""
    try:
        session.each(names, action, connectors=connectors)
    except typer.Exit:
        session.say("Nothing was changed.")
        raise


def plan_lines(plan: EditPlan, masks: SecretMasks | None = None) -> list[str]:
    """Key, old and new value of every record, old and new offset of every partition of a group."""
    from kconnect.admin.direct.read.secret_masks import SecretMasks

    return [f"{plan.title}\n{plan_text(plan, masks or SecretMasks())}".rstrip("\n"), *plan.notes]


def written_lines(applied: Applied) -> list[str]:
    """Where each record is, as read back, and what others wrote to the same keys."""
    places = [(written.position, written.edit.key_text) for written in applied.written]
    return [
        *(f"Forced: {why}." for why in applied.overridden),
        *(f"  {at.topic}-{at.partition}@{at.offset} {key}" for at, key in places),
        *(f"  consumer group {group}" for group in applied.groups),
        *(f"Warning: {sentence}." for sentence in applied.meanwhile),
    ]


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
