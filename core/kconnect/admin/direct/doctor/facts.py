"""What the doctor knows of a cluster and what it reports: ClusterFacts in, Findings out. Values only."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.group.live_group import LiveGroup
from kconnect.admin.direct.read.record_json import shown_bytes
from kconnect.logs.wording import pluralize
from kconnect.model import LogRecord, TaskCondition
from kconnect.runtime.storage.config_topic import TARGET_STATE, read_key
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import StatusEvent, StatusRead, StoredStatus, Subject, decode_record
from kconnect.runtime.storage.topic_offsets import OffsetCache


class Severity(StrEnum):
    """How bad it is: an error loses or stops something, a warning may mislead, info is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where the problem can be seen: a record, or a whole topic."""

    topic: str
    partition: int | None = None
    offset: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `repair` is a command line, word by word; empty when there is none."""

    code: str
    """Stable, for monitoring."""
    severity: Severity
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    connector: str | None = None
    repair: tuple[str, ...] = ()
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the brokers describe it. `configs` is None when it may not be read."""

    name: str
    is_there: bool
    partitions: int = 0
    replicas: int = 0
    configs: Mapping[str, str] | None = None
    behind: int = 0
    """How many partitions have replicas that are not in sync."""
    least_in_sync: int | None = None
    """How many replicas are in sync of the partition with the fewest of these; None: as many as it has."""


class LiveRecords:
    """The records in force: the newest of each key in each partition, without tombstones. Memory: live keys."""

    def __init__(self, records: Iterable[LogRecord] = ()) -> None:
        self._by_key: dict[bytes | None, dict[int, LogRecord]] = {}
        for record in records:
            self.apply(record)

    def apply(self, record: LogRecord) -> None:
        places = self._by_key.setdefault(record.key, {})
        if record.value is None:
            places.pop(record.partition, None)
        else:
            places[record.partition] = record
        if not places:
            del self._by_key[record.key]

    def get(self, key: bytes) -> LogRecord | None:
        """The newest record of a key."""
        places = self._by_key.get(key)
        return max(places.values(), key=_age) if places else None

    def __iter__(self) -> Iterator[LogRecord]:
        """The newest record of each key, in the order in which the keys came."""
        for places in self._by_key.values():
            yield max(places.values(), key=_age)

    def scattered(self) -> Iterator[list[LogRecord]]:
        """Records of keys that have one in more than one partition, oldest first."""
        for places in self._by_key.values():
            if len(places) > 1:
                yield sorted(places.values(), key=_age)


def _age(record: LogRecord) -> tuple[int, int]:
    return record.timestamp_ms or 0, record.offset


# A transaction of a leader is over by then (transaction.timeout.ms, default 60 s); its marker has an offset of its own.
_TRANSACTION_MS = 60_000


class LeaderWrites:
    """Whether the leader's newest write was certainly made outside a transaction. Memory: one record.

    A marker follows each transaction and takes an offset, so a record that is followed at the next offset by one of
    another time, or by the end of the topic, was written in none. That it was written in one cannot be seen.
    """

    def __init__(self) -> None:
        self._newest: LogRecord | None = None
        self._last: LogRecord | None = None
        self._is_bare = False

    def apply(self, record: LogRecord) -> None:
        last, self._last = self._last, record
        if last is not None and last is self._newest:
            self._is_bare = record.offset == last.offset + 1 and _ms_between(last, record) > _TRANSACTION_MS
        if _is_leaders(record):
            self._newest, self._is_bare = record, False

    def bare(self, end: int | None) -> LogRecord | None:
        """The newest write of a leader, if it was in no transaction; `end` is the offset of the next record."""
        if self._newest is None:
            return None
        is_last = self._last is self._newest and end == self._newest.offset + 1
        return self._newest if self._is_bare or is_last else None


def _is_leaders(record: LogRecord) -> bool:
    """Pauses, resumes, stops and logger levels are written outside the leader's transactions."""
    kind = read_key((record.key or b"").decode(errors="replace"))
    if kind is None or kind[0].startswith("logger-"):
        return False
    return kind[0] != TARGET_STATE or record.value is None


def _ms_between(one: LogRecord, other: LogRecord) -> int:
    return 0 if one.timestamp_ms is None or other.timestamp_ms is None else other.timestamp_ms - one.timestamp_ms


# Former owners of one connector or task that are remembered: what they wrote is long followed by others
_MOST_WRITERS = 4


