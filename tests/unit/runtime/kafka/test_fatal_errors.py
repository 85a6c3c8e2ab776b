"""A producer whose client can write no more, as an idempotent or transactional one may end: who is reported, and
what.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import ConnectError, FencedError
from kconnect.runtime.kafka import (
    BulkProducer,
    ByteColumn,
    DeliveryFailure,
    KafkaBatch,
    RecordProducer,
    TransactionalProducer,
)
from kconnect.runtime.kafka.bulk_client import BulkClient
from kconnect.runtime.kafka.clients import ClientLog
from kit.pace import ample_s
from kit.played_broker import END_TRANSACTION, INIT_PRODUCER_ID, PRODUCE, PlayedBroker, played_broker
from kit.waiting import eventually

VALUES = [b"x"] * 2_000


@pytest.fixture
def played() -> Iterator[PlayedBroker]:
    with played_broker() as broker:
        yield broker


def settings(played: PlayedBroker, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": played.bootstrap, "linger.ms": 0, "log_level": 0, **more}


@pytest.mark.parametrize("is_bulk", [False, True])
def test_a_client_that_gets_no_id_names_the_right_to_write_to_its_topic(is_bulk: bool, played: PlayedBroker) -> None:
    played.refuse(INIT_PRODUCER_ID, *[KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 20)
    producer = BulkProducer(settings(played, **{"enable.idempotence": True}), "orders-0")
    units = Units(producer, is_bulk=is_bulk)
    try:
        died = raised_by(units.send) or eventually(lambda: raised_by(partial(producer.flush, 0.5)), 10, "it has died")
        assert str(died) == "The producer gets no id: User:ANONYMOUS lacks WRITE on topic orders."
        assert "--operation Write --topic orders" in str(died.hint)
    finally:
        producer.close()


def test_a_client_that_gets_no_id_before_its_first_record_names_the_topic_of_that(played: PlayedBroker) -> None:
    """A client asks for its id half a second after it was made, which is before a slow source has its first record."""
    played.refuse(INIT_PRODUCER_ID, *[KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 20)
    producer = RecordProducer(settings(played, **{"enable.idempotence": True}), "orders-0")
    try:
        for _ in range(15):
            producer.serve(0.1)
        died = raised_by(Units(producer).send)
        assert str(died).endswith("lacks WRITE on topic orders.")
        assert died is not None
        assert isinstance(died.__cause__, KafkaException), "what decides about restarts looks at it"
    finally:
        producer.close()


class Units:
    """Sends units, and keeps how they ended; what is refused is passed over, as with errors.tolerance=all."""

    def __init__(self, producer: RecordProducer, *, is_bulk: bool = False) -> None:
        self._producer = producer
        self._values = ByteColumn(pa.array(VALUES, pa.binary())) if is_bulk else VALUES
        self.acked: list[bool] = []

    def send(self) -> None:
        delivery = self._producer.delivery(self.acked.append, self._tolerate)
        batch = KafkaBatch("orders", None, None, self._values, None, None)
        if self._producer.send_batch(batch, delivery, lambda: False):  # else its failure was known before the end
            delivery.complete()

    def _tolerate(self, failure: DeliveryFailure) -> bool:
        return True


def raised_by(action: Callable[[], None]) -> ConnectError | None:
    try:
        action()
    except ConnectError as error:
        return error
    return None


@pytest.mark.parametrize("is_bulk", [False, True])
def test_what_a_client_died_of_is_asked_to_all_who_serve_or_flush_it_and_nothing_of_it_is_tolerated(
    is_bulk: bool, played: PlayedBroker
) -> None:
    """The client itself says it once: to the timer of the commits, it may be, while the task waits for its source."""
    producer = BulkProducer(settings(played, **{"enable.idempotence": True}), "orders-0")
    units = Units(producer, is_bulk=is_bulk)
    try:
        units.send()
        assert producer.flush(ample_s(20))
        assert units.acked == [True]
        played.refuse(PRODUCE, *[KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER] * 20)
        eventually(lambda: raised_by(units.send), 10, "the client has died")
        for call in (producer.serve, units.send, partial(producer.flush, ample_s(5))):
            with pytest.raises(ConnectError, match=r"^The producer broke down: "):
                call()
    finally:
        producer.close()
    assert len(producer) == 0
    assert set(units.acked[1:]) == {False}


def test_a_client_of_units_says_at_each_poll_that_it_is_dead_whatever_event_said_so(played: PlayedBroker) -> None:
    """It may die in the moment in which records are handed over: of those in its queue nothing is reported then."""
    played.refuse(INIT_PRODUCER_ID, *[KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 20)
    client = BulkClient(
        settings(played, **{"enable.idempotence": True}), ClientLog(logging.getLogger(__name__), "orders-0")
    )
    try:
        eventually(lambda: dies_at(client.poll), 10, "it has died")
        for call in (client.poll, client.poll, partial(client.flush, 0.1)):
            assert dies_at(call)
    finally:
        client.close()


def dies_at(call: Callable[[], None]) -> bool:
    try:
        call()
    except KafkaException as error:
        return bool(error.args[0].fatal())
    return False


def test_a_fenced_producer_says_so_to_all_who_serve_it_and_can_be_closed(played: PlayedBroker) -> None:
    producer = TransactionalProducer(settings(played, **{"transactional.id": "orders-0"}), "orders-0")
    units = Units(producer)
    try:
        assert producer.claim(ample_s(20), lambda: False)
        producer.begin()
        units.send()
        assert producer.flush(ample_s(20))
        played.refuse(END_TRANSACTION, KafkaError.PRODUCER_FENCED)
        with pytest.raises(FencedError):
            producer.commit(lambda: False)
        eventually(lambda: isinstance(raised_by(producer.serve), FencedError), 10, "it says so")
        for _ in range(2):
            with pytest.raises(FencedError):
                producer.serve()
        with pytest.raises(FencedError):
            producer.flush(ample_s(5))
        assert isinstance(producer.why_broken(), FencedError)
    finally:
        producer.close()
    assert units.acked == [True]
