"""The health of a whole cluster: workers, connectors, what failed, what is late, the doctor; and what is wrong."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

from kconnect.admin.cluster.activity import Activity, task_metrics
from kconnect.client import ConnectClient
from kconnect.client.worker_start import WorkerHealth, health_of
from kconnect.client.workers import worker_ids
from kconnect.clock import now_ms
from kconnect.errors import ConnectError, NoRouteError, NotFoundError, TimedOutError, UnreachableError
from kconnect.logs.wording import pluralize
from kconnect.model import Condition, RunState, TaskId
from kconnect.runtime.health.flow_metrics import summed
from kconnect.runtime.health.views import ConnectorHealth, ConnectorView, PartView, connector_view
from kconnect_cli.admin.live_workers import look_at_group, notes_on_life
from kconnect_cli.options.cluster import cluster_of
from kconnect_cli.screen.status_rows import with_reason

if TYPE_CHECKING:
    from kconnect.model import ConnectorStatus
    from kconnect_cli.session import CliSession

P = ParamSpec("P")
T = TypeVar("T")
# Java's workers do not say who of them answers: each is asked, side by side, and one that is frozen costs this much
_ANSWER_S = 1.0
# A worker whose URL was given is asked meanwhile: what else is asked takes as long where the first one is frozen
_GIVEN_ANSWER_S = 2.0
# A worker that is well says so at once; one of Java's whose Kafka is frozen never does
_SOON_S = 0.5
# It reads three topics, in some 0.3 s. Longer than this nobody waits who did not say --request-timeout
_DOCTOR_S = 4.0


def cluster_health(session: CliSession) -> dict[str, Any]:
    """Shape: healthy; problems: [sentence]; place, cluster_id; workers: [{worker, answers, problem, records_per_s}];
    connectors, tasks: {total, states: {state: count}}; failed, unassigned, late: [{name, task, worker_id, why}];
    outage, doctor: {ok, counts}; records_per_s, lag; notes. Null: not known.

    Errors: ConnectError when no worker answers, or the topics cannot be read.
    """
    return (_of_workers if session.direct is None else _of_topics)(session)


def health_document(
    place: str,
    statuses: Mapping[str, ConnectorStatus],
    workers: Sequence[Mapping[str, Any]] | None,
    **more: Any,  # what is known: cluster_id, outage, starting, unhealthy, doctor, activities (by connector), notes
) -> dict[str, Any]:
    """The document, and what in it is a problem. Pure."""
    views = [connector_view(statuses[name]) for name in sorted(statuses)]
    moves: Mapping[str, Activity] = more.get("activities") or {}
    lags = [each.metrics.lag for each in moves.values() if each.metrics.lag is not None]
    document: dict[str, Any] = {
        "place": place,
        "cluster_id": more.get("cluster_id"),
        "workers": None if workers is None else [dict(worker) for worker in workers],
        "connectors": _counts([str(view.state) for view in views]),
        "tasks": _counts([str(part.state) for view in views for part in view.tasks]),
        "failed": [row for _, row in _rows(views, ConnectorHealth.FAILED)],
        "unassigned": _with_reason(
            [row for part, row in _rows(views, ConnectorHealth.WAITING) if part.state is RunState.UNASSIGNED],
            urlsplit(place).netloc,
            more.get("starting") or "",
            more.get("outage"),
        ),
        "late": [
            row | {"condition": str(part.trouble.condition)}
            for part, row in _rows(views, ConnectorHealth.DEGRADED)
            if part.trouble is not None
        ],
        "outage": more.get("outage"),
        "records_per_s": summed([each.metrics for each in moves.values()]).rate,
        "lag": sum(lags) if lags else None,
        "lag_at_ms": min((at for each in moves.values() if (at := each.lag_at_ms) is not None), default=None),
        "doctor": more.get("doctor"),
        "notes": more.get("notes") or [],
    }
    problems = _problems(document, more.get("starting") or "", more.get("unhealthy"))
    return {"healthy": not problems, "problems": problems, **document}


def _with_reason(
    rows: Sequence[dict[str, Any]], worker: str, start: str, outage: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Adds, as `connectors status` does, why what is UNASSIGNED on the worker that was asked does not run."""
    states = [row | {"state": "UNASSIGNED"} for row in rows]
    found = with_reason(states, worker, start, None if outage is None else outage.get("problem"))
    return [row | {"why": row["why"] or each.get("reason", "")} for row, each in zip(rows, found, strict=True)]


# What moves records and cannot commit them makes progress, which a restart would repeat
_LATE: Final = (
    ("without task configs", (Condition.NO_TASK_CONFIGS,)),
    ("without progress", (Condition.STUCK, Condition.RETRYING)),
    ("and not committing", (Condition.NOT_COMMITTING,)),
)


