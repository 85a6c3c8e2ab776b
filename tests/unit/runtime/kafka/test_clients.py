"""Logs of clients, errors in our words, the end of a delivery."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import ConnectError, DataError, NotAllowedError, RetriableError, TimedOutError, UnreachableError
from kconnect.runtime.kafka import Delivery, KafkaBatch, KafkaRecord, RecordProducer, RefusedRecord
from kconnect.runtime.kafka.clients import ClientLog, kafka_errors
from kconnect.runtime.kafka.delivery import DeliveryFailure, EndedUnits
from kconnect.runtime.kafka.refusals import producer_time

log = logging.getLogger("test.client")


def test_a_kind_of_line_is_reported_once_and_then_held_back(caplog: pytest.LogCaptureFixture) -> None:
    client = ClientLog(log, "Producer of a-0")
    with caplog.at_level(logging.INFO):
        for _ in range(100):
            client.log(logging.ERROR, "%s [%s] %s", "FAIL", "rdkafka#producer-1", "Connection refused")
        client.log(logging.INFO, "%s [%s] %s", "OTHER", "rdkafka#producer-1", "another kind")
    assert caplog.messages == [
        "Producer of a-0: FAIL [rdkafka#producer-1] Connection refused",
        "Producer of a-0: OTHER [rdkafka#producer-1] another kind",
    ]


def test_a_broker_that_is_away_is_reported_of_once_not_three_times(caplog: pytest.LogCaptureFixture) -> None:
    """As librdkafka says it: a log line, the same as an error, and that this was the last broker."""
    client = ClientLog(log, "Producer of a-0")
    refused = "localhost:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused"
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            client.log(logging.ERROR, "%s [%s] %s", "FAIL", "rdkafka#producer-1", refused)
            client.log(logging.ERROR, "%s [%s] %s", "ERROR", "rdkafka#producer-1", refused)
            client.on_error(KafkaError(KafkaError._TRANSPORT, refused))
            client.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        client.on_error(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    assert caplog.messages == [
        f"Producer of a-0: FAIL [rdkafka#producer-1] {refused}",
        "Producer of a-0: wrong password",
    ]
    assert client.last_error == "wrong password"


def test_the_newest_trouble_is_kept_for_messages() -> None:
    client = ClientLog(log, "x")
    assert client.last_error is None
    client.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert client.last_error == "1/1 brokers are down"


def test_a_broker_that_gives_no_id_yet_is_no_warning_and_is_known_to_who_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("kconnect.test.ids")
    client = ClientLog(log, "Producer of a-0")
    text = "[thrd:main]: Failed to acquire idempotence PID: Broker: Coordinator load in progress: retrying"
    with caplog.at_level(logging.INFO, log.name):
        client.log(logging.WARNING, "%s [%s] %s", "GETPID", "a#producer-1", text)
    assert not caplog.messages
    assert str(client.last_error).startswith("Failed to acquire idempotence PID: Broker: Coordinator load in progress")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, UnreachableError),
        (KafkaError._ALL_BROKERS_DOWN, UnreachableError),
        (KafkaError._TIMED_OUT, TimedOutError),
        (KafkaError.MSG_SIZE_TOO_LARGE, ConnectError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAllowedError),
    ],
)
def test_errors_of_the_client_become_ours_led_by_what_was_done(code: int, kind: type[ConnectError]) -> None:
    with pytest.raises(kind) as raised, kafka_errors("Offsets cannot be committed"):
        raise KafkaException(KafkaError(code))
    assert type(raised.value) is kind
    assert str(raised.value).startswith("Offsets cannot be committed: ")


@pytest.mark.parametrize("code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR])
def test_a_coordinator_that_is_not_ready_may_be_later_whatever_the_client_says(code: int) -> None:
    with pytest.raises(RetriableError), kafka_errors("x"):
        raise KafkaException(KafkaError(code, retriable=False))


def test_a_retriable_error_stays_one() -> None:
    with pytest.raises(RetriableError), kafka_errors("x"):
        raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR, "moved", retriable=True))


class Unit:
    """A Delivery and what it reported."""

    def __init__(self, *, tolerates: bool = False) -> None:
        self.ended: list[bool] = []
        self.failures: list[DeliveryFailure] = []

        def on_failure(failure: DeliveryFailure) -> bool:
            self.failures.append(failure)
            return tolerates

        self.units = EndedUnits()
        self.held: list[Delivery] = [Delivery(self.ended.append, on_failure, self.units)] * 3  # as three messages do

    def end_messages(self) -> None:
        self.held.clear()
        self.units.tell()


def test_a_unit_ends_with_its_last_message_and_not_before() -> None:
    unit = Unit()
    unit.held[0].complete()
    unit.held.pop()
    unit.held.pop()
    unit.units.tell()
    assert unit.ended == []
    unit.end_messages()
    assert unit.ended == [True]


def test_a_unit_that_was_not_handed_over_whole_never_counts_as_acknowledged() -> None:
    unit = Unit()
    unit.end_messages()
    assert unit.ended == [False]


@pytest.mark.parametrize("tolerates", [True, False])
def test_a_refused_record_spoils_its_unit_unless_tolerated(tolerates: bool) -> None:
    unit = Unit(tolerates=tolerates)
    unit.held[0].complete()
    unit.held[0].fail(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), RefusedRecord("orders", 2))
    unit.end_messages()
    assert unit.ended == [tolerates]
    assert "topic 'orders', partition 2" in str(unit.failures[0].error)


def test_a_purged_record_is_never_tolerated() -> None:
    unit = Unit(tolerates=True)
    unit.held[0].complete()
    unit.held[0].fail(KafkaError(KafkaError._PURGE_QUEUE), RefusedRecord("orders", 0))
    unit.end_messages()
    assert (unit.ended, unit.failures) == ([False], [])


def test_the_last_message_only_notes_the_end_which_whoever_serves_tells_once() -> None:
    unit = Unit()
    unit.held[0].complete()
    unit.held.clear()
    assert unit.ended == []
    unit.units.tell()
    unit.units.tell()
    assert unit.ended == [True]


def test_bytes_of_a_unit_are_released_when_its_end_is_reported() -> None:
    units = EndedUnits()
    delivery = Delivery(lambda ok: None, lambda failure: False, units)
    delivery.size += 10
    delivery.size += 5
    units.tell()
    assert units.take_released() == 0
    del delivery
    assert units.take_released() == 0
    units.tell()
    assert (units.take_released(), units.take_released()) == (15, 0)


def test_timestamps_are_taken_as_kafka_takes_them() -> None:
    assert [producer_time(stamp) for stamp in (None, -1, 0, 1_000)] == [0, 0, 0, 1_000]
    with pytest.raises(DataError, match="Invalid record timestamp -2"):
        producer_time(-2)
    assert all(first <= second for first, second in pairwise(producer_time(stamp) for stamp in range(5)))


def test_a_record_with_a_place_or_time_that_kafka_has_not_is_named() -> None:
    """None of them is sent, and no client tries to: as Java's ProducerRecord refuses them."""
    producer = RecordProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "orders-0")
    delivery = Delivery(lambda ok: None, lambda failure: False, EndedUnits())
    keys: list[bytes | None] = [b"k" * 300, None]

    def send_batch(partition: int | None, times: Any, keys: Any = keys) -> None:
        producer.send_batch(KafkaBatch("orders", partition, keys, [b"x", b"y"], times, None), delivery, lambda: False)

    def send(partition: int | None, time: int | None) -> None:
        producer.send(KafkaRecord("orders", partition, b"k", b"x", time, None), delivery, lambda: False)

    no_place = "Invalid partition: -1. A record for topic 'orders' has it."
    try:
        assert refusal(lambda: send_batch(-1, None)).startswith(no_place)
        assert refusal(lambda: send(-1, None)).startswith(no_place)
        shown = f"{b'k' * 100!r}.."
        wanted = "Invalid record timestamp -5 of a record for topic 'orders'"
        assert refusal(lambda: send_batch(None, [-5, 1])).startswith(
            f"{wanted} with the key {shown}. Kafka's times are"
        )
        assert refusal(lambda: send_batch(2, [-1, -5])).startswith(f"{wanted}, partition 2 without a key. ")
        assert refusal(lambda: send_batch(None, -5, None)).startswith(f"{wanted} without a key. ")
        assert refusal(lambda: send(None, -5)).startswith(f"{wanted} with the key b'k'. ")
        noon: Any = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
        odd = f"Invalid record timestamp {noon!r} of type datetime of a record for topic 'orders'"
        assert refusal(lambda: send_batch(None, [1, noon])).startswith(odd)
        assert refusal(lambda: send(None, noon)).startswith(odd)
    finally:
        producer.close()


def refusal(call: Callable[[], None]) -> str:
    with pytest.raises(DataError) as raised:
        call()
    return str(raised.value)
