"""Replay: dead letters go back to their topics, each in one transaction with its mark. Never twice, never lost.

A run, as seen from Kafka:

1. claims its transactional id: a run of the same connector that still goes is fenced off, its transaction aborted
2. reads the marks; if the last run did not end well, looks for what that has sent (see `arrived_letters`)
3. writes what it begins, with the ends of its targets: a transaction of its own; not where the connector does not read
   them
4. sends letters and their marks, some hundred in a transaction
5. writes that it has ended, unless dead letters that an earlier run has sent have no mark yet

Killed anywhere, dead letters of the open transaction have no mark and are sent again by the next run, but for those
that a connector which reads uncommitted records (Java's default) has seen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, Protocol

from kconnect.admin.dead_letters.edits import Edit
from kconnect.admin.dead_letters.letter import DeadLetter, parsed_place
from kconnect.admin.dead_letters.marks import (
    Entry,
    Marks,
    MarkState,
    Run,
    mark_entry,
    marks_topic,
    outdated_entries,
    run_end_entry,
    run_entry,
)
from kconnect.admin.dead_letters.planning import Outcome, ReplayRules, Tally, decide, outgoing
from kconnect.admin.dead_letters.topic import DeadLetterTopic
from kconnect.api import ConsumerRecord
from kconnect.errors import AlreadyExistsError, ConnectError, DataError, FencedError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.runtime.kafka import DeliveryFailure, KafkaRecord, TopicInfo, TransactionalProducer

log = logging.getLogger(__name__)

# Records of one transaction: a commit takes some 20 ms, so that 500 cost 40 us each; after a crash that many at most
# are in the topic uncommitted
BATCH: Final = 500
_READS_COMMITTED: Final = "read_committed"


class Chain(Protocol):
    """What makes of a dead letter the record to send, where that is not the record that was read; see SourceChain."""

    def record(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """What comes of one dead letter. `record` is what would be sent, before headers of ours; None unless it is."""

    letter: DeadLetter
    outcome: Outcome
    why: str = ""
    record: ConsumerRecord | None = None
    outgoing: KafkaRecord | None = None


@dataclass(slots=True)
class Preparation:
    """Decides, edits and converts dead letters one by one. Pure but for what edits and plugins do. Threads: one."""

    rules: ReplayRules
    marks: Marks
    partitions_of: Callable[[Collection[str]], Mapping[str, int]]
    edit: Edit | None = None
    chain: Chain | None = None
    arrived: Collection[str] = ()
    is_through: bool = False
    """Records go to the sink's own put(), so that their topic need not exist."""
    _topics: dict[str, int | None] = field(default_factory=dict)

    def prepared(self, letters: Iterable[DeadLetter]) -> Iterator[Prepared]:
        """What comes of each dead letter; ends once `limit` of them will be sent."""
        count = 0
        for letter in letters:
            if self.rules.limit is not None and count >= self.rules.limit:
                return
            made = self.prepare(letter)
            count += made.outcome is Outcome.REPLAY
            yield made

    def prepare(self, letter: DeadLetter) -> Prepared:
        outcome, why = decide(letter, self.marks, self.arrived, self.rules)
        if outcome is not Outcome.REPLAY:
            return Prepared(letter, outcome, why)
        record: ConsumerRecord | None = letter.as_read()
        try:
            if record is not None and self.edit is not None:
                record = self.edit.apply(letter, record)
            if record is not None and self.chain is not None and letter.source is not None:
                record = self.chain.record(letter, record)
        except DataError as error:
            text = str(error)
            return Prepared(letter, Outcome.FAILED, text if letter.place in text else f"{letter.place}: {text}")
        if record is None:
            return Prepared(letter, Outcome.LEFT_OUT)
        topic = self.rules.to_topic or record.topic
        if self.is_through:
            return Prepared(letter, Outcome.REPLAY, "", replace(record, topic=topic))
        made = outgoing(letter, record, self.rules, self._known({topic}))
        if made is None:
            return Prepared(letter, Outcome.NO_TOPIC, f"{letter.place}: its topic {topic} does not exist", record)
        return Prepared(letter, Outcome.REPLAY, "", record, made)

    def _known(self, topics: Collection[str]) -> Mapping[str, int]:
        missing = [topic for topic in topics if topic not in self._topics]
        if missing:
            found = self.partitions_of(missing)
            self._topics.update({topic: found.get(topic) for topic in missing})
        return {topic: count for topic in topics if (count := self._topics[topic]) is not None}


