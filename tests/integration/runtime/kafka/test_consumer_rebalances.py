"""RecordConsumer: a partition that goes and comes back within one fetch is read from where its assignment begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence

import pytest

from kconnect.model import TopicPartition
from kconnect.runtime.kafka.consumer import RecordConsumer
from kit.pace import ample_s
from kit.topics import create_topic, produce_lines
from kit.waiting import stand_still

pytestmark = pytest.mark.broker
RECORDS = 300


class Stalling:
    """Listens as a sink without offsets does; stands still between losing its partitions and getting them again."""

    def __init__(self) -> None:
        self.revoked_s: float | None = None
        self.stalled = False
        self.came: list[TopicPartition] = []

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self.revoked_s is not None:
            self.came = list(partitions)
        return {partition: 0 for partition in partitions}

    def to_pause(self, partitions: Sequence[TopicPartition]) -> Collection[TopicPartition]:
        if self.revoked_s is not None:
            stand_still(1.0)  # records of the new assignment arrive meanwhile
        return ()

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self.revoked_s is None:
            stand_still(0.5)  # statistics come due meanwhile, which are reported of next
            self.revoked_s = time.monotonic()

    lost = revoked

    def stall(self, _usage: object) -> None:
        """Called inside the fetch, with the client's statistics: the group has time to rebalance."""
        if self.revoked_s is not None and not self.stalled:
            self.stalled = True
            stand_still(3.0)


def config(broker, group: str) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 200,
        "statistics.interval.ms": 100,
    }


def test_records_of_a_partition_that_went_and_came_back_in_one_fetch_are_not_left_out(broker, topic):
    topic += "-two"
    create_topic(broker.bootstrap, topic, partitions=2)
    for partition in (0, 1):
        produce_lines(broker.bootstrap, topic, [str(number) for number in range(RECORDS)], partition=partition)
    listener, ended = Stalling(), threading.Event()
    first = RecordConsumer(config(broker, topic), "first", note_usage=listener.stall)
    second = RecordConsumer(config(broker, topic), "second")
    first.subscribe([topic], listener)

    def other() -> None:
        second.subscribe([topic], Stalling())
        while not ended.is_set():
            second.fetch(1, 0.1)
        second.close()

    thread = threading.Thread(target=other, name="second")
    found: dict[TopicPartition, list[int]] = {}
    try:
        deadline = time.monotonic() + ample_s(60)
        while time.monotonic() < deadline and not found.values():
            for run in first.fetch(1, 0.2):
                found.setdefault(TopicPartition(run.topic, run.partition), []).extend(run.offsets)
        found.clear()
        thread.start()
        deadline = time.monotonic() + ample_s(20)
        stand_still(2.0)  # the thread stands still here: that its partitions go is the first thing that fetch() meets
        while time.monotonic() < deadline and sum(map(len, found.values())) < RECORDS:
            for run in first.fetch(500, 0.2):
                if listener.came:
                    found.setdefault(TopicPartition(run.topic, run.partition), []).extend(run.offsets)
    finally:
        ended.set()
        thread.join()
        first.close()
    assert listener.stalled
    assert [offsets[:RECORDS] for offsets in found.values()] == [list(range(RECORDS))]
