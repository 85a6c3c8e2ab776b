"""The worker with guarded REST: its settings reach the server, and wrong ones end the start with a sentence."""

from __future__ import annotations

import json

import pytest

from kconnect.client import ClientAccess, ConnectClient
from kconnect.errors import ConnectError
from kconnect.worker import EXIT_WORKER, StandaloneWorker, StartupError
from kit.certificates import Authority
from kit.memory_launcher import MemoryLauncher
from kit.pace import now

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
STRING = "org.apache.kafka.connect.storage.StringConverter"


def worker_of(tmp_path, bootstrap, settings):
    props = {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": "http://127.0.0.1:0",
        **settings,
    }
    return StandaloneWorker(props, file=tmp_path / "worker.properties", launcher=lambda _: MemoryLauncher())


@pytest.mark.broker
def test_https_users_admin_listeners_and_the_advertised_address_of_the_workers_settings_hold(tmp_path, broker):
    authority = Authority()
    ca = str(authority.file(tmp_path / "ca.pem"))
    users = tmp_path / "users.properties"
    users.write_text("ann=s3cret\n")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f'KafkaConnect {{ {MODULE} required file="{users}"; }};')
    settings = {
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.location": str(authority.sign("w").pem_file(tmp_path / "w.pem")),
        "rest.extension.classes": EXTENSION,
        "kconnect.jaas.file": str(jaas),
        "admin.listeners": "",
        "rest.advertised.host.name": "advertised.example",
        "rest.advertised.port": "9999",
        "rest.advertised.listener": "https",
    }
    access = ClientAccess(user="ann", password="s3cret", ca=ca)
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "t-guarded"}
    with (
        worker_of(tmp_path, broker.bootstrap, settings) as worker,
        ConnectClient(worker.rest_url, access=access) as client,
    ):
        client.create_connector("guarded", source)
        assert client.connector_status("guarded").connector.worker_id == "advertised.example:9999"
        with pytest.raises(ConnectError, match="404"):
            client.loggers()
        with (
            ConnectClient(worker.rest_url, access=ClientAccess(ca=ca)) as stranger,
            pytest.raises(ConnectError) as caught,
        ):
            stranger.connectors()
    assert "refuses a caller without a user" in str(caught.value)


ROLES = """
[[grant]]
role = "admin"
users = ["ann"]

[[grant]]
role = "editor"
users = ["eve"]
connectors = ["eve-*"]
files = ["{folder}/eves"]
"""


def refused(client: ConnectClient, config: dict[str, str], why: str) -> None:
    with pytest.raises(ConnectError, match=why):
        client.create_connector("eve-x", config)
    assert client.connectors() == []


@pytest.mark.broker
def test_an_editor_becomes_no_administrator_and_nobody_touches_the_files_of_the_guard(tmp_path, broker):
    users, jaas, roles = tmp_path / "users.properties", tmp_path / "jaas.conf", tmp_path / "roles.toml"
    users.write_text("ann=s3cret\neve=s3cret\n")
    jaas.write_text(f'KafkaConnect {{ {MODULE} required file="{users}"; }};')
    roles.write_text(ROLES.format(folder=tmp_path))
    (tmp_path / "eves").mkdir()
    (tmp_path / "eves" / "link").symlink_to(roles)
    settings = {
        "rest.extension.classes": EXTENSION,
        "kconnect.jaas.file": str(jaas),
        "kconnect.rest.roles.file": str(roles),
        "kconnect.audit.log.file": str(tmp_path / "audit.log"),
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
    }
    with worker_of(tmp_path, broker.bootstrap, settings) as worker:
        of = {
            name: ConnectClient(worker.rest_url, access=ClientAccess(user=name, password="s3cret"))
            for name in ("ann", "eve")
        }
        with of["ann"] as ann, of["eve"] as eve:
            # lines of a file that become a grant, then a sink over the roles: the way that was found
            source = {"connector.class": "FileStreamSource", "file": "o.txt", "topic": "eve-roles"}
            refused(
                eve, source, "User eve may not give connector eve-x this config: file names o.txt, a path of this m"
            )
            sink = {"connector.class": "FileStreamSink", "topics": "eve-roles"}
            refused(eve, {**sink, "file": str(roles)}, "that the grant's files do not hold")
            refused(eve, {"connector.class": "PythonSource", "function": "os:getcwd", "topic": "t"}, "runs code")
            # the files of the guard: not even by an administrator, by whatever name
            for file in (roles, users, jaas, tmp_path / "audit.log", tmp_path / "eves" / "link", f"file:{roles}"):
                refused(ann, {**sink, "file": str(file)}, "is a file of the worker's security, which no")
            refused(eve, {**sink, "file": str(tmp_path / "eves" / "link")}, "do not hold")
            throughput = {"connector.class": "VerifiableSource", "throughput": "1"}
            secret = f"${{file:{users}:ann}}"
            refused(ann, {**throughput, "topic": "t", "label": secret}, "no config refers to")
            for folder in (tmp_path, tmp_path / "eves"):
                (folder / "db.properties").write_text("password=s3cr3t")
            named = {**throughput, "topic": f"${{file:{tmp_path}/db.properties:password}}"}
            for client in (ann, eve):
                refused(client, named, "is a secret, and topic is a name that everybody sees")
            written = {**throughput, "topic": "eve-t", "label": f"${{file:{tmp_path}/eves/db.properties:password}}"}
            refused(eve, written, "a file that the grant lets connectors write")
            with pytest.raises(ConnectError, match="runs code"):  # which would import the module
                eve.validate("PythonSource", {"connector.class": "PythonSource", "name": "eve-x", "topic": "t"})
            eve.create_connector("eve-x", {**source, "file": str(tmp_path / "eves" / "in.txt")})
    assert roles.read_text() == ROLES.format(folder=tmp_path)
    entries = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [entry["status"] for entry in entries if entry["user"] == "eve"][:3] == [403] * 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listeners": "https://127.0.0.1:0"}, r"listeners\.https\.ssl\.keystore\.location is not set"),
        ({"rest.extension.classes": EXTENSION}, "needs a JAAS file"),
        ({"rest.extension.classes": "com.example.Guard"}, "cannot run here"),
        ({"admin.listeners": "ftp://:1"}, r"admin\.listeners: Listener protocol must be"),
    ],
)
def test_a_guard_that_can_not_stand_ends_the_start_with_exit_code_2_and_names_the_file(tmp_path, settings, message):
    began = now()
    with pytest.raises(StartupError, match=message) as caught:
        worker_of(tmp_path, "127.0.0.1:1", settings).start()
    assert caught.value.exit_code == EXIT_WORKER
    assert "worker.properties" in f"{caught.value}{caught.value.hint}"
    assert now() - began < 3
