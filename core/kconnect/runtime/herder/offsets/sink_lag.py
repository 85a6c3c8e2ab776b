"""How far sinks are behind the ends of their topics, from committed offsets and the logs' ends. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.model import PartitionLag, SinkLag, TopicPartition
from kconnect.runtime.config.client_config import offset_reset
from kconnect.runtime.config.topic_pattern import TopicPattern

_OWN: Final = ("name", "topics", "topics.regex")


def sink_lag(
    committed: Mapping[TopicPartition, int],
    partitions: Collection[TopicPartition],
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> SinkLag:
    """The lag in each of a sink's partitions, and in others of which its group has offsets.

    In a partition without an offset the tasks will start at `begin`, or at the end where that has none. Partitions
    without an end, such as those of deleted topics, are left out.
    """
    found = []
    for at in sorted({*committed, *partitions}):
        if at not in end:
            continue
        offset = committed.get(at)
        start = begin.get(at, end[at]) if offset is None else max(offset, begin.get(at, 0))
        found.append(PartitionLag(at.topic, at.partition, offset, end[at], max(end[at] - start, 0)))
    return SinkLag(tuple(found))


def lag_settings(connector: Mapping[str, str]) -> dict[str, str]:
    """The settings of a sink that say where its offsets and topics are."""
    return {
        key: value
        for key, value in connector.items()
        if value is not None and (key in _OWN or key.startswith(("consumer.override.", "admin.override.")))
    }


def starts_at_end(worker: Mapping[str, str], connector: Mapping[str, str]) -> bool:
    """Whether tasks begin at the end of a partition without an offset; by default at its first record.

    Of one that begins some time back the whole partition counts.
    """
    try:
        return offset_reset(worker, connector).to == "end"
    except ConfigError:  # the tasks say so
        return False


def listed_topics(connector: Mapping[str, str]) -> list[str]:
    """The topics that a sink's config names; none for one with `topics.regex`."""
    listed = parse_type("topics", connector.get("topics") or "", ConfigDef.Type.LIST)
    return [name for name in dict.fromkeys(listed or ()) if name]


def matching_topics(worker: Mapping[str, str], connector: Mapping[str, str], topics: Iterable[str]) -> list[str]:
    """The topics that match the sink's `topics.regex`; none for a sink without one, or with a broken one."""
    try:
        pattern = TopicPattern.of_sink(worker, connector)
        return [] if pattern is None else pattern.of(topics)
    except ConfigError:
        return []
