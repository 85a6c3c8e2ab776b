"""Reads what `document.py` exports, or compares an import with: configs, offsets, groups of sinks."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.archive.document import Archive, GroupState, LiveTopics
from kconnect.admin.direct.read.connector_types import connector_type
from kconnect.admin.direct.read.reader import ClusterReader, ConfigView, Latest, OffsetView
from kconnect.errors import ConfigError, NotFoundError, RetriableError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorType, TopicPartition
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.offsets_admin import consumer_group_of
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec, ensure_internal_topic
from kconnect.runtime.storage.internal_topic_specs import internal_topic_specs
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.topic_offsets import OffsetCache

_PAUSE_S = 0.1
_OWN_TOPIC = "offsets.storage.topic"
_OF_NO_MATTER = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.json.JsonConverter")


def missing_topics(access: ClusterAccess, reader: ClusterReader) -> tuple[InternalTopic, ...]:
    """Which of the three topics do not exist (yet)."""
    names = {which: access.topic(which) for which in InternalTopic}
    there = reader.admin.describe_topics(sorted(set(names.values())), access.timeout_s)
    return tuple(which for which, name in names.items() if name not in there)


def topic_specs(access: ClusterAccess, topics: Collection[InternalTopic]) -> list[InternalTopicSpec]:
    """Topics as a worker of these settings makes them. Errors: ConfigError for a setting that a worker refuses.

    Converters, which a worker cannot do without, have no part in it: they need not be known.
    """
    specs = internal_topic_specs(DistributedConfig.parse({**_OF_NO_MATTER, **access.worker}))
    found: dict[InternalTopic, InternalTopicSpec] = {
        InternalTopic.CONFIG: specs.config,
        InternalTopic.OFFSET: specs.offsets,
        InternalTopic.STATUS: specs.status,
    }
    return [found[which] for which in topics]


def create_topics(access: ClusterAccess, reader: ClusterReader, specs: Collection[InternalTopicSpec]) -> None:
    """Create topics as a worker does, and within the command's deadline, which a worker has not.

    Errors: ConfigError, also for more replicas than there are brokers: no patience makes them; TimedOutError,
    ConnectError.
    """
    brokers = reader.admin.broker_count(access.timeout_s)
    for spec in specs:
        if spec.replication_factor > brokers:
            setting = f"{spec.setting.removesuffix('topic')}replication.factor"
            count = pluralize(spec.replication_factor, "replica")
            raise ConfigError(
                f"Topic {spec.topic} cannot be created with {count} ({setting}): the cluster has "
                f"{pluralize(brokers, 'broker')}",
                hint=f"Lower {setting} (-1 leaves it to the broker), or start more brokers.",
            )
    for spec in specs:
        within_s = min(spec.timeout_s, access.timeout_s)
        request_s = min(spec.request_timeout_s, access.timeout_s)
        ensure_internal_topic(reader.admin, replace(spec, timeout_s=within_s, request_timeout_s=request_s))
        _await_leaders(access, reader, spec.topic)


def _await_leaders(access: ClusterAccess, reader: ClusterReader, topic: str) -> None:
    """Partitions of a topic that was just created may have no leader yet."""
    deadline = time.monotonic() + access.timeout_s
    while True:
        info = reader.admin.describe_topics([topic], access.timeout_s).get(topic)
        partitions = [TopicPartition(topic, number) for number in range(info.partitions if info else 0)]
        why: Exception | None = None
        try:
            if reader.admin.log_offsets(partitions, "end", access.timeout_s):
                return
        except (RetriableError, NotFoundError) as error:
            why = error
        if time.monotonic() > deadline:
            raise TimedOutError(
                f"Topic {topic} was created, but could not be read within {access.timeout_s:g} s (--timeout)"
            ) from why
        time.sleep(_PAUSE_S)


def read_cluster(
    access: ClusterAccess,
    reader: ClusterReader,
    names: Collection[str] | None = None,
    beside: Archive | None = None,
    missing: Collection[InternalTopic] = (),
) -> LiveTopics:
    """What the cluster holds; groups and own offsets topics of these connectors only, where they are given.

    `beside` is an archive to compare with: its groups and own topics are read as well. Topics in `missing` are
    taken to be empty.
    Errors: as ClusterReader; ConnectError of a group's admin client.
    """
    configs = ConfigView(ClusterSnapshot(), Latest()) if InternalTopic.CONFIG in missing else reader.configs()
    offsets = OffsetView(OffsetCache(), Latest()) if InternalTopic.OFFSET in missing else reader.offsets()
    known: dict[str, Mapping[str, str]] = {
        name: configs.snapshot.configs[name] for name in configs.snapshot.connectors if names is None or name in names
    }
    if beside is not None:
        known |= {name: found.config for name, found in beside.connectors.items()}
    groups = _groups(access, known, beside)
    return LiveTopics(configs, offsets, _own_offsets(access, reader, known), groups)


def _own_offsets(
    access: ClusterAccess, reader: ClusterReader, known: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, OffsetView]]:
    """Offsets topics of connectors' own, where they are there and not the worker's."""
    named = {
        name: topic
        for name, config in known.items()
        if (topic := config.get(_OWN_TOPIC, "").strip()) and topic != access.topic(InternalTopic.OFFSET)
    }
    if not named:
        return {}
    there = reader.admin.describe_topics(sorted(set(named.values())), access.timeout_s)
    views = {topic: reader.offsets(topic=topic) for topic in there}
    return {name: (topic, views[topic]) for name, topic in named.items() if topic in views}


def _groups(
    access: ClusterAccess, known: Mapping[str, Mapping[str, str]], beside: Archive | None
) -> dict[str, GroupState]:
    wanted = {
        name: (consumer_group_of(name, config), config)
        for name, config in known.items()
        if connector_type(config) is ConnectorType.SINK
    }
    if beside is not None:
        for name, found in beside.groups.items():
            wanted[name] = (found.group, known.get(name, {}))
    factory = kafka_group_offsets(access.worker, access.timeout_s, timeout_setting="--timeout")
    groups = {}
    for name, (group, config) in wanted.items():
        with factory(config) as client:
            offsets = client.list_offsets(group)
        if offsets or beside is not None:
            groups[name] = GroupState(group, offsets)
    return groups
