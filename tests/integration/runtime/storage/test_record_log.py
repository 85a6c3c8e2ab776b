"""What every RecordLog and every ExclusiveWriter keeps to, in memory and on a topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kconnect.errors import FencedError
from kconnect.model import LogRecord
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, KafkaExclusiveWriter, LogSpec
from kconnect.runtime.storage.record_log import ExclusiveWriter, MemoryRecordLog, MemoryTopic, MemoryWriter, RecordLog
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

_WITHIN_S = 20.0


class Ground:
    """One topic, and as many logs and writers on it as a test wants; all are stopped at its end."""

    def __init__(self, new_log: Callable[[], RecordLog], new_writer: Callable[[], ExclusiveWriter]) -> None:
        self._new_log, self._new_writer = new_log, new_writer
        self._made: list[RecordLog | ExclusiveWriter] = []

    def log(self) -> RecordLog:
        return self._keep(self._new_log())

    def writer(self) -> ExclusiveWriter:
        return self._keep(self._new_writer())

    def _keep(self, made):
        self._made.append(made)
        return made

    def stop(self) -> None:
        for made in self._made:
            made.stop()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def ground(request, broker) -> Iterator[Ground]:
    if request.param == "memory":
        topic = MemoryTopic("memory", partitions=3)
        found = Ground(lambda: MemoryRecordLog(topic), lambda: MemoryWriter(topic))
        yield found
        found.stop()
        return
    name = topic_for(request)
    config = {"bootstrap.servers": broker.bootstrap}
    create_topic(broker.bootstrap, name, partitions=3)
    spec = LogSpec(topic=name, consumer=config, producer=config, isolation_level="read_committed")
    with KafkaAdmin(config, "test") as admin:
        found = Ground(lambda: CompactedLog(spec, admin), lambda: KafkaExclusiveWriter(name, config, name))
        yield found
        found.stop()


def pairs(records: list[LogRecord]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


def test_the_start_gives_all_there_is_and_the_tail_what_comes(ground):
    writing, given = ground.log(), []
    writing.start(lambda record: None)
    for value in (b"1", b"2", None):
        writing.send(b"k", value).result(_WITHIN_S)
    reading = ground.log()
    reading.start(given.append)
    assert pairs(given) == [(b"k", b"1"), (b"k", b"2"), (b"k", None)]
    writing.send(b"k", b"4").result(_WITHIN_S)
    eventually(lambda: len(given) == 4, _WITHIN_S, "the tail gives the fourth record")
    assert pairs(given)[3] == (b"k", b"4")
    reading.read_to_end(_WITHIN_S)
    assert len(given) == 4


def test_reading_to_the_end_includes_what_was_sent_without_waiting(ground):
    log, given = ground.log(), []
    log.start(given.append)
    sent = [log.send(b"key-%d" % number, b"v") for number in range(100)]
    log.read_to_end(_WITHIN_S)
    assert sorted(record.key for record in given) == sorted(b"key-%d" % number for number in range(100))
    places = {(done.result(0).partition, done.result(0).offset) for done in sent}
    assert places == {(record.partition, record.offset) for record in given}


def test_reading_past_a_place_gives_its_record_and_what_is_before_it_in_the_partition(ground):
    log, other, given = ground.log(), ground.log(), []
    log.start(given.append)
    other.start(lambda record: None)
    for number in range(20):
        other.send(b"key-%d" % number, b"before").result(_WITHIN_S)
        place = log.send(b"key-%d" % number, b"%d" % number).result(_WITHIN_S)
        log.read_past(place, _WITHIN_S)
        of_the_partition = [record.offset for record in given if record.partition == place.partition]
        assert of_the_partition[: place.offset + 1] == list(range(place.offset + 1))


def test_any_number_of_threads_may_read_to_the_end(ground):
    log, given, seen = ground.log(), [], []
    log.start(given.append)

    def write_and_wait(number: int) -> None:
        log.send(b"k", b"%d" % number)
        log.read_to_end(_WITHIN_S)
        seen.append(b"%d" % number in [record.value for record in given])

    threads = [threading.Thread(target=write_and_wait, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _WITHIN_S)
    assert seen == [True] * 8


def test_equal_keys_stay_in_order(ground):
    log, given = ground.log(), []
    log.start(given.append)
    for number in range(300):
        log.send(b"key-%d" % (number % 7), b"%d" % number)
    log.read_to_end(_WITHIN_S)
    for key in {record.key for record in given}:
        values = [int(record.value) for record in given if record.key == key]
        assert values == sorted(values)
    assert len(given) == 300


def test_nothing_is_given_after_the_stop_and_stopping_twice_is_fine(ground):
    log, other, given = ground.log(), ground.log(), []
    log.start(given.append)
    other.start(lambda record: None)
    log.stop()
    log.stop()
    other.send(b"k", b"v").result(_WITHIN_S)
    other.read_to_end(_WITHIN_S)
    assert given == []


def test_a_group_of_records_is_read_as_a_whole_after_its_write(ground):
    log, writer, given = ground.log(), ground.writer(), []
    log.start(given.append)
    writer.claim(_WITHIN_S)
    writer.write([(b"a", b"1"), (b"b", b"2"), (b"a", None)], _WITHIN_S)
    log.read_to_end(_WITHIN_S)
    assert sorted(pairs(given), key=str) == sorted([(b"a", b"1"), (b"b", b"2"), (b"a", None)], key=str)


def test_a_later_claim_cuts_the_earlier_writer_off(ground):
    log, first, second, given = ground.log(), ground.writer(), ground.writer(), []
    log.start(given.append)
    first.claim(_WITHIN_S)
    second.claim(_WITHIN_S)
    with pytest.raises(FencedError):
        first.write([(b"k", b"of the first")], _WITHIN_S)
    second.write([(b"k", b"of the second")], _WITHIN_S)
    first.claim(_WITHIN_S)
    first.write([(b"k", b"of the first again")], _WITHIN_S)
    log.read_to_end(_WITHIN_S)
    assert [record.value for record in given] == [b"of the second", b"of the first again"]


def test_nothing_is_written_without_a_claim(ground):
    writer = ground.writer()
    with pytest.raises(FencedError):
        writer.write([(b"k", b"v")], _WITHIN_S)
    writer.claim(_WITHIN_S)
    writer.stop()
    writer.stop()
    with pytest.raises(FencedError):
        writer.write([(b"k", b"v")], _WITHIN_S)
