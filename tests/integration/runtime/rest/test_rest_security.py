"""https, client certificates, basic auth and admin listeners on real sockets, with certificates made here."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kconnect.client import ClientAccess, ConnectClient
from kconnect.client.trust import trusting
from kconnect.errors import ConfigError, ConnectError, EnvironmentProblemError, UnreachableError
from kconnect.runtime.config import StandaloneConfig
from kconnect.runtime.rest import RestOptions, RestServer
from kit.certificates import Authority
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ample_s
from kit.places import GOLDEN
from kit.ports import free_port

RECORDED = GOLDEN / "keystores"
EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
WORKER = {
    "bootstrap.servers": "localhost:1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.file.filename": "offsets",
}


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def server_pem(tmp_path, authority):
    return authority.sign("worker").pem_file(tmp_path / "server.pem")


@pytest.fixture
def ca(tmp_path, authority):
    return str(authority.file(tmp_path / "ca.pem"))


def serving(settings, env=None, herder=None) -> RestServer:
    """A server as a worker with these settings has it."""
    config = StandaloneConfig.parse({**WORKER, "listeners": "http://127.0.0.1:0", **settings}, lambda name: name)
    return RestServer(herder or MemoryHerder(), config.listeners, None, RestOptions.parse(config, env or {}))


def https(settings) -> dict[str, str]:
    prefixed = {f"listeners.https.{key}": str(value) for key, value in settings.items()}
    return {"listeners": "https://127.0.0.1:0", **prefixed}


def users_file(tmp_path, text="ann=s3cret\n") -> Path:
    users = tmp_path / "users.properties"
    users.write_text(text)
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        "// who may call REST\n"
        "KafkaConnect {\n"
        "  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required\n"
        f'  file="{users}";\n'
        "};\n"
    )
    return jaas


def test_http_and_https_are_served_side_by_side(server_pem, ca):
    settings = https({"ssl.keystore.location": server_pem, "ssl.keystore.type": "PEM"})
    settings["listeners"] = "http://127.0.0.1:0,https://127.0.0.1:0"
    with serving(settings) as server:
        plain, secure = server.urls
        assert (plain[:5], secure[:6]) == ("http:", "https:")
        for url in (plain, secure):
            with ConnectClient(url, access=ClientAccess(ca=ca)) as client:
                assert client.create_connector(f"c-{url[:5]}", file_source()).name.startswith("c-")


def test_the_location_of_a_new_connector_is_https_where_it_was_made_by_https(server_pem, ca):
    with serving(https({"ssl.keystore.location": server_pem})) as server:
        context = trusting(ca)
        connection = http.client.HTTPSConnection(urlsplit(server.urls[0]).netloc, context=context, timeout=ample_s(5))
        body = json.dumps({"name": "a", "config": file_source()})
        connection.request("POST", "/connectors", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert (response.status, response.getheader("location")) == (201, f"{server.urls[0]}/connectors/a")
        connection.close()


def test_a_pkcs12_store_is_served(tmp_path, authority, ca):
    store = authority.sign("worker").p12_file(tmp_path / "s.p12", "store-pass", authority)
    settings = https({"ssl.keystore.location": store, "ssl.keystore.password": "store-pass"})
    with serving(settings) as server, ConnectClient(server.urls[0], access=ClientAccess(ca=ca)) as client:
        assert client.connectors() == []


def test_a_jks_store_of_keytool_is_served_without_a_prefix():
    settings = {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": str(RECORDED / "server.jks"),
        "ssl.keystore.password": "store-pass",
        "ssl.key.password": "key-pass",
    }
    access = ClientAccess(ca=str(RECORDED / "server.pem"))
    with serving(settings) as server, ConnectClient(server.urls[0], access=access) as client:
        assert client.connectors() == []


def test_a_required_client_certificate_keeps_strangers_out(tmp_path, authority, server_pem, ca):
    settings = https(
        {"ssl.keystore.location": server_pem, "ssl.truststore.location": ca, "ssl.client.auth": "required"}
    )
    friend = authority.sign("friend").pem_file(tmp_path / "friend.pem", "key-secret")
    stranger = Authority("somebody else").sign("stranger").pem_file(tmp_path / "stranger.pem")
    with serving(settings) as server:
        url = server.urls[0]
        access = ClientAccess(ca=ca, cert=str(friend), key_password="key-secret")
        with ConnectClient(url, access=access) as client:
            assert client.connectors() == []
        for access in (ClientAccess(ca=ca), ClientAccess(ca=ca, cert=str(stranger))):
            with ConnectClient(url, access=access) as client, pytest.raises(UnreachableError) as caught:
                client.connectors()
            assert "client certificate" in f"{caught.value}{caught.value.hint}"
        locked = ClientAccess(ca=ca, cert=str(friend))
        with ConnectClient(url, access=locked) as client, pytest.raises(ConfigError, match=r"friend\.pem cannot be"):
            client.connectors()


def test_a_requested_client_certificate_may_be_left_out_and_must_be_a_good_one(tmp_path, server_pem, ca):
    settings = https(
        {"ssl.keystore.location": server_pem, "ssl.truststore.location": ca, "ssl.client.auth": "requested"}
    )
    stranger = Authority("somebody else").sign("stranger").pem_file(tmp_path / "stranger.pem")
    with serving(settings) as server:
        with ConnectClient(server.urls[0], access=ClientAccess(ca=ca)) as client:
            assert client.connectors() == []
        with (
            ConnectClient(server.urls[0], access=ClientAccess(ca=ca, cert=str(stranger))) as client,
            pytest.raises(UnreachableError),
        ):
            client.connectors()


def test_without_a_trust_store_the_key_store_says_which_clients_are_trusted(tmp_path, authority, ca):
    store = authority.sign("worker").p12_file(tmp_path / "s.p12", "p", authority)
    own = authority.sign("friend").pem_file(tmp_path / "friend.pem")
    settings = https({"ssl.keystore.location": store, "ssl.keystore.password": "p", "ssl.client.auth": "required"})
    with (
        serving(settings) as server,
        ConnectClient(server.urls[0], access=ClientAccess(ca=ca, cert=str(own))) as client,
        pytest.raises(UnreachableError),
    ):
        client.connectors()  # only the worker's own certificate is an anchor there, as in Java
    worker = authority.sign("worker")
    store = worker.p12_file(tmp_path / "t.p12", "p", authority)
    same = worker.pem_file(tmp_path / "same.pem")
    settings["listeners.https.ssl.keystore.location"] = str(store)
    with (
        serving(settings) as server,
        ConnectClient(server.urls[0], access=ClientAccess(ca=ca, cert=str(same))) as client,
    ):
        assert client.connectors() == []


def test_an_expired_certificate_is_reported_on_both_sides(tmp_path, authority, ca, caplog):
    expired = authority.sign("worker", valid_days=-1).pem_file(tmp_path / "old.pem")
    with caplog.at_level(logging.WARNING):
        server = serving(https({"ssl.keystore.location": expired}))
    assert "listeners.https.ssl.keystore expired on" in caplog.text
    with server, ConnectClient(server.urls[0], access=ClientAccess(ca=ca)) as client:
        with pytest.raises(UnreachableError, match=r"not trusted: certificate has expired$") as caught:
            client.connectors()
        assert "The worker needs another one" in (caught.value.hint or "")


def test_an_unknown_authority_and_the_wrong_scheme_are_reported_in_a_sentence(server_pem):
    with serving(https({"ssl.keystore.location": server_pem})) as server:
        with ConnectClient(server.urls[0]) as client, pytest.raises(UnreachableError, match="is not trusted: unable"):
            client.connectors()
        with (
            ConnectClient(server.urls[0].replace("https", "http")) as client,
            pytest.raises(UnreachableError, match="broke off"),
        ):
            client.connectors()
    with serving({}) as server:
        url = server.urls[0].replace("http", "https")
        with ConnectClient(url) as client, pytest.raises(UnreachableError, match="does not speak https"):
            client.connectors()


def test_only_the_enabled_protocols_are_spoken(server_pem, ca):
    settings = https({"ssl.keystore.location": server_pem, "ssl.enabled.protocols": "TLSv1.3"})
    with serving(settings) as server:
        old = trusting(ca)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        connection = http.client.HTTPSConnection(urlsplit(server.urls[0]).netloc, context=old, timeout=ample_s(5))
        with pytest.raises(ssl.SSLError):
            connection.request("GET", "/")
        connection.close()


def test_basic_auth_guards_everything_but_requests_between_workers(tmp_path):
    env = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={users_file(tmp_path)}"}
    with serving({"rest.extension.classes": EXTENSION}, env) as server:
        url = server.urls[0]
        with ConnectClient(url, access=ClientAccess(user="ann", password="s3cret")) as client:
            assert client.connectors() == []
            assert client.health()["status"] == "healthy"
        for access in (None, ClientAccess(user="ann", password="S3cret"), ClientAccess(user="bob", password="")):
            with ConnectClient(url, access=access) as client, pytest.raises(ConnectError, match="refuses"):
                client.connectors()
        assert {ask(url, "GET", path)[0] for path in ("/", "/health", "/nope", "/openapi.json", "/admin/loggers")} == {
            401
        }
        _, headers, body = ask(url, "GET", "/")
        assert headers["www-authenticate"].startswith("Basic realm=")
        assert json.loads(body) == {"error_code": 401, "message": "User cannot access the resource."}
        # they are signed instead, and refused by what answers them
        assert ask(url, "POST", "/connectors/x/tasks", b"[]")[0] != 401
        assert ask(url, "POST", "/connectors/x/tasks/0/restart")[0] == 401


def test_the_jaas_file_may_be_a_setting_of_the_worker(tmp_path):
    settings = {"rest.extension.classes": EXTENSION, "kconnect.jaas.file": str(users_file(tmp_path))}
    with serving(settings) as server:
        assert ask(server.urls[0], "GET", "/")[0] == 401


def test_admin_has_listeners_of_its_own_with_their_own_certificate_and_users(tmp_path, authority, server_pem, ca):
    settings = {
        "listeners": "http://127.0.0.1:0",
        "admin.listeners": "https://127.0.0.1:0",
        "admin.listeners.https.ssl.keystore.location": str(server_pem),
        "rest.extension.classes": EXTENSION,
        "kconnect.jaas.file": str(users_file(tmp_path)),
        "response.http.headers.config": "add X-One: 1",
    }
    with serving(settings) as server:
        access = ClientAccess(user="ann", password="s3cret", ca=ca)
        with ConnectClient(server.admin_urls[0], access=access) as client:
            assert isinstance(client.loggers(), dict)
            with pytest.raises(ConnectError):
                client.connectors()
        context = trusting(ca)
        assert ask(server.admin_urls[0], "GET", "/admin/loggers", context=context)[0] == 401
        with ConnectClient(server.urls[0], access=access) as client, pytest.raises(ConnectError, match="404"):
            client.loggers()


def test_admin_listeners_that_are_empty_switch_admin_off():
    with serving({"admin.listeners": ""}) as server:
        assert server.admin_urls == []
        assert ask(server.urls[0], "GET", "/admin/loggers")[0] == 404
        paths = json.loads(ask(server.urls[0], "GET", "/openapi.json")[2])["paths"]
        assert not [path for path in paths if path.startswith("/admin")]


def test_an_admin_listener_that_can_not_be_had_names_its_setting_and_frees_the_others(tmp_path):
    port = free_port()
    server = serving({"listeners": f"http://127.0.0.1:{port}", "admin.listeners": "http://192.0.2.1:0"})
    with pytest.raises(EnvironmentProblemError, match=r"setting admin\.listeners=http://192\.0\.2\.1:0"):
        server.start()
    with serving({"listeners": f"http://127.0.0.1:{port}"}):
        pass


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listeners": "https://:0"}, r"needs a certificate: listeners\.https\.ssl\.keystore\.location is not set"),
        (
            https({"ssl.keystore.location": RECORDED / "server.jks", "ssl.keystore.password": "wr0ng"}),
            r"^listeners\.https\.ssl\.keystore\.password does not open",
        ),
        (https({"ssl.keystore.location": "/no/file"}), r"/no/file cannot be read: No such file"),
        ({"rest.extension.classes": "com.example.Guard"}, r"a Java class cannot run here"),
        ({"rest.extension.classes": EXTENSION}, "needs a JAAS file, and none is named"),
        ({"access.control.allow.origin": "http://("}, r"access\.control\.allow\.origin"),
        ({"response.http.headers.config": "setDate X: soon"}, "milliseconds from now"),
    ],
)
def test_settings_that_can_not_work_are_refused_in_one_sentence_before_anything_is_bound(settings, message):
    with pytest.raises(ConfigError, match=message) as caught:
        serving(settings)
    assert "wr0ng" not in f"{caught.value}{caught.value.hint}"


def ask(url, method, path, body=None, context=None):
    """Status, headers and body of one request."""
    parts = urlsplit(url)
    if context is not None:
        connection = http.client.HTTPSConnection(parts.netloc, context=context, timeout=ample_s(5))
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=ample_s(5))
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()
    finally:
        connection.close()
