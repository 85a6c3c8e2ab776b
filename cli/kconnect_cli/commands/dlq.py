"""`connect dlq list|show|export|replay`: dead letters counted, shown with what failed, exported, sent again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.logs.redaction import redact
from kconnect.logs.wording import pluralize
from kconnect_cli.admin.dead_letters import WorkerLetters, say_skipped
from kconnect_cli.exits import FAILED
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.dead_letters import LetterOptions, Limit
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Format, write_object, write_rows, write_text
from kconnect_cli.screen.topic_pages import GROUP_COLUMNS, letter_page, prepared_page
from kconnect_cli.session import CliSession, Name, Yes, session_of

if TYPE_CHECKING:
    from kconnect.admin.dead_letters import Tally
    from kconnect_cli.admin.dead_letter_reader import DeadLetterReader
    from kconnect_cli.admin.letter_replays import LetterReplay, ReplayWish

_AtMost = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most, oldest first.")]
_Trace = Annotated[bool, typer.Option("--trace", help="With the whole stack trace; JSON always has it.")]

app = command_group("List, show, replay, export dead letters: records that a connector could not process.")
_OPTIONS = takes(LetterOptions, DirectOrChecked, ClusterArguments)


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


_MAX_REPLAYS = 3
_EDIT_HELP = "Change each record: a file with a JSON patch (RFC 6902), or module:function as PythonTransform takes it."
_FILE_HELP = "Take dead letters from a file of `dlq export`, as they stand there; - is stdin."
_THROUGH_HELP = "Put them into the sink in this process: its converters, transformations and put(), not the topic."
_MOST_HELP = "Leave records that failed again after so many replays."
_AGAIN_HELP = "Also dead letters that an earlier --through may have put already: it ended in the middle."
_TO_HELP = "Send to this topic instead of the original one."

_Edit = Annotated[str | None, typer.Option("--edit", metavar="EDIT", help=_EDIT_HELP, show_default=False)]
_File = Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP, show_default=False)]
_Through = Annotated[bool, typer.Option("--through", help=_THROUGH_HELP)]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show each record before and after, and change nothing.")]
_Most = Annotated[int, typer.Option("--max-replays", metavar="N", min=1, help=_MOST_HELP)]
_Again = Annotated[bool, typer.Option("--again", help=_AGAIN_HELP)]
_ToTopic = Annotated[str | None, typer.Option("--to-topic", metavar="TOPIC", help=_TO_HELP, show_default=False)]


def replay(
    ctx: typer.Context,
    name: Name,
    limit: Limit = None,
    edit: _Edit = None,
    file: _File = None,
    to_topic: _ToTopic = None,
    through: _Through = False,
    max_replays: _Most = _MAX_REPLAYS,
    again: _Again = False,
    dry_run: _DryRun = False,
    yes: Yes = False,
) -> None:
    """Send dead letters to their topics again, once.

    \b
    connect dlq replay orders-out --stage VALUE_CONVERTER --edit fix.json --dry-run
    connect dlq replay orders-out --stage VALUE_CONVERTER --edit fix.json --yes

    Each dead letter and the mark that it was sent are one transaction; marks are in TOPIC.replayed beside the
    dead letter topic. Records keep partition, time and headers, without those that Connect added, and with
    __connect.replays and __connect.replay.of. Dead letters of a source pass its transformations and converters on
    the way.

    The worker sends them; --worker FILE or --bootstrap-servers sends them from here, as --through and an --edit by a
    function need.

    --through calls the sink's put() in this process, with references of its config resolved here. put() and mark are no
    transaction: dead letters of a replay that was killed in put() are left until --again.

    JSON: outcomes, targets, why; with --dry-run a list of letter, outcome, before, after. Exit code 1 when dead letters
    failed, or stay behind for another reason that needs you.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    from kconnect_cli.admin.letter_replays import ReplayWish

    session = session_of(ctx)
    wish = ReplayWish(max_replays, to_topic, again, limit, edit, file, through)
    with signals_raise(), _replay_of(session, name, wish) as job:
        if dry_run:
            _show(session, job)
            return
        planned, warnings = job.tally()
        count = planned.counts[_replayed()]
        if not count or not yes:
            _say_outcomes(session, planned)
        if not count:
            session.say("Nothing to replay.")
            _end(session, planned)
            return
        for sentence in warnings:
            session.say(f"Warning: {sentence}")
        session.confirm(_question(name, planned, through=through), yes=yes)
        done = job.run(planned)
        _say_done(session, done, name, through=through)
        _end(session, done)


@contextmanager
def _replay_of(session: CliSession, name: str, wish: ReplayWish) -> Iterator[LetterReplay]:
    """Made here where something names the brokers, else by a worker."""
    from kconnect_cli.admin.asked_worker import asks_worker
    from kconnect_cli.admin.dead_letter_reader import DeadLetterReader
    from kconnect_cli.admin.letter_replays import OwnReplay, WorkerReplay

    if asks_worker(session):
        with WorkerReplay(session, name, wish) as asked:
            yield asked
    else:
        with DeadLetterReader(session, name) as reader:
            yield OwnReplay(reader, wish)


# --- talk ---


def _show(session: CliSession, job: LetterReplay) -> None:
    from kconnect.admin.dead_letters.planning import Tally

    found, views = Tally(), []
    for view in job.shown(found):
        if session.output in (Format.JSON, Format.YAML):
            views.append(view)
        else:
            write_text(view["letter"] + "\n" if session.output is Format.NAME else prepared_page(view))
    if session.output in (Format.JSON, Format.YAML):
        write_object(views, session.output)
    session.say(f"{pluralize(found.counts[_replayed()], 'dead letter')} would be replayed; nothing was changed.")
    _say_outcomes(session, found)


def _replayed() -> Any:  # Outcome.REPLAY
    from kconnect.admin.dead_letters import Outcome

    return Outcome.REPLAY


def _question(name: str, planned: Tally, *, through: bool) -> str:
    letters = pluralize(planned.counts[_replayed()], "dead letter")
    if through:
        return (
            f"Put {letters} of {name} into its sink from this process, beside the tasks that run? "
            "A put() that is killed in the middle may have written; such dead letters are reported."
        )
    targets = ", ".join(f"{count} to {topic}" for topic, count in planned.topics.most_common(5))
    return f"Replay {letters} of {name}: {targets}?"


def _say_outcomes(session: CliSession, found: Tally) -> None:
    """Letters that stay, and why the first of each kind does."""
    for outcome, count in sorted(found.counts.items()):
        if outcome is not _replayed() and count:
            why = found.first.get(outcome)
            session.say(
                f"{pluralize(count, 'dead letter')} {outcome.value}" + (f". The first: {redact(why)}" if why else ".")
            )


def _say_done(session: CliSession, done: Tally, name: str, *, through: bool) -> None:
    verb = "put into the sink" if through else "sent"
    session.say(f"{pluralize(done.counts[_replayed()], 'dead letter')} of {name} {verb}.")
    _say_outcomes(session, done)


def _end(session: CliSession, found: Tally) -> None:
    from kconnect.admin.dead_letters import tally_view

    if session.output in (Format.JSON, Format.YAML):
        view = tally_view(found)
        write_object(view | {"why": {name: redact(why) for name, why in view["why"].items()}}, session.output)
    if found.has_failures:
        raise typer.Exit(FAILED)


for _name, _command in (("list", list_), ("show", show), ("replay", replay), ("export", export)):
    app.command(_name, cls=_OPTIONS)(_command)
