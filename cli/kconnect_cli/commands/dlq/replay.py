"""`connect dlq replay`: dead letters go back to where they came from, or straight into the sink."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import ConfigError
from kconnect.logs.redaction import redact
from kconnect.logs.wording import counted
from kconnect_cli.exits import FAILED, UsageProblem
from kconnect_cli.options.dead_letters import Limit
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.letter_pages import prepared_page
from kconnect_cli.screen.output import Format, write_object, write_text
from kconnect_cli.session import CliSession, Name, Yes, session_of

if TYPE_CHECKING:
    from kconnect.admin.dead_letters import DeadLetter, Marks, Preparation, ReplayRules, Tally
    from kconnect.admin.dead_letters.archive import ArchivedLetter
    from kconnect.admin.dead_letters.edits import Edit
    from kconnect_cli.admin.letter_desk import LetterDesk

_MAX_REPLAYS = 3
_EDIT_HELP = "Change each record: a file with a JSON patch (RFC 6902), or module:function as PythonTransform takes it."
_FILE_HELP = "Take letters from a file of `dlq export`, as they stand there; - is stdin."
_THROUGH_HELP = "Put them into the sink in this process: its converters, transformations and put(), not the topic."
_MOST_HELP = "Leave records that failed again after so many replays."
_AGAIN_HELP = "Also letters that an earlier --through may have put already: it ended in the middle."
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

    Each letter and the mark that it was sent are one transaction; marks are in TOPIC.replayed beside the dead letter
    topic. Records keep partition, time and headers, without those that Connect added, and with __connect.replays and
    __connect.replay.of. Letters of a source pass its transformations and converters on the way.

    --through calls the sink's put() in this process, with references of its config resolved here. put() and mark are no
    transaction: letters of a replay that was killed in put() are left until --again.

    JSON: outcomes, targets, why; with --dry-run a list of letter, outcome, before, after. Exit code 1 when letters
    failed, or stay behind for another reason that needs you.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    from kconnect.admin.dead_letters import ReplayRules, refuse_two_clusters
    from kconnect_cli.admin.letter_desk import LetterDesk

    session = session_of(ctx)
    is_edited = edit is not None or file is not None
    rules = ReplayRules(max_replays=max_replays, to_topic=to_topic, again=again, is_edited=is_edited, limit=limit)
    with signals_raise(), LetterDesk(session, name) as desk:
        if through and desk.is_source:
            raise UsageProblem(f"--through is for sinks: letters of {name}, a source, pass its chain anyway")
        if not (through or desk.is_source):
            refuse_two_clusters(desk.config, desk.access.worker)
        job = _Job(desk, rules, edit, file, through=through)
        if dry_run:
            _show(session, desk, job)
            return
        planned = job.plan()
        count = planned.counts[_replayed()]
        if not count or not yes:
            _say_outcomes(session, planned)
        if not count:
            session.say("Nothing to replay.")
            _end(session, planned)
            return
        _warn(session, desk, planned)
        session.confirm(_question(desk, planned, through=through), yes=yes)
        done = job.run(planned)
        _say_done(session, done, name, through=through)
        _end(session, done)


@dataclass(slots=True)
class _Job:
    """One replay, as the options say."""

    desk: LetterDesk
    rules: ReplayRules
    edit_text: str | None
    file: str | None
    through: bool
    _made: tuple[Callable[[], Iterator[DeadLetter]], Edit | None] | None = None

    def plan(self) -> Tally:
        """What comes of each letter by what Kafka says now."""
        from kconnect.admin.dead_letters import tally

        letters, prepare = self.parts()
        return tally(prepare(self.desk.topic.marks(), ()).prepared(letters()))

    def run(self, planned: Tally) -> Tally:
        from kconnect.admin.dead_letters import MarkWriter, isolation_level, replay, replay_through

        desk = self.desk
        letters, prepare = self.parts()
        with MarkWriter(desk.topic, desk.name) as writer:
            worker = desk.access.worker
            if not self.through:
                to_topic = self.rules.to_topic
                level = isolation_level(desk.config, worker, is_source=desk.is_source, to_topic=to_topic)
                return replay(writer, desk.name, letters, prepare, isolation=level, targets=list(planned.topics))
            level = isolation_level(desk.config, worker, is_source=False)
            with ExitStack() as stack:
                sink = stack.enter_context(_sink(desk))
                return replay_through(writer, desk.name, letters, prepare, sink, isolation=level)

    def parts(self) -> tuple[Callable[[], Iterator[DeadLetter]], Callable[[Marks, Collection[str]], Preparation]]:
        """The letters, as often as they are asked for, and what prepares them."""
        from kconnect.admin.dead_letters import Preparation, SourceChain

        desk = self.desk
        if self._made is None:
            self._made = self._letters_and_edit()
        letters, edit = self._made
        chain = SourceChain(desk.config, desk.access.worker, desk.plugins) if desk.is_source else None

        def prepare(marks: Marks, arrived: Collection[str]) -> Preparation:
            return Preparation(self.rules, marks, desk.topic.partitions, edit, chain, arrived, is_through=self.through)

        return letters, prepare

    def _letters_and_edit(self) -> tuple[Callable[[], Iterator[DeadLetter]], Edit | None]:
        from kconnect.admin.dead_letters import selected
        from kconnect.admin.dead_letters.edits import Edits, FileEdit

        desk = self.desk
        edit = None if self.edit_text is None else _edit(desk, self.edit_text)
        if self.file is None:
            ends = desk.topic.ends()  # what fails again while this runs is not replayed at once
            return lambda: selected(desk.topic.letters(ends), desk.selection), edit
        found = _archive(self.file)
        other = next((each.letter.place for each in found if each.letter.raw.topic != desk.settings.topic), None)
        if other is not None:
            raise ConfigError(
                f"{self.file} has {other}, but the dead letter topic of {desk.name} is {desk.settings.topic}"
            )
        from_file = FileEdit({each.letter.place: each.body for each in found}, desk.documents)
        letters = [each.letter for each in found]
        return lambda: selected(letters, desk.selection), from_file if edit is None else Edits(from_file, edit)


def _archive(file: str) -> list[ArchivedLetter]:
    import sys
    from pathlib import Path

    from kconnect.admin.dead_letters.archive import read_archive

    if file == "-":
        return list(read_archive(sys.stdin, "stdin"))
    with Path(file).open(encoding="utf-8") as lines:
        return list(read_archive(lines, file))


def _edit(desk: LetterDesk, text: str) -> Edit:
    """A file that is there is a patch, `module:function` a function. Errors: ConfigError, FileNotFoundError."""
    import json
    import re
    import sys
    from pathlib import Path

    from kconnect.admin.dead_letters.edits import FunctionEdit, JsonPatchEdit

    if not Path(text).exists() and re.fullmatch(r"[\w.]+:[\w.]+", text):
        sys.path.insert(0, "")  # as `python -m`: a module in this folder
        return FunctionEdit(text, desk.documents, desk.plugins)
    try:
        patch = json.loads(Path(text).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{text} is not JSON: {error}") from error
    return JsonPatchEdit(patch, desk.documents, text)


def _sink(desk: LetterDesk) -> Any:  # SinkChain
    """The sink's own chain, with references resolved, whose values are kept out of everything that is shown."""
    from kconnect.admin.dead_letters import sink_settings
    from kconnect.testing.sink_chain import SinkChain

    worker = desk.access.worker
    return SinkChain(sink_settings(desk.name, desk.config, worker, desk.plugins), worker)


