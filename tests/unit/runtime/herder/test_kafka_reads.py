"""What only Kafka knows, for requests that cannot wait: at once, in time, shared, or not at all."""

from __future__ import annotations

import threading

import pytest

from kconnect.errors import ConnectError, TimedOutError, UnreachableError
from kconnect.runtime.herder.health.kafka_contact import KafkaContact
from kconnect.runtime.herder.queries.kafka_reads import KafkaReads
from kit.waiting import eventually


@pytest.fixture
def contact() -> KafkaContact:
    return KafkaContact("b:9092")


def test_what_is_read_and_what_a_read_raises_is_reported(contact: KafkaContact) -> None:
    reads = KafkaReads(contact, 60.0)
    assert reads.ask("a", "The offsets of connector a", lambda: [1]) == [1]

    def refused() -> None:
        raise ConnectError("no rights")

    with pytest.raises(ConnectError, match="no rights"):
        reads.ask("a", "The offsets of connector a", refused)


def test_nobody_is_asked_while_kafka_is_known_to_be_away(contact: KafkaContact) -> None:
    contact.silent("connection refused")
    asked: list[int] = []
    with pytest.raises(UnreachableError, match=r"The lag of connector a cannot be read: Kafka is away: .*refused"):
        KafkaReads(contact, 60.0).ask("a", "The lag of connector a", lambda: asked.append(1))
    assert asked == []


def test_a_read_without_an_answer_is_shared_and_others_do_not_wait_for_it(contact: KafkaContact) -> None:
    reads, answers, began = KafkaReads(contact, 0.05), threading.Event(), []

    def hangs() -> str:
        began.append(1)
        answers.wait()
        return "late"

    for _ in range(3):
        with pytest.raises(TimedOutError, match=r"no answer within 0.05 s \(kconnect.kafka.answer.timeout.ms\)"):
            reads.ask("a", "The offsets of connector a", hangs)
    assert began == [1], "one thread asks, for all who want the same"
    patient = KafkaReads(contact, 60.0)
    assert patient.ask("b", "The offsets of connector b", lambda: "at once") == "at once"
    answers.set()
    eventually(lambda: not any(each.name == "kafka-read" for each in threading.enumerate()), 10, "the read has ended")
    began.clear()
    assert KafkaReads(contact, 60.0).ask("a", "The offsets of connector a", hangs) == "late"
