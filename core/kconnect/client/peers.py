"""Requests from one worker to another of its cluster: one connection each, with TLS by the worker's own settings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kconnect.client.http_exchange import HttpExchange, Request, Response
from kconnect.client.http_wire import Silence
from kconnect.client.transport import checked_url, worker_exchange
from kconnect.errors import BadRequestError, UnreachableError

if TYPE_CHECKING:
    import ssl

_ENDED = (
    "If it has ended, its group takes it out once its session is over (session.timeout.ms of the workers), and "
    "requests go to another worker."
)
_ADVERTISED = (
    "If it runs, others cannot reach it at this address, which it gives them itself: see its settings "
    "rest.advertised.host.name, rest.advertised.port and rest.advertised.listener."
)
DEADLINE = "(setting kconnect.request.timeout.ms)"
"""The deadline that another worker's answer missed."""

# As ConnectClient: one lost SYN (1 s) and its repetition
_CONNECT_TIMEOUT_S = 3.0


class Peers:
    """Sends requests to workers. Threads: any; `close` aborts requests in progress.

    `tls` is called at the first https URL, as in Java. `timeout_s`: how long an answer may take.
    """

    def __init__(self, tls: Callable[[], ssl.SSLContext], timeout_s: float) -> None:
        self._tls = tls
        self.timeout_s = timeout_s
        self._lock = threading.Lock()  # guards the fields below
        self._open: set[HttpExchange] = set()
        self._answered: set[str] = set()
        self._is_closed = False

    def send(
        self, url: str, request: Request, within_s: float | None = None, silence: Silence | None = None
    ) -> Response:
        """`within_s`: less than `timeout_s`. Any status is an answer.

        Errors: UnreachableError, TimedOutError, ConfigError for certificates; those of `silence`.
        """
        try:
            base = checked_url(url)
        except BadRequestError as err:
            raise UnreachableError(
                f"{url!r}, which another worker gives as its own, is not the URL of a worker"
            ) from err
        transport = worker_exchange(base, self._tls, timeout_s=self.timeout_s, connect_timeout_s=_CONNECT_TIMEOUT_S)
        with self._lock:
            if self._is_closed:
                raise UnreachableError(f"The worker is stopping; it sends no more requests to {url}")
            self._open.add(transport)
        try:
            response = transport.send(request, within_s, None, silence)
            with self._lock:
                self._answered.add(url)
            return response
        finally:
            with self._lock:
                self._open.discard(transport)
            transport.close()

    def advice(self, url: str) -> str:
        """What to do about a worker that cannot be reached at this URL, which is right if it has answered there."""
        with self._lock:
            return _ENDED if url in self._answered else f"{_ENDED} {_ADVERTISED}"

    def close(self) -> None:
        """Requests in progress fail soon, later ones at once. Idempotent."""
        with self._lock:
            self._is_closed = True
            under_way = list(self._open)
        for transport in under_way:
            transport.abort()
