"""Readers whose broker refuses the topic in the midst of records: none of them is passed over."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from kconnect.errors import ConnectError
from kconnect.runtime.kafka import partition_reader
from kconnect.runtime.kafka.consumed_records import RECORDS
from kconnect.runtime.kafka.partition_reader import LOG, Form, PartitionReader

REFUSED = r"^Topic 'orders' cannot be read: Topic authorization failed: the .* client lacks READ on topic orders\.$"


def record(offset: int, partition: int = 0) -> Message:
    return Message(topic="orders", partition=partition, offset=offset, key=b"k", value=b"v", timestamp=(1, 1))


def refusal(offset: int) -> Message:
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return Message(topic="orders", partition=0, offset=offset, error=error)


class Client:
    """Gives what it has at once, as the real one does with the errors of a fetch among its records."""

    def __init__(self, *batches: list[Message]) -> None:
        self._batches = list(batches)

    def assign(self, places: Any) -> None: ...

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        return self._batches.pop(0)

    def close(self) -> None: ...


@pytest.mark.parametrize("form", [LOG, RECORDS], ids=["a log", "records"])
def test_records_that_came_with_a_refusal_are_given_before_it_is_raised(
    form: Form[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [record(0), record(1), refusal(2), record(7, partition=1)], [record(2)], [refusal(3)], [record(3)]
    client = Client(*batches)
    monkeypatch.setattr(partition_reader, "consumer_client", lambda config, log: client)
    reader = PartitionReader("orders", {}, form)
    reader.open({0: 0})
    assert [each.offset for each in reader.read(10, 0)] == [0, 1, 7]
    assert reader.reached == {0: 2, 1: 8}
    with pytest.raises(ConnectError, match=REFUSED):
        reader.read(10, 0)
    assert [each.offset for each in reader.read(10, 0)] == [2]
    with pytest.raises(ConnectError, match=REFUSED):  # at once: it came alone
        reader.read(10, 0)
    assert [each.offset for each in reader.read(10, 0)] == [3]
    reader.close()
