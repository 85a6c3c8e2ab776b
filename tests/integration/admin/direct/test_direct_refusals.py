"""Brokers that want a login or refuse one, and rights that are not granted: each error names the setting to correct."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from kconnect_cli.app import run
from kit.guarded_broker import add_rules, login_of
from kit.pace import ample_s
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

USER = "reader"


@pytest.fixture(scope="module")
def guarded(broker, tmp_path_factory):
    """A cluster of which `reader` may read the config topic only; gives it and the address that wants a login."""
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("guarded")) as cluster:
        cluster.add_connector("src", {"connector.class": "FileStreamSource"})
        allowed = AclOperation.READ, AclOperation.DESCRIBE
        topic = cluster.worker["config.storage.topic"]
        add_rules(broker.bootstrap, ResourceType.TOPIC, topic, f"User:{USER}", *allowed)
        yield cluster, broker.guarded


@pytest.fixture
def topics(guarded, capfd, tmp_path, monkeypatch):
    """Run `connect topics ARGS` as a client with these properties; gives code, stdout, stderr."""
    cluster, bootstrap = guarded
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def call(*args: str, timeout_s: float = 3, **client: str):
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in client.items()))
        where = ("--worker", str(cluster.worker_file), "--bootstrap-servers", bootstrap)
        code = run(["topics", *args, *where, "--command-config", str(file), "--timeout", f"{ample_s(timeout_s):.0f}s"])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def login(password: str | None = None) -> dict[str, str]:
    return {key.replace(".", "_"): value for key, value in login_of(USER, password).items()}


def test_with_the_login_what_may_be_read_is_shown(topics):
    code, out, err = topics("config", "show", "-o", "name", **login())
    assert (code, out, err) == (0, "src\n", "")


def test_a_broker_that_wants_a_login_names_the_setting(topics):
    code, out, err = topics("config", "show", security_protocol="PLAINTEXT")
    assert (code, out) == (5, "")
    assert "security.protocol (SSL, SASL_PLAINTEXT, SASL_SSL)" in err


def test_a_wrong_password_names_the_setting_and_not_the_password(topics):
    code, out, err = topics(
        "config", "show", timeout_s=1, **login("wrong-password")
    )  # waited out: it may be right soon
    assert (code, out) == (1, "")
    assert "refuses the login" in err
    assert "sasl.jaas.config" in err
    assert "wrong-password" not in err


@pytest.mark.parametrize("word", ["status", "offsets"])
def test_rights_that_are_not_granted_are_reported(word, topics, guarded):
    code, out, err = topics(word, "show", **login())
    assert (code, out) == (1, "")
    assert guarded[0].worker[f"{word.removesuffix('s') if word == 'offsets' else word}.storage.topic"] in err
    assert "uthoriz" in err
    assert f"User:{USER} lacks " in err
    assert "Grant it: kafka-acls " in err
