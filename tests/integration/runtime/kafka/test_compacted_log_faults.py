"""A broker that is killed and comes back, and one that does not allow everything: no record lost, none given twice."""

from __future__ import annotations

import logging
import re
import threading

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.java.devbroker import DevBroker
from kconnect.runtime.kafka import (
    CompactedLog,
    InternalTopicSpec,
    KafkaAdmin,
    KafkaExclusiveWriter,
    LogSpec,
    ensure_internal_topic,
)
from kit.guarded_broker import add_rules, password_of
from kit.pace import ample_s
from kit.shared_broker import SharedBroker
from kit.topics import create_topic, topic_for

pytestmark = pytest.mark.broker

_WITHIN_S = 60.0


@pytest.fixture
def login(broker: SharedBroker) -> dict[str, str]:
    """Of the user `keeper`, who may do what he is granted."""
    return {
        "bootstrap.servers": broker.guarded,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "keeper",
        "sasl.password": password_of("keeper"),
    }


def grant(broker: DevBroker, topic: str, *operations: AclOperation) -> None:
    add_rules(broker.bootstrap, ResourceType.TOPIC, topic, "User:keeper", *operations)


def spec_of(topic: str, partitions: int = 3) -> InternalTopicSpec:
    return InternalTopicSpec(
        topic=topic, setting="config.storage.topic", purpose="p", partitions=partitions, replication_factor=1
    )


def test_a_topic_that_may_be_read_but_not_described_is_used_with_a_warning(broker, login, request, caplog):
    readable = topic_for(request)
    create_topic(broker.bootstrap, readable, config={"cleanup.policy": "delete"})
    grant(broker, readable, AclOperation.READ, AclOperation.WRITE)
    given = []
    with KafkaAdmin(login, "test") as admin:
        assert ensure_internal_topic(admin, spec_of(readable)) is False
        log = CompactedLog(LogSpec(topic=readable, consumer=login, producer=login), admin)
        log.start(given.append)
        log.send(b"k", b"v")
        log.read_to_end(_WITHIN_S)
        log.stop()
    assert [record.value for record in given] == [b"v"]
    warned = [line.getMessage() for line in caplog.records if "cannot be checked" in line.getMessage()]
    assert len(warned) == 1
    assert f"topic {readable} (config.storage.topic)" in warned[0]


def test_a_topic_that_may_not_be_read_ends_the_start_and_one_not_to_be_written_the_send(broker, login, request):
    hidden, only_read = topic_for(request, "-hidden"), topic_for(request, "-only-read")
    create_topic(broker.bootstrap, hidden)
    create_topic(broker.bootstrap, only_read)
    grant(broker, only_read, AclOperation.READ)
    with KafkaAdmin(login, "test") as admin:
        with pytest.raises(
            ConnectError, match=rf"'{re.escape(hidden)}' cannot be looked up: .*[Aa]uthorization failed"
        ):
            CompactedLog(LogSpec(topic=hidden, consumer=login), admin).start(lambda record: None)
        log = CompactedLog(LogSpec(topic=only_read, consumer=login, producer=login), admin)
        log.start(lambda record: None)
        refused = log.send(b"k", b"v").exception(_WITHIN_S)
        log.stop()
    assert isinstance(refused, ConnectError)
    assert not isinstance(refused, RetriableError)
    assert only_read in str(refused)
    writer = KafkaExclusiveWriter(only_read, login, "not-granted")
    with pytest.raises(ConnectError, match=r"as not-granted cannot be claimed: .*[Aa]uthorization failed"):
        writer.claim(_WITHIN_S)


def test_a_killed_broker_that_comes_back_costs_no_record_and_repeats_none(own_broker, request, caplog):
    caplog.set_level(logging.WARNING)
    broker, client, topic = own_broker, {"bootstrap.servers": own_broker.bootstrap}, topic_for(request)
    given, sent, fenced_or_late = [], [], []
    with KafkaAdmin(client, "test") as admin:
        ensure_internal_topic(admin, spec_of(topic))
        log = CompactedLog(LogSpec(topic=topic, consumer=client, producer=client, is_idempotent=True), admin)
        log.start(given.append)
        writer = KafkaExclusiveWriter(topic, client, topic, timeout_setting="the.setting")
        writer.claim(_WITHIN_S)
        for number in range(50):
            sent.append(log.send(b"key-%d" % (number % 9), b"before-%d" % number))
        log.read_to_end(_WITHIN_S)
        broker.kill()
        for number in range(50):
            sent.append(log.send(b"key-%d" % (number % 9), b"during-%d" % number))
        with pytest.raises(TimedOutError, match=r"within 0\.5 s \(worker\.sync\.timeout\.ms\)"):
            log.read_to_end(0.5)
        with pytest.raises(
            TimedOutError, match=rf"1 record .*topic {re.escape(topic)} .*within 0\.5 s \(the\.setting\)"
        ):
            writer.write([(b"k", b"lost")], 0.5)
        within_s = ample_s(_WITHIN_S)  # of which the broker's start takes the most
        waiting = threading.Thread(target=lambda: fenced_or_late.append(log.read_to_end(within_s)))
        waiting.start()
        broker.start()
        waiting.join(within_s)
        assert fenced_or_late == [None], "the barrier that waited over the outage returned"
        writer.claim(_WITHIN_S)
        writer.write([(b"k", b"after")], _WITHIN_S)
        log.read_to_end(_WITHIN_S)
        broker.kill()
        unsent = log.send(b"k", b"v")
        writer.stop()
        log.stop()
        assert "stopped before it was acknowledged" in str(unsent.exception(0))
    places = {(done.result(0).partition, done.result(0).offset) for done in sent}
    expected = [b"%s-%d" % (when, number) for when in (b"before", b"during") for number in range(50)]
    assert sorted(record.value for record in given) == sorted([*expected, b"after"])
    assert len(places) == 100
    for key in {record.key for record in given}:
        of_key = [record.value for record in given if record.key == key]
        assert of_key == sorted(of_key, key=[*expected, b"after"].index)
    assert [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR] == []
