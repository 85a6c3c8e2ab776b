"""Connectors that are deleted, copied or renamed with their offsets on the cluster's topics (--direct)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from kconnect.admin.cluster.plan_text import plan_lines, written_lines
from kconnect.admin.cluster.rest_changes import offset_table
from kconnect.admin.direct.edit.apply import Checked, check_plan
from kconnect.admin.direct.edit.plan import EditPlan, Stopped
from kconnect.admin.direct.offsets.changes import PlanSequence, plan_offsets
from kconnect.admin.direct.offsets.transfers import CopyPlan, plan_copy
from kconnect.errors import ConnectError
from kconnect.model import TargetState

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Changes, PreparedChange
    from kconnect.admin.direct.client import DirectClient
    from kconnect_cli.session import CliSession


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Stop, reset the offsets, delete; a `PreparedChange`. If the offsets cannot be reset, its state is as before.

    Each step is planned again when it is made: it depends on the records of the one before.
    """

    session: CliSession
    client: DirectClient
    admin: Changes
    name: str
    force: bool
    stop: EditPlan | None
    """It is None where it is STOPPED."""
    reset: PlanSequence
    delete: EditPlan
    state: TargetState
    is_empty: bool = False
    needs_consent: bool = True

    @classmethod
    def of(cls, session: CliSession, client: DirectClient, admin: Changes, name: str, *, force: bool) -> TopicDeletion:
        """Errors: NotFoundError; ConflictError while a sink's tasks run; ConnectError of the reading."""
        state = client.configs.snapshot.target_state(name) or TargetState.STARTED
        stop = None if state is TargetState.STOPPED else client.plan("stop", name)
        reset = plan_offsets(client, name, None, force=force)
        return cls(session, client, admin, name, force, stop, reset, client.plan("delete", name), state)

    def description(self) -> Sequence[str]:
        what = f"Delete {self.name} and its offsets"
        if self.reset.is_empty:
            what = f"Delete {self.name}, which has no offsets"
        stop = [] if self.stop is None else [self.stop]
        plans = [*stop, *self.reset.plans, _without_removals_of(stop, self.delete)]
        return [what, *(line for plan in plans for line in plan_lines(plan, self.client.masks))]

    def check(self) -> Sequence[str]:
        plans = [*([] if self.stop is None else [self.stop]), *map(_before_the_stop, self.reset.plans), self.delete]
        found = Checked.all_of(
            check_plan(self.client.access, self.client.reader, plan, force=self.force) for plan in plans
        )
        return found.warnings

    def make(self) -> Sequence[str]:
        if self.stop is not None:
            self._do(self.admin.stop(self.name))
        try:
            reset = self.admin.reset_offsets(self.name)
            if not reset.is_empty:
                self._do(reset)
        except ConnectError:
            if self.stop is not None:
                back = self.admin.pause if self.state is TargetState.PAUSED else self.admin.resume
                self._do(back(self.name))
            raise
        self._do(self.admin.delete(self.name))
        return ()

    def _do(self, change: PreparedChange) -> None:
        for line in change.make():
            self.session.say(line)


@dataclass(frozen=True, slots=True)
class TopicCopy:
    """A connector of another name with the same config, at the same offsets; a `PreparedChange`."""

    client: DirectClient
    new: str
    plan: CopyPlan
    starts: bool
    force: bool
    is_empty: bool = False
    needs_consent: bool = True

    @classmethod
    def of(cls, client: DirectClient, old: str, new: str, *, moves: bool, starts: bool, force: bool) -> Self:
        """Errors: as `plan_copy`."""
        return cls(client, new, plan_copy(client, old, new, is_rename=moves, starts=starts), starts, force)

    def description(self) -> Sequence[str]:
        what = f"{'Rename' if self.plan.is_rename else 'Copy'} {self.plan.old} to {self.new}"
        head = [what, offset_table([], self.plan.offsets)] if self.plan.offsets else [f"{what}; it has no offsets"]
        return [*head, *(line for plan in self.plan.change.plans for line in plan_lines(plan, self.client.masks))]

    def check(self) -> Sequence[str]:
        warnings = self.plan.check(self.client, force=self.force).warnings
        return warnings if self.plan.unchecked is None else (f"{self.plan.unchecked}.", *warnings)

    def make(self) -> Sequence[str]:
        lines = [line for applied in self.plan.apply(self.client, force=self.force) for line in written_lines(applied)]
        if self.plan.is_rename:
            return [*lines, f"renamed {self.plan.old} to {self.new}"]
        return [*lines, f"copied {self.plan.old} to {self.new}{'' if self.starts else ', which is STOPPED'}"]


def _without_removals_of(earlier: Sequence[EditPlan], plan: EditPlan) -> EditPlan:
    """What the earlier plans have removed is removed once."""
    gone = {(edit.which, edit.key) for each in earlier for edit in each.edits if edit.new is None}
    steps = (tuple(edit for edit in step if (edit.which, edit.key) not in gone) for step in plan.steps)
    return replace(plan, steps=tuple(step for step in steps if step))


def _before_the_stop(plan: EditPlan) -> EditPlan:
    """It will be STOPPED by then."""
    return replace(plan, requirements=tuple(need for need in plan.requirements if not isinstance(need, Stopped)))
