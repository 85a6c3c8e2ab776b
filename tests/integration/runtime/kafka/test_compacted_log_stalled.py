"""A consumer that gives nothing although its topic goes on: another one reads on where it stood."""

from __future__ import annotations

import threading

import pytest

from kconnect.model import LogRecord
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.kafka.partition_reader import LOG, LogReader, PartitionReader
from kit.pace import ample_s

pytestmark = pytest.mark.broker

_WITHIN_S = 60.0


class StandsStill(PartitionReader[LogRecord]):
    """Gives nothing more from the moment that it is asked to, as one of a frozen worker did."""

    def __init__(self, spec: LogSpec) -> None:
        super().__init__(spec.topic, spec.consumer, LOG, isolation_level=spec.isolation_level, name="test")
        self.is_reported = threading.Event()
        self.is_closed = threading.Event()

    def read(self, max_records: int, timeout_s: float) -> list[LogRecord]:
        if self.is_reported.is_set():
            self.is_closed.wait(timeout_s)
            return []
        return super().read(max_records, timeout_s)

    def close(self) -> None:
        super().close()
        self.is_closed.set()


def test_another_reader_goes_on_where_one_stands_still_and_no_record_is_lost_or_given_twice(broker, topic) -> None:
    client = {"bootstrap.servers": broker.bootstrap}
    # More than the second reader takes to connect: else it would be replaced, too
    spec = LogSpec(topic=topic, consumer=client, producer=client, stalled_after_s=ample_s(1))
    given: list[bytes | None] = []
    readers: list[StandsStill] = []

    def make(spec: LogSpec) -> LogReader:
        readers.append(StandsStill(spec))
        return readers[-1]

    with KafkaAdmin(client, "test") as admin:
        log = CompactedLog(spec, admin, make)
        log.start(lambda record: given.append(record.value))
        try:
            log.send(b"k", b"before").result(_WITHIN_S)
            log.read_to_end(_WITHIN_S)
            readers[0].is_reported.set()
            log.send(b"k", b"meanwhile").result(_WITHIN_S)
            log.read_to_end(_WITHIN_S)
            log.send(b"k", b"after").result(_WITHIN_S)
            log.read_to_end(_WITHIN_S)
            assert readers[0].is_closed.wait(_WITHIN_S), "the one that stood still is closed"
        finally:
            log.stop()
    assert given == [b"before", b"meanwhile", b"after"]
    assert len(readers) == 2
