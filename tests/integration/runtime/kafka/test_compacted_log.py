"""A log on a topic of a real broker: transactions, callbacks that fail, topics that vanish, deadlines, scans."""

from __future__ import annotations

import itertools
import logging
import re
import resource
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kconnect.errors import ConnectError, NotFoundError, TimedOutError
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, KafkaExclusiveWriter, LogSpec, ScanSpec, scan
from kit.pace import ample_s
from kit.topics import create_topic, delete_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_WITHIN_S = 20.0
NewLog = Callable[..., CompactedLog]


@pytest.fixture
def config(broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


@pytest.fixture
def admin(config) -> Iterator[KafkaAdmin]:
    with KafkaAdmin(config, "test") as found:
        yield found


@pytest.fixture
def new_log(config, admin) -> Iterator[NewLog]:
    """Makes logs, and stops them at the end."""
    made = []

    def new(topic: str, **settings) -> CompactedLog:
        made.append(CompactedLog(LogSpec(topic=topic, consumer=config, **settings), admin))
        return made[-1]

    yield new
    for log in made:
        log.stop()


@pytest.fixture
def transactions(config, topic) -> Producer:
    producer = Producer({**config, "transactional.id": topic, "log_level": 2})
    producer.init_transactions(_WITHIN_S)
    return producer


def values(found) -> list[bytes | None]:
    return [record.value for record in found]


def test_100_000_records_are_taken_in_with_little_memory(broker, topic, new_log):
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 200_000}
    )
    for number in range(100_000):
        producer.produce(topic, b"x" * 1_000, b"key-%d" % (number % 50))
    assert producer.flush(60) == 0
    del producer
    state: dict[bytes, bytes] = {}
    offsets = itertools.count()
    in_order = []

    def take(record) -> None:
        state[record.key] = record.value
        in_order.append(record.offset == next(offsets))

    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    new_log(topic).start(take)
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before) / 1024
    assert (len(in_order), all(in_order), len(state)) == (100_000, True, 50)
    assert grown_mb < 50, "the history is 100 MB"


def test_a_topic_without_records_is_ready_at_once_and_one_that_is_not_there_is_named(topic, new_log):
    log = new_log(topic)
    log.start(lambda record: None)
    log.read_to_end(_WITHIN_S)
    assert log.partition_count == 1
    within_s = ample_s(0.5)  # the broker has to answer in it
    missing = new_log("no-such-topic", start_timeout_s=within_s, start_setting="the.setting")
    message = f"Topic 'no-such-topic' does not exist.* after {re.escape(f'{within_s:g}')} s \\(the\\.setting\\)"
    with pytest.raises(NotFoundError, match=message):
        missing.start(lambda record: None)


def test_a_log_without_a_producer_is_not_written_and_one_not_started_is_not_read(topic, new_log):
    log = new_log(topic)
    with pytest.raises(ConnectError, match="is not started"):
        log.read_to_end(1)
    log.start(lambda record: None)
    with pytest.raises(ConnectError, match="only read"):
        log.send(b"k", b"v")


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_callback_that_fails_is_logged_with_the_records_place_and_the_next_ones_follow(
    broker, topic, new_log, config, caplog, is_idempotent
):
    produce_lines(broker.bootstrap, topic, ["good", "bad", "good"], key=b"the-key")
    taken = []

    def take(record) -> None:
        if record.value == b"bad":
            raise ValueError("cannot be folded")
        taken.append(record.offset)

    log = new_log(topic, producer=config, is_idempotent=is_idempotent)
    log.start(take)
    log.send(b"other-key", b"bad")
    log.send(b"k", b"good")
    log.read_to_end(_WITHIN_S)
    assert taken == [0, 2, 4]
    reported = [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]
    assert [
        f"{topic}-0 at offset {offset} with key {key}" in line
        for line, (offset, key) in zip(reported, [(1, "b'the-key'"), (3, "b'other-key'")], strict=True)
    ] == [True, True]
    assert all(line.exc_info for line in caplog.records if line.levelno == logging.ERROR)


def test_a_callback_may_not_wait_for_its_own_log(topic, new_log, config):
    raised = []
    log = new_log(topic, producer=config)

    def take(record) -> None:
        try:
            log.read_to_end(_WITHIN_S)
        except ConnectError as error:
            raised.append(str(error))

    log.start(take)
    log.send(b"k", b"v")
    log.read_to_end(_WITHIN_S)
    assert raised == [f"The callback of the log of {topic} may not wait for that log's end"]


def test_the_end_behind_a_transactions_marker_is_reached(topic, new_log, transactions):
    logs = [new_log(topic, isolation_level=level) for level in ("read_committed", "read_uncommitted")]
    given: list[list] = [[], []]
    for number in range(2):
        transactions.begin_transaction()
        transactions.produce(topic, b"%d" % number, b"k")
        transactions.commit_transaction()
        for log, records in zip(logs, given, strict=True):
            if number == 0:
                log.start(records.append)
            else:
                log.read_to_end(_WITHIN_S)
    assert [values(records) for records in given] == [[b"0", b"1"]] * 2


