"""Requests to a group's coordinator that is not there yet, or not ready: answers of the client, one after the other."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from kconnect.runtime.kafka.coordinator_retries import ask_coordinator


class Client:
    """Gives these answers, the last one again and again; notes the time each request was given."""

    def __init__(self, *answers):
        self.answers, self.given_s = list(answers), []

    def ask(self, given_s):
        self.given_s.append(given_s)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        done = Future()
        if isinstance(answer, int):
            done.set_exception(KafkaException(KafkaError(answer)))
        else:
            done.set_result(answer)
        return done


def test_a_request_that_the_client_left_unsent_is_sent_again_with_twice_the_time():
    client = Client(KafkaError._TIMED_OUT, KafkaError._TIMED_OUT, "offsets")
    assert ask_coordinator(client.ask, 60) == "offsets"
    assert client.given_s == [2, 4, 8]


@pytest.mark.parametrize(
    "code",
    [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR],
)
def test_a_coordinator_that_is_not_ready_is_asked_again_soon(code):
    client = Client(code, "offsets")
    assert ask_coordinator(client.ask, 60) == "offsets"
    assert client.given_s == [2, 2]


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
def test_what_does_not_pass_is_reported_when_the_time_is_over(code):
    client = Client(code)
    with pytest.raises(KafkaException) as reported:
        ask_coordinator(client.ask, 0.3)
    assert reported.value.args[0].code() == code
    assert max(client.given_s) <= 0.3


def test_a_refusal_is_reported_at_once():
    client = Client(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        ask_coordinator(client.ask, 60)
    assert len(client.given_s) == 1
