"""Requests to the workers of a cluster: the terms of an exchange with one, and which of several is asked.

Workers are asked one after the other, the one that answered last first. Reads end in time even if none answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from kconnect.client.http_exchange import HttpExchange, Request, Response, Terms
from kconnect.client.http_failures import Advice, BrokenOffError, LateError, NotConnectedError, late
from kconnect.client.http_wire import Silence
from kconnect.client.outage import UNKNOWN_END
from kconnect.client.patience import Patience, Turn
from kconnect.errors import BadRequestError, ConnectError, TimedOutError, UnreachableError

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
READ_ADVICE: Final = replace(ADVICE, late="It may be frozen, or wait for Kafka: its log says more.")
"""The same for what is only read: nothing was changed."""
_UNKNOWN_ADVICE: Final = "It may be frozen, or wait for Kafka: look at the connector's state before you try again."

# Asking twice changes nothing. A POST or PATCH may have been carried out by a worker that broke it off
_IDEMPOTENT: Final = frozenset({"GET", "PUT"})
# How long a read waits for one worker while there are others: a frozen one accepts connections and never answers
_PATIENCE_S: Final = 10.0
_UNAVAILABLE: Final = 503
# It describes the worker itself: its 503 is the answer
_HEALTH: Final = "/health"
# Of the time for a question, for /health of a worker that has not answered it
_FOR_HEALTH: Final = 0.2
_LEAST_S: Final = 0.05
# Longer than any change of a quiet cluster: what takes more is reported
_SILENT_S: Final = 2.0
_Ask = Callable[[str, bool, bool], Response]


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
    # Paths of requests are appended to it
    valid = valid and not any(mark in "?#," or mark.isspace() for mark in full)
    if not url.strip():
        raise BadRequestError("The URL of a worker is empty", hint=_URL_HINT)
    if not valid:
        raise BadRequestError(f"{url} is not the URL of a worker", hint=_URL_HINT)
    return full.rstrip("/")


class FailoverTransport:
    """Implements `Transport` over several workers of one cluster. Threads: one at a time.

    A worker that refuses the connection is skipped for every request; one that breaks the connection, does not answer
    in time or answers 503 is skipped only for requests that may be sent twice.

    With `patience` a read ends in that time, except while its worker is starting; a change is only sent to a worker
    that answers, and may then take as long as the transport's own terms say, while the worker answers other questions.
    """

    def __init__(
        self,
        transports: Mapping[str, HttpExchange],
        patience: Patience | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """`transports`: by URL, in the order in which they are tried. `tell`: gets what a change is waiting for."""
        self._transports = dict(transports)
        self._patience = patience
        self._tell = tell
        self._order = list(transports)
        self._has_answered = False

    @property
    def url(self) -> str:
        """The worker that answered last, or the first one."""
        return self._order[0]

    def send(self, request: Request) -> Response:
        """One exchange with the first worker that answers.

        Errors: as HttpExchange for requests that must not be sent again; UnreachableError with all URLs and reasons.
        """
        if request.method == "GET":
            return self._read(request)
        if self._patience is not None and not self._has_answered:
            try:
                self._read(Request("GET", "/", None, request.headers))
            except ConnectError as err:
                err.hint = f"{request} was not sent. {err.hint or ''}".rstrip()
                raise
        with self._telling(request):
            if self._patience is None:
                return self._first_of(request, self._sent_within(request, lambda _is_last, _is_known: None))
            turn = self._patience.for_change()
            return self._first_of(request, lambda *worker: self._watched(request, turn, *worker))

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()

    def _read(self, request: Request) -> Response:
        patience = self._patience
        if patience is None:
            waits = self._sent_within(request, lambda is_last, _is_known: None if is_last else _PATIENCE_S)
            return self._first_of(request, waits)
        turn = patience.begins()
        kept = 0.0 if request.path.startswith(_HEALTH) else _FOR_HEALTH
        try:
            waits = self._sent_within(
                request,
                lambda is_last, is_known: max(turn.share_s(is_last=is_last, is_known=is_known, kept=kept), _LEAST_S),
            )
            return self._first_of(request, waits)
        except TimedOutError as err:
            if kept and self._is_starting(request, turn.share_s()):
                return self._first_of(request, self._sent_within(request, lambda _is_last, _is_known: None))
            patience.note_late()
            if len(self._transports) > 1:
                err.hint = READ_ADVICE.late
                raise
            setting = patience.setting if not turn.is_short else None
            limit_s = patience.limit_s if not turn.is_short else turn.deadline_s - turn.began_s
            raise late(self.url, str(request), limit_s, READ_ADVICE, setting=setting) from err

    def _sent_within(self, request: Request, wait_s: Callable[[bool, bool], float | None]) -> _Ask:
        """`wait_s`: how long for a worker; None: as its own transport."""
        return lambda url, is_last, is_known: self._transports[url].send(request, wait_s(is_last, is_known))

    def _watched(self, request: Request, turn: Turn, url: str, is_last: bool, is_known: bool) -> Response:
        """A change, waited for while its worker answers other questions.

        Errors: LateError once it does not: one that is frozen, or Java's where it waits for Kafka.
        """
        is_last = is_last or request.method not in _IDEMPOTENT
        share_s = max(turn.share_s(is_last=is_last, is_known=is_known), _LEAST_S)
        silence = Silence(share_s / 2, lambda: self._hear(request, url, share_s))
        return self._transports[url].send(request, None, None, silence)

    def _hear(self, request: Request, url: str, share_s: float) -> None:
        """Ask how a worker is that has not answered a change; any answer will do. Errors: LateError."""
        assert self._patience is not None
        other = self._transports[url].another()
        try:
            other.send(Request("GET", _HEALTH, None, request.headers), share_s / 2)
        except ConnectError as err:
            setting = f" ({self._patience.setting})" if self._patience.setting else ""
            message = f"{url} answered neither {request} nor GET {_HEALTH} within {round(share_s, 1):g} s{setting}"
            raise LateError(f"{message}: {UNKNOWN_END}", hint=_UNKNOWN_ADVICE) from err
        finally:
            other.close()

    def _first_of(self, request: Request, ask: _Ask) -> Response:
        """The first answer that `ask` gets of a worker, given its URL, whether it is the last, and answered last."""
        failures: list[tuple[str, ConnectError]] = []
        unavailable: Response | None = None
        for url in list(self._order):
            is_known, is_last = self._has_answered and not failures, len(failures) + 1 == len(self._order)
            try:
                response = ask(url, is_last, is_known)
            except NotConnectedError as err:
                failures.append((url, err))
            except (BrokenOffError, TimedOutError) as err:
                if request.method not in _IDEMPOTENT:
                    raise
                failures.append((url, err))
            else:
                if response.status != _UNAVAILABLE or not _may_ask_another(request):
                    self._order = [url, *(other for other in self._order if other != url)]
                    self._has_answered = True
                    return response
                unavailable = unavailable or response
                failures.append((url, ConnectError(f"{url} answers 503, it is not available")))
        if unavailable is not None:
            return unavailable
        raise _error_of(failures)

    def _is_starting(self, request: Request, within_s: float) -> bool:
        """Whether a worker that did not answer says that it starts: requests wait in it until then."""
        wait_s = max(within_s / len(self._transports), _LEAST_S)
        try:
            asked = Request("GET", _HEALTH, None, request.headers)
            answer = self._first_of(asked, self._sent_within(asked, lambda _is_last, _is_known: wait_s))
            return bool(json.loads(answer.body).get("status") == "starting")
        except (ConnectError, ValueError, AttributeError):  # no answer, or none of Connect's
            return False

    @contextmanager
    def _telling(self, request: Request) -> Iterator[None]:
        """Inside, a change that takes long is reported."""
        if self._tell is None:
            yield
            return
        message = f"Waiting for {self.url} to carry out {request} .."
        timer = threading.Timer(_SILENT_S, self._tell, (message,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _may_ask_another(request: Request) -> bool:
    return request.method in _IDEMPOTENT and not request.path.startswith(_HEALTH)


def _error_of(failures: Sequence[tuple[str, ConnectError]]) -> ConnectError:
    """The last worker's error if it means that the request may be executed, else one that names all workers."""
    if len(failures) == 1:
        return failures[0][1]
    for _, error in failures:
        if isinstance(error, TimedOutError):
            return TimedOutError(str(_nobody_of([error for _, error in failures])), hint=error.hint)
    return _nobody_of([error for _, error in failures])


def _nobody_of(failures: Sequence[ConnectError]) -> UnreachableError:
    """Says that none of several workers answers: the failure of each, which begins with or contains its URL."""
    reasons = "; ".join(str(failure).removeprefix("Nobody answers at ") for failure in failures)
    return UnreachableError(f"None of {len(failures)} workers answers: {reasons}", hint=ADVICE.nobody)
