"""EditPlan: what to write to a cluster's topics, in which order, and the conditions for it. Pure.

A plan is made of steps. A step is written as a whole: all its records are in the topic or none is (one batch of the
producer, or one transaction). So a command that is killed leaves the topics as before or after a step, and who makes a
plan sees to it that each of these states reads as before, as after, or as some connectors done and others not yet.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.group.live_group import LiveGroup, LiveWorker
from kconnect.admin.direct.group.other_groups import OtherGroups, id_of
from kconnect.admin.direct.read.record_json import connector_of
from kconnect.model import LogRecord, RunState, TargetState, TaskId, TopicPartition
from kconnect.runtime.storage.config_topic import LOGGER, TARGET_STATE
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_cache import StatusCache


@dataclass(frozen=True, slots=True)
class Edit:
    """One record to write: `new` is its value, None a tombstone.

    `old` is the record in force as it was shown, None where the key had no value: it is compared again just before the
    writing. `topic` is a connector's own offsets topic; None means the worker's topic of `which`.
    """

    which: InternalTopic
    key: bytes
    new: bytes | None = field(repr=False)
    old: LogRecord | None = None
    topic: str | None = None

    @property
    def key_text(self) -> str:
        """The key for people: bytes that are not UTF-8 are escaped."""
        return self.key.decode(errors="backslashreplace")

    @property
    def is_change(self) -> bool:
        """Whether the value in force changes."""
        return (None if self.old is None else self.old.value) != self.new


@dataclass(frozen=True, slots=True)
class GroupEdit:
    """Committed offsets of a sink's consumer group to set; None removes one. `is_deleted`: the whole group goes.

    The broker refuses it while the group has members. `old` is what was shown, compared again just before the writing;
    None where nobody has looked. `config` is the connector's, for its `admin.override.*`.
    """

    group: str
    new: Mapping[TopicPartition, int | None]
    old: Mapping[TopicPartition, int] | None = None
    is_deleted: bool = False
    config: Mapping[str, str] = field(default_factory=dict, repr=False)

    def changed_since(self, now: Mapping[TopicPartition, int]) -> str | None:
        """Where the group is no longer as it was shown, of what is written: `orders-0 had offset 3, and has none`."""
        if self.old is None:
            return None
        looked_at = {*self.old, *now} if self.is_deleted else self.new
        for at in sorted(looked_at):
            if self.old.get(at) != now.get(at):
                return f"{at} had {_offset_text(self.old.get(at))}, and has {_offset_text(now.get(at))}"
        return None


@dataclass(frozen=True, slots=True)
class NoLiveOwner:
    """No worker of the live group runs the connector or a task of it."""

    connector: str


@dataclass(frozen=True, slots=True)
class NoLiveGroup:
    """No worker is in the group: the edit concerns all of them (`why`: a sentence's end)."""

    why: str = "the edit concerns the whole cluster"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The connector's target state is STOPPED."""

    connector: str


@dataclass(frozen=True, slots=True)
class NotCreated:
    """There is no connector of this name."""

    connector: str


@dataclass(frozen=True, slots=True)
class NoRunningTask:
    """No task of the connector is RUNNING on a live worker; the last status of a dead worker does not count."""

    connector: str


Requirement = NoLiveOwner | NoLiveGroup | Stopped | NotCreated | NoRunningTask
"""What must hold when a plan is written. `--force` overrides the first two only."""


@dataclass(frozen=True, slots=True)
class EditPlan:
    """Edits under one title (`Stop orders`), to be written step by step.

    `groups` are done first, before any record: records are what makes a connector run. `transactional_id` makes each
    step on the offsets topics one transaction of that producer. Configs with exactly-once support are written in the
    leader's transactions, whatever the plan says (`apply.py`).
    """

    title: str
    steps: tuple[tuple[Edit, ...], ...]
    requirements: tuple[Requirement, ...] = ()
    groups: tuple[GroupEdit, ...] = ()
    transactional_id: str | None = None
    notes: tuple[str, ...] = ()
    """Sentences shown with the plan."""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All records in the order in which they are written."""
        return tuple(edit for step in self.steps for edit in step)

    @property
    def is_empty(self) -> bool:
        return not self.edits and not self.groups

    @property
    def connectors(self) -> tuple[str, ...]:
        """The connectors the records and requirements are about, each once."""
        of_edits = (connector_of(edit.which, edit.key) for edit in self.edits)
        named = (need.connector for need in self.requirements if not isinstance(need, NoLiveGroup))
        return tuple(dict.fromkeys(name for name in (*named, *of_edits) if name))

    @property
    def is_leaders(self) -> bool:
        """Whether it has configs that only the leader writes: all but target states and levels of loggers."""
        return any(edit.which is InternalTopic.CONFIG and not _anyone_writes(edit.key) for edit in self.edits)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan must not be written now; `is_final`: not even with --force."""

    sentence: str
    hint: str
    is_final: bool = False


def refusals(
    requirements: Iterable[Requirement],
    live: LiveGroup | None,
    snapshot: ClusterSnapshot | None = None,
    statuses: StatusCache | None = None,
) -> list[Refusal]:
    """Reasons to refuse a plan. `live` None: group.id is not known, so live workers cannot be detected.

    `snapshot` is needed for Stopped and NotCreated, `statuses` for NoRunningTask.
    """
    found: list[Refusal] = []
    for need in dict.fromkeys(requirements):
        match need:
            case Stopped(connector):
                state = (snapshot or ClusterSnapshot()).target_state(connector)
                if state is not TargetState.STOPPED:
                    found.append(_not_stopped(connector, state))
            case NotCreated(connector):
                if (snapshot or ClusterSnapshot()).contains(connector):
                    found.append(Refusal(f"Connector {connector} already exists", _CHANGE_IT, is_final=True))
            case _ if live is None:
                if _UNKNOWN_GROUP not in found:
                    found.append(_UNKNOWN_GROUP)
            case NoLiveOwner(connector):
                owners = live.owners(connector)
                if owners:
                    found.append(_owned(connector, owners, live))
            case NoLiveGroup(why):
                if live.is_live:
                    urls = ", ".join(worker.url or worker.client_id for worker in live.workers)
                    found.append(
                        Refusal(f"Group {live.name} has live workers ({urls}), and {why}", "Stop them, or add --force.")
                    )
            case NoRunningTask(connector):
                running = _running_tasks(connector, live, statuses or StatusCache())
                if running:
                    tasks = ", ".join(f"{task} on {worker}" for task, worker in running.items())
                    found.append(
                        Refusal(f"Tasks of {connector} are still RUNNING: {tasks}", "Wait until they stop.", True)
                    )
    return found


def other_group_refusals(requirements: Iterable[Requirement], live: LiveGroup, others: OtherGroups) -> list[Refusal]:
    """Reasons to refuse a plan when the given group is empty, but other groups use the topics."""
    if live.is_live or all(isinstance(need, Stopped) for need in requirements):
        return []
    return [
        Refusal(
            f"Group {live.name} has no workers, but group {group.name} runs connectors of these topics: {runs}",
            f"Correct group.id: --group-id {group.name}, if that is this cluster; or add --force.",
        )
        for group, runs in others.users
    ]


_CHANGE_IT = "Delete it first, or change it: connect offsets alter, connect topics config put."
_UNKNOWN_GROUP = Refusal(
    "The workers' group is not known, so live workers cannot be detected",
    "Give --group-id (group.id of the workers), or --force if none is running.",
)


def _owned(connector: str, owners: Sequence[LiveWorker], live: LiveGroup) -> Refusal:
    hint = "Use a worker's REST API (the command without --direct), stop the workers, or add --force."
    if not live.is_settled:
        urls = ", ".join(worker.url or worker.client_id for worker in owners)
        return Refusal(f"A rebalance runs in group {live.name}: any of {urls} may run {connector}", hint)
    occupied: list[str] = []
    for worker in owners:
        tasks = [str(task.task) for task in worker.work.tasks if task.connector == connector]
        runs = ["the connector"] if connector in worker.work.connectors else []
        runs += [f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}"] if tasks else []
        occupied.append(f"{worker.url or worker.client_id} runs {' and '.join(runs)}")
    return Refusal(f"{connector} is owned by live workers of group {live.name}: {'; '.join(occupied)}", hint)


def _not_stopped(connector: str, state: TargetState | None) -> Refusal:
    now = "does not exist" if state is None else f"is {state}"
    return Refusal(
        f"Connector {connector} must be STOPPED for this, but {now}",
        f"Stop it first: connect connectors stop {connector} --direct",
        is_final=True,
    )


def _running_tasks(connector: str, live: LiveGroup, statuses: StatusCache) -> dict[TaskId, str]:
    """Tasks that a living worker says it runs; `worker_id` is host:port, of which a member's URL ends."""
    hosts = set(map(id_of, live.workers))
    return {
        task: status.worker_id
        for task, status in statuses.tasks(connector).items()
        if status.state is RunState.RUNNING and status.worker_id in hosts
    }


def requirements_for_keys(keys: Iterable[tuple[InternalTopic, bytes]]) -> tuple[Requirement, ...]:
    """For edits of single records: no worker runs the connector; for records of no connector, no worker runs at all."""
    found: dict[Requirement, None] = {}
    for which, key in keys:
        connector = connector_of(which, key)
        need: Requirement = NoLiveGroup(f"{_shown(key)} does not belong to a single connector")
        found[NoLiveOwner(connector) if connector else need] = None
    return tuple(found)


def _anyone_writes(key: bytes) -> bool:
    return key.startswith((TARGET_STATE.encode(), LOGGER.encode()))


def _shown(key: bytes) -> str:
    return json.dumps(key.decode(errors="backslashreplace"), ensure_ascii=False)


def _offset_text(offset: int | None) -> str:
    return "none" if offset is None else f"offset {offset}"


def without_unchanged(steps: Iterable[Collection[Edit]]) -> tuple[tuple[Edit, ...], ...]:
    """The steps without edits that change nothing, and without steps that become empty."""
    kept = (tuple(edit for edit in step if edit.is_change) for step in steps)
    return tuple(step for step in kept if step)
