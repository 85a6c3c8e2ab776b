"""One HTTP request and its answer, within a deadline whatever the other side does: the way out for every room.

Workers' REST API, schema registries, webhooks, tokens, HttpJsonSource, Maven repositories: all go through
`HttpExchange`, each with `Terms` of its own. Authors of connectors have it as `kconnect.api.http_client`.

On the standard library's http.client. Measured, as processor time over that of an empty program (median of 9):
http.client 0.037 s, urllib3 0.09 s, requests 0.15 s, httpx2 0.12 s. An admin command has 0.35 s in all, of which 0.2 s
are gone before its request: a library would be a third of it, and none of them has a deadline for the whole of an
exchange. So nothing here imports more at first sight; `ssl` and proxies are loaded where they are needed.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, InvalidURL
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urldefrag, urljoin, urlsplit, urlunsplit

from kconnect.client.http_failures import (
    Advice,
    BrokenOffError,
    NotConnectedError,
    RedirectError,
    bad_address,
    broken_off,
    idle,
    late,
    not_connected,
    too_large,
)
from kconnect.client.http_wire import (
    PORTS,
    Connection,
    Silence,
    Wire,
    is_led_inside,
    left_s,
    opened,
    proxy_login,
    proxy_of,
    tunnel,
)
from kconnect.client.trust import trusting
from kconnect.logs.wording import pluralize

if TYPE_CHECKING:
    import ssl

_PIECE: Final = 1 << 16
_BUSY: Final = frozenset({408, 425, 429})
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
# What another server than the one that was asked may see of a request: all else may be a secret
_HARMLESS: Final = frozenset({"accept", "user-agent", "if-none-match", "if-modified-since"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `path` begins with a slash and includes the query; without a base it is a whole URL."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they contain the password

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Response:
    """One answer, read to its end."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By names in lower case; those that came several times are joined with commas."""
    reason: str = ""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later: the server is busy, or something behind it is ill."""
        return self.status >= 500 or self.status in _BUSY

    @property
    def retry_after_s(self) -> float | None:
        """How long the server asks us to wait: a number, or a date; None if it does not say, or not in seconds."""
        text = self.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdecimal():
            return float(text)
        if not text:
            return None
        from email.utils import parsedate_to_datetime

        try:
            return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
        except ValueError:
            return None  # neither form: as if it were not there


def shown_url(url: str) -> str:
    """A URL for messages: without its user, and without its query, which may contain a key."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "..." if parts.query else "", ""))


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port, by which servers are distinguished."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How one caller talks to a server. Units: seconds, bytes."""

    timeout_s: float
    """For the request and its answer to the last byte, over all redirects."""
    connect_timeout_s: float | None = None
    """For the connection, with proxy and TLS, before that; None: it counts as part of `timeout_s`."""
    idle_s: float | None = None
    """How long the server may send nothing meanwhile; None: until the deadline."""
    most_bytes: int = 512 << 20
    """Limits an answer; more is an error."""
    cuts: bool = False
    """What is beyond `most_bytes` is left unread instead: for those who want the status only."""
    tls: Callable[[], ssl.SSLContext] = trusting
    """Called at the first https URL. Errors: its own, such as ConfigError."""
    certificate: str | None = None
    """File of our certificate, for messages."""
    redirects: int = 0
    """How many are followed, of GET; 0: a redirect is an answer. Only the server that was asked sees our headers."""
    leads_inside: bool = False
    """Whether a server of the internet may lead to an address of this network or machine by a redirect."""
    uses_proxies: bool = False
    """Whether HTTP_PROXY, HTTPS_PROXY and NO_PROXY count. Proxies are spoken to in plain HTTP."""
    shown: Callable[[str], str] = shown_url
    """What messages may say of a URL."""
    advice: Advice = field(default_factory=Advice)


