"""`connect topics config|status|offsets repair`: an internal topic as workers need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ON_CLUSTER, cluster_of
from kconnect_cli.session import Yes, session_of

if TYPE_CHECKING:
    from kconnect_cli.options.topic_groups import TopicGroups


def mount(groups: TopicGroups) -> None:
    """Add the commands to their groups."""
    for word, group in groups.each:
        group.command("repair", cls=ON_CLUSTER)(_repair_of(word))


def _repair_of(word: str) -> Callable[..., None]:
    def repair(ctx: typer.Context, dry_run: DryRun = False, yes: Yes = False) -> None:
        """Create the topic if it is missing, and correct settings with which no worker starts or writes.

        It is created as a worker of this file would; an existing one gets cleanup.policy=compact, and a
        min.insync.replicas that its replicas can meet. Its records stay as they are.
        """
        session = session_of(ctx)
        cluster = cluster_of(session)
        from kconnect.admin.direct.doctor.topic_repair import topic_repair
        from kconnect.admin.direct.read.reader import ClusterReader
        from kconnect_cli.options.topic_groups import internal_topic

        access = cluster.access()
        with ClusterReader(access) as reader:
            found = topic_repair(access, reader, internal_topic(word))
            if found.is_empty:
                session.say(f"Topic {found.topic}: nothing must be repaired.")
                return
            for line in found.lines():
                session.say(line)
            if dry_run:
                session.say("Nothing was changed: this was a dry run.")
                return
            session.confirm(f"Repair topic {found.topic}?", yes=yes)
            found.carry_out(access, reader)
            session.say(f"Repaired topic {found.topic}.")

    return repair
