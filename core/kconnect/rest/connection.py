"""One connection of a client, as uvicorn serves it, with the certificate that the client showed.

uvicorn says nothing of TLS to the application; here it gets the extension `tls` of ASGI, as far as it is needed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)


class Connection(H11Protocol):
    """uvicorn's own, with the subject of the client's certificate in the scope of each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        subject = _subject(transport.get_extra_info("ssl_object"))
        if subject is not None:
            self.app = _with_certificate(self.app, subject)


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
