"""Settings from variables, by the rules of Confluent's and Debezium's images."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import ConfigError
from kconnect.runtime.config.environment import has_worker, setting_name, worker_of

CONFLUENT = {
    "CONNECT_BOOTSTRAP_SERVERS": "kafka:9092",
    "CONNECT_GROUP_ID": "g",
    "CONNECT_CONFIG_STORAGE_TOPIC": "c",
    "CONNECT_OFFSET_STORAGE_TOPIC": "o",
    "CONNECT_STATUS_STORAGE_TOPIC": "s",
    "CONNECT_KEY_CONVERTER": "StringConverter",
    "CONNECT_VALUE_CONVERTER": "StringConverter",
}
DEBEZIUM = {"BOOTSTRAP_SERVERS": "kafka:9092", "CONFIG_STORAGE_TOPIC": "c", "OFFSET_STORAGE_TOPIC": "o"}
# Words of two letters and more, for which the script's pattern `[^_]_[^_]` finds each underscore between them
WORDS = st.from_regex(r"[A-Z][A-Z0-9]{1,8}", fullmatch=True)


def as_the_script(name: str) -> str:
    """ConvertKey of common-docker's ub.go, step by step."""
    name = re.sub(r"[^_]_[^_]", lambda found: found[0].replace("_", "."), name)
    return name.replace("___", "-").replace("__", "_").lower()


@given(st.lists(st.tuples(WORDS, st.integers(1, 3)), min_size=1, max_size=6))
def test_names_are_converted_as_confluents_script_does(parts: list[tuple[str, int]]) -> None:
    name = "".join(word + "_" * count for word, count in parts).rstrip("_")
    assert setting_name(name) == as_the_script(name)


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("BOOTSTRAP_SERVERS", "bootstrap.servers"),
        ("PRODUCER_SASL_JAAS_CONFIG", "producer.sasl.jaas.config"),
        ("TOPIC_CREATION_MY__GROUP_INCLUDE", "topic.creation.my_group.include"),
        ("CONFIG_PROVIDERS_MY___FILES_CLASS", "config.providers.my-files.class"),
        ("A_B_C", "a.b.c"),
        ("_A_", "_a_"),
        ("A____B", "a-_b"),
    ],
)
def test_one_underscore_is_a_dot_two_are_one_and_three_a_dash(variable: str, setting: str) -> None:
    assert setting_name(variable) == setting


def test_confluents_variables_are_settings_and_those_of_logs_are_not() -> None:
    found = worker_of(CONFLUENT | {"CONNECT_LOG4J_ROOT_LOGLEVEL": "DEBUG", "PATH": "/bin", "GROUP_ID": "other"})
    assert found.properties["group.id"] == "g"
    assert sorted(found.properties) == [
        "bootstrap.servers", "config.storage.topic", "group.id", "key.converter", "offset.storage.topic",
        "status.storage.topic", "value.converter",
    ]  # fmt: skip
    assert found.variables["group.id"] == "CONNECT_GROUP_ID"
    assert found.notes == ()


def test_what_is_missing_is_named_as_the_variable_that_would_set_it() -> None:
    env = {
        name: value for name, value in CONFLUENT.items() if name not in ("CONNECT_GROUP_ID", "CONNECT_KEY_CONVERTER")
    }
    with pytest.raises(ConfigError, match="lacks CONNECT_GROUP_ID and CONNECT_KEY_CONVERTER") as failed:
        worker_of(env)
    assert [problem.key for problem in failed.value.problems] == ["group.id", "key.converter"]
    with pytest.raises(ConfigError, match="lacks OFFSET_STORAGE_TOPIC,"):
        worker_of({name: value for name, value in DEBEZIUM.items() if name != "OFFSET_STORAGE_TOPIC"})


