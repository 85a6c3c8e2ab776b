"""Whether Kafka answers: when an outage begins, how long it lasts, what the log says of it."""

from __future__ import annotations

import logging
import math
import threading

import pytest

from kconnect.client.outage import OUTAGE_HEADER, Outage
from kconnect.errors import ConnectError
from kconnect.runtime.herder.health.kafka_contact import KafkaContact, KafkaWatch
from kit.waiting import eventually

REFUSED = "the broker at localhost:9092: Connection refused"


class Hands:
    """A clock whose hands the test moves."""

    def __init__(self):
        self.now_s = 1000.0

    def monotonic(self):
        return self.now_s

    def time_ms(self):
        return 1_700_000_000_000 + round(self.now_s * 1000)

    def wait(self, event, timeout_s):
        return event.wait(timeout_s)


class Brokers:
    """A probe: answers unless it is `away`."""

    def __init__(self, away=False):
        self.away = away
        self.asked = 0
        self.is_closed = False

    def ask(self, within_s):
        self.asked += 1
        if self.away:
            raise ConnectError(REFUSED)

    def close(self):
        self.is_closed = True


@pytest.fixture
def clock():
    return Hands()


@pytest.fixture
def contact(clock):
    return KafkaContact("localhost:9092", clock)


def watch_over(contact, clock, brokers=None, heard=lambda: None, interval_s=3.0):
    return KafkaWatch(
        contact,
        lambda: brokers or Brokers(),
        interval_s=interval_s,
        heard_at_s=heard,
        what_happens="Tasks wait.",
        clock=clock,
    )


def test_an_outage_begins_with_the_last_answer_before_it(clock, contact):
    contact.answered()
    answered_ms = clock.time_ms()
    clock.now_s += 3
    assert contact.outage is None
    begun = contact.silent(REFUSED)
    clock.now_s += 80
    assert begun == Outage(answered_ms, 3.0, "localhost:9092", REFUSED, 1)
    assert contact.outage == Outage(answered_ms, 83.0, "localhost:9092", REFUSED, 1)


def test_only_the_first_silence_is_news_and_the_others_are_counted(clock, contact):
    contact.answered()
    assert contact.silent(REFUSED) is not None
    for _ in range(9):
        clock.now_s += 1
        assert contact.silent("no answer in time") is None
    assert (contact.outage.attempts, contact.outage.problem) == (10, "no answer in time")
    assert contact.outages == 1


def test_an_answer_ends_the_outage_and_tells_its_length(clock, contact):
    contact.answered()
    clock.now_s += 3
    contact.silent(REFUSED)
    clock.now_s += 80
    back = contact.answered()
    assert back.outage.lasted_s == 83
    assert contact.outage is None
    assert contact.answered() is None, "the second answer is no news"


def test_what_was_heard_before_the_outage_does_not_end_it(clock, contact):
    heard_s = clock.now_s
    contact.answered(heard_s)
    clock.now_s += 3
    contact.silent(REFUSED)
    assert contact.answered(heard_s) is None
    assert contact.outage is not None


def test_before_the_first_question_nothing_is_away_and_nothing_was_heard(contact):
    assert contact.outage is None
    assert contact.since_answer_s() == math.inf


def test_a_worker_whose_group_answers_is_asked_nothing(clock, contact):
    brokers, beats = Brokers(), [clock.now_s]
    watch = watch_over(contact, clock, brokers, heard=lambda: beats[0])
    for _ in range(5):
        clock.now_s += 2.5
        beats[0] = clock.now_s
        assert watch.has_heard()
    assert 0 < watch.pause_s() <= 3
    assert brokers.asked == 0


def test_the_next_look_is_due_an_interval_after_the_last_answer(clock, contact):
    watch = watch_over(contact, clock)
    contact.answered()
    clock.now_s += 1
    assert watch.pause_s() == pytest.approx(2)
    contact.silent(REFUSED)
    assert watch.pause_s() == 1, "while Kafka is away it is asked each second"


def test_an_outage_is_two_lines_of_log_whatever_it_lasts(clock, contact, caplog):
    watch = watch_over(contact, clock)
    contact.answered()
    with caplog.at_level(logging.INFO, "kconnect.runtime.herder.health.kafka_contact"):
        for _ in range(100):
            clock.now_s += 1
            watch.note_silence(REFUSED)
        watch.note_answer()
    lost, back = caplog.records
    assert lost.levelno == logging.ERROR
    assert lost.getMessage() == (
        "Kafka is away: no broker of bootstrap.servers=localhost:9092 has answered since 2023-11-14T22:30:00Z "
        "(Connection refused). Tasks wait. The worker asks again every second"
    )
    assert back.getMessage() == (
        "Kafka answers again at bootstrap.servers=localhost:9092, after 100 s without an answer "
        "(since 2023-11-14T22:30:00Z)"
    )


def test_the_thread_tells_the_loss_and_the_return_and_closes_its_connection(caplog):
    brokers, contact = Brokers(away=True), KafkaContact("localhost:9092")
    contact.answered()
    watch = KafkaWatch(contact, lambda: brokers, interval_s=0.05, heard_at_s=lambda: None, what_happens="Tasks wait.")
    watch.start()
    try:
        eventually(lambda: contact.outage is not None and contact.outage.attempts > 3, 5)
        brokers.away = False
        eventually(lambda: contact.outage is None, 5)
    finally:
        watch.stop(5)
    assert brokers.is_closed
    assert not [thread for thread in threading.enumerate() if thread.name == "kafka-watch"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_probe_that_breaks_unexpectedly_is_replaced_and_the_watch_goes_on(caplog):
    class Broken(Brokers):
        def ask(self, within_s):
            self.asked += 1
            raise ValueError("nonsense")

    contact, well = KafkaContact("localhost:9092"), Brokers()
    broken = [Broken(), Broken()]
    left = iter([*broken, well])
    contact.answered()
    watch = KafkaWatch(
        contact, lambda: next(left), interval_s=0.05, heard_at_s=lambda: None, what_happens="Tasks wait."
    )
    watch.start()
    try:
        eventually(lambda: well.asked > 0 and contact.outage is None, 5, "Kafka was found well again")
    finally:
        watch.stop(5)
    assert [(probe.asked, probe.is_closed) for probe in broken] == [(1, True), (1, True)]
    assert contact.outages == 1
    reported = [(record.levelname, bool(record.exc_info)) for record in caplog.records]
    assert reported == [("ERROR", True), ("ERROR", False), ("WARNING", False)], "one trace, the outage, and its end"
    assert "ValueError('nonsense')" in caplog.text


def test_an_outage_survives_its_way_through_a_header():
    outage = Outage(1_700_000_000_123, 83.4, "kafka-ü:9092", REFUSED, 7)
    header = outage.to_header()
    assert header.isascii()
    assert "\n" not in header
    assert Outage.from_headers({OUTAGE_HEADER: header}) == outage
    assert Outage.from_headers({}) is None


@pytest.mark.parametrize("text", ["", "away", "[]", '{"since_ms": "soon"}'])
def test_a_header_that_is_not_ours_is_an_error(text):
    with pytest.raises(ConnectError, match=OUTAGE_HEADER):
        Outage.from_headers({OUTAGE_HEADER: text})
