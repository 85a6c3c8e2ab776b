"""Carries requests to whichever of a cluster's workers answers: one after the other, that of the last answer first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kconnect.client.failures import nobody_of
from kconnect.client.http_exchange import HttpExchange, Request, Response
from kconnect.client.http_failures import BrokenOffError, NotConnectedError
from kconnect.errors import ConnectError, TimedOutError

# Asking twice changes nothing. A POST or PATCH may have been carried out by a worker that broke it off
_IDEMPOTENT: Final = frozenset({"GET", "PUT"})
# How long a read waits for one worker while there are others: a frozen one accepts connections and never answers
_PATIENCE_S: Final = 10.0
_UNAVAILABLE: Final = 503
# It describes the worker itself: its 503 is the answer
_HEALTH: Final = "/health"


class FailoverTransport:
    """Implements `Transport` over several workers of one cluster. Threads: one at a time.

    A worker that refuses the connection is skipped for every request; one that breaks the connection, does not answer
    in time or answers 503 is skipped only for requests that may be sent twice.
    """

    def __init__(self, transports: Mapping[str, HttpExchange], read_s: float | None = None) -> None:
        """`transports`: by URL, in the order in which they are tried. `read_s`: how long a read waits for each."""
        self._transports = dict(transports)
        self._read_s = read_s
        self._order = list(transports)

    @property
    def url(self) -> str:
        """The worker that answered last, or the first one."""
        return self._order[0]

    def send(self, request: Request) -> Response:
        """One exchange with the first worker that answers.

        Errors: as HttpExchange for requests that must not be sent again; UnreachableError with all URLs and reasons.
        """
        failures: list[tuple[str, ConnectError]] = []
        unavailable: Response | None = None
        for url in list(self._order):
            is_last = len(failures) + 1 == len(self._order)
            patience_s = self._patience_s(request, is_last=is_last)
            try:
                response = self._transports[url].send(request, patience_s)
            except NotConnectedError as err:
                failures.append((url, err))
            except (BrokenOffError, TimedOutError) as err:
                if request.method not in _IDEMPOTENT:
                    raise
                failures.append((url, err))
            else:
                if response.status != _UNAVAILABLE or not _may_ask_another(request):
                    self._order = [url, *(other for other in self._order if other != url)]
                    return response
                unavailable = unavailable or response
                failures.append((url, ConnectError(f"{url} answers 503, it is not available")))
        if unavailable is not None:
            return unavailable
        raise _error_of(failures)

    def _patience_s(self, request: Request, *, is_last: bool) -> float | None:
        """None: as the worker's own transport."""
        if request.method != "GET":
            return None
        return self._read_s or (None if is_last else _PATIENCE_S)

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()


def _may_ask_another(request: Request) -> bool:
    return request.method in _IDEMPOTENT and not request.path.startswith(_HEALTH)


def _error_of(failures: Sequence[tuple[str, ConnectError]]) -> ConnectError:
    """The last worker's error if it means that the request may be executed, else one that names all workers."""
    if len(failures) == 1:
        return failures[0][1]
    for _, error in failures:
        if isinstance(error, TimedOutError):
            return TimedOutError(str(nobody_of([error for _, error in failures])), hint=error.hint)
    return nobody_of([error for _, error in failures])
