"""`connect status`: the health of a cluster, on one screen.

`health_text` says whether it is well, what is not, and the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from kconnect.clock import now_ms
from kconnect.logs.wording import pluralize
from kconnect_cli.exits import FOUND
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, fitted, painted, table_text, write_object, write_text
from kconnect_cli.session import session_of

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def status(ctx: typer.Context) -> None:
    """Show the health of a cluster: workers, connectors, what failed and why, what is late, an outage of Kafka.

    The doctor looks at the topics, too: that of the worker, or here with --worker or --bootstrap-servers, as Java's
    workers have none; so it is with the lag of sinks. With --direct only the topics are read.

    Exit code: 0 if all is well; 7 if something failed, is UNASSIGNED, stuck, retrying or not committing, a worker of
    the group or of --url does not answer, is starting or unhealthy, Kafka is away, or the doctor finds an error or a
    warning; 5 if no worker answers; 6 if it does not answer in time. PAUSED, STOPPED and lagging are not faults.
    `-o name` prints the problems.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.cluster_health import cluster_health

    found = cluster_health(session)
    if session.output is Format.NAME:
        write_text("".join(f"{problem}\n" for problem in found["problems"]))
    elif session.output is Format.TABLE:
        write_text(health_text(found))
        for note in found["notes"]:
            session.say(note)
    else:
        write_object(found, session.output)
    if not found["healthy"]:
        raise typer.Exit(FOUND)


# What failed is listed up to here: a screen, and what matters on it
_MOST = 15


def health_text(found: Mapping[str, Any]) -> str:
    """The page of `cluster_health`; without its notes."""
    return fitted("\n".join(_lines(found)) + "\n")


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    word = painted("HEALTHY", "green", bold=True) if found["healthy"] else painted("UNHEALTHY", "red", bold=True)
    cluster = f"  cluster {found['cluster_id']}" if found["cluster_id"] else ""
    yield f"{word}  {found['place']}{cluster}"
    yield from (painted(f"  {problem}", "red") for problem in found["problems"])
    yield ""
    if found["workers"] is not None:
        lost = sum(not worker["answers"] for worker in found["workers"])
        names = ", ".join(worker["worker"] for worker in found["workers"])
        more = f", {lost} without an answer" if lost else ""
        yield f"{pluralize(len(found['workers']), 'worker')}{more}{f': {names}' if names else ''}"
    yield _counts("connector", found["connectors"])
    yield _counts("task", found["tasks"])
    moves = [f"{found['records_per_s']:,.0f} records/s"] if found["records_per_s"] is not None else []
    moves += [f"{pluralize(found['lag'], 'record')} behind{_age(found)}"] if found["lag"] is not None else []
    if moves:
        yield ", ".join(moves)
    if found["doctor"] is not None:
        counts = [pluralize(count, kind) for kind, count in found["doctor"]["counts"].items() if count]
        yield f"doctor: {', '.join(counts) or 'nothing found'}"
    for key in ("failed", "late", "unassigned"):
        if rows := found[key]:
            yield ""
            yield painted(key.upper(), bold=True)
            yield from (f"  {line}" for line in table_text(_COLUMNS, rows[:_MOST], margin=2).rstrip().splitlines())
            if len(rows) > _MOST:
                yield f"  .. and {len(rows) - _MOST} more: connect connectors status"


def _age(found: Mapping[str, Any]) -> str:
    """How old a number of records behind is that is not zero: brokers are asked for it now and then."""
    at_ms = found.get("lag_at_ms")
    return f" {max(now_ms() - at_ms, 0) / 1000:.0f} s ago" if at_ms is not None and found["lag"] else ""


def _counts(what: str, counts: Mapping[str, Any]) -> str:
    states = ", ".join(f"{count} {state}" for state, count in counts["states"].items())
    return f"{pluralize(counts['total'], what)}{f': {states}' if states else ''}"


_COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("TASK", lambda row: "" if row["task"] is None else str(row["task"])),
    Column("WORKER", lambda row: row["worker_id"]),
    Column("WHY", lambda row: row["why"]),
)
