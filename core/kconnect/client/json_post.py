"""Posts one JSON document to any URL, within a deadline whatever the other side does: for webhooks.

On http.client, as everything here: a post needs no redirects (they are failures), cookies or proxies.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import threading
from collections.abc import Mapping
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from kconnect.errors import ConfigError, TimedOutError, UnreachableError

# What the target answers is not used; a connection is not kept for it
_MOST_READ = 4096


class JsonPost:
    """One target. Threads: `send` from one at a time; `abort` from any."""

    def __init__(self, url: str, *, connect_timeout_s: float, timeout_s: float) -> None:
        """Errors: ConfigError for what is no URL of http or https."""
        self._parts = urlsplit(checked_target(url))
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._connection: HTTPConnection | None = None

    def send(self, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer. Errors: UnreachableError, TimedOutError, which name the host and nothing secret.

        `timeout_s` covers all of it: a target that sends a byte now and then is cut off too.
        """
        connection = self._connection = self._new_connection()
        is_late = threading.Event()
        cut = threading.Timer(self._connect_timeout_s + self._timeout_s, self._cut_off, (is_late,))
        cut.daemon = True
        cut.start()
        try:
            connection.connect()
            connection.sock.settimeout(self._timeout_s)
            path = f"{self._parts.path or '/'}{f'?{self._parts.query}' if self._parts.query else ''}"
            connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            answer.read(_MOST_READ)
            if is_late.is_set():
                raise HTTPException("cut off")  # in the middle, which http.client takes for the end of the headers
            return answer.status
        except TimeoutError as err:
            raise TimedOutError(f"{self.host} did not answer within {self._timeout_s:g} s") from err
        except (OSError, HTTPException, UnicodeError) as err:
            if is_late.is_set():
                raise TimedOutError(f"{self.host} did not end its answer within {self._timeout_s:g} s") from err
            raise UnreachableError(f"{self.host} cannot be reached: {err or type(err).__name__}") from err
        finally:
            cut.cancel()
            connection.close()
            self._connection = None

    def _cut_off(self, is_late: threading.Event) -> None:
        is_late.set()  # before the socket ends, so that whoever sees the end knows why
        self.abort()

    def abort(self) -> None:
        """Make a `send` on another thread fail at once."""
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                sock.shutdown(socket.SHUT_RDWR)

    @property
    def host(self) -> str:
        """Scheme, host and port: the path of a webhook is often its secret."""
        return shown_target(self._parts.geturl())

    def _new_connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return HTTPConnection(host, port or HTTP_PORT, timeout=self._connect_timeout_s)
        return HTTPSConnection(host, port or HTTPS_PORT, timeout=self._connect_timeout_s)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """`sha256=` and the HMAC-SHA256 of the time, a full stop and the body: an old one cannot be sent again later."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def checked_target(url: str) -> str:
    """The URL. Errors: ConfigError, without what may be secret in it."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError("The URL of a webhook must begin with http:// or https:// and a host")
    if parts.username is not None:
        raise ConfigError("The URL of a webhook has a user in it", hint="Sign the requests with a secret instead.")
    return url


def shown_target(url: str) -> str:
    """A target for people: scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
