"""Tokens of OAUTHBEARER that librdkafka cannot get by itself: of an endpoint by any grant, of a file, signed, or
MSK's.

Source: HttpJwtRetriever (Kafka 4.3), RFC 6749; Strimzi's JaasClientOauthLoginCallbackHandler (0.17);
aws-msk-iam-auth (IAMLoginModule), aws-msk-iam-sasl-signer.

Those of Amazon MSK are a request of AWS that is signed and not sent. They need botocore, the extra `msk`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from kconnect.client.http_exchange import HttpExchange, Request, Terms
from kconnect.client.http_failures import Advice, HttpFailure
from kconnect.errors import ConfigError, ConnectError, UnreachableError
from kconnect.java.compat.tls_contexts import client_context

# As Java's login.refresh.window.factor: the next login uses a new token when this share of its life is over.
_TOKEN_SHARE: Final = 0.8
TOKEN_TIMEOUT: Final = "sasl.login.read.timeout.ms"
# Where it is not set; Java's clients wait endlessly then
TOKEN_TIMEOUT_S: Final = 10.0
# Of an answer with a token: those with many claims have a few kilobytes
_MOST_BYTES: Final = 1 << 20
# Of a token that does not say how long it lives
_UNSAID_LIFE_S: Final = 300.0
_STORES: Final = {
    f"oauth.ssl.truststore.{name}": f"ssl.truststore.{name}"
    for name in ("location", "password", "type", "certificates")
}
# Options of Strimzi's that change nothing in what a client sends
_WITHOUT_EFFECT: Final = frozenset(
    {
        "oauth.access.token.is.jwt",
        "oauth.enable.metrics",
        "oauth.fallback.username.claim",
        "oauth.fallback.username.prefix",
        "oauth.http.retries",
        "oauth.http.retry.pause.millis",
        "oauth.include.accept.header",
        "oauth.max.token.expiry.seconds",
        "oauth.username.claim",
        "oauth.username.prefix",
    }
)
_OPTIONS: Final = frozenset(
    {
        *_STORES,
        "oauth.access.token",
        "oauth.access.token.location",
        "oauth.audience",
        "oauth.client.assertion",
        "oauth.client.assertion.location",
        "oauth.client.assertion.type",
        "oauth.client.id",
        "oauth.client.secret",
        "oauth.connect.timeout.seconds",
        "oauth.password.grant.password",
        "oauth.password.grant.username",
        "oauth.read.timeout.seconds",
        "oauth.refresh.token",
        "oauth.refresh.token.location",
        "oauth.scope",
        "oauth.token.endpoint.uri",
    }
)
_EXTENSION: Final = "oauth.sasl.extension."
_JWT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Tokens:
    """Keeps a token for most of its life. Threads: any; two at once may both fetch one.

    `source` gives a token and the seconds it lives. Errors: those of the source.
    """

    def __init__(self, source: Callable[[], tuple[str, float]], extensions: Mapping[str, str] | None = None) -> None:
        self.extensions = dict(extensions or {})
        self._source = source
        self._kept: tuple[str, float, float] | None = None

    def get(self) -> str:
        return self._current()[0]

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Answers as librdkafka asks for it (oauth_cb): the token, when it ends, a principal, extensions."""
        token, _, ends_at_s = self._current()
        return token, ends_at_s, "", self.extensions

    def _current(self) -> tuple[str, float, float]:
        """The token, the monotonic time until which it is used, and the time of day when it ends."""
        kept = self._kept
        if kept is None or time.monotonic() >= kept[1]:
            token, given_s = self._source()
            life_s = given_s if given_s > 0 else _UNSAID_LIFE_S
            self._kept = kept = (token, time.monotonic() + life_s * _TOKEN_SHARE, time.time() + life_s)
        return kept


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """A token endpoint and what is posted to it."""

    url: str
    form: Mapping[str, str] = field(repr=False)
    client_id: str = ""
    secret: str = field(default="", repr=False)
    timeout_s: float = TOKEN_TIMEOUT_S
    """For connecting, and for each answer after it."""
    timeout_setting: str = TOKEN_TIMEOUT
    url_setting: str = "sasl.oauthbearer.token.endpoint.url"
    tls: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)

    def fetch(self) -> tuple[str, float]:
        """Token and seconds it lives. Errors: UnreachableError; ConnectError when the credentials are refused."""
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if self.secret:
            pair = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        request = Request("POST", self.url, urllib.parse.urlencode(self.form).encode(), headers)
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError.invalid(self.url_setting, self.url, "expected http:// or https://")
        advice = Advice(connect_deadline=self.timeout_setting, deadline=self.timeout_setting)
        terms = Terms(
            timeout_s=self.timeout_s,
            connect_timeout_s=self.timeout_s,
            most_bytes=_MOST_BYTES,
            uses_proxies=True,
            advice=advice,
        )
        exchange = HttpExchange(terms if self.tls is None else replace(terms, tls=self.tls))
        try:
            with closing(exchange):
                answer = exchange.send(request)
        except HttpFailure as err:
            raise UnreachableError(f"{self.url} gives no token: {err.why}") from err
        if answer.status in (400, 401, 403):
            raise ConnectError(
                f"{self.url_setting}={self.url} gives no token: status {answer.status}.",
                hint="Correct the client's id, its secret and the scope in sasl.jaas.config.",
            )
        if not 200 <= answer.status < 300:
            raise UnreachableError(f"{self.url} answers {answer.status}")
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
            raise UnreachableError(f"{self.url} gives no token: {err!r}") from err