class Contradictions:
    """Which workers wrote statuses that another one took back at once, by the same generation of its group.

    A worker does so when it runs what the other one says that it runs: as each of two clusters does to the other.
    Memory: a few names a connector or task.
    """

    def __init__(self) -> None:
        self._since: dict[Subject, dict[tuple[str, int], set[str]]] = {}  # who has written since that one's last word
        self._taken_back: dict[Subject, set[str]] = {}

    def apply(self, event: StatusEvent) -> None:
        """Apply the next event of the status topic."""
        match event:
            case StatusRead(subject, StoredStatus() as status):
                since, said = self._since.setdefault(subject, {}), (status.worker_id, status.generation)
                between = since.pop(said, set()) - {status.worker_id}
                if between:
                    self._taken_back.setdefault(subject, set()).update(between)
                for others in since.values():
                    others.add(status.worker_id)
                since[said] = set()
                if len(since) > _MOST_WRITERS:
                    del since[next(iter(since))]

    def taken_back(self, subject: Subject) -> Collection[str]:
        """The workers whose statuses of it were taken back."""
        return self._taken_back.get(subject, ())


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """The config topic as a worker folds it, what is in force, and the newest write that no transaction guards."""

    snapshot: ClusterSnapshot
    live: LiveRecords = field(repr=False)
    bare_write: LogRecord | None = None


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The status topic as a worker folds it, what is in force, and whose statuses were taken back."""

    statuses: StatusCache = field(repr=False)
    live: LiveRecords = field(repr=False)
    contradictions: Contradictions = field(default_factory=Contradictions, repr=False)

    def apply(self, record: LogRecord) -> None:
        """Take the next record of the topic."""
        event = decode_record(record.key, record.value)
        self.statuses.apply(event)
        self.contradictions.apply(event)
        self.live.apply(record)


@dataclass(frozen=True, slots=True)
class OffsetFacts:
    """The offsets topic as a worker folds it, and what is in force."""

    offsets: OffsetCache = field(repr=False)
    live: LiveRecords = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All that is known of a cluster; None means not examined, and `not_checked` says why.

    `now_ms` is the time before the first record was read: newer records may belong to what was not read yet.
    """

    now_ms: int
    worker: Mapping[str, str] = field(default_factory=dict, repr=False)
    brokers: int | None = None
    topics: Mapping[InternalTopic, TopicFacts] = field(default_factory=dict)
    configs: ConfigFacts | None = None
    statuses: StatusFacts | None = None
    offsets: OffsetFacts | None = None
    group: LiveGroup | None = None
    others: tuple[LiveGroup, ...] = ()
    """Other groups of Connect workers on the same brokers."""
    knows_others: bool = True
    """Whether the brokers reported which there are."""
    conditions: Mapping[Subject, tuple[str, TaskCondition]] = field(default_factory=dict)
    """The URL of the worker that runs a connector or task, and how this fares, as that worker says."""
    not_checked: tuple[tuple[str, str], ...] = ()
    """What could not be looked at, and why."""

    @property
    def is_live(self) -> bool:
        """Whether a worker of the cluster is known to run."""
        return self.group is not None and self.group.is_live

    def is_settled(self, record: LogRecord | None) -> bool:
        """Whether a record is older than the first read, so that everything it belongs to was read too."""
        return record is not None and (record.timestamp_ms is None or record.timestamp_ms <= self.now_ms)

    def topic_name(self, which: InternalTopic) -> str:
        found = self.topics.get(which)
        return found.name if found is not None else self.worker.get(which.setting, str(which))


def evidence_of(record: LogRecord) -> Evidence:
    """The place of a record."""
    return Evidence(record.topic, record.partition, record.offset, key_text(record.key))


def key_text(key: bytes | None) -> str | None:
    """A key as written on a command line: its text, or `base64:..` where the text would give other bytes."""
    if key is None:
        return None
    shown = shown_bytes(key)
    if isinstance(shown, str) and not shown.startswith(_BASE64):
        return shown
    return _BASE64 + base64.b64encode(key).decode()


_BASE64 = "base64:"


def topic_word(which: InternalTopic) -> str:
    """The topic's word on the command line."""
    return "offsets" if which is InternalTopic.OFFSET else str(which)


# A line for a shell: it takes some 100 KB, and a key has some 100 bytes
_MOST_KEYS = 500


def in_parts(left: Mapping[str, Sequence[LogRecord]]) -> Iterator[tuple[str, Sequence[LogRecord]]]:
    """Records by name, at most so many at a time as one command can delete."""
    for name, records in left.items():
        for start in range(0, len(records), _MOST_KEYS):
            yield name, records[start : start + _MOST_KEYS]


def unknown_keys(
    facts: ClusterFacts, which: InternalTopic, found: Sequence[Finding], live: LiveRecords
) -> Sequence[Finding]:
    """The findings of unknown keys. Of a topic that holds nothing else there is one, which deletes nothing: it is
    probably another topic, named by mistake.
    """
    if not found or len(found) < sum(1 for _ in live):
        return found
    one = Finding(
        code=found[0].code,
        severity=found[0].severity,
        sentence=f"Topic {facts.topic_name(which)} may not be the {which} topic of this cluster: it has "
        f"{pluralize(len(found), 'record')}, none of them with a key that Connect writes there",
        evidence=tuple(evidence for finding in found for evidence in finding.evidence),
        hint=f"Check {which.setting}. If it is the right topic: workers skip these records, and "
        f"`connect topics {topic_word(which)} delete --force` deletes them.",
    )
    return (one,)


def delete_command(
    which: InternalTopic, records: Iterable[LogRecord], *, in_spite_of: ClusterFacts | None = None
) -> tuple[str, ...]:
    """The command that deletes these records; empty when one of them has no key.

    `in_spite_of`: adds --force when workers are live, for records that no worker needs.
    """
    keys = [key_text(record.key) for record in records]
    words = [key for key in keys if key is not None]
    if len(words) < len(keys):
        return ()
    options: tuple[str, ...] = ("--force",) if in_spite_of is not None and in_spite_of.is_live else ()
    if any(word.startswith("-") for word in words):
        options += ("--",)
    return ("connect", "topics", topic_word(which), "delete", *options, *words)
