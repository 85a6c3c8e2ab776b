"""`connect describe`: everything about one connector, on one screen.

What is wrong stands first, then tasks, config, topics, offsets, last changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import typer

from kconnect.client.masks import Masks
from kconnect.clock import now_ms
from kconnect.model import ConnectorType
from kconnect.runtime.health.views import ConnectorHealth, ConnectorView, PartView
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import (
    Column,
    Format,
    Row,
    fitted,
    json_cell,
    painted,
    table_text,
    write_object,
    write_text,
)
from kconnect_cli.screen.status_rows import condition_name, part_of, why
from kconnect_cli.session import Name, ShowSecrets, session_of

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def describe(ctx: typer.Context, name: Name, show_secrets: ShowSecrets = False) -> None:
    """Describe one connector: state, root causes, tasks, rates, MBeans, config, topics, offsets, and last changes.

    The last changes are read from the config topic, so they need --worker or --bootstrap-servers, also without
    --direct. What cannot be read is named on stderr and is null in JSON; with Java's workers that is rates and errors,
    and without these options the lag.

    JSON: an object with name, type, state, worker_id, records_per_s, lag, errors, tasks, mbeans, config, topics,
    offsets, changes, notes; trace and cause where something failed.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.description import description_of

    found = description_of(session, name, Masks(session.reader, reveal=show_secrets).masked)
    if session.output is Format.NAME:
        write_text(f"{found['name']}\n")
    elif session.output is Format.TABLE:
        write_text(description_text(found))
        for note in found["notes"]:
            session.say(note)
    else:
        write_object(found, session.output)


_MARGIN = "  "
_COLOURS = {"RUNNING": "green", "FAILED": "red", "PAUSED": "yellow", "STOPPED": "yellow", "UNASSIGNED": "magenta"}


def description_text(found: Mapping[str, Any]) -> str:
    """The page of a description, as of `description_of`; without its notes."""
    return fitted("\n".join(_lines(found)) + "\n")


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    own, tasks = part_of(found), tuple(part_of(each) for each in found["tasks"])
    view = ConnectorView(found["name"], ConnectorType(found["type"]), own, tasks)
    state = painted(view.state, _COLOURS.get(view.state), bold=True)
    yield f"{painted(found['name'], bold=True)}  {found['type']}  {state}  {found['worker_id']}".rstrip()
    metrics = [("records/s", found["records_per_s"]), ("behind", found["lag"]), ("errors", found["errors"])]
    if known := [f"{value:,.0f} {what}" for what, value in metrics if value is not None]:
        yield f"  {', '.join(known)}"
    if (forms := found.get("forms")) and forms["by_records"]:
        yield f"  {max(forms['by_records'] / forms['batches'], 0.01):.0%} of batches by records: {forms['because']}"
    yield from _failures(view)
    if view.own.health is ConnectorHealth.DEGRADED:  # those of tasks are in their table
        yield painted(f"  {view.own.words}: {view.own.why(now_ms())}", "yellow")
    yield from _section("TASKS", _table(_TASKS, found["tasks"]) if found["tasks"] else "none")
    if found.get("mbeans"):
        yield from _section("MBEANS", _table(_MBEANS, found["mbeans"]))
    yield from _section("CONFIG", "\n".join(f"{key} = {value}" for key, value in sorted(found["config"].items())))
    if found["topics"] is not None:
        yield from _section("TOPICS", "\n".join(found["topics"]) or "none seen yet")
    if found["offsets"] is not None:
        yield from _section("OFFSETS", _table(_OFFSETS, found["offsets"]) if found["offsets"] else "none committed")
    if found["changes"] is not None:
        yield from _section("LAST CHANGES", "\n".join(line for each in found["changes"] for line in _change(each)))


def _failures(view: ConnectorView) -> Iterator[str]:
    """Why what is FAILED is, each reason once: with the first restart of several."""
    by_cause: dict[object, list[PartView]] = {}
    for part in view.parts:
        if part.health is ConnectorHealth.FAILED:
            again = None if part.restarts is None else replace(part.restarts, due_ms=None)
            by_cause.setdefault((part.cause, again), []).append(part)
    for parts in by_cause.values():
        first = min(parts, key=lambda part: 0 if part.restarts is None else part.restarts.due_ms or 0)
        yield painted(f"  {', '.join(part.words for part in parts)}: {first.why(now_ms())}", "red")


def _section(title: str, text: str) -> Iterator[str]:
    yield ""
    yield painted(title, bold=True)
    yield from (f"{_MARGIN}{line}" for line in text.rstrip().splitlines())


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A table of a section, which puts a margin before it."""
    return table_text(columns, rows, margin=len(_MARGIN))


def _change(version: Row) -> Iterator[str]:
    _, is_repeated, rest = version["sentence"].partition(version["kind"])
    said = rest if is_repeated else f": {version['sentence']}"
    yield f"{version['timestamp'] or '-'}  {version['kind']}{said}"
    for setting in version["settings"]:
        if setting["old"] is not None and setting["old"] != setting["new"]:
            yield painted(f"  - {setting['key']} = {setting['old']}", "red")
        if setting["new"] is not None:
            yield painted(f"  + {setting['key']} = {setting['new']}", "green")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


_TASKS = (
    Column("TASK", lambda row: str(row["id"])),
    Column("STATE", lambda row: row["state"]),
    Column("CONDITION", lambda row: condition_name(row)),
    Column("RECORDS/S", lambda row: _number(row["records_per_s"])),
    Column("ERRORS", lambda row: _number(row["errors"])),
    Column("WORKER", lambda row: row["worker_id"]),
    Column("WHY", why),
)
_MBEANS = (
    Column("TASK", lambda row: str(row["task"])),
    Column("NAME", lambda row: row["name"]),
    Column("LABELS", lambda row: ", ".join(f"{key}={text}" for key, text in row["labels"].items())),
    Column("VALUE", lambda row: f"{row['value']:,}"),
)
_OFFSETS = (
    Column("PARTITION", lambda row: json_cell(row["partition"])),
    Column("OFFSET", lambda row: json_cell(row["offset"])),
    Column("LAG", lambda row: _number(row.get("lag")) if "kafka_topic" in row["partition"] else ""),
)
