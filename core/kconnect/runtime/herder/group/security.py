"""The brokers' addresses and the login: a worker's Java settings, for our own connections.

Stores and JAAS entries are read by `config.client_security`, as for every other client; here they become a TLS
context and a login.
Differs: Kerberos (GSSAPI) is not built in, nor are JWT assertions for OAUTHBEARER; both are refused by name.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.client.http_exchange import HttpExchange, Request, Terms
from kconnect.client.http_failures import Advice, HttpFailure
from kconnect.errors import ConfigError, ConnectError
from kconnect.java.compat.tls_contexts import client_context
from kconnect.runtime.config.addresses import Address, parse_servers
from kconnect.runtime.config.client_security import security_settings
from kconnect.runtime.herder.group.errors import Unanswered
from kconnect.runtime.herder.group.sasl import OAuthBearerLogin, PlainLogin, SaslLogin, ScramLogin

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# As Java's login.refresh.window.factor: the next login uses a new token when this share of its life is over.
_TOKEN_SHARE: Final = 0.8
_TOKEN_TIMEOUT: Final = "sasl.login.read.timeout.ms"
# Where it is not set; Java's clients wait for ever then
_TOKEN_TIMEOUT_S: Final = 10.0
# Of an answer with a token: those with many claims have a few kilobytes
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The brokers' addresses, and what connections to them need."""

    bootstrap: tuple[Address, ...]
    client_id: str
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    login: Callable[[], SaslLogin] | None = field(default=None, repr=False)


def access(java: Mapping[str, str], client_id: str) -> Access:
    """Of a worker's settings: `bootstrap.servers`, `security.protocol`, `ssl.*`, `sasl.*`.

    Errors: ConfigError that names the setting, never a secret.
    """
    protocol = java.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError.invalid("security.protocol", protocol, f"expected one of {', '.join(_PROTOCOLS)}")
    settings, _ = security_settings(java)
    return Access(
        bootstrap=parse_servers(java.get("bootstrap.servers", "localhost:9092")),
        client_id=client_id,
        tls=client_context(java) if protocol.endswith("SSL") else None,
        login=_login(settings, _token_timeout_s(java)) if protocol.startswith("SASL") else None,
    )


def _login(settings: Mapping[str, Any], token_timeout_s: float) -> Callable[[], SaslLogin]:
    mechanism = str(settings.get("sasl.mechanism", "GSSAPI")).strip().upper()
    if mechanism == "OAUTHBEARER":
        return _oauth(settings, token_timeout_s)
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        why = ": there is no Kerberos library" if mechanism == "GSSAPI" else ""
        raise ConfigError(
            f"sasl.mechanism={mechanism} does not work here{why}.",
            hint="Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
        )
    if "sasl.username" not in settings or "sasl.password" not in settings:
        raise ConfigError(
            f"sasl.jaas.config names no user and password, which sasl.mechanism={mechanism} needs.",
            hint='Write it as `...LoginModule required username="u" password="p";`.',
        )
    username, password = settings["sasl.username"], settings["sasl.password"]
    if mechanism == "PLAIN":
        return lambda: PlainLogin(username, password)
    return lambda: ScramLogin(mechanism, username, password)


def _token_timeout_s(java: Mapping[str, str]) -> float:
    given = java.get(_TOKEN_TIMEOUT)
    if given is None:
        return _TOKEN_TIMEOUT_S
    timeout_ms: int = parse_type(_TOKEN_TIMEOUT, given, ConfigDef.Type.INT)
    return max(timeout_ms, 1) / 1000


