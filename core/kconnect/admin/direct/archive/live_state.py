"""Reads what `document.py` exports, or compares an import with: configs, offsets, groups of sinks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.archive.document import Archive, GroupState, LiveTopics
from kconnect.admin.direct.read.connector_types import connector_type
from kconnect.admin.direct.read.reader import ClusterReader, ConfigView, Latest, OffsetView
from kconnect.model import ConnectorType
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.log_ranges import LogRanges
from kconnect.runtime.herder.offsets.offsets_admin import consumer_group_of
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.topic_offsets import OffsetCache

_OWN_TOPIC = "offsets.storage.topic"


def missing_topics(access: ClusterAccess, reader: ClusterReader) -> tuple[InternalTopic, ...]:
    """Which of the three topics do not exist (yet)."""
    names = {which: access.topic(which) for which in InternalTopic}
    there = reader.admin.describe_topics(sorted(set(names.values())), access.timeout_s)
    return tuple(which for which, name in names.items() if name not in there)


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
    groups, logs = _groups(access, known, beside)
    return LiveTopics(configs, offsets, _own_offsets(access, reader, known), groups, logs)


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
) -> tuple[dict[str, GroupState], dict[str, LogRanges]]:
    """The groups, and of those in `beside` what can be read where it would set offsets."""
    wanted = {
        name: (consumer_group_of(name, config), config)
        for name, config in known.items()
        if connector_type(config) is ConnectorType.SINK
    }
    if beside is not None:
        for name, found in beside.groups.items():
            wanted[name] = (found.group, known.get(name, {}))
    factory = kafka_group_offsets(access.worker, access.timeout_s, timeout_setting="--timeout")
    groups, logs = {}, {}
    for name, (group, config) in wanted.items():
        with factory(config) as client:
            offsets = client.list_offsets(group)
            if beside is not None and name in beside.groups:
                logs[name] = client.log_ranges(beside.groups[name].offsets)
        if offsets or beside is not None:
            groups[name] = GroupState(group, offsets)
    return groups, logs
