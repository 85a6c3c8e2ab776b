"""One set of settings, Java's worker and ours: who gets in by https, client certificate, user and password."""

from __future__ import annotations

import base64
import http.client
import itertools
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kconnect.client import ClientAccess, ConnectClient
from kconnect.client.trust import trusting
from kconnect.errors import ConnectError, UnreachableError
from kconnect.java.devbroker import DevBroker
from kconnect.runtime.config import StandaloneConfig
from kconnect.runtime.rest import RestOptions, RestServer
from kit.certificates import Authority, Identity
from kit.java_connect import JVM_OPTIONS, JavaConnect
from kit.memory_herder import MemoryHerder
from kit.pace import ample_s
from kit.ports import free_port
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.timeout(120)]

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
PATHS = ("/", "/connectors", "/health", "/nope", "/admin/loggers", "/openapi.json")
# What we do otherwise on purpose: (path, with a user) -> (Java, ours). Nobody learns our routes without a user.
DIFFERENT = {
    ("/nope", False): (404, 401),
    ("/openapi.json", True): (404, 200),
    ("/openapi.json", False): (404, 401),
}


class Site:
    """Stores, users and the settings that name them, as a Java worker takes them."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.ca = str(self.authority.file(folder / "ca.pem"))
        self.friend: Identity = self.authority.sign("friend")
        self.friend_pem = str(self.friend.pem_file(folder / "friend.pem"))
        (folder / "users.properties").write_text("ann=s3cret\n")
        self.jaas = folder / "jaas.conf"
        self.jaas.write_text(f'KafkaConnect {{ {MODULE} required file="{folder / "users.properties"}"; }};\n')
        worker = self.authority.sign("worker")
        key_store = worker.p12_file(folder / "worker.p12", "store-pass", self.authority)
        self.settings = {
            "listeners.https.ssl.keystore.location": str(key_store),
            "listeners.https.ssl.keystore.type": "PKCS12",
            "listeners.https.ssl.keystore.password": "store-pass",
            "listeners.https.ssl.key.password": "store-pass",
            "listeners.https.ssl.truststore.location": str(self._trust_store(folder)),
            "listeners.https.ssl.truststore.type": "PKCS12",
            "listeners.https.ssl.truststore.password": "store-pass",
            "listeners.https.ssl.client.auth": "required",
            "rest.extension.classes": EXTENSION,
            "response.http.headers.config": "add X-One: 1, set X-Frame-Options: DENY",
            "access.control.allow.origin": "https://ui.example.com",
            "access.control.allow.methods": "GET,PUT",
        }

    def _trust_store(self, folder: Path) -> Path:
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        entry = pkcs12.PKCS12Certificate(self.authority.identity.certificate, b"ca")
        path = folder / "trust.p12"
        path.write_bytes(pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(b"store-pass")))
        return path

    @property
    def access(self) -> ClientAccess:
        return ClientAccess(user="ann", password="s3cret", ca=self.ca, cert=self.friend_pem)

    def context(self) -> ssl.SSLContext:
        context = trusting(self.ca)
        context.load_cert_chain(self.friend_pem)
        return context


@contextmanager
def _ours(site: Site) -> Iterator[str]:
    settings = {
        **site.settings,
        "bootstrap.servers": "localhost:1",
        "key.converter": "x",
        "value.converter": "x",
        "offset.storage.file.filename": "x",
        "listeners": "https://127.0.0.1:0",
    }
    config = StandaloneConfig.parse(settings, lambda name: name)
    env = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={site.jaas}"}
    with RestServer(MemoryHerder(), config.listeners, None, RestOptions.parse(config, env)) as server:
        yield server.urls[0]


@contextmanager
def _javas(site: Site, folder: Path, bootstrap: str) -> Iterator[str]:
    url = f"https://127.0.0.1:{free_port()}"
    java = JavaConnect(
        folder / "java",
        bootstrap,
        worker={**site.settings, "listeners": url},
        jvm_options=(*JVM_OPTIONS, f"-Djava.security.auth.login.config={site.jaas}"),
    )
    java.start(ready=False)
    try:
        eventually(lambda: _is_up(url, site), 60, "Java's worker answers by https", pause_s=0.2)
        yield url
    finally:
        java.stop()


def _is_up(url: str, site: Site) -> bool:
    with ConnectClient(url, access=site.access) as client:
        try:
            return client.health()["status"] == "healthy"
        except (ConnectError, KeyError):
            return False


def test_java_and_ours_let_the_same_callers_in_and_answer_with_the_same_headers(
    broker: DevBroker, tmp_path: Path
) -> None:
    site = Site(tmp_path)
    with _javas(site, tmp_path, broker.bootstrap) as java, _ours(site) as ours:
        for url in (java, ours):
            _check_client(url, site)
        for method, path, user in itertools.product(("GET", "OPTIONS"), PATHS, (True, False)):
            theirs, mine = (_ask(url, method, path, site, user=user) for url in (java, ours))
            expected = DIFFERENT.get((path, user), (theirs[0], theirs[0]))
            assert (theirs[0], mine[0]) == expected, (method, path, user)
            for name in ("vary", "access-control-allow-origin", "x-one", "x-frame-options"):
                assert mine[1].get(name) == theirs[1].get(name), (method, path, user, name)


def _check_client(url: str, site: Site) -> None:
    with ConnectClient(url, access=site.access) as client:
        assert client.connectors() == []
    with (
        ConnectClient(
            url, access=ClientAccess(user="ann", password="wrong", ca=site.ca, cert=site.friend_pem)
        ) as client,
        pytest.raises(ConnectError, match=r"refuses user ann \(401\)"),
    ):
        client.connectors()
    with (
        ConnectClient(url, access=ClientAccess(user="ann", password="s3cret", ca=site.ca)) as client,
        pytest.raises(UnreachableError) as caught,
    ):
        client.connectors()
    assert "client certificate" in f"{caught.value}{caught.value.hint}"


def _ask(url: str, method: str, path: str, site: Site, *, user: bool) -> tuple[int, dict[str, str]]:
    headers = {"Origin": "https://ui.example.com"}
    if user:
        headers["Authorization"] = "Basic " + base64.b64encode(b"ann:s3cret").decode()
    connection = http.client.HTTPSConnection(urlsplit(url).netloc, context=site.context(), timeout=ample_s(10))
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, {key.lower(): value for key, value in response.getheaders()}
    finally:
        connection.close()