def _problems(document: Mapping[str, Any], starting: str, unhealthy: str | None) -> list[str]:
    """What needs somebody, a sentence each, the worst first. `unhealthy`: what is wrong with the worker itself."""
    found = []
    if document["outage"] is not None:
        found.append(document["outage"]["sentence"])
    elif unhealthy is not None:
        found.append(unhealthy)
    if starting:
        found.append(f"{document['place']} is {starting}".rstrip("."))
    for worker in document["workers"] or ():
        if not worker["answers"]:
            found.append(f"Worker {worker['worker']} does not answer: {worker['problem']}")
    if document["workers"] == [] and document["connectors"]["total"]:
        found.append("No worker is running")
    found += _parts_in(document["failed"], "FAILED")
    # A backlog that grows is shown, and no fault of the cluster: as in the doctor's findings
    for word, conditions in _LATE:
        if late := [row for row in document["late"] if row["condition"] in conditions]:
            found += _parts_in(late, f"RUNNING {word}")
    found += _parts_in(document["unassigned"], "UNASSIGNED")
    doctor = document["doctor"]
    if doctor is not None and not doctor["ok"]:
        counts = [pluralize(doctor["counts"][kind], kind) for kind in ("error", "warning") if doctor["counts"][kind]]
        found.append(f"The doctor found {', '.join(counts)} in the topics: connect topics doctor")
    return found


def _parts_in(rows: Sequence[Mapping[str, Any]], word: str) -> list[str]:
    """`1 connector and 2 tasks FAILED`."""
    tasks = sum(row["task"] is not None for row in rows)
    whole = len(rows) - tasks
    what = [pluralize(whole, "connector")] * bool(whole) + [pluralize(tasks, "task")] * bool(tasks)
    return [f"{' and '.join(what)} {word}"] if what else []


def _of_workers(session: CliSession) -> dict[str, Any]:
    client = session.client
    asked, given = _beside(_health, session), _beside(_problems_of_given, session)
    wait([asked], _SOON_S)  # a worker that is starting may hold all else back
    if asked.done() and (early := _held_back(client, asked.result())) is not None:
        return early
    try:
        statuses = client.connector_statuses()
    except ConnectError:
        if (late := _held_back(client, asked.result())) is not None:
            return late
        raise
    health = asked.result()
    outage = None if client.outage is None else {**client.outage.to_json(), "sentence": client.outage.banner()}
    notes = [f"{client.url} says: {each}." for each in health.notices]
    doctor = _looking(session, notes, is_away=outage is not None)
    cluster_id = client.server_info().get("kafka_cluster_id")
    moves = session.reader.activities(statuses)
    workers = _workers(session, statuses, moves, given.result())
    return health_document(
        client.url,
        statuses,
        workers,
        cluster_id=cluster_id,
        outage=outage,
        starting="" if health.start is None else health.start.text,
        unhealthy=health.problem,
        activities=moves,
        doctor=doctor.result(),
        notes=notes,
    )


def _held_back(client: ConnectClient, health: WorkerHealth) -> dict[str, Any] | None:
    """The document of a worker whose start takes no requests yet."""
    start = health.start
    if start is None or start.answers_requests:
        return None
    return health_document(client.url, {}, None, starting=start.text)


def _workers(
    session: CliSession,
    statuses: Mapping[str, ConnectorStatus],
    moves: Mapping[str, Activity] | None,
    given: Mapping[str, str | None],
) -> list[dict[str, Any]]:
    """Each with whether it answers, as the worker that is asked sees it: from here it may be out of reach, behind a
    forwarded port for example, and well all the same.

    Who gave a URL means to reach it, and a group forgets a worker that is frozen: so `given` counts beside that.
    """
    client = session.client
    rates = _rates(statuses, moves or {})
    try:
        reported = client.workers()
    except NotFoundError:
        problems = _problems_of_javas(session, statuses)
    else:
        problems = {str(each["worker"]): _problem_of(each, client.url) for each in reported}
    for url, problem in given.items():
        if problem is not None:
            place = urlsplit(url).netloc
            problems[place] = problems.get(place) or problem
    return [
        {"worker": id_, "answers": problem is None, "problem": problem, "records_per_s": rates.get(id_)}
        for id_, problem in problems.items()
    ]


def _problem_of(worker: Mapping[str, Any], asked: str) -> str | None:
    if worker["answers"]:
        return None
    refusal = worker.get("refusal")
    return f"{asked} gets no answer from it" if refusal is None else f"it refuses what {asked} asks: {refusal}"


def _problems_of_given(session: CliSession) -> dict[str, str | None]:
    """Says why each of several workers that --url or a context names does not answer; None where it does."""
    urls = session.target.urls
    if len(urls) <= 1:
        return {}
    return _problems_at(session, {url: url for url in urls}, _any_answer, _GIVEN_ANSWER_S)


def _problems_of_javas(session: CliSession, statuses: Mapping[str, ConnectorStatus]) -> dict[str, str | None]:
    """Says why each worker that statuses name does not answer; None where it does."""
    client = session.client
    ids = worker_ids(statuses.values())
    if len(ids) <= 1:
        return {next(iter(ids), urlsplit(client.url).netloc): None}
    scheme = urlsplit(client.url).scheme
    return _problems_at(session, {id_: f"{scheme}://{id_}" for id_ in ids}, ConnectClient.server_info, _ANSWER_S)


