"""`connect offsets export|import`: source offsets between a standalone file, the topics of a cluster and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.admin.cluster.plan_text import plan_lines, written_lines
from kconnect.logs.wording import pluralize
from kconnect_cli.admin.reports import say_dry_run, say_warnings
from kconnect_cli.exits import UsageProblem
from kconnect_cli.files.json_files import write_whole_file
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ClusterOptions, cluster_of
from kconnect_cli.options.direct import direct_client
from kconnect_cli.screen.output import json_text, plain_table
from kconnect_cli.session import CliSession, Yes, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.edit.plan import EditPlan
    from kconnect.admin.direct.offsets.transfers import Offsets


_Out = Annotated[str, typer.Argument(metavar="FILE", help="JSON file to write; - is stdout.", show_default=False)]
_In = Annotated[str, typer.Argument(metavar="FILE", help="JSON file to read; - is stdin.", show_default=False)]
_Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these connectors.", show_default=False)]
_FromFile = Annotated[
    Path | None,
    typer.Option("--from-file", metavar="OFFSETS", help="Offsets file of a standalone worker.", show_default=False),
]
_ToFile = Annotated[
    Path | None,
    typer.Option(
        "--to-file",
        metavar="OFFSETS",
        help="Offsets file of a standalone worker, which must not be running.",
        show_default=False,
    ),
]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")]
_Replace = Annotated[
    bool, typer.Option("--replace", help="Also reset partitions of these connectors that FILE does not have.")
]
_Force = Annotated[bool, typer.Option("--force", help="Write even if live workers have the connector.")]


def export(
    ctx: typer.Context,
    file: _Out,
    names: _Names = None,
    from_file: _FromFile = None,
    overwrite: _Overwrite = False,
) -> None:
    """Write source offsets to a JSON file: of a standalone worker's file, or of a cluster's topics.

    \b
    connect offsets export saved.json --from-file connect.offsets
    connect offsets export saved.json --worker distributed.properties
    connect offsets export - orders lines --worker distributed.properties

    No worker is needed, and a running one is not affected. The JSON is that of `connect offsets show`, which `alter`
    and `import` accept. --worker may name a standalone worker's properties too.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    session = session_of(ctx)
    cluster = cluster_of(session)
    from kconnect_cli.files.offset_files import offsets_document

    chosen = names or []
    source = _offsets_file(from_file, cluster, "--from-file")
    if file != "-" and Path(file).exists() and not overwrite:
        raise UsageProblem(f"{file} already exists", hint="--overwrite replaces it.")
    found = _of_cluster(session, cluster, chosen) if source is None else _of_file(session, source, chosen)
    write_whole_file(file, json_text(offsets_document(found, one=False)) + "\n")
    count = sum(len(offsets) for offsets in found.values())
    place = "" if file == "-" else f" {'is' if count == 1 else 'are'} in {file}"
    session.say(f"{pluralize(count, 'offset')} of {pluralize(len(found), 'connector')}{place}.")


def import_(
    ctx: typer.Context,
    file: _In,
    names: _Names = None,
    to_file: _ToFile = None,
    replace: _Replace = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: _Force = False,
) -> None:
    """Write source offsets from a JSON file to a standalone worker's file, or to a cluster's topics.

    \b
    connect offsets import saved.json --to-file connect.offsets
    connect offsets import saved.json --worker distributed.properties
    connect offsets export - --worker old.properties | connect offsets import - --worker new.properties --yes

    Partitions missing from FILE are left unchanged, unless --replace; a null offset resets one. Connectors need not
    exist yet. In a live cluster they must be STOPPED, and an offsets file must not be in use.
    """  # noqa: D301  # as above
    session = session_of(ctx)
    cluster = cluster_of(session)
    from kconnect_cli.files.offset_files import read_offsets

    wanted = read_offsets(file).chosen(names or [])
    target = _offsets_file(to_file, cluster, "--to-file")
    if target is None:
        _to_cluster(session, cluster, wanted, replace=replace, dry_run=dry_run, yes=yes, force=force)
    else:
        _to_file(session, target, wanted, replace=replace, dry_run=dry_run, yes=yes)


