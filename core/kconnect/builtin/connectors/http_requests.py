"""HTTP requests of the JSON source: who signs them, and what an answer means for the source.

Requests are signed with headers that stay as they are, or with a token that is fetched and renewed.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

from kconnect.api import ConfigError, ConnectError, RetriableError
from kconnect.api.http_client import (
    Advice,
    BadAddressError,
    CertificateError,
    HttpExchange,
    HttpFailure,
    RedirectError,
    Request,
    Response,
    Terms,
    TooLargeError,
    origin,
    shown_url,
    trusting,
)

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
        context = trusting()
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
        except (BadAddressError, CertificateError, RedirectError, TooLargeError):  # no repeat changes these
            raise
        except HttpFailure as err:
            raise BusyError(str(err), hint=err.hint) from err


def refused(url: str, answer: Response) -> ConnectError:
    """The error for an answer that no repeat will change."""
    return ConnectError(
        f"{said(url, answer)}: {answer.body[:200].decode('utf-8', 'replace')}",
        hint="Check url, auth.* and header.*." if answer.status in (401, 403, 404) else None,
    )


def said(url: str, answer: Response) -> str:
    """What a server answers, for messages."""
    return f"{shown_url(url)} answers {answer.status} {answer.reason}".rstrip()


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs share scheme, host and port."""
    return origin(one) == origin(other)


HEADER_PREFIX: Final = "header."
TOKEN_PARAM_PREFIX: Final = "auth.token.param."
# Before a token ends, so that it does not on its way; a tenth of it where it lives shorter
_MARGIN_S: Final = 30.0
_LIFE_S: Final = 300.0

Send = Callable[[Request], Response]
"""One exchange. Errors: BusyError where it may succeed later."""


class OAuthToken:
    """A token by client credentials (RFC 6749, 4.4), fetched when it is first needed, and kept until it ends.

    Threads: one. Errors: RetriableError while the token's server is away, ConnectError when it refuses.
    """

    def __init__(self, config: Mapping[str, Any], props: Mapping[str, str]) -> None:
        """Errors: ConfigError names the setting that is missing."""
        for name in ("auth.token.url", "auth.client.id"):
            if not config[name]:
                raise ConfigError.invalid(name, config[name], "auth.type=oauth2 needs it")
        if config["auth.client.secret"] is None:
            raise ConfigError.invalid("auth.client.secret", "", "auth.type=oauth2 needs it")
        self._url: str = config["auth.token.url"]
        form = {"grant_type": "client_credentials"}
        if config["auth.scope"]:
            form["scope"] = config["auth.scope"]
        form |= {name.removeprefix(TOKEN_PARAM_PREFIX): text for name, text in props.items() if _is_param(name)}
        client, secret = config["auth.client.id"], config["auth.client.secret"].value
        self._headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if config["auth.client.in"] == "body":
            form |= {"client_id": client, "client_secret": secret}
        else:
            pair = f"{urllib.parse.quote_plus(client)}:{urllib.parse.quote_plus(secret)}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._form = urllib.parse.urlencode(form).encode()
        self._token = ""
        self._ends_s = 0.0

    def header(self, send: Send) -> dict[str, str]:
        if not self._token or time.monotonic() >= self._ends_s:
            self._fetch(send)
        return {"Authorization": f"Bearer {self._token}"}

    def drop(self) -> None:
        """It was refused: the next one is fetched."""
        self._token = ""

    def _fetch(self, send: Send) -> None:
        answer = send(Request("POST", self._url, self._form, self._headers))
        shown = shown_url(self._url)
        if answer.may_pass:
            raise RetriableError(f"{shown} answers {answer.status} {answer.reason}", retry_after_s=answer.retry_after_s)
        try:
            reported = json.loads(answer.body)
            error = str(reported.get("error") or "") if isinstance(reported, dict) else ""
        except ValueError:
            reported, error = None, ""
        if answer.status != 200:
            what = f"{shown} gives no token: {answer.status} {answer.reason}"
            hint = "Check auth.token.url, auth.client.id, auth.client.secret, auth.scope and auth.client.in."
            raise ConnectError(f"{what}, {error}" if error else what, hint=hint)
        token = reported.get("access_token") if isinstance(reported, dict) else None
        if not isinstance(token, str) or not token:
            raise ConnectError(f"{shown} answers without access_token", hint="Check auth.token.url.")
        life_s = _life_s(reported.get("expires_in"))
        self._token, self._ends_s = token, time.monotonic() + life_s - min(_MARGIN_S, life_s / 10)


def _life_s(text: Any) -> float:
    try:
        return max(float(text), 1.0)
    except (TypeError, ValueError):
        return _LIFE_S


def _is_param(name: str) -> bool:
    return name.startswith(TOKEN_PARAM_PREFIX) and len(name) > len(TOKEN_PARAM_PREFIX)


def own_headers(config: Mapping[str, Any], props: Mapping[str, str]) -> dict[str, str]:
    """The headers of each request that stay as they are. Errors: ConfigError for incomplete authentication settings."""
    found = {
        key[len(HEADER_PREFIX) :]: value
        for key, value in props.items()
        if key.startswith(HEADER_PREFIX)
        and key not in ("header.converter",)
        and not key.startswith("header.converter.")
    }
    for name, value in found.items():
        if not name or any(sign in name + value for sign in "\r\n"):
            raise ConfigError(f"{HEADER_PREFIX}{name} is not a header: a name and a value of one line are needed")
    if config["auth.type"] == "bearer":
        if config["auth.token"] is None:
            raise ConfigError("auth.type=bearer needs auth.token")
        found["Authorization"] = f"Bearer {config['auth.token'].value}"
    elif config["auth.type"] == "basic":
        if not config["auth.user"] or config["auth.password"] is None:
            raise ConfigError("auth.type=basic needs auth.user and auth.password")
        pair = f"{config['auth.user']}:{config['auth.password'].value}"
        found["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return found