def _any_answer(client: ConnectClient) -> None:
    """A worker that is starting answers this one. Errors: UnreachableError, TimedOutError."""
    try:
        client.health()
    except (UnreachableError, TimedOutError):
        raise
    except ConnectError:  # it has no such route, or wants to know who asks: it answers
        return


def _problems_at(
    session: CliSession, urls: Mapping[str, str], ask: Callable[[ConnectClient], object], limit_s: float
) -> dict[str, str | None]:
    """Asks the workers at these URLs side by side. Shape: that of `urls`, in the order of its keys."""
    found: dict[str, str | None] = {}  # each thread sets its own key

    def ask_one(id_: str) -> None:
        try:
            with session.client_of([urls[id_]], limit_s=limit_s) as other:
                ask(other)
            found[id_] = None
        except ConnectError as err:
            found[id_] = str(err)

    threads = [threading.Thread(target=ask_one, args=(id_,), name="asks-worker", daemon=True) for id_ in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {id_: found[id_] for id_ in sorted(urls)}


def _rates(statuses: Mapping[str, ConnectorStatus], moves: Mapping[str, Activity]) -> dict[str, float]:
    """Records a second of the tasks of each worker."""
    metrics, found = task_metrics(moves), dict[str, float]()
    for status in statuses.values():
        for task in status.tasks:
            rate = metrics[TaskId(status.name, task.id)].rate if TaskId(status.name, task.id) in metrics else None
            if rate is not None:
                found[task.worker_id] = found.get(task.worker_id, 0.0) + rate
    return found


def _of_topics(session: CliSession) -> dict[str, Any]:
    direct = session.direct
    assert direct is not None
    statuses = direct.connector_statuses()
    group = look_at_group(direct)
    notes = list(notes_on_life(direct, group, list(statuses)))
    workers = None
    if group is not None and not isinstance(group, ConnectError):
        # During a rebalance the broker does not tell their URLs
        ids = [urlsplit(worker.url).netloc or worker.client_id for worker in group.workers]
        workers = [{"worker": id_, "answers": True, "problem": None, "records_per_s": None} for id_ in ids]
    found = {"doctor": _doctor(session, notes), "activities": session.reader.activities(statuses), "notes": notes}
    return health_document(direct.place, statuses, workers, **found)


def _looking(session: CliSession, notes: list[str], *, is_away: bool) -> Future[dict[str, Any] | None]:
    """The doctor at work while other things are asked: of the worker, or here where it is said where Kafka is."""
    look = _doctor if cluster_of(session).is_given else _nothing if is_away else _asked_doctor
    return _beside(look, session, notes)


def _beside(ask: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> Future[T]:
    """Asks on a thread of its own."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="asks-health")
    found = pool.submit(ask, *arguments, **more)
    pool.shutdown(wait=False)
    return found


def _health(session: CliSession) -> WorkerHealth:
    with session.client_of(session.target.urls) as client:
        return health_of(client)


def _nothing(session: CliSession, notes: list[str]) -> None:
    """A worker whose Kafka is away is not asked for what is there."""


def _asked_doctor(session: CliSession, notes: list[str]) -> dict[str, Any] | None:
    """What the worker's own doctor finds, counted; None where there is none, as on Java's workers."""
    try:
        with session.client_of(session.target.urls, limit_s=_DOCTOR_S) as client:
            found = client.doctor()
    except NoRouteError:
        notes.append("The topics were not looked at: --worker FILE or --bootstrap-servers has the doctor do it.")
        return None
    except NotFoundError:  # a standalone worker has no topics
        return None
    except ConnectError as err:
        notes.append(f"The doctor could not look at the topics: {err}")
        return None
    return {"ok": found["ok"], "counts": found["counts"]}


def _doctor(session: CliSession, notes: list[str]) -> dict[str, Any] | None:
    """The doctor's findings counted, where the topics can be read."""
    options = cluster_of(session)
    from kconnect.admin.direct.doctor.diagnosis import diagnose, is_degraded, severity_counts
    from kconnect.admin.direct.doctor.gathering import asks_as, gather_facts
    from kconnect.admin.direct.read.reader import ClusterReader

    try:
        access = options.access()
        with ClusterReader(access) as reader:
            facts = gather_facts(access, reader, int(time.time() * 1000), asks_as(session.access_to("the workers")))
    except (ConnectError, FileNotFoundError) as err:
        notes.append(f"The doctor could not look at the topics: {err}")
        return None
    findings = diagnose(facts)
    return {"ok": not is_degraded(findings), "counts": severity_counts(findings)}


def _rows(views: Sequence[ConnectorView], health: ConnectorHealth) -> list[tuple[PartView, dict[str, Any]]]:
    """Connectors and tasks that stand so, the worst first."""
    found = [(view.name, part) for view in views for part in view.parts if part.health is health]
    return [
        (part, {"name": name, "task": part.task, "worker_id": part.seen.worker_id, "why": part.why(now_ms())})
        for name, part in sorted(found, key=lambda each: each[1].place)
    ]


def _counts(states: Sequence[str]) -> dict[str, Any]:
    return {"total": len(states), "states": dict(sorted(Counter(states).items()))}
