"""`connect slots`: where tasks run, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from kconnect.client.slots import bounds, whose
from kconnect.errors import NotFoundError
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, Row, some_names, write_object, write_rows
from kconnect_cli.session import CliSession, session_of

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes())
def slots(ctx: typer.Context) -> None:
    """Show each slot of all workers: Spark job, executor, host, process, tasks, CPU, memory; queries run in the driver.

    A slot is a connector's own where its config has kconnect.slot=own; the others are shared. Between bounds, as in
    kconnect.slots=2..8, they come and go with the load.
    Where kconnect.java.opts name a port, the JVMs of each slot, and of the worker (driver), have their own.
    Workers that do not answer, and Java's, are named on stderr. Of many tasks the table has the first; JSON has all.

    JSON: a list of objects with worker, slot (null: the driver), attached, job_group, executor, host, pid, tasks,
    cpu_seconds, cpu_percent, memory_bytes, java_ports, connector (whose own it is; null: shared),
    memory_limit_bytes, cores_limit, shared_least, shared_most (how many slots the worker has that are shared).
    """
    session = session_of(ctx)
    workers = _workers(session)
    found = [{"worker": worker["worker"], **slot} for worker in workers for slot in worker["slots"]]
    if session.output in (Format.JSON, Format.YAML):
        write_object(found, session.output)
    else:
        rows: list[Row] = [{**slot, "name": _name(slot)} for slot in found]
        write_rows(rows, _columns(found, len(workers)), session.output)
    for worker in workers:
        if not worker["answers"]:
            why = worker.get("refusal") or "it does not answer, or is one of Java's"
            session.say(f"The slots of {worker['worker']} are not known: {why}.")
        elif not worker["slots"]:
            session.say(f"{worker['worker']} has no slots yet: Spark is starting.")


def _workers(session: CliSession) -> list[dict[str, Any]]:
    """Errors: NotFoundError of a worker of Java's."""
    try:
        return session.client.workers()
    except NotFoundError as err:
        raise NotFoundError(
            f"The worker at {session.url} has no slots: it is one of Java's, whose tasks are threads",
            hint="connect tasks list shows its tasks.",
        ) from err


def _columns(found: Sequence[Mapping[str, Any]], workers: int) -> Sequence[Column]:
    has_ports = any(slot.get("java_ports") for slot in found)
    number, *others = _COLUMNS
    differ = any(slot.get("connector") for slot in found) or bounds(found)
    first = (*([_WORKER] if workers > 1 else []), number, *([_WHOSE] if differ else []))
    return (*first, *others, *([_PORTS] if has_ports else []))


def _text(key: str) -> Column:
    return Column(key.replace("_", " ").upper(), lambda slot: _shown(slot.get(key)))


def _shown(value: object) -> str:
    return "-" if value is None else str(value)


def _name(slot: Mapping[str, Any]) -> str:
    return "driver" if slot["slot"] is None else str(slot["slot"])


def _tasks(slot: Mapping[str, Any]) -> str:
    return some_names([f"{task['connector']}-{task['task']}" for task in slot["tasks"]])


def _memory(slot: Mapping[str, Any]) -> str:
    size, most = slot.get("memory_bytes"), slot.get("memory_limit_bytes")
    bound = "" if most is None else f" of {most / 2**20:.0f}"
    return "-" if size is None else f"{size / 2**20:.0f}{bound} MiB"


def _number(key: str, form: str) -> Column:
    return Column(
        {"cpu_seconds": "CPU S", "cpu_percent": "CPU %"}[key],
        lambda slot: "-" if slot.get(key) is None else format(slot[key], form),
    )


_PORTS = Column("JAVA PORTS", lambda slot: ", ".join(map(str, slot.get("java_ports") or ())) or "-")
_WHOSE = Column("WHOSE", whose)
_WORKER = Column("WORKER", lambda slot: slot["worker"])
_COLUMNS = (
    Column("SLOT", _name),
    Column("STATE", lambda slot: "up" if slot["attached"] else "starting"),
    _text("job_group"),
    _text("executor"),
    _text("host"),
    _text("pid"),
    _number("cpu_seconds", ".1f"),
    _number("cpu_percent", ".1f"),
    Column("MEMORY", _memory),
    Column("TASKS", _tasks),
)
