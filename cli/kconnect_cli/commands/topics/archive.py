"""`connect topics export|import`: the whole state of a cluster as a file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import BadRequestError, ConflictError, NotFoundError
from kconnect.logs.wording import pluralize
from kconnect_cli.admin.edit_flow import carry_out
from kconnect_cli.exits import UsageProblem
from kconnect_cli.files.json_files import read_json, source_of, write_whole_file
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ON_CLUSTER, cluster_of
from kconnect_cli.screen.output import json_text
from kconnect_cli.session import ShowSecrets, Yes, session_of

if TYPE_CHECKING:
    from kconnect_cli.options.topic_groups import TopicGroups


File = Annotated[str, typer.Argument(metavar="FILE", help="JSON file; - is stdout or stdin.", show_default=False)]
Connectors = Annotated[
    str | None,
    typer.Option("--connectors", metavar="A,B", help="Only these connectors. [default: all]", show_default=False),
]
WithOffsets = Annotated[
    bool, typer.Option("--with-offsets/--without-offsets", help="Offsets of sources, in the offsets topics.")
]
WithGroups = Annotated[
    bool, typer.Option("--with-groups/--without-groups", help="Committed offsets of the sinks' consumer groups.")
]
_REPLACE = "Also change existing connectors that differ, and reset offsets of theirs that a file with offsets lacks."
Replace = Annotated[bool, typer.Option("--replace", help=_REPLACE)]
WithAllOffsets = Annotated[
    bool,
    typer.Option(
        "--with-offsets/--without-offsets", help="Offsets of sources and sinks; without, those that are there stay."
    ),
]
CreateTopics = Annotated[
    bool, typer.Option("--create-topics", help="Create missing topics, as a worker of this file would.")
]


def mount(groups: TopicGroups) -> None:
    """Add the commands to their groups."""
    groups.topics.command("export", cls=ON_CLUSTER)(export)
    groups.topics.command("import", cls=ON_CLUSTER)(import_)


def export(
    ctx: typer.Context,
    file: File,
    connectors: Connectors = None,
    with_offsets: WithOffsets = True,
    with_groups: WithGroups = True,
    show_secrets: ShowSecrets = False,
) -> None:
    """Write connectors (config, target state, tasks), source offsets and sinks' group offsets to a JSON file.

    Secrets are masked; with --show-secrets the file contains them, and only its owner may read it. It never contains
    statuses or the session key. `import` accepts it, on this cluster or another.
    """
    session = session_of(ctx)
    cluster = cluster_of(session)
    from kconnect.admin.direct.archive.document import archive_document
    from kconnect.admin.direct.archive.live_state import read_cluster
    from kconnect.admin.direct.edit.connector_plans import known
    from kconnect.admin.direct.read.installed_plugins import secret_masks
    from kconnect.admin.direct.read.reader import ClusterReader

    if show_secrets and file == "-":
        raise UsageProblem("Secrets are only written to a file", hint="Name a FILE: only you will be able to read it.")
    names = _names(connectors)
    access = cluster.access()
    with ClusterReader(access) as reader:
        state = read_cluster(access, reader, names)
    for name in names or ():
        known(state.configs, name)
    document = archive_document(
        state,
        names,
        int(time.time() * 1000),
        with_offsets=with_offsets,
        with_groups=with_groups,
        masks=secret_masks(access, reveal=show_secrets),
        skip=lambda sentence: session.say(f"Left out: {sentence}"),
    )
    write_whole_file(file, json_text(document) + "\n", is_secret=show_secrets)
    session.say(f"Exported {_count(document)} to {'stdout' if file == '-' else file}.")


def import_(
    ctx: typer.Context,
    file: File,
    connectors: Connectors = None,
    replace: Replace = False,
    with_offsets: WithAllOffsets = True,
    create_topics: CreateTopics = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    show_secrets: ShowSecrets = False,
) -> None:
    """Restore an export into a cluster that does not run; entries that already match are left unchanged.

    Offsets are written first and each connector as a whole, so an interrupted import can simply be repeated. Connectors
    that are not in the file are kept. A masked secret keeps its current value.
    """
    session = session_of(ctx)
    cluster = cluster_of(session)
    from kconnect.admin.direct.archive import live_state
    from kconnect.admin.direct.archive.document import import_plan, read_archive
    from kconnect.admin.direct.edit.topic_creation import create_topics as create
    from kconnect.admin.direct.edit.topic_creation import topic_specs
    from kconnect.admin.direct.read.reader import ClusterReader

    try:
        archive = read_archive(read_json(file)).chosen(_names(connectors))
    except BadRequestError as err:
        raise BadRequestError(f"{source_of(file)}: {err}", hint=err.hint) from err
    if not with_offsets:
        archive = archive.without_offsets()
    access = cluster.access()
    with ClusterReader(access) as reader:
        missing = live_state.missing_topics(access, reader)
        if missing and not create_topics:
            raise NotFoundError(
                f"Topic {access.topic(missing[0])} does not exist", hint="--create-topics creates it as a worker would."
            )
        specs = topic_specs(access, missing) if missing else []
        for which in missing:
            session.say(f"Topic {access.topic(which)} does not exist{'' if dry_run else ', it will be created'}.")
        state = live_state.read_cluster(access, reader, (), archive, missing)
        plan = import_plan(archive, state, replace=replace)
        try:
            carry_out(
                session,
                access,
                reader,
                plan,
                dry_run=dry_run,
                yes=yes,
                reveal=show_secrets,
                as_settings=True,
                prepare=lambda: create(access, reader, specs),
            )
        except ConflictError as err:
            if plan.groups:  # of which one may have members
                err.hint = f"{err.hint or ''} --without-offsets leaves offsets and groups as they are.".strip()
            raise


def _names(given: str | None) -> list[str] | None:
    if given is None:
        return None
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise UsageProblem("--connectors names none")
    return names


def _count(document: dict[str, Any]) -> str:
    count = len(document["connectors"])
    parts = [f"{pluralize(count, 'connector')}"]
    parts += [f"offsets of {len(document['offsets'])}"] if "offsets" in document else []
    parts += [f"groups of {len(document['groups'])}"] if "groups" in document else []
    return ", ".join(parts)