def strimzi_tokens(options: Mapping[str, str]) -> Tokens:
    """The tokens that the options of Strimzi's login mean, or the environment by OAUTH_CLIENT_ID and the like.

    Errors: ConfigError for an option that is missing, or that is not supported.
    """
    unknown = [
        name
        for name in options
        if name.startswith("oauth.") and name not in _OPTIONS | _WITHOUT_EFFECT and not name.startswith(_EXTENSION)
    ]
    if unknown:
        raise ConfigError(
            f"sasl.jaas.config has the option {unknown[0]}, which is not supported here.",
            hint=f"Supported are {', '.join(sorted(_OPTIONS))} and {_EXTENSION}NAME.",
        )
    given = {name: os.environ.get(name.upper().replace(".", "_"), "") for name in _OPTIONS} | dict(options)
    extensions = {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}
    fixed = _of_text_or_file(given, "oauth.access.token")
    if fixed is not None:
        return Tokens(lambda: _with_its_life(fixed()), extensions)
    url = given["oauth.token.endpoint.uri"]
    if not url:
        raise ConfigError(
            "sasl.jaas.config has no oauth.token.endpoint.uri, which Strimzi's login needs.",
            hint="Add it, or oauth.access.token.",
        )
    return Tokens(lambda: _endpoint_of(given, url).fetch(), extensions)


def _endpoint_of(given: Mapping[str, str], url: str) -> TokenEndpoint:
    """Made for each request: a file may hold another secret by then."""
    client_id, secret = given["oauth.client.id"], given["oauth.client.secret"]
    form = {"client_id": client_id} if client_id else {}
    refresh = _of_text_or_file(given, "oauth.refresh.token")
    assertion = _of_text_or_file(given, "oauth.client.assertion")
    if given["oauth.password.grant.username"]:
        form |= {
            "grant_type": "password",
            "username": given["oauth.password.grant.username"],
            "password": given["oauth.password.grant.password"],
        }
    elif refresh is not None:
        form |= {"grant_type": "refresh_token", "refresh_token": refresh()}
    else:
        form |= {"grant_type": "client_credentials"}
    if assertion is not None:
        kind = given["oauth.client.assertion.type"] or _JWT_ASSERTION
        form |= {"client_assertion": assertion(), "client_assertion_type": kind}
    form |= {name: given[f"oauth.{name}"] for name in ("scope", "audience") if given[f"oauth.{name}"]}
    return TokenEndpoint(
        url,
        form,
        client_id,
        secret,
        float(given["oauth.read.timeout.seconds"] or given["oauth.connect.timeout.seconds"] or TOKEN_TIMEOUT_S),
        "oauth.read.timeout.seconds in sasl.jaas.config",
        "oauth.token.endpoint.uri",
        _tls_of(given),
    )


