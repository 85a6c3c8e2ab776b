"""How far sinks are behind, as a real broker tells it."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kconnect.java.devbroker import DevBroker
from kconnect.runtime.herder.offsets.lag_reader import LagReader
from kit.pace import ample_s

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

WITHIN_S = 30.0


@pytest.fixture
def transactions(broker: DevBroker, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"t-{topic}"})
    producer.init_transactions(ample_s(WITHIN_S))
    return producer


def put(transactions: Producer, topic: str, count: int, *, is_aborted: bool = False) -> None:
    """One transaction with so many records."""
    transactions.begin_transaction()
    for number in range(count):
        transactions.produce(topic, b"%d" % number)
    end = transactions.abort_transaction if is_aborted else transactions.commit_transaction
    assert transactions.flush(ample_s(WITHIN_S)) == 0
    end(ample_s(WITHIN_S))


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    client.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    client.close()


def lags(bootstrap: str, topic: str, **settings: str) -> list[int | None]:
    """Two looks of the same reader: the second one has what was counted before."""
    config = {"topics": topic, **{f"consumer.override.{key}".replace("_", "."): v for key, v in settings.items()}}
    reader = LagReader({"bootstrap.servers": bootstrap}, ample_s(WITHIN_S), "tests")
    try:
        return [reader.read({topic: config})[topic].total for _ in range(2)]
    finally:
        reader.close()


def test_markers_of_transactions_are_no_lag(broker: DevBroker, topic: str, transactions: Producer) -> None:
    put(transactions, topic, 3)
    commit(broker.bootstrap, f"connect-{topic}", topic, 3)  # as a sink does that has put all three
    assert lags(broker.bootstrap, topic) == [0, 0]
    put(transactions, topic, 2)
    assert lags(broker.bootstrap, topic) == [2, 2]


def test_aborted_records_are_lag_of_sinks_that_read_them(broker: DevBroker, topic: str, transactions: Producer) -> None:
    commit(broker.bootstrap, f"connect-{topic}", topic, 0)
    put(transactions, topic, 2, is_aborted=True)
    assert lags(broker.bootstrap, topic) == [2, 2]
    assert lags(broker.bootstrap, topic, isolation_level="read_committed") == [0, 0]
    put(transactions, topic, 1)
    assert lags(broker.bootstrap, topic, isolation_level="read_committed") == [1, 1]


def test_a_sink_that_is_far_behind_is_measured_in_offsets(
    broker: DevBroker, topic: str, transactions: Producer
) -> None:
    put(transactions, topic, 150)
    commit(broker.bootstrap, f"connect-{topic}", topic, 0)
    assert lags(broker.bootstrap, topic) == [151, 151]
