"""Offsets in transactions of their own: they are written again after all brokers were away."""

from __future__ import annotations

import threading

import pytest

from kconnect.devbroker import DevBroker
from kconnect.errors import TimedOutError
from kconnect.kafka import CommittedOffset, FencedOffsets
from kconnect.model import TopicPartition
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_CLAIM_S = 120.0


def writer(bootstrap: str, name: str, **settings: str) -> FencedOffsets:
    """A writer of the group `name`. Keywords with `_` are settings of its producer with `.`."""
    producer = {
        "bootstrap.servers": bootstrap,
        "transactional.id": name,
        "enable.idempotence": "true",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    made = FencedOffsets(producer, {"bootstrap.servers": bootstrap, "group.id": name}, name)
    assert made.claim(_CLAIM_S, lambda: False)
    return made


def left_waiting(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"transaction-{name}")]


def test_offsets_are_written_after_the_broker_was_away(own_broker: DevBroker, request: pytest.FixtureRequest) -> None:
    topic, bootstrap = topic_for(request), own_broker.bootstrap
    create_topic(bootstrap, topic)
    at = TopicPartition(topic, 0)
    patient = writer(bootstrap, f"{topic}-a")
    # A client that forgets the group's coordinator with all brokers, and waits for it: its time is limited all the same
    hung = writer(bootstrap, f"{topic}-b", metadata_recovery_strategy="rebootstrap", transaction_timeout_ms="3000")
    try:
        for each in (patient, hung):
            assert each.write({at: CommittedOffset(1, "before")}, lambda: False)
            assert each.await_settled([at], lambda: False)  # what Kafka knows of until then may be forgotten
        own_broker.kill()
        own_broker.start()
        assert patient.write({at: CommittedOffset(2, "after")}, lambda: False)
        assert patient.read([at], _CLAIM_S) == {at: CommittedOffset(2, "after")}
        with pytest.raises(TimedOutError, match=r"Offsets cannot be added to a transaction within 3 s"):
            hung.write({at: CommittedOffset(2, "after")}, lambda: False)
        hung.close()
        hung = writer(bootstrap, f"{topic}-b")
        assert hung.read([at], _CLAIM_S) == {at: CommittedOffset(1, "before")}
        assert hung.write({at: CommittedOffset(3, "by another")}, lambda: False)
        own_broker.restart()
        eventually(lambda: not left_waiting(topic), 60, "what was left waiting learns of it, and ends")
    finally:
        patient.close()
        hung.close()
