from __future__ import annotations

from typing import Any

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.client_config import (
    admin_config,
    consumer_config,
    internal_clients,
    max_poll_records,
    override_error,
    producer_config,
    refuse_overrides,
)
from kconnect.runtime.config.client_security import parse_jaas
from kit.places import GOLDEN

WORKER = {"bootstrap.servers": "b:9092", "key.converter": "x"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\"ice" password=\'p;q\' ;'


def producer(**settings: str) -> tuple[dict[str, Any], list[str]]:
    given = {f"producer.{key.replace('_', '.')}": value for key, value in settings.items()}
    return producer_config({**WORKER, **given}, {}, client_id="c")


def consumer(**settings: str) -> tuple[dict[str, Any], list[str]]:
    given = {f"consumer.override.{key.replace('_', '.')}": value for key, value in settings.items()}
    return consumer_config(WORKER, given, client_id="c", group_id="connect-a")


def test_a_producer_has_connects_own_defaults() -> None:
    settings, warnings = producer_config(WORKER, {}, client_id="connector-producer-a-0")

    assert settings == {
        "bootstrap.servers": "b:9092",
        "client.id": "connector-producer-a-0",
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": 1,
        "message.timeout.ms": 0,
        "partitioner": "murmur2_random",
    }
    assert warnings == []


@pytest.mark.parametrize(
    ("given", "keeps_order"),
    [
        ({"enable.idempotence": "false"}, False),
        ({"acks": "1"}, False),
        ({"acks": " ALL "}, True),
        ({"acks": "-1"}, True),
        ({"retries": "0"}, False),
        ({"retries": "3"}, True),
        ({"max.in.flight.requests.per.connection": "5"}, True),
        ({"max.in.flight.requests.per.connection": "6"}, False),
        ({"max.in.flight.requests.per.connection": "0"}, False),
        ({"transactional.id": "a"}, False),
        ({"librdkafka.request.required.acks": "1"}, False),
        ({"librdkafka.max.in.flight": "5"}, True),
        ({"librdkafka.enable.idempotence": "false"}, False),
    ],
)
def test_a_producer_is_idempotent_unless_other_settings_rule_that_out(given: dict[str, str], keeps_order: bool) -> None:
    for prefix in ("producer.", "producer.override."):
        own = {f"{prefix}{key}": value for key, value in given.items()}
        worker, connector = (WORKER, own) if "override" in prefix else ({**WORKER, **own}, {})
        settings, _ = producer_config(worker, connector, client_id="c")
        assert settings["enable.idempotence"] == ("true" if keeps_order else "false")


def test_a_producer_of_dead_letters_asks_for_no_id_unless_it_is_set() -> None:
    settings, _ = producer_config(WORKER, {}, client_id="c", keeps_order=False)
    assert settings["enable.idempotence"] == "false"
    own = {"producer.override.enable.idempotence": "true"}
    settings, _ = producer_config(WORKER, own, client_id="c", keeps_order=False)
    assert settings["enable.idempotence"] == "true"


def test_a_consumer_has_connects_own_defaults() -> None:
    settings, warnings = consumer_config(WORKER, {}, client_id="connector-consumer-a-0", group_id="connect-a")

    assert settings == {
        "bootstrap.servers": "b:9092",
        "client.id": "connector-consumer-a-0",
        "group.id": "connect-a",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",
        "enable.auto.commit": "false",
    }
    assert warnings == []


def test_the_connectors_override_wins_over_the_worker() -> None:
    worker = {**WORKER, "producer.acks": "0", "producer.linger.ms": "3"}

    settings, _ = producer_config(worker, {"producer.override.acks": "1"}, client_id="c")

    assert (settings["acks"], settings["linger.ms"]) == ("1", 3)


def test_an_admin_client_takes_the_workers_own_client_settings() -> None:
    worker = {**WORKER, "security.protocol": "SSL", "admin.retries": "4", "admin.listeners": "http://x:1"}

    settings, warnings = admin_config(worker, {"admin.override.client.id": "mine"}, client_id="c")

    assert settings == {"bootstrap.servers": "b:9092", "security.protocol": "SSL", "client.id": "mine", "retries": 4}
    assert warnings == []


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"buffer_memory": "33554432"}, {"queue.buffering.max.kbytes": 32768}),
        ({"max_request_size": "2000000"}, {"message.max.bytes": 1999949}),
        ({"delivery_timeout_ms": "120000"}, {"message.timeout.ms": 120000}),
        ({"connections_max_idle_ms": "-1"}, {"connections.max.idle.ms": 0}),
        ({"send_buffer_bytes": "-1"}, {"socket.send.buffer.bytes": 0}),
        (
            {"compression_type": "zstd", "compression_zstd_level": "5"},
            {"compression.level": 5, "compression.type": "zstd"},
        ),
        ({"partitioner_ignore_keys": "true"}, {"partitioner": "random"}),
        ({"partitioner_class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}, {"partitioner": "random"}),
        ({"librdkafka_statistics_interval_ms": "5"}, {"statistics.interval.ms": "5"}),
    ],
)
def test_producer_settings_are_translated(given: dict[str, str], settings: dict[str, Any]) -> None:
    found, warnings = producer(**given)

    assert settings.items() <= found.items()
    assert warnings == []


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"fetch_max_wait_ms": "100"}, {"fetch.wait.max.ms": 100}),
        ({"max_partition_fetch_bytes": "5"}, {"fetch.message.max.bytes": 5}),
        ({"auto_offset_reset": "none"}, {"auto.offset.reset": "error"}),
        ({"fetch_max_bytes": "500000"}, {"message.max.bytes": 500000, "receive.message.max.bytes": 500512}),
        (
            {"partition_assignment_strategy": "o.a.RangeAssignor, o.a.CooperativeStickyAssignor"},
            {"partition.assignment.strategy": "range"},
        ),
        (
            {"partition_assignment_strategy": "o.a.CooperativeStickyAssignor"},
            {"partition.assignment.strategy": "cooperative-sticky"},
        ),
        ({"group_id": "mine"}, {"group.id": "mine"}),
    ],
)
def test_consumer_settings_are_translated(given: dict[str, str], settings: dict[str, Any]) -> None:
    found, warnings = consumer(**given)

    assert settings.items() <= found.items()
    assert warnings == []


