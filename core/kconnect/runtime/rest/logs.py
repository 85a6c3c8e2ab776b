"""`/admin/logs` and `/admin/loggers`: the last lines of this worker's log, those of its slots among them, and levels.

With `wait_ms` the answer comes with the first line that fits, so that one can follow the log without asking every
second; nobody's thread waits meanwhile.
Source: LoggingResource (KIP-495, KIP-976). Differs: Java has no resource for lines.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from kconnect.errors import BadRequestError, NotFoundError
from kconnect.logs.log_context import level_name, level_number
from kconnect.logs.log_tail import MOST_AT_ONCE, LogQuery
from kconnect.runtime.herder.interface import Loggers, WorkHistory
from kconnect.runtime.rest.access.needs import ADMINISTERS, READS, SEES_SOME
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, Wait, no_content
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, boolean, integer, object_of, text
from kconnect.runtime.rest.workers import ClusterView, ask_workers, other_workers

# Shorter than what proxies in between wait for an answer, usually a minute
MOST_WAIT_MS: Final = 25_000
_DEFAULT_LIMIT: Final = 200
_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_NUMBER_OR_NULL: Final[Schema] = {"type": ["integer", "null"]}
_LINE: Final[Schema] = object_of(
    {
        "worker": text,
        "number": integer,
        "time_ms": integer,
        "level": text,
        "logger": text,
        "connector": _OR_NULL,
        "task": _NUMBER_OR_NULL,
        "stage": _OR_NULL,
        "slot": _NUMBER_OR_NULL,
        "thread": text,
        "text": text,
    },
    required=("number", "time_ms", "level", "text"),
)


def show_lines(call: Call[ClusterView]) -> Answer:
    """Shows lines of this worker, or with `cluster=true` of all that answer, merged by time; `silent` are the
    others.
    """
    return Answer(_of_cluster(call) if call.flag("cluster") else _of_this(call, _query(call)))


def _of_this(call: Call[WorkHistory], query: LogQuery) -> dict[str, Any]:
    page = call.herder.log_tail().page(query)
    worker = call.herder.worker_id
    return {
        "worker": worker,
        "last": page.last,
        "missed": page.missed,
        "lines": [{"worker": worker, **line.to_json()} for line in page.lines],
    }


def _of_cluster(call: Call[ClusterView]) -> dict[str, Any]:
    """`cursor` says for each worker which line was the last: `worker=number`, divided by commas."""
    query = _query(call)
    cursor = dict(part.rpartition("=")[::2] for text in call.query_values("cursor") for part in text.split(","))
    own = call.herder.worker_id
    pages = {own: _of_this(call, replace(query, after=_after(cursor.get(own))))}
    # Whoever sends a cursor may write any address into it: nobody is asked who is not of this cluster
    others = other_workers(call)
    known = {worker for worker in others if _after(cursor.get(worker)) is not None}
    for worker in known:
        pages |= ask_workers(call, {worker}, _target(query, _after(cursor[worker])))
    # Who has come since, and all of them at first
    pages |= ask_workers(call, others - known, _target(query, None))
    lines = [{"worker": worker, **line} for worker, page in pages.items() for line in page["lines"]]
    lines.sort(key=lambda line: (line["time_ms"], line["worker"], line["number"]))
    last = {**{worker: cursor[worker] for worker in known}, **{worker: page["last"] for worker, page in pages.items()}}
    return {
        "worker": own,
        "last": pages[own]["last"],
        "missed": any(page["missed"] for page in pages.values()),
        # Behind a cursor each worker gave its first ones, and the cursor goes on from there: none may be left out
        "lines": lines if cursor else lines[-query.limit :] if query.limit else [],
        "cursor": ",".join(f"{worker}={number}" for worker, number in sorted(last.items())),
        "silent": sorted(others - pages.keys()),
    }


def _target(query: LogQuery, after: int | None) -> str:
    asked = {"connector": query.connector, "level": level_name(query.level) if query.level else None,
             "since": query.since_ms, "limit": query.limit, "after": after}  # fmt: skip
    return f"/admin/logs?{urlencode({key: value for key, value in asked.items() if value is not None})}"


def _after(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 19 else None


def wait_for_line(call: Call[WorkHistory]) -> Wait | None:
    """What a request with `wait_ms` waits for. Errors: BadRequestError."""
    wait_ms = _number(call, "wait_ms", MOST_WAIT_MS) or 0
    query = _query(call)
    return Wait(call.herder.log_tail().watch(query), wait_ms / 1000) if wait_ms and query.after is not None else None


def _query(call: Call[object]) -> LogQuery:
    """Lines of one connector are for its readers, the others for administrators.

    Errors: BadRequestError, DeniedError.
    """
    names, levels = call.query_values("connector"), call.query_values("level")
    call.require(READS if names else ADMINISTERS, names[0] if names else None)
    level = level_number(levels[0]) if levels else 0
    if level is None:
        raise BadRequestError(f"Unknown log level: {levels[0]}. Known: TRACE, DEBUG, INFO, WARN, ERROR, FATAL")
    limit = _number(call, "limit")
    return LogQuery(
        connector=names[0] if names else None,
        level=level,
        since_ms=_number(call, "since"),
        after=_number(call, "after"),
        limit=_DEFAULT_LIMIT if limit is None else min(limit, MOST_AT_ONCE),
    )


def _number(call: Call[object], key: str, most: int = 2**63 - 1) -> int | None:
    """Errors: BadRequestError."""
    values = call.query_values(key)
    if not values:
        return None
    if not (values[0].isascii() and values[0].isdecimal() and len(values[0]) < 19):
        raise BadRequestError(f"{key} must be a number from 0 on, not {values[0]!r}")
    return min(int(values[0]), most)


log = logging.getLogger(__name__)

_LEVEL = 'a JSON object {"level": "DEBUG"}'


def list_loggers(call: Call[Loggers]) -> Answer:
    return Answer({name: level.to_json() for name, level in call.herder.loggers().items()})


def show_logger(call: Call[Loggers]) -> Answer:
    return Answer(call.herder.logger(call.path["logger"]).to_json())


def set_logger(call: Call[Loggers]) -> Answer:
    """Names of the changed loggers; no content with `scope=cluster`, which applies to every worker.

    As in Java an unknown level is 404, and an unknown scope means this worker.
    """
    wanted = call.json_object(_LEVEL, texts=True).get("level")
    if wanted is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    if not isinstance(wanted, str):
        raise BadRequestError(f'"level" must be a string; expected {_LEVEL}')
    level = level_number(wanted)
    if level is None:
        raise NotFoundError(f"invalid log level '{wanted}'.", hint="Levels: OFF FATAL ERROR WARN INFO DEBUG TRACE ALL.")
    scope = (call.query_values("scope") or ["worker"])[0].lower()
    if scope not in ("worker", "cluster"):
        log.warning("Unknown scope %r for a change of log levels: it changes this worker only", scope)
    changed = call.herder.set_logger(call.path["logger"], level, whole_cluster=scope == "cluster")
    return no_content() if scope == "cluster" else Answer(changed)


_LEVELS: Schema = {"enum": ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"]}
_LOGGER: Schema = object_of({"level": _LEVELS, "last_modified": {"type": ["integer", "null"]}})


ENDPOINTS = (
    Endpoint(
        "/admin/logs",
        {
            "GET": Operation(
                show_lines,
                "The last lines of this worker's log, in order",
                {
                    200: object_of(
                        {
                            "worker": text,
                            "last": integer,
                            "missed": boolean,
                            "lines": array_of(_LINE),
                            "cursor": text,
                            "silent": array_of(text),
                        },
                        required=("worker", "last", "missed", "lines"),
                    )
                },
                query=(
                    Query("connector", "Lines of its connector and tasks, and those of the worker that name it"),
                    Query("level", "At least this level: TRACE, DEBUG, INFO, WARN, ERROR, FATAL"),
                    Query("since", "Lines from this time on, in milliseconds since the epoch", integer),
                    Query("after", "Lines behind this number: `last` of an earlier answer", integer),
                    Query("limit", f"At most so many lines, {_DEFAULT_LIMIT} by default", integer),
                    Query("cluster", "true: of all workers, as far as they answer within two seconds", boolean),
                    Query("cursor", "With cluster: lines behind those of an earlier answer, by its cursor"),
                    Query("wait_ms", f"With after: wait for a line that fits, up to {MOST_WAIT_MS} ms", integer),
                ),
                needs=SEES_SOME,
            )
        },
        deadline_s=10 + MOST_WAIT_MS / 1000,
        awaits_start=False,
        waits=wait_for_line,
    ),
    Endpoint(
        "/admin/loggers",
        {
            "GET": Operation(
                list_loggers,
                "Levels of all loggers",
                {200: {"type": "object", "additionalProperties": _LOGGER}},
                needs=ADMINISTERS,
            )
        },
        awaits_start=False,
    ),
    Endpoint(
        "/admin/loggers/{logger}",
        {
            "GET": Operation(show_logger, "Level of a logger", {200: _LOGGER}, needs=ADMINISTERS),
            "PUT": Operation(
                set_logger,
                "Give a logger, and those below it, a level; names of those that changed",
                {200: array_of(text), 204: None},
                body=object_of({"level": _LEVELS}, required=("level",)),
                query=(Query("scope", "Whose loggers; worker if absent", {"enum": ["worker", "cluster"]}),),
                needs=ADMINISTERS,
            ),
        },
    ),
)