class HttpExchange:
    """Sends requests, over connections that are kept open. Threads: one at a time; `abort` from any.

    `base`: what every path is appended to, in messages the address; without it each request has a whole URL.
    The system's look-up of a host name is the one wait that no deadline ends.
    """

    def __init__(self, terms: Terms, base: str = "") -> None:
        self._terms = terms
        self._base = base
        self._tls: ssl.SSLContext | None = None
        self._kept: dict[tuple[object, ...], Connection] = {}
        self._current: socket.socket | None = None  # where another thread finds what to abort
        self._is_aborted = False

    def another(self) -> HttpExchange:
        """One with the same server on the same terms, while this one waits."""
        return HttpExchange(self._terms, self._base)

    def send(
        self,
        request: Request,
        timeout_s: float | None = None,
        into: Callable[[bytes], object] | None = None,
        silence: Silence | None = None,
    ) -> Response:
        """One exchange; any status is an answer. `timeout_s` shortens the deadline of the terms.

        `into` gets the body of a success piece by piece; the answer's own is empty then.
        Errors: HttpFailure, whose classes are in http_failures.py; those of `tls`, `into` and `silence`.
        """
        limit_s = self._terms.timeout_s if timeout_s is None else min(timeout_s, self._terms.timeout_s)
        url = urldefrag(self._base + request.path).url
        where, shown = self._base or self._terms.shown(url), str(request) if self._base else ""
        turn = _Turn(where, shown, limit_s, self._terms, silence)
        for _ in range(self._terms.redirects + 1):
            response = self._once(turn, url, request, into)
            target = response.headers.get("location")
            if not self._terms.redirects or request.method != "GET" or response.status not in _MOVED or not target:
                return response
            moved = urldefrag(urljoin(url, target)).url
            if origin(moved) != origin(url):
                kept = {name: value for name, value in request.headers.items() if name.lower() in _HARMLESS}
                request = replace(request, headers=kept)
            turn.led_by = turn.led_by or turn.peer
            url = moved
            turn.where = self._terms.shown(url)
        said = f"leads elsewhere more than {pluralize(self._terms.redirects, 'time')}"
        raise RedirectError(f"{turn.where} {said}", f"it {said}", hint=self._terms.advice.url)

    def close(self) -> None:
        """Let the connections go; requests open others. Idempotent."""
        while self._kept:
            self._kept.popitem()[1].sock.close()

    def abort(self) -> None:
        """Make a `send` of another thread fail, as soon as it is connected, and all later ones."""
        self._is_aborted = True
        sock = self._current
        if sock is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                sock.shutdown(socket.SHUT_RDWR)

    def _once(self, turn: _Turn, url: str, request: Request, into: Callable[[bytes], object] | None) -> Response:
        parts = urlsplit(url)
        try:
            is_url = parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
        except ValueError:  # the port is not a number
            is_url = False
        if not is_url:
            raise bad_address(turn.where, self._terms.advice)
        proxy = proxy_of(parts) if self._terms.uses_proxies else None
        key = (*origin(url), proxy)
        connection = self._kept.pop(key, None)
        if connection is not None and connection.is_stale():
            connection.sock.close()
            connection = None
        connection = connection or self._connected(turn, parts, proxy)
        if not self._terms.leads_inside and is_led_inside(turn.led_by, connection.peer):
            connection.sock.close()
            said = f"leads to {self._terms.shown(url)}, an address of this network"
            raise RedirectError(f"{turn.first} {said}", f"it {said}", hint=self._terms.advice.url)
        turn.peer = connection.peer
        self._current = connection.sock
        is_reusable = False
        try:
            if self._is_aborted:
                raise NotConnectedError(f"The request to {turn.where} was not sent: its client was aborted")
            response, is_reusable = self._exchanged(turn, connection, parts, proxy, request, into)
        finally:
            self._current = None
            if is_reusable:
                self._kept[key] = connection
            else:
                connection.sock.close()
        return response

    def _exchanged(
        self,
        turn: _Turn,
        connection: Connection,
        parts: SplitResult,
        proxy: str | None,
        request: Request,
        into: Callable[[bytes], object] | None,
    ) -> tuple[Response, bool]:
        """The answer, and whether the connection may be used again."""
        advice, said = self._terms.advice, Wire(connection.sock, turn.deadline(), self._terms.idle_s, turn.silence)
        try:
            _send(said, parts, proxy, request)
            # Closed here: what the collector closes behind its stream writes an error of flush() to the terminal
            with contextlib.closing(HTTPResponse(said, method=request.method)) as answer:  # type: ignore[arg-type]  # all it asks of a socket
                answer.begin()
                if said.has_ended:  # which http.client takes for the end of the headers
                    raise HTTPException("the connection was closed in the midst of the answer's head")
                taken = into if into is not None and answer.status < 300 else None
                body, is_whole = _body(answer, self._terms, taken)
        except _TooManyBytesError as err:
            raise too_large(turn.where, self._terms.most_bytes, advice) from err
        except _UnsendableError as err:
            raise bad_address(turn.where, advice) from err
        except _NotTakenError as err:
            raise err.error from None
        except TimeoutError as err:
            if self._terms.idle_s is not None and turn.deadline() > time.monotonic():
                raise idle(turn.where, self._terms.idle_s, advice) from err
            raise late(turn.where, turn.request, turn.timeout_s, advice, began=said.has_begun) from err
        except (OSError, HTTPException) as err:
            if self._is_aborted:
                raise BrokenOffError(f"The request to {turn.where} was aborted", "it was aborted") from err
            cert, first = self._terms.certificate, not connection.has_answered
            raise broken_off(turn.where, turn.request, err, advice, cert, first=first) from err
        connection.has_answered = True
        headers: dict[str, str] = {}
        for name, value in answer.getheaders():
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        return Response(answer.status, body, headers, answer.reason), is_whole and not answer.will_close

    def _connected(self, turn: _Turn, parts: SplitResult, proxy: str | None) -> Connection:
        is_tls = parts.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = self._terms.tls()
        deadline = turn.connect_deadline()
        sock: socket.socket | None = None
        try:
            to = urlsplit(proxy) if proxy else parts
            if to.scheme not in PORTS:
                raise OSError(f"the proxy speaks {to.scheme}, which is not built in")
            sock = opened(to.hostname or "", to.port or PORTS[to.scheme], deadline)
            self._current = sock
            peer = str(sock.getpeername()[0])
            if is_tls:
                if proxy:
                    tunnel(Wire(sock, deadline, None), parts, to)
                assert self._tls is not None
                sock.settimeout(left_s(deadline))
                sock = self._current = self._tls.wrap_socket(sock, server_hostname=parts.hostname)
        except (OSError, HTTPException, ValueError) as err:  # ValueError: no host name, or no port
            if sock is not None:
                sock.close()
            refused = OSError(f"the proxy: {err}") if isinstance(err, HTTPException) else err
            raise not_connected(turn.where, refused, turn.connect_timeout_s, self._terms.advice) from err
        turn.begin()
        return Connection(sock, None if proxy else peer)


