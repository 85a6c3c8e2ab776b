"""One request to a worker and its result: conflicts are retried, the answer is parsed, an error reported as a
sentence.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from kconnect.client.http_exchange import Request, Response
from kconnect.client.outage import NO_ANSWER, NOTHING_CHANGED, OUTAGE_HEADER, Outage
from kconnect.client.transport import ADVICE, Transport
from kconnect.clock import Backoff, Pauses
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    ForbiddenError,
    NoRouteError,
    NotFoundError,
    PreconditionFailedError,
    RetriableError,
    TimedOutError,
    UnreachableError,
)

if TYPE_CHECKING:
    from kconnect.client.access import ClientAccess
    from kconnect.clock import Clock

T = TypeVar("T")

_PAUSES = Backoff(first_s=0.1, most_s=2.0)
AWAY_HINT: Final = "Try again when the worker is well: connect status shows it."
"""What to do while a worker has no Kafka, or is frozen."""
_LOGIN_HINT = (
    "A user it knows and the password: --user and KCONNECT_PASSWORD, or connect contexts add NAME --user USER .."
)


class Exchange:
    """Sends requests to a worker. Threads: one at a time. Errors: those of ConnectClient."""

    def __init__(
        self,
        url_of: Callable[[], str],
        access: ClientAccess,
        transport: Transport,
        *,
        retry_conflicts_s: float,
        clock: Clock,
    ) -> None:
        """`url_of`: the worker that answered last, for messages."""
        self._url_of = url_of
        self._access = access
        self._transport = transport
        self._retry_conflicts_s = retry_conflicts_s
        self._clock = clock
        self.outage: Outage | None = None
        """Kafka is unreachable, according to the last answer; None if not, and always None from Java's workers."""

    def read(
        self, method: str, path: str, parse: Callable[[Any], T], body: object = None, if_match: str | None = None
    ) -> T:
        """The answer's JSON, parsed by `parse`. Its TypeError and the like mean: not Connect's."""
        request, response = self._sent(method, path, body, if_match=if_match)
        return self._parsed(request, response, parse)

    def read_tagged(self, path: str, parse: Callable[[Any], T]) -> tuple[T, str | None]:
        """Works as `read` of a GET, with the answer's ETag; None if the worker gives none, as Java's."""
        request, response = self._sent("GET", path, None)
        return self._parsed(request, response, parse), response.headers.get("etag")

    def read_text(self, path: str, media_type: str) -> str:
        """The answer as it is; the worker's refusals are JSON all the same."""
        headers = {"accept": f"{media_type}, application/json", **self._access.headers()}
        _, response = self._exchanged(Request("GET", path, None, headers))
        return response.body.decode("utf-8", "replace")

    def do(self, method: str, path: str, if_match: str | None = None) -> None:
        """A request whose answer only confirms it."""
        request, response = self._sent(method, path, None, if_match=if_match)
        if response.body.strip():  # Connect confirms without a word; a page of something else confirms nothing
            raise _foreign(self._url_of(), str(request), response)

    def read_if_any(self, method: str, path: str, parse: Callable[[Any], T], body: object = None) -> T | None:
        """Works as `read`; None for an answer without content."""
        request, response = self._sent(method, path, body)
        return None if response.status == 204 else self._parsed(request, response, parse)

    def read_at(self, statuses: tuple[int, ...], method: str, path: str, parse: Callable[[Any], T]) -> T:
        """Works as `read`, where these statuses are no errors."""
        request, response = self._sent(method, path, None, good=statuses)
        return self._parsed(request, response, parse)

    def close(self) -> None:
        self._transport.close()

    def _sent(
        self, method: str, path: str, body: object, good: tuple[int, ...] = (), if_match: str | None = None
    ) -> tuple[Request, Response]:
        """One request, retried while a temporary conflict lasts and there is time. Errors: any but a success."""
        return self._exchanged(self._request(method, path, body, if_match), good)

    def _exchanged(self, request: Request, good: tuple[int, ...] = ()) -> tuple[Request, Response]:
        deadline = self._clock.monotonic() + self._retry_conflicts_s
        pauses = Pauses(_PAUSES)
        while True:
            response = self._transport.send(request)
            wait_s = _retry_after_s(response)
            if wait_s is None and not _is_passing_conflict(response):
                break
            pause_s = pauses.next_s()
            if self._clock.monotonic() + (wait_s or pause_s) > deadline:
                break
            self._clock.wait(threading.Event(), wait_s or pause_s)
        self.outage = Outage.from_headers(response.headers)
        if response.status >= 300 and response.status not in good:
            raise refusal(self._url_of(), self._access.user, str(request), response)
        return request, response

    def _request(self, method: str, path: str, body: object, if_match: str | None = None) -> Request:
        headers = {"accept": "application/json", **self._access.headers()}
        if if_match is not None:
            headers["if-match"] = if_match
        if body is None:
            return Request(method, path, None, headers)
        headers["content-type"] = "application/json"
        return Request(method, path, json.dumps(body, ensure_ascii=False, allow_nan=False).encode(), headers)

    def _parsed(self, request: Request, response: Response, parse: Callable[[Any], T]) -> T:
        try:
            return parse(json.loads(response.body))
        except (KeyError, TypeError, ValueError, AttributeError, BadRequestError) as err:
            raise _foreign(self._url_of(), str(request), response) from err