def test_the_newer_protocol_of_groups_has_no_times_of_a_session() -> None:
    settings, warnings = consumer(group_protocol="CONSUMER", group_remote_assignor="range")
    assert settings["group.protocol"] == "consumer"
    assert settings["group.remote.assignor"] == "range"
    assert settings.keys().isdisjoint({"session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"})
    assert warnings == []


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (
            {"group.protocol": "consumer", "session.timeout.ms": "9000"},
            "consumer.override.session.timeout.ms cannot be set when group.protocol=CONSUMER",
        ),
        (
            {"group.protocol": "consumer", "partition.assignment.strategy": "x.RangeAssignor"},
            "consumer.override.partition.assignment.strategy cannot be set when group.protocol=CONSUMER",
        ),
        (
            {"group.remote.assignor": "range"},
            "consumer.override.group.remote.assignor cannot be set when group.protocol=CLASSIC",
        ),
        ({"group.protocol": "newest"}, "String must be one of: CLASSIC, CONSUMER"),
    ],
)
def test_what_a_protocol_of_groups_lacks_is_refused_as_by_java(given: dict[str, str], reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        consumer(**given)
    assert reported in str(caught.value)


def test_a_connector_that_chooses_the_protocol_leaves_the_workers_times_out() -> None:
    worker = {**WORKER, "consumer.session.timeout.ms": "9000"}
    own = {"consumer.override.group.protocol": "consumer"}
    settings, warnings = consumer_config(worker, own, client_id="c", group_id="g")
    assert "session.timeout.ms" not in settings
    assert warnings == [
        "consumer.session.timeout.ms has no effect: consumer.override.group.protocol=consumer has no such setting"
    ]
    with pytest.raises(ConfigError, match=r"consumer\.session\.timeout\.ms cannot be set"):
        consumer_config({**worker, "consumer.group.protocol": "consumer"}, {}, client_id="c", group_id="g")


@pytest.mark.parametrize(
    ("given", "times", "reported"),
    [
        ({}, (None, None, None), []),
        ({"session.timeout.ms": "45000"}, (45000, 1500, None), []),
        ({"session.timeout.ms": "1000"}, (1000, 250, None), []),
        ({"heartbeat.interval.ms": "10000"}, (30000, 10000, None), []),
        ({"session.timeout.ms": "600000"}, (600000, 1500, 600000), []),
        (
            {"max.poll.interval.ms": "5000"},
            (None, None, 6000),
            ["max.poll.interval.ms=5000 is less than session.timeout.ms: 6000 is used"],
        ),
        (
            {"max.poll.interval.ms": "5000", "session.timeout.ms": "10000"},
            (10000, 1500, 10000),
            ["max.poll.interval.ms=5000 is less than session.timeout.ms: 10000 is used"],
        ),
    ],
)
def test_times_of_a_session_fit_each_other_where_only_some_are_set(
    given: dict[str, str], times: tuple[int | None, ...], reported: list[str]
) -> None:
    settings, warnings = consumer(**given)
    names = ("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")
    assert tuple(settings.get(name) for name in names) == times
    assert warnings == reported


def test_numbers_beyond_librdkafkas_range_are_clamped_and_reported() -> None:
    settings, warnings = producer(request_timeout_ms="2147483647", retry_backoff_ms="0")

    assert (settings["request.timeout.ms"], settings["retry.backoff.ms"]) == (900000, 1)
    assert warnings == [
        "producer.request.timeout.ms=2147483647 is beyond what librdkafka accepts: 900000 is used",
        "producer.retry.backoff.ms=0 is beyond what librdkafka accepts: 1 is used",
    ]


def test_what_can_not_be_translated_is_named_with_its_prefix() -> None:
    _, ours = producer(metric_reporters="x", key_serializer="y", max_block_ms="5")
    _, theirs = consumer(enable_auto_commit="true")

    assert ours == [
        "producer.metric.reporters has no effect: librdkafka has no equivalent of metric.reporters",
        "producer.key.serializer has no effect: Connect sets key.serializer itself",
    ]
    assert theirs == ["consumer.override.enable.auto.commit has no effect: Connect sets enable.auto.commit itself"]


def test_no_number_is_refused_in_javas_words() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value x for configuration linger\.ms: Not a number of type LONG"):
        producer(linger_ms="x")


def test_security_of_the_worker_alone_is_warned_about() -> None:
    _, warnings = producer_config({**WORKER, "security.protocol": "SSL"}, {}, client_id="c")

    assert len(warnings) == 1
    assert "producer.security.protocol" in warnings[0]


def test_max_poll_records_is_the_loops() -> None:
    assert max_poll_records(WORKER, {}) == 500
    assert max_poll_records({**WORKER, "consumer.max.poll.records": "7"}, {}) == 7
    assert consumer(max_poll_records="9")[1] == []


def test_jaas_entries_give_user_and_password() -> None:
    settings, warnings = producer(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN)

    assert settings["sasl.username"] == 'al"ice'
    assert settings["sasl.password"] == "p;q"
    assert "sasl.jaas.config" not in settings
    assert warnings == []


def test_jaas_entries_of_oauth_and_kerberos() -> None:
    oauth = 'x.OAuthBearerLoginModule required clientId="i" clientSecret="s" scope="o";'
    settings, _ = producer(sasl_jaas_config=oauth, sasl_oauthbearer_token_endpoint_url="https://idp/")
    assert settings["sasl.oauthbearer.client.id"] == "i"
    assert settings["sasl.oauthbearer.client.secret"] == "s"
    assert settings["sasl.oauthbearer.method"] == "oidc"

    kerberos = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="p@R";'
    settings, _ = producer(sasl_jaas_config=kerberos)
    assert (settings["sasl.kerberos.keytab"], settings["sasl.kerberos.principal"]) == ("/k", "p@R")


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "Module",
        "Module required",
        'Module required password="hunter2"',
        "Module required hunter2;",
        "M required; x",
    ],
)
def test_a_broken_jaas_entry_is_refused_without_showing_it(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"^sasl\.jaas\.config cannot be read\.$") as refused:
        parse_jaas(entry)

    assert refused.value.hint


