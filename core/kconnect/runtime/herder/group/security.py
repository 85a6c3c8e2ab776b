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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, UnreachableError
from kconnect.java.compat.tls_contexts import client_context
from kconnect.runtime.config.addresses import Address, parse_servers
from kconnect.runtime.config.client_security import security_settings
from kconnect.runtime.config.live_settings import live_clients
from kconnect.runtime.config.rights import Client, client_of
from kconnect.runtime.config.tokens import TOKEN_TIMEOUT, TOKEN_TIMEOUT_S, TokenEndpoint, Tokens
from kconnect.runtime.herder.group.errors import Unanswered
from kconnect.runtime.herder.group.sasl import OAuthBearerLogin, PlainLogin, SaslLogin, ScramLogin

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The brokers' addresses, and what connections to them need."""

    bootstrap: tuple[Address, ...]
    client_id: str
    tls: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    """Asked for each connection, as `login` is."""
    login: Callable[[], SaslLogin] | None = field(default=None, repr=False)
    who: Client = field(default_factory=Client)
    """For messages about rights."""

    @property
    def protocol(self) -> str:
        """The `security.protocol`."""
        return ("SASL_" if self.login is not None else "") + ("SSL" if self.tls is not None else "PLAINTEXT")

    def doubt(self, problem: str) -> str | None:
        """What a connection that broke says of the listener's protocol: that is all a client gets that speaks another.

        Returns None where it says nothing.
        """
        if "closed the connection" in problem or "not a Kafka broker" in problem:
            if self.login is not None and self.tls is not None:
                return f"the listener may refuse security.protocol={self.protocol}"
            return f"the listener may want TLS or a login: security.protocol is {self.protocol}"
        if "TLS" in problem:
            return f"the listener may speak no TLS: security.protocol is {self.protocol}"
        return None


def access(java: Mapping[str, str], client_id: str) -> Access:
    """Reads a worker's settings: `bootstrap.servers`, `security.protocol`, `ssl.*`, `sasl.*`.

    Each connection shows, trusts and logs in with what they and their files say then.
    Errors: ConfigError that names the setting, never a secret.
    """
    return access_now(lambda: java, client_id)


def access_now(settings: Callable[[], Mapping[str, str]], client_id: str) -> Access:
    """Works as `access`, for settings that may be others later."""
    java = settings()
    protocol = java.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError.invalid("security.protocol", protocol, f"expected one of {', '.join(_PROTOCOLS)}")
    translated, _ = security_settings(java)
    tls = live_clients(settings, lambda: client_context(settings())) if protocol.endswith("SSL") else None
    login = live_clients(settings, lambda: _login_of(settings())) if protocol.startswith("SASL") else None
    return Access(
        bootstrap=parse_servers(java.get("bootstrap.servers", "localhost:9092")),
        client_id=client_id,
        tls=None if tls is None else tls.value,
        login=None if login is None else lambda: login.value()(),
        who=client_of({**java, **translated}),
    )


def _login_of(java: Mapping[str, str]) -> Callable[[], SaslLogin]:
    return _login(security_settings(java)[0], _token_timeout_s(java))


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
    given = java.get(TOKEN_TIMEOUT)
    if given is None:
        return TOKEN_TIMEOUT_S
    timeout_ms: int = parse_type(TOKEN_TIMEOUT, given, ConfigDef.Type.INT)
    return max(timeout_ms, 1) / 1000


def _oauth(settings: Mapping[str, Any], token_timeout_s: float) -> Callable[[], SaslLogin]:
    if settings.get("sasl.oauthbearer.grant.type") or any("oauthbearer.assertion" in key for key in settings):
        raise ConfigError(
            "sasl.oauthbearer.assertion.* and the JwtBearerJwtRetriever are not built in for the worker's group.",
            hint="Use client credentials: clientId and clientSecret in sasl.jaas.config.",
        )
    extensions = dict(
        pair.split("=", 1) for pair in settings.get("sasl.oauthbearer.extensions", "").split(",") if "=" in pair
    )
    if isinstance(tokens := settings.get("oauth_cb"), Tokens):
        extensions |= tokens.extensions
    elif url := settings.get("sasl.oauthbearer.token.endpoint.url"):
        scope = settings.get("sasl.oauthbearer.scope")
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        client_id, secret = (settings.get(f"sasl.oauthbearer.client.{name}", "") for name in ("id", "secret"))
        tokens = Tokens(TokenEndpoint(url, form, client_id, secret, token_timeout_s).fetch)
    elif subject := settings.get("sasl.oauthbearer.config", "").removeprefix("principal="):
        tokens = Tokens(lambda: _unsecured_token(subject))
    else:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs a token: sasl.oauthbearer.token.endpoint.url is not set.",
            hint="Set it, and clientId and clientSecret in sasl.jaas.config.",
        )

    def token() -> str:
        try:
            return tokens.get()
        except UnreachableError as err:
            raise Unanswered(str(err)) from err

    return lambda: OAuthBearerLogin(token, extensions)


def _unsecured_token(subject: str) -> tuple[str, float]:
    """For test clusters. Source: OAuthBearerUnsecuredLoginCallbackHandler."""
    life_s, now = 3600, int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + life_s})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join(encoded) + ".", life_s
