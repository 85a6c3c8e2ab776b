"""ConnectorAdmin: what commands do to connectors, over a worker's REST API or on the cluster's topics.

`connector_admin` chooses between `RestAdmin` and `DirectAdmin`; commands use either by `make_changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kconnect_cli.admin.reports import each_or_nothing, say_dry_run, say_warnings

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.model import ConnectorOffset, TargetState
    from kconnect_cli.session import CliSession


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
        """Make it, and say what was done. Errors: ConnectError."""


class ConnectorAdmin(Protocol):
    """Changes connectors. Each method reads what is there and prepares a change; nothing is written yet.

    Errors: NotFoundError, BadRequestError, ConnectError.
    """

    def create(
        self,
        name: str,
        config: Mapping[str, str],
        target_state: TargetState | None = None,
        offsets: Sequence[ConnectorOffset] | None = None,
    ) -> PreparedChange:
        """`offsets`: where its tasks start. Errors: AlreadyExistsError."""

    def pause(self, name: str) -> PreparedChange: ...
    def resume(self, name: str) -> PreparedChange: ...
    def stop(self, name: str) -> PreparedChange: ...
    def delete(self, name: str) -> PreparedChange: ...
    def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> PreparedChange:
        """Set these offsets; None resets a partition."""

    def reset_offsets(self, name: str) -> PreparedChange:
        """Forget all offsets."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to make a change."""

    dry_run: bool = False
    yes: bool = False
    force: bool = False


def connector_admin(
    session: CliSession, *, force: bool = False, brokers: ClusterAccess | None = None
) -> ConnectorAdmin:
    """What changes connectors in this call: a worker, or with --direct this process. `brokers`: as of `RestAdmin`."""
    if session.direct is None:
        from kconnect_cli.admin.rest_admin import RestAdmin

        return RestAdmin(lambda: session.client, brokers)
    from kconnect_cli.admin.topic_admin import DirectAdmin

    return DirectAdmin(session.direct, force=force)


def make_changes(
    session: CliSession,
    question: str,
    names: Sequence[str],
    options: WriteOptions,
    prepare: Callable[[str], PreparedChange],
    *,
    exist: bool = True,
) -> None:
    """Prepare all changes, show them, ask, and make them; one connector after the other. `exist` is False for new ones.

    Nothing is written if one of them may not be changed; a dry run shows the plans anyway, and says so.
    """
    if not names:
        return
    changes: dict[str, PreparedChange] = {}
    warnings: list[str] = []

    def look(name: str) -> None:
        changes[name] = prepare(name)
        if not options.dry_run:
            warnings.extend(changes[name].check())

    each_or_nothing(session, names, look, connectors=exist)
    for change in changes.values():
        for line in change.description():
            session.say(line)
    if options.dry_run:
        say_dry_run(session, lambda: [warning for change in changes.values() for warning in change.check()])
        return
    say_warnings(session, warnings)
    pending = [name for name, change in changes.items() if not change.is_empty]
    if not pending:
        session.say("Nothing was changed.")
        return
    if any(change.needs_consent for change in changes.values()):
        session.confirm(f"{question} {', '.join(pending)} {session.place}?", yes=options.yes)

    def make(name: str) -> None:
        for line in changes[name].make():
            session.say(line)

    session.each(pending, make, connectors=exist)