KEY_STORES = GOLDEN / "keystores"


@pytest.mark.parametrize("format", ["jks", "p12"])
def test_stores_of_java_become_pem_in_memory(format: str) -> None:
    settings, warnings = producer(
        security_protocol="SASL_SSL",
        ssl_keystore_location=str(KEY_STORES / f"server.{format}"),
        ssl_keystore_password="store-pass",
        ssl_key_password="key-pass" if format == "jks" else "store-pass",
        ssl_truststore_location=str(KEY_STORES / f"trust.{format}"),
        ssl_truststore_password="store-pass",
        ssl_endpoint_identification_algorithm="",
    )

    assert settings["ssl.key.pem"].startswith("-----BEGIN PRIVATE KEY")
    assert settings["ssl.certificate.pem"].startswith("-----BEGIN CERTIFICATE")
    assert settings["ssl.ca.pem"] == (KEY_STORES / "server.pem").read_text()
    assert settings["ssl.endpoint.identification.algorithm"] == "none"
    assert not [key for key in settings if "location" in key or key.startswith("ssl.keystore")]
    assert warnings == []


def test_stores_stay_closed_where_no_tls_is_spoken() -> None:
    settings, warnings = producer(ssl_keystore_location="/not/there", ssl_truststore_location="/not/there")

    assert not [key for key in settings if key.startswith("ssl.")]
    assert warnings == []


