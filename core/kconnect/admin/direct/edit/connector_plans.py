"""Plans for a whole connector: its creation, target state, deletion, and restoring an earlier version. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.edit.plan import Edit, EditPlan, NoLiveOwner, NoRunningTask, NotCreated, Requirement
from kconnect.admin.direct.read.reader import ConfigView, StatusView
from kconnect.admin.direct.read.record_json import connector_of
from kconnect.errors import AlreadyExistsError, NotFoundError, did_you_mean
from kconnect.model import TargetState, TaskId
from kconnect.runtime.storage.config_topic import (
    Malformed,
    StringMap,
    decode,
    encode_commit,
    encode_connector,
    encode_target_state,
    encode_task,
    encode_task_count,
    tombstone_of_connector,
    tombstone_of_target_state,
)
from kconnect.runtime.storage.status_topic import status_key


@dataclass(frozen=True, slots=True)
class ConfiguredConnector:
    """A connector as recorded in the config topic. `task_count_record` is None if its tasks were never fenced."""

    config: StringMap = field(repr=False)
    target_state: TargetState
    tasks: Sequence[StringMap] = field(default=(), repr=False)
    task_count_record: int | None = None


def connector_state(view: ConfigView, connector: str) -> ConfiguredConnector | None:
    """A connector as it is in a view; None when it is not there. Tasks that are inconsistent count as none."""
    snapshot = view.snapshot
    config = snapshot.raw_config(connector)
    if config is None:
        return None
    tasks = [snapshot.raw_task_config(task) for task in snapshot.tasks(connector)]
    return ConfiguredConnector(
        config,
        snapshot.target_state(connector) or TargetState.STARTED,
        [task for task in tasks if task is not None],
        snapshot.task_count_record(connector),
    )


def creation_requirements(connector: str) -> tuple[Requirement, ...]:
    """What must hold when a connector is created: neither it nor a task of a former one of its name is there."""
    return NotCreated(connector), NoLiveOwner(connector), NoRunningTask(connector)


def creation_plan(
    view: ConfigView, connector: str, config: StringMap, target_state: TargetState | None = None
) -> EditPlan:
    """Create a connector; the leader will write its tasks. Errors: AlreadyExistsError.

    Source: KafkaConfigBackingStore#putConnectorConfig: the target state first, if there is one.
    """
    if view.snapshot.contains(connector):
        raise AlreadyExistsError(f"Connector {connector} already exists")
    written = [] if target_state is None else [encode_target_state(connector, target_state)]
    written.append(encode_connector(connector, config))
    return EditPlan(f"Create {connector}", (_step(view, written),), creation_requirements(connector))


def target_state_plan(view: ConfigView, connector: str, state: TargetState) -> EditPlan:
    """Pause, resume or stop. Errors: NotFoundError.

    As in Java, a stop also removes the connector's tasks, and a state that is already set is written again.
    Source: DistributedHerder#stopConnector, KafkaConfigBackingStore#putTargetState.
    """
    known(view, connector)
    written = [encode_target_state(connector, state)]
    if state is TargetState.STOPPED:
        written.insert(0, encode_commit(connector, 0))
    verb = {TargetState.STARTED: "Resume", TargetState.PAUSED: "Pause", TargetState.STOPPED: "Stop"}[state]
    return EditPlan(f"{verb} {connector}", (_step(view, written),), (NoLiveOwner(connector),))


def delete_plan(view: ConfigView, connector: str, statuses: StatusView | None = None) -> EditPlan:
    """Delete a connector, whatever its name; with `statuses`, also what is left of it in the status topic.

    Errors: NotFoundError when it has neither a config nor a target state. Its offsets stay, as in Java.
    Source: KafkaConfigBackingStore#removeConnectorConfig; the workers, which would delete the statuses, do not run.
    """
    tombstones = [tombstone_of_connector(connector), tombstone_of_target_state(connector)]
    edits = _step(view, tombstones)
    if all(edit.old is None for edit in edits):
        known(view, connector)
    steps = [edits]
    if statuses is not None:
        left = [
            Edit(InternalTopic.STATUS, record.key, None, record)
            for record in statuses.latest.all()
            if record.key is not None and connector_of(InternalTopic.STATUS, record.key) == connector
        ]
        steps += [(edit,) for edit in left]
    return EditPlan(f"Delete {connector}", tuple(steps), (NoLiveOwner(connector),))


def rename_plan(creation: EditPlan, deletion: EditPlan, old: str, new: str) -> EditPlan:
    """The config of the new name and the end of the old one in one step: there is always exactly one of them."""
    created, *more = creation.steps
    deleted, *left = deletion.steps
    needs = (*creation.requirements, *deletion.requirements, NoRunningTask(old))
    return EditPlan(f"Rename {old} to {new}", ((*created, *deleted), *more, *left), needs)


def with_task_statuses_removed(plan: EditPlan, connector: str, statuses: StatusView) -> EditPlan:
    """A stop, followed by tombstones for the statuses of the tasks it removes.

    A worker that runs writes them; one that starts later does not know these tasks, and would show them forever.
    """
    keys = [status_key(task) for task in statuses.statuses.tasks(connector)]
    gone = tuple((Edit(InternalTopic.STATUS, key, None, statuses.latest.get(key)),) for key in keys)
    return replace(plan, steps=(*plan.steps, *gone))


def config_plan(view: ConfigView, connector: str, config: StringMap) -> EditPlan:
    """Another config; state and tasks stay as they are. Empty if it has that config. Errors: NotFoundError."""
    known(view, connector)
    current = connector_state(view, connector)
    assert current is not None, "known() would have failed"
    step = state_step(view, connector, replace(current, config=config))
    return EditPlan(f"Reconfigure {connector}", (step,) if step else (), (NoLiveOwner(connector),))


def restore_plan(now: ConfigView, then: ConfigView, connector: str) -> EditPlan:
    """Restore an earlier version; the plan is empty if nothing differs. Errors: NotFoundError if it did not exist."""
    wanted = connector_state(then, connector)
    if wanted is None:
        raise NotFoundError(
            f"There was no connector {connector} at that point, or compaction has removed its record since",
            hint=f"connect topics config history {connector} lists the versions that are still there.",
        )
    notes = []
    if connector in then.snapshot.inconsistent:
        notes.append(
            f"The tasks of {connector} were not complete then: it gets none; its leader will write them again."
        )
    if _is_state_lost(now, then, connector):
        kept = now.snapshot.target_state(connector) or wanted.target_state
        wanted = replace(wanted, target_state=kept)
        notes.append(
            f"Whether {connector} was PAUSED or STOPPED then is not known, as compaction may have removed it: "
            f"it will be {kept}."
        )
    step = state_step(now, connector, wanted)
    return EditPlan(f"Restore {connector}", (step,) if step else (), (NoLiveOwner(connector),), notes=tuple(notes))


def _is_state_lost(now: ConfigView, then: ConfigView, connector: str) -> bool:
    """Whether a record may be gone that said then what state was wanted: there is none, and there is a newer one."""
    key = encode_target_state(connector, TargetState.STARTED)[0]
    is_newer = now.latest.get(key) is not None or not now.snapshot.contains(connector)
    return now.seen.missing > 0 and then.latest.get(key) is None and is_newer


def state_step(
    now: ConfigView, connector: str, wanted: ConfiguredConnector, *, with_record: bool = False
) -> tuple[Edit, ...]:
    """The records that bring a connector to this state; none if it is in it already.

    What is wanted of it comes first, as when Java creates one, so that nobody starts what should be stopped; the commit
    last. A set of tasks counts only as a whole, so all are written or none; and they are written again after a config,
    or compaction would lose them (KAFKA-17719). So is what counts only because a newer record of its key is malformed.
    `with_record`: the task count record too, before the commit, so that the leader fences the former tasks before these
    start.
    """
    current = connector_state(now, connector)
    written: list[tuple[bytes, bytes | None]] = []
    target = encode_target_state(connector, wanted.target_state)[0]
    if current is None or current.target_state is not wanted.target_state or _is_overlaid(now, target):
        written.append(encode_target_state(connector, wanted.target_state))
    is_other = current is None or dict(current.config) != dict(wanted.config)
    is_other = is_other or _is_overlaid(now, encode_connector(connector, {})[0])
    if is_other:
        written.append(encode_connector(connector, wanted.config))
    record = wanted.task_count_record if with_record else None
    if record is not None and record != now.snapshot.task_count_record(connector):
        written.append(encode_task_count(connector, record))
    if is_other or _other_tasks(now, connector, wanted.tasks):
        for number, config in enumerate(wanted.tasks):
            written.append(encode_task(TaskId(connector, number), config))
        written.append(encode_commit(connector, len(wanted.tasks)))
    return _step(now, written)


def known(view: ConfigView, connector: str) -> StringMap:
    """A connector's settings. Errors: NotFoundError that lists existing names."""
    config = view.snapshot.raw_config(connector)
    if config is not None:
        return config
    names = ", ".join(sorted(view.snapshot.connectors)[:10])
    shown = f"There are: {names}" if names else "There are none."
    hint = did_you_mean(connector, view.snapshot.connectors) or shown
    raise NotFoundError(f"Unknown connector {connector}", hint=hint)


def _is_overlaid(now: ConfigView, key: bytes) -> bool:
    """Whether the newest record of a key is malformed, so that every reader skips it."""
    record = now.latest.get(key)
    return record is not None and isinstance(decode(record), Malformed)


def _other_tasks(now: ConfigView, connector: str, wanted: Sequence[Mapping[str, str]]) -> bool:
    if connector in now.snapshot.inconsistent or now.snapshot.task_count(connector) != len(wanted):
        return True
    keys = [encode_task(TaskId(connector, number), {})[0] for number in range(len(wanted))]
    if any(_is_overlaid(now, key) for key in (*keys, encode_commit(connector, 0)[0])):
        return True
    found = now.snapshot.task_configs.get(connector, {})
    return any(dict(found.get(number, {})) != dict(config) for number, config in enumerate(wanted))


def _step(view: ConfigView, written: Sequence[tuple[bytes, bytes | None]]) -> tuple[Edit, ...]:
    return tuple(Edit(InternalTopic.CONFIG, key, value, view.latest.get(key)) for key, value in written)
