"""A secret whose setting has a harmless name: no command on the topics shows it while the connector's class is here."""

from __future__ import annotations

import json

import pytest

from kconnect_cli.app import run
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
    ],
    ids=lambda command: " ".join(word for word in command if "{" not in word),
)
def test_what_the_class_types_as_password_is_shown_by_no_command(cluster, monkeypatch, capsys, tmp_path, command):
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(list(command)) == 0
    told = capsys.readouterr()
    assert "hunter" not in told.out + told.err
    assert "pin" in told.out + told.err


def test_secrets_are_shown_to_who_asks(cluster, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(["topics", "config", "get", "connector-v", "--show-secrets"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["pin"] == "hunter-2"
