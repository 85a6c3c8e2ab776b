"""How often a caller may ask: a token bucket for each user, or address of who is not known. 429 beyond it.

Requests of other workers of the cluster, which carry a seal or a signature of theirs, are not counted: the worker that
was asked has counted them. Differs: Java has no limits.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kconnect.runtime.rest.problems import error_body

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
