"""`connect topics .. put|delete` and `connect topics config restore`: records written by hand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.admin.edit_flow import Force, carry_out
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ON_CLUSTER, cluster_of
from kconnect_cli.options.topic_bounds import Until
from kconnect_cli.options.topic_groups import internal_topic
from kconnect_cli.session import Name, ShowSecrets, Yes, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.read.reader import ClusterReader, Latest
    from kconnect_cli.options.topic_groups import TopicGroups


Key = Annotated[
    str, typer.Argument(metavar="KEY", help="Key of the record; base64:.. for any bytes.", show_default=False)
]
Keys = Annotated[list[str], typer.Argument(metavar="KEY", help="Keys of records.", show_default=False)]
Value = Annotated[str | None, typer.Argument(metavar="VALUE", help="JSON; - reads stdin.", show_default=False)]
ValueFile = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the value from a file.", show_default=False)
]
At = Annotated[
    int | None,
    typer.Option("--at", metavar="OFFSET", min=0, help="As of the record at this offset.", show_default=False),
]


def mount(groups: TopicGroups) -> None:
    """Add the commands to their groups."""
    for word, group in groups.each:
        group.command("put", cls=ON_CLUSTER)(_put(word))
        group.command("delete", cls=ON_CLUSTER)(_delete(word))
    groups.config.command("restore", cls=ON_CLUSTER)(restore)


def _put(word: str) -> Callable[..., None]:
    def put(
        ctx: typer.Context,
        key: Key,
        value: Value = None,
        file: ValueFile = None,
        dry_run: DryRun = False,
        yes: Yes = False,
        force: Force = False,
        show_secrets: ShowSecrets = False,
    ) -> None:
        """Write one record. The value is checked for its kind; a masked secret keeps its current value."""
        session = session_of(ctx)
        cluster = cluster_of(session)
        from kconnect.admin.direct.edit.record_plans import put_plan
        from kconnect.admin.direct.read.reader import ClusterReader

        which, content = internal_topic(word), _content(value, file)
        access = cluster.access()
        with ClusterReader(access) as reader:
            plan = put_plan(which, _latest(reader, which, any_kind=force), key, content, is_forced=force)
            carry_out(session, access, reader, plan, dry_run=dry_run, yes=yes, force=force, reveal=show_secrets)

    return put


def _delete(word: str) -> Callable[..., None]:
    def delete(
        ctx: typer.Context,
        keys: Keys,
        dry_run: DryRun = False,
        yes: Yes = False,
        force: Force = False,
        show_secrets: ShowSecrets = False,
    ) -> None:
        """Delete records by writing tombstones, in the order of the keys."""
        session = session_of(ctx)
        cluster = cluster_of(session)
        from kconnect.admin.direct.edit.record_plans import delete_plan
        from kconnect.admin.direct.read.reader import ClusterReader

        which = internal_topic(word)
        access = cluster.access()
        with ClusterReader(access) as reader:
            plan = delete_plan(which, _latest(reader, which, any_kind=force), keys, is_forced=force)
            carry_out(session, access, reader, plan, dry_run=dry_run, yes=yes, force=force, reveal=show_secrets)

    return delete


def restore(
    ctx: typer.Context,
    name: Name,
    at: At = None,
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    show_secrets: ShowSecrets = False,
) -> None:
    """Restore an earlier version of a connector: config, target state and tasks; also of a deleted one.

    `connect topics config history NAME` lists its versions. What compaction has removed cannot come back.
    """
    session = session_of(ctx)
    cluster = cluster_of(session)
    from kconnect.admin.direct.edit.connector_plans import restore_plan
    from kconnect.admin.direct.read.reader import Bounds, ClusterReader
    from kconnect_cli.options.topic_points import milliseconds_of

    if (at is None) == (until is None):
        raise UsageProblem(
            "Give a point in the topic: --at OFFSET or --until TIME",
            hint=f"connect topics config history {name} lists the versions with offset and time.",
        )
    until_ms = None if until is None else milliseconds_of(until, "--until", time.time())
    bounds = Bounds(at={} if at is None else {0: at}, until_ms=until_ms)
    access = cluster.access()
    with ClusterReader(access) as reader:
        plan = restore_plan(reader.configs(), reader.configs(bounds), name)
        carry_out(
            session, access, reader, plan, dry_run=dry_run, yes=yes, force=force, reveal=show_secrets, as_settings=True
        )


def _latest(reader: ClusterReader, which: InternalTopic, *, any_kind: bool) -> Latest:
    from kconnect.admin.direct.access import InternalTopic

    match which:
        case InternalTopic.CONFIG:
            return reader.configs(any_kind=any_kind).latest
        case InternalTopic.STATUS:
            return reader.statuses(any_kind=any_kind).latest
    return reader.offsets(any_kind=any_kind).latest


def _content(value: str | None, file: str | None) -> bytes:
    """The value as given. Errors: UsageProblem for none, or for two."""
    if (value is None) == (file is None):
        raise UsageProblem("Give one value: as an argument, with -f FILE, or - for stdin")
    if value == "-" or file == "-":
        return sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()
    return Path(file).read_bytes() if file is not None else (value or "").encode()
