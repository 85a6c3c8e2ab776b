"""`connect dlq list`: how many dead letters there are, of which kind."""

from __future__ import annotations

import typer

from kconnect.logs.wording import counted
from kconnect_cli.admin.dead_letters import LetterDesk
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.dead_letters import LetterOptions
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.letter_pages import GROUP_COLUMNS
from kconnect_cli.screen.output import Format, write_object, write_rows
from kconnect_cli.session import Name, session_of


def add_to(app: typer.Typer) -> None:
    app.command("list", cls=takes(LetterOptions, DirectOrChecked, ClusterArguments))(list_)


def list_(ctx: typer.Context, name: Name) -> None:
    """Count dead letters by stage, exception, topic.

    \b
    connect dlq list orders-out --worker distributed.properties
    connect dlq list orders-out --stage VALUE_CONVERTER --from -2h

    JSON: connector, topic, count, replayed, broken (letters with headers that cannot be read), others and unknown
    (records of other connectors, and of none), groups with stage, exception, topic, count, replayed, first, last,
    example, message, root_cause. The brokers are those of a worker's file, --bootstrap-servers or the context.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    from kconnect.admin.dead_letters import summary, summary_view

    session = session_of(ctx)
    with signals_raise(), LetterDesk(session, name) as desk:
        found = summary(desk.topic.letters(), desk.selection, desk.topic.marks())
        view = summary_view(name, desk.settings.topic, found)
        if session.output in (Format.JSON, Format.YAML):
            write_object(view, session.output)
            return
        write_rows(view["groups"], GROUP_COLUMNS, session.output, name="example")
        replayed = f", {found.replayed} of them replayed" if found.replayed else ""
        broken = f" {counted(found.broken, 'letter')} with headers that cannot be read." if found.broken else ""
        session.say(f"{counted(found.count, 'dead letter')} in {desk.settings.topic}{replayed}.{broken}")
        desk.say_skipped(view["others"], view["unknown"])