def test_a_committed_reader_waits_for_open_transactions_unless_reported_not_to(topic, new_log, transactions):
    patient, hasty = [], []
    waiting = new_log(topic, isolation_level="read_committed")
    going_on = new_log(topic, isolation_level="read_committed", awaits_open_transactions=False)
    waiting.start(patient.append)
    going_on.start(hasty.append)
    transactions.begin_transaction()
    transactions.produce(topic, b"open", b"k")
    transactions.flush(_WITHIN_S)
    going_on.read_to_end(_WITHIN_S)
    within_s = round(ample_s(0.5), 1)  # the broker has to tell the end in it
    message = rf"{topic} .* within {re.escape(f'{within_s:g}')} s \(worker\.sync\.timeout\.ms\).* 0 of 1"
    with pytest.raises(TimedOutError, match=message) as late:
        waiting.read_to_end(within_s)
    assert "transaction that is still open" in (late.value.hint or "")
    assert (patient, hasty) == ([], [])
    threading.Timer(0.3, transactions.commit_transaction).start()
    waiting.read_to_end(_WITHIN_S)
    assert values(patient) == [b"open"]


def test_a_start_need_not_wait_for_transactions_that_killed_writers_left_open(topic, new_log, transactions):
    transactions.begin_transaction()
    transactions.produce(topic, b"open", b"k")
    transactions.flush(_WITHIN_S)
    given = []
    log = new_log(
        topic, isolation_level="read_committed", start_awaits_open_transactions=False, start_timeout_s=_WITHIN_S
    )
    log.start(given.append)
    assert given == []
    transactions.commit_transaction()
    log.read_to_end(_WITHIN_S)
    assert values(given) == [b"open"]


def test_readers_see_all_of_a_group_or_nothing(topic, new_log, config):
    committed, all_of_it = [], []
    writer = KafkaExclusiveWriter(topic, config, topic, timeout_setting="the.setting")
    new_log(topic).start(all_of_it.append)
    reader = new_log(topic, isolation_level="read_committed")
    reader.start(committed.append)
    writer.claim(_WITHIN_S)
    too_large = b"x" * 900_000
    with pytest.raises(ConnectError, match=f"3 records could not be written to topic {topic} in a transaction"):
        writer.write([(b"a", b"1"), (b"b", too_large * 2), (b"c", b"3")], _WITHIN_S)
    writer.write([(b"a", b"4"), (b"b", None)], _WITHIN_S)
    reader.read_to_end(_WITHIN_S)
    assert [(record.key, record.value) for record in committed] == [(b"a", b"4"), (b"b", None)]
    writer.stop()


def test_a_writer_cut_off_in_the_middle_leaves_nothing_to_committed_readers(topic, new_log, config):
    """As a leader that stands still in mid-transaction and is replaced."""
    old = Producer({**config, "transactional.id": topic, "log_level": 2})
    old.init_transactions(_WITHIN_S)
    old.begin_transaction()
    old.produce(topic, b"half of a group", b"a")
    old.flush(_WITHIN_S)
    writer, committed, uncommitted = KafkaExclusiveWriter(topic, config, topic), [], []
    writer.claim(_WITHIN_S)
    writer.write([(b"a", b"whole"), (b"b", b"whole")], _WITHIN_S)
    for level, given in (("read_committed", committed), ("read_uncommitted", uncommitted)):
        new_log(topic, isolation_level=level).start(given.append)
    assert values(committed) == [b"whole", b"whole"]
    assert values(uncommitted) == [b"half of a group", b"whole", b"whole"]
    writer.stop()


def test_a_topic_deleted_and_made_anew_is_reported_and_read_from_its_beginning(broker, topic, new_log, config, caplog):
    given = []
    log = new_log(topic, producer=config)
    log.start(given.append)
    for number in range(5):
        log.send(b"k", b"%d" % number)
    log.read_to_end(_WITHIN_S)
    delete_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, topic, config={"cleanup.policy": "compact"})
    produce_lines(broker.bootstrap, topic, ["anew"], key=b"k")
    log.read_to_end(_WITHIN_S)
    assert values(given) == [b"0", b"1", b"2", b"3", b"4", b"anew"]
    reported = [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]
    assert len(reported) == 1
    assert f"{topic}-0: offset 5 is gone (the topic was deleted" in reported[0]


def test_a_topic_made_anew_with_fewer_partitions_is_read_to_its_end(broker, topic, new_log, config, caplog):
    caplog.set_level(logging.INFO)
    name, given = f"{topic}-two", []
    create_topic(broker.bootstrap, name, partitions=2)
    log = new_log(name, producer=config)
    log.start(given.append)
    for number in range(10):
        log.send(b"%d" % number, b"old")
    log.read_to_end(_WITHIN_S)
    delete_topic(broker.bootstrap, name)
    create_topic(broker.bootstrap, name)
    produce_lines(broker.bootstrap, name, ["anew"])
    eventually(lambda: f"Topic {name} is there again, with 1 partition" in caplog.text, 60, "it is found")
    log.read_to_end(_WITHIN_S)
    assert values(given) == [b"old"] * 10 + [b"anew"]
    assert log.partition_count == 1
    said = f"Topic {name} has lost what was read of it, and has cleanup.policy=delete"
    eventually(lambda: said in caplog.text, 30, "it is said that the broker deletes what is in it")


