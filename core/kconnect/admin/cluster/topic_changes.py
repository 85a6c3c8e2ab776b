"""TopicChanges: connectors changed on the cluster's topics (--direct), as a worker would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kconnect.admin.cluster.plan_text import plan_lines, written_lines
from kconnect.admin.direct.edit.apply import apply_plan, check_plan
from kconnect.admin.direct.offsets.changes import PlanSequence, plan_offsets
from kconnect.admin.direct.offsets.creation import plan_creation
from kconnect.errors import BadRequestError
from kconnect.logs.wording import pluralize

if TYPE_CHECKING:
    from kconnect.admin.direct.client import DirectClient
    from kconnect.admin.direct.edit.plan import EditPlan
    from kconnect.model import ConnectorOffset, TargetState, TaskId

_NO_WORKER = "Only a worker can do that, and the topics are asked here"
_DONE = {"pause": "paused", "resume": "resumed", "stop": "stopped", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class ConnectorChange:
    """A new target state, or a deletion: one plan of edits."""

    client: DirectClient
    name: str
    verb: str
    plan: EditPlan
    force: bool
    needs_consent: bool = True

    @property
    def is_empty(self) -> bool:
        """Never: a state that is already set is written again, as in Java."""
        return False

    def description(self) -> Sequence[str]:
        return plan_lines(self.plan, self.client.masks)

    def check(self) -> Sequence[str]:
        return check_plan(self.client.access, self.client.reader, self.plan, force=self.force).warnings

    def make(self) -> Sequence[str]:
        applied = apply_plan(self.client.access, self.client.reader, self.plan, force=self.force)
        self.client.forget()
        return [*written_lines(applied), f"{_DONE[self.verb]} {self.name}"]


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """Plans one after the other: for each place where offsets are kept, and at last a new connector's config."""

    client: DirectClient
    name: str
    done: str
    """The sentence that says that it is done."""
    change: PlanSequence
    force: bool
    unchecked: str | None = None
    needs_consent: bool = True

    @property
    def is_empty(self) -> bool:
        return self.change.is_empty

    def description(self) -> Sequence[str]:
        lines = [line for plan in self.change.plans for line in plan_lines(plan, self.client.masks)]
        if self.is_empty:
            lines.append(f"{self.name}: nothing changes.")
        if zombies := self.change.zombies:
            lines.append(f"  {pluralize(zombies, 'producer')} of former tasks of {self.name} will be fenced first.")
        return lines

    def check(self) -> Sequence[str]:
        warnings = self.change.check(self.client, force=self.force).warnings
        return warnings if self.unchecked is None else (f"{self.unchecked}.", *warnings)

    def make(self) -> Sequence[str]:
        written = self.change.apply(self.client, force=self.force)
        return [
            *(line for applied in written for line in written_lines(applied)),
            self.done,
        ]


class TopicChanges:
    """Implements Changes; refused while a live worker runs what they are about.

    `force`: write although live workers have the connector, or offsets look wrong.
    """

    def __init__(self, client: DirectClient, *, force: bool = False) -> None:
        self._client = client
        self._force = force

    def create(
        self,
        name: str,
        config: Mapping[str, str],
        target_state: TargetState | None = None,
        offsets: Sequence[ConnectorOffset] | None = None,
    ) -> PlannedChange:
        found = plan_creation(self._client, name, config, target_state, offsets, force=self._force)
        return PlannedChange(self._client, name, f"created {name}", found.change, self._force, found.unchecked)

    def pause(self, name: str) -> ConnectorChange:
        return self._change("pause", name)

    def resume(self, name: str) -> ConnectorChange:
        return self._change("resume", name)

    def stop(self, name: str) -> ConnectorChange:
        return self._change("stop", name)

    def delete(self, name: str, tag: str | None = None) -> ConnectorChange:
        return self._change("delete", name)

    def put_config(self, name: str, config: Mapping[str, str], tag: str | None = None) -> ConnectorChange:
        raise BadRequestError(
            f"{_NO_WORKER}.", hint="`connect topics config put` and `edit` write the config topic itself."
        )

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> ConnectorChange:
        raise BadRequestError(f"{_NO_WORKER}. Tasks start with the next worker.")

    def restart_task(self, task: TaskId) -> ConnectorChange:
        raise BadRequestError(f"{_NO_WORKER}. Tasks start with the next worker.")

    def alter_offsets(
        self, name: str, offsets: Sequence[ConnectorOffset], tag: str | None = None, action: str | None = None
    ) -> PlannedChange:
        return self._offsets(name, offsets, "altered")

    def reset_offsets(self, name: str, tag: str | None = None) -> PlannedChange:
        return self._offsets(name, None, "reset")

    def _change(self, verb: str, name: str) -> ConnectorChange:
        return ConnectorChange(self._client, name, verb, self._client.plan(verb, name), self._force)

    def _offsets(self, name: str, wanted: Sequence[ConnectorOffset] | None, done: str) -> PlannedChange:
        change = plan_offsets(self._client, name, wanted, force=self._force)
        return PlannedChange(self._client, name, f"{name}: offsets were {done}.", change, self._force)
