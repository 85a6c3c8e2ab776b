"""Conditions of connectors and tasks, and automatic restarts, for requests with `condition=true`; `GET /conditions`
between workers.

Other requests get exactly Java's bodies. Each worker only knows the conditions of what it runs, so the one that gets
the request queries the others that run connectors and tasks, according to the statuses.
Differs: Java has neither.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

import orjson

from kconnect.client.answers import as_conditions
from kconnect.client.exchange import message_of
from kconnect.client.http_exchange import Request, Response
from kconnect.client.peers import Peers
from kconnect.errors import ConnectError
from kconnect.logs.repeats import RepeatedMessages
from kconnect.model import ConnectorState, ConnectorStatus, RunState, TaskCondition, TaskId, TaskState
from kconnect.runtime.herder.interface import Connectors, Work
from kconnect.runtime.rest.access.needs import SEES_SOME
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, boolean, integer, object_of, ref, text
from kconnect.runtime.storage.status_topic import Subject

log = logging.getLogger(__name__)

CONDITION: Final = Query("condition", "Whether to show the condition of each part beside its state", boolean)
"""A parameter that Java's workers do not look at."""
_CONNECTORS: Final = Query("connectors", "Whether to list those of connectors too, which have no task", boolean)
CONDITIONS: Final = "/conditions?connectors=true"
"""Where a worker says how all that it runs fares."""

# How long other workers have for their answers together: a reader of statuses does not wait for one that is frozen, and
# an admin command that asks has 1.5 s in all
ANSWER_S: Final = 1.0
# How long a worker that did not answer is not asked again, and for what one of Java's lacks
_AWAY_S: Final = 10.0
_UNABLE_S: Final = 300.0
# Three questions to each of eight workers that are frozen leave none for the others: they are asked a second later
_THREADS: Final = 24
_JOIN_S: Final = 1.0
_ANYTHING: Final = ""
_REFUSED: Final = (401, 403)
Part = TypeVar("Part", ConnectorState, TaskState)
_LIVE: Final = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.UNASSIGNED, RunState.RESTARTING})


class Watched(Connectors, Work, Protocol):
    """Statuses, and conditions of the tasks that run here."""


def with_conditions(call: Call[Watched], statuses: Sequence[ConnectorStatus]) -> list[ConnectorStatus]:
    """The statuses, with the conditions of connectors and tasks if requested."""
    if not call.flag("condition"):
        return list(statuses)
    statuses = [call.herder.with_restarts(status) for status in statuses]
    parts: dict[Subject, ConnectorState | TaskState] = {status.name: status.connector for status in statuses}
    parts |= {TaskId(status.name, task.id): task for status in statuses for task in status.tasks}
    known = _known(call, parts)
    return [
        replace(
            status,
            connector=_with(status.connector, status.name, known),
            tasks=tuple(_with(task, TaskId(status.name, task.id), known) for task in status.tasks),
        )
        for status in statuses
    ]


def with_condition(call: Call[Watched], task_id: TaskId, task: TaskState) -> TaskState:
    """The same for one task."""
    if not call.flag("condition"):
        return task
    found = call.herder.with_restarts(call.herder.connector_status(task_id.connector)).tasks
    task = replace(task, restarts=next((each.restarts for each in found if each.id == task_id.task), None))
    return _with(task, task_id, _known(call, {task_id: task}))


def _with(part: Part, subject: Subject, known: Mapping[Subject, TaskCondition]) -> Part:
    condition = known.get(subject) if part.state in _LIVE else None
    return part if condition is None else replace(part, condition=condition)


def _known(call: Call[Watched], parts: Mapping[Subject, ConnectorState | TaskState]) -> dict[Subject, TaskCondition]:
    """Conditions of all that runs here, and of these parts where others run them."""
    own = own_conditions(call.herder)
    if call.others is None:
        return own
    wanted = {part.worker_id for subject, part in parts.items() if part.state in _LIVE and subject not in own}
    others = wanted - {call.herder.worker_id, ""}
    return own | dict(call.others.conditions(others, call.headers_for("GET", CONDITIONS)))


def own_conditions(herder: Work) -> dict[Subject, TaskCondition]:
    """The conditions of all that this worker runs."""
    own = dict[Subject, TaskCondition](herder.task_conditions().items())
    own.update(herder.connector_conditions().items())
    return own


