"""What the OpenAPI document says of a handler, kept beside it in the table of routes, so that it cannot go stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kconnect.rest.exchange import Answer, Call, Handler

# A JSON schema; values are whatever JSON has
Schema: TypeAlias = Mapping[str, Any]

text: Final[Schema] = {"type": "string"}
integer: Final[Schema] = {"type": "integer"}
boolean: Final[Schema] = {"type": "boolean"}
texts: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
"""A config: texts by name."""


def ref(name: str) -> Schema:
    """One of the schemas that `openapi.py` shares between operations."""
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
    """One parameter behind the `?`. `many`: it may be given several times."""

    name: str
    summary: str
    schema: Schema = field(default_factory=lambda: text)
    many: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A handler and its description. It is a Handler itself, so tables of routes hold either.

    `answers`: the statuses of success, with the schema of their bodies, None for no body. Errors need no mention.
    """

    handler: Handler
    summary: str
    answers: Mapping[int, Schema | None] = field(default_factory=lambda: {200: {}})
    body: Schema | None = None
    query: Sequence[Query] = ()

    def __call__(self, call: Call) -> Answer:
        return self.handler(call)
