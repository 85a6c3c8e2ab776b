"""Who lacks which right, and the line that grants it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kconnect.runtime.config.rights import Client, Right, client_of, client_of_java, transaction_rights
from kconnect.runtime.kafka.clients import connect_error

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
READER = Client("kafka:9093", "User:reader")


@pytest.mark.parametrize(
    ("java", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "PLAINTEXT"}, "User:ANONYMOUS"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required username="reader" password="p";',
            },
            "User:reader",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, None),
    ],
)
def test_the_principal_is_the_user_that_logs_in(java: dict[str, str], principal: str | None) -> None:
    assert client_of_java({"bootstrap.servers": "kafka:9093", **java}) == Client("kafka:9093", principal)


def test_a_client_with_a_certificate_is_who_its_broker_makes_of_it() -> None:
    assert client_of({"security.protocol": "ssl", "ssl.certificate.pem": "..", "ssl.key.pem": ".."}).principal is None
    assert client_of({"security.protocol": "ssl"}).principal == "User:ANONYMOUS"
    kerberos = {"security.protocol": "sasl_ssl", "sasl.kerberos.principal": "connect/host@EXAMPLE.COM"}
    assert client_of(kerberos).principal == "User:connect"


def test_a_missing_right_is_a_sentence_and_a_line_that_can_be_copied() -> None:
    needs = [Right("READ", "topic", "a b"), Right("DESCRIBE_CONFIGS", "topic", "a b"), Right("READ", "group", "g")]
    assert READER.lacks(needs) == (
        "User:reader lacks READ on topic a b and DESCRIBE_CONFIGS on topic a b and READ on group g"
    )
    allowed = "kafka-acls --bootstrap-server kafka:9093 --add --allow-principal User:reader"
    assert READER.grant(needs) == (
        f"{allowed} --operation Read --operation DescribeConfigs --topic 'a b' && {allowed} --operation Read --group g"
    )
    assert Client().grant([Right("CREATE", "cluster")]) == (
        "kafka-acls --add --allow-principal User:NAME --operation Create --cluster"
    )


@pytest.mark.parametrize(
    ("code", "lacks"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "READ on topic orders"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "READ on group connect-x"),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "WRITE on transactional id t and DESCRIBE on transactional id t",
        ),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "IDEMPOTENT_WRITE on the cluster"),
    ],
)
def test_of_what_was_needed_the_refused_kind_is_named(code: int, lacks: str) -> None:
    needs = [
        Right("READ", "topic", "orders"),
        Right("READ", "group", "connect-x"),
        *transaction_rights("t"),
        Right("IDEMPOTENT_WRITE", "cluster"),
    ]
    found = connect_error("It failed", KafkaError(code), needs, READER)
    assert str(found).endswith(f": User:reader lacks {lacks}.")
    assert (found.hint or "").startswith("Grant it: kafka-acls --bootstrap-server kafka:9093 --add ")