class _Turn:
    """One call of `send`: where to, for messages, and until when."""

    def __init__(
        self, where: str, request: str, timeout_s: float, terms: Terms, silence: Silence | None = None
    ) -> None:
        self.where = self.first = where
        self.request = request
        self.peer: str | None = None
        self.led_by: str | None = None  # the address of the first server that led elsewhere
        self.silence = silence
        self.timeout_s = timeout_s
        connect_s = terms.connect_timeout_s
        self._connect_timeout_s = None if connect_s is None else min(connect_s, timeout_s)
        self._deadline = time.monotonic() + timeout_s
        self._has_begun = False

    def deadline(self) -> float:
        return self._deadline

    @property
    def connect_timeout_s(self) -> float:
        """How long connecting may take."""
        return self.timeout_s if self._connect_timeout_s is None else self._connect_timeout_s

    def connect_deadline(self) -> float:
        return self._deadline if self._connect_timeout_s is None else time.monotonic() + self._connect_timeout_s

    def begin(self) -> None:
        """The first connection is there: where connecting has its own time, that of the answer begins."""
        if self._connect_timeout_s is not None and not self._has_begun:
            self._deadline = time.monotonic() + self.timeout_s
        self._has_begun = True


class _TooManyBytesError(Exception):
    """The answer has more than are allowed."""


class _UnsendableError(Exception):
    """http.client refuses a sign of the URL or of a header."""


class _NotTakenError(Exception):
    """`into` failed, with this error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _send(wire: Wire, parts: SplitResult, proxy: str | None, request: Request) -> None:
    headers = {"User-Agent": "kconnect"}
    given = {name.lower() for name in request.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in given} | dict(request.headers)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if proxy and parts.scheme == "http":
        target = f"http://{parts.netloc.rpartition('@')[2]}{target}"
        headers |= proxy_login(urlsplit(proxy))
    connection = HTTPConnection(parts.hostname or "", parts.port or PORTS[parts.scheme])
    connection.default_port = PORTS[parts.scheme]  # with which the header Host goes without a port
    connection.sock = wire
    try:
        connection.request(request.method, target, request.body, headers)
    except (ValueError, InvalidURL) as err:
        raise _UnsendableError from err


def _body(answer: HTTPResponse, terms: Terms, into: Callable[[bytes], object] | None) -> tuple[bytes, bool]:
    """The body, and whether it was read to its end. Errors: those above; HTTPException where it ends early."""
    if (answer.length or 0) > terms.most_bytes and not terms.cuts:
        raise _TooManyBytesError
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read1(_PIECE):
        size += len(piece)
        if size > terms.most_bytes:
            if terms.cuts:
                return b"".join(pieces), False
            raise _TooManyBytesError
        if into is None:
            pieces.append(piece)
            continue
        try:
            into(piece)
        except Exception as err:  # such as a full disk, which is no failure of the connection
            raise _NotTakenError(err) from err
    if answer.length:  # announced by Content-Length but not received
        raise HTTPException(f"the connection was closed, {pluralize(answer.length, 'byte')} before the end")
    return b"".join(pieces), True
