"""Messages of librdkafka name the settings that users write, and the topic that a transaction lacks."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError

from kconnect.errors import ConnectError
from kconnect.runtime.config.rights import Client, transaction_rights
from kconnect.runtime.kafka.clients import (
    ADMIN_NAMES,
    CONSUMER_NAMES,
    PRODUCER_NAMES,
    ClientLog,
    consumer_client,
    producer_client,
    with_java_names,
)

_LOG = logging.getLogger("test.client")
CLIENT = {"bootstrap.servers": "localhost:1", "group.id": "g", "log_level": 0}


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"compression.type": "nope"}, 'Invalid value "nope" for configuration property "compression.type"'),
        ({"acks": "7777"}, '"acks" value 7777 is outside allowed range -1..1000'),
        ({"linger.ms": -1}, '"linger.ms" value -1'),
        ({"message.timeout.ms": 1, "linger.ms": 5}, "`delivery.timeout.ms` must be greater than `linger.ms`"),
        (
            {"enable.idempotence": True, "max.in.flight.requests.per.connection": 9},
            "`max.in.flight.requests.per.connection` must be set <= 5 when `enable.idempotence` is true",
        ),
        ({"message.max.bytes": 1}, '"max.request.size" value 1'),
        ({"queue.buffering.max.kbytes": 0}, '"queue.buffering.max.kbytes" value 0'),
    ],
)
def test_a_refused_setting_of_a_producer_has_the_name_that_its_user_wrote(
    settings: dict[str, object], reported: str
) -> None:
    given = {key: value for key, value in CLIENT.items() if key != "group.id"}
    with pytest.raises(ConnectError) as refused:
        producer_client({**given, **settings}, ClientLog(_LOG, "test"))
    assert reported in str(refused.value)
    assert not str(refused.value).endswith("\n")


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"fetch.message.max.bytes": 0}, '"max.partition.fetch.bytes" value 0'),
        ({"fetch.wait.max.ms": -1}, '"fetch.max.wait.ms" value -1'),
        ({"fetch.max.bytes": 100, "message.max.bytes": 1000}, "`fetch.max.bytes` must be >= `message.max.bytes`"),
        ({"socket.timeout.ms": 1}, '"request.timeout.ms" value 1'),
    ],
)
def test_a_refused_setting_of_a_consumer_has_the_name_that_its_user_wrote(
    settings: dict[str, object], reported: str
) -> None:
    with pytest.raises(ConnectError) as refused:
        consumer_client({**CLIENT, **settings}, ClientLog(_LOG, "test"))
    assert reported in str(refused.value)


def test_what_is_no_quoted_setting_stays_as_it_is() -> None:
    for names in (PRODUCER_NAMES, CONSUMER_NAMES, ADMIN_NAMES):
        assert (
            with_java_names("compression.codec of compression.codec.x", names)
            == "compression.codec of compression.codec.x"
        )
        assert with_java_names('"other.setting"', names) == '"other.setting"'


def test_a_transaction_that_may_not_write_to_a_topic_names_it() -> None:
    client_log = ClientLog(_LOG, "Producer of s-0")
    client_log.client = Client("kafka:9092", "User:w")
    text = 'TxnCoordinator/1: Failed to add partition "offsets" [2] to transaction: Broker: Topic authorization failed'
    client_log.log(logging.ERROR, "%s [%s] %s", "ADDPARTS", "p#producer-1", text)
    other = 'Failed to add partition "orders" [0] to transaction: Broker: Operation not attempted'
    client_log.log(logging.ERROR, "%s [%s] %s", "ADDPARTS", "p#producer-1", f"TxnCoordinator/1: {other}")
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Broker: Topic authorization failed (after 2 ms)")
    found = client_log.error("A transaction cannot be committed", error, *transaction_rights("t-0"))
    assert str(found) == (
        "A transaction cannot be committed: Topic authorization failed: User:w lacks WRITE on topic offsets."
    )
    assert found.hint == (
        "Grant it: kafka-acls --bootstrap-server kafka:9092 --add --allow-principal User:w --operation Write "
        "--topic offsets"
    )
