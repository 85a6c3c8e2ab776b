"""`connect dlq show`: dead letters with what they failed with."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from kconnect_cli.admin.dead_letters import LetterDesk
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.dead_letters import LetterOptions
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.letter_pages import letter_page
from kconnect_cli.screen.output import Format, write_object, write_text
from kconnect_cli.session import Name, session_of

_Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most, oldest first.")]
_Trace = Annotated[bool, typer.Option("--trace", help="With the whole stack trace; JSON always has it.")]


def add_to(app: typer.Typer) -> None:
    app.command("show", cls=takes(LetterOptions, DirectOrChecked, ClusterArguments))(show)


def show(ctx: typer.Context, name: Name, limit: _Limit = 10, trace: _Trace = False) -> None:
    """Show dead letters and what they failed with.

    The record is decoded by the connector's converters, or shown as text or bytes if that is what failed.

    \b
    connect dlq show orders-out --offset 7 --trace

    JSON: letter (its place in the dead letter topic), time, connector, task, stage, class, exception, message,
    root_cause, trace, origin (topic, partition, offset), replays, replayed (state, time, target; null: not), key,
    value, headers, decoded (by what key and value were read), source (of a source's letter), problems if any.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    from kconnect.admin.dead_letters import letter_view

    session = session_of(ctx)
    with signals_raise(), LetterDesk(session, name) as desk:
        marks = desk.topic.marks()
        letters = desk.letters()
        views = (letter_view(letter, desk.documents, marks) for letter in islice(letters, limit))
        if session.output in (Format.JSON, Format.YAML):
            write_object(list(views), session.output)
            return
        count = 0
        for view in views:
            text = view["letter"] if session.output is Format.NAME else letter_page(view, with_trace=trace)
            write_text(f"{text}\n")
            count += 1
        if not count:
            session.say(f"No dead letter of {name} in {desk.settings.topic} matches.")
        elif next(letters, None) is not None:
            session.say(f"There are more: --limit {limit * 10}, or -o json.")
