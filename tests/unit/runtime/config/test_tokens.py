"""Tokens for logins that librdkafka does not have: Strimzi's options at a real endpoint, Amazon MSK's signature."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kconnect.errors import ConfigError, ConnectError, UnreachableError
from kconnect.runtime.config.client_security import security_settings
from kconnect.runtime.config.tokens import Tokens, strimzi_tokens
from kit.json_server import Server

STRIMZI = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MSK = {
    "bootstrap.servers": "b-1.orders.a1b2c3.c2.kafka.eu-central-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


@pytest.fixture
def endpoint() -> Iterator[Server]:
    server = Server()
    server.answer = lambda path, query, headers: (200, {}, {"access_token": "t-1", "expires_in": 60})
    yield server
    server.close()


def posted(server: Server) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(server.bodies[-1]).items()}


def of_jaas(**options: str) -> dict[str, Any]:
    """Translated settings of a worker file of Strimzi's."""
    text = " ".join(f'{key.replace("__", ".")}="{value}"' for key, value in options.items())
    settings, warnings = security_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": STRIMZI,
            "sasl.jaas.config": f"{OAUTH} required {text};",
        }
    )
    assert warnings == []
    return settings


def test_strimzis_client_credentials_are_posted_with_scope_and_audience(endpoint: Server) -> None:
    tokens = of_jaas(
        oauth__token__endpoint__uri=endpoint.url,
        oauth__client__id="connect",
        oauth__client__secret="s3cret",
        oauth__scope="kafka",
        oauth__audience="brokers",
        oauth__sasl__extension__tenant="blue",
        oauth__username__claim="sub",
    )["oauth_cb"]
    before_s = time.time()
    token, ends_at_s, _, extensions = tokens("")
    assert (token, extensions) == ("t-1", {"tenant": "blue"})
    assert before_s + 50 < ends_at_s < time.time() + 61
    assert posted(endpoint) == {
        "grant_type": "client_credentials",
        "client_id": "connect",
        "scope": "kafka",
        "audience": "brokers",
    }
    (_, _, headers) = endpoint.requests[0]
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"connect:s3cret").decode()
    assert tokens.get() == "t-1"
    assert len(endpoint.bodies) == 1  # kept


def test_other_grants_of_strimzis_are_posted(endpoint: Server, tmp_path: Path) -> None:
    base = {"oauth.token.endpoint.uri": endpoint.url, "oauth.client.id": "c"}
    strimzi_tokens({**base, "oauth.password.grant.username": "u", "oauth.password.grant.password": "p"}).get()
    assert posted(endpoint) == {"grant_type": "password", "client_id": "c", "username": "u", "password": "p"}
    strimzi_tokens({**base, "oauth.refresh.token": "r"}).get()
    assert posted(endpoint) == {"grant_type": "refresh_token", "client_id": "c", "refresh_token": "r"}
    (tmp_path / "jwt").write_text("a.b.c\n")
    strimzi_tokens({**base, "oauth.client.assertion.location": str(tmp_path / "jwt")}).get()
    assert posted(endpoint) == {
        "grant_type": "client_credentials",
        "client_id": "c",
        "client_assertion": "a.b.c",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }


def test_a_token_that_is_given_lives_as_long_as_it_says(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + 500}).encode()).rstrip(b"=").decode()
    tokens = strimzi_tokens({"oauth.access.token": f"h.{claims}.s"})
    assert 490 < tokens("")[1] - time.time() < 501
    (tmp_path / "token").write_text("opaque")
    tokens = strimzi_tokens({"oauth.access.token.location": str(tmp_path / "token")})
    assert tokens.get() == "opaque"
    with pytest.raises(ConfigError, match=r"oauth\.access\.token\.location=/none cannot be read: No such file"):
        strimzi_tokens({"oauth.access.token.location": "/none"}).get()


