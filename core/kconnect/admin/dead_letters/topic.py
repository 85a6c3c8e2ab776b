"""DeadLetterTopic: the dead letters of one topic and what was replayed of them, read from Kafka.

They lie in the cluster that the connector's producer writes to, which may be one of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from types import TracebackType
from typing import Any, Final, Literal, Self

from kconnect.admin.dead_letters.letter import ORIGIN_HEADER, DeadLetter, dead_letter
from kconnect.admin.dead_letters.marks import Marks, Run, marks_of, marks_topic
from kconnect.admin.records.reading import TopicRecords
from kconnect.admin.records.selection import Range, Span, last_of
from kconnect.api import ConsumerRecord
from kconnect.errors import BadRequestError, NotFoundError, TimedOutError
from kconnect.model import Edge, TopicPartition
from kconnect.runtime.config.addresses import parse_servers
from kconnect.runtime.config.client_config import brokers_of
from kconnect.runtime.config.connector_config import DeadLetterSettings
from kconnect.runtime.kafka import KafkaAdmin, TopicInfo
from kconnect.runtime.kafka.consumed_records import RECORDS
from kconnect.runtime.kafka.partition_reader import READ_UNCOMMITTED, PartitionReader

_BATCH: Final = 500
_POLL_S: Final = 0.1
_QUIET_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAccess:
    """How the brokers are reached: librdkafka's settings, which may hold secrets, and a deadline for each request."""

    producer: Mapping[str, Any] = field(repr=False)
    consumer: Mapping[str, Any] = field(repr=False)
    admin: Mapping[str, Any] = field(repr=False)
    timeout_s: float = 10.0


def dead_letter_settings(name: str, config: Mapping[str, str]) -> DeadLetterSettings:
    """The connector's. Errors: NotFoundError when it has no dead letter topic; ConfigError."""
    settings = DeadLetterSettings.parse(config)
    if settings is None:
        raise NotFoundError(
            f"Connector {name} has no dead letter topic",
            hint=f"connect config set {name} errors.tolerance=all errors.deadletterqueue.topic.name=TOPIC "
            "errors.deadletterqueue.context.headers.enable=true",
        )
    return settings


