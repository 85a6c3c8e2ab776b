"""What the clients of tasks count of themselves, and quotas that hold a worker's own back, against a real broker."""

from __future__ import annotations

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import (
    ClientUsage,
    CompactedLog,
    KafkaAdmin,
    KafkaRecord,
    LogSpec,
    RecordConsumer,
    RecordProducer,
)
from kconnect.runtime.kafka.client_statistics import Throttles
from kit.brokers import quota_of_client
from kit.group_members import ListensToNothing
from kit.waiting import eventually

pytestmark = pytest.mark.broker


def test_a_producer_and_a_consumer_tell_their_bytes_and_latencies(broker: DevBroker, topic: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "statistics.interval.ms": 100}
    sent: list[ClientUsage] = []
    producer = RecordProducer(settings, "sends", note_usage=sent.append)
    delivery = producer.delivery(lambda is_acked: None)
    for _ in range(100):
        producer.send(KafkaRecord(topic, 0, value=b"x" * 1000), delivery, lambda: False)
    delivery.complete()
    del delivery

    def has_sent() -> bool:
        producer.serve(0.05)
        return sum(usage.bytes_sent for usage in sent) > 0 and any(usage.request_ms.count for usage in sent)

    eventually(has_sent, 20, "the producer has reported")
    assert producer.flush(10)
    producer.close()

    read: list[ClientUsage] = []
    consumer = RecordConsumer({**settings, "group.id": f"reads-{topic}"}, "reads", note_usage=read.append)
    consumer.subscribe([topic], ListensToNothing())

    def has_read() -> bool:
        consumer.fetch(1, 0.1)
        behind = consumer.behind({TopicPartition(topic, 0): 40})
        assert (behind.total, behind.most) == (60, 60)
        return sum(usage.bytes_received for usage in read) > 100_000

    eventually(has_read, 20, "the consumer has reported")
    consumer.close()


def test_who_writes_and_reads_a_log_under_a_quota_is_named_while_it_is_held_back(broker: DevBroker, topic: str) -> None:
    throttles, client = Throttles(), f"log-{topic}"
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": client}
    quota = "producer_byte_rate=100,consumer_byte_rate=100"
    with quota_of_client(broker.bootstrap, client, quota), KafkaAdmin(settings, "test") as admin:
        log = CompactedLog(LogSpec(topic=topic, consumer=settings, producer=settings, throttled=throttles.note), admin)
        log.start(lambda record: None)
        for _ in range(5):
            log.send(b"k", b"x" * 300)
        (notice,) = eventually(throttles.notices, 30, "somebody is held back")
        log.stop()
    assert f"and so every change: {client} (" in notice
    eventually(lambda: not throttles.notices(), 60, "it is held back no longer")
