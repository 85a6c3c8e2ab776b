"""`connect topics config|status|offsets history`: the changes of a connector over time, as far as the records show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import NotFoundError, did_you_mean
from kconnect_cli.options.cluster import ON_CLUSTER, ClusterOptions, cluster_of
from kconnect_cli.screen.output import Column, Format, Row, json_cell, painted, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, Name, ShowSecrets, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.model import LogRecord
    from kconnect_cli.options.topic_groups import TopicGroups


_KIND_COLOURS = {"created": "green", "deleted": "red", "stopped": "magenta", "paused": "magenta", "malformed": "red"}
_GONE = {
    "maybe": "There may have been earlier versions: offsets before the first one have no record. Compaction takes what "
    "a newer record replaces; transactions leave marks.",
    "lost": "There were earlier versions, which compaction has removed: tasks older than the first config remain.",
}


def mount(groups: TopicGroups) -> None:
    """Add the commands to their groups."""
    groups.config.command("history", cls=ON_CLUSTER)(config_history_of)
    groups.status.command("history", cls=ON_CLUSTER)(status_history_of)
    groups.offsets.command("history", cls=ON_CLUSTER)(offset_history_of)


def config_history_of(
    ctx: typer.Context,
    name: Name,
    tasks: Annotated[bool, typer.Option("--tasks", help="Show what changed in the configs of tasks, too.")] = False,
    show_secrets: ShowSecrets = False,
) -> None:
    """Show the changes of a connector's config, target state and tasks: when, from what, and to what.

    The config topic does not record who did it. `-o name` gives the offsets, for `restore --at`.
    """
    session = session_of(ctx)
    options = cluster_of(session)
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.history.connector_history import config_history, history_to_json
    from kconnect.admin.direct.read.installed_plugins import secret_masks

    seen: set[str] = set()
    found = config_history(_records(options, InternalTopic.CONFIG, seen), name)
    if not found.versions:
        raise _nothing(name, "config", seen)
    document = history_to_json(found, secret_masks(options.access(), reveal=show_secrets))
    if session.output in (Format.JSON, Format.YAML):
        write_object(document, session.output)
    elif session.output is Format.NAME:
        write_rows(document["versions"], [], Format.NAME, "offset")
    else:
        write_text("\n".join(_screen(document["versions"], with_tasks=tasks)) + "\n")
        session.say("The config topic does not record who made a change.")
        if document["earlier"] in _GONE:
            session.say(_GONE[document["earlier"]])


def status_history_of(ctx: typer.Context, name: Name) -> None:
    """Show the statuses of a connector and its tasks, and topics it uses, with the worker that wrote each."""
    session = session_of(ctx)
    options = cluster_of(session)
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.history.connector_history import status_history, step_to_json

    seen: set[str] = set()
    steps = status_history(_records(options, InternalTopic.STATUS, seen), name)
    _write_steps(session, name, "status", seen, [step_to_json(step) for step in steps], _STATUS)


def offset_history_of(ctx: typer.Context, name: Name) -> None:
    """Show the offsets a source connector has committed, one after the other, as far as compaction has left them."""
    session = session_of(ctx)
    options = cluster_of(session)
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.history.connector_history import offset_history, step_to_json

    seen: set[str] = set()
    steps = offset_history(_records(options, InternalTopic.OFFSET, seen), name)
    _write_steps(session, name, "offsets", seen, [step_to_json(step) for step in steps], _OFFSETS)


def _records(options: ClusterOptions, which: InternalTopic, seen: set[str]) -> Iterator[LogRecord]:
    """All records of a topic; `seen` gets the names of the connectors they are about."""
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect.admin.direct.read.record_json import connector_of

    with ClusterReader(options.access()) as reader:
        for record in reader.records(which):
            connector = connector_of(which, record.key)
            if connector:
                seen.add(connector)
            yield record


def _nothing(name: str, word: str, seen: set[str]) -> NotFoundError:
    hint = did_you_mean(name, seen) or f"It has records of: {', '.join(sorted(seen)[:10]) or 'none'}"
    return NotFoundError(f"The {word} topic has no record of a connector {name}", hint=hint)


def _screen(versions: Sequence[Mapping[str, Any]], *, with_tasks: bool) -> Iterator[str]:
    """Lines for people: one for each version, `-` and `+` below it for each setting."""
    width = max(len(str(version["offset"])) for version in versions)
    for version in versions:
        kind = painted(version["kind"], _KIND_COLOURS.get(version["kind"], "yellow"), bold=True)
        # A kind that the sentence begins with is not repeated
        _, is_repeated, rest = version["sentence"].partition(version["kind"])
        said = rest if is_repeated else f": {version['sentence']}"
        yield f"{version['offset']:>{width}}  {version['timestamp'] or '-'}  {kind}{said}"
        yield from _diff(version["settings"], "  ")
        for number, settings in version["tasks"].items() if with_tasks else ():
            yield f"  task {number}"
            yield from _diff(settings, "    ")


def _diff(settings: Sequence[Mapping[str, str | None]], indent: str) -> Iterator[str]:
    for setting in settings:
        if setting["old"] == setting["new"]:  # they differ, or would not be listed
            yield painted(f"{indent}~ {setting['key']} = {setting['new']} (another secret: --show-secrets)", "yellow")
            continue
        if setting["old"] is not None:
            yield painted(f"{indent}- {setting['key']} = {setting['old']}", "red")
        if setting["new"] is not None:
            yield painted(f"{indent}+ {setting['key']} = {setting['new']}", "green")


def _write_steps(
    session: CliSession, name: str, word: str, seen: set[str], rows: Sequence[Row], columns: Sequence[Column]
) -> None:
    if not rows:
        raise _nothing(name, word, seen)
    write_rows(rows, columns, session.output, "offset")


def _worker(row: Row) -> str:
    return f"{row['who']['worker_id']} (generation {row['who']['generation']})" if row["who"] else "-"


def _state(row: Row) -> str:
    state, before = row["state"] or "forgotten", row["before"]
    return state if before in (None, state) else f"{before} -> {state}"


_PLACE = (
    Column("TIME", lambda row: row["timestamp"] or "-"),
    Column("RECORD", lambda row: f"{row['partition']}@{row['offset']}"),
)
_STATUS = (
    *_PLACE,
    Column("WHAT", lambda row: row["subject"]),
    Column("STATE", _state),
    Column("WORKER", _worker),
    Column("TRACE", lambda row: (row["trace"] or "").partition("\n")[0]),
)
_OFFSETS = (
    *_PLACE,
    Column("PARTITION", lambda row: json_cell(row["source_partition"])),
    Column("BEFORE", lambda row: json_cell(row["before"])),
    Column("OFFSET", lambda row: json_cell(row["value"])),
)