class DeadLetterTopic:
    """Reads committed letters and marks. A context manager: holds an admin client. Threads: one.

    Errors of all methods: NotFoundError when the topic is not there; UnreachableError, TimedOutError; ConnectError for
    what the brokers refuse.
    """

    def __init__(self, topic: str, access: KafkaAccess, note: Callable[[str], None] = lambda text: None) -> None:
        """`note` gets sentences: of dead letters behind an open transaction, of a partition that was truncated."""
        self.topic = topic
        self.access = access
        self._note = note
        self.admin = KafkaAdmin(access.admin, f"dead letters in {topic}", timeout_setting="--timeout")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.admin.close()

    def info(self) -> TopicInfo:
        """Errors: NotFoundError that says why it may be missing."""
        found = self.admin.describe_topics([self.topic], self.access.timeout_s, right="READ")
        if self.topic not in found:
            raise NotFoundError(
                f"The dead letter topic {self.topic} does not exist",
                hint="A task creates it when it starts: has the connector run since the setting was made?",
            )
        return found[self.topic]

    def ends(self) -> dict[int, int]:
        """Where dead letters that are written from now on begin."""
        return self._offsets(self.topic, self.info().partitions, "end")

    def begins(self) -> dict[int, int]:
        return self._offsets(self.topic, self.info().partitions, "begin")

    def letters(self, ends: Mapping[int, int] | None = None) -> Iterator[DeadLetter]:
        """All dead letters up to now, by time over partitions; of each partition those before its end."""
        self.info()  # says more than a consumer that does not find it
        with self._records(self.topic, self._note) as topic:
            for record in topic.records(Range(Edge.EARLIEST), lambda raw: raw):
                if ends is None or record.offset < ends.get(record.partition, 0):
                    yield dead_letter(record)

    @contextmanager
    def latest(self, most: int) -> Iterator[LatestLetters]:
        """The last `most` records of the topic at most, so that looking at them takes seconds."""
        self.info()
        with self._records(self.topic, self._note) as topic:
            there = topic.spans(Range(Edge.EARLIEST))
            yield LatestLetters(topic, there, last_of(there, most))

    def letter(self, partition: int, offset: int) -> DeadLetter | None:
        """The dead letter at a place; None when there is none (deleted, or never written)."""
        info = self.info()
        if partition >= info.partitions:
            return None
        reader = PartitionReader(self.topic, self.access.consumer, RECORDS, name=f"dead letters in {self.topic}")
        try:
            end = self._offsets(self.topic, info.partitions, "end", is_stable=True)[partition]
            begin = self._offsets(self.topic, info.partitions, "begin")[partition]
            if not begin <= offset < end:
                return None
            for record in _read(reader, {partition: offset}, {partition: offset + 1}, self.access.timeout_s):
                if record.offset == offset:
                    return dead_letter(record)
            return None
        finally:
            reader.close()

    def marks(self) -> Marks:
        """What was replayed, as far as no open transaction hides it; nothing where no replay has begun yet."""
        name = marks_topic(self.topic)
        if name not in self.admin.describe_topics([name], self.access.timeout_s, right="READ"):
            return Marks()
        with self._records(name, lambda text: None) as topic:
            return marks_of((each.key, each.value) for each in topic.records(Range(Edge.EARLIEST), lambda raw: raw))

    def settled_marks(self) -> Marks:
        """All marks up to now: waits for transactions that are open, as of another connector with this topic.

        Errors: TimedOutError when one stays open.
        """
        name = marks_topic(self.topic)
        found = self.admin.describe_topics([name], self.access.timeout_s, right="READ")
        if name not in found:
            return Marks()
        count = found[name].partitions
        ends = self._offsets(name, count, "end")
        deadline_s = time.monotonic() + self.access.timeout_s
        while any(
            stable < ends[number] for number, stable in self._offsets(name, count, "end", is_stable=True).items()
        ):
            if time.monotonic() > deadline_s:
                raise TimedOutError(
                    f"A transaction has been open in {name} for more than {self.access.timeout_s:g} s (--timeout), and "
                    "marks behind it cannot be read yet",
                    hint="Another replay has it, or was killed: Kafka ends it after its transaction.timeout.ms.",
                )
            time.sleep(_POLL_S)
        return self.marks()

    def arrived(self, run: Run) -> set[str]:
        """Places of dead letters that a run has written to its targets, committed or not, by their headers."""
        found: set[str] = set()
        there = self.admin.describe_topics(list(run.ends), self.access.timeout_s)
        for topic, begin in run.ends.items():
            if topic not in there:
                continue
            ends = self._offsets(topic, there[topic].partitions, "end")
            begin = {number: begin.get(number, 0) for number, end in ends.items() if begin.get(number, 0) < end}
            reader = PartitionReader(
                topic, self.access.consumer, RECORDS, isolation_level=READ_UNCOMMITTED, name="replayed records"
            )
            try:
                for record in _read(reader, begin, ends, self.access.timeout_s):
                    found |= {
                        value.decode(errors="replace")
                        for name, value in record.headers
                        if name == ORIGIN_HEADER and value is not None
                    }
            finally:
                reader.close()
        return found

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """Gives how many partitions each of these topics has that exists."""
        found = self.admin.describe_topics(list(topics), self.access.timeout_s) if topics else {}
        return {name: info.partitions for name, info in found.items()}

    def topic_settings(self, topic: str) -> dict[str, str]:
        return self.admin.topic_configs(topic, self.access.timeout_s)

    def topic_ends(self, partitions: Mapping[str, int]) -> dict[str, dict[int, int]]:
        """The ends of topics with so many partitions."""
        return {topic: self._offsets(topic, count, "end") for topic, count in partitions.items()}

    def _records(self, topic: str, note: Callable[[str], None]) -> TopicRecords:
        access = self.access
        return TopicRecords(topic, access.consumer, access.admin, access.timeout_s, note=note)

    def _offsets(
        self, topic: str, partitions: int, at: Literal["begin", "end"], *, is_stable: bool = False
    ) -> dict[int, int]:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        found = self.admin.log_offsets(places, at, self.access.timeout_s, is_stable=is_stable)
        return {place.partition: offset for place, offset in found.items()}