def _oauth(settings: Mapping[str, Any], token_timeout_s: float) -> Callable[[], SaslLogin]:
    if settings.get("sasl.oauthbearer.grant.type") or any("oauthbearer.assertion" in key for key in settings):
        raise ConfigError(
            "sasl.oauthbearer.assertion.* and the JwtBearerJwtRetriever are not built in for the worker's group.",
            hint="Use client credentials: clientId and clientSecret in sasl.jaas.config.",
        )
    source: Callable[[], tuple[str, float]]
    if url := settings.get("sasl.oauthbearer.token.endpoint.url"):
        source = _Endpoint(
            url,
            settings.get("sasl.oauthbearer.client.id", ""),
            settings.get("sasl.oauthbearer.client.secret", ""),
            settings.get("sasl.oauthbearer.scope"),
            token_timeout_s,
        ).fetch
    elif subject := settings.get("sasl.oauthbearer.config", "").removeprefix("principal="):
        source = lambda: _unsecured_token(subject)  # noqa: E731 - one expression
    else:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs a token: sasl.oauthbearer.token.endpoint.url is not set.",
            hint="Set it, and clientId and clientSecret in sasl.jaas.config.",
        )
    extensions = dict(
        pair.split("=", 1) for pair in settings.get("sasl.oauthbearer.extensions", "").split(",") if "=" in pair
    )
    tokens = _Tokens(source)
    return lambda: OAuthBearerLogin(tokens.get, extensions)


class _Tokens:
    """Keeps a token for most of its life. Threads: any; two at once may both fetch one."""

    def __init__(self, source: Callable[[], tuple[str, float]]) -> None:
        self._source = source
        self._kept: tuple[str, float] | None = None

    def get(self) -> str:
        kept, now = self._kept, time.monotonic()
        if kept is None or now >= kept[1]:
            token, life_s = self._source()
            self._kept = kept = (token, now + life_s * _TOKEN_SHARE)
        return kept[0]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A token endpoint that takes client credentials. Source: HttpJwtRetriever (Kafka 4.3), RFC 6749 4.4."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None
    timeout_s: float
    """For connecting, and for each answer after it."""

    def fetch(self) -> tuple[str, float]:
        """Token and seconds it lives. Errors: Unanswered; ConnectError when the credentials are refused."""
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        pair = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
        request = Request(
            "POST",
            self.url,
            urllib.parse.urlencode(form).encode(),
            {
                "Authorization": f"Basic {pair}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError.invalid("sasl.oauthbearer.token.endpoint.url", self.url, "expected http:// or https://")
        exchange = HttpExchange(
            Terms(
                timeout_s=self.timeout_s,
                connect_timeout_s=self.timeout_s,
                most_bytes=_MOST_BYTES,
                uses_proxies=True,
                advice=Advice(connect_deadline=_TOKEN_TIMEOUT, deadline=_TOKEN_TIMEOUT),
            )
        )
        try:
            with closing(exchange):
                answer = exchange.send(request)
        except HttpFailure as err:
            raise Unanswered(f"{self.url} gives no token: {err.why}") from err
        if answer.status in (400, 401, 403):
            raise ConnectError(
                f"sasl.oauthbearer.token.endpoint.url={self.url} gives no token: status {answer.status}.",
                hint="Correct clientId, clientSecret and scope in sasl.jaas.config.",
            )
        if not 200 <= answer.status < 300:
            raise Unanswered(f"{self.url} answers {answer.status}")
        return self._token_in(answer.body)

    def _token_in(self, body: bytes) -> tuple[str, float]:
        try:
            document = json.loads(body)
            token = document["access_token"]
            if not isinstance(token, str) or not token:
                raise TypeError("its access_token is not a string")  # shown nowhere: it may be a secret all the same
            return token, float(document.get("expires_in", 0))
        except (ValueError, KeyError, TypeError) as err:
            # TypeError: JSON of another form, such as a list; what answers may be a proxy
            raise Unanswered(f"{self.url} gives no token: {err!r}") from err


def _unsecured_token(subject: str) -> tuple[str, float]:
    """For test clusters. Source: OAuthBearerUnsecuredLoginCallbackHandler."""
    life_s, now = 3600, int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + life_s})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join(encoded) + ".", life_s
