"""`connect connectors`: list, show, create, pause, resume, stop, restart, rename, copy, delete, topics; over
REST or --direct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.admin.cluster.port import Changes, PreparedChange
from kconnect.client.masks import Masks, unmasked
from kconnect.runtime.config.labels import labels_of, labels_text
from kconnect_cli.admin.connector_admin import (
    WriteOptions,
    connector_admin,
    make_changes,
)
from kconnect_cli.admin.connector_move import ConnectorCopy, DeletionWithOffsets
from kconnect_cli.admin.live_workers import say_who_lives
from kconnect_cli.admin.reports import not_done
from kconnect_cli.admin.worker_start import report_unassigned, reporting_start
from kconnect_cli.commands.connectors.apply import apply
from kconnect_cli.commands.connectors.status import status, wait
from kconnect_cli.commands.connectors.watch import watch
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.direct import DIRECT, DryRun, Force, refuse_without_direct
from kconnect_cli.options.selection import (
    LabelOption,
    Selection,
    SelectionOptions,
    nothing_chosen,
    read_labels,
    require_positive,
    say_unreadable,
    select_names,
    selected,
)
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, Row, fitted, state_counts, write_object, write_rows, write_text
from kconnect_cli.screen.status_rows import as_known
from kconnect_cli.session import CliSession, Name, ShowSecrets, Yes, session_of
from kconnect_cli.settings.spelling import Strict, check_settings

if TYPE_CHECKING:
    from kconnect.model import ConnectorInfo, ConnectorStatus
    from kconnect_cli.settings.change_display import Mask

app = command_group(
    "Create, apply, list, show, pause, resume, stop, restart, delete connectors; their status and topics."
)

_Old = Annotated[str, typer.Argument(metavar="OLD", help="The connector that is there.", show_default=False)]
_New = Annotated[str, typer.Argument(metavar="NEW", help="The new name.", show_default=False)]
_COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("TYPE", lambda row: row["type"]),
    Column("STATE", lambda row: row["state"]),
    Column("TASKS", lambda row: state_counts([task["state"] for task in row["tasks"]])),
)
_LABELS = Column("LABELS", lambda row: labels_text(row["labels"] or {}))


_Some = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these connectors.", show_default=False)]
_Regexp = Annotated[bool, typer.Option("--regexp", "-e", help="Names are regular expressions for the whole name.")]
_Failed = Annotated[bool, typer.Option("--failed", help="Only those that are FAILED, or have a FAILED task.")]
_YesDirect = Annotated[bool, typer.Option("--yes", "-y", help="With --direct: do not ask.")]
_State = Annotated[list[str] | None, typer.Option("--state", metavar="STATE", help="Only those in this state.")]


@app.command("list", cls=takes(*DIRECT))
def list_(
    ctx: typer.Context,
    names: _Some = None,
    regexp: _Regexp = False,
    failed: _Failed = False,
    state: _State = None,
    labels: LabelOption = None,
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Show labels; -l does too.")] = False,
) -> None:
    """List connectors with their type, state and tasks."""
    session = session_of(ctx)
    selection = Selection.of(names, regexp, False, failed, state, labels=labels)
    with reporting_start(session):
        statuses = session.reader.connector_statuses()
    known = read_labels(session) if show_labels or selection.labels else None
    chosen = [session.known(name, statuses) for name in sorted(select_names(selection, statuses, known))]
    rows = [_row(found) if known is None else {**_row(found), "labels": known.get(found.name)} for found in chosen]
    columns = _COLUMNS if known is None else (*_COLUMNS, _LABELS)
    write_rows(as_known(rows, session.outage), columns, session.output)
    say_unreadable(session, known or {})
    if session.output is Format.TABLE and not chosen and (selection.labels or not statuses):
        session.say(nothing_chosen(selection, session.url))
    report_unassigned(session, chosen)
    say_who_lives(session, [found.name for found in chosen])


@app.command(cls=takes(SelectionOptions, *DIRECT))
def show(
    ctx: typer.Context,
    show_secrets: ShowSecrets = False,
) -> None:
    """Show connectors: type, state, config, tasks, and why they failed. One name prints one object for `apply`."""
    session = session_of(ctx)
    names, selection = selected(session)
    client = session.reader
    mask = Masks(session.reader, reveal=show_secrets).masked
    found = [
        session.on_connector(name, lambda name: _described(client.connector(name), client.connector_status(name), mask))
        for name in names
    ]
    if session.output is Format.NAME:
        write_rows(found, _COLUMNS, session.output)
    elif session.output is Format.TABLE:
        write_text(fitted("\n".join(_page(connector) for connector in found)))
    else:
        one = len(found) == 1 and not selection.needs_looking
        write_object(found[0] if one else found, session.output)
    if client.held_up is not None:
        session.say(f"{client.held_up}.")
    say_who_lives(session, names)


@app.command(cls=takes(*DIRECT))
def create(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help=".properties, .json, .toml or .yaml; - reads stdin.", show_default=False),
    ] = None,
    more: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE", help="The same as FILE.")] = None,
    offsets: Annotated[
        str | None,
        typer.Option(
            "--offsets",
            metavar="FILE",
            help="Where the tasks start: JSON as `offsets show -o json` prints it; - reads stdin.",
            show_default=False,
        ),
    ] = None,
    strict: Strict = False,
    dry_run: DryRun = False,
    yes: _YesDirect = False,
    force: Force = False,
) -> None:
    """Create connectors from files. Warns of settings that look misspelt.

    With --offsets the tasks start there, and offsets that a deleted connector of the same name left are removed. When
    the offsets are refused there is no connector. Java's workers up to 4.3 do not know them and refuse them; --direct
    writes them for such a cluster too. It asks no worker: settings are checked if the plugin is installed here.
    """
    session = session_of(ctx)
    from kconnect_cli.files.connector_files import read_connector_file, refuse_settings
    from kconnect_cli.files.offset_files import read_offsets

    chosen = [*(files or []), *(more or [])]
    if not chosen:
        raise UsageProblem("No file given", hint="connect connectors create FILE, or - for stdin.")
    refuse_settings(chosen)
    instead = "connect connectors apply --dry-run FILE shows what would be done."
    refuse_without_direct(session, dry_run=dry_run, force=force, instead=instead)
    connectors = [read_connector_file(path) for path in chosen]
    if twice := next((name for name, count in Counter(file.name for file in connectors).items() if count > 1), None):
        raise UsageProblem(f"Two of the files are named {twice}", hint="Each connector needs a name of its own.")
    configs = [unmasked(file.config, {}, file.name, str(file.path)) for file in connectors]
    check_settings(
        session, {file.name: config for file, config in zip(connectors, configs, strict=True)}, strict=strict
    )
    names = [file.name for file in connectors]
    first = read_offsets(offsets).chosen(names) if offsets is not None else {}
    states = {file.name: file.initial_state for file in connectors}
    settings = dict(zip(names, configs, strict=True))
    admin = connector_admin(session, force=force)

    def creation(name: str) -> PreparedChange:
        return admin.create(name, settings[name], states[name], first.get(name))

    of = {file.name: file for file in connectors}
    options = WriteOptions(dry_run, yes, force)
    make_changes(
        session,
        "Create",
        names,
        options,
        creation,
        exist=False,
        which=lambda name: not_done(name, of[name], "created"),
    )


@app.command(cls=takes(SelectionOptions, *DIRECT))
def pause(ctx: typer.Context, dry_run: DryRun = False, yes: _YesDirect = False, force: Force = False) -> None:
    """Pause connectors: tasks stay and idle."""
    session = session_of(ctx)
    names, _ = selected(session)
    _change(session, names, "Pause", lambda admin: admin.pause, WriteOptions(dry_run, yes, force))


@app.command(cls=takes(SelectionOptions, *DIRECT))
def resume(ctx: typer.Context, dry_run: DryRun = False, yes: _YesDirect = False, force: Force = False) -> None:
    """Resume paused or stopped connectors."""
    session = session_of(ctx)
    names, _ = selected(session)
    _change(session, names, "Resume", lambda admin: admin.resume, WriteOptions(dry_run, yes, force))


@app.command(cls=takes(SelectionOptions, *DIRECT))
def stop(ctx: typer.Context, dry_run: DryRun = False, yes: _YesDirect = False, force: Force = False) -> None:
    """Stop connectors: tasks end, config and offsets stay."""
    session = session_of(ctx)
    names, _ = selected(session)
    _change(session, names, "Stop", lambda admin: admin.stop, WriteOptions(dry_run, yes, force))


@app.command(cls=takes(SelectionOptions))
def restart(
    ctx: typer.Context,
    task: Annotated[int | None, typer.Option("--task", metavar="TASK", help="Restart this task only.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", "--include-tasks", help="Restart the tasks too.")] = False,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Restart only what has FAILED.")] = False,
) -> None:
    """Restart connectors, alone or with their tasks, or one task. Says what was restarted, and what was not.

    `restart --failed --all` restarts only the FAILED connectors and tasks of all connectors.
    """
    session = session_of(ctx)
    names, selection = selected(session)
    from kconnect.model import TaskId

    if task is not None and (tasks or only_failed):
        raise UsageProblem("--task restarts one task; it cannot be combined with --tasks or --only-failed")
    failed = "FAILED" in selection.states and task is None and not tasks
    tasks, only_failed = tasks or failed, only_failed or failed

    admin = connector_admin(session)

    def one(name: str) -> None:
        if task is not None:
            change = admin.restart_task(TaskId(name, task))
        else:
            change = admin.restart(name, include_tasks=tasks, only_failed=only_failed)
        for line in change.make():
            session.say(line)

    session.each(names, one)


@app.command(cls=takes(SelectionOptions, *DIRECT))
def delete(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="FILE|DIR", help="The connectors of these files.", show_default=False),
    ] = None,
    with_offsets: Annotated[
        bool, typer.Option("--with-offsets", help="Stop them, and reset their offsets first.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> None:
    """Delete connectors. Their offsets are kept: a connector created again with the same name continues there.

    With --with-offsets it begins at the beginning: each is stopped, and its offsets are reset, before it is deleted.

    `-f` deletes the connectors in files, `--prefix` those whose name begins with it, `-l` those with labels. `--all`
    alone is refused: it would also delete connectors of others. With --direct also those whose names REST cannot
    address.
    """
    session = session_of(ctx)
    names, selection = selected(session, files)
    if selection.labels is not None and not selection.prefixes:
        require_positive(selection.labels)
    elif selection.all and not selection.prefixes:
        raise UsageProblem(
            "--all would delete every connector of the cluster, whoever made it",
            hint="Choose yours: names, -f FILE, --prefix PREFIX, or -l SELECTOR. All of them, really: --regexp '.*'.",
        )
    options = WriteOptions(dry_run, yes, force)
    if not with_offsets:
        _change(session, names, "Delete", lambda admin: admin.delete, options)
        return
    refuse_without_direct(session, dry_run=dry_run, force=force)
    admin = connector_admin(session, force=force)
    make_changes(session, "Delete", names, options, lambda name: _deletion(session, admin, name, force=force))


@app.command(cls=takes())
def topics(ctx: typer.Context, name: Name) -> None:
    """Show the topics that a connector was seen to use."""
    session = session_of(ctx)
    found = session.on_connector(name, session.client.topics)
    write_rows(
        [{"name": topic} for topic in sorted(found)], (Column("TOPIC", lambda row: row["name"]),), session.output
    )
    if not found and session.output is Format.TABLE:
        session.say(f"{name} has not been seen using a topic yet.")


@app.command("reset-topics", cls=takes(SelectionOptions))
def reset_topics(ctx: typer.Context) -> None:
    """Reset the topics that connectors were seen to use; those still in use reappear."""
    session = session_of(ctx)
    names, _ = selected(session)
    _each(session, names, "topics reset:", session.client.reset_topics)


def rename(
    ctx: typer.Context, old: _Old, new: _New, dry_run: DryRun = False, yes: Yes = False, force: Force = False
) -> None:
    """Give a connector another name: it continues at its offsets, in the state it was in.

    Stops it, creates one of the new name with the same config, sets and verifies the offsets (a sink's consumer group,
    a source's records in the offsets topic), and deletes the old one. If a step fails, the old one runs on and there is
    no new one. The offsets of the old name stay, as with any deletion.

    With --direct no task of it may run: the offsets are written first, then both configs at once.
    """
    _copy(session_of(ctx), old, new, WriteOptions(dry_run, yes, force), moves=True)


def copy(
    ctx: typer.Context,
    old: _Old,
    new: _New,
    start: Annotated[bool, typer.Option("--start", help="Run it at once; else it is STOPPED.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> None:
    """Create a connector with the config of another, at the offsets which that one has committed.

    The old one is not touched. The new one is STOPPED: change its config first, then resume it.
    """
    _copy(session_of(ctx), old, new, WriteOptions(dry_run, yes, force), moves=False, starts=start)


def _copy(session: CliSession, old: str, new: str, options: WriteOptions, *, moves: bool, starts: bool = False) -> None:
    if old == new:
        raise UsageProblem(f"OLD and NEW are both {old}")
    refuse_without_direct(session, dry_run=options.dry_run, force=options.force)
    direct, admin = session.direct, connector_admin(session)

    def prepared(name: str) -> PreparedChange:
        if direct is None:
            return ConnectorCopy(session, admin, name, new, moves, starts)
        from kconnect_cli.admin.topic_moves import TopicCopy

        return TopicCopy.of(direct, name, new, moves=moves, starts=starts, force=options.force)

    make_changes(session, f"To {new}, {'rename' if moves else 'copy'}", [old], options, prepared)


app.command("apply", cls=takes())(apply)
app.command("status", cls=takes(*DIRECT))(status)
app.command("wait", cls=takes())(wait)
app.command("rename", cls=takes(*DIRECT))(rename)
app.command("copy", cls=takes(*DIRECT))(copy)
app.command("watch", cls=takes(*DIRECT))(watch)


def _deletion(session: CliSession, admin: Changes, name: str, *, force: bool) -> PreparedChange:
    """One with its offsets."""
    if session.direct is None:
        return DeletionWithOffsets(session, admin, name)
    from kconnect_cli.admin.topic_moves import TopicDeletion

    return TopicDeletion.of(session, session.direct, admin, name, force=force)


def _change(
    session: CliSession,
    names: Sequence[str],
    question: str,
    change: Callable[[Changes], Callable[[str], PreparedChange]],
    options: WriteOptions,
) -> None:
    """Change connectors, over REST or on the topics."""
    refuse_without_direct(session, dry_run=options.dry_run, force=options.force)
    make_changes(session, question, names, options, change(connector_admin(session, force=options.force)))


def _each(session: CliSession, names: Sequence[str], verb: str, act: Callable[[str], None]) -> None:
    def one(name: str) -> None:
        act(name)
        session.say(f"{verb} {name}")

    session.each(names, one)


def _row(status: ConnectorStatus) -> dict[str, Any]:
    row: dict[str, Any] = {"name": status.name, "type": str(status.type), "state": str(status.connector.state)}
    if status.connector.trace:
        row["trace"] = status.connector.trace
    row["tasks"] = [task.to_json() for task in status.tasks]
    return row


def _described(info: ConnectorInfo, status: ConnectorStatus, mask: Mask) -> dict[str, Any]:
    row = _row(status)
    tasks = row.pop("tasks")
    if labels := labels_of(info.config):
        row["labels"] = labels
    return {**row, "config": mask(info.config), "tasks": tasks}


def _page(connector: Row) -> str:
    """One connector for people."""
    lines = [f"{connector['name']}  {connector['type']}  {connector['state']}"]
    lines += [f"labels  {labels_text(connector['labels'])}"] if connector.get("labels") else []
    lines.append("config")
    lines += [f"  {key} = {value}" for key, value in sorted(connector["config"].items())]
    lines.append("tasks" if connector["tasks"] else "tasks: none")
    lines += [f"  {task['id']}  {task['state']}  {task['worker_id']}" for task in connector["tasks"]]
    for what, trace in [("connector", connector.get("trace"))] + [
        (f"task {task['id']}", task.get("trace")) for task in connector["tasks"]
    ]:
        if trace:
            lines += [f"trace of {what}", *(f"  {line}" for line in trace.rstrip().splitlines())]
    return "\n".join(lines) + "\n"
