"""LagReader: how far sinks are behind, with few requests for many of them.

Differs: Java shows the lag of a task's consumer alone, so none of a sink that is stopped, or whose tasks failed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from kconnect.errors import ConnectError, TimedOutError, UnreachableError
from kconnect.logs.redaction import redact
from kconnect.model import PartitionLag, SinkLag, TopicPartition
from kconnect.runtime.config.client_config import admin_config, admin_settings, consumer_config
from kconnect.runtime.herder.offsets.group_offset_fetch import GroupOffsetReader
from kconnect.runtime.herder.offsets.offsets_admin import consumer_group_of
from kconnect.runtime.herder.offsets.sink_lag import listed_topics, matching_topics, sink_lag, starts_at_end

if TYPE_CHECKING:
    from kconnect.runtime.kafka.admin import KafkaAdmin
    from kconnect.runtime.kafka.range_consumer import RangeConsumer

log = logging.getLogger(__name__)

_CLIENT_ID: Final = "kconnect-sink-lag"
_Settings: TypeAlias = tuple[tuple[str, str], ...]
"""Holds the settings of a Java admin client, sorted."""


class LagReader:
    """Asks the brokers. Keeps connections to coordinators until `close`. Threads: any, one read at a time.

    Per read: a request for each sink's group on a connection that is kept, one for the topics, and one each for the
    ends and the beginnings of all partitions. Sinks whose admin clients have settings of their own (`admin.override.`)
    are asked for apart. Offsets before an end that hold no record (markers of transactions) are no lag.
    The admin client lives for one read: it would log each outage once more.
    """

    def __init__(self, worker: Mapping[str, str], timeout_s: float, timeout_setting: str) -> None:
        """`timeout_s`: of each request; messages name its setting."""
        self._worker = worker
        self._timeout_s = timeout_s
        self._timeout_setting = timeout_setting
        self._lock = threading.Lock()  # guards the readers
        self._groups: dict[_Settings, GroupOffsetReader] = {}
        self._empty = EmptyOffsets(worker)

    def read(self, sinks: Mapping[str, Mapping[str, str]]) -> dict[str, SinkLag]:
        """The lag of each sink, by name; `sinks` are their configs, with references resolved.

        Errors: none; a lag that cannot be found has a `problem`.
        """
        with self._lock:
            found: dict[str, SinkLag] = {}
            by_settings: dict[_Settings, dict[str, Mapping[str, str]]] = {}
            for name, config in sinks.items():
                key = tuple(sorted(admin_settings(self._worker, config, client_id=_CLIENT_ID).items()))
                by_settings.setdefault(key, {})[name] = config
            for key in self._groups.keys() - by_settings.keys():
                self._drop(key)
            for key, some in by_settings.items():
                try:
                    found |= self._read(key, some)
                except ConnectError as err:
                    self._drop(key)
                    found |= dict.fromkeys(some, SinkLag(problem=redact(str(err))))
            return self._empty.without(found, sinks)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            for key in list(self._groups):
                self._drop(key)

    def _drop(self, key: _Settings) -> None:
        groups = self._groups.pop(key, None)
        if groups is not None:
            groups.close()

    def _read(self, key: _Settings, sinks: Mapping[str, Mapping[str, str]]) -> dict[str, SinkLag]:
        from kconnect.runtime.kafka.admin import KafkaAdmin  # here: it loads when the first sink is looked at

        if key not in self._groups:
            self._groups[key] = GroupOffsetReader(dict(key), self._timeout_s, timeout_setting=self._timeout_setting)
        found, looks = self._committed(self._groups[key], sinks)
        settings, _ = admin_config(self._worker, next(iter(sinks.values())), client_id=_CLIENT_ID)
        with KafkaAdmin(settings, "the lag of sinks", timeout_setting=self._timeout_setting) as admin:
            self._find_partitions(admin, sinks, looks)
            places = {at for look in looks.values() for at in look.all}
            end = admin.log_offsets(places, "end", self._timeout_s)
            begin = admin.log_offsets(places, "begin", self._timeout_s)
        for name, look in looks.items():
            at_end = starts_at_end(self._worker, sinks[name])
            first = {at: begin[at] for at in look.all if not (at_end and at not in look.committed)}
            found[name] = sink_lag(look.committed, look.partitions, first, end)
        return found

    def _committed(
        self, groups: GroupOffsetReader, sinks: Mapping[str, Mapping[str, str]]
    ) -> tuple[dict[str, SinkLag], dict[str, _Look]]:
        """Sinks whose group cannot be read, and the offsets of the others."""
        refused: dict[str, SinkLag] = {}
        looks: dict[str, _Look] = {}
        for name, config in sinks.items():
            try:
                looks[name] = _Look(groups.offsets(consumer_group_of(name, config)))
            except (UnreachableError, TimedOutError):  # it would be so for each of them, and last
                raise
            except ConnectError as err:  # of one group: what its principal may not read
                refused[name] = SinkLag(problem=redact(str(err)))
        return refused, looks

    def _find_partitions(
        self, admin: KafkaAdmin, sinks: Mapping[str, Mapping[str, str]], looks: Mapping[str, _Look]
    ) -> None:
        """Which partitions there are of each sink's topics, and of those its group has offsets of."""
        has_pattern = any((sinks[name].get("topics.regex") or "").strip() for name in looks)
        every = admin.topic_names(self._timeout_s) if has_pattern else {}
        topics = {
            name: {*listed_topics(sinks[name]), *matching_topics(self._worker, sinks[name], every)} for name in looks
        }
        committed = {at.topic for look in looks.values() for at in look.committed}
        names = {*committed, *(topic for some in topics.values() for topic in some)} - every.keys()
        counts = dict(every)
        if names:
            described = admin.describe_topics(names, self._timeout_s)
            counts |= {name: topic.partitions for name, topic in described.items()}
        for name, look in looks.items():
            look.partitions = {
                TopicPartition(topic, number) for topic in topics[name] for number in range(counts.get(topic, 0))
            }
            look.committed = {
                at: offset for at, offset in look.committed.items() if at.partition < counts.get(at.topic, 0)
            }


