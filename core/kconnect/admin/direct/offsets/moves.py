"""A connector copied or renamed on the topics: a new name with the same config, at the same offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kconnect.admin.direct.client import DirectClient
from kconnect.admin.direct.edit.apply import Applied, Checked
from kconnect.admin.direct.edit.connector_plans import creation_requirements, rename_plan
from kconnect.admin.direct.edit.plan import EditPlan
from kconnect.admin.direct.offsets.changes import PlanSequence
from kconnect.admin.direct.offsets.creation import plan_creation
from kconnect.admin.direct.offsets.plans import refuse_members, reset_plans
from kconnect.admin.direct.read.connector_offsets import GroupNow, read_offsets, read_offsets_now
from kconnect.errors import ConflictError
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType, TargetState


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What to write, in order: the offsets of the new name, then its config, and with it the end of the old one.

    `unchecked` says why the settings were not checked, if they were not.
    """

    old: str
    offsets: Sequence[ConnectorOffset]
    change: PlanSequence
    is_rename: bool
    unchecked: str | None = None

    def check(self, client: DirectClient, *, force: bool) -> Checked:
        """Errors: ConflictError, ConnectError as `check_plan`."""
        return self.change.check(client, force=force)

    def apply(self, client: DirectClient, *, force: bool) -> list[Applied]:
        """Errors: as `apply_plan`; ConflictError if the old one's offsets are not those that were shown."""
        if self.is_rename:
            self.change.check(client, force=force)
            self.change.fence(client.access)
            client.forget()
            if list(client.connector_offsets(self.old)) != list(self.offsets):
                raise ConflictError(
                    f"The offsets of {self.old} have changed since they were shown",
                    hint="Nothing was changed. Look at them again, and repeat the command.",
                )
        return replace(self.change, zombies=0).apply(client, force=force)


def plan_copy(client: DirectClient, old: str, new: str, *, is_rename: bool, starts: bool) -> CopyPlan:
    """`starts`: a copy runs when a worker comes; else it is STOPPED. A renamed one keeps its state.

    Errors: NotFoundError; AlreadyExistsError; BadRequestError for settings that a worker would refuse; ConflictError
    while a sink that is renamed has tasks that run; ConnectError of the reading.
    """
    info = client.connector(old)
    if is_rename and info.type is ConnectorType.SINK:
        running = read_offsets_now(client.access, client.reader, info, partitions=())
        assert isinstance(running, GroupNow)
        refuse_members(running, old)
    offsets = read_offsets(client.access, client.reader, info)
    state = _state(client, old) if is_rename else (None if starts else TargetState.STOPPED)
    config = {**info.config, "name": new}
    made = plan_creation(client, new, config, state, offsets or None, force=True)
    first, last = list(made.change.plans[:-1]), made.change.plans[-1]
    if not offsets:
        first = _leftovers(client, client.as_configured(new, config))
    zombies = 0
    if is_rename:
        last = rename_plan(last, client.plan("delete", old), old, new)
        zombies = _producers(client, info)
    change = PlanSequence(old, (*first, last), zombies, made.change.hook)
    return CopyPlan(old, offsets, change, is_rename, made.unchecked)


def _state(client: DirectClient, name: str) -> TargetState | None:
    """Returns None for one that runs, as nothing is written for a new connector then."""
    found = client.configs.snapshot.target_state(name)
    return None if found is TargetState.STARTED else found


def _leftovers(client: DirectClient, info: ConnectorInfo) -> list[EditPlan]:
    """What a former connector of the new name left is removed: the old one has no offsets, so neither has this."""
    now = read_offsets_now(client.access, client.reader, info, partitions=())
    needs = creation_requirements(info.name)
    return [replace(plan, requirements=needs) for plan in reset_plans(client.access, now, info.name)]


def _producers(client: DirectClient, info: ConnectorInfo) -> int:
    """With exactly-once support: of how many tasks producers are fenced, so that none commits an offset any more."""
    if not client.access.is_exactly_once or info.type is ConnectorType.SINK:
        return 0
    snapshot = client.configs.snapshot
    return max(snapshot.task_count(info.name) or 0, snapshot.task_count_record(info.name) or 0)
