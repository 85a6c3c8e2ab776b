"""`/admin/loggers`. Source: LoggingResource (KIP-495, KIP-976)."""

from __future__ import annotations

import logging

from kconnect.errors import BadRequestError, NotFoundError
from kconnect.logs.log_context import level_number
from kconnect.runtime.rest.access.needs import ADMINISTERS
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, no_content
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, object_of, text

log = logging.getLogger(__name__)

_LEVEL = 'a JSON object {"level": "DEBUG"}'


def list_loggers(call: Call) -> Answer:
    return Answer({name: level.to_json() for name, level in call.herder.loggers().items()})


def show_logger(call: Call) -> Answer:
    return Answer(call.herder.logger(call.path["logger"]).to_json())


def set_logger(call: Call) -> Answer:
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
