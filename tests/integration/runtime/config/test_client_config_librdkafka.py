"""librdkafka takes what client_config makes: real clients are built, none connects."""

from __future__ import annotations

import logging
from itertools import combinations
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from kconnect.runtime.config.client_config import admin_config, consumer_config, producer_config
from kconnect.runtime.config.client_keys import ADMIN, CONSUMER, PRODUCER, Rule
from kconnect.runtime.kafka.clients import ClientLog, consumer_client, producer_client
from kit.differences import hold_alike

# Nobody listens there: building a client needs no broker.
WORKER = {"bootstrap.servers": "127.0.0.1:1"}
QUIET = {"log_level": 0}
TEXTS = {
    "acks": "all",
    "allow.auto.create.topics": "true",
    "auto.offset.reset": "latest",
    "check.crcs": "true",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.type": "lz4",
    "enable.idempotence": "false",
    "enable.metrics.push": "false",
    "group.protocol": "classic",
    "isolation.level": "read_committed",
    "metadata.recovery.strategy": "rebootstrap",
    "security.protocol": "PLAINTEXT",
}


def build(kind: type[Any], settings: dict[str, Any]) -> None:
    client = kind({**settings, **QUIET})
    if isinstance(client, Consumer):
        client.close()


def values(rules: dict[str, Rule]) -> list[tuple[str, tuple[str, str]]]:
    """Each setting at both ends of its range, and far beyond; texts with one they may have. Named by both."""
    found = []
    for key, rule in rules.items():
        if rule.low is not None:
            found += [(key, "-1"), (key, "0"), (key, "9223372036854775807")]
        elif key != "bootstrap.servers":
            found.append((key, TEXTS.get(key, "x")))
    return [(f"{key}={value}", (key, value)) for key, value in found]


# What contradicts another setting's default, in Java as well, and what has to be given with it.
TOGETHER = {
    ("max.poll.interval.ms", "-1"): {"consumer.override.session.timeout.ms": "1"},
    ("max.poll.interval.ms", "0"): {"consumer.override.session.timeout.ms": "1"},
    ("group.remote.assignor", "x"): {"consumer.override.group.protocol": "consumer"},
    ("transactional.id", "x"): {"producer.override.enable.idempotence": "true"},
}


def test_a_producer_can_be_built_with_each_setting() -> None:
    assert hold_alike(values(PRODUCER), build_producer) == 67


def build_producer(setting: tuple[str, str]) -> None:
    key, value = setting
    given = {f"producer.override.{key}": value, **TOGETHER.get((key, value), {})}
    settings, _ = producer_config(WORKER, given, client_id="c")

    build(Producer, settings)


def test_a_consumer_can_be_built_with_each_setting() -> None:
    assert hold_alike(values(CONSUMER), build_consumer) == 68


def build_consumer(setting: tuple[str, str]) -> None:
    key, value = setting
    given = {f"consumer.override.{key}": value, **TOGETHER.get((key, value), {})}
    settings, _ = consumer_config(WORKER, given, client_id="c", group_id="connect-a")

    build(Consumer, settings)


CONSUMERS = {
    "auto.offset.reset": ("latest", "none", "by_duration:PT1H"),
    "fetch.max.bytes": ("1024", "52428800", "2147483647"),
    "group.instance.id": ("a",),
    "group.protocol": ("consumer", "CONSUMER", "classic"),
    "max.partition.fetch.bytes": ("1024", "10485760", "1000000000"),
    "max.poll.interval.ms": ("1000", "5000", "300000"),
    "receive.buffer.bytes": ("-1", "65536"),
    "reconnect.backoff.max.ms": ("10", "100"),
    "reconnect.backoff.ms": ("10", "10000"),
    "request.timeout.ms": ("100", "30000", "600000"),
    "retry.backoff.max.ms": ("10", "100"),
    "retry.backoff.ms": ("5", "2000"),
}
OF_CLASSIC = {"session.timeout.ms": ("1000", "45000", "600000"), "heartbeat.interval.ms": ("100", "3000", "10000")}
PRODUCERS = {
    "acks": ("0", "1", "all"),
    "batch.size": ("1", "16384", "10485760"),
    "buffer.memory": ("1024", "33554432", "8589934592"),
    "delivery.timeout.ms": ("1", "100", "120000", "2147483647"),
    "max.request.size": ("1000", "1048576", "104857600"),
    "request.timeout.ms": ("1", "30000", "600000"),
    "retries": ("0", "2147483647"),
    "retry.backoff.max.ms": ("10", "100"),
    "retry.backoff.ms": ("5", "2000"),
}


