"""Requests to a worker: the URLs that may be one's, and the terms of an exchange with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from kconnect.client.http_exchange import HttpExchange, Request, Response, Terms
from kconnect.client.http_failures import Advice
from kconnect.errors import BadRequestError

if TYPE_CHECKING:
    import ssl

_URL_HINT: Final = "It looks like http://localhost:8083."
ADVICE: Final = Advice(
    nobody="Is the worker running? `connect standalone` starts one; --url or KCONNECT_URL names another.",
    late="The worker may still carry it out: look at its state and its log before you try again.",
    broken="Is it a Kafka Connect worker that speaks http there, and does it still run?",
    url=_URL_HINT,
    trust="Name the authority that signed it: --ca FILE, KCONNECT_CA_FILE, or ca of the context.",
    expired="The worker needs another one (ssl.keystore.location of its settings), or a clock is wrong.",
    own_certificate="It has to be signed by an authority that the worker trusts, and still valid: "
    "--cert and --key, KCONNECT_CERT_FILE and KCONNECT_KEY_FILE, or those of the context.",
    closing_is_refusal=True,
    plain="Is it http there? See `listeners` of the worker.",
)
"""What to do about a worker that cannot be asked."""


class Transport(Protocol):
    """Carries requests. Threads: used by one at a time."""

    def send(self, request: Request) -> Response:
        """Errors: UnreachableError, TimedOutError; any status is an answer."""
        ...

    def close(self) -> None:
        """Close connections; the transport may be used again."""
        ...


def worker_exchange(
    url: str,
    tls: Callable[[], ssl.SSLContext],
    *,
    timeout_s: float,
    connect_timeout_s: float,
    certificate: str | None = None,
) -> HttpExchange:
    """Exchanges with the worker at a checked URL. `certificate`: the file of ours, for messages."""
    terms = Terms(
        timeout_s=timeout_s, connect_timeout_s=connect_timeout_s, tls=tls, certificate=certificate, advice=ADVICE
    )
    return HttpExchange(terms, url)


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
        raise BadRequestError(f"{url} is not the URL of a worker", hint=_URL_HINT)
    return full.rstrip("/")