class LatestLetters:
    """The end of a dead letter topic. Threads: one."""

    def __init__(self, topic: TopicRecords, there: Mapping[int, Span], spans: Mapping[int, Span]) -> None:
        self._topic = topic
        self._spans = spans
        self.earlier = _size(there) - _size(spans)
        """Offsets before it, which hold older records: about as many, as transactions and compaction take some."""

    def __iter__(self) -> Iterator[DeadLetter]:
        """All of them, by time over partitions."""
        return self._topic.within(self._spans, dead_letter)

    def newest(self, count: int, accept: Callable[[DeadLetter], Any]) -> list[Any]:
        """What `accept` makes of the last so many dead letters that it takes (not None), the newest first."""
        return self._topic.last(count, self._spans, lambda raw: accept(dead_letter(raw)))[::-1]


def _size(spans: Mapping[int, Span]) -> int:
    return sum(span.end - span.begin for span in spans.values())


def _read(
    reader: PartitionReader[ConsumerRecord], begin: Mapping[int, int], end: Mapping[int, int], timeout_s: float
) -> Iterator[ConsumerRecord]:
    """Records of partitions from one offset to another. Errors: TimedOutError when nothing comes for so long."""
    if not begin:
        return
    reader.open(begin)
    wanted = {number: end[number] for number in begin}
    yield from chain.from_iterable(reader.read_to(wanted, _BATCH, _POLL_S, max(timeout_s, _QUIET_S), "--timeout"))


_OVERRIDES = ("producer.override.", "consumer.override.")


def letters_worker(config: Mapping[str, str], worker: Mapping[str, str]) -> Mapping[str, str]:
    """The worker's settings with the brokers, and the login there, of the connector's producer.

    `worker` itself where these are the same brokers. `config` may have references. Errors: ConfigError for a reference
    that leads nowhere, and for brokers that are none.
    """
    own = brokers_of("producer", worker, _resolved(config, worker))
    return worker if _servers(own) == _servers(worker) else {**worker, **own}


def refuse_two_clusters(config: Mapping[str, str], worker: Mapping[str, str]) -> None:
    """Errors: BadRequestError for a sink that reads from another cluster than the one where its dead letters lie.

    A dead letter and the mark that it was sent are one transaction, and there is none across clusters.
    """
    resolved = _resolved(config, worker)
    letters = brokers_of("producer", worker, resolved)
    records = brokers_of("consumer", worker, resolved)
    if _servers(letters) != _servers(records):
        name = config.get("name", "the connector")
        raise BadRequestError(
            f"Dead letters of {name} lie in Kafka at {letters['bootstrap.servers']}, and its records come from "
            f"{records['bootstrap.servers']}: a replay cannot send them there and mark them as sent in one transaction",
            hint="Straight into the sink they can go: --through.",
        )


def _resolved(config: Mapping[str, str], worker: Mapping[str, str]) -> Mapping[str, str]:
    overrides = {key: value for key, value in config.items() if key.startswith(_OVERRIDES)}
    if not any("${" in value for value in overrides.values()):
        return overrides
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(worker)
    try:
        return variables.resolve(overrides, f"connector {config.get('name', '')}").values
    finally:
        variables.close()


def _servers(settings: Mapping[str, str]) -> frozenset[tuple[str, int]]:
    return frozenset(parse_servers(settings.get("bootstrap.servers", "")))
