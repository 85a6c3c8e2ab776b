"""What pages change: a Change is prepared, shown, and made once the reader agrees. Over REST, or on the topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kconnect.admin.console.seen import if_match
from kconnect.errors import BadRequestError
from kconnect.model import ConnectorOffset, TargetState, TaskId

if TYPE_CHECKING:
    from kconnect.admin.direct.client import DirectClient
    from kconnect.admin.direct.edit.plan import EditPlan
    from kconnect.admin.direct.offsets.changes import PlanSequence
    from kconnect.client import ConnectClient

_DONE = {"pause": "paused", "resume": "resumed", "stop": "stopped", "delete": "deleted"}
_NO_WORKER = "Only a worker can do that, and this console reads the topics"


@dataclass(frozen=True, slots=True)
class Change:
    """`records`: what will be written on the topics, a line each; a worker decides that itself."""

    make: Callable[[], str]
    """Makes it, and gives a sentence on what was done. Errors: ConnectError."""
    records: Sequence[str] = field(default=())


class Changes(Protocol):
    """Errors of every method: NotFoundError, BadRequestError, ConflictError, ForbiddenError, ConnectError.

    `tag`: that of the version which the reader saw, as the cluster gave it. A worker refuses the change of another one,
    PreconditionFailedError; one that gives no tags of its own looks at none.
    """

    def state(self, verb: str, name: str, tag: str | None = None) -> Change:
        """pause, resume, stop or delete. `tag`: of the config, for delete."""
        ...

    def restart(self, name: str, *, only_failed: bool) -> Change: ...
    def restart_task(self, task: TaskId) -> Change: ...
    def create(self, name: str, config: Mapping[str, str], state: str | None) -> Change: ...
    def put_config(self, name: str, config: Mapping[str, str], tag: str | None) -> Change: ...
    def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset], tag: str | None = None) -> Change: ...
    def reset_offsets(self, name: str, tag: str | None = None) -> Change: ...


class RestChanges:
    """Implements Changes by a worker."""

    def __init__(self, client: ConnectClient) -> None:
        self._client = client

    def state(self, verb: str, name: str, tag: str | None = None) -> Change:
        def make() -> str:
            client = self._client
            match verb:
                case "pause":
                    client.pause_connector(name)
                case "resume":
                    client.resume_connector(name)
                case "stop":
                    client.stop_connector(name)
                case _:
                    client.delete_connector(name, if_match=if_match(tag))
            return f"{name} is being {_DONE[verb]}." if verb != "delete" else f"{name} is deleted."

        return Change(make)

    def restart(self, name: str, *, only_failed: bool) -> Change:
        def make() -> str:
            self._client.restart_connector(name, include_tasks=True, only_failed=only_failed)
            return f"{name} is being restarted."

        return Change(make)

    def restart_task(self, task: TaskId) -> Change:
        def make() -> str:
            self._client.restart_task(task)
            return f"Task {task} is being restarted."

        return Change(make)

    def create(self, name: str, config: Mapping[str, str], state: str | None) -> Change:
        def make() -> str:
            self._client.create_connector(name, config, initial_state=state)
            return f"{name} is created."

        return Change(make)

    def put_config(self, name: str, config: Mapping[str, str], tag: str | None) -> Change:
        def make() -> str:
            self._client.put_connector_config(name, config, if_match=if_match(tag))
            return f"{name} has its new config."

        return Change(make)

    def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset], tag: str | None = None) -> Change:
        expected = if_match(tag)
        return Change(lambda: f"{name}: {self._client.alter_connector_offsets(name, offsets, if_match=expected)}.")

    def reset_offsets(self, name: str, tag: str | None = None) -> Change:
        return Change(lambda: f"{name}: {self._client.reset_connector_offsets(name, if_match=if_match(tag))}.")


class TopicChanges:
    """Implements Changes by records on the topics; refused while a live worker runs what they are about."""

    def __init__(self, client: DirectClient) -> None:
        self._client = client

    def state(self, verb: str, name: str, tag: str | None = None) -> Change:
        return self._of_plan(self._client.plan(verb, name), f"{name}: written. A worker carries it out when it starts.")

    def restart(self, name: str, *, only_failed: bool) -> Change:
        raise BadRequestError(f"{_NO_WORKER}. Tasks start with the next worker.")

    def restart_task(self, task: TaskId) -> Change:
        raise BadRequestError(f"{_NO_WORKER}. Tasks start with the next worker.")

    def create(self, name: str, config: Mapping[str, str], state: str | None) -> Change:
        from kconnect.admin.direct.offsets.creation import plan_creation

        target = None if state in (None, "RUNNING") else TargetState(state)
        return self._of_sequence(plan_creation(self._client, name, config, target).change, f"{name} is created.")

    def put_config(self, name: str, config: Mapping[str, str], tag: str | None) -> Change:
        raise BadRequestError(
            f"{_NO_WORKER}.", hint="`connect topics config put` and `edit` write the config topic itself."
        )

    def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset], tag: str | None = None) -> Change:
        from kconnect.admin.direct.offsets.changes import plan_offsets

        return self._of_sequence(plan_offsets(self._client, name, offsets), f"{name}: offsets were altered.")

    def reset_offsets(self, name: str, tag: str | None = None) -> Change:
        from kconnect.admin.direct.offsets.changes import plan_offsets

        return self._of_sequence(plan_offsets(self._client, name, None), f"{name}: offsets were reset.")

    def _of_plan(self, plan: EditPlan, done: str) -> Change:
        def make() -> str:
            from kconnect.admin.direct.edit.apply import apply_plan

            apply_plan(self._client.access, self._client.reader, plan)
            return done

        return Change(make, self._lines(plan))

    def _of_sequence(self, change: PlanSequence, done: str) -> Change:
        def make() -> str:
            change.apply(self._client, force=False)
            return done

        return Change(make, [line for plan in change.plans for line in self._lines(plan)])

    def _lines(self, plan: EditPlan) -> list[str]:
        """Each record with its value before and after, without secrets."""
        masks = self._client.masks
        lines = [*plan.notes]
        for edit in plan.edits:
            old = None if edit.old is None else masks.value(edit.which, edit.key, edit.old.value)
            new = masks.value(edit.which, edit.key, edit.new)
            lines.append(f"{edit.which} topic, {edit.key_text}: {_value(old)} -> {_value(new)}")
        return lines


def _value(value: bytes | None) -> str:
    if value is None:
        return "nothing"
    try:
        return json.dumps(json.loads(value), ensure_ascii=False)
    except ValueError:
        return value.decode("utf-8", "backslashreplace")
