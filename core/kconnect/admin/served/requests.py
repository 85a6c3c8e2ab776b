"""Parameters of requests to what a worker reads from its Kafka, and the bounds of one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kconnect.errors import BadRequestError
from kconnect.runtime.rest.exchange import Call
from kconnect.runtime.rest.operation import Query, Schema, array_of, boolean, integer, text

if TYPE_CHECKING:
    from kconnect.admin.dead_letters import Selection

# What is left of a request's deadline is for the answer on its way
MOST_S: Final = 20.0
MOST_BYTES: Final = 8 << 20

LETTER_QUERY: Final = (
    Query("as", "What of them: summary, show, or export", {"enum": ["summary", "show", "export"]}),
    Query("stage", "Only those that failed in this stage", text, many=True),
    Query("exception", "Only those that failed with this class", text, many=True),
    Query("topic", "Only those that were read from this topic", text, many=True),
    Query("offset", "Only these, by where they are: 7, 7-12, 3:7-12", text, many=True),
    Query("from", "Only those since then, in ms since 1970", integer),
    Query("to", "Only those before then, in ms since 1970", integer),
    Query("all", "Also records that name another connector, or none", boolean),
    Query("limit", "How many at most", integer),
)
REPLAY_FIELDS: Final[Mapping[str, Schema]] = {
    "patch": {"type": "array", "description": "A JSON patch (RFC 6902) of each record"},
    "letters": array_of({"type": "object"}),
    "to_topic": text,
    "max_replays": integer,
    "again": boolean,
    "limit": integer,
    "ends": {"type": "object", "additionalProperties": integer},
    "show": boolean,
}
ROLLBACK_FIELDS: Final[Mapping[str, Schema]] = {"version": integer}


def letter_selection(call: Call[Any], connector: str, *, takes_unknown: bool) -> Selection:
    """The dead letters that the parameters name. Errors: BadRequestError."""
    from kconnect.admin.dead_letters import OffsetRange, Selection  # here: a worker's start needs the names alone

    return Selection(
        connector=connector,
        takes_unknown=takes_unknown,
        takes_all=call.flag("all"),
        stages=frozenset(call.query_values("stage")),
        exceptions=tuple(call.query_values("exception")),
        topics=frozenset(call.query_values("topic")),
        from_ms=number_of(call, "from"),
        to_ms=number_of(call, "to"),
        offsets=tuple(OffsetRange.parse(text) for text in call.query_values("offset")),
    )


def text_of(call: Call[Any], key: str) -> str | None:
    """A parameter; None where it is missing or empty."""
    values = call.query_values(key)
    return values[0] if values and values[0] else None


def number_of(call: Call[Any], key: str) -> int | None:
    """A parameter that is a whole number. Errors: BadRequestError that names it."""
    given = text_of(call, key)
    return None if given is None else as_number(key, given)


def as_number(key: str, given: str) -> int:
    """Errors: BadRequestError that names the parameter `key`."""
    try:
        return int(given)
    except ValueError:
        raise BadRequestError(f"{key} must be a whole number, not {given!r}") from None
