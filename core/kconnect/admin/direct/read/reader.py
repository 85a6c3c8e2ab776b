"""ClusterReader: what the three topics hold, now or at an earlier point, folded or record by record.

Where one has another name, it suggests topics that look like it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.group.live_group import LiveGroup, other_groups
from kconnect.admin.direct.group.other_groups import OtherGroups, sort_other_groups
from kconnect.admin.direct.read.record_json import kind_of
from kconnect.errors import ConnectError, DataError, NotFoundError, TimedOutError, UnreachableError
from kconnect.logs.wording import pluralize
from kconnect.runtime.kafka.auth_errors import is_hang_up
from kconnect.runtime.kafka.partition_reader import READ_COMMITTED
from kconnect.runtime.kafka.scan import ScanSpec, Stop, scan
from kconnect.runtime.storage.config_topic import Unknown
from kconnect.runtime.storage.offset_topic import canonical_key
from kconnect.runtime.storage.snapshot import ClusterSnapshot, ConfigFold
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import Ignored, decode_record
from kconnect.runtime.storage.topic_offsets import OffsetCache

if TYPE_CHECKING:
    from kconnect.model import LogRecord
    from kconnect.runtime.kafka.admin import KafkaAdmin


log = logging.getLogger(__name__)

Known = TypeVar("Known")
_TIMEOUT_SETTING: Final = "--timeout"
# A rebalance of live workers takes some hundred milliseconds to some seconds; a look takes a few milliseconds
_REBALANCE_S = 5.0
_LOOK_EVERY_S = 0.1
_OTHER_PROTOCOL = (
    "The broker hangs up: it may want TLS or a login. Give security.protocol (SSL, SASL_PLAINTEXT, SASL_SSL), and with "
    "SASL sasl.mechanism and sasl.jaas.config, in the worker's file or in --command-config."
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Up to where to read: with neither, to the current end.

    `at` has the last offset to read of each partition that is cut short; `until_ms` is the time of the last record.
    """

    at: Mapping[int, int] = field(default_factory=dict)
    until_ms: int | None = None


class Latest:
    """The newest record of each key that has a value: where what is in force was written.

    Partitions are read in any order. Of a key that two of them hold, which takes a producer with another partitioner,
    the record with the later time counts, so that every look finds the same one. Differs: Java's workers take the one
    that happens to be read last. Memory: live keys; with `over_partitions` also those of tombstones that are there.
    """

    def __init__(self, *, over_partitions: bool = False) -> None:
        self._over_partitions = over_partitions
        self._by_key: dict[bytes, LogRecord] = {}

    def apply(self, record: LogRecord) -> bool:
        """Take it in; False when another partition holds a newer one of its key."""
        key = record.key or b""
        known = self._by_key.get(key)
        if known is not None:
            if known.partition != record.partition and _age(known) > _age(record):
                return False
            if known.value is None or record.value is None:
                del self._by_key[key]
        if record.value is not None or self._over_partitions:
            self._by_key[key] = record
        return True

    def get(self, key: bytes) -> LogRecord | None:
        found = self._by_key.get(key)
        return None if found is None or found.value is None else found

    def all(self) -> list[LogRecord]:
        """In the order in which the keys came."""
        return [record for record in self._by_key.values() if record.value is not None]


def _age(record: LogRecord) -> tuple[int, int]:
    return record.timestamp_ms or 0, record.partition


class Seen:
    """Counts of what was read: all records, those with a key of an unknown kind, and how far."""

    def __init__(self) -> None:
        self.records = 0
        self.strangers = 0
        self.first_stranger: LogRecord | None = None
        self.next_offsets: dict[int, int] = {}
        """Partition -> the offset after the last record."""

    @property
    def missing(self) -> int:
        """How many offsets below the last record have none: those that compaction took, and ends of transactions."""
        return sum(self.next_offsets.values()) - self.records

    def count(self, record: LogRecord, *, is_stranger: bool) -> None:
        self.records += 1
        self.next_offsets[record.partition] = record.offset + 1
        if is_stranger:
            self.strangers += 1
            self.first_stranger = self.first_stranger or record


@dataclass(frozen=True, slots=True)
class ConfigView:
    """The config topic, folded as a worker does, and the records that are in force."""

    snapshot: ClusterSnapshot
    latest: Latest = field(repr=False)
    seen: Seen = field(default_factory=Seen, repr=False)
    fold: ConfigFold = field(default_factory=ConfigFold, repr=False)
    """What made the snapshot, for records that come later."""


@dataclass(frozen=True, slots=True)
class StatusView:
    """The status topic, folded, and the records that are in force."""

    statuses: StatusCache = field(repr=False)
    latest: Latest = field(repr=False)
    seen: Seen = field(default_factory=Seen, repr=False)
    missing: str | None = None
    """That the topic does not exist, as a sentence: then nothing is known."""


