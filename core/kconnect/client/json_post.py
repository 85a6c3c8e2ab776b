"""Posts one JSON document to any URL: for webhooks. Redirects are failures, and proxies are not asked."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from kconnect.client.http_exchange import HttpExchange, Request, Response, Terms
from kconnect.client.http_failures import Advice
from kconnect.errors import ConfigError

# What the target answers is not used
_MOST_READ: Final = 4096


class JsonPost:
    """One target. Threads: `send` from one at a time; `abort` from any."""

    def __init__(self, url: str, *, connect_timeout_s: float, timeout_s: float, advice: Advice | None = None) -> None:
        """Errors: ConfigError for what is no URL of http or https."""
        self._url = checked_target(url)
        self._exchange = HttpExchange(
            Terms(
                timeout_s=timeout_s,
                connect_timeout_s=connect_timeout_s,
                most_bytes=_MOST_READ,
                cuts=True,
                shown=shown_target,
                advice=advice or Advice(),
            )
        )

    def send(self, body: bytes, headers: Mapping[str, str]) -> Response:
        """The answer; no connection is kept for it. Errors: HttpFailure, which names the host and nothing secret."""
        try:
            return self._exchange.send(
                Request("POST", self._url, body, {"Content-Type": "application/json", **headers})
            )
        finally:
            self._exchange.close()

    def abort(self) -> None:
        """Make a `send` on another thread fail at once."""
        self._exchange.abort()

    @property
    def host(self) -> str:
        """Scheme, host and port: the path of a webhook is often its secret."""
        return shown_target(self._url)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """`sha256=` and the HMAC-SHA256 of the time, a full stop and the body: an old one cannot be sent again later."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def checked_target(url: str) -> str:
    """The URL. Errors: ConfigError, without what may be secret in it."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError("The URL of a webhook must begin with http:// or https:// and a host")
    if parts.username is not None:
        raise ConfigError("The URL of a webhook has a user in it", hint="Sign the requests with a secret instead.")
    return url


def shown_target(url: str) -> str:
    """A target for people: scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
