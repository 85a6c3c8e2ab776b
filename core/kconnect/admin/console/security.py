"""What browsers get with every answer, and which requests are refused. Pure.

Cross-site requests: a browser sends the user of basic auth and the client certificate along with a request that any
page makes, so each unsafe request must come from a page of the console. Browsers say where a request comes from
(Sec-Fetch-Site, and Origin where the worker is reached by plain http), and no page can change that. A token in each
form would need a session on the server, which a console behind a load balancer of several workers does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

PAGE_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""On every answer; a static file says itself how long it may be kept."""


def refusal(method: str, headers: Mapping[str, str]) -> str | None:
    """Why a request is refused as not coming from a page of the console; None if it may pass.

    `headers`: by names in lower case.
    """
    if method in SAFE_METHODS:
        return None
    content_type = headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type not in ("application/x-www-form-urlencoded", ""):
        return f"The console takes forms, not {content_type or 'a body without a type'}."
    site = headers.get("sec-fetch-site")
    if site is not None:
        return None if site == "same-origin" else f"This request was made by a page of another site ({site})."
    origin = headers.get("origin")
    if origin is None:
        return "This request does not say which page it comes from: Origin is missing. Use the REST API for programs."
    if origin == "null" or urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        return f"This request was made by a page of {origin}, not of this console."
    return None
