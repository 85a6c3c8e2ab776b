"""HTTP requests of the JSON source: who signs them, and what an answer means for the source."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from kconnect.api import ConfigError, ConnectError, DataError, RetriableError
from kconnect.api.http_client import (
    Advice,
    CertificateError,
    HttpExchange,
    HttpFailure,
    Request,
    Response,
    Terms,
    TooLargeError,
    origin,
    shown_url,
)
from kconnect.builtin.connectors.http_auth import OAuthToken

# As urllib and browsers
_MOST_REDIRECTS = 10


class BusyError(RetriableError):
    """The server requires a delay, or is unreachable. `retry_after_s` is the requested delay, None if there is none."""


class HttpClient:
    """Requests with headers and a token, which go to the origin of the configured URL only. Threads: the task's.

    `ca_file`: PEM of authorities that are trusted beside the system's.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        token: OAuthToken | None,
        timeout_s: float,
        max_bytes: int,
        ca_file: str | None,
    ) -> None:
        """Errors: ConfigError for a file that holds no certificates."""
        self._base_url = base_url
        self._headers = dict(headers)
        self._token = token
        context = ssl.create_default_context()
        if ca_file is not None:
            try:
                context.load_verify_locations(cafile=ca_file)
            except OSError as err:
                why = f"it cannot be used as CA certificates: {err.strerror or err}"
                raise ConfigError.invalid("tls.ca.file", ca_file, why) from err
        self._exchange = HttpExchange(
            Terms(
                timeout_s=timeout_s,
                most_bytes=max_bytes,
                tls=lambda: context,
                redirects=_MOST_REDIRECTS,
                uses_proxies=True,
                advice=Advice(
                    nobody="Check url, and HTTPS_PROXY where there is one.",
                    trust="Name the authority's file in tls.ca.file.",
                    large="Ask for smaller pages, or raise response.max.bytes.",
                    deadline="request.timeout.ms",
                    connect_deadline="request.timeout.ms",
                ),
            )
        )

    def ask(self, method: str, url: str, body: bytes | None, extra: Mapping[str, str]) -> Response:
        """One request; status 200 with a body, 304, or 404. A token that is refused is renewed once.

        Errors: BusyError when it may succeed later, ConnectError when it will not.
        """
        try:
            answer = self._signed(method, url, body, extra)
            if answer.status == 401 and self._token is not None:
                self._token.drop()
                answer = self._signed(method, url, body, extra)
        finally:
            self._exchange.close()  # a server would close what is kept for the poll interval
        if answer.may_pass:
            raise BusyError(said(url, answer), retry_after_s=answer.retry_after_s)
        if answer.status in (304, 404) or 200 <= answer.status < 300:
            return answer
        raise refused(url, answer)

    def _signed(self, method: str, url: str, body: bytes | None, extra: Mapping[str, str]) -> Response:
        own: dict[str, str] = {}
        if same_origin(url, self._base_url):
            own = dict(self._headers)
            if self._token is not None:
                own |= self._token.header(self._send)
        return self._send(Request(method, url, body, {"Accept": "application/json", **extra, **own}))

    def _send(self, request: Request) -> Response:
        try:
            return self._exchange.send(request)
        except (CertificateError, TooLargeError):
            raise
        except HttpFailure as err:
            raise BusyError(str(err), hint=err.hint) from err


def refused(url: str, answer: Response) -> ConnectError:
    """The error for an answer that no repeat will change."""
    return ConnectError(
        f"{said(url, answer)}: {answer.body[:200].decode('utf-8', 'replace')}",
        hint="Check url, auth.* and header.*." if answer.status in (401, 403, 404) else None,
    )


def json_of(answer: Response, url: str, loads: Callable[[bytes], Any] = json.loads) -> Any:
    """The body as JSON, by `loads`. Errors: DataError."""
    try:
        return loads(answer.body)
    except ValueError as err:
        raise DataError(f"{shown_url(url)} did not answer with JSON: {err}; it begins {answer.body[:80]!r}") from err


def said(url: str, answer: Response) -> str:
    """What a server answers, for messages."""
    return f"{shown_url(url)} answers {answer.status} {answer.reason}".rstrip()


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs share scheme, host and port."""
    return origin(one) == origin(other)
