"""Requests that one worker sends another for a caller say who that is, sealed with the group's session key.

A certificate stays on the connection it was shown on, and so does what an extension knows of a caller. So the worker
that was asked states the caller in one header and seals it, with method, target and body, in another. An outsider
cannot make the seal: its key is derived from the one in the config topic (KIP-507), and differs from it, so
that neither signature can stand for the other.
Differs: Java's workers forward the header Authorization alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kconnect.errors import ForbiddenError
from kconnect.runtime.rest.access.callers import Caller

CALLER_HEADER: Final = "x-kconnect-caller"
SEAL_HEADER: Final = "x-kconnect-caller-seal"
# What two workers' clocks may differ by, and a request may wait; a copy of it is worthless afterwards
_MAX_AGE_MS: Final = 300_000

Seal = Callable[[bytes], bytes | None]
"""Of a message, with the group's key; None while there is none."""


@dataclass(frozen=True, slots=True)
class Vouched:
    """What another worker says of a request. `is_audited`: it writes the audit log's line itself."""

    caller: Caller
    request_id: str
    is_audited: bool
    body_sha256: str

    def check_body(self, body: bytes) -> None:
        """Errors: ForbiddenError."""
        if hashlib.sha256(body).hexdigest() != self.body_sha256:
            raise ForbiddenError("The body of the forwarded request is not the one that was sealed")


def vouching_headers(seal: Seal, who: Vouched, method: str, target: str, now_ms: int) -> dict[str, str]:
    """Headers for a request to another worker; none while the group has no key."""
    claims = {
        "user": who.caller.name,
        "address": who.caller.address,
        "id": who.request_id,
        "audited": who.is_audited,
        "body": who.body_sha256,
        "method": method,
        "target": target,
        "at": now_ms,
    }
    stated = base64.urlsafe_b64encode(json.dumps(claims, separators=(",", ":")).encode()).decode()
    sealed = seal(stated.encode())
    return {} if sealed is None else {CALLER_HEADER: stated, SEAL_HEADER: sealed.hex()}


def vouched(seal: Seal, headers: Mapping[str, str], method: str, target: str, now_ms: int) -> Vouched | None:
    """Who sent a forwarded request; None if nobody says. Errors: ForbiddenError for a seal that is not the group's."""
    stated, given = headers.get(CALLER_HEADER), headers.get(SEAL_HEADER)
    if stated is None:
        return None
    expected = seal(stated.encode("latin-1", "replace"))
    own = b"" if expected is None else expected.hex().encode()
    if not own or not hmac.compare_digest(own, (given or "").encode("latin-1", "replace")):
        raise ForbiddenError(
            f"{CALLER_HEADER} is not sealed with this group's session key: it comes from no worker of the group, or "
            "from one that has not read the newest key yet. Try again"
        )
    claims = json.loads(base64.urlsafe_b64decode(stated))
    if (claims["method"], claims["target"]) != (method, target):
        raise ForbiddenError(f"{CALLER_HEADER} was made for another request")
    if abs(now_ms - claims["at"]) > _MAX_AGE_MS:
        raise ForbiddenError(
            f"{CALLER_HEADER} was made {abs(now_ms - claims['at']) // 1000} s from now by this worker's clock: set the "
            "clocks of the workers right"
        )
    return Vouched(Caller(claims["user"], claims["address"]), claims["id"], claims["audited"], claims["body"])


def body_digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
