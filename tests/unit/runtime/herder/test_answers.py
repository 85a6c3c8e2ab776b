"""Those who ask the herder's thread get an answer, also when it ends just then."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from kconnect.clock import ManualClock
from kconnect.errors import ConflictError, ConnectError, TimedOutError, UnreachableError
from kconnect.runtime.herder.cluster.change_requests import PendingRequests
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.decisions.events import Asked, Event, GivenUp
from kconnect.runtime.herder.decisions.requests import AskRemove
from kconnect.runtime.herder.health.change_patience import ChangePatience
from kconnect.runtime.herder.health.kafka_contact import KafkaContact

REQUEST = AskRemove("c")
STAGES = ThreadStage(lambda: 0)


def test_who_asks_gets_what_was_given_under_its_number() -> None:
    answers = PendingRequests()

    def post(event: Event) -> None:
        assert isinstance(event, Asked)
        answers.give(event.id, f"done {event.id}")

    assert [answers.ask(REQUEST, post, 5, STAGES) for _ in range(2)] == ["done 1", "done 2"]


def test_who_asks_is_refused_with_the_error_of_its_request() -> None:
    answers = PendingRequests()
    with pytest.raises(ConflictError, match="not now"):
        answers.ask(REQUEST, lambda event: answers.fail(1, ConflictError("not now")), 5, STAGES)


def test_who_gets_no_answer_gives_up_and_one_that_comes_later_is_for_nobody() -> None:
    answers, posted = PendingRequests(), list[Event]()
    with pytest.raises(TimedOutError, match=r"^Request timed out\. The worker is currently"):
        answers.ask(REQUEST, posted.append, 0.01, STAGES)
    assert posted == [Asked(1, REQUEST), GivenUp(1)]
    answers.give(1, "too late")


def test_who_waits_for_something_else_than_the_herders_thread_is_reported_for_what() -> None:
    answers = PendingRequests()
    answers.tell(1, "nobody has asked yet")

    def post(event: Event) -> None:
        if isinstance(event, Asked):
            answers.tell(event.id, STAGES.elsewhere("starting the connector"))

    message = (
        r"The worker is currently starting the connector, which began at 1970-01-01T00:00:00Z\. Nothing was changed\.$"
    )
    with pytest.raises(TimedOutError, match=message):
        answers.ask(REQUEST, post, 0.01, STAGES)


def test_the_end_is_asked_to_who_waits_and_to_who_asks_after_it() -> None:
    answers, posted = PendingRequests(), threading.Event()
    reported: list[str] = []

    def wait() -> None:
        try:
            answers.ask(REQUEST, lambda _: posted.set(), 30, STAGES)
        except ConnectError as err:
            reported.append(str(err))

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert posted.wait(10)
    answers.close(ConflictError("Worker is shutting down"))
    waiting.join(10)
    assert reported == ["Worker is shutting down"]
    answers.close(ConflictError("again"))
    with pytest.raises(ConflictError, match="Worker is shutting down"):
        answers.ask(REQUEST, lambda _: pytest.fail("nobody takes it"), 30, STAGES)


def test_what_nobody_waits_for_any_more_is_not_begun_and_who_asked_hears_so() -> None:
    answers = PendingRequests()
    with pytest.raises(TimedOutError, match=r"Nothing was changed\.$"):
        answers.ask(REQUEST, lambda _: None, 0.01, STAGES)
    assert not answers.begin(1), "the herder's thread leaves it out"


def test_what_has_begun_and_not_ended_is_not_known() -> None:
    answers = PendingRequests()

    def post(event: Event) -> None:
        if isinstance(event, Asked):
            assert answers.begin(event.id)

    with pytest.raises(TimedOutError, match="It is not known whether this was done, and it may still be done"):
        answers.ask(REQUEST, post, 0.01, STAGES)


def test_who_changes_something_does_not_wait_for_a_silent_kafka() -> None:
    contact = KafkaContact("here:1")
    contact.answered()
    patience, answers = ChangePatience(contact, 0.05), PendingRequests()
    contact.silent("here:1: no answer")
    began_s = time.monotonic()
    with pytest.raises(TimedOutError, match=r"Nothing was changed: Kafka is away: no broker of .*here:1"):
        answers.ask(REQUEST, lambda _: None, 60, STAGES, patience)
    assert time.monotonic() - began_s < 20


def test_who_changes_something_does_not_wait_for_a_leader_that_may_not_write() -> None:
    contact = KafkaContact("here:1")
    contact.answered()
    patience, answers = ChangePatience(contact, 0.05, lambda: "User:w lacks WRITE"), PendingRequests()
    began_s = time.monotonic()
    with pytest.raises(TimedOutError, match=r"Nothing was changed: User:w lacks WRITE\."):
        answers.ask(REQUEST, lambda _: None, 60, STAGES, patience)
    assert time.monotonic() - began_s < 20


def test_while_kafka_is_away_nothing_is_begun() -> None:
    contact = KafkaContact("here:1")
    contact.silent("here:1: refused")
    with pytest.raises(UnreachableError, match="Nothing was changed: Kafka is away"):
        ChangePatience(contact, 3).carry_out(lambda: pytest.fail("it is written"))


def test_a_write_that_kafka_does_not_take_may_still_be_done() -> None:
    contact, written = KafkaContact("here:1"), threading.Event()
    patience = ChangePatience(contact, 0.05)

    def write() -> None:
        contact.silent("here:1: no answer")
        written.wait(60)

    with pytest.raises(TimedOutError, match=r"here:1.*: it is not known whether this was done"):
        patience.carry_out(write)
    written.set()


def test_an_answer_that_is_overdue_is_silence_before_an_outage_is_known() -> None:
    clock = ManualClock()
    contact = KafkaContact("here:1", clock)
    contact.expect_every(3)
    patience = ChangePatience(contact, 3)
    assert patience.silence() is None, "nothing is known yet"
    contact.answered()
    clock.advance(3.9)
    assert patience.silence() is None
    clock.advance(0.2)
    assert patience.silence() == "Kafka has not answered this worker for 4 s"


def test_a_slow_change_is_waited_for_while_kafka_answers() -> None:
    contact: KafkaContact = KafkaContact("here:1")
    contact.answered()
    future: Future[str] = Future()
    timer = threading.Timer(0.3, future.set_result, ("done",))
    timer.start()
    assert ChangePatience(contact, 0.02).result(future, 60) == "done"
    timer.join()
