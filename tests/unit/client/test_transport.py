"""Which of several workers is asked, and which request is never sent twice."""

from __future__ import annotations

import pytest

from kconnect.client import Request, Response
from kconnect.client.http_failures import BrokenOffError, NotConnectedError
from kconnect.client.patience import Patience
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

    def send(self, request, timeout_s=None, into=None, silence=None):
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


class Clock:
    """Goes on by what each wait of a worker takes."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class Frozen(Worker):
    """Takes the connection and answers nothing, but to /health where `health` is given."""

    def __init__(self, clock, health=None):
        super().__init__(None)
        self.clock, self.health, self.is_frozen = clock, health, True

    def another(self):
        return self

    def send(self, request, timeout_s=None, into=None, silence=None):
        self.patience.append(timeout_s)
        if request.path == "/health" and self.health is not None:
            return self.health
        if not self.is_frozen or timeout_s is None:
            return OK
        self.clock.now_s += timeout_s
        raise TimedOutError(f"did not answer {request} within {timeout_s:g} s")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def patience(clock):
    return Patience(4.0, "--request-timeout", clock)


@pytest.mark.parametrize("frozen", [1, 2, 3])
def test_a_read_ends_in_time_however_many_workers_are_frozen(clock, patience, frozen):
    found = {f"http://w{number}:1": Frozen(clock) for number in range(frozen)}
    with pytest.raises(TimedOutError) as late:
        FailoverTransport(found, patience).send(GET)
    assert clock.now_s == pytest.approx(104.0, abs=0.2)
    assert "may be frozen" in late.value.hint
    assert frozen > 1 or str(late.value) == "http://w0:1 did not answer GET /connectors within 4 s (--request-timeout)"


def test_one_that_answers_is_found_behind_two_that_are_frozen(clock, patience):
    found = {A: Frozen(clock), B: Frozen(clock), C: Worker(OK)}
    assert FailoverTransport(found, patience).send(GET) is OK
    assert clock.now_s < 103


def test_one_that_has_answered_may_ask_others_in_turn(clock, patience):
    found = {A: Worker(OK), B: Worker(OK)}
    carrier = FailoverTransport(found, patience)
    for _ in range(2):
        carrier.send(GET)
    # It waits a second for a worker that is frozen
    assert found[A].patience == [pytest.approx(1.12), pytest.approx(1.92)]


def test_once_a_read_was_not_answered_others_wait_shortly_for_as_long_again(clock, patience):
    found = {A: Frozen(clock)}
    carrier = FailoverTransport(found, patience)
    for _ in range(3):
        with pytest.raises(TimedOutError):
            carrier.send(GET)
    # For the question, and for /health, which would say that the worker is starting
    assert found[A].patience == [pytest.approx(wait) for wait in (3.2, 0.8, 0.4, 0.1, 0.4, 0.1)]
    clock.now_s += 5
    found[A].is_frozen = False
    carrier.send(GET)
    assert found[A].patience[-1] == pytest.approx(3.2)


def test_a_worker_that_is_starting_is_waited_for(clock, patience):
    starting = Frozen(clock, Response(503, b'{"status": "starting"}'))
    assert FailoverTransport({A: starting}, patience).send(GET) is OK
    assert starting.patience[-1] is None
    ill = Frozen(clock, Response(500, b'{"status": "unhealthy"}'))
    with pytest.raises(TimedOutError):
        FailoverTransport({A: ill}, patience).send(GET)


def test_a_change_is_only_sent_to_a_worker_that_answers_and_may_take_its_time_there(clock, patience):
    found = {A: Frozen(clock)}
    with pytest.raises(TimedOutError, match="GET / within") as late:
        FailoverTransport(found, patience).send(POST)
    assert late.value.hint.startswith("POST /connectors was not sent.")
    assert None not in found[A].patience
    clock.now_s += 5
    found = {A: Frozen(clock), B: Worker(OK)}
    carrier = FailoverTransport(found, patience)
    for _ in range(2):
        assert carrier.send(POST) is OK
    assert found[B].patience == [pytest.approx(2.08), None, None]


class FrozenAtChange(Frozen):
    """Answers its first question, and then stands still; answers a change after `late` looks where it is given."""

    def __init__(self, clock, health=None, late=None):
        super().__init__(clock, health)
        self.late, self.looks, self.seen = late, 0, []

    def send(self, request, timeout_s=None, into=None, silence=None):
        self.seen.append(str(request))
        if request.method == "GET":
            self.is_frozen = request.path != "/"
            return super().send(request, timeout_s)
        while self.looks != self.late:
            self.clock.now_s += silence.every_s
            silence.ask()
            self.looks += 1
        return OK


@pytest.mark.parametrize("request_", [PUT, POST, Request("DELETE", "/connectors/x")], ids=lambda it: it.method)
def test_a_change_ends_in_time_at_a_worker_that_says_nothing_of_itself_either(clock, patience, request_):
    carrier = FailoverTransport({A: FrozenAtChange(clock)}, patience)
    with pytest.raises(TimedOutError) as late:
        carrier.send(request_)
    assert clock.now_s == pytest.approx(104.0, abs=0.2)
    assert str(late.value) == (
        f"{A} answered neither {request_} nor GET /health within 4 s (--request-timeout): "
        "it is not known whether this was done, and it may still be done"
    )
    assert "before you try again" in late.value.hint


@pytest.mark.parametrize("health", [OK, AWAY, Response(404, b"<html>")], ids=["well", "ill", "none of Connect's"])
def test_a_change_may_take_its_time_while_its_worker_answers(clock, patience, health):
    slow = FrozenAtChange(clock, health, late=30)
    assert FailoverTransport({A: slow}, patience).send(POST) is OK
    assert slow.seen[:3] == ["GET /", "POST /connectors", "GET /health"]
    assert clock.now_s == pytest.approx(160.0)


def test_a_change_that_may_be_sent_twice_goes_to_the_next_within_the_same_time(clock, patience):
    found = {A: FrozenAtChange(clock), B: Worker(OK)}
    assert FailoverTransport(found, patience).send(PUT) is OK
    assert clock.now_s == pytest.approx(102.4, abs=0.2)
    clock.now_s = 100.0
    found = {A: FrozenAtChange(clock), B: FrozenAtChange(clock)}
    with pytest.raises(TimedOutError, match=r"None of 2 workers answers.*may still be done"):
        FailoverTransport(found, patience).send(PUT)
    assert clock.now_s == pytest.approx(104.0, abs=0.2)