@dataclass(slots=True)
class _Look:
    committed: Mapping[TopicPartition, int]
    partitions: Collection[TopicPartition] = field(default_factory=set)

    @property
    def all(self) -> set[TopicPartition]:
        return {*self.committed, *self.partitions}


# More offsets than that are records for the most part, and reading them would cost more than the number is worth
_MOST: Final = 100
# All ranges of one look take no longer, and one of them no longer than this: a look goes to each sink in turn
_LOOK_S: Final = 1.0
_RANGE_S: Final = 0.5


class EmptyOffsets:
    """Counts records in the last offsets before the ends of partitions. Threads: one at a time.

    A sink commits the offset behind its last record, and what follows it may never be one: markers of transactions,
    records that were aborted or compacted away. Only reading tells. What was counted is kept until a partition's end or
    committed offset changes.
    """

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._worker = worker
        self._counted: dict[tuple[str, TopicPartition], tuple[int, int, int]] = {}  # from, end, records

    def without(self, lags: Mapping[str, SinkLag], sinks: Mapping[str, Mapping[str, str]]) -> dict[str, SinkLag]:
        """The lags with records alone where a sink is close to an end; `sinks` are their resolved configs.

        Errors: none; where nothing could be counted offsets stand for records, and the next look counts.
        """
        deadline_s = time.monotonic() + _LOOK_S
        for name, at in [key for key in self._counted if key[0] not in lags]:
            del self._counted[name, at]
        return {name: self._of_sink(name, lag, sinks[name], deadline_s) for name, lag in lags.items()}

    def _of_sink(self, name: str, lag: SinkLag, config: Mapping[str, str], deadline_s: float) -> SinkLag:
        near = [item for item in lag.partitions if 0 < item.lag <= _MOST]
        unknown = [item for item in near if not self._is_counted(name, item)]
        if unknown and time.monotonic() < deadline_s:
            try:
                self._count(name, unknown, config, deadline_s)
            except ConnectError as err:  # as well as offsets say it
                log.debug("The records that sink %s is behind could not be counted: %s", name, err)
        if not near:
            return lag
        return replace(lag, partitions=tuple(self._corrected(name, item) for item in lag.partitions))

    def _count(self, name: str, items: list[PartitionLag], config: Mapping[str, str], deadline_s: float) -> None:
        from kconnect.runtime.kafka.range_consumer import RangeConsumer  # here: most sinks are never close, or at 0

        client = f"kconnect-sink-lag-{name}"
        settings, _ = consumer_config(self._worker, config, client_id=client, group_id=client)
        reader = RangeConsumer(settings, f"the lag of {name}")
        try:
            for item in items:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return
                self._counted[name, _place(item)] = (
                    item.end_offset - item.lag,
                    item.end_offset,
                    _records(reader, item, min(left_s, _RANGE_S)),
                )
        finally:
            reader.close()

    def _is_counted(self, name: str, item: PartitionLag) -> bool:
        known = self._counted.get((name, _place(item)))
        return known is not None and known[:2] == (item.end_offset - item.lag, item.end_offset)

    def _corrected(self, name: str, item: PartitionLag) -> PartitionLag:
        return replace(item, lag=self._counted[name, _place(item)][2]) if self._is_counted(name, item) else item


def _place(item: PartitionLag) -> TopicPartition:
    return TopicPartition(item.topic, item.partition)


def _records(reader: RangeConsumer, item: PartitionLag, timeout_s: float) -> int:
    begin = item.end_offset - item.lag
    return sum(len(run) for run in reader.read(_place(item), begin, item.end_offset, _MOST, timeout_s))
