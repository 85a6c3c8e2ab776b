"""What commands do to connectors: prepare changes, show them, ask, and make them.

`connector_admin` chooses who makes them: a worker, or this process on the cluster's topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kconnect_cli.admin.reports import each_or_nothing, say_dry_run, say_warnings

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Changes, PreparedChange
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect_cli.session import CliSession


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to make a change."""

    dry_run: bool = False
    yes: bool = False
    force: bool = False


def connector_admin(session: CliSession, *, force: bool = False, brokers: ClusterAccess | None = None) -> Changes:
    """What changes connectors in this call: a worker, or with --direct this process. `brokers`: as of `RestChanges`."""
    if session.direct is None:
        from kconnect.admin.cluster.rest_changes import RestChanges

        return RestChanges(lambda: session.client, brokers)
    from kconnect.admin.cluster.topic_changes import TopicChanges

    return TopicChanges(session.direct, force=force)


def make_changes(
    session: CliSession,
    question: str,
    names: Sequence[str],
    options: WriteOptions,
    prepare: Callable[[str], PreparedChange],
    *,
    exist: bool = True,
    which: Callable[[str], str] | None = None,
) -> None:
    """Prepare all changes, show them, ask, and make them; one connector after the other. `exist` is False for new ones.

    Nothing is written if one of them may not be changed; a dry run shows the plans anyway, and says so. `which`: as of
    `session.each`.
    """
    if not names:
        return
    changes: dict[str, PreparedChange] = {}
    warnings: list[str] = []

    def look(name: str) -> None:
        changes[name] = prepare(name)
        if not options.dry_run:
            warnings.extend(changes[name].check())

    each_or_nothing(session, names, look, connectors=exist, which=which)
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

    session.each(pending, make, connectors=exist, which=which)
