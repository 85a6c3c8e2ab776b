"""Offsets of connectors, read and changed without a worker: a source's in its topics, a sink's in its consumer group.

Plans are made of what was read, and are pure; `read_offsets` and `OffsetsNow.read` are the thin shell.
Source: Worker#connectorOffsets, Worker#modifyConnectorOffsets, DistributedHerder#modifyConnectorOffsets (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.config.variables import Variables
from kconnect.direct.access import ClusterAccess, InternalTopic
from kconnect.direct.edit.plan import Edit, EditPlan, GroupEdit, NoLiveOwner, NoRunningTask, Stopped, without_unchanged
from kconnect.direct.read.reader import ClusterReader, OffsetView
from kconnect.errors import BadRequestError, ConflictError, ConnectError, DataError, NotFoundError
from kconnect.herder.offsets.admin import OFFSET, PARTITION, STARTS_OVER, TOPIC, consumer_group_of, parse_sink_offsets
from kconnect.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.herder.offsets.log_ranges import LogRanges, not_in_log
from kconnect.java_compat.hash_map import grown_map_order
from kconnect.java_compat.jackson import jackson_text
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType, LogRecord, TopicPartition
from kconnect.storage.config_topic import encode_task_count
from kconnect.storage.offset_store import MemoryOffsetStore
from kconnect.storage.offset_topic import canonical_key, decode_key, encode_key, encode_value
from kconnect.storage.offset_values import list_source_offsets
from kconnect.storage.snapshot import ClusterSnapshot
from kconnect.wording import counted

__all__ = [
    "GroupNow",
    "OffsetsNow",
    "SourceNow",
    "fencing_plan",
    "read_offsets",
    "read_offsets_now",
    "reset_plans",
    "sink_plans",
    "source_plans",
]

_OWN_TOPIC = "offsets.storage.topic"
_OWN_BROKERS = "producer.override.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class SourceNow:
    """The offsets of a source as they are: what each of its topics holds, the one that counts first.

    The name of the worker's topic is None.
    """

    connector: str
    views: Mapping[str | None, OffsetView] = field(repr=False)

    def listed(self) -> list[ConnectorOffset]:
        """As `GET /connectors/X/offsets`: what the own topic has, else what the worker's has."""
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


def read_offsets_now(
    access: ClusterAccess,
    reader: ClusterReader,
    info: ConnectorInfo,
    *,
    partitions: Collection[TopicPartition] | None = None,
) -> OffsetsNow:
    """A connector's offsets where they are kept.

    With `partitions`, so for a change, a sink's also with its group's members and what there is of these partitions.

    Errors: as ClusterReader; ConnectError when they are kept in another cluster.
    """
    config = resolved_config(access, info)
    if info.type is not ConnectorType.SINK:
        return SourceNow(
            info.name, {topic: reader.offsets(topic=topic) for topic in offset_topics(access, info.name, config)}
        )
    from kconnect.kafka.groups import describe_group

    group = consumer_group_of(info.name, config)
    with kafka_group_offsets(access.worker, access.timeout_s, timeout_setting="--timeout")(config) as groups:
        offsets = groups.list_offsets(group)
        log = groups.log_ranges(partitions) if partitions else LogRanges()
    if partitions is None:
        return GroupNow(group, offsets, config)
    members = len(describe_group(access.clients().admin, group, access.timeout_s).members)
    return GroupNow(group, offsets, config, members, log)


def resolved_config(access: ClusterAccess, info: ConnectorInfo, *, is_whole: bool = False) -> Mapping[str, str]:
    """The settings that say where offsets are (`is_whole`: all), with references to config providers resolved.

    Errors: ConfigError for a provider that cannot be made here, or does not have the value.
    """
    wanted = {
        key: value
        for key, value in info.config.items()
        if value is not None and (is_whole or key in ("name", "connector.class", _OWN_TOPIC) or ".override." in key)
    }
    if not any("${" in value for value in wanted.values()):
        return wanted
    variables = Variables.of_worker(access.worker)
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


# --- plans ---

FORCE_IT = "--force writes it all the same."


def source_plans(
    access: ClusterAccess,
    now: SourceNow,
    wanted: Sequence[ConnectorOffset],
    *,
    force: bool = False,
    verb: str = "Alter",
) -> list[EditPlan]:
    """How to set a source's offsets (None: reset), one plan after the other.

    Without exactly-once support all is one plan; with it the own topic is written in a transaction of the first task's
    producer, as in Java, and what goes to the worker's topic beside it is not. As in `ConnectorOffsetStore` tombstones
    go to the worker's topic first, offsets last.
    Errors: BadRequestError: offsets that are none, two for one partition, a partition the connector does not have (but
    with `force`).
    """
    entries = _entries(now, wanted, force=force)
    counts, *others = now.views
    own = _edits(now, counts, entries)
    tombstones = _edits(now, None, {key: value for key, value in entries.items() if value is None}) if others else []
    copies = _edits(now, None, {key: value for key, value in entries.items() if value is not None}) if others else []
    title = f"{verb} offsets of {now.connector}"
    needs = (NoLiveOwner(now.connector), Stopped(now.connector), NoRunningTask(now.connector))
    if not access.is_exactly_once:
        return _unless_empty([EditPlan(title, without_unchanged([tombstones, own, copies]), needs)])
    transactional_id = f"{access.group_id}-{now.connector}-0"
    return _unless_empty(
        [
            EditPlan(title, without_unchanged([tombstones]), needs),
            EditPlan(title, without_unchanged([own]), needs, transactional_id=transactional_id),
            EditPlan(title, without_unchanged([copies]), needs),
        ]
    )


