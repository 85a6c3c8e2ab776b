"""A handler's description for the OpenAPI document, kept next to it in the table of routes so that it stays current.

`openapi_document` is made of the server's table of routes: `GET /openapi.json`.

Differs: Java publishes such a document with its releases; its workers do not serve it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kconnect.errors import ConnectError
from kconnect.model import AutoRestart, Condition
from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.rest.access.needs import Needs, Of
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, Handler

# A JSON schema; values may be any JSON
Schema: TypeAlias = Mapping[str, Any]

_READING: Final = frozenset({"GET", "HEAD"})
text: Final[Schema] = {"type": "string"}
integer: Final[Schema] = {"type": "integer"}
boolean: Final[Schema] = {"type": "boolean"}
texts: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
"""A config: texts by name."""


def ref(name: str) -> Schema:
    """One of the schemas that `openapi_document` shares between operations."""
    return {"$ref": f"#/components/schemas/{name}"}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def object_of(fields: Mapping[str, Schema], *, required: Sequence[str] = (), closed: bool = False) -> Schema:
    """An object; `closed` refuses fields that are not named."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(fields)}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


@dataclass(frozen=True, slots=True)
class Query:
    """One query parameter. `many`: it may be repeated."""

    name: str
    summary: str
    schema: Schema = field(default_factory=lambda: text)
    many: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A handler, its description, and what it needs of its caller. It is a Handler itself.

    `answers`: the statuses of success, with the schema of their bodies, None for no body. Errors need not be listed.
    """

    handler: Handler
    summary: str
    answers: Mapping[int, Schema | None] = field(default_factory=lambda: {200: {}})
    body: Schema | None = None
    query: Sequence[Query] = ()
    needs: Needs = field(kw_only=True)
    changes: bool = True
    """False for a PUT or POST that changes nothing; a GET never does."""

    def is_change(self, method: str) -> bool:
        """Whether a request with this method belongs into the audit log."""
        return self.changes and method not in _READING and self.needs.of is not Of.PEERS

    def __call__(self, call: Call[Herder]) -> Answer:
        return self.handler(call)


_PART = re.compile(r"\{(\w+)}")
_TYPE: Final[Schema] = {"type": "string", "enum": ["source", "sink", "unknown"]}
_STATE: Final[Schema] = {
    "type": "string",
    "enum": ["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING", "DESTROYED"],
}
_TASK_ID: Final[Schema] = object_of({"connector": text, "task": integer})
_OFFSETS: Final[Schema] = array_of(object_of({"partition": {"type": "object"}, "offset": {"type": ["object", "null"]}}))
_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": object_of({"error_code": integer, "message": text}, required=("error_code", "message")),
    "Connector": object_of(
        {"name": text, "config": texts, "tasks": array_of(_TASK_ID), "type": _TYPE, "offsets_status": text}
    ),
    "Status": object_of(
        {
            "name": text,
            "connector": object_of(
                {
                    "state": _STATE,
                    "worker_id": text,
                    "version": text,
                    "trace": text,
                    "condition": ref("Condition"),
                    "restarts": ref("Restarts"),
                }
            ),
            "tasks": array_of(ref("TaskStatus")),
            "type": _TYPE,
        }
    ),
    "TaskStatus": object_of(
        {
            "id": integer,
            "state": _STATE,
            "worker_id": text,
            "version": text,
            "trace": text,
            "condition": ref("Condition"),
            "restarts": ref("Restarts"),
        }
    ),
    "Condition": object_of(
        {
            "name": {"enum": [str(condition) for condition in Condition]},
            "since_ms": integer,
            "count": integer,
            "cause": text,
            "stack": text,
        },
        required=("name", "since_ms", "count"),
    ),
    "Restarts": object_of(
        {
            "state": {"enum": [str(state) for state in AutoRestart]},
            **dict.fromkeys(("count", "max", "due_ms"), integer),
            "why": text,
        },
        required=("state", "count", "max"),
    ),
    "Task": object_of({"id": _TASK_ID, "config": texts}),
    "Offsets": object_of({"offsets": _OFFSETS}, required=("offsets",), closed=True),
    "OffsetsAndLag": object_of({"offsets": _OFFSETS, "lag": ref("Lag")}, required=("offsets",)),
    "Lag": object_of(
        {
            "total": {"type": ["integer", "null"]},
            "partitions": array_of(
                object_of(
                    {
                        "topic": text,
                        "partition": integer,
                        "offset": {"type": ["integer", "null"]},
                        "end_offset": integer,
                        "lag": integer,
                    }
                )
            ),
            "problem": text,
        },
        required=("total", "partitions"),
    ),
    "Message": object_of({"message": text}),
    "Plugin": object_of({"class": text, "type": text, "version": text}),
}
_PATH_PARTS: Final[Mapping[str, Schema]] = {"task": {"type": "integer", "minimum": 0}}
_PATH_TEXTS: Final[Mapping[str, str]] = {"name": "Name of the connector, URL-encoded", "task": "Number of the task"}
_ERROR: Final[Schema] = {
    "description": "What went wrong",
    "content": {"application/json": {"schema": ref("Error")}},
}


def openapi_document(endpoints: Iterable[Endpoint], version: str, *, login: bool = False) -> dict[str, Any]:
    """The document of these routes. `login`: whether the server requires a user and a password."""
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect REST API",
            "version": version,
            "description": "Any error comes with an error_code, which is the HTTP status, and a message.",
        },
        "paths": {endpoint.path: _path(endpoint) for endpoint in endpoints},
        "components": {"schemas": {name: dict(schema) for name, schema in _SCHEMAS.items()}},
    }
    if login:
        document["components"]["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
        document["security"] = [{"basic": []}]
    return document


def _path(endpoint: Endpoint) -> dict[str, Any]:
    item: dict[str, Any] = {
        method.lower(): _operation(method, endpoint, handler) for method, handler in endpoint.handlers.items()
    }
    if parts := _PART.findall(endpoint.path):
        item["parameters"] = [
            {
                "name": part,
                "in": "path",
                "required": True,
                "description": _PATH_TEXTS.get(part, part),
                "schema": _PATH_PARTS.get(part, {"type": "string", "minLength": 1}),
            }
            for part in parts
        ]
    return item


def _operation(method: str, endpoint: Endpoint, handler: Handler) -> dict[str, Any]:
    path = endpoint.path
    if not isinstance(handler, Operation):
        raise ConnectError(f"{method} {path} is not described")
    described = handler
    operation: dict[str, Any] = {
        "operationId": _operation_id(method, path),
        "summary": described.summary,
        "description": f"Needs {described.needs}, where the worker has roles.",
        "tags": [path.split("/")[1] or "worker"],
        "responses": {
            **{
                str(status): _answer(status, schema, endpoint.media_type.split(";")[0])
                for status, schema in described.answers.items()
            },
            "default": _ERROR,
        },
    }
    if described.query:
        operation["parameters"] = [_query(parameter) for parameter in described.query]
    if described.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": described.body}}}
    return operation


def _operation_id(method: str, path: str) -> str:
    words = [part.strip("{}").replace("-", "_").replace(".", "_") for part in path.split("/") if part]
    return "_".join([method.lower(), *(words or ["root"])])


def _answer(status: int, schema: Schema | None, media_type: str) -> dict[str, Any]:
    texts_of = {200: "Done", 201: "Created", 202: "Accepted, carried out after the answer", 204: "Done, nothing to say"}
    answer: dict[str, Any] = {"description": texts_of.get(status, "See the body")}
    if schema is not None:
        answer["content"] = {media_type: {"schema": schema}}
    return answer


def _query(parameter: Query) -> dict[str, Any]:
    schema = array_of(parameter.schema) if parameter.many else parameter.schema
    return {"name": parameter.name, "in": "query", "description": parameter.summary, "schema": schema}