# --- talk ---


def _show(session: CliSession, desk: LetterDesk, job: _Job) -> None:
    from kconnect.admin.dead_letters import prepared_view
    from kconnect.admin.dead_letters.planning import Tally

    letters, prepare = job.parts()
    found, views = Tally(), []
    for prepared in prepare(desk.topic.marks(), ()).prepared(letters()):
        found.add(prepared.outcome, prepared.why)
        view = prepared_view(prepared, desk.documents)
        if session.output in (Format.JSON, Format.YAML):
            views.append(view)
        else:
            write_text(view["letter"] + "\n" if session.output is Format.NAME else prepared_page(view))
    if session.output in (Format.JSON, Format.YAML):
        write_object(views, session.output)
    session.say(f"{counted(found.counts[_replayed()], 'dead letter')} would be replayed; nothing was changed.")
    _say_outcomes(session, found)


def _replayed() -> Any:  # Outcome.REPLAY
    from kconnect.admin.dead_letters import Outcome

    return Outcome.REPLAY


def _question(desk: LetterDesk, planned: Tally, *, through: bool) -> str:
    letters = counted(planned.counts[_replayed()], "dead letter")
    if through:
        return (
            f"Put {letters} of {desk.name} into its sink from this process, beside the tasks that run? "
            "A put() that is killed in the middle may have written; such letters are told."
        )
    targets = ", ".join(f"{count} to {topic}" for topic, count in planned.topics.most_common(5))
    return f"Replay {letters} of {desk.name}: {targets}?"


def _warn(session: CliSession, desk: LetterDesk, planned: Tally) -> None:
    """Say what may become of the records in their topics."""
    import time

    from kconnect.admin.dead_letters.warnings import replay_warnings

    now_ms = int(time.time() * 1000)
    settings_of = desk.topic.topic_settings
    for sentence in replay_warnings(
        desk.name, desk.config, planned, settings_of, is_source=desk.is_source, now_ms=now_ms
    ):
        session.say(f"Warning: {sentence}")


def _say_outcomes(session: CliSession, found: Tally) -> None:
    """Letters that stay, and why the first of each kind does."""
    for outcome, count in sorted(found.counts.items()):
        if outcome is not _replayed() and count:
            why = found.first.get(outcome)
            session.say(f"{counted(count, 'letter')} {outcome.value}" + (f". The first: {redact(why)}" if why else "."))


def _say_done(session: CliSession, done: Tally, name: str, *, through: bool) -> None:
    verb = "put into the sink" if through else "sent"
    session.say(f"{counted(done.counts[_replayed()], 'dead letter')} of {name} {verb}.")
    _say_outcomes(session, done)


def _end(session: CliSession, found: Tally) -> None:
    from kconnect.admin.dead_letters import tally_view

    if session.output in (Format.JSON, Format.YAML):
        view = tally_view(found)
        write_object(view | {"why": {name: redact(why) for name, why in view["why"].items()}}, session.output)
    if found.has_failures:
        raise typer.Exit(FAILED)
