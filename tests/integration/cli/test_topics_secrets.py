"""A secret whose setting has a harmless name: no command on the topics shows it while the connector's class is here."""

from __future__ import annotations

import json

import pytest

from kconnect.admin.direct.access import InternalTopic
from kconnect.model import TargetState
from kconnect_cli.app import run
from kit.topics import consume_values, create_topic, end_offset
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

PLUGIN = """
from kconnect.api import ConfigDef, SinkConnector


class VaultSink(SinkConnector):
    def config(self):
        return ConfigDef().define("door", ConfigDef.Type.STRING, "").define("pin", ConfigDef.Type.PASSWORD, None)

    def start(self, props): ...
    def stop(self): ...
    def task_class(self): raise NotImplementedError
    def task_configs(self, max_tasks): return []
"""
CONFIG = {"connector.class": "vault_of_topics.VaultSink", "topics": "t", "door": "7", "pin": "hunter-2"}


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "plugins").mkdir()
    (folder / "plugins" / "vault_of_topics.py").write_text(PLUGIN)
    with WrittenCluster(broker.bootstrap, folder, more={"plugin.path": str(folder / "plugins")}) as running:
        running.add_connector("v", {**CONFIG, "pin": "hunter-1"}, [{"pin": "hunter-1"}])
        running.add_connector("v", CONFIG, [{"pin": "hunter-2"}])
        moved = {"connector.class": "FileStreamSink", "topics": "t", "file": "a"}
        for config in (CONFIG, {**moved, "pin": "hunter-2"}, moved):
            running.add_connector("moved", config)
        yield running


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "config", "show", "v"),
        ("topics", "config", "show", "-o", "json"),
        ("topics", "config", "show", "--raw"),
        ("topics", "config", "get", "connector-v"),
        ("topics", "config", "get", "task-v-0"),
        ("topics", "config", "history", "v", "--tasks"),
        ("topics", "config", "put", "task-v-0", '{"properties":{"pin":"hunter-3"}}', "--dry-run"),
        ("topics", "config", "put", "task-v-1", '{"properties":{"pin":"hunter-3"}}', "--dry-run", "-o", "json"),
        ("topics", "config", "delete", "connector-v", "task-v-0", "--dry-run"),
        ("topics", "config", "restore", "v", "--at", "0", "--dry-run"),
        ("topics", "export", "-"),
        ("connectors", "show", "v", "--direct"),
        ("connectors", "delete", "v", "--direct", "--dry-run"),
        ("connectors", "delete", "v", "--with-offsets", "--direct", "--dry-run"),
        ("connectors", "copy", "v", "w", "--direct", "--dry-run"),
        ("connectors", "rename", "v", "w", "--direct", "--dry-run"),
        ("config", "history", "v", "--direct"),
        ("config", "history", "v", "--direct", "-o", "json"),
        ("config", "diff", "v", "--direct"),
        ("config", "rollback", "v", "--direct", "--dry-run"),
        ("describe", "v", "--direct"),
        ("describe", "v", "--direct", "-o", "json"),
    ],
    ids=lambda command: " ".join(word for word in command if "{" not in word),
)
def test_what_the_class_types_as_password_is_shown_by_no_command(cluster, monkeypatch, capsys, tmp_path, command):
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(list(command)) == 0
    reported = capsys.readouterr()
    assert "hunter" not in reported.out + reported.err
    assert "pin" in reported.out + reported.err


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "config", "history", "moved", "-o", "json"),
        ("config", "history", "moved", "-o", "json"),
        ("config", "diff", "moved", "-o", "json"),
    ],
    ids=lambda command: " ".join(command),
)
def test_a_secret_that_outlasts_a_change_of_class_is_shown_in_no_history(
    cluster, monkeypatch, capsys, tmp_path, command
):
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(list(command)) == 0
    reported = capsys.readouterr()
    assert "hunter" not in reported.out + reported.err
    assert "pin" in reported.out


def test_what_commands_leave_behind_has_no_secret_and_files_are_for_their_owner_alone(
    cluster, broker, monkeypatch, capsys, tmp_path
):
    """The cluster's history, and whatever else commands that change something write into the user's folders."""
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    for folder in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    create_topic(broker.bootstrap, "vaults")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required username="u" password="hunter-4";'
    config = {**CONFIG, "topics": "vaults", "consumer.override.sasl.jaas.config": login}
    for pin in ("hunter-5", "hunter-6"):
        cluster.add_connector("left", {**config, "pin": pin}, target=TargetState.STOPPED, state=None)
    at_0 = {"partition": {"kafka_topic": "vaults", "kafka_partition": 0}, "offset": {"kafka_offset": 0}}
    (tmp_path / "offsets.json").write_text(json.dumps({"offsets": [at_0]}))
    for command in (
        ("offsets", "alter", "left", "-f", str(tmp_path / "offsets.json")),
        ("offsets", "reset", "left", "--to-latest"),
        ("offsets", "undo", "left"),
        ("config", "rollback", "left"),
        ("connectors", "copy", "left", "left-too"),
        ("connectors", "delete", "left-too", "--with-offsets"),
    ):
        assert run([*command, "--direct", "--yes"]) == 0, capsys.readouterr().err
    assert run(["offsets", "history", "left", "--direct"]) == 0
    reported = capsys.readouterr()
    assert "hunter" not in reported.out + reported.err
    history = f"{cluster.access.topic(InternalTopic.CONFIG)}-history"
    left = consume_values(broker.bootstrap, history, end_offset(broker.bootstrap, history))
    assert left
    assert not [value for value in left if value is not None and b"hunter" in value]
    for path in (path for path in tmp_path.rglob("*") if path.is_file() and path.name != "offsets.json"):
        assert b"hunter" not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0, path


def test_secrets_are_shown_to_who_asks(cluster, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(["topics", "config", "get", "connector-v", "--show-secrets"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["pin"] == "hunter-2"