@dataclass(frozen=True, slots=True)
class OffsetView:
    """The offsets topic, folded, and the records that are in force."""

    offsets: OffsetCache = field(repr=False)
    latest: Latest = field(repr=False)
    seen: Seen = field(default_factory=Seen, repr=False)

    @property
    def entries(self) -> Mapping[bytes, bytes | None]:
        """Keys and values, one for each key."""
        return self.offsets.entries()


class ClusterReader:
    """Reads a cluster's topics for one command. A context manager: it holds one admin client.

    Aborted transactions are left out, and one that is still open is not waited for: what it wrote is not in force.
    Errors of every method: ConfigError for a setting that is missing, NotFoundError when a topic is not there,
    UnreachableError, TimedOutError, ConnectError for what the broker refuses. Of those that fold a topic: DataError
    when it has records, and not one that belongs into this one of the three, unless `any_kind`.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._admin: KafkaAdmin | None = None
        self._other_groups: OtherGroups | None = None

    def configs(self, bounds: Bounds = Bounds(), *, any_kind: bool = False) -> ConfigView:
        """The config topic."""
        fold, latest, seen = ConfigFold(), Latest(), Seen()
        for record in self.records(InternalTopic.CONFIG, bounds):
            changes = fold.apply(record)
            latest.apply(record)
            seen.count(record, is_stranger=bool(changes) and type(changes[0]) is Unknown)
        if not any_kind:
            self._check_kind(InternalTopic.CONFIG, seen)
        return ConfigView(fold.snapshot(), latest, seen, fold)

    def statuses(self, bounds: Bounds = Bounds(), *, any_kind: bool = False) -> StatusView:
        """The status topic."""
        cache, latest, seen = StatusCache(), Latest(over_partitions=True), Seen()
        for record in self.records(InternalTopic.STATUS, bounds):
            event = decode_record(record.key, record.value)
            if latest.apply(record):
                cache.apply(event)
            is_stranger = isinstance(event, Ignored) and kind_of(record.key) is not InternalTopic.STATUS
            seen.count(record, is_stranger=is_stranger)
        if not any_kind:
            self._check_kind(InternalTopic.STATUS, seen)
        return StatusView(cache, latest, seen)

    def known_statuses(self) -> StatusView:
        """The status topic; empty, with the reason, where it does not exist: the first worker creates it again."""
        try:
            return self.statuses()
        except NotFoundError as error:
            return StatusView(StatusCache(), Latest(over_partitions=True), missing=str(error))

    def offsets(self, bounds: Bounds = Bounds(), topic: str | None = None, *, any_kind: bool = False) -> OffsetView:
        """The worker's offsets topic, or a connector's own one."""
        cache, latest, seen = OffsetCache(), Latest(over_partitions=True), Seen()
        for record in self.records(InternalTopic.OFFSET, bounds, topic=topic):
            if latest.apply(record) and record.key is not None:
                cache.apply(record.key, record.value, record.timestamp_ms)
            seen.count(record, is_stranger=isinstance(canonical_key(record.key or b""), bytes))
        if not any_kind:
            self._check_kind(InternalTopic.OFFSET, seen, topic)
        return OffsetView(cache, latest, seen)

    def records(
        self,
        which: InternalTopic,
        bounds: Bounds = Bounds(),
        *,
        topic: str | None = None,
        begin: Mapping[int, int] | None = None,
        follow: Stop | None = None,
    ) -> Iterator[LogRecord]:
        """The records one by one, each partition in order; with `follow`, without end until that is set.

        `begin`: partition -> first offset. Memory: one batch.
        """
        name = topic or self._access.topic(which)
        spec = ScanSpec(
            topic=name,
            consumer=self._access.clients(which).consumer,
            isolation_level=READ_COMMITTED,
            begin=begin or {},
            end={partition: offset + 1 for partition, offset in bounds.at.items()},
            until_ms=bounds.until_ms,
            timeout_s=self._access.timeout_s,
            timeout_setting=_TIMEOUT_SETTING,
            is_awaited=False,
        )
        try:
            yield from scan(spec, self.admin, follow=follow)
        except NotFoundError as err:
            err.hint = hint_of_topics(self._access, which, self.admin, name)
            raise
        except UnreachableError as err:
            if is_hang_up(str(err)):
                err.hint = _OTHER_PROTOCOL
            raise

    def other_groups(self) -> OtherGroups:
        """Live workers of other groups on the same brokers, and whether they use these topics; read once."""
        if self._other_groups is None:
            groups = self._reported_groups()
            statuses = self._known(lambda: self.statuses().statuses) if groups else None
            configs = self._known(lambda: self.configs().snapshot) if groups else None
            self._other_groups = sort_other_groups(groups, statuses, configs)
        return self._other_groups

    def _reported_groups(self) -> list[LiveGroup]:
        """The other groups with workers. While one rebalances, the broker does not tell who these are: it is asked
        again, for a rebalance of some seconds.
        """
        deadline = time.monotonic() + min(self._access.timeout_s, _REBALANCE_S)
        while True:
            groups = [group for group in other_groups(self._access) if group.is_live]
            if all(group.is_reported for group in groups) or time.monotonic() > deadline:
                return groups
            time.sleep(_LOOK_EVERY_S)

    def _known(self, read: Callable[[], Known]) -> Known | None:
        """Returns None when the topic is not named, does not exist, or may not be read."""
        try:
            return read()
        except (UnreachableError, TimedOutError):
            raise
        except ConnectError as error:
            log.info("Other groups are judged without a topic that cannot be read: %s", error)
            return None

    def _check_kind(self, which: InternalTopic, seen: Seen, topic: str | None = None) -> None:
        if not seen.records or seen.strangers < seen.records or seen.first_stranger is None:
            return
        name, key = topic or self._access.topic(which), seen.first_stranger.key
        other = kind_of(key)
        looks = f"; it looks like a topic of Connect's, with setting {other.setting}" if other is not None else ""
        raise DataError(
            f"Topic {name!r} is not the {which} topic of a Connect cluster: none of its "
            f"{pluralize(seen.records, 'record')} has a key that is found there, the first one is "
            f"{(key or b'')[:100]!r}{looks}",
            hint=hint_of_topics(self._access, which, self.admin, name),
        )

    @property
    def admin(self) -> KafkaAdmin:
        """The admin client, made when it is first needed."""
        if self._admin is None:
            from kconnect.runtime.kafka.admin import KafkaAdmin

            self._access.raise_if_refused()
            self._admin = KafkaAdmin(self._access.clients().admin, "connect", timeout_setting=_TIMEOUT_SETTING)
        return self._admin

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_ENDS = {
    InternalTopic.CONFIG: re.compile(r"(^|[-_.])configs?$", re.IGNORECASE),
    InternalTopic.STATUS: re.compile(r"(^|[-_.])status(es)?$", re.IGNORECASE),
    InternalTopic.OFFSET: re.compile(r"(^|[-_.])offsets?$", re.IGNORECASE),
}
_MOST_NAMES = 5
# To look into a topic takes some 20 ms: what comes to mind first is enough for a hint
_MOST_LOOKED_INTO, _RECORDS_LOOKED_AT, _LOOK_S = 10, 100, 1.0


def hint_of_topics(access: ClusterAccess, which: InternalTopic, admin: KafkaAdmin, wrong: str) -> str:
    """A hint for a topic name that does not exist, or is of another kind."""
    correct = f"Correct {which.setting} or --{which}-topic."
    try:
        topics = {name: count for name, count in admin.topic_names(access.timeout_s).items() if name[:2] != "__"}
        topics.pop(wrong, None)
        found = named_alike(which, topics, wrong) or _that_hold_it(access, which, admin, topics)
    except ConnectError as err:
        return f"{correct} Its topics cannot be looked at: {err}"
    if not found:
        return f"{correct} No topic of this Kafka cluster looks like it."
    return f"{correct} Topics that look like it: {', '.join(found)}"


def named_alike(which: InternalTopic, topics: Iterable[str], wrong: str) -> list[str]:
    """Topics with a usual name for it, those nearest to the wrong one first."""
    usual = [name for name in topics if _ENDS[which].search(name)]
    near = get_close_matches(wrong, usual, n=_MOST_NAMES)
    return [*near, *(name for name in usual if name not in near)][:_MOST_NAMES]


def _that_hold_it(
    access: ClusterAccess, which: InternalTopic, admin: KafkaAdmin, topics: Mapping[str, int]
) -> list[str]:
    """Compacted topics with a key of this kind among their first records."""
    found = []
    for name in list(topics)[:_MOST_LOOKED_INTO]:
        if which is InternalTopic.CONFIG and topics[name] != 1:
            continue
        if "compact" not in admin.topic_configs(name, access.timeout_s).get("cleanup.policy", ""):
            continue
        spec = ScanSpec(
            topic=name,
            consumer=access.clients(which).consumer,
            end=dict.fromkeys(range(topics[name]), _RECORDS_LOOKED_AT),
            timeout_s=_LOOK_S,
            timeout_setting="--timeout",
            is_awaited=False,
        )
        if any(kind_of(record.key) is which for record in scan(spec, admin)):
            found.append(name)
    return found[:_MOST_NAMES]
