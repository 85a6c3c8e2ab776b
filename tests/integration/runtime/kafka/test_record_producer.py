"""The producer of a source that is reported of each record."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from kconnect.errors import DataError
from kconnect.java.devbroker import DevBroker
from kconnect.runtime.kafka import KafkaBatch, KafkaRecord, RecordDelivery, RecordProducer
from kconnect.runtime.kafka.delivery import DeliveryFailure, WrittenRecord
from kit.waiting import eventually

pytestmark = pytest.mark.broker


def test_records_are_reported_in_their_order_although_several_threads_serve(broker: DevBroker, topic: str) -> None:
    """As a task and the timer of its commits do. The client gives each thread some of the reports."""
    wanted = 20_000
    reported: list[tuple[int, int]] = []

    def written(number: int, place: WrittenRecord | None) -> None:
        assert place is not None
        reported.append((number, place.offset))

    over = threading.Event()
    # Many small requests: many reports, not one with all
    producer = RecordProducer(
        {"bootstrap.servers": broker.bootstrap, "batch.num.messages": 50}, "source", report_each=True
    )

    def serve(timeout_s: float) -> None:
        while not over.is_set():
            producer.serve(timeout_s)

    servers = [threading.Thread(target=serve, args=(timeout_s,)) for timeout_s in (0.0, 0.01, 0.01)]
    try:
        for server in servers:
            server.start()
        unit = producer.delivery(lambda is_acked: None)
        for number in range(wanted):
            each = RecordDelivery(unit, partial(written, number))
            assert producer.send(KafkaRecord(topic, 0, value=b"%d" % number), each, lambda: False)
        unit.complete()
        assert producer.flush(60.0)
        eventually(lambda: len(reported) == wanted, 10, "all are reported")
    finally:
        over.set()
        for server in servers:
            server.join()
        producer.close()
    assert reported == [(number, number) for number in range(wanted)]


@pytest.mark.parametrize("name", [None, ""])
@pytest.mark.parametrize("as_batch", [False, True])
def test_a_record_without_a_topic_is_an_error_that_nothing_tolerates(
    broker: DevBroker, name: str | None, as_batch: bool
) -> None:
    producer = RecordProducer({"bootstrap.servers": broker.bootstrap}, "source")
    topic: str = name  # type: ignore[assignment]  # what a plugin gives that minds no types
    try:
        unit = producer.delivery(lambda is_acked: None, lambda failure: True)
        batch, record = KafkaBatch(topic, None, None, [b"a", b"b"], None, None), KafkaRecord(topic, None, value=b"a")
        send = partial(producer.send_batch, batch) if as_batch else partial(producer.send, record)
        with pytest.raises(DataError, match="it has no topic") as caught:
            send(unit, lambda: False)
        assert caught.value.hint == "Give each record that poll() returns a topic."
    finally:
        producer.close()


@pytest.mark.parametrize("as_batch", [False, True])
def test_each_record_without_a_possible_topic_is_refused_with_what_to_do(broker: DevBroker, as_batch: bool) -> None:
    name, said, hint = "bad topic/", "'bad topic/' cannot be the name of a topic", "RegexRouter"
    failures: list[DeliveryFailure] = []
    producer = RecordProducer({"bootstrap.servers": broker.bootstrap}, "source")
    try:
        unit = producer.delivery(lambda is_acked: None, lambda failure: failures.append(failure) or True)
        if as_batch:
            assert producer.send_batch(KafkaBatch(name, None, None, [b"a", b"b"], None, None), unit, lambda: False)
        else:
            for value in (b"a", b"b"):
                assert producer.send(KafkaRecord(name, None, value=value), unit, lambda: False)
        unit.complete()
        assert producer.flush(60.0)
    finally:
        producer.close()
    assert len(failures) == 2
    for failure in failures:
        assert said in str(failure.error)
        assert hint in (failure.error.hint or "")