def test_options_may_stand_in_the_environment(endpoint: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAUTH_TOKEN_ENDPOINT_URI", endpoint.url)
    monkeypatch.setenv("OAUTH_CLIENT_ID", "of-env")
    strimzi_tokens({}).get()
    assert posted(endpoint)["client_id"] == "of-env"


def test_what_is_wrong_with_an_option_or_an_answer_is_said_without_secrets(endpoint: Server) -> None:
    with pytest.raises(ConfigError, match=r"the option oauth\.magic, which is not supported here"):
        strimzi_tokens({"oauth.magic": "x"})
    with pytest.raises(ConfigError, match=r"no oauth\.token\.endpoint\.uri"):
        strimzi_tokens({"oauth.client.id": "c"})
    given = {"oauth.token.endpoint.uri": endpoint.url, "oauth.client.id": "c", "oauth.client.secret": "hidden"}
    endpoint.answer = lambda path, query, headers: (401, {}, {})
    with pytest.raises(ConnectError, match="status 401") as refused:
        strimzi_tokens(given).get()
    assert "hidden" not in f"{refused.value} {refused.value.hint}"
    endpoint.answer = lambda path, query, headers: (503, {}, {})
    with pytest.raises(UnreachableError, match="answers 503"):
        strimzi_tokens(given).get()


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-1.orders.a1b2c3.c2.kafka.eu-central-1.amazonaws.com:9098", "eu-central-1"),
        ("boot-abc.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("kafka.internal:9098", "ap-south-1"),
    ],
)
def test_amazon_msks_tokens_are_signed_requests_of_the_brokers_region(
    servers: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As aws-msk-iam-sasl-signer 1.0.2 makes them, to the byte but for time and user agent."""
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tok/en==")
    settings, warnings = security_settings({**MSK, "bootstrap.servers": servers})
    assert (settings["sasl.mechanism"], warnings) == ("OAUTHBEARER", [])
    tokens = settings["oauth_cb"]
    assert isinstance(tokens, Tokens)
    assert 890 < tokens("")[1] - time.time() < 901
    token = tokens.get()
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert url.netloc == f"kafka.{region}.amazonaws.com"
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].endswith(f"/{region}/kafka-cluster/aws4_request")
    assert query["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert (query["X-Amz-Expires"], query["X-Amz-Security-Token"]) == ("900", "tok/en==")
    assert len(query["X-Amz-Signature"]) == 64
    assert "hidden" not in url.query


def test_what_amazon_msk_needs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=r"needs the region of the brokers") as reported:
        security_settings({**MSK, "bootstrap.servers": "kafka.internal:9098"})
    assert reported.value.hint == "Set AWS_REGION in the environment of the worker."
    jaas = 'software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="none";'
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    settings, _ = security_settings({**MSK, "sasl.jaas.config": jaas})
    with pytest.raises(ConnectError, match=r"A token for Amazon MSK cannot be signed: .*\(none\)"):
        settings["oauth_cb"].get()
    with pytest.raises(ConfigError, match="the option user, which is not supported here"):
        security_settings({**MSK, "sasl.jaas.config": 'x.IAMLoginModule required user="u";'})


def test_identity_pools_of_confluents_cloud_are_extensions() -> None:
    pool = 'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2"'
    jaas = f'{OAUTH} required clientId="i" clientSecret="s" {pool};'
    settings, _ = security_settings(
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": jaas,
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
            "OAuthBearerLoginCallbackHandler",
        }
    )
    assert settings["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1,identityPoolId=pool-2"
    assert settings["sasl.oauthbearer.method"] == "oidc"


def test_event_hubs_connection_string_is_a_password() -> None:
    password = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=a+b/c=="
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings, _ = security_settings(
        {
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} required username="$ConnectionString" password="{password}";',
        }
    )
    assert (settings["sasl.username"], settings["sasl.password"]) == ("$ConnectionString", password)


def test_a_login_of_an_unknown_class_says_what_to_write_instead() -> None:
    with pytest.raises(ConfigError, match=r"names com\.acme\.Login, which is unknown here") as reported:
        security_settings({"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.acme.Login"})
    assert "sasl.oauthbearer.token.endpoint.url" in str(reported.value.hint)


@pytest.mark.parametrize(
    ("handler", "instead"),
    [
        ("com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler", "token.endpoint.url=http://localhost:14293"),
        ("io.confluent.kafka.clients.plugins.auth.token.TokenUserLoginCallbackHandler", "at an identity provider"),
    ],
)
def test_a_handler_of_a_vendors_has_a_hint_of_its_own(handler: str, instead: str) -> None:
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": handler}
    with pytest.raises(ConfigError, match="unknown here") as reported:
        security_settings(login)
    assert instead in str(reported.value.hint)


def test_amazons_handler_for_oauthbearer_is_amazons_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """As aws-msk-iam-auth has it since 2.1, beside AWS_MSK_IAM."""
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    kinds = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f'{OAUTH} required awsProfileName="p";'}
    settings, warnings = security_settings({**login, **dict.fromkeys(kinds, handler)})
    assert (settings["sasl.mechanism"], warnings) == ("OAUTHBEARER", [])
    assert isinstance(settings["oauth_cb"], Tokens)


def test_a_delegation_token_is_refused_before_a_broker_refuses_its_name() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    entry = f'{module} required username="id" password="hmac" tokenauth="true";'
    with pytest.raises(ConfigError, match="delegation token, by which librdkafka cannot log in"):
        security_settings({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": entry})