def tally(prepared: Iterable[Prepared]) -> Tally:
    """How many dead letters come to what."""
    found = Tally()
    for each in prepared:
        found.add(each.outcome, each.why)
        if each.outgoing is not None:
            found.add_target(each.outgoing)
    return found


class MarkWriter:
    """A transactional producer and the topic of marks. A context manager. Threads: one.

    Lifecycle: constructed -> claim() -> transact()s -> close. Errors: FencedError when another replay of the connector
    has begun; TimedOutError, ConnectError.
    """

    def __init__(self, topic: DeadLetterTopic, connector: str) -> None:
        settings = {
            **topic.access.producer,
            "enable.idempotence": True,
            "transactional.id": f"connect-dlq-{connector}",
            "message.timeout.ms": 0,  # the transaction's own time is the limit
            "batch.num.messages": 1,  # that a broker rejects is said of one letter, and not of all that went with it
        }
        self.topic = topic
        self._connector = connector
        # A broker that rejects a record leaves a gap in librdkafka's sequence numbers: the next transaction fails for
        # that, and its abort ends the gap
        self._has_gap = False
        self._name = marks_topic(topic.topic)
        self._timeout_s = topic.access.timeout_s
        self._producer = TransactionalProducer(settings, f"the replay of {connector}'s dead letters")

    def __enter__(self) -> MarkWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def claim(self) -> None:
        """Make the topic of marks if it is missing, and fence off another replay of the connector."""
        admin = self.topic.admin
        new = TopicInfo(self._name, 1, self.topic.info().replication_factor, {"cleanup.policy": "compact"})
        if not admin.has_topic(new, self._timeout_s):
            try:
                admin.create_topic(new, self._timeout_s)
            except AlreadyExistsError:
                log.debug("Another replay created %s", self._name)
        self._producer.claim(self._producer.timeout_s, lambda: False)

    def transact(self, entries: Sequence[Entry], records: Sequence[KafkaRecord] = ()) -> dict[int, ConnectError]:
        """Write both or neither; gives the indexes of records that Kafka rejected, and then wrote nothing."""
        try:
            refused = self._transact(entries, records)
        except ConnectError as error:
            if isinstance(error, FencedError) or isinstance(self._producer.why_broken(), FencedError):
                raise FencedError(
                    f"Another replay of the dead letters of {self._connector} has begun, and goes on where this one is",
                    hint="Nothing is sent twice; start this one again when the other one has ended.",
                ) from error
            if not self._has_gap or isinstance(error, TimedOutError):
                raise
            self._has_gap = False
            self._producer.abort()
            return self.transact(entries, records)
        self._has_gap = bool(refused)
        return refused

    def _transact(self, entries: Sequence[Entry], records: Sequence[KafkaRecord]) -> dict[int, ConnectError]:
        producer, refused = self._producer, dict[int, ConnectError]()
        failed: list[ConnectError] = []
        deadline_s, is_whole = time.monotonic() + producer.timeout_s, True

        def is_late() -> bool:  # large records wait for room in the producer's queue
            return time.monotonic() > deadline_s

        producer.begin()
        for index, record in enumerate(records):

            def on_failure(failure: DeliveryFailure, index: int = index) -> bool:
                refused[index] = failure.error
                return False

            delivery = producer.delivery(_ignore, on_failure)
            is_whole = is_whole and producer.send(record, delivery, is_late)
            delivery.complete()

        def on_mark_failure(failure: DeliveryFailure) -> bool:
            failed.append(failure.error)
            return False

        delivery = producer.delivery(_ignore, on_mark_failure)
        for key, value in entries:
            mark = KafkaRecord(self._name, key=key, value=value)
            is_whole = is_whole and producer.send(mark, delivery, is_late)
        delivery.complete()
        is_whole = is_whole and producer.flush(producer.timeout_s, lambda: bool(refused or failed))
        if refused or failed:  # a record that the client itself refuses would not keep the rest from being committed
            producer.abort()
            producer.serve()
            if failed:
                raise failed[0]
            return refused
        if not is_whole:
            raise TimedOutError(
                f"{pluralize(len(records), 'record')} were not acknowledged within {producer.timeout_s:g} s "
                f"(transaction.timeout.ms): {producer.last_error or 'no answer'}",
                hint="Nothing of this transaction counts; start the replay again.",
            )
        producer.commit(_never)
        return refused


