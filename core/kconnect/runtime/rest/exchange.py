"""A handler's input and output: Call, Answer, Endpoint; and how it reads bodies and flags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import orjson

from kconnect.errors import BadRequestError, NotFoundError, WrongWorkerError
from kconnect.model import TaskCondition
from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.metrics import Reading
from kconnect.runtime.rest.access.access import OPEN, Access
from kconnect.runtime.rest.access.needs import Needs
from kconnect.runtime.storage.status_topic import Subject


class Others(Protocol):
    """The other workers of the cluster, as far as an answer needs them."""

    def conditions(self, worker_ids: Collection[str], headers: Mapping[str, str]) -> Mapping[Subject, TaskCondition]:
        """Conditions of the connectors and tasks these workers run, as far as they answer."""
        ...

    def ask(self, worker_ids: Collection[str], target: str, headers: Mapping[str, str]) -> Mapping[str, Any]:
        """JSON of a path and query from each of these workers, as far as they answer."""
        ...

    def ask_all(
        self, worker_ids: Collection[str], targets: Mapping[str, Mapping[str, str]]
    ) -> Mapping[str, dict[str, Any]]:
        """Works as `ask` for several paths at once, each with its headers; by path and worker."""
        ...

    def refusals(self) -> Mapping[str, str]:
        """Why workers refuse even what everybody may ask, by worker."""
        ...


class ServerState(Protocol):
    """The server's own state, for `/metrics` and `/health`."""

    def readings(self) -> Sequence[Reading]: ...
    def warnings(self) -> Sequence[str]:
        """What an administrator should know, as sentences without a full stop."""
        ...


SignRequest: TypeAlias = Callable[[Access, str, str, bytes], Mapping[str, str]]
"""Headers that tell another worker who sends a request, from the access, method, target and body."""


def _unsigned(_access: Access, _method: str, _target: str, _body: bytes) -> Mapping[str, str]:
    return {}


H = TypeVar("H", covariant=True)
"""The part of a herder that a handler asks for; a whole one does for all."""


@dataclass(frozen=True, slots=True)
class Call(Generic[H]):
    """One request: handlers run in a pool thread, call the herder, and give an Answer or raise."""

    herder: H
    path: Mapping[str, str]
    """Parts of the path by their names in the route, percent-decoded."""
    query: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    base_url: str = ""
    method: str = ""
    raw_path: str = ""
    """The path as received."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they contain the password
    """The headers that go along when the request is forwarded, by names in lower case."""
    others: Others | None = None
    """It is None without a cluster."""
    access: Access = OPEN
    """Who sent it, and what it may do."""
    sign: SignRequest = _unsigned
    server: ServerState | None = None
    """What the server says of itself; None in tests without one."""

    def headers_for(self, method: str, target: str, body: bytes = b"") -> dict[str, str]:
        """Gives the headers of a request to another worker on behalf of this caller; `target`: path and query as they
        are sent.
        """
        return {**self.headers, **self.sign(self.access, method, target, body)}

    def require(self, needs: Needs, connector: str | None) -> None:
        """For handlers whose connector is in the body; None: any. Errors: DeniedError."""
        self.access.require(needs, connector, f"{self.method} {self.raw_path}")

    def require_config(
        self, config: Mapping[str, str], connector: str | None, groups: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """For handlers that were sent a config: what the caller may name in it. Errors: DeniedError.

        `groups`: as of Access.
        """
        self.access.require_config(config, connector, groups)

    def require_topic(self, topic: str) -> None:
        """For handlers that give records of a topic. Errors: DeniedError."""
        self.access.require_topic(topic, f"{self.method} {self.raw_path}")

    def query_values(self, key: str) -> list[str]:
        return [value for name, value in self.query if name == key]

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A query flag as Java reads it: `true` in any case is true, everything else false."""
        values = self.query_values(key)
        return values[0].lower() == "true" if values else default

    def expected(self) -> tuple[str, ...] | None:
        """Entity tags of the header If-Match; None without it. Errors: BadRequestError."""
        header = self.headers.get("if-match")
        if header is None:
            return None
        tags = tuple(tag.strip() for tag in header.split(",") if tag.strip())
        if not tags or any(tag != "*" and not _ENTITY_TAG.fullmatch(tag) for tag in tags):
            raise BadRequestError(
                f"If-Match must be * or the ETag of an earlier answer, with its quotes, not {header!r}"
            )
        return tags

    def task_number(self) -> int:
        """The `{task}` part of the path; not a number: 404, as Jersey does."""
        try:
            return int(self.path["task"])
        except ValueError:
            raise NotFoundError("HTTP 404 Not Found") from None

    def json_object(self, what: str, *, texts: bool = False, known: Sequence[str] | None = None) -> dict[str, Any]:
        """The body as a JSON object. Errors: BadRequestError with the position of the error.

        Shape: with texts=True numbers are the text the caller wrote (1.50 stays "1.50").
        Differs: Java answers 500 to a body that is missing, malformed, no object, or has unknown fields.
        """
        body = self._json(what, texts=texts)
        if not isinstance(body, dict):
            raise BadRequestError(f"The body is {_kind(body)}; expected {what}")
        if known is not None and (unknown := [key for key in body if key not in known]):
            raise BadRequestError(f'Unknown field "{unknown[0]}" in the body; known fields are {", ".join(known)}')
        return body

    def json_list(self, what: str) -> list[Any]:
        """The body as a JSON array, numbers as texts. Errors: BadRequestError."""
        body = self._json(what, texts=True)
        if not isinstance(body, list):
            raise BadRequestError(f"The body is {_kind(body)}; expected {what}")
        return body

    def _json(self, what: str, *, texts: bool) -> Any:  # any JSON value
        if not self.body.strip():
            raise BadRequestError(f"The request has no body; expected {what}")
        number = str if texts else None
        try:
            return json.loads(self.body.decode(), parse_int=number, parse_float=number, parse_constant=_refuse_constant)
        except UnicodeDecodeError:
            raise BadRequestError("The body is not UTF-8 text") from None
        except json.JSONDecodeError as err:
            raise BadRequestError(f"The body is not JSON: {err.msg} at line {err.lineno}, column {err.colno}") from None
        except RecursionError:
            raise BadRequestError("The body is nested too deeply") from None
        except ValueError:
            raise BadRequestError("The body holds a number with too many digits") from None

    def location(self, name: str) -> str:
        """URL of a connector. Differs: `/` and `%` in its name are encoded, so that the URL works."""
        return f"{self.base_url}/connectors/{quote(name, safe=_UNENCODED)}"


