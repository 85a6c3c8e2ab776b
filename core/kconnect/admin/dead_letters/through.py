"""Replay straight into the sink: dead letters go through its own chain in this process, never silently twice.

put() and the mark cannot be one transaction. So a mark is written before (`putting`) and after it: what a crash leaves
in between is in doubt, and the next replay says so instead of putting it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from kconnect.admin.dead_letters.letter import DeadLetter
from kconnect.admin.dead_letters.marks import Entry, Marks, MarkState, mark_entry, removal_entry
from kconnect.admin.dead_letters.planning import Outcome, Tally
from kconnect.admin.dead_letters.replay import MarkWriter, Preparation, Prepared, arrived_letters
from kconnect.api import ConsumerRecord
from kconnect.logs import redaction
from kconnect.runtime.config.variables import secret_values

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

# Records between two flushes, and so in doubt after a crash at most
_BATCH: Final = 100


class Passage(Protocol):
    """What became of one record."""

    @property
    def why(self) -> str | None: ...


class Sink(Protocol):
    """The sink's chain; kconnect.testing.SinkChain is one."""

    def put(self, record: ConsumerRecord) -> Passage:
        """`why` says what failed; None when the sink has it, or a transformation dropped it. Never raises."""
        ...

    def flush(self) -> Mapping[int, str]:
        """Make what was put durable. Errors: ConnectError, also when it does not say that all of it is.

        Gives why records were refused after their put() had returned, by their number since the last flush, from 0 on.
        """
        ...


def sink_settings(
    name: str, config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginRegistry
) -> dict[str, str]:
    """A sink's config with its references resolved here; secrets are kept out of everything that is shown.

    Errors: ConfigError for a reference that leads nowhere.
    """
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(worker)
    try:
        resolved = variables.resolve(config, f"connector {name}")
    finally:
        variables.close()
    passwords = plugins.password_keys(dict(resolved.values))
    redaction.remember(f"dead letters of {name}", {*secret_values(resolved.values, passwords), *resolved.references})
    return dict(resolved.values)


def replay_through(
    writer: MarkWriter,
    connector: str,
    letters: Callable[[], Iterable[DeadLetter]],
    prepare: Callable[[Marks, Collection[str]], Preparation],
    sink: Sink,
    *,
    isolation: str | None,
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    progress: Callable[[int], None] = lambda count: None,
) -> Tally:
    """Put each dead letter that `prepare` wants replayed. `isolation`: as `isolation_level` says.

    Dead letters that the sink got from a killed replay to their topic are only marked.
    Errors: those of MarkWriter; ConnectError of flush().
    """
    writer.claim()
    done = Tally()
    marks = writer.topic.settled_marks()
    arrived = arrived_letters(writer.topic, marks, connector, isolation)
    prepared = prepare(marks, arrived).prepared(letters())
    while batch := list(islice(prepared, _BATCH)):
        waiting = [each for each in batch if each.record is not None and each.outcome is Outcome.REPLAY]
        for each in batch:
            if each.outcome is not Outcome.REPLAY:
                done.add(each.outcome, each.why)
        missing = [each for each in batch if each.outcome is Outcome.ARRIVED]
        if missing:
            writer.transact([mark_entry(each.letter, MarkState.SENT, now_ms(), None) for each in missing])
        if waiting:
            writer.transact(_entries(waiting, MarkState.PUTTING, connector, now_ms()))
            taken = _put(waiting, sink, done)
            entries = _entries(taken, MarkState.PUT, connector, now_ms())
            taken_places = {each.letter.place for each in taken}
            entries += [
                removal_entry(each.letter)
                for each in waiting
                if each.letter.place not in taken_places and not marks.is_doubtful(each.letter)
            ]
            writer.transact(entries)
            done.counts[Outcome.REPLAY] += len(taken)
            done.topics[connector] += len(taken)
        progress(done.counts[Outcome.REPLAY])
    return done


def _put(waiting: Sequence[Prepared], sink: Sink, done: Tally) -> list[Prepared]:
    """Put the records and flush; gives those that the sink has then: it may refuse one long after its put()."""
    failed: dict[int, str] = {}
    for number, each in enumerate(waiting):
        assert each.record is not None
        why = sink.put(each.record).why
        if why is not None:
            failed[number] = why
    failed = {**sink.flush(), **failed}
    for number, why in sorted(failed.items()):
        done.add(Outcome.FAILED, f"{waiting[number].letter.place}: {why}")
    return [each for number, each in enumerate(waiting) if number not in failed]


def _entries(batch: Sequence[Prepared], state: str, connector: str, now_ms: int) -> list[Entry]:
    return [mark_entry(each.letter, state, now_ms, connector) for each in batch]
