"""Every room that asks over HTTP, against every bad server: each ends in time, and says what, where and what to do."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kconnect.admin.preflight.checks import registry_probes
from kconnect.admin.preflight.probe import run
from kconnect.admin.preflight.results import Verdict
from kconnect.api import ConfigDef, RetriableError
from kconnect.builtin.connectors.http_requests import HttpClient
from kconnect.builtin.schema_registry.registry.registry_http import RegistryHttp
from kconnect.builtin.schema_registry.registry.registry_settings import define_registry, registry_settings
from kconnect.client import ClientAccess, ConnectClient, Request
from kconnect.client.json_post import JsonPost
from kconnect.client.peers import Peers
from kconnect.errors import ConnectError, TimedOutError, UnreachableError
from kconnect.java import repositories
from kconnect.java.maven import ArtifactSet, Jar
from kconnect.runtime.herder.group.errors import Unanswered
from kconnect.runtime.herder.group.security import access
from kit.bad_servers import ILLNESSES, bad_server, untrusted
from kit.pace import now
from kit.ports import free_port

WITHIN_S = 0.3
JAAS = 'x.OAuthBearerLoginModule required clientId="me" clientSecret="s3cret";'


def client(url: str, folder: Path) -> None:
    ConnectClient(url, timeout_s=WITHIN_S, connect_timeout_s=WITHIN_S).connectors()


def registry(url: str, folder: Path) -> None:
    limit = str(round(WITHIN_S * 1000))
    given = {"schema.registry.url": url, "http.read.timeout.ms": limit, "http.connect.timeout.ms": limit}
    settings = registry_settings(define_registry(ConfigDef()).parse(given), given)
    RegistryHttp(settings).ask("GET", "/schemas/ids/7", None, "the schema with id 7", lambda answer: answer)


def webhook(url: str, folder: Path) -> None:
    answer = JsonPost(f"{url}/s3cret", connect_timeout_s=WITHIN_S, timeout_s=WITHIN_S).send(b"{}", {})
    raise ConnectError(f"the answer of {url} came: {answer.status}")  # its body matters to no webhook


def token(url: str, folder: Path) -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": JAAS}
    endpoint = {"sasl.oauthbearer.token.endpoint.url": f"{url}/token", "sasl.login.read.timeout.ms": "300"}
    login = access(settings | endpoint, "me").login
    assert login is not None
    login().first()


def source(url: str, folder: Path) -> None:
    asked = HttpClient(f"{url}/items", {"X-Key": "s3cret"}, None, WITHIN_S, 1 << 20, None)
    asked.ask("GET", f"{url}/items?key=s3cret", None, {})


def peers(url: str, folder: Path) -> None:
    Peers(ClientAccess().tls, WITHIN_S).send(url, Request("GET", "/connectors"))


def downloads(url: str, folder: Path) -> None:
    ArtifactSet("Jars", folder, [Jar("org.example:a:1.0", "0" * 64, 4, frozenset({"x"}))]).fetch()


def check(url: str, folder: Path) -> None:
    (found,) = run(registry_probes([{"schema.registry.url": url}]), 6 * WITHIN_S)  # of which a tenth is for the threads
    assert found.where == url
    if found.verdict is not Verdict.OK:
        raise ConnectError(f"{found.where} {found.message}", hint=found.hint)
    raise ConnectError(f"the answer of {url} came")  # its body matters to no check


USERS: dict[str, tuple[Callable[[str, Path], None], type[Exception] | tuple[type[Exception], ...]]] = {
    "client": (client, (UnreachableError, TimedOutError)),
    "schema registry": (registry, RetriableError),
    "webhook": (webhook, ConnectError),
    "token": (token, Unanswered),
    "HttpJsonSource": (source, ConnectError),
    "peers": (peers, (UnreachableError, TimedOutError)),
    "downloads": (downloads, UnreachableError),
    "connect check": (check, ConnectError),
}


@pytest.fixture(autouse=True)
def settings_of_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven's deadlines are no settings: half a minute would be waited for, three times."""
    monkeypatch.setattr(repositories, "_IDLE_S", WITHIN_S / 3)
    monkeypatch.setattr(repositories, "_PAUSE_S", 0.0)
    monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "jgo.conf"))


def failure(user: str, url: str, folder: Path) -> Exception:
    (folder / "jgo.conf").write_text(f"[repositories]\nlocal = {url}\n")
    ask, kind = USERS[user]
    with pytest.raises((ConnectError, Unanswered)) as caught:
        ask(url, folder / "jars")
    assert isinstance(caught.value, kind)
    assert "s3cret" not in f"{caught.value} {getattr(caught.value, 'hint', None)}"
    assert url.partition("//")[2] in str(caught.value)
    return caught.value


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("illness", ILLNESSES)
def test_a_bad_server_holds_nobody_up_and_is_named(user: str, illness: str, tmp_path: Path) -> None:
    with bad_server(ILLNESSES[illness]) as address:
        began = now()
        failure(user, f"http://{address}", tmp_path)
        assert now() - began < 10 * WITHIN_S, "its deadline was passed by far"


@pytest.mark.parametrize("user", USERS)
def test_nobody_there_is_said_in_the_same_words_with_advice(user: str, tmp_path: Path) -> None:
    error = failure(user, f"http://127.0.0.1:{free_port()}", tmp_path)
    assert "(connection refused)" in str(error)
    assert "obody answers" in str(error)
    if user not in ("webhook", "token"):  # their settings are in the error's frame
        assert isinstance(error, ConnectError)
        assert error.hint


@pytest.mark.parametrize("user", USERS)
def test_a_certificate_that_is_not_trusted_is_said_in_the_same_words(user: str, tmp_path: Path) -> None:
    with bad_server(ILLNESSES["silent"], untrusted(tmp_path)) as address:
        error = failure(user, f"https://{address}", tmp_path)
    assert "shows a certificate that is not trusted: " in str(error)


@pytest.mark.parametrize("user", USERS)
def test_plain_http_behind_an_https_url_is_reported_as_such(user: str, tmp_path: Path) -> None:
    with bad_server(ILLNESSES["speaks another protocol"]) as address:
        error = failure(user, f"https://{address}", tmp_path)
    assert "does not speak https" in str(error)


@pytest.mark.parametrize("user", USERS)
def test_a_tls_handshake_that_nobody_answers_ends_in_time(user: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = now()
        error = failure(user, f"https://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        assert now() - began < 10 * WITHIN_S
    assert "no connection within" in str(error)
