"""`connect dlq list|show|export`: dead letters counted, shown with what they failed with, written for replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.logs.wording import pluralize
from kconnect_cli.admin.dead_letters import WorkerLetters, say_skipped
from kconnect_cli.options.dead_letters import Limit
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.letter_pages import GROUP_COLUMNS, letter_page
from kconnect_cli.screen.output import Format, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, Name, session_of

if TYPE_CHECKING:
    from kconnect_cli.admin.dead_letter_reader import DeadLetterReader

_AtMost = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most, oldest first.")]
_Trace = Annotated[bool, typer.Option("--trace", help="With the whole stack trace; JSON always has it.")]


def list_(ctx: typer.Context, name: Name) -> None:
    """Count dead letters by stage, exception, topic.

    \b
    connect dlq list orders-out
    connect dlq list orders-out --stage VALUE_CONVERTER --from -2h

    JSON: connector, topic, count, replayed, broken (dead letters with headers that cannot be read), others and unknown
    (records of other connectors, and of none), groups with stage, exception, topic, count, replayed, first, last,
    example, message, root_cause. The worker reads them; --worker FILE or --bootstrap-servers reads them here.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    session = session_of(ctx)
    with signals_raise(), _open(session, name) as letters:
        view = letters.summary()
    if session.output in (Format.JSON, Format.YAML):
        write_object(view, session.output)
        return
    write_rows(view["groups"], GROUP_COLUMNS, session.output, name="example")
    replayed = f", {view['replayed']} of them replayed" if view["replayed"] else ""
    broken = f" {pluralize(view['broken'], 'dead letter')} with headers that cannot be read." if view["broken"] else ""
    session.say(f"{pluralize(view['count'], 'dead letter')} in {view['topic']}{replayed}.{broken}")
    say_skipped(session, view)


def show(ctx: typer.Context, name: Name, limit: _AtMost = 10, trace: _Trace = False) -> None:
    """Show dead letters and what they failed with.

    The record is decoded by the connector's converters, or shown as text or bytes if that is what failed.

    \b
    connect dlq show orders-out --offset 7 --trace

    JSON: letter (its place in the dead letter topic), time, connector, task, stage, class, exception, message,
    root_cause, trace, origin (topic, partition, offset), replays, replayed (state, time, target; null: not), key,
    value, headers, decoded (by what key and value were read), source (of a source's dead letter), problems if any.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    session = session_of(ctx)
    with signals_raise(), _open(session, name) as letters:
        found = letters.shown(limit)
    if session.output in (Format.JSON, Format.YAML):
        write_object(found.letters, session.output)
        return
    for view in found.letters:
        text = view["letter"] if session.output is Format.NAME else letter_page(view, with_trace=trace)
        write_text(f"{text}\n")
    if not found.letters:
        session.say(f"No dead letter of {name} in {found.topic} matches.")
    elif found.more:
        session.say(f"There are more: --limit {limit * 10}, or -o json.")


def export(ctx: typer.Context, name: Name, limit: Limit = None) -> None:
    """Write dead letters to stdout, one a line.

    Edit `record` in the lines, and replay --file sends what they say.

    \b
    connect dlq export orders-out > letters.jsonl
    connect dlq replay orders-out --file letters.jsonl

    Each line has letter (the bytes in base64: the file is complete without the topic), failure, and record: topic,
    partition, timestamp, key, value, headers as the connector's converters read them, else text or {"base64": ..}.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    import json

    session = session_of(ctx)
    count = 0
    with signals_raise(), _open(session, name) as letters:
        for line in letters.archived(limit):
            write_text(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    session.say(f"{pluralize(count, 'dead letter')} of {name} exported from {letters.topic_name}.")


def _open(session: CliSession, connector: str) -> DeadLetterReader | WorkerLetters:
    """A connector's dead letters: read here where something names the brokers, else by a worker."""
    from kconnect_cli.admin.asked_worker import asks_worker

    if asks_worker(session):
        return WorkerLetters(session, connector)
    from kconnect_cli.admin.dead_letter_reader import DeadLetterReader  # loads converters and clients of Kafka

    return DeadLetterReader(session, connector)