def test_records_deleted_at_the_beginning_do_not_matter_to_a_reader_behind_them(broker, topic, new_log, config):
    produce_lines(broker.bootstrap, topic, [str(number) for number in range(5)])
    given, late = [], []
    log = new_log(topic)
    log.start(given.append)
    client = AdminClient(config)  # must live until the answer is there
    for done in client.delete_records([TopicPartition(topic, 0, 3)]).values():
        done.result(_WITHIN_S)
    produce_lines(broker.bootstrap, topic, ["5"])
    log.read_to_end(_WITHIN_S)
    new_log(topic).start(late.append)
    assert [record.offset for record in given] == [0, 1, 2, 3, 4, 5]
    assert [record.offset for record in late] == [3, 4, 5]


def test_a_stop_ends_waiting_readers_and_what_is_sent_later_is_refused(topic, new_log, config, transactions):
    log = new_log(topic, producer=config, isolation_level="read_committed")
    log.start(lambda record: None)
    transactions.begin_transaction()
    transactions.produce(topic, b"open", b"k")
    transactions.flush(_WITHIN_S)
    ended = []

    def wait() -> None:
        try:
            log.read_to_end(_WITHIN_S)
        except ConnectError as error:
            ended.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    log.stop()
    waiting.join(_WITHIN_S)
    assert ended == [f"The log of {topic} is stopped"]
    with pytest.raises(ConnectError, match="is stopped"):
        log.send(b"k", b"v")
    transactions.abort_transaction()


# --- scans ---


def timed(broker, topic: str, *times: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for offset, timestamp in enumerate(times):
        producer.produce(topic, b"%d" % offset, b"k", partition=0, timestamp=timestamp)
    assert producer.flush(_WITHIN_S) == 0


def test_a_scan_gives_what_is_between_its_bounds(broker, topic, config, admin):
    now = int(time.time() * 1000)
    timed(broker, topic, now - 5_000, now - 4_000, now - 3_000, now - 2_000, now - 1_000)

    def offsets(**bounds) -> list[int]:
        return [record.offset for record in scan(ScanSpec(topic=topic, consumer=config, **bounds), admin)]

    assert offsets() == [0, 1, 2, 3, 4]
    assert offsets(begin={0: 3}) == [3, 4]
    assert offsets(begin={0: 1}, end={0: 3}) == [1, 2]
    assert offsets(end={0: 99}) == [0, 1, 2, 3, 4]
    assert offsets(begin={0: 99}) == []
    assert offsets(until_ms=now - 3_000) == [0, 1, 2]
    assert offsets(until_ms=now - 2_999) == [0, 1, 2]
    assert offsets(until_ms=now - 6_000) == []
    assert offsets(until_ms=now) == [0, 1, 2, 3, 4]
    record = next(scan(ScanSpec(topic=topic, consumer=config, begin={0: 2}), admin))
    assert (record.topic, record.partition, record.key, record.timestamp_ms) == (topic, 0, b"k", now - 3_000)


def test_a_scan_ends_at_an_open_transaction_and_passes_markers_and_aborted_records(topic, config, admin, transactions):
    for end in (transactions.commit_transaction, transactions.abort_transaction, None):
        transactions.begin_transaction()
        transactions.produce(topic, str(end).encode(), b"k")
        transactions.flush(_WITHIN_S)
        if end is not None:
            end()
    found = {
        level: [record.offset for record in scan(ScanSpec(topic=topic, consumer=config, isolation_level=level), admin)]
        for level in ("read_committed", "read_uncommitted")
    }
    assert found == {"read_committed": [0], "read_uncommitted": [0, 2, 4]}
    transactions.abort_transaction()


def test_a_scan_that_follows_gives_what_comes_until_it_is_stopped(broker, config, admin, request):
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=3)
    produce_lines(broker.bootstrap, topic, ["0"], key=b"a")
    stop, seen = threading.Event(), []

    def follow() -> None:
        for record in scan(ScanSpec(topic=topic, consumer=config), admin, follow=stop):
            seen.append(record.value)

    following = threading.Thread(target=follow)
    following.start()
    eventually(lambda: seen == [b"0"], _WITHIN_S, "what was there is given")
    produce_lines(broker.bootstrap, topic, ["1"], key=b"b")
    eventually(lambda: seen == [b"0", b"1"], _WITHIN_S, "what came is given")
    stop.set()
    following.join(_WITHIN_S)
    assert not following.is_alive()


def test_a_scan_of_a_topic_that_is_not_there_names_it(config, admin):
    spec = ScanSpec(topic="no-such-topic", consumer=config, timeout_s=ample_s(0.3), timeout_setting="the.setting")
    with pytest.raises(NotFoundError, match=r"'no-such-topic'.*\(the\.setting\)"):
        list(scan(spec, admin))
