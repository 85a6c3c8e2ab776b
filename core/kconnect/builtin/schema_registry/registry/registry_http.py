"""Requests to a schema registry: http.client, several addresses, a deadline for each answer as a whole."""

from __future__ import annotations

import io
import json
import socket
import ssl
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from kconnect.api import DataError, RetriableError
from kconnect.builtin.schema_registry.registry.registry_settings import RegistrySettings

T = TypeVar("T")

_JSON: Final = "application/vnd.schemaregistry.v1+json"
_MOST_BYTES: Final = 64 * 1024 * 1024
_PIECE: Final = 64 * 1024


class RegistryRefusal(DataError):
    """The registry answered that it will not: an error of this request, which asking again does not change."""

    def __init__(self, message: str, status: int, code: int, said: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.said = said


class UnexpectedAnswerError(ValueError):
    """JSON that is no answer to what was asked, as of a gateway. Its text says what it is: "an answer without id"."""


class RegistryTransport(Protocol):
    """Carries one request; RegistryHttp is one, tests have another."""

    def ask(self, method: str, path: str, body: Any, purpose: str, read: Callable[[Any], T]) -> T:
        """What `read` makes of the answer's JSON. `purpose` is what was asked for: "the schema with id 7".

        Errors: RegistryRefusal (4xx); RetriableError (no answer, 5xx, no JSON, `read` raises UnexpectedAnswerError).
        """
        ...


class RegistryHttp:
    """The network. A new connection for each request: answers are cached, so there are few. Threads: one at a time."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Errors: ConfigError for key and trust stores that cannot be used."""
        self._settings = settings
        self._tls = settings.context() if any(url.startswith("https:") for url in settings.urls) else None
        self._first = 0  # the address that answered last

    def ask(self, method: str, path: str, body: Any, purpose: str, read: Callable[[Any], T]) -> T:
        problem: RetriableError | None = None
        count = len(self._settings.urls)
        for step in range(count):
            index = (self._first + step) % count
            try:
                found = self._ask_one(index, method, path, body, purpose, read)
            except RetriableError as error:
                problem = error
            else:
                self._first = index
                return found
        assert problem is not None
        raise problem

    def _ask_one(self, index: int, method: str, path: str, body: Any, purpose: str, read: Callable[[Any], T]) -> T:
        url = self._settings.urls[index]
        where = f"{method} {url}{path}"
        try:
            status, content = self._exchange(index, method, path, body)
        except TimeoutError as error:
            raise _retriable(url, where, purpose, "it does not answer in time") from error
        except ssl.SSLError as error:
            raise _retriable(url, where, purpose, f"TLS failed: {_why(error)}", hint=_TLS_HINT) from error
        except (OSError, HTTPException, UnicodeError) as error:
            raise _retriable(url, where, purpose, _why(error)) from error
        if status >= 500 or status in (408, 429):
            raise _retriable(url, where, purpose, f"it answered {status}{_excerpt(content)}")
        if 300 <= status < 400:
            raise _retriable(url, where, purpose, f"it answered {status}, which leads elsewhere")
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            if status in (401, 403):
                raise _refused(url, where, purpose, status, {}) from error
            said = f"it answered {status} with something that is not JSON{_excerpt(content)}"
            raise _retriable(url, where, purpose, said) from error
        if status >= 400:
            raise _refused(url, where, purpose, status, answer if isinstance(answer, dict) else {})
        try:
            return read(answer)
        except UnexpectedAnswerError as error:
            raise _retriable(url, where, purpose, f"it answered {status} with {error}{_excerpt(content)}") from error

    def _exchange(self, index: int, method: str, path: str, body: Any) -> tuple[int, bytes]:
        parts = urlsplit(self._settings.urls[index])
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
        headers = {"Accept": f"{_JSON}, application/json", **self._settings.headers}
        authorization = self._settings.authorizations[index]
        if authorization is not None:
            headers["Authorization"] = authorization
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), _JSON
        try:
            connection.connect()
            deadline = time.monotonic() + self._settings.read_timeout_s
            connection.sock.settimeout(self._settings.read_timeout_s)
            connection.request(method, parts.path + path, data, headers)
            response = HTTPResponse(connection.sock, method=method)
            response.fp = io.BufferedReader(_Punctual(connection.sock, deadline))
            response.begin()
            return response.status, _whole(response)
        finally:
            connection.close()

    def _connection(self, scheme: str, host: str, port: int | None) -> HTTPConnection:
        timeout_s = self._settings.connect_timeout_s
        if scheme == "http":
            return HTTPConnection(host, port or 80, timeout=timeout_s)
        return HTTPSConnection(host, port or 443, timeout=timeout_s, context=self._tls)


class _Punctual(io.RawIOBase):
    """What a socket receives until the deadline; a registry that sends a byte now and then is late too."""

    def __init__(self, peer: socket.socket, deadline: float) -> None:
        self._peer = peer
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._peer.settimeout(left_s)
        return self._peer.recv_into(buffer)


def _whole(response: HTTPResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = response.read1(_PIECE)
        if not piece:
            if response.length:
                raise ConnectionError("its answer broke off")
            return b"".join(pieces)
        size += len(piece)
        if size > _MOST_BYTES:
            raise ConnectionError(f"its answer has more than {_MOST_BYTES >> 20} MiB")
        pieces.append(piece)


_HINT: Final = (
    "Is schema.registry.url right, with its path, and does the registry run? errors.retry.timeout says how long a task"
    " continues to ask."
)
_TLS_HINT: Final = (
    "Does schema.registry.ssl.truststore.location trust the registry's certificate, is it of this host, and does the"
    " registry want one of ours (schema.registry.ssl.keystore.location)?"
)


def _retriable(url: str, where: str, purpose: str, why: str, *, hint: str = _HINT) -> RetriableError:
    return RetriableError(f"The schema registry at {url} was asked for {purpose} ({where}): {why}", hint=hint)


def _refused(url: str, where: str, purpose: str, status: int, answer: dict[str, Any]) -> RegistryRefusal:
    said = str(answer.get("message", "")).strip()
    code = answer.get("error_code", status)
    hint = None
    if status in (401, 403):
        hint = "Check basic.auth.user.info or bearer.auth.token, and what this user may do."
    shown = f"{status} {said}" if said else str(status)
    return RegistryRefusal(
        f"The schema registry at {url} was asked for {purpose} ({where}) and refused: {shown}",
        status,
        code if isinstance(code, int) else status,
        said,
        hint=hint,
    )


def _excerpt(content: bytes) -> str:
    text = " ".join(content[:200].decode("utf-8", "replace").split())
    return f": {text[:120]}" if text else ""


def _why(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
