"""Sends a request to a worker and returns its answer: http.client, over one connection that is kept open.

Measured: importing an HTTP library (httpx2 2.16 with httpcore2) takes 0.12 s of processor time and http.client 0.015 s,
of the 0.3 s in which an admin command has to answer. Connect's API asks for no more: no redirects, cookies or proxies.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from kconnect.client.failures import broken_off, late, not_connected
from kconnect.client.http_messages import Request, Response
from kconnect.errors import BadRequestError, UnreachableError

if TYPE_CHECKING:
    import ssl


class TlsAccess(Protocol):
    """The client's identity for https; implemented by ClientAccess."""

    @property
    def cert(self) -> str | None:
        """File of our certificate, for messages."""
        ...

    @property
    def tls(self) -> Callable[[], ssl.SSLContext]:
        """Creates the TLS context. Errors: ConfigError."""
        ...


class Transport(Protocol):
    """Carries requests. Threads: used by one at a time."""

    def send(self, request: Request) -> Response:
        """Errors: UnreachableError, TimedOutError; any status is an answer."""
        ...

    def close(self) -> None:
        """Close connections; the transport may be used again."""
        ...


class HttpTransport:
    """The network. It connects with the first request, and again if the worker has closed the connection."""

    def __init__(self, url: str, access: TlsAccess, *, timeout_s: float, connect_timeout_s: float) -> None:
        self._url = url
        self._parts = urlsplit(url)
        self._access = access
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._tls: ssl.SSLContext | None = None
        self._connection: HTTPConnection | None = None
        self._has_answered = False  # this connection has
        self._is_aborted = False

    def send(self, request: Request, timeout_s: float | None = None) -> Response:
        """One exchange, within `timeout_s` where it is not the transport's own.

        Errors: UnreachableError, TimedOutError, ConfigError for certificates of ours.
        """
        connection = self._connected()
        if self._is_aborted:
            raise UnreachableError(f"The request to {self._url} was not sent: its client was aborted")
        timeout_s = self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s)
        connection.sock.settimeout(timeout_s)
        whole = False
        try:
            connection.request(request.method, self._parts.path + request.path, request.body, dict(request.headers))
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            response = Response(answer.status, answer.read(), headers)
            whole = self._has_answered = True
        except TimeoutError as err:
            raise late(self._url, str(request), timeout_s) from err
        except (OSError, HTTPException) as err:
            raise broken_off(self._url, str(request), err, self._access.cert, first=not self._has_answered) from err
        finally:
            if not whole:  # the rest of this answer is not part of the next one
                self.close()
        return response

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def abort(self) -> None:
        """Abort another thread's wait in `send`: that one fails once it is connected, and so do all later ones."""
        self._is_aborted = True
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                sock.shutdown(socket.SHUT_RDWR)

    def _connected(self) -> HTTPConnection:
        if self._connection is not None and not _is_stale(self._connection):
            return self._connection
        self.close()
        try:
            connection = self._new_connection()
            connection.connect()
        except (OSError, HTTPException, UnicodeError) as err:
            raise not_connected(self._url, err, self._connect_timeout_s) from err
        self._connection, self._has_answered = connection, False
        return connection

    def _new_connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return HTTPConnection(host, port or HTTP_PORT, timeout=self._connect_timeout_s)
        if self._tls is None:
            self._tls = self._access.tls()
        return HTTPSConnection(host, port or HTTPS_PORT, timeout=self._connect_timeout_s, context=self._tls)


def checked_url(url: str) -> str:
    """The URL without a trailing slash; `host:port` alone means http.

    Errors: BadRequestError, also for a URL with a user, which belongs in ClientAccess.
    """
    full = url if "://" in url else f"http://{url}"
    if "@" in full:
        raise BadRequestError("The URL of a worker has a user in it", hint="Give the user separately from the URL.")
    try:
        parts = urlsplit(full)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise BadRequestError(f"{url} is not the URL of a worker", hint="It looks like http://localhost:8083.")
    return full.rstrip("/")


def _is_stale(connection: HTTPConnection) -> bool:
    """Whether the worker has closed it: between two answers there is nothing to read but the end."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
