"""One connection of a client, as uvicorn serves it: the certificate that it showed, and how long it may take.

uvicorn says nothing of TLS to the application; here it gets the extension `tls` of ASGI, as far as it is needed. It
also waits endlessly for the end of a request; here a client that is slow, on purpose or not, is sent away.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import h11
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kconnect.logs.wording import pluralize
from kconnect.runtime.rest.problems import error_body

log = logging.getLogger(__name__)

_TOO_SLOW: Final = (408, b"Request Timeout", b"The request did not arrive in time")
_TOO_MANY: Final = (503, b"Service Unavailable", b"The worker has too many connections")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a client may use of a worker's sockets. Differs: Java's Jetty waits 30 s for the next byte, not for all."""

    max_connections: int = 1000
    request_read_s: float = 30.0
    idle_s: float = 5.0
    """Between two requests."""
    max_header_bytes: int = 65_536
    """Limits a request's first line and headers."""


def connection_class(limits: ConnectionLimits) -> type[Connection]:
    """What uvicorn makes one of for each connection."""

    class Limited(Connection):
        limits_of = limits

    return Limited


class Connection(H11Protocol):
    """uvicorn's own, with the subject of the client's certificate in the scope of each request, and with deadlines."""

    limits_of: ClassVar[ConnectionLimits] = ConnectionLimits()

    def __init__(self, *args: Any, **more: Any) -> None:  # as uvicorn calls it
        super().__init__(*args, **more)
        self._slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if len(self.connections) > self.limits_of.max_connections:
            log.warning(
                "More than %s (kconnect.rest.max.connections)", pluralize(self.limits_of.max_connections, "connection")
            )
            self._send_away(_TOO_MANY)
            return
        self._expect_request()
        self.app = _with_short_headers(self.app, self.limits_of.max_header_bytes)
        subject = _subject(transport.get_extra_info("ssl_object"))
        if subject is not None:
            self.app = _with_certificate(self.app, subject)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._expect_request()
        super().data_received(data)
        state = self.conn.their_state
        if state is not h11.SEND_BODY and (state is not h11.IDLE or not self.conn.trailing_data[0]):
            self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        """All of a request must be there in time, from its first byte on, or from the connection's beginning."""
        if self._slow is None:
            self._slow = self.loop.call_later(self.limits_of.request_read_s, self._send_away, _TOO_SLOW)

    def _expect_nothing(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _send_away(self, why: tuple[int, bytes, bytes]) -> None:
        self._expect_nothing()
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status, reason, text = why
            head = b"HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, reason, len(text)) + text)
        self.transport.close()


def _with_short_headers(app: ASGIApp, most_bytes: int) -> ASGIApp:
    """h11 only limits what it has to wait for: what arrives at once may be longer."""

    async def measured(scope: Scope, receive: Receive, send: Send) -> None:
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size <= most_bytes:
            await app(scope, receive, send)
            return
        message = f"URL and headers are larger than {most_bytes} bytes (setting kconnect.rest.max.header.bytes)"
        await Response(error_body(431, message), 431, media_type="application/json")(scope, receive, send)

    return measured


def _subject(tls: ssl.SSLObject | None) -> str | None:
    """The distinguished name in a certificate that TLS has verified, the most specific part first (RFC 4514)."""
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    if not certificate:
        return None
    from cryptography.x509 import load_der_x509_certificate

    try:
        return load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError as err:
        log.warning("The subject of a client's certificate cannot be read, so its sender is nobody: %s", err)
        return None


def _with_certificate(app: ASGIApp, subject: str) -> ASGIApp:
    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        extensions = {**scope.get("extensions", {}), "tls": {"client_cert_name": subject}}
        await app({**scope, "extensions": extensions}, receive, send)

    return named
