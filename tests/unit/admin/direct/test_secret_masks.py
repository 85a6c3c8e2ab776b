"""No secret is shown that was not asked for: by the names of settings, and by what connector classes say of theirs."""

from __future__ import annotations

import json
import sys

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.history.connector_history import config_history, history_to_json
from kconnect.admin.direct.read.installed_plugins import InstalledConnectors, secret_masks
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.logs.redaction import HIDDEN
from kconnect.model import ConnectorType, LogRecord, TaskId
from kconnect.runtime.storage.config_topic import encode_commit, encode_connector, encode_session_key, encode_task
from kconnect.runtime.storage.session_key import SessionKey

CONFIG = InternalTopic.CONFIG
SECRET = {"connector.class": "X", "db.password": "hunter2", "other.password": "${file:/run/db:pw}"}
PLUGIN = """
from kconnect.api import ConfigDef, SinkConnector, Transformation


class VaultSink(SinkConnector):
    def config(self):
        text, secret = ConfigDef.Type.STRING, ConfigDef.Type.PASSWORD
        return ConfigDef().define("door", text, "").define("pin", secret, None)

    def start(self, props): ...
    def stop(self): ...
    def task_class(self): raise NotImplementedError
    def task_configs(self, max_tasks): return []


class Mute(VaultSink):
    def config(self):
        raise RuntimeError("not today")


class Cipher(Transformation):
    def config(self):
        return ConfigDef().define("spice", ConfigDef.Type.PASSWORD)

    def configure(self, props): ...
    def apply(self, record): return record
"""


def typed(config: dict[str, str]) -> set[str]:
    """What two classes say of their settings."""
    return {"Vault": {"pin"}, "Safe": {"code"}}.get(config.get("connector.class", ""), set())


@pytest.mark.parametrize("written", [encode_connector("x", SECRET), encode_task(TaskId("x", 0), SECRET)])
def test_secrets_of_connectors_and_tasks_are_masked_and_references_are_not(written):
    key, value = written
    found = json.loads(SecretMasks().value(CONFIG, key, value))["properties"]
    assert found == {**SECRET, "db.password": HIDDEN} == SecretMasks().settings("x", SECRET)
    assert SecretMasks(reveal=True).value(CONFIG, key, value) == value


def test_a_reference_with_a_secret_behind_it_is_masked():
    assert SecretMasks().settings("x", {"a.password": "${x}hunter2"}) == {"a.password": HIDDEN}


def test_a_value_without_secrets_keeps_its_bytes():
    value = b'{"properties" : {"b":"1", "a":"2"}}'
    assert SecretMasks().value(CONFIG, b"connector-x", value) == value


def test_the_session_key_is_never_shown_unasked():
    key, value = encode_session_key(SessionKey(b"0123456789", "HmacSHA256", 5))
    masked = json.loads(SecretMasks().value(CONFIG, key, value))
    assert masked == {"key": HIDDEN, "algorithm": "HmacSHA256", "creation-timestamp": 5}


@pytest.mark.parametrize(
    "value", [b'{"properties":{"db.password":"hunter2"', b'["hunter2"]', b'{"properties":"hunter2"}']
)
def test_of_a_malformed_config_nothing_is_shown(value):
    assert SecretMasks().value(CONFIG, b"connector-x", value) == HIDDEN.encode()
    assert b"hunter2" not in SecretMasks().value(CONFIG, b"task-x-0", value)


@pytest.mark.parametrize("nested", [{"password": "hunter2"}, ["hunter2"]])
def test_a_setting_that_is_no_text_but_holds_others_is_masked(nested):
    value = json.dumps({"properties": {"db": nested, "port": 5}}).encode()
    assert json.loads(SecretMasks().value(CONFIG, b"connector-x", value))["properties"] == {"db": HIDDEN, "port": 5}


def test_what_the_class_types_as_password_is_masked_in_the_connector_and_its_tasks():
    masks = SecretMasks(typed)
    config = {"connector.class": "Vault", "pin": "1234", "code": "no secret of this class"}
    key, value = encode_connector("x", config)
    assert json.loads(masks.value(CONFIG, key, value))["properties"] == {**config, "pin": HIDDEN}
    # A task's config need not have the class
    assert masks.settings("x", {"pin": "1234", "door": "7"}) == {"pin": HIDDEN, "door": "7"}
    assert masks.settings("y", {"pin": "of another connector"}) == {"pin": "of another connector"}
    assert masks.settings("x", {"connector.class": "Vault", "pin": "${file:/run/x:pin}"})["pin"] == "${file:/run/x:pin}"


def test_tasks_before_their_connector_are_masked_when_its_class_was_learnt():
    masks = SecretMasks(typed)
    masks.learn({"x": {"connector.class": "Vault"}})
    key, value = encode_task(TaskId("x", 3), {"pin": "1234"})
    assert b"1234" not in masks.value(CONFIG, key, value)


def test_a_change_of_class_uncovers_nothing_of_before():
    records = [
        LogRecord("c", 0, offset, key, value, 0)
        for offset, (key, value) in enumerate(
            (
                encode_connector("x", {"connector.class": "Vault", "pin": "1234"}),
                encode_task(TaskId("x", 0), {"pin": "1234"}),
                encode_commit("x", 1),
                encode_connector("x", {"connector.class": "Safe", "code": "5678"}),
            )
        )
    ]
    reported = json.dumps(history_to_json(config_history(records, "x"), SecretMasks(typed)))
    assert "1234" not in reported
    assert "5678" not in reported


def test_classes_that_are_installed_here_or_in_plugin_path_tell_their_passwords(tmp_path, monkeypatch):
    (tmp_path / "vault_of_masks.py").write_text(PLUGIN)
    installed = InstalledConnectors(str(tmp_path))
    monkeypatch.setattr("sys.path", [*sys.path])  # put back at the end, without the folder
    assert installed.connector_type("VaultSink") is ConnectorType.SINK
    assert set(installed.password_keys({"connector.class": "VaultSink"})) == {"pin"}
    assert "connection.password" in installed.password_keys({"connector.class": "SqlSink"})
    for unknown in ("io.debezium.connector.mysql.MySqlConnector", "vault_of_masks.Mute", ""):
        assert not installed.password_keys({"connector.class": unknown})
    chain = {"transforms": "a, b", "transforms.a.type": "vault_of_masks.Cipher", "transforms.b.type": "none"}
    config = {"connector.class": "vault_of_masks.VaultSink", "pin": "1234", "transforms.a.spice": "salt", **chain}
    masks = secret_masks(ClusterAccess({"plugin.path": str(tmp_path)}))
    assert masks.settings("v", config) == {**config, "pin": HIDDEN, "transforms.a.spice": HIDDEN}
    assert secret_masks(ClusterAccess({}), reveal=True).settings("v", config)["pin"] == "1234"
