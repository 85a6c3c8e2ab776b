"""`connect tasks`: list, show, restart tasks of connectors, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.client.masks import Masks
from kconnect.clock import now_ms
from kconnect.errors import NotFoundError, TimedOutError
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.selection import LabelOption, Selection, chosen_names, find_names
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, Row, fitted, write_object, write_rows, write_text
from kconnect_cli.screen.status_rows import condition_name, more_of, part_of, why
from kconnect_cli.session import CliSession, Name, ShowSecrets, session_of

if TYPE_CHECKING:
    from kconnect.model import ConnectorStatus, TaskId

app = command_group("List, show, restart tasks of connectors.")

_Number = Annotated[int, typer.Argument(metavar="TASK", help="Number of the task.", show_default=False)]
_Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Connector names.", show_default=False)]
_Regexp = Annotated[bool, typer.Option("--regexp", "-e", help="Names are regular expressions for the whole name.")]
_Failed = Annotated[bool, typer.Option("--failed", help="Short for --state FAILED.")]
_State = Annotated[list[str] | None, typer.Option("--state", metavar="STATE", help="Only tasks in this state.")]

_COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("TASK", lambda row: str(row["task"])),
    Column("STATE", lambda row: row["state"]),
    Column("CONDITION", lambda row: condition_name(row)),
    Column("WORKER", lambda row: row["worker_id"]),
    Column("WHY", why),
)


@app.command("list", cls=takes())
def list_(
    ctx: typer.Context,
    names: _Names = None,
    regexp: _Regexp = False,
    failed: _Failed = False,
    state: _State = None,
    labels: LabelOption = None,
) -> None:
    """List tasks of all connectors, or of those named, with their state and worker."""
    session = session_of(ctx)
    selection = Selection.of(names, regexp, False, failed, state, labels=labels)
    statuses = session.reader.connector_statuses()
    chosen = [session.known(name, statuses) for name in sorted(find_names(session, selection, statuses))]
    write_rows([row for found in chosen for row in _rows(found, selection)], _COLUMNS, session.output)


@app.command(cls=takes())
def show(
    ctx: typer.Context,
    name: Name,
    task: _Number,
    show_secrets: ShowSecrets = False,
) -> None:
    """Show one task: state, worker, config, and why it failed. Null is a config that cannot be read."""
    session = session_of(ctx)
    from kconnect.model import TaskId

    status = session.on_connector(name, lambda name: session.client.task_status(TaskId(name, task)))
    row: dict[str, Any] = {"name": name, "task": task, "state": str(status.state), "worker_id": status.worker_id}
    row |= more_of(status)
    row["config"] = _config(session, TaskId(name, task), show_secrets=show_secrets)
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
    else:
        write_text(fitted(_page(row)) if session.output is Format.TABLE else f"{name}\n")


@app.command(cls=takes())
def restart(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME [TASK]]", help="A connector, task numbers.")
    ] = None,
    regexp: _Regexp = False,
    all_: Annotated[bool, typer.Option("--all", help="Tasks of all connectors.")] = False,
    failed: _Failed = False,
    state: _State = None,
    labels: LabelOption = None,
) -> None:
    """Restart tasks: `restart NAME 0 2`, all of a connector by `restart NAME`, `restart --failed --all`."""
    session = session_of(ctx)
    from kconnect.model import TaskId

    name, numbers = (words or [])[:1], [_whole(word) for word in (words or [])[1:]]
    selection = Selection.of(name, regexp, all_, failed, state, labels=labels)
    if numbers:
        if selection.needs_looking:
            raise UsageProblem("Task numbers need exactly one name and no filter")
        ids = [TaskId(name[0], number) for number in numbers]
    else:
        names = chosen_names(session, selection)
        statuses = session.reader.connector_statuses()
        rows = [row for each in names for row in _rows(session.known(each, statuses), selection)]
        ids = [TaskId(row["name"], row["task"]) for row in rows]
        if names and not ids:
            session.say("No such task.")
    by_text = {str(task): task for task in ids}

    def one(text: str) -> None:
        task = by_text[text]
        session.on_connector(task.connector, lambda _name: session.client.restart_task(task))
        session.say(f"restarted {task.connector} task {task.task}")

    session.each(list(by_text), one, connectors=False)


def _rows(status: ConnectorStatus, selection: Selection) -> list[dict[str, Any]]:
    """Shape: name, task, state, worker_id; condition and trace where there is one."""
    rows: list[dict[str, Any]] = []
    for task in status.tasks:
        if selection.states and str(task.state) not in selection.states:
            continue
        row = {"name": status.name, "task": task.id, "state": str(task.state), "worker_id": task.worker_id}
        rows.append(row | more_of(task))
    return rows


def _config(session: CliSession, task: TaskId, *, show_secrets: bool) -> dict[str, str] | None:
    """Returns None where the worker is held up, as Java's are by a Kafka that does not answer."""
    try:
        infos = {info.id: info for info in session.client.tasks(task.connector)}
    except TimedOutError as err:
        session.say(f"Its config is not known: {err}.")
        return None
    if task not in infos:
        raise NotFoundError(f"Task {task} not found")
    return Masks(session.reader, reveal=show_secrets).masked(infos[task].config)


def _page(row: Row) -> str:
    config = row["config"]
    lines = [f"{row['name']} task {row['task']}  {row['state']}  {row['worker_id']}"]
    lines += ["config: not known"] if config is None else ["config"]
    lines += [f"  {key} = {value}" for key, value in sorted((config or {}).items())]
    if reported := part_of(row).why(now_ms()) or condition_name(row):
        lines[0] += f"  {reported}"
    if stack := (row.get("condition") or {}).get("stack"):
        lines += ["stack", *(f"  {line}" for line in stack.rstrip().splitlines())]
    if row.get("trace"):
        lines += ["trace", *(f"  {line}" for line in row["trace"].rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise UsageProblem(
            f"{text} is not a task number", hint="connect tasks restart NAME 0 1; for several names use --regexp."
        )
    return int(text)