def pairs(values: dict[str, tuple[str, ...]]) -> list[tuple[str, dict[str, str]]]:
    """Each setting with each of another, named by both."""
    single = [(key, value) for key, some in values.items() for value in some]
    found = [dict(pair) for pair in combinations(single, 2) if pair[0][0] != pair[1][0]]
    return [(str(given), given) for given in found]


def test_our_own_defaults_fit_whatever_pair_of_settings_is_given() -> None:
    client_log = ClientLog(logging.getLogger(__name__), "test")

    def build_consumer_of(given: dict[str, str]) -> None:
        own = {f"consumer.override.{key}": value for key, value in given.items()}
        settings, _ = consumer_config(WORKER, own, client_id="c", group_id="g")
        consumer_client({**settings, **QUIET}, client_log).close()

    def build_producer_of(given: dict[str, str]) -> None:
        own = {f"producer.override.{key}": value for key, value in given.items()}
        producer_client({**producer_config(WORKER, own, client_id="c")[0], **QUIET}, client_log)

    classic = {key: some for key, some in (CONSUMERS | OF_CLASSIC).items() if key != "group.protocol"}
    assert hold_alike(pairs(CONSUMERS), build_consumer_of) == 383
    assert hold_alike(pairs(classic), build_consumer_of) == 470
    assert hold_alike(pairs(PRODUCERS), build_producer_of) == 276


def test_an_admin_client_can_be_built_with_each_setting() -> None:
    assert hold_alike(values(ADMIN), build_admin_client) == 42


def build_admin_client(setting: tuple[str, str]) -> None:
    key, value = setting
    settings, _ = admin_config(WORKER, {f"admin.override.{key}": value}, client_id="c")

    build(AdminClient, settings)


@pytest.mark.parametrize(
    "given",
    [
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": 'x.ScramLoginModule required username="u" password="p";',
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": 'x.OAuthBearerLoginModule required clientId="i" clientSecret="s";',
            "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/",
        },
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": 'x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="me";',
        },
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "", "ssl.cipher.suites": "AES256-SHA"},
    ],
)
def test_secured_clients_can_be_built(given: dict[str, str]) -> None:
    settings, warnings = producer_config(WORKER, {f"producer.override.{k}": v for k, v in given.items()}, client_id="c")

    build(Producer, settings)
    assert warnings == []


OAUTH = "org.apache.kafka.common.security.oauthbearer."
OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
}


@pytest.mark.parametrize(
    "given",
    [
        {
            **OIDC,
            "sasl.login.callback.handler.class": f"{OAUTH}OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{OAUTH}OAuthBearerLoginModule required clientId='a' clientSecret='b' scope='c';",
        },
        {
            **OIDC,
            "sasl.oauthbearer.client.credentials.client.id": "a",
            "sasl.oauthbearer.client.credentials.client.secret": "b",
            "sasl.oauthbearer.scope": "c",
        },
        {
            **OIDC,
            "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}JwtBearerJwtRetriever",
            "sasl.oauthbearer.assertion.algorithm": "RS256",
            "sasl.oauthbearer.assertion.claim.aud": "aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds": "300",
            "sasl.oauthbearer.assertion.claim.iss": "iss",
            "sasl.oauthbearer.assertion.claim.jti.include": "true",
            "sasl.oauthbearer.assertion.claim.nbf.seconds": "60",
            "sasl.oauthbearer.assertion.claim.sub": "sub",
            "sasl.oauthbearer.assertion.private.key.file": "/none.pem",
        },
    ],
    ids=["jaas", "client-credentials", "jwt-bearer"],
)
def test_identity_providers_are_taken_as_java_names_them(given: dict[str, str]) -> None:
    settings, warnings = producer_config(
        WORKER, {f"producer.override.{key}": value for key, value in given.items()}, client_id="c"
    )

    assert warnings == []
    assert settings["sasl.oauthbearer.method"] == "oidc"
    build(Producer, settings)