def _tls_of(given: Mapping[str, str]) -> Callable[[], ssl.SSLContext] | None:
    """Returns None for the system's authorities."""
    stores = {java: given[name] for name, java in _STORES.items() if given[name]}
    return (lambda: client_context(stores)) if stores else None


def _of_text_or_file(given: Mapping[str, str], name: str) -> Callable[[], str] | None:
    """What an option says, or the file that its twin names; the file is read each time. Errors: ConfigError."""
    text, path = given[name], given[f"{name}.location"]
    if text:
        return lambda: text
    if not path:
        return None

    def read() -> str:
        try:
            return Path(path).read_text("utf-8").strip()
        except OSError as err:
            raise ConfigError(f"{name}.location={path} cannot be read: {err.strerror}") from err

    return read


def _with_its_life(token: str) -> tuple[str, float]:
    """A token with what is left of its life, where it is a JWT that says so."""
    try:
        payload = token.split(".")[1]
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return token, float(claims["exp"]) - time.time()
    except (IndexError, ValueError, KeyError, TypeError):
        return token, 0.0


_MSK_LIFE_S: Final = 900
_MSK_SERVICE: Final = "kafka-cluster"
_MSK_SESSION: Final = "MSKSASLDefaultSession"
# b-1.orders.abc123.c2.kafka.eu-central-1.amazonaws.com, boot-abc.c1.kafka-serverless.us-east-1.amazonaws.com
_REGION_OF_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.")
_MSK_OPTIONS: Final = frozenset(
    {"awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsStsRegion", "awsDebugCreds", "awsMaxRetries"}
)


def msk_tokens(options: Mapping[str, str], servers: str) -> Tokens:
    """Tokens by the options of IAMLoginModule, for the region of the brokers.

    Errors: ConfigError for an option that is not supported, a region that nobody says, a package that is missing.
    """
    if unknown := sorted(options.keys() - _MSK_OPTIONS):
        raise ConfigError(
            f"sasl.jaas.config has the option {unknown[0]}, which is not supported here.",
            hint=f"Supported are {', '.join(sorted(_MSK_OPTIONS))}.",
        )
    if find_spec("botocore") is None:
        raise ConfigError("sasl.mechanism=AWS_MSK_IAM needs the package botocore", hint="pip install 'kconnect[msk]'")
    found = _REGION_OF_HOST.search(servers)
    region = found[1] if found else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigError(
            "sasl.mechanism=AWS_MSK_IAM needs the region of the brokers, which bootstrap.servers does not name.",
            hint="Set AWS_REGION in the environment of the worker.",
        )
    return Tokens(lambda: (signed_token(region, options), float(_MSK_LIFE_S)))


def signed_token(region: str, options: Mapping[str, str]) -> str:
    """Errors: ConnectError where there are no credentials, or a role is refused."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        credentials = _credentials(region, options)
        request = AWSRequest("GET", f"https://kafka.{region}.amazonaws.com/?Action={_MSK_SERVICE}%3AConnect")
        SigV4QueryAuth(credentials, _MSK_SERVICE, region, expires=_MSK_LIFE_S).add_auth(request)
    except (BotoCoreError, ClientError) as err:
        raise ConnectError(f"A token for Amazon MSK cannot be signed: {err}") from err
    return base64.urlsafe_b64encode(f"{request.url}&User-Agent=kconnect".encode()).rstrip(b"=").decode()


def _credentials(region: str, options: Mapping[str, str]) -> Any:  # botocore has no types
    from botocore.credentials import Credentials
    from botocore.session import Session

    session = Session(profile=options.get("awsProfileName"))
    found = session.get_credentials()
    if found is None:
        raise ConnectError(
            "A token for Amazon MSK cannot be signed: no AWS credentials were found.",
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, give the machine a role, or name awsProfileName.",
        )
    if role := options.get("awsRoleArn"):
        sts = session.create_client("sts", region_name=options.get("awsStsRegion") or region)
        name = options.get("awsRoleSessionName") or _MSK_SESSION
        assumed = sts.assume_role(RoleArn=role, RoleSessionName=name)["Credentials"]
        return Credentials(assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"])
    return found.get_frozen_credentials()
