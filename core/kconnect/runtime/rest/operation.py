"""A handler's description for the OpenAPI document, kept next to it in the table of routes so that it stays current."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.rest.access.needs import Needs, Of
from kconnect.runtime.rest.exchange import Answer, Call, Handler

# A JSON schema; values may be any JSON
Schema: TypeAlias = Mapping[str, Any]

_READING: Final = frozenset({"GET", "HEAD"})
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
