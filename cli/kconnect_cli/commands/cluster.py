"""`connect cluster`: a cluster's workers as the broker knows them; their last rebalances and decisions, over REST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import ConnectError, NoRouteError, NotFoundError, TimedOutError, UnreachableError
from kconnect.logs.wording import pluralize
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ON_CLUSTER, cluster_of
from kconnect_cli.options.command_group import command_group
from kconnect_cli.screen.output import Column, Format, some_names, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess


app = command_group("Show members, leader and last rebalances of a cluster, as the broker knows them.")

_DEFAULT_LIMIT = 20
# A group has a few events a minute; a request of this size takes some milliseconds
_FOLLOW_EVERY_S = 1.0
_Member = Annotated[
    str | None,
    typer.Option(
        "--member", metavar="URL", help="The worker to ask, by its REST URL. [default: the leader]", show_default=False
    ),
]
_Follow = Annotated[bool, typer.Option("--follow", help="Keep showing what happens, until Ctrl-C.", show_default=False)]
_Limit = Annotated[int, typer.Option("--limit", min=1, help="How many of the most recent ones to show.")]


@app.command(cls=ON_CLUSTER)
def show(ctx: typer.Context) -> None:
    """Show a cluster: state of its group, leader, protocol, config offset, members, how much they run.

    JSON: an object with group, state (the broker's word: Stable, PreparingRebalance, CompletingRebalance, Empty, Dead),
    protocol (eager, compatible, sessioned), leader (URL or null), config_offset (at which work was assigned),
    config_end (the end of the config topic), delay_ms (how long the work of lost workers is delayed), connectors
    and tasks (how many are assigned), members (as `connect cluster members`). A cluster without workers is no error.
    """
    session = session_of(ctx)
    document = _document(session)
    if session.output in (Format.JSON, Format.YAML):
        write_object(document, session.output)
    elif session.output is Format.NAME:
        write_text(f"{document['group']}\n")
    else:
        write_text("".join(f"{title:<16}{text}\n" for title, text in _summary(document)))
        if document["members"]:
            write_text("\n")
            write_rows(document["members"], _COUNTED, session.output)
        else:
            _say_nobody(session, document)


@app.command(cls=ON_CLUSTER)
def members(ctx: typer.Context) -> None:
    """List the workers: URL, host, how far each had read the configs when it joined, connectors and tasks it runs.

    Of many connectors and tasks the table has the first names; JSON has all.

    JSON: a list of objects with url, host, client_id, member_id, leader, config_offset, connectors, tasks.
    """
    session = session_of(ctx)
    document = _document(session)
    write_rows(document["members"], _MEMBERS, session.output, name="url")
    if not document["members"]:
        _say_nobody(session, document)
    elif document["leader"] is None:
        session.say(f"Group {document['group']} is rebalancing: what its workers run may change.")


@app.command(cls=ON_CLUSTER)
def leader(ctx: typer.Context) -> None:
    """Print the URL of the worker that leads; JSON: that member. Ends with 3 without workers, 4 in a rebalance."""
    session = session_of(ctx)
    found = _leader(_document(session))
    if session.output in (Format.JSON, Format.YAML):
        write_object(found, session.output)
    else:
        write_text(f"{found['url']}\n")


@app.command(cls=ON_CLUSTER)
def rebalances(ctx: typer.Context, limit: _Limit = _DEFAULT_LIMIT) -> None:
    """List the last rebalances and what caused them, as reported by the workers' REST servers.

    They are called with the user and certificates of --url. Java's workers keep no list.

    JSON: a list of objects with worker, generation, began_ms, ended_ms, why, is_leader, leader_url, connectors_added,
    connectors_revoked, tasks_added, tasks_revoked, delay_ms, and of the leader members, joined, left (URLs).
    """
    session = session_of(ctx)
    document = _document(session)
    if not document["members"]:
        raise _nobody(document)
    answers = _Answers()
    for worker in document["members"]:
        _fetch_rebalances(session, worker["url"], answers)
    if not answers.answered:
        raise answers.failure or NotFoundError(
            f"No worker of group {document['group']} keeps a list of its rebalances",
            hint="Java workers do not; look in their logs for: `Rebalance started`, `Joined group at generation`.",
        )
    rows = sorted(_with_reasons(answers.rows), key=lambda row: (row["ended_ms"], row["worker"]))[-limit:]
    write_rows(rows, _REBALANCES, session.output, name="generation")


@app.command(cls=ON_CLUSTER)
def trace(ctx: typer.Context, member: _Member = None, limit: _Limit = _DEFAULT_LIMIT, follow: _Follow = False) -> None:
    """Show the last events and decisions of a worker's herder: each event and the resulting instructions.

    Asks the leader over REST, or the worker of --member, with the user and certificates of --url. During a rebalance it
    waits up to --retry for a leader, then ends with 4. Values of configs are not shown.

    JSON: an object with format, last (number of the last entry), settings and checkpoint (of the state machine, before
    the first entry), and all entries: number, now_ms, event, snapshot (what changed of the configs), instructions.
    """
    session = session_of(ctx)
    if follow and session.output in (Format.JSON, Format.YAML):
        raise UsageProblem("--follow prints a table, and is not valid with -o json or yaml")
    url = member or _leader_url(session)
    with session.client_of([url]) as client:
        whole = session.output in (Format.JSON, Format.YAML)
        try:
            shown = client.herder_trace(since=None if whole else 0)
        except NoRouteError as err:
            raise NotFoundError(f"{url} keeps no trace of a herder: it is one of Java's, or an older kconnect") from err
        if whole:
            write_object(shown, session.output)
            return
        pause = Event()
        write_rows(shown["entries"][-limit:], TRACE_COLUMNS, session.output, name="number")
        while follow:
            pause.wait(_FOLLOW_EVERY_S)
            shown = client.herder_trace(since=shown["last"])
            write_text("".join(trace_line(entry) for entry in shown["entries"]))


def _leader_url(session: CliSession) -> str:
    """Waits for a leader while a rebalance runs. Errors: as of `_leader`."""
    from kconnect.admin.direct.read.cluster_state import await_leader
    from kconnect.clock import SystemClock

    return str(await_leader(lambda: _leader(_document(session)), session.retry_s, SystemClock())["url"])


def _leader(document: dict[str, Any]) -> dict[str, Any]:
    """The leader. Errors: NotFoundError without workers, ConflictError while a rebalance runs."""
    from kconnect.admin.direct.read.cluster_state import leader_of

    return leader_of(document)


def _nobody(document: dict[str, Any]) -> NotFoundError:
    return NotFoundError(f"No worker of group {document['group']} is running (the broker says {document['state']})")


def _document(session: CliSession) -> dict[str, Any]:
    """The broker's view of the cluster, as a worker tells it where nothing names the brokers."""
    from kconnect_cli.admin.asked_worker import AskedWorker, asks_worker

    if asks_worker(session):
        with AskedWorker(session) as worker:
            return worker.cluster()
    access = _checked_access(session)
    from kconnect.admin.direct.read.cluster_state import cluster_state

    return cluster_state(access).to_json()


def _checked_access(session: CliSession) -> ClusterAccess:
    """How to reach the cluster, once a broker took a connection. Errors: as of `raise_if_refused`."""
    access = cluster_of(session).access()
    # Before the imports for broker requests, which take twice as long as an entire refusal
    access.raise_if_refused()
    return access


def _say_nobody(session: CliSession, document: dict[str, Any]) -> None:
    session.say(f"No worker of group {document['group']} is running (the broker says {document['state']}).")


@dataclass(slots=True)
class _Answers:
    """The workers' answers."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    answered: int = 0
    failure: ConnectError | None = None


def _fetch_rebalances(session: CliSession, url: str, answers: _Answers) -> None:
    """Add one worker's answer; a worker's failure is reported, and does not prevent requests to the others."""
    try:
        with session.client_of([url]) as client:
            found = client.rebalances()
    except NotFoundError:
        session.say(f"{url} keeps no list of rebalances: it is not a kconnect worker, or it is an older one.")
    except (UnreachableError, TimedOutError) as err:
        session.say(f"{url}: {err}")
        answers.failure = err
    else:
        answers.answered += 1
        # By the URL that was asked: the name that a worker gives itself is one in its cluster
        answers.rows += [{**row, "worker": url} for row in found]


def _summary(document: dict[str, Any]) -> list[tuple[str, str]]:
    offset, end = document["config_offset"], document["config_end"]
    rows = [
        ("Group", document["group"]),
        ("State", document["state"]),
        ("Protocol", document["protocol"] or "-"),
        ("Leader", document["leader"] or "-"),
        ("Config offset", f"{'-' if offset is None else offset}{'' if end is None else f', topic ends at {end}'}"),
        ("Members", str(len(document["members"]))),
        ("Runs", f"{pluralize(document['connectors'], 'connector')}, {pluralize(document['tasks'], 'task')}"),
    ]
    if document["delay_ms"]:
        rows.append(("Held back", f"work of lost workers, for up to {document['delay_ms']} ms"))
    return rows


def _what_moved(row: Any) -> str:
    """`+1/3 -0/1`: connectors and tasks that were added and revoked."""
    added, revoked = ((row[f"connectors_{what}"], row[f"tasks_{what}"]) for what in ("added", "revoked"))
    parts = [f"{sign}{counts[0]}/{counts[1]}" for sign, counts in (("+", added), ("-", revoked)) if any(counts)]
    return " ".join(parts) or "-"


def _why(row: Any) -> str:
    delay = [f"the work it lost is held back for {row['delay_ms']} ms"] if row["delay_ms"] else []
    return "; ".join([row["why"], *delay])


def _with_reasons(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose reason only the round's leader knows, with that reason if the leader reported it."""
    from kconnect.runtime.herder.decisions.rebalances import UNASKED

    known = {(row["leader_url"], row["generation"]): row["why"] for row in rows if row["is_leader"]}
    return [
        {**row, "why": known.get((row["leader_url"], row["generation"]), UNASKED)} if row["why"] == UNASKED else row
        for row in rows
    ]


_COUNTED = (
    Column("URL", lambda row: row["url"]),
    Column("HOST", lambda row: row["host"]),
    Column("ROLE", lambda row: "leader" if row["leader"] else "follower"),
    Column("CONFIG OFFSET", lambda row: str(row["config_offset"])),
    Column("CONNECTORS", lambda row: str(len(row["connectors"]))),
    Column("TASKS", lambda row: str(len(row["tasks"]))),
)
_MEMBERS = (
    *_COUNTED[:4],
    Column("CONNECTORS", lambda row: some_names(row["connectors"])),
    Column("TASKS", lambda row: some_names(row["tasks"])),
)
_REBALANCES = (
    Column("ENDED", lambda row: datetime.fromtimestamp(row["ended_ms"] / 1000).astimezone().isoformat(" ", "seconds")),
    Column("TOOK", lambda row: f"{(row['ended_ms'] - row['began_ms']) / 1000:.2f} s"),
    Column("GENERATION", lambda row: str(row["generation"])),
    Column("WORKER", lambda row: row["worker"]),
    Column("ROLE", lambda row: "leader" if row["is_leader"] else "follower"),
    Column("MOVED", _what_moved),
    Column("WHY", _why),
)


# A line is for the eye: all of it is in JSON
_LONGEST_VALUE = 60


def trace_line(entry: Mapping[str, Any]) -> str:
    """One entry as `--follow` prints it."""
    return "  ".join(column.text(entry) for column in TRACE_COLUMNS) + "\n"


def step_text(value: Mapping[str, Any]) -> str:
    """An event or instruction: `StartWork work=1 connector, 2 tasks`, `Asked id=3 request=AskStop orders`."""
    return " ".join([value["type"], *_fields(value)])


def _fields(value: Mapping[str, Any]) -> list[str]:
    shown = [(name, _shown(each)) for name, each in value.items() if name != "type"]
    return [f"{name}={text}" for name, text in shown if text]


def _shown(value: Any) -> str:
    """Empty for what a line has no room for."""
    match value:
        case None | "":
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"
        case {"enum": _, "name": name}:
            return str(name)
        case {"error": kind, "message": message}:
            return f"{kind}: {_shown(message)}"
        case {"type": "ClusterSnapshot", "offset": offset}:
            return f"@{offset}"
        case {"type": "TaskId", "connector": connector, "task": task}:
            return f"{connector}-{task}"
        case {"type": "Work", "connectors": {"tuple": connectors}, "tasks": {"tuple": tasks}}:
            return f"({pluralize(len(connectors), 'connector')}, {pluralize(len(tasks), 'task')})"
        case {"type": "Assignment", "work": work, "revoked": revoked}:
            return f"{_shown(work)} revoked {_shown(revoked)}"
        case {"tuple": [[*_], *_] | [{"tuple": _}, *_] as pairs}:
            return pluralize(len(pairs), "change")
        case {"type": kind}:
            return " ".join([str(kind), *(text for text in map(_shown, list(value.values())[1:]) if text)])
        case _:
            return ""


def _when(entry: Mapping[str, Any]) -> str:
    now_ms = entry["event"].get("now_ms", entry["now_ms"])
    return datetime.fromtimestamp(now_ms / 1000).astimezone().isoformat(" ", "milliseconds") if now_ms else "-"


def _decided(entry: Mapping[str, Any]) -> str:
    if "error" in entry:
        return f"raised {entry['error']}"
    return "; ".join(step_text(each) for each in entry["instructions"]) or "-"


TRACE_COLUMNS = (
    Column("NUMBER", lambda entry: str(entry["number"])),
    Column("TIME", _when),
    Column("EVENT", lambda entry: step_text(entry["event"])),
    Column("INSTRUCTIONS", _decided),
)
