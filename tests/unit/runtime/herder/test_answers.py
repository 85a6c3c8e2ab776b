"""Those who ask the herder's thread get an answer, also when it ends just then."""

from __future__ import annotations

import threading

import pytest

from kconnect.errors import ConflictError, ConnectError, TimedOutError
from kconnect.runtime.herder.cluster.change_requests import PendingRequests
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.decisions.events import Asked, Event, GivenUp
from kconnect.runtime.herder.decisions.requests import AskRemove

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

    message = r"The worker is currently starting the connector, which began at 1970-01-01T00:00:00Z\.$"
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