class OtherWorkers:
    """Fetches what other workers know of themselves. Threads: any; `close` aborts requests in progress.

    A worker that does not answer in time is omitted, and not asked for anything for a while.
    """

    def __init__(
        self, peers: Peers, scheme: Callable[[], str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._peers = peers
        self._scheme = scheme
        self._monotonic = monotonic
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="conditions")
        self._lock = threading.Lock()  # guards the fields below
        self._not_before_s: dict[tuple[str, str], float] = {}  # by worker and path; without a path it is for all
        self._refusals: dict[str, str] = {}
        self._repeats = RepeatedMessages(log)

    def conditions(self, worker_ids: Collection[str], headers: Mapping[str, str]) -> dict[Subject, TaskCondition]:
        """Conditions of what these workers (host:port) run; `headers` identify the caller."""
        found: dict[Subject, TaskCondition] = {}
        for worker, body in self.ask(worker_ids, CONDITIONS, headers).items():
            try:
                found |= as_conditions(body)
            except (KeyError, TypeError, ValueError) as err:
                self._leave_alone(worker, "/conditions", _AWAY_S, err)
        return found

    def ask(self, worker_ids: Collection[str], target: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """JSON of a path and query from each of these workers, as far as they answer."""
        return self.ask_all(worker_ids, {target: headers})[target]

    def ask_all(
        self, worker_ids: Collection[str], targets: Mapping[str, Mapping[str, str]]
    ) -> dict[str, dict[str, Any]]:
        """Works as `ask` for several paths at once, by path and worker: who does not answer is waited for once.

        `targets`: the headers for each.
        """
        jobs: dict[Future[Any], tuple[str, str]] = {}
        for target, headers in targets.items():
            for worker in self._present(worker_ids, target.partition("?")[0]):
                jobs[self._pool.submit(self._fetch, worker, target, headers)] = (worker, target)
        done, late = wait(jobs, ANSWER_S)
        for worker in {jobs[job][0] for job in late if not job.cancel()}:  # what no thread was free for is no sign
            self._leave_alone(worker, _ANYTHING, _AWAY_S, f"no answer within {ANSWER_S:g} s")
        found: dict[str, dict[str, Any]] = {target: {} for target in targets}
        for job in done:
            worker, target = jobs[job]
            if (body := job.result()) is not None:
                found[target][worker] = body
        return found

    def refusals(self) -> dict[str, str]:
        """Why workers refuse even what everybody may ask: other clocks, keys or users than here."""
        with self._lock:
            return dict(self._refusals)

    def _note_refusal(self, worker: str, answer: Response) -> None:
        """Note what a worker says to `/`, for which nobody lacks a role."""
        with self._lock:
            self._refusals.pop(worker, None)
        if answer.status not in _REFUSED:
            return
        why = message_of(answer) or f"status {answer.status}"
        self._repeats.log(logging.WARNING, "Worker %s refuses requests of this one: %s", worker, why)
        with self._lock:
            self._refusals[worker] = why

    def _present(self, worker_ids: Collection[str], path: str) -> list[str]:
        """The workers that may be asked for this."""
        now_s = self._monotonic()
        with self._lock:
            return [
                worker
                for worker in sorted(worker_ids)
                if max(self._not_before_s.get((worker, each), 0.0) for each in (path, _ANYTHING)) <= now_s
            ]

    def close(self) -> None:
        """Idempotent."""
        self._peers.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for thread in list(self._pool._threads):  # the executor offers no join with a deadline
            thread.join(_JOIN_S)

    def _fetch(self, worker: str, target: str, headers: Mapping[str, str]) -> Any:  # JSON; None for none
        host, _, port = worker.rpartition(":")
        url = f"{self._scheme()}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"
        request, path = (
            Request("GET", target, None, {"accept": "application/json", **headers}),
            target.partition("?")[0],
        )
        try:
            answer = self._peers.send(url, request)
            if path == "/":
                self._note_refusal(worker, answer)
            if answer.status == 200:
                return orjson.loads(answer.body)
            if answer.status in _REFUSED:
                return None  # this caller may not; others may
            self._leave_alone(worker, path, _UNABLE_S if answer.status == 404 else _AWAY_S, f"status {answer.status}")
        except ConnectError as err:
            self._leave_alone(worker, _ANYTHING, _AWAY_S, err)
        except ValueError as err:
            self._leave_alone(worker, path, _AWAY_S, err)
        return None

    def _leave_alone(self, worker: str, path: str, for_s: float, why: object) -> None:
        log.debug("Worker %s does not answer GET %s: %s", worker, path, why)
        with self._lock:
            self._not_before_s[worker, path] = self._monotonic() + for_s


def list_conditions(call: Call[Work]) -> Answer:
    """Answer with the conditions of the tasks that this worker runs; if requested, with those of connectors before.

    Workers of a version that knows no conditions of connectors request none, and could not read them.
    """
    found, own = call.herder.task_conditions(), call.herder.connector_conditions()
    rows = [({"connector": name}, name, own[name]) for name in sorted(own) if call.flag("connectors")]
    rows += [(task_id.to_json(), task_id.connector, found[task_id]) for task_id in sorted(found)]
    return Answer([{**part, "condition": each.to_json()} for part, name, each in rows if call.access.may_read(name)])


_LISTED: Final[Schema] = object_of(
    {"connector": text, "task": integer, "condition": ref("Condition")}, required=("connector", "condition")
)
ENDPOINTS = (
    Endpoint(
        "/conditions",
        {
            "GET": Operation(
                list_conditions,
                "The conditions of the tasks this worker runs",
                {200: array_of(_LISTED)},
                query=(_CONNECTORS,),
                needs=SEES_SOME,
            )
        },
        deadline_s=10,
    ),
)