def test_a_wrong_store_password_is_reported_without_showing_it() -> None:
    with pytest.raises(
        ConfigError, match=r"^ssl\.truststore\.password does not open ssl\.truststore\.location="
    ) as reported:
        producer(
            security_protocol="SSL",
            ssl_truststore_location=str(KEY_STORES / "trust.jks"),
            ssl_truststore_password="nonsense",
        )

    assert "nonsense" not in f"{reported.value} {reported.value.hint}"


@pytest.mark.parametrize(
    ("policy", "key", "is_allowed"),
    [
        ("All", "acks", True),
        ("None", "acks", False),
        ("Principal", "acks", False),
        ("Principal", "sasl.jaas.config", True),
        ("Allowlist", "linger.ms", True),
        ("Allowlist", "acks", False),
        ("org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy", "acks", False),
    ],
)
def test_override_policies(policy: str, key: str, is_allowed: bool) -> None:
    assert (override_error(policy, key, ["linger.ms"]) is None) is is_allowed


def test_overrides_of_a_tasks_clients_that_the_policy_forbids_are_refused_together() -> None:
    worker = {"connector.client.config.override.policy": "Allowlist"}
    worker["connector.client.config.override.allowlist"] = "linger.ms, acks"
    config = {"name": "c", "producer.override.linger.ms": "5", "consumer.override.client.id": "c"}
    refuse_overrides(worker, config, ("producer",))
    config |= {"producer.override.sasl.jaas.config": "secret", "producer.override.client.id": "c"}
    with pytest.raises(ConfigError) as raised:
        refuse_overrides(worker, config, ("producer", "admin"))
    assert str(raised.value) == (
        "Client Config Overrides not allowed: producer.override.client.id, producer.override.sasl.jaas.config. "
        "The 'Allowlist' policy does not allow 'client.id' to be overridden in the connector configuration. "
        "The 'Allowlist' policy does not allow 'sasl.jaas.config' to be overridden in the connector configuration."
    )
    for policy in ("All", "a.policy:OfOnesOwn"):
        refuse_overrides({"connector.client.config.override.policy": policy}, config, ("producer",))


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="Invalid value Mine for configuration"):
        override_error("Mine", "acks")


def test_clients_of_internal_topics_take_the_workers_settings_without_a_prefix():
    worker = {
        "bootstrap.servers": "a:1",
        "group.id": "g",
        "session.timeout.ms": "5000",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN,
        "producer.security.protocol": "SSL",
        "key.converter": "x",
        "config.storage.topic": "c",
    }
    found = internal_clients(worker, client_id="g-configs")
    for settings in (found.producer, found.consumer, found.admin):
        assert settings["bootstrap.servers"] == "a:1"
        assert settings["security.protocol"] == "SASL_PLAINTEXT"
        assert settings["sasl.password"] == "p;q"
        assert settings["client.id"] == "g-configs"
        assert not settings.keys() & {"group.id", "session.timeout.ms", "config.storage.topic"}
    assert (found.producer["acks"], found.producer["message.timeout.ms"]) == ("all", 0)
    assert (found.consumer["auto.offset.reset"], found.consumer["enable.auto.commit"]) == ("earliest", "false")
    assert repr(found) == "InternalClients()"
