"""Which of several workers is asked, and which request is never sent twice."""

from __future__ import annotations

import pytest

from kconnect.client import Request, Response
from kconnect.client.http_failures import BrokenOffError, NotConnectedError
from kconnect.client.transport import FailoverTransport
from kconnect.errors import ConfigError, TimedOutError, UnreachableError

A, B, C = "http://a:1", "http://b:2", "http://c:3"
GET, PUT, POST = Request("GET", "/connectors"), Request("PUT", "/connectors/x/pause"), Request("POST", "/connectors")
REFUSED = NotConnectedError(f"Nobody answers at {A} (connection refused)")
BROKEN = BrokenOffError(f"{A} broke off GET /connectors: closed")
LATE = TimedOutError(f"{A} did not answer GET /connectors within 10 s", hint="The worker may still carry it out")


class Worker:
    """Does this, and counts."""

    def __init__(self, outcome):
        self.outcome, self.patience = outcome, []

    def send(self, request, timeout_s=None):
        self.patience.append(timeout_s)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def close(self):
        self.outcome = None


def workers(**outcomes):
    return {url: Worker(outcomes[name]) for name, url in (("a", A), ("b", B), ("c", C)) if name in outcomes}


OK = Response(200, b"[]")
AWAY = Response(503, b"{}")


@pytest.mark.parametrize("request_", [GET, PUT, POST], ids=lambda request: request.method)
def test_a_worker_that_takes_no_connection_is_passed_over_for_every_request(request_):
    found = workers(a=REFUSED, b=OK)
    carrier = FailoverTransport(found)
    assert carrier.send(request_) is OK
    assert carrier.url == B


@pytest.mark.parametrize("outcome", [BROKEN, LATE, AWAY], ids=["broken off", "late", "503"])
def test_a_request_that_may_be_repeated_goes_to_the_next_and_another_one_does_not(outcome):
    for request in (GET, PUT):
        assert FailoverTransport(workers(a=outcome, b=OK)).send(request) is OK
    found = workers(a=outcome, b=OK)
    carrier = FailoverTransport(found)
    if isinstance(outcome, Exception):
        with pytest.raises(type(outcome)):
            carrier.send(POST)
    else:
        assert carrier.send(POST) is AWAY
    assert found[B].patience == [], "it might have been carried out by the first"


def test_the_one_that_answered_is_asked_first_from_then_on():
    found = workers(a=REFUSED, b=OK, c=OK)
    carrier = FailoverTransport(found)
    assert carrier.url == A
    for _ in range(3):
        carrier.send(GET)
    assert [len(worker.patience) for worker in found.values()] == [1, 3, 0]
    found[B].outcome = REFUSED
    carrier.send(GET)
    assert carrier.url == C


def test_any_other_answer_is_the_answer():
    for status in (404, 409, 500):
        answer = Response(status, b"{}")
        assert FailoverTransport(workers(a=answer, b=OK)).send(GET) is answer
    with pytest.raises(ConfigError):
        FailoverTransport(workers(a=ConfigError("no such certificate"), b=OK)).send(GET)


def test_health_is_that_of_the_worker_that_is_asked():
    assert FailoverTransport(workers(a=AWAY, b=OK)).send(Request("GET", "/health")) is AWAY


def test_when_none_answers_all_are_named_with_what_they_did():
    with pytest.raises(UnreachableError) as raised:
        FailoverTransport(workers(a=REFUSED, b=BrokenOffError(f"{B} broke off GET /connectors: closed"))).send(GET)
    assert str(raised.value) == (
        f"None of 2 workers answers: {A} (connection refused); {B} broke off GET /connectors: closed"
    )
    with pytest.raises(TimedOutError, match="None of 2 workers answers") as late:
        FailoverTransport(workers(a=LATE, b=REFUSED)).send(PUT)
    assert "may still carry it out" in late.value.hint
    assert FailoverTransport(workers(a=AWAY, b=REFUSED)).send(GET) is AWAY


def test_a_read_waits_less_for_a_worker_while_there_is_another():
    found = workers(a=LATE, b=OK)
    FailoverTransport(found).send(GET)
    assert (found[A].patience, found[B].patience) == ([10.0], [None])
    found = workers(a=OK, b=OK)
    FailoverTransport(found).send(PUT)
    assert found[A].patience == [None], "a change may take its time"


def test_a_reader_who_would_rather_be_told_waits_that_long_for_each_and_changes_wait_on():
    found = workers(a=LATE, b=OK)
    carrier = FailoverTransport(found, 15.0)
    assert carrier.send(GET) is OK
    carrier.send(PUT)
    assert (found[A].patience, found[B].patience) == ([15.0], [15.0, None])
    alone = FailoverTransport(workers(a=LATE), 15.0)
    with pytest.raises(TimedOutError, match=str(LATE)):
        alone.send(GET)
