"""What stands around the application of one server: the limit of requests, and the audit log's share of refused logins.

A caller, which is a user, or the address of who is not known, may ask as often as a token bucket allows; beyond it he
gets a 429. Requests of other workers of the cluster, which sign them, are not counted: the
worker that was asked has counted them. `/metrics` and `/health` are reported. Lifecycle: constructed -> start -> stop.
Differs: Java has no limits.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kconnect.errors import ForbiddenError
from kconnect.runtime.herder.interface import Peers
from kconnect.runtime.metrics import Reading
from kconnect.runtime.metrics.readings import RestView, rest_readings
from kconnect.runtime.rest.access.callers import Caller
from kconnect.runtime.rest.audit.entry import AuditEntry
from kconnect.runtime.rest.options import RestOptions
from kconnect.runtime.rest.problems import error_body

# In the scope of a request that was counted: those that it makes itself, for a page of the console, are not
_COUNTED: Final = "kconnect.counted"
_CHANGES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guards:
    """Threads: start, stop and the readings from any; the rest on the server's event loop. Implements ServerState."""

    def __init__(self, options: RestOptions, herder: Peers) -> None:
        self._keeper, self._trail, self._herder = options.gatekeeper, options.trail, herder
        self._trails = [trail for trail in (options.trail, options.changes) if trail is not None]
        self._limit: RateLimit | None = None
        if options.rate is not None:
            self._limit = RateLimit(TokenBuckets(*options.rate), self._caller, self._is_exempt)
        self._denied_logins = 0

    def start(self) -> None:
        for trail in self._trails:
            trail.start()

    def stop(self) -> None:
        """Idempotent."""
        for trail in self._trails:
            trail.stop()

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, for callers within their limit; stands inside of what finds out who calls."""
        if self._limit is None:
            return app
        limited = self._limit.around(app)

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            await limited({**scope, _COUNTED: True} if _COUNTED not in scope else scope, receive, send)

        async def once(scope: Scope, receive: Receive, send: Send) -> None:
            await (app if _COUNTED in scope else counted)(scope, receive, send)

        return once

    def refused_login(self, scope: Scope) -> Response | None:
        """Count and write down who was not let in; 429 for an address that tries too often."""
        self._denied_logins += 1
        too_many = self._limit.refusal(scope) if self._limit is not None else None
        if self._trail is not None and scope["method"] in _CHANGES:
            client = scope.get("client")
            entry = AuditEntry(
                time_ms=time.time_ns() // 1_000_000,
                request_id="",
                caller=Caller(None, str(client[0]) if client else ""),
                worker=self._herder.worker_id,
                method=scope["method"],
                path=scope["raw_path"].decode("latin-1"),
                status=401 if too_many is None else 429,
                message="No user that is known, or not the right password",
            )
            self._trail.record(entry.to_line)
        return too_many

    def readings(self) -> Sequence[Reading]:
        trail = self._trail
        return list(
            rest_readings(
                RestView(
                    denied=self._keeper.denied + self._denied_logins,
                    limited=self._limit.refused if self._limit is not None else 0,
                    has_current_roles=not self._keeper.warnings(),
                    audit_written=trail.written if trail is not None else 0,
                    audit_lost=trail.lost if trail is not None else 0,
                    is_audit_written=trail is None or trail.problem is None,
                )
            )
        )

    def warnings(self) -> Sequence[str]:
        reported = [
            f"Changes are not written down: {trail.problem}"
            for trail in self._trails
            if trail.problem is not None and not trail.is_required  # required: a reason not to be healthy
        ]
        return [*self._keeper.warnings(), *reported]

    def _caller(self, scope: Scope) -> str:
        caller = self._keeper.caller(scope)
        return f"User {caller.name}" if caller.name is not None else f"Address {caller.address}"

    def _is_exempt(self, scope: Scope) -> bool:
        """Requests between workers: signed ones are checked by their handlers, others here."""
        parts = scope["raw_path"].decode("latin-1").strip("/").split("/")
        if len(parts) == 3 and (scope["method"], parts[2]) in (("POST", "tasks"), ("PUT", "fence")):
            return True
        try:
            return self._keeper.signed_caller(scope, self._herder.peer_signature) is not None
        except ForbiddenError:
            return False


SETTING = "kconnect.rest.requests.per.second"
# As many callers as a worker has ever had, some 100 bytes each; beyond, the one that was quiet longest starts again
_MOST_CALLERS = 10_000


class TokenBuckets:
    """Pure but for the clock. Threads: one."""

    def __init__(self, per_s: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._monotonic = monotonic
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def wait_s(self, caller: str) -> float:
        """0 and a token less, or how long until there is one."""
        now_s = self._monotonic()
        tokens, counted_s = self._left.pop(caller, (float(self._burst), now_s))
        tokens = min(self._burst, tokens + (now_s - counted_s) * self._per_s)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._per_s
        self._left[caller] = (tokens - 1 if wait_s == 0 else tokens, now_s)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        return wait_s


class RateLimit:
    """One worker's limit. Threads: the server's event loop."""

    def __init__(
        self, buckets: TokenBuckets, caller_of: Callable[[Scope], str], is_peer: Callable[[Scope], bool]
    ) -> None:
        self._buckets = buckets
        self._caller_of = caller_of
        self._is_peer = is_peer
        self.refused = 0

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, for callers that are within the limit."""

        async def limited(scope: Scope, receive: Receive, send: Send) -> None:
            refusal = self.refusal(scope) if scope["type"] == "http" else None
            await (app if refusal is None else refusal)(scope, receive, send)

        return limited

    def refusal(self, scope: Scope) -> Response | None:
        """429 with how long to wait, for a request too many."""
        if self._is_peer(scope):
            return None
        caller = self._caller_of(scope)
        wait_s = self._buckets.wait_s(caller)
        if wait_s == 0:
            return None
        self.refused += 1
        retry_s = max(1, math.ceil(wait_s))
        message = f"{caller} asks too often (setting {SETTING} of the worker): try again in {retry_s} s"
        return Response(error_body(429, message), 429, {"retry-after": str(retry_s)}, media_type="application/json")
