"""Offsets of connectors, read without a worker: a source's in its topics, a sink's in its consumer group.

Source: Worker#connectorOffsets (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.read.reader import ClusterReader, OffsetView
from kconnect.errors import ConfigError, ConnectError
from kconnect.logs.redaction import redact
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType, SinkLag, TopicPartition
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.lag_reader import LagReader
from kconnect.runtime.herder.offsets.log_ranges import LogRanges
from kconnect.runtime.herder.offsets.offsets_admin import OFFSET, PARTITION, TOPIC, consumer_group_of
from kconnect.runtime.storage.offset_store import MemoryOffsetStore
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key, encode_key
from kconnect.runtime.storage.offset_values import list_source_offsets

_OWN_TOPIC = "offsets.storage.topic"
_NAMED = ("name", "connector.class", "topics", "topics.regex")
_OWN_BROKERS = "producer.override.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class SourceNow:
    """The current offsets of a source: what each of its topics holds, the one that takes precedence first.

    The name of the worker's topic is None.
    """

    connector: str
    views: Mapping[str | None, OffsetView] = field(repr=False)

    def listed(self) -> list[ConnectorOffset]:
        """Lists them as `GET /connectors/X/offsets` does: what the own topic has, else what the worker's has."""
        store = MemoryOffsetStore()
        for view in reversed(list(self.views.values())):
            store.set({key: value for key, value in view.entries.items() if value is not None})
        return list_source_offsets(store, self.connector)

    def spelling(self, key: bytes) -> bytes:
        """The key with its fields in the order of a topic that has it; the given one where none does.

        Java finds it by its bytes, so it is spelled as Java does, whoever wrote what is there.
        """
        form = canonical_key(key)
        for view in self.views.values():
            for known in view.entries:
                decoded = decode_key(known) if canonical_key(known) == form else None
                if decoded is not None:
                    return encode_key(*decoded)
        return key


@dataclass(frozen=True, slots=True)
class GroupNow:
    """The committed offsets of a sink's consumer group, and how many members it has."""

    group: str
    offsets: Mapping[TopicPartition, int]
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    members: int = 0
    log: LogRanges = field(default_factory=LogRanges)
    """What there is of the topics."""

    def listed(self) -> list[ConnectorOffset]:
        return [
            ConnectorOffset({PARTITION: at.partition, TOPIC: at.topic}, {OFFSET: offset})
            for at, offset in sorted(self.offsets.items())
        ]


OffsetsNow = SourceNow | GroupNow


def read_offsets(access: ClusterAccess, reader: ClusterReader, info: ConnectorInfo) -> list[ConnectorOffset]:
    """What `GET /connectors/X/offsets` shows. Errors: as ClusterReader; ConnectError of the consumer group."""
    return read_offsets_now(access, reader, info).listed()


def read_lags(access: ClusterAccess, infos: Iterable[ConnectorInfo]) -> dict[str, SinkLag]:
    """How far sinks are behind, by name, as the brokers say. Errors: none; a lag that is not known has a `problem`."""
    configs: dict[str, Mapping[str, str]] = {}
    found: dict[str, SinkLag] = {}
    for info in infos:
        try:
            configs[info.name] = resolved_config(access, info)
        except ConfigError as err:
            found[info.name] = SinkLag(problem=redact(str(err)))
    lags = LagReader(access.worker, access.timeout_s, "--timeout")
    try:
        return found | lags.read(configs)
    finally:
        lags.close()


def read_offsets_now(
    access: ClusterAccess,
    reader: ClusterReader,
    info: ConnectorInfo,
    *,
    partitions: Collection[TopicPartition] | None = None,
) -> OffsetsNow:
    """A connector's offsets, read from where they are kept.

    With `partitions`, that is for a change, a sink's also has its group's members and the log ranges of these.

    Errors: as ClusterReader; ConnectError when they are kept in another cluster.
    """
    config = resolved_config(access, info)
    if info.type is not ConnectorType.SINK:
        return SourceNow(
            info.name, {topic: reader.offsets(topic=topic) for topic in offset_topics(access, info.name, config)}
        )
    group = consumer_group_of(info.name, config)
    with kafka_group_offsets(access.worker, access.timeout_s, timeout_setting="--timeout")(config) as groups:
        offsets = groups.list_offsets(group)
        if partitions is None:
            return GroupNow(group, offsets, config)
        log = groups.log_ranges(partitions) if partitions else LogRanges()
        members = groups.member_count(group)
    return GroupNow(group, offsets, config, members, log)


def resolved_config(access: ClusterAccess, info: ConnectorInfo, *, is_whole: bool = False) -> Mapping[str, str]:
    """The settings that say where offsets are (`is_whole`: all), with references to config providers resolved.

    Errors: ConfigError for a provider that cannot be made here, or does not have the value.
    """
    wanted = {
        key: value
        for key, value in info.config.items()
        if value is not None and (is_whole or key in (*_NAMED, _OWN_TOPIC) or ".override." in key)
    }
    if not any("${" in value for value in wanted.values()):
        return wanted
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(access.worker)
    try:
        return variables.resolve(wanted, f"connector {info.name}").values
    finally:
        variables.close()


def offset_topics(access: ClusterAccess, connector: str, config: Mapping[str, str]) -> tuple[str | None, ...]:
    """A source's topics, the one that counts first; None is the worker's.

    Errors: ConnectError when its own topic is in another cluster.
    """
    own = (config.get(_OWN_TOPIC) or "").strip()
    brokers = (config.get(_OWN_BROKERS) or "").strip()
    if (own or access.is_exactly_once) and brokers and brokers != access.bootstrap_servers:
        raise ConnectError(
            f"The offsets of {connector} are kept in another cluster, {brokers} ({_OWN_BROKERS})",
            hint=f"Look there: connect topics offsets show --bootstrap-servers {brokers} "
            f"--offset-topic {own or access.topic(InternalTopic.OFFSET)}",
        )
    return (own, None) if own and own != access.worker.get(InternalTopic.OFFSET.setting) else (None,)
