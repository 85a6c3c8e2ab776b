"""What a replay does with each dead letter. Pure: facts in, decisions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kconnect.admin.dead_letters.letter import NO_PARTITION, ORIGIN_HEADER, REPLAYS_HEADER, DeadLetter
from kconnect.admin.dead_letters.marks import Marks
from kconnect.api import ConsumerRecord
from kconnect.runtime.kafka import KafkaHeaders, KafkaRecord

MAX_REPLAYS = 3


class Outcome(StrEnum):
    """What happens to a dead letter."""

    REPLAY = "replay"
    ALREADY = "already replayed"
    ARRIVED = "sent by a replay that was cut short"
    """The connector has read it, though its transaction was aborted: only its mark is missing."""
    IN_DOUBT = "in doubt"
    """A replay --through ended in put(): nobody knows whether it took the record."""
    OVER_BUDGET = "failed too often"
    NO_TOPIC = "without a topic"
    """Which topic it was read from is not known, or that topic does not exist."""
    LOSSY = "not complete"
    """A dead letter of a source in which a part is text only."""
    FAILED = "failed"
    """The edit or the chain could not make a record of it, or Kafka rejected that."""
    LEFT_OUT = "left out by the edit"


FAILURES = frozenset({Outcome.FAILED, Outcome.OVER_BUDGET, Outcome.NO_TOPIC, Outcome.IN_DOUBT, Outcome.LOSSY})
"""Letters that stay behind, which the user must see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRules:
    """What the caller wants."""

    max_replays: int = MAX_REPLAYS
    to_topic: str | None = None
    """Send there instead of the original topic."""
    again: bool = False
    """Also what is in doubt."""
    is_edited: bool = False
    limit: int | None = None


@dataclass(slots=True)
class Tally:
    """How many dead letters came to what; `first` has the first sentence of each outcome that needs one."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    first: dict[Outcome, str] = field(default_factory=dict)
    topics: Counter[str] = field(default_factory=Counter)
    """Topics that records are sent to."""
    oldest_ms: dict[str, int] = field(default_factory=dict)
    """Holds, of each of them, the time of the oldest record."""

    def add(self, outcome: Outcome, why: str = "") -> None:
        self.counts[outcome] += 1
        if why:
            self.first.setdefault(outcome, why)

    def add_target(self, record: KafkaRecord) -> None:
        self.topics[record.topic] += 1
        if record.timestamp is not None:
            self.oldest_ms[record.topic] = min(record.timestamp, self.oldest_ms.get(record.topic, record.timestamp))

    @property
    def has_failures(self) -> bool:
        return any(self.counts[outcome] for outcome in FAILURES)


def decide(letter: DeadLetter, marks: Marks, arrived: Collection[str], rules: ReplayRules) -> tuple[Outcome, str]:
    """What to do with a dead letter, and why if that is not plain. `arrived`: the places that `ARRIVED` is about."""
    if marks.is_replayed(letter):
        return Outcome.ALREADY, ""
    if letter.place in arrived:
        return Outcome.ARRIVED, ""
    if marks.is_doubtful(letter) and not rules.again:
        return Outcome.IN_DOUBT, f"{letter.place}: an earlier replay --through ended while put() had it"
    if letter.replays >= rules.max_replays:
        return Outcome.OVER_BUDGET, f"{letter.place} has failed again after {letter.replays} replays"
    if letter.source is not None and letter.source.lossy and not rules.is_edited:
        parts = " and ".join(letter.source.lossy)
        return Outcome.LOSSY, f"{letter.place}: its {parts} could be kept as text only"
    if letter.original_topic is None and rules.to_topic is None:
        return Outcome.NO_TOPIC, f"{letter.place} does not say where it was read"
    return Outcome.REPLAY, ""


def outgoing(
    letter: DeadLetter, record: ConsumerRecord, rules: ReplayRules, partitions: Mapping[str, int]
) -> KafkaRecord | None:
    """The record to send, at its original partition where the topic has it; None when its topic does not exist.

    `partitions`: topic -> how many it has. Its headers say how often it was replayed, and which letter it was.
    """
    topic = rules.to_topic or record.topic
    count = partitions.get(topic)
    if count is None:
        return None
    is_meant = topic == letter.original_topic or record.partition != letter.as_read().partition
    partition = record.partition if is_meant and NO_PARTITION < record.partition < count else None
    return KafkaRecord(
        topic, partition, record.key, record.value, record.timestamp, replay_headers(letter, record.headers)
    )


def retention_warning(topic: str, settings: Mapping[str, str], oldest_ms: int, now_ms: int) -> str | None:
    """A sentence when the broker may delete records of that time before they are read; None when it will not."""
    retention_ms = int(settings.get("retention.ms", "-1"))
    is_deleted = "delete" in settings.get("cleanup.policy", "delete")
    if retention_ms < 0 or not is_deleted or settings.get("message.timestamp.type") == "LogAppendTime":
        return None
    if oldest_ms >= now_ms - retention_ms:
        return None
    return (
        f"Some records are older than {topic} keeps them (retention.ms {retention_ms}): Kafka may delete them before "
        "the connector reads them. An --edit of /timestamp gives them another time."
    )


def replay_headers(letter: DeadLetter, headers: Sequence[tuple[str, bytes | None]]) -> KafkaHeaders:
    """Gives the record's headers, followed by ours."""
    kept = [pair for pair in headers if pair[0] not in (REPLAYS_HEADER, ORIGIN_HEADER)]
    count, place = str(letter.replays + 1).encode(), letter.place.encode()
    return [*kept, (REPLAYS_HEADER, count), (ORIGIN_HEADER, place)]


def isolation_level(
    connector: Mapping[str, str], worker: Mapping[str, str], *, is_source: bool, to_topic: str | None = None
) -> str | None:
    """How the connector reads what a replay sends: committed records only, or all. Java's default is all.

    None where it does not read that: a source, or a replay `to_topic`. Who does is not known.
    """
    if is_source or to_topic is not None:
        return None
    given = connector.get("consumer.override.isolation.level") or worker.get("consumer.isolation.level")
    return (given or "read_uncommitted").strip().lower()


def replay_warnings(
    connector: str,
    config: Mapping[str, str],
    planned: Tally,
    topic_settings: Callable[[str], Mapping[str, str]],
    *,
    is_source: bool,
    now_ms: int,
) -> Iterator[str]:
    """Warns of records that are older than their target keeps them, or that the sink does not read there."""
    for topic, oldest_ms in planned.oldest_ms.items():
        warning = retention_warning(topic, topic_settings(topic), oldest_ms, now_ms)
        if warning is not None:
            yield warning
    if is_source:
        return
    read = [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
    for topic in planned.topics if read else ():
        if topic not in read:
            yield f"{connector} does not read {topic} (its topics: {', '.join(read)})."