def test_debeziums_names_bring_that_images_defaults_and_connect_ones_win_over_them() -> None:
    env = DEBEZIUM | {
        "CONNECT_OFFSET_STORAGE_REPLICATION_FACTOR": "3",
        "GROUP_ID": "7",
        "CONNECT_GROUP_ID": "8",
        "SHUTDOWN_TIMEOUT": "250",
    }
    found = worker_of(env)
    assert found.properties["status.storage.topic"] == "connect-status"
    assert found.properties["key.converter"] == "org.apache.kafka.connect.json.JsonConverter"
    assert found.properties["offset.storage.replication.factor"] == "3"
    assert found.properties["config.storage.replication.factor"] == "1"
    assert found.properties["task.shutdown.graceful.timeout.ms"] == "250"
    assert found.properties["group.id"] == "8"
    assert found.notes == ("GROUP_ID is not used: CONNECT_GROUP_ID sets group.id",)


def test_over_a_file_only_prefixed_variables_count() -> None:
    found = worker_of({"CONNECT_GROUP_ID": "g", "BOOTSTRAP_SERVERS": "x:1"}, {"bootstrap.servers": "f:1", "a": "b"})
    assert found.properties == {"bootstrap.servers": "f:1", "a": "b", "group.id": "g"}


def test_a_secret_may_be_in_a_file_and_a_setting_that_names_a_file_is_left_alone(tmp_path: Path) -> None:
    secret = tmp_path / "jaas"
    secret.write_text('x required password="p";\n')
    env = CONFLUENT | {
        "CONNECT_SASL_JAAS_CONFIG_FILE": str(secret),
        "CONNECT_SSL_KEYSTORE_PASSWORD_FILE": str(secret),
        "CONNECT_SSL_KEYSTORE_PASSWORD": "given",
        "CONNECT_KCONNECT_JAAS_FILE": "/etc/jaas.conf",
        "CONNECT_CONFIG_PROVIDERS_X_PARAM_FILE": "/etc/x",
    }
    found = worker_of(env)
    assert found.properties["sasl.jaas.config"] == 'x required password="p";'
    assert found.properties["ssl.keystore.password"] == "given"
    assert found.properties["kconnect.jaas.file"] == "/etc/jaas.conf"
    assert found.properties["config.providers.x.param.file"] == "/etc/x"
    assert found.notes == ("CONNECT_SSL_KEYSTORE_PASSWORD_FILE is not used: CONNECT_SSL_KEYSTORE_PASSWORD is set, too",)
    assert "password" not in repr(found).replace("ssl.keystore.password", "").lower().replace("keystore_password", "")
    with pytest.raises(ConfigError, match=r"CONNECT_SASL_JAAS_CONFIG_FILE: .*/none does not exist"):
        worker_of(CONFLUENT | {"CONNECT_SASL_JAAS_CONFIG_FILE": str(tmp_path / "none")})


def test_the_port_of_images_that_know_old_kafka_is_a_listener_and_their_internal_converters_are_dropped() -> None:
    old = {"CONNECT_REST_PORT": "8084", "CONNECT_INTERNAL_KEY_CONVERTER": "x",
           "CONNECT_INTERNAL_KEY_CONVERTER_SCHEMAS_ENABLE": "false"}  # fmt: skip
    found = worker_of(CONFLUENT | old)
    assert found.properties["listeners"] == "http://:8084"
    assert not [key for key in found.properties if key.startswith(("internal.", "rest.port"))]
    found = worker_of(CONFLUENT | old | {"CONNECT_LISTENERS": "https://:1"})
    assert found.properties["listeners"] == "https://:1"
    assert found.notes == ("CONNECT_REST_PORT not used: listeners is set",)


def test_a_worker_is_in_the_environment_when_its_brokers_and_its_topic_are() -> None:
    assert has_worker(CONFLUENT)
    assert has_worker(DEBEZIUM)
    assert not has_worker({"BOOTSTRAP_SERVERS": "kafka:9092", "GROUP_ID": "1"})
    assert not has_worker({})