# RFC 9110; a weak one is well formed, and never matches
_ENTITY_TAG = re.compile(r'(W/)?"[!#-~\x80-\xff]*"')
# What Jersey's UriBuilder leaves unescaped in a path segment, besides letters, digits and -._~
_UNENCODED = "!$&'()*+,;=:@"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and extra headers. `body` is rendered as JSON; `empty` means no body at all."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    empty: bool = False
    text: str | None = None
    """Replaces a JSON body: sent unchanged, with the endpoint's `media_type`."""


CHANGE_HEADER: Final = "x-kconnect-change"
"""On the answer to a forwarded request: the worker that gives it has the change in the cluster's history."""


def no_content() -> Answer:
    return Answer(status=204, empty=True)


def accepted() -> Answer:
    return Answer(status=202, empty=True)


def json_bytes(body: Any) -> bytes:
    """A body as JSON; numbers beyond 64 bits and halves of surrogate pairs, which callers may send, work too."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()


class AskAnotherError(WrongWorkerError):
    """Another worker must do it, by another request: one that Java's workers know. `call` is that request."""

    def __init__(self, error: WrongWorkerError, call: Call[object]) -> None:
        super().__init__(str(error), error.url, hint=error.hint)
        self.call = call


Handler: TypeAlias = Callable[[Call[Herder]], Answer]


@dataclass(frozen=True, slots=True)
class Wait:
    """What a request waits for before its handler runs: until `is_over`, at most `most_s`."""

    is_over: Callable[[], bool]
    """Asked several times a second on the server's loop: quick, never blocks."""
    most_s: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path with its handlers by method: `Endpoint("/connectors/{name}/status", {"GET": show_status})`."""

    path: str
    handlers: Mapping[str, Handler]
    deadline_s: float | None = None
    """It is None for the server's request timeout."""
    when_late: Handler | None = None
    """The answer after the deadline instead of the usual 500."""
    media_type: str = "application/json"
    """Names the media type of its good answers; errors are JSON."""
    awaits_start: bool = True
    """Whether a request waits for a starting worker; otherwise it can be answered at any time."""
    waits: Callable[[Call[Herder]], Wait | None] | None = None
    """What a request waits for, without a thread. Errors: BadRequestError."""


def _refuse_constant(text: str) -> None:
    raise BadRequestError(f"The body is not JSON: {text} is not a JSON value")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {list: "an array", dict: "an object", str: "a text", bool: "a boolean"}.get(type(value), "a number")
