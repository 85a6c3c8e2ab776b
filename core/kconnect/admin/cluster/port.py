"""The port to a cluster: connectors changed, over a worker's REST API or on the cluster's topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kconnect.model import ConnectorOffset, TargetState, TaskId


class PreparedChange(Protocol):
    """One change to one connector: prepared, but not made yet."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""

    @property
    def needs_consent(self) -> bool:
        """Whether the user is asked before it is made."""

    def description(self) -> Sequence[str]:
        """What will be written, old beside new; empty where a worker decides that."""

    def check(self) -> Sequence[str]:
        """Warnings. Errors: ConflictError when it may not be made as things are."""

    def make(self) -> Sequence[str]:
        """Make it, and say what was done; the last line is about the whole. Errors: ConnectError."""


class Changes(Protocol):
    """Changes connectors. Each method reads what is there and prepares a change; nothing is written yet.

    `tag`: that of the version which the caller saw, as the cluster gave it. A worker refuses to change another one,
    PreconditionFailedError; where nobody gives tags nobody looks at them. `RestChanges`, `TopicChanges`.

    Errors: NotFoundError, BadRequestError, ConflictError, ForbiddenError, ConnectError.
    """

    def create(
        self,
        name: str,
        config: Mapping[str, str],
        target_state: TargetState | None = None,
        offsets: Sequence[ConnectorOffset] | None = None,
    ) -> PreparedChange:
        """`offsets`: where its tasks start. Errors: AlreadyExistsError."""

    def put_config(self, name: str, config: Mapping[str, str], tag: str | None = None) -> PreparedChange:
        """Replace its config. Errors: BadRequestError without a worker."""

    def pause(self, name: str) -> PreparedChange: ...
    def resume(self, name: str) -> PreparedChange: ...
    def stop(self, name: str) -> PreparedChange: ...
    def delete(self, name: str, tag: str | None = None) -> PreparedChange:
        """`tag`: of its config."""

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> PreparedChange:
        """Errors: BadRequestError without a worker."""

    def restart_task(self, task: TaskId) -> PreparedChange:
        """Errors: BadRequestError without a worker."""

    def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset], tag: str | None = None) -> PreparedChange:
        """Set these offsets; None resets a partition."""

    def reset_offsets(self, name: str, tag: str | None = None) -> PreparedChange:
        """Forget all offsets."""
