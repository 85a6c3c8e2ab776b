"""`/` and `/health`. Source: RootResource (KIP-1017)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from kconnect.errors import ConflictError, NotFoundError
from kconnect.logs.wording import pluralize
from kconnect.model import RunState, TaskId
from kconnect.runtime.herder.health.reasons import Reason, reasons_text
from kconnect.runtime.herder.interface import Connectors, Health, Work
from kconnect.runtime.rest.access.needs import NOTHING
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.operation import Operation, array_of, boolean, integer, object_of, text

_INFO = object_of({"version": text, "commit": text, "kafka_cluster_id": {"type": ["string", "null"]}})
_STATUS = {"enum": ["healthy", "starting", "unhealthy"]}
_REASON = object_of({"reason": text, "status": _STATUS, "since_ms": integer})
_HEALTH = object_of(
    {
        "status": _STATUS,
        "message": text,
        "reasons": array_of(_REASON),
        "answers_requests": boolean,
        "notices": array_of(text),
    },
    required=["status", "message"],
)


class _Alive(Health, Connectors, Work, Protocol):
    """The health of the worker and of what it runs."""


def server_info(call: Call[Health]) -> Answer:
    info = call.herder.server_info()
    return Answer({"version": info.version, "commit": info.commit, "kafka_cluster_id": info.kafka_cluster_id})


def health(call: Call[_Alive]) -> Answer:
    """Java's words and statuses, with what is wrong behind them; `reasons` has the same for programs, `notices` what a
    healthy worker has to say.

    Differs: Java waits for its herder's thread, and says what that one does; ours is asked for what it knows, at once.
    While Kafka is away it is 503: in a cluster Java's is 500 after 10 s then, and 200 of a standalone worker.
    A worker whose Spark is still starting is starting, though it takes requests already: it can run no task.
    Tasks that failed, and connectors without task configs, are only reported: the worker is well, and another start of
    it would not repair them.
    """
    reasons = call.herder.health()
    if wrong := [reason for reason in reasons if not reason.is_starting]:
        status = 500 if call.herder.outage() is None else 503
        return _health(status, "unhealthy", reasons_text(wrong, _now_ms()), reasons)
    if reasons or not call.herder.is_ready():
        message = f"Worker is still starting up. {reasons_text(reasons, _now_ms())}".rstrip()
        return _health(503, "starting", message, reasons, answers_requests=_is_open(call))
    notices = [*(call.server.warnings() if call.server is not None else ()), *call.herder.notices()]
    said = [f"{each}." for each in (*_failed_tasks(call), *_without_task_configs(call), *notices)]
    message = " ".join(["Worker has completed startup and is ready to handle requests.", *said])
    return _health(200, "healthy", message, notices=notices)


def _failed_tasks(call: Call[_Alive]) -> list[str]:
    """How many there are here; not which, as everybody may ask.

    By what is in memory alone: the status of a connector may have to ask Java what kind of one it is.
    """
    count = 0
    for task_id in _tasks(call):
        with suppress(NotFoundError):  # deleted meanwhile, or without a status yet
            task = call.herder.task_status(task_id)
            count += task.state is RunState.FAILED and task.worker_id == call.herder.worker_id
    return [f"{pluralize(count, 'task')} on it {'is' if count == 1 else 'are'} FAILED"] if count else []


def _without_task_configs(call: Call[_Alive]) -> list[str]:
    """How many connectors here; not which, as above."""
    count = len(call.herder.connector_conditions())
    return [f"{pluralize(count, 'connector')} on it {'gives' if count == 1 else 'give'} no task configs"] * bool(count)


def _tasks(call: Call[Connectors]) -> Iterator[TaskId]:
    for name in call.herder.connectors():
        with suppress(NotFoundError):  # deleted meanwhile
            yield from (info.id for info in call.herder.task_infos(name))


def unhealthy(_call: Call[object]) -> Answer:
    return _health(
        500, "unhealthy", "Worker was unable to handle this request and may be unable to handle other requests."
    )


def _health(
    status: int,
    word: str,
    message: str,
    reasons: Sequence[Reason] = (),
    *,
    answers_requests: bool = True,
    notices: Sequence[str] = (),
) -> Answer:
    details: dict[str, Any] = {"reasons": [reason.to_json() for reason in reasons]} if reasons else {}
    if not answers_requests:
        details["answers_requests"] = False
    if notices:
        details["notices"] = list(notices)
    return Answer({"status": word, "message": message, **details}, status)


def _is_open(call: Call[Health]) -> bool:
    try:
        return call.herder.is_open()
    except ConflictError:
        return False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


ENDPOINTS = (
    Endpoint(
        "/",
        {
            "GET": Operation(
                server_info, "Version of the worker and id of its Kafka cluster", {200: _INFO}, needs=NOTHING
            )
        },
    ),
    # Java waits 10 s for its herder's thread (DEFAULT_HEALTH_CHECK_TIMEOUT_MS)
    Endpoint(
        "/health",
        {
            "GET": Operation(
                health,
                "Whether the worker is ready",
                {200: _HEALTH, 503: _HEALTH, 500: _HEALTH},
                needs=NOTHING,
            )
        },
        deadline_s=10,
        when_late=unhealthy,
        awaits_start=False,
    ),
)
