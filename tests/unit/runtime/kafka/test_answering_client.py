"""When a client that has no answers is replaced: only when others have them, reported once, and not again and again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest

from kconnect.errors import ConnectError, NotFoundError, TimedOutError
from kconnect.runtime.kafka.answering_client import AnsweringClient, Silence

AFTER_S = 12.0


class Seen:
    """A witness: Kafka answers from `first_s` until `last_s`, or is away."""

    def __init__(self, span: tuple[float, float] | None = (0.0, float("inf"))) -> None:
        self.span = span
        self.replaced = 0

    def answering(self) -> tuple[float, float] | None:
        return self.span

    def client_replaced(self) -> None:
        self.replaced += 1


@pytest.fixture
def made() -> list[object]:
    return []


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def client(made: list[object], seen: Seen) -> Iterator[AnsweringClient]:
    def make() -> object:
        made.append(object())
        return made[-1]

    found = AnsweringClient("tests", make, seen, Silence(after_s=0.0))  # type: ignore[arg-type]
    yield found
    found.close()


def ask(client: AnsweringClient) -> object:
    """One request that is answered; gives the client it was made with."""
    with client.asking() as asked:
        return asked


def fail(client: AnsweringClient, error: ConnectError) -> None:
    with pytest.raises(type(error)), client.asking():
        raise error


def test_a_client_without_answers_is_replaced_reported_once_and_counted(
    client: AnsweringClient, made: list[object], seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(4):
        fail(client, TimedOutError("no answer"))
    assert len(made) == seen.replaced + 1 == 4
    assert ask(client) is made[-1], "the last one is asked"
    (reported,) = caplog.messages
    assert reported.startswith("The admin client of tests has had no answer for ")
    assert reported.endswith("though Kafka answers this worker: it is replaced")
    assert client.silent_s() is None, "an answer ends it"


def test_a_refusal_is_an_answer(client: AnsweringClient, made: list[object]) -> None:
    fail(client, TimedOutError("no answer"))
    with pytest.raises(NotFoundError), client.asking():
        raise NotFoundError("there is no such topic")
    assert not client.is_unanswered
    assert ask(client) is made[-1]


def test_a_late_failure_of_the_old_client_says_nothing_of_the_new_one(client: AnsweringClient) -> None:
    late = client.asking()
    late.__enter__()
    fail(client, TimedOutError("no answer"))
    ask(client)  # with another client
    assert late.__exit__(TimedOutError, TimedOutError("no answer"), None) is not True
    assert not client.is_unanswered


def test_nobody_waits_for_a_request_that_hangs(client: AnsweringClient) -> None:
    with client.asking() as first, client.asking() as second:
        assert first is second


def test_a_closed_client_says_so(client: AnsweringClient) -> None:
    client.close()
    with pytest.raises(ConnectError, match="admin client of tests is closed"):
        ask(client)


def test_without_a_witness_a_client_is_replaced_and_nothing_is_said(
    made: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    def make() -> object:
        made.append(object())
        return made[-1]

    alone = AnsweringClient("tests", make, None, Silence(after_s=0.0))  # type: ignore[arg-type]
    with closing(alone):
        for _ in range(3):
            fail(alone, TimedOutError("no answer"))
        assert len(made) == 3
        assert (alone.silent_s(), caplog.messages) == (None, []), "whether Kafka answers is not known"


@pytest.mark.parametrize(
    ("answering", "is_wedged"),
    [
        (None, False),
        ((0.0, 100.0), False),  # Kafka's last answer came with the request
        ((0.0, 111.9), False),
        ((0.0, 112.0), True),
        ((105.0, 112.0), False),  # it has come back in between
        ((105.0, 117.0), True),
    ],
)
def test_a_client_is_wedged_when_kafka_has_answered_others_for_long_enough(
    answering: tuple[float, float] | None, is_wedged: bool
) -> None:
    silence = Silence(AFTER_S)
    silence.unanswered(100.0)
    silence.unanswered(105.0)
    assert silence.is_wedged(answering) is is_wedged
    assert (silence.began_s(answering) == 100.0) is is_wedged


def test_where_no_client_helps_each_next_one_is_tried_after_twice_the_time() -> None:
    silence, now_s = Silence(AFTER_S), 100.0
    silence.unanswered(now_s)
    waited = []
    for _ in range(8):
        began_s = now_s
        while not silence.is_wedged((0.0, now_s)):
            now_s += 1
        waited.append(now_s - began_s)
        silence.replaced(now_s)
    assert waited == [12, 24, 48, 96, 192, 384, 600, 600]
    assert silence.began_s((0.0, now_s)) == 100.0, "health tells from the first request on"
    silence.answered(now_s)
    silence.unanswered(now_s - 50)
    assert silence.is_wedged((0.0, now_s + 11)) is False, "a request from before the answer began with the answer"
    assert silence.is_wedged((0.0, now_s + 12)) is True