def segment(name: str) -> str:
    """A name as one segment of a path, also one of dots, which would mean a folder, or with slashes."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def refusal(url: str, user: str | None, request: str, response: Response) -> ConnectError:
    """The error for a status of 300 and above, with the worker's own message if it is Connect's."""
    status, message = response.status, message_of(response)
    if status == 401 or (status == 403 and message is None):
        who = f"user {user}" if user else "a caller without a user"
        return ConnectError(f"{url} refuses {who} ({status})", hint=_LOGIN_HINT)
    if message is None:
        return _foreign(url, request, response)
    if status == 409:
        return AlreadyExistsError(message) if _is_taken(message) else ConflictError(message)
    if status == 429:
        return RetriableError(message, retry_after_s=_retry_after_s(response))
    if status == 412:
        return PreconditionFailedError(message, etag=response.headers.get("etag"))
    if status == 500 and (message.startswith("Request timed out") or NO_ANSWER in message):
        is_harmless = request.startswith("GET ") or NOTHING_CHANGED in message
        return TimedOutError(message, hint=AWAY_HINT if is_harmless else ADVICE.late)
    if status >= 500 and OUTAGE_HEADER in response.headers:
        return UnreachableError(message, hint=AWAY_HINT)
    if (status, message) in ((404, NO_ROUTE), (405, _NO_METHOD)):
        return NoRouteError(f"{url} serves nothing at {request}: {message}", hint=_no_route_hint(request))
    return _KIND_OF.get(status, ConnectError)(message)


def _foreign(url: str, request: str, response: Response) -> ConnectError:
    """An answer that is not Connect's."""
    if response.status in _GATEWAY:
        return UnreachableError(
            f"{url} answered {request} with {response.status}, as a proxy does whose worker does not answer",
            hint="Look whether the worker runs, and ask it without the proxy: --url.",
        )
    if response.status == 429:
        wait_s = _retry_after_s(response)
        return RetriableError(f"{url} refused {request} (429): try again in {wait_s:g} s", retry_after_s=wait_s)
    if response.status < 400 and (target := response.headers.get("location")):
        shown = target.partition("?")[0].partition("#")[0]  # what follows may be a token
        return ConnectError(
            f"{url} answered {request} with {response.status}, a redirect to {shown}, which is not followed",
            hint="Give the URL of the worker itself: --url.",
        )
    return ConnectError(
        f"{url} answered {request} with {response.status} and something that Kafka Connect does not say",
        hint="Is that the URL of a Kafka Connect worker?",
    )


def _is_passing_conflict(response: Response) -> bool:
    """Whether it is a 409 that the end of a rebalance clears; a taken name remains taken."""
    return response.status == 409 and not _is_taken(message_of(response))


def _retry_after_s(response: Response) -> float | None:
    """How long a worker asks us to wait that we asked too often (429); None for any other answer."""
    return None if response.status != 429 else response.retry_after_s or 1.0


_GATEWAY: Final = (502, 503, 504)
NO_ROUTE: Final = "HTTP 404 Not Found"
"""What Jersey says of a path that nothing serves, and our workers too."""
_NO_METHOD: Final = "HTTP 405 Method Not Allowed"
_NO_ROUTE_HINT: Final = (
    "Java's workers and older ones lack some paths. Does the URL of the worker have a path too many?"
)
_SINCE: Final = (
    (r"(GET|PUT) /admin/loggers(/.*)?", "2.4 (KIP-495)"),
    (r"(GET|PUT) /connectors/[^/]+/topics(/reset)?", "2.5 (KIP-558)"),
    (r"GET /connector-plugins/[^/]+/config", "3.2 (KIP-769)"),
    (r"(GET /connectors/[^/]+/offsets|PUT /connectors/[^/]+/stop)", "3.5 (KIP-875)"),
    (r"(PATCH|DELETE) /connectors/[^/]+/offsets", "3.6 (KIP-875)"),
    (r"PATCH /connectors/[^/]+/config", "3.8 (KIP-477)"),
)
"""The release of Kafka Connect that brought a route: an older worker lacks it."""
_KIND_OF: dict[int, type[ConnectError]] = {
    400: BadRequestError,
    403: ForbiddenError,
    404: NotFoundError,
    413: BadRequestError,
    415: BadRequestError,
}


def _no_route_hint(request: str) -> str:
    route = request.partition("?")[0]
    for pattern, since in _SINCE:
        if re.fullmatch(pattern, route):
            return f"Kafka Connect has it since {since}. An older worker lacks it, as do other paths and listeners."
    return _NO_ROUTE_HINT


def message_of(response: Response) -> str | None:
    """The `message` of an error body, or None if it is not an error body of Connect."""
    try:
        body = json.loads(response.body)
    except ValueError:
        return None
    if not isinstance(body, dict) or "error_code" not in body:
        return None
    return str(body.get("message"))


def _is_taken(message: str | None) -> bool:
    return message is not None and message.endswith("already exists")
