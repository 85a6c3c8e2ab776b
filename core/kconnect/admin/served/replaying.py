"""Replaying: a replay of one connector's dead letters, as its caller wants it: what each comes to, and its run.

Commands, pages and routes replay by it; each says which dead letters, how they are changed, and what is shown of them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from kconnect.admin.cluster.port import OpenSink
from kconnect.admin.dead_letters import (
    DeadLetter,
    Marks,
    MarkWriter,
    Outcome,
    Preparation,
    Prepared,
    ReplayRules,
    SourceChain,
    Tally,
    isolation_level,
    refuse_two_clusters,
    replay,
    replay_through,
    sink_settings,
    tally,
)
from kconnect.admin.dead_letters.archive import ArchivedLetter
from kconnect.admin.dead_letters.edits import Edit, Edits, FileEdit
from kconnect.admin.dead_letters.planning import replay_warnings
from kconnect.admin.served.letters import ConnectorLetters
from kconnect.errors import ConfigError, TimedOutError

# Dead letters of one round are in memory, twice
_MOST_BYTES = 32 * 1024 * 1024


@dataclass(slots=True)
class Round:
    """Letters that are replayed at once: `letters`, the oldest first; what came of all that were looked at."""

    tally: Tally = field(default_factory=Tally)
    letters: list[DeadLetter] = field(default_factory=list)
    is_cut: bool = False
    """There are more."""
    fingerprint: str = ""
    """The same while the same dead letters would go to the same places, with the same edit."""


class Replaying:
    """Threads: one. Errors of the constructor: BadRequestError where letters and records lie in two clusters."""

    def __init__(
        self,
        reader: ConnectorLetters,
        rules: ReplayRules,
        edit: Edit | None = None,
        *,
        open_sink: OpenSink | None = None,
    ) -> None:
        """`open_sink`: dead letters go straight into the sink's chain in this process, not to their topics."""
        if open_sink is None and not reader.is_source:
            refuse_two_clusters(reader.config, reader.access.worker)
        self._reader = reader
        self._rules = rules
        self._edit = edit
        self._open_sink = open_sink

    def prepared(self, letters: Iterable[DeadLetter]) -> Iterator[Prepared]:
        """What would come of each by the marks of now. Nothing is sent."""
        return self._preparation(self._reader.topic.marks(), ()).prepared(letters)

    def tally(self, letters: Iterable[DeadLetter]) -> Tally:
        return tally(self.prepared(letters))

    def round(
        self,
        letters: Iterable[DeadLetter],
        most: int,
        show: Callable[[Prepared], None] = lambda prepared: None,
        how: object = None,
    ) -> Round:
        """The first of them that would be sent, `most` at most. `show` is given each that was looked at.

        `how`: what else the fingerprint stands for.
        """
        found, seen, size = Round(), hashlib.sha256(repr(how).encode()), 0
        for prepared in self.prepared(letters):
            letter, outgoing = prepared.letter, prepared.outgoing
            found.tally.add(prepared.outcome, prepared.why)
            show(prepared)
            if prepared.outcome is not Outcome.REPLAY:
                continue
            target = None
            if outgoing is not None:
                found.tally.add_target(outgoing)
                target = (outgoing.topic, outgoing.partition)
            found.letters.append(letter)
            seen.update(repr((letter.place, letter.fingerprint, target)).encode())
            size += len(letter.raw.key or b"") + len(letter.raw.value or b"")
            if len(found.letters) == most or size > _MOST_BYTES:
                found.is_cut = True
                break
        found.fingerprint = seen.hexdigest()[:32]
        return found

    def warnings(self, planned: Tally) -> list[str]:
        """What may become of the records in their topics, as sentences."""
        reader, now_ms = self._reader, time.time_ns() // 1_000_000
        settings_of = reader.topic.topic_settings
        found = replay_warnings(
            reader.name, reader.config, planned, settings_of, is_source=reader.is_source, now_ms=now_ms
        )
        return list(found)

    def run(self, letters: Callable[[], Iterable[DeadLetter]], planned: Tally) -> Tally:
        """Send dead letters with their marks. `letters` may be called twice; `planned`: the tally of the same.

        Errors: those of MarkWriter; of a sink also what its start and flush() raise.
        """
        reader, worker, is_through = self._reader, self._reader.access.worker, self._open_sink is not None
        to_topic = None if is_through else self._rules.to_topic
        level = isolation_level(reader.config, worker, is_source=reader.is_source, to_topic=to_topic)
        with ExitStack() as stack:
            writer = stack.enter_context(MarkWriter(reader.topic, reader.name))
            if self._open_sink is None:
                targets = list(planned.topics)
                return replay(writer, reader.name, letters, self._preparation, isolation=level, targets=targets)
            settings = sink_settings(reader.name, reader.config, worker, reader.plugins)
            sink = stack.enter_context(self._open_sink(settings, worker))
            return replay_through(writer, reader.name, letters, self._preparation, sink, isolation=level)

    def _preparation(self, marks: Marks, arrived: Collection[str]) -> Preparation:
        reader = self._reader
        chain = SourceChain(reader.config, reader.access.worker, reader.plugins) if reader.is_source else None
        is_through = self._open_sink is not None
        return Preparation(
            self._rules, marks, reader.topic.partitions, self._edit, chain, arrived, is_through=is_through
        )


def of_file(
    reader: ConnectorLetters, found: Iterable[ArchivedLetter], where: str, edit: Edit | None
) -> tuple[list[DeadLetter], Edit]:
    """Exported dead letters of the connector's own topic, and the edit that makes of each what its line says.

    `edit`: comes behind it. Errors: ConfigError for a dead letter of another topic.
    """
    lines = list(found)
    other = next((each.letter.place for each in lines if each.letter.raw.topic != reader.settings.topic), None)
    if other is not None:
        raise ConfigError(f"{where} has {other}, but the dead letter topic of {reader.name} is {reader.settings.topic}")
    from_file = FileEdit({each.letter.place: each.body for each in lines}, reader.documents)
    return [each.letter for each in lines], from_file if edit is None else Edits(from_file, edit)


def in_time(letters: Iterable[DeadLetter], limit_s: float, hint: str) -> Iterator[DeadLetter]:
    """Errors: TimedOutError when they are not all read within the time for one answer."""
    began = time.monotonic()
    for letter in letters:
        if time.monotonic() - began > limit_s:
            raise TimedOutError(f"The dead letters were not all read within {limit_s:g} s", hint=hint)
        yield letter
