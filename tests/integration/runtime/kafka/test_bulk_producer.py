"""BulkProducer against a real broker, beside RecordProducer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.runtime.kafka import BulkProducer, ClientUsage, DeliveryFailure, KafkaBatch, RecordProducer, as_bytes
from kit.pace import ample_s
from kit.topics import consume_values, create_topic, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker


def lines(topic: str, count: int, padding: bytes = b"") -> KafkaBatch:
    column = pa.array([b"line %d" % number + padding for number in range(count)], pa.binary())
    return KafkaBatch(topic, None, None, as_bytes(column), None, None)


def test_what_the_broker_refuses_ends_a_unit_in_the_same_way_with_either_producer(
    broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": "1000"})
    refused = lines(topic, 2_000, b"." * 1000)  # each by itself: how many go in one batch is chance
    outcomes = []
    for kind in (RecordProducer, BulkProducer):
        acked: list[bool] = []
        failures: list[DeliveryFailure] = []

        def note(failure: DeliveryFailure, failures: list[DeliveryFailure] = failures) -> bool:
            failures.append(failure)
            return False

        producer = kind({"bootstrap.servers": broker.bootstrap}, f"{topic} of {kind.__name__}")
        delivery = producer.delivery(acked.append, note)
        if producer.send_batch(refused, delivery, lambda: False):  # else the broker was quicker than it
            delivery.complete()
        del delivery
        assert producer.flush(ample_s(20))
        producer.close()
        assert acked == [False]
        outcomes.append([(failure.topic, failure.partition, failure.code, str(failure.error)) for failure in failures])
    assert len(outcomes[0]) == 2_000
    assert outcomes[0] == outcomes[1]


def test_its_second_client_is_counted_too(broker: DevBroker, topic: str) -> None:
    acked: list[bool] = []
    usages: list[ClientUsage] = []
    settings = {"bootstrap.servers": broker.bootstrap, "statistics.interval.ms": 100}
    producer = BulkProducer(settings, topic, note_usage=usages.append)
    delivery = producer.delivery(acked.append)
    assert producer.send_batch(lines(topic, 20_000), delivery, lambda: False)
    delivery.complete()
    del delivery

    def is_counted() -> bool:
        producer.serve(0.05)
        return sum(usage.bytes_sent for usage in usages) > 20_000 * len("line 0")

    eventually(is_counted, 20, "the bytes are counted")
    assert producer.flush(ample_s(20)), "sent is not yet acknowledged"
    producer.close()
    assert acked == [True]
    assert len(consume_values(broker.bootstrap, topic, 20_000)) == 20_000
