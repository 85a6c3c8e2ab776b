"""A replay of dead letters as `connect dlq replay` was asked for it: made by this process, or by a worker over REST."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from kconnect.admin.dead_letters import DeadLetter, Outcome, ReplayRules, Tally, prepared_view, selected
from kconnect.admin.dead_letters.archive import ArchivedLetter, read_archive
from kconnect.admin.dead_letters.edits import Edit, FunctionEdit, JsonPatchEdit
from kconnect.admin.served.replaying import Replaying, of_file
from kconnect.errors import BadRequestError
from kconnect_cli.admin.asked_worker import AskedWorker
from kconnect_cli.admin.dead_letter_reader import DeadLetterReader
from kconnect_cli.exits import UsageProblem
from kconnect_cli.files.json_files import read_json
from kconnect_cli.options.dead_letters import LetterOptions
from kconnect_cli.session import CliSession

_NEEDS_BROKERS = "--worker FILE or --bootstrap-servers replays in this process, which can."


@dataclass(frozen=True, slots=True)
class ReplayWish:
    """What the options say."""

    max_replays: int
    to_topic: str | None
    again: bool
    limit: int | None
    edit: str | None
    file: str | None
    through: bool

    @property
    def rules(self) -> ReplayRules:
        is_edited = self.edit is not None or self.file is not None
        return ReplayRules(
            max_replays=self.max_replays,
            to_topic=self.to_topic,
            again=self.again,
            is_edited=is_edited,
            limit=self.limit,
        )

    @property
    def function(self) -> str | None:
        """`module:function`, where the edit is none of a file that is there."""
        import re

        is_function = self.edit is not None and not Path(self.edit).exists()
        return self.edit if is_function and re.fullmatch(r"[\w.]+:[\w.]+", self.edit or "") else None

    def patch(self) -> object:
        """Errors: ConfigError, FileNotFoundError."""
        return read_json(self.edit or "")

    def lines(self) -> Iterator[str]:
        """The lines of the file. Errors: FileNotFoundError."""
        import sys

        if self.file == "-":
            yield from sys.stdin
            return
        with Path(self.file or "").open(encoding="utf-8") as lines:
            yield from lines

    @property
    def where(self) -> str:
        return "stdin" if self.file == "-" else self.file or ""


class LetterReplay(Protocol):
    """Threads: one. Errors of the methods: those of the brokers, or of the worker."""

    def tally(self) -> tuple[Tally, list[str]]:
        """What would come of the dead letters, and what may become of the records, as sentences."""
        ...

    def shown(self, found: Tally) -> Iterator[dict[str, Any]]:
        """Each dead letter with its record before and after; `found` counts them on the way."""
        ...

    def run(self, planned: Tally) -> Tally:
        """Send them."""
        ...


class OwnReplay:
    """By this process, with clients of its own. Errors of the constructor: UsageProblem, ConfigError."""

    def __init__(self, reader: DeadLetterReader, wish: ReplayWish) -> None:
        if wish.through and reader.is_source:
            raise UsageProblem(f"--through is for sinks. {reader.name} is a source: its records pass its chain anyway")
        self._reader = reader
        self._wish = wish

    def tally(self) -> tuple[Tally, list[str]]:
        found = self._replaying.tally(self._letters())
        return found, self._replaying.warnings(found)

    def shown(self, found: Tally) -> Iterator[dict[str, Any]]:
        for prepared in self._replaying.prepared(self._letters()):
            found.add(prepared.outcome, prepared.why)
            yield prepared_view(prepared, self._reader.documents)

    def run(self, planned: Tally) -> Tally:
        return self._replaying.run(self._letters, planned)

    def _letters(self) -> Iterator[DeadLetter]:
        reader = self._reader
        letters: Iterable[DeadLetter] = reader.topic.letters(self._ends) if self._file is None else self._file[0]
        return selected(letters, reader.selection)

    @cached_property
    def _ends(self) -> dict[int, int]:
        """What fails again while this runs is not replayed at once."""
        return self._reader.topic.ends()

    @cached_property
    def _file(self) -> tuple[list[DeadLetter], Edit] | None:
        if self._wish.file is None:
            return None
        return of_file(self._reader, _archive(self._wish), self._wish.where, self._edit)

    @cached_property
    def _edit(self) -> Edit | None:
        """Errors: ConfigError, FileNotFoundError."""
        import sys

        reader, wish = self._reader, self._wish
        if wish.edit is None:
            return None
        if wish.function is not None:
            sys.path.insert(0, "")  # as `python -m`: a module in this folder
            return FunctionEdit(wish.function, reader.documents, reader.plugins)
        return JsonPatchEdit(wish.patch(), reader.documents, wish.edit)

    @cached_property
    def _replaying(self) -> Replaying:
        edit = self._edit if self._file is None else self._file[1]
        open_sink = None
        if self._wish.through:
            from kconnect.testing.sink_chain import SinkChain

            open_sink = SinkChain
        return Replaying(self._reader, self._wish.rules, edit, open_sink=open_sink)


@dataclass(slots=True)
class WorkerReplay:
    """By a worker, with its login to Kafka. A context manager."""

    session: CliSession
    name: str
    wish: ReplayWish
    _worker: AskedWorker = field(init=False)
    _query: list[tuple[str, str]] = field(init=False)
    _how: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Errors: UsageProblem for what only this process can do; ConfigError, FileNotFoundError."""
        wish = self.wish
        if wish.through or wish.function is not None:
            what = "--through runs the sink's code" if wish.through else f"--edit {wish.function} runs your code"
            raise UsageProblem(f"{what}, and a worker does not run that for others", hint=_NEEDS_BROKERS)
        how: dict[str, Any] = {"max_replays": wish.max_replays, "again": wish.again, "to_topic": wish.to_topic}
        if wish.edit is not None:
            how["patch"] = wish.patch()
        if wish.file is not None:
            lines = list(wish.lines())
            list(read_archive(lines, wish.where))  # which line is wrong is best said here
            how["letters"] = [json.loads(line) for line in lines if line.strip()]
        self._how = {key: value for key, value in how.items() if value is not None}
        self._query = list((self.session.given(LetterOptions) or LetterOptions()).query())
        self._worker = AskedWorker(self.session)

    def __enter__(self) -> WorkerReplay:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.__exit__()

    def tally(self) -> tuple[Tally, list[str]]:
        body = self._plan()
        return _tally_of(body), list(body["warnings"])

    def shown(self, found: Tally) -> Iterator[dict[str, Any]]:
        body = self._plan(show=True)
        found.counts, found.first = _tally_of(body).counts, _tally_of(body).first
        yield from body["shown"]

    def run(self, planned: Tally) -> Tally:
        """In as many requests as it takes. Errors: BadRequestError where one sends nothing and more are left."""
        done, sent = Tally(), 0
        while True:
            body = self._worker.replay(self.name, self._query, self._limited(sent))
            found = _tally_of(body)
            count = found.counts[Outcome.REPLAY] + found.counts[Outcome.ARRIVED]
            done.counts[Outcome.REPLAY] += found.counts.pop(Outcome.REPLAY, 0)
            done.topics += found.topics
            if not body["more"]:
                break
            if not count:
                raise BadRequestError(
                    f"The worker sent none of the next dead letters of {self.name}: {_first_of(found)}",
                    hint="Nothing is sent twice; leave these out by --offset, or repair them by --edit.",
                )
            sent += count
        found.counts[Outcome.ALREADY] = max(0, found.counts[Outcome.ALREADY] - sent)  # by the requests before
        done.counts += found.counts
        done.first = found.first
        return done

    def _plan(self, *, show: bool = False) -> dict[str, Any]:
        body = self._worker.replay(self.name, self._query, {**self._limited(0), "show": show}, plan=True)
        self._how["ends"] = body["ends"]  # what fails again while this runs is not replayed at once
        if body["more"]:
            self.session.say("A worker reads some thousand dead letters at a time: not all are counted here.")
        return body

    def _limited(self, sent: int) -> dict[str, Any]:
        return self._how if self.wish.limit is None else {**self._how, "limit": self.wish.limit - sent}


def _archive(wish: ReplayWish) -> Iterator[ArchivedLetter]:
    return read_archive(wish.lines(), wish.where)


def _tally_of(body: dict[str, Any]) -> Tally:
    return Tally(
        Counter({Outcome(name): count for name, count in body["outcomes"].items()}),
        {Outcome(name): why for name, why in body["why"].items()},
        Counter(body["targets"]),
    )


def _first_of(found: Tally) -> str:
    return next(iter(found.first.values()), "no reason was given")
