"""HTTP for plugins: one request and its answer, within a deadline whatever the server does.

`HttpExchange(Terms(timeout_s=10)).send(Request("GET", url))`. It is what kconnect itself uses for every request: with
TLS, proxies and redirects where `Terms` say so, a limit of the answer's size, and `HttpFailure` that says what failed,
where, and what to do about it. Any status is an answer; `Response.may_pass` and `Response.retry_after_s` say whether,
and when, to ask again.

It stands here because built-in plugins import `kconnect.api` alone: what they need, authors of other plugins need too.
"""

from kconnect.client.http_exchange import HttpExchange, Request, Response, Terms, origin, shown_url
from kconnect.client.http_failures import (
    Advice,
    BadAddressError,
    CertificateError,
    HttpFailure,
    LateError,
    RedirectError,
    TooLargeError,
)
from kconnect.client.trust import trusting

__all__ = [
    "Advice",
    "BadAddressError",
    "CertificateError",
    "HttpExchange",
    "HttpFailure",
    "LateError",
    "RedirectError",
    "Request",
    "Response",
    "Terms",
    "TooLargeError",
    "origin",
    "shown_url",
    "trusting",
]
