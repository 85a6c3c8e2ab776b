"""The doctor's repairs without a shell: what a finding's command would do, as a plan of edits or a restart.

A finding's `repair` is the words of a command. They are matched here, word by word; what is not known is left to the
reader of the command.

`topic_repair` is what is changed of an internal topic itself, so that workers start on it and it outlives a broker: it
is made, some of its settings are changed, or its partitions get replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.client import DirectClient
from kconnect.admin.direct.doctor.diagnosis import better_settings, possible_replicas
from kconnect.admin.direct.doctor.facts import TopicFacts
from kconnect.admin.direct.edit.connector_plans import restore_plan
from kconnect.admin.direct.edit.plan import EditPlan
from kconnect.admin.direct.edit.record_plans import delete_plan, put_plan
from kconnect.admin.direct.edit.replicas import more_replicas, place_replicas, raise_for_lost
from kconnect.admin.direct.edit.topic_creation import create_topics, topic_specs
from kconnect.admin.direct.read.reader import Bounds, ClusterReader, Latest
from kconnect.logs.wording import pluralize
from kconnect.model import TaskId
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec

_FORCE = "--force"
# Partitions whose new replicas are shown one by one
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Edits:
    """Records to write. `is_forced`: also where a live worker owns them, as the doctor's command has it."""

    plan: EditPlan
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """A request to a worker: restart a connector, with all of its tasks or without, or one task."""

    connector: str
    task: TaskId | None = None
    with_tasks: bool = False


Repair: TypeAlias = Edits | Restart


def repair_of(words: Sequence[str], client: DirectClient) -> Repair | None:
    """What a command would do, read from the topics as they are now; None for one that only a person can carry out.

    Errors: ConnectError when the records it names are not there any more.
    """
    options = words[: words.index("--")] if "--" in words else words
    is_forced, known = _FORCE in options, [word for word in options if word != _FORCE]
    match [*known, *words[len(options) + 1 :]]:
        case ["connect", "topics", "config", "restore", name, "--at", offset] if offset.isdecimal():
            then = client.reader.configs(Bounds(at={0: int(offset)}))
            return Edits(restore_plan(client.configs, then, name), is_forced)
        case ["connect", "topics", word, "delete", *keys] if keys and (which := _topic(word)) is not None:
            latest = _latest(client, which, any_kind=is_forced)
            return Edits(delete_plan(which, latest, keys, is_forced=is_forced), is_forced)
        case ["connect", "topics", word, "put", key, value] if (which := _topic(word)) is not None:
            latest = _latest(client, which, any_kind=is_forced)
            return Edits(put_plan(which, latest, key, value.encode(), is_forced=is_forced), is_forced)
        case ["connect", "connectors", "delete", name, "--direct"]:
            return Edits(client.plan("delete", name))
        case ["connect", "connectors", "restart", name]:
            return Restart(name)
        case ["connect", "connectors", "restart", name, "--tasks"]:
            return Restart(name, with_tasks=True)
        case ["connect", "tasks", "restart", name, task] if task.isdecimal():
            return Restart(name, TaskId(name, int(task)))
    return None


def _topic(word: str) -> InternalTopic | None:
    return {"config": InternalTopic.CONFIG, "status": InternalTopic.STATUS, "offsets": InternalTopic.OFFSET}.get(word)


def _latest(client: DirectClient, which: InternalTopic, *, any_kind: bool) -> Latest:
    match which:
        case InternalTopic.CONFIG:
            return client.reader.configs(any_kind=any_kind).latest
        case InternalTopic.STATUS:
            return client.reader.statuses(any_kind=any_kind).latest
    return client.reader.offsets(any_kind=any_kind).latest


@dataclass(frozen=True, slots=True)
class TopicRepair:
    """What to do to a topic; nothing where it is well."""

    topic: str
    make: InternalTopicSpec | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    """What these settings are now."""
    replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The brokers that partitions are to have, of those that have too few."""
    replicas_before: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    behind: int = 0
    """How many partitions have replicas that are not in sync now."""

    @property
    def is_empty(self) -> bool:
        return self.make is None and not self.settings and not self.replicas

    def lines(self) -> Iterator[str]:
        """Each change as a sentence's words."""
        if (spec := self.make) is not None:
            shape = [pluralize(count, word) for count, word in _shape(spec) if count > 0]
            yield f"create topic {self.topic}, as a worker would: {', '.join([*shape, 'cleanup.policy=compact'])}"
        for key, value in self.settings.items():
            yield f"set {key}={value} on topic {self.topic} (now {self.before[key]})"
        for number in sorted(self.replicas)[:_SHOWN]:
            now, then = (",".join(map(str, each[number])) for each in (self.replicas_before, self.replicas))
            yield f"add replicas to partition {number} of topic {self.topic}: broker {now} -> brokers {then}"
        if len(self.replicas) > _SHOWN:
            yield f"and {pluralize(len(self.replicas) - _SHOWN, 'partition')} more in the same way"

    def carry_out(self, access: ClusterAccess, reader: ClusterReader) -> None:
        """Errors: ConfigError for what a worker refuses; TimedOutError; ConnectError of the brokers."""
        if self.make is not None:
            create_topics(access, reader, [self.make])
        if self.settings:
            reader.admin.set_topic_configs(self.topic, self.settings, access.timeout_s)
        if self.replicas:
            place_replicas(access, reader.admin, self.topic, self.replicas)


def topic_repair(access: ClusterAccess, reader: ClusterReader, which: InternalTopic) -> TopicRepair:
    """What the topic lacks, by the doctor's rules.

    Errors: ConfigError of settings; ConflictError where no broker that is up has a partition; ConnectError.
    """
    name = access.topic(which)
    found = reader.admin.describe_topics([name], access.timeout_s).get(name)
    if found is None:
        return TopicRepair(name, make=topic_specs(access, [which])[0])
    configs = reader.admin.topic_configs(name, access.timeout_s)
    brokers = reader.admin.broker_ids(access.timeout_s)
    places = reader.admin.replica_places(name, access.timeout_s)
    more = more_replicas(places.replicas, brokers, possible_replicas(len(brokers)))
    raise_for_lost(name, places, more, brokers)
    then = min(map(len, {**places.replicas, **more}.values()), default=0)
    better = better_settings(TopicFacts(name, True, found.partitions, then, configs))
    before = {key: configs[key] for key in better}
    return TopicRepair(
        name, settings=better, before=before, replicas=more, replicas_before=places.replicas, behind=found.behind
    )


def _shape(spec: InternalTopicSpec) -> tuple[tuple[int, str], tuple[int, str]]:
    return (spec.partitions, "partition"), (spec.replication_factor, "replica")
