"""Plans that change offsets of connectors without a worker: a source's in its topics, a sink's in its group. Pure.

Source: Worker#connectorOffsets, Worker#modifyConnectorOffsets, DistributedHerder#modifyConnectorOffsets (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.edit.plan import (
    Edit,
    EditPlan,
    GroupEdit,
    NoLiveOwner,
    NoRunningTask,
    Stopped,
    without_unchanged,
)
from kconnect.admin.direct.read.connector_offsets import GroupNow, OffsetsNow, SourceNow
from kconnect.errors import BadRequestError, ConflictError, DataError, NotFoundError
from kconnect.java.compat.hash_map import grown_map_order
from kconnect.java.compat.jackson import jackson_text
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset, LogRecord
from kconnect.runtime.herder.offsets.log_ranges import not_in_log
from kconnect.runtime.herder.offsets.offsets_admin import STARTS_OVER, parse_sink_offsets
from kconnect.runtime.storage.config_topic import encode_task_count
from kconnect.runtime.storage.offset_topic import canonical_key, encode_key, encode_value
from kconnect.runtime.storage.snapshot import ClusterSnapshot

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
                hint=f"It has {pluralize(count, 'partition')}, numbered from 0.",
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


def resets_of_others(now: OffsetsNow, offsets: Iterable[ConnectorOffset]) -> list[ConnectorOffset]:
    """Resets of the partitions that are not among these, however their numbers are spelled. Errors: BadRequestError."""

    def place(item: ConnectorOffset) -> object:
        return list(parse_sink_offsets([item])) if isinstance(now, GroupNow) else dict(item.partition)

    kept = [place(item) for item in offsets]
    return [ConnectorOffset(item.partition, None) for item in now.listed() if place(item) not in kept]


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


def refuse_members(now: GroupNow, connector: str) -> None:
    """Errors: ConflictError while the group has members: tasks still run."""
    if now.members:
        raise ConflictError(
            f"Consumer group {now.group} of {connector} has {pluralize(now.members, 'member')}: "
            "its tasks still run, or were killed a moment ago",
            hint=f"Stop the connector (connect connectors stop {connector}) and wait until its tasks have ended. "
            "Killed ones count until their session.timeout.ms is over: 45 s, where none is set.",
        )


def _group_plans(now: GroupNow, connector: str, edit: GroupEdit, verb: str) -> list[EditPlan]:
    refuse_members(now, connector)
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
