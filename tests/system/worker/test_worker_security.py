"""The worker with guarded REST: its settings reach the server, and wrong ones end the start with a sentence."""

from __future__ import annotations

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