def sink_plans(
    now: GroupNow, connector: str, wanted: Sequence[ConnectorOffset], *, force: bool = False
) -> list[EditPlan]:
    """How to set the offsets of a sink's consumer group (None: remove).

    Errors: BadRequestError for what cannot be an offset, and without `force` for one at which nothing can be read;
    NotFoundError for a partition that does not exist; ConflictError while the group has members: tasks still run.
    """
    new = parse_sink_offsets(wanted)
    if len(new) < len(wanted):
        raise BadRequestError(f"Connector {connector}: a partition has more than one offset", hint="Keep one of them.")
    for at, offset in new.items():
        if offset is not None and offset < 0:
            raise BadRequestError(f"Connector {connector}, {at}: offset {offset} is below 0")
        count = now.log.partitions.get(at.topic)
        if count is None and offset is not None:
            raise NotFoundError(f"Connector {connector}: topic {at.topic} does not exist")
        if count is not None and not 0 <= at.partition < count:
            raise NotFoundError(
                f"Connector {connector}: topic {at.topic} has no partition {at.partition}",
                hint=f"It has {counted(count, 'partition')}, numbered from 0.",
            )
        if offset is None and at not in now.offsets and (count is None or at.partition < 0):
            raise NotFoundError(f"Connector {connector}: {at} has no offset in group {now.group}")
    changed = {at: offset for at, offset in new.items() if now.offsets.get(at) != offset}
    unreadable = not_in_log(changed, now.log)
    if unreadable and not force:
        raise BadRequestError(f"Connector {connector}: {'; '.join(unreadable)}", hint=f"{STARTS_OVER} {FORCE_IT}")
    old = {at: now.offsets[at] for at in changed if at in now.offsets}
    return _group_plans(now, connector, GroupEdit(now.group, changed, old, config=now.config), "Alter")


def reset_plans(access: ClusterAccess, now: OffsetsNow, connector: str, *, force: bool = False) -> list[EditPlan]:
    """How to forget all offsets of a connector. Errors: as the other plans."""
    if isinstance(now, SourceNow):
        none = [ConnectorOffset(item.partition, None) for item in now.listed()]
        return source_plans(access, now, none, force=force, verb="Reset")
    gone = GroupEdit(now.group, dict.fromkeys(now.offsets), now.offsets, is_deleted=True, config=now.config)
    return _group_plans(now, connector, gone, "Reset")


def fencing_plan(
    connector: str, snapshot: ClusterSnapshot, record_of: Callable[[bytes], LogRecord | None]
) -> tuple[EditPlan, int] | None:
    """With exactly-once support: the record that says that zombies are fenced, and how many tasks there may be of them.

    None when that is done since the tasks were last committed. The fencing itself goes before the record.
    Source: DistributedHerder.ZombieFencing (KIP-618).
    """
    if not snapshot.is_pending_fencing(connector):
        return None
    zombies = snapshot.task_count_record(connector) or 0
    key, value = encode_task_count(connector, snapshot.task_count(connector))
    edit = Edit(InternalTopic.CONFIG, key, value, record_of(key))
    needs = (NoLiveOwner(connector), Stopped(connector), NoRunningTask(connector))
    return EditPlan(f"Fence tasks of {connector}", ((edit,),), needs), zombies


def _group_plans(now: GroupNow, connector: str, edit: GroupEdit, verb: str) -> list[EditPlan]:
    if now.members:
        raise ConflictError(
            f"Consumer group {now.group} of {connector} has {counted(now.members, 'member')}: "
            "its tasks still run, or were killed a moment ago",
            hint=f"Stop the connector (connect connectors stop {connector}) and wait until its tasks have ended. "
            "Killed ones count until their session.timeout.ms is over: 45 s, where none is set.",
        )
    if not edit.new:
        return []
    needs = (NoLiveOwner(connector), Stopped(connector), NoRunningTask(connector))
    return [EditPlan(f"{verb} offsets of {connector}", (), needs, groups=(edit,))]


def _unless_empty(plans: Sequence[EditPlan]) -> list[EditPlan]:
    return [plan for plan in plans if not plan.is_empty]


def _entries(now: SourceNow, wanted: Sequence[ConnectorOffset], *, force: bool) -> dict[bytes, bytes | None]:
    """Keys and values in Java's bytes: it builds both in HashMaps; a partition that is there keeps its spelling."""
    known = {canonical_key(key) for view in now.views.values() for key, value in view.entries.items() if value}
    entries: dict[bytes, bytes | None] = {}
    seen = set()
    for item in wanted:
        place = f"Connector {now.connector}, partition {_shown(item.partition)}"
        try:
            key = encode_key(now.connector, grown_map_order(item.partition))
            value = None if item.offset is None else encode_value(grown_map_order(item.offset))
        except DataError as err:
            raise BadRequestError(f"{place}: {err}") from err
        form = canonical_key(key)
        if form in seen:
            raise BadRequestError(f"{place} has more than one offset", hint="Keep one of them.")
        seen.add(form)
        if form not in known and not force:
            raise BadRequestError(
                f"{place}: the connector has no such partition",
                hint="connect offsets show NAME --direct lists what it has; --force writes it all the same.",
            )
        entries[now.spelling(key)] = value
    return entries


def _edits(now: SourceNow, topic: str | None, entries: Mapping[bytes, bytes | None]) -> list[Edit]:
    """All spellings of a key that are in the topic, so that no reader finds an older one."""
    view = now.views[topic]
    return [
        Edit(InternalTopic.OFFSET, spelling, value, view.latest.get(spelling), topic)
        for key, value in entries.items()
        for spelling in view.offsets.spellings_to_write(key, value)
    ]


def _shown(partition: Mapping[str, object]) -> str:
    try:
        return jackson_text(dict(partition))
    except (TypeError, RecursionError):
        return repr(partition)