COMMANDS: Mapping[str, Callable[..., None]] = {"export": export, "import": import_}


def _offsets_file(given: Path | None, cluster: ClusterOptions, option: str) -> Path | None:
    """The standalone file that is meant, None for topics. Errors: UsageProblem if both or neither is given."""
    from kconnect.admin.direct.offsets.transfers import standalone_file

    if given is not None:
        if cluster.is_on_line:
            raise UsageProblem(f"{option} names a file, and the other options a cluster", hint="Give one of them.")
        return given
    if not cluster.is_given:
        raise UsageProblem(
            "No file or cluster was given for the offsets",
            hint=f"Give {option} connect.offsets of a standalone worker, or --worker WORKER.properties of a cluster.",
        )
    return standalone_file(cluster.access())


def _of_file(session: CliSession, path: Path, names: list[str]) -> Offsets:
    from kconnect.admin.direct.offsets.transfers import read_offset_file
    from kconnect.errors import NotFoundError

    found = read_offset_file(path).offsets(session.say)
    for name in names:
        if name not in found:
            raise NotFoundError(
                f"{path} has no offsets of {name}", hint=f"It has those of {', '.join(found) or 'nobody'}."
            )
    return {name: found[name] for name in names} if names else found


def _of_cluster(session: CliSession, cluster: ClusterOptions, names: list[str]) -> Offsets:
    from kconnect.admin.direct.offsets.transfers import read_cluster

    session.direct = direct_client(session, cluster)
    return read_cluster(session.direct, names, session.say)


def _to_file(session: CliSession, path: Path, wanted: Offsets, *, replace: bool, dry_run: bool, yes: bool) -> None:
    from kconnect.admin.direct.offsets.transfers import OffsetFileNow, refuse_if_used

    refuse_if_used(path)
    now = OffsetFileNow(path)
    changes = now.changes(wanted, replaced=replace)
    rows = [(_text(key), _text(now.value(key)), _text(value)) for key, value in changes.items()]
    if rows:
        session.say(plain_table(("KEY", "OLD", "NEW"), rows).rstrip("\n"))
    if dry_run or not changes:
        session.say("Dry run: nothing was changed." if dry_run else f"{path} has these offsets already.")
        return
    session.confirm(f"Write {pluralize(len(changes), 'offset')} to {path}?", yes=yes)
    now.write(changes)
    session.say(f"{pluralize(len(changes), 'offset')} {'was' if len(changes) == 1 else 'were'} written to {path}.")


def _to_cluster(
    session: CliSession,
    cluster: ClusterOptions,
    wanted: Offsets,
    *,
    replace: bool,
    dry_run: bool,
    yes: bool,
    force: bool,
) -> None:
    from kconnect.admin.direct.offsets.transfers import TopicImport

    client = session.direct = direct_client(session, cluster)
    found = TopicImport.plan(client, wanted, replaced=replace)
    if dry_run:
        _say_plans(session, found.plans)
        say_dry_run(session, lambda: found.check(client, force=force).warnings)
        return
    checked = found.check(client, force=force)
    _say_plans(session, found.plans)
    say_warnings(session, checked.warnings)
    if not found.plans:
        session.say("The topics have these offsets already.")
        return
    session.confirm(f"Import offsets of {', '.join(wanted)} to {client.place}?", yes=yes)
    for applied in found.apply(client, force=force):
        for line in written_lines(applied):
            session.say(line)
    session.say(f"Offsets of {', '.join(wanted)} were imported.")


def _say_plans(session: CliSession, plans: Sequence[EditPlan]) -> None:
    for plan in plans:
        for line in plan_lines(plan):
            session.say(line)


def _text(data: bytes | None) -> str:
    return "-" if data is None else data.decode(errors="backslashreplace")
