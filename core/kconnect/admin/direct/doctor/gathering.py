"""Gathers what the doctor examines: topic settings, records, live workers; one pass over each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.doctor.facts import (
    ClusterFacts,
    ConfigFacts,
    LeaderWrites,
    LiveRecords,
    OffsetFacts,
    StatusFacts,
    TopicFacts,
)
from kconnect.admin.direct.group.live_group import LiveGroup, LiveWorker, live_group, other_groups
from kconnect.client import ConnectClient
from kconnect.errors import ConfigError, ConnectError, NotFoundError, TimedOutError, UnreachableError
from kconnect.model import TaskCondition, TopicPartition
from kconnect.runtime.storage.snapshot import ConfigFold
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import Subject
from kconnect.runtime.storage.topic_offsets import OffsetCache

if TYPE_CHECKING:
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect.client import ClientAccess
    from kconnect.runtime.kafka.admin import TopicInfo

# A worker that is busy or gone must not hold up those who ask about topics
_ANSWER_S: Final = 2.0
_AT_ONCE: Final = 8


Conditions: TypeAlias = Mapping[Subject, TaskCondition]
Ask: TypeAlias = Callable[[LiveWorker], "Conditions | ConnectError"]
"""Conditions of what a worker runs; why it gave none. Threads: several at once."""


def asks_as(access: ClientAccess | None = None) -> Ask:
    """Over REST; `access`: who we are to the workers."""
    return partial(_ask, access)


def gather_facts(access: ClusterAccess, reader: ClusterReader, now_ms: int, ask: Ask | None = None) -> ClusterFacts:
    """Everything the given settings allow to know; a topic or group that is not named is left out.

    `ask`: how workers are asked for the conditions of what they run; over REST as nobody in particular unless given.
    The configs are read first, so that what belongs to a younger connector is known to be young.
    Errors: ConfigError when no topic is named; ConnectError when the brokers do not answer or refuse a topic.
    """
    named = {which: access.topic(which) for which in InternalTopic if access.worker.get(which.setting, "").strip()}
    if not named:
        raise ConfigError(
            "None of the cluster's topics is known",
            hint="Give the worker's file, --worker WORKER.properties, or --config-topic and the like.",
        )
    brokers = reader.admin.broker_count(access.timeout_s)  # also says it best when none answers
    gathering = _Gathering(access, reader, ask or asks_as(), [])
    found = reader.admin.describe_topics(list(named.values()), access.timeout_s, right="READ")
    topics = {which: gathering.topic(name, found.get(name)) for which, name in named.items()}
    there = {which for which, topic in topics.items() if topic.is_there}
    for which in InternalTopic:
        if which not in named:
            gathering.not_checked.append((f"the {which} topic", f"{which.setting} is not known"))
    configs = gathering.configs() if InternalTopic.CONFIG in there else None
    if configs is None:
        gathering.not_checked.append(("what belongs to no connector", "the config topic was not read"))
    statuses = gathering.statuses() if InternalTopic.STATUS in there else None
    offsets = gathering.offsets() if InternalTopic.OFFSET in there else None
    group = gathering.group()
    others = () if group is None else gathering.others()
    conditions = gathering.conditions(group)
    return ClusterFacts(
        now_ms=now_ms,
        worker=access.worker,
        brokers=brokers,
        topics=topics,
        configs=configs,
        statuses=statuses,
        offsets=offsets,
        group=group,
        others=others or (),
        knows_others=others is not None,
        conditions=conditions,
        not_checked=tuple(gathering.not_checked),
    )


@dataclass(frozen=True, slots=True)
class _Gathering:
    access: ClusterAccess
    reader: ClusterReader
    ask: Ask
    not_checked: list[tuple[str, str]]

    def topic(self, name: str, found: TopicInfo | None) -> TopicFacts:
        if found is None:
            return TopicFacts(name, is_there=False)
        try:
            configs = self.reader.admin.topic_configs(name, self.access.timeout_s)
        except (UnreachableError, TimedOutError):
            raise
        except ConnectError as error:  # a right of its own, which who may read a topic need not have
            self.not_checked.append((f"the settings of topic {name}", str(error)))
            configs = None
        return TopicFacts(
            name, True, found.partitions, found.replication_factor, configs, found.behind, found.least_in_sync
        )

    def configs(self) -> ConfigFacts:
        fold, live, writes = ConfigFold(), LiveRecords(), LeaderWrites()
        for record in self.reader.records(InternalTopic.CONFIG):
            fold.apply(record)
            live.apply(record)
            if record.partition == 0:
                writes.apply(record)
        end = None
        if self.access.is_exactly_once:
            first = TopicPartition(self.access.topic(InternalTopic.CONFIG), 0)
            end = self.reader.admin.log_offsets([first], "end", self.access.timeout_s)[first]
        return ConfigFacts(fold.snapshot(), live, writes.bare(end))

    def statuses(self) -> StatusFacts:
        found = StatusFacts(StatusCache(), LiveRecords())
        for record in self.reader.records(InternalTopic.STATUS):
            found.apply(record)
        return found

    def offsets(self) -> OffsetFacts:
        cache, live = OffsetCache(), LiveRecords()
        for record in self.reader.records(InternalTopic.OFFSET):
            if record.key is not None:
                cache.apply(record.key, record.value, record.timestamp_ms)
            live.apply(record)
        return OffsetFacts(cache, live)

    def conditions(self, group: LiveGroup | None) -> Mapping[Subject, tuple[str, TaskCondition]]:
        found, not_answered = _ask_conditions(() if group is None else group.workers, self.ask)
        self.not_checked.extend(not_answered)
        return found

    def group(self) -> LiveGroup | None:
        of_workers = "statuses of workers that are gone, the session key's age"
        if not self.access.has_group:
            self.not_checked.append((f"{of_workers}, topics shared with another cluster", "group.id is not known"))
            return None
        try:
            own = live_group(self.access)
        except (UnreachableError, TimedOutError) as error:  # its coordinator is down; brokers of the topics answered
            self.not_checked.append((f"{of_workers}, topics shared with another cluster", str(error)))
            return None
        if not own.is_settled:
            self.not_checked.append((of_workers, f"group {own.name} is rebalancing"))
        return own

    def others(self) -> tuple[LiveGroup, ...] | None:
        """Returns None where the brokers do not tell."""
        try:
            return other_groups(self.access)
        except (UnreachableError, TimedOutError):
            raise
        except ConnectError as error:
            self.not_checked.append(("topics shared with another cluster", str(error)))
            return None


def _ask_conditions(
    workers: Iterable[LiveWorker], ask: Ask
) -> tuple[Mapping[Subject, tuple[str, TaskCondition]], list[tuple[str, str]]]:
    """Worker and condition of each connector or task that has one; what could not be asked, and why. Java has none."""
    asked = [worker for worker in workers if worker.url]
    found: dict[Subject, tuple[str, TaskCondition]] = {}
    not_checked: list[tuple[str, str]] = []
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="conditions") as pool:
        for worker, answer in zip(asked, pool.map(ask, asked), strict=True):
            if isinstance(answer, ConnectError):
                not_checked.append((f"the condition of what runs on {worker.url}", str(answer)))
            else:
                found |= {subject: (worker.url, condition) for subject, condition in answer.items()}
    return found, not_checked


def _ask(access: ClientAccess | None, worker: LiveWorker) -> Conditions | ConnectError:
    try:
        with ConnectClient(worker.url, timeout_s=_ANSWER_S, connect_timeout_s=_ANSWER_S, access=access) as client:
            return client.conditions()
    except NotFoundError:  # Java's
        return {}
    except ConnectError as error:
        return error