def replay(
    writer: MarkWriter,
    connector: str,
    letters: Callable[[], Iterable[DeadLetter]],
    prepare: Callable[[Marks, Collection[str]], Preparation],
    *,
    isolation: str | None,
    targets: Collection[str] | None = None,
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    progress: Callable[[int], None] = lambda count: None,
) -> Tally:
    """Send what `prepare` says of each dead letter, with its mark. `letters` may be called twice.

    `isolation`: as `isolation_level` says. Where the connector does not read what is sent, only committed records
    count: after a crash all that have no mark are sent again.
    `targets`: the topics that a `tally` of the same dead letters found; None looks for them, which prepares all once
    more. Errors: those of MarkWriter; what was committed until then stays so.
    """
    writer.claim()
    topic = writer.topic
    marks = topic.settled_marks()
    arrived = arrived_letters(topic, marks, connector, isolation)
    if targets is None:
        targets = list(tally(prepare(marks, arrived).prepared(letters())).topics)
    current: Run | None = None
    if targets and isolation is not None:
        ends = topic.topic_ends(topic.partitions(targets))
        current = Run(connector, now_ms(), _earliest(ends, marks.runs.get(connector)))
        writer.transact([run_entry(current)])

    def seen() -> Collection[str]:
        """What the sink has got of transactions that were aborted."""
        return set() if current is None or isolation == _READS_COMMITTED else topic.arrived(current)

    done = Tally()
    prepared = prepare(marks, arrived).prepared(letters())
    while batch := list(islice(prepared, BATCH)):
        _send(writer, batch, done, now_ms(), seen)
        progress(done.counts[Outcome.REPLAY])
    begins = topic.begins()
    last = outdated_entries(marks, begins, now_ms())
    if isolation is not None and (targets or connector in marks.runs) and not _is_unmarked(arrived, topic, begins):
        last.append(run_end_entry(connector))
    if last:
        writer.transact(last)
    return done


def arrived_letters(topic: DeadLetterTopic, marks: Marks, connector: str, isolation: str | None) -> set[str]:
    """Letters that the connector has got from a run that did not end: those of its last transaction, which is aborted.

    None for a connector that reads committed records only, or not what is sent.
    """
    run = marks.runs.get(connector)
    if run is None or isolation is None or isolation == _READS_COMMITTED:
        return set()
    return topic.arrived(run)


def _earliest(ends: Mapping[str, Mapping[int, int]], earlier: Run | None) -> Mapping[str, Mapping[int, int]]:
    """Where to look after a crash: a run that did not end is looked for until one has."""
    if earlier is None:
        return ends
    return {**ends, **earlier.ends}


def _is_unmarked(arrived: Collection[str], topic: DeadLetterTopic, begins: Mapping[int, int]) -> bool:
    """Whether a dead letter that arrived has no mark by now: this run was about others. Deleted ones do not count."""
    if not arrived:
        return False
    marked = topic.marks().letters
    for name, partition, offset in filter(None, map(parsed_place, arrived)):
        is_there = name == topic.topic and offset >= begins.get(partition, 0)
        if is_there and (partition, offset) not in marked:
            return True
    return False


def _send(
    writer: MarkWriter, batch: Sequence[Prepared], done: Tally, now_ms: int, seen: Callable[[], Collection[str]]
) -> None:
    """One transaction; again without what Kafka rejects, and without what the sink has `seen` of the aborted one."""
    waiting = [each for each in batch if each.outgoing is not None]
    missing = [each for each in batch if each.outcome is Outcome.ARRIVED]
    for each in batch:
        if each.outgoing is None:
            done.add(each.outcome, each.why)
    while waiting or missing:
        records = [each.outgoing for each in waiting if each.outgoing is not None]
        entries = [
            mark_entry(each.letter, MarkState.SENT, now_ms, None if each.outgoing is None else each.outgoing.topic)
            for each in (*waiting, *missing)
        ]
        refused = writer.transact(entries, records)
        for index, error in refused.items():
            done.add(Outcome.FAILED, f"{waiting[index].letter.place}: {error}")
        if not refused:
            for each in (*waiting, *missing):
                if each.outgoing is not None:
                    done.add(each.outcome)
                    done.add_target(each.outgoing)
            return
        waiting = [each for index, each in enumerate(waiting) if index not in refused]
        there = seen() if waiting else ()
        missing += [each for each in waiting if each.letter.place in there]
        waiting = [each for each in waiting if each.letter.place not in there]


def _ignore(is_acked: bool) -> Any:
    """The transaction tells."""


def _never() -> bool:
    return False
