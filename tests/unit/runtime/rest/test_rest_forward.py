"""What is sent to another worker, and what of its answer is given back."""

from __future__ import annotations

import asyncio
import json

import pytest

from kconnect.client.http_exchange import Request, Response
from kconnect.errors import ConflictError, TimedOutError, WrongWorkerError
from kconnect.runtime.rest.exchange import Call
from kconnect.runtime.rest.forward import Forwarder, forwarded_request, passed_on
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source

LEADER = "http://leader:8083"
SENT = Request("PUT", "/connectors/a/config?forward=true", b"{}")


def _call(query=(), **changes):
    facts = {
        "method": "PUT",
        "raw_path": "/connectors/a%2Fb/config",
        "body": b'{"x": 1.50}',
        "base_url": "http://me:8083",
        "headers": {"authorization": "Basic secret"},
    }
    return Call(MemoryHerder(), {}, query, **{**facts, **changes})


def test_a_request_goes_on_as_it_came():
    request = forwarded_request(_call())
    assert (request.method, request.body) == ("PUT", b'{"x": 1.50}')
    assert request.path == "/connectors/a%2Fb/config?forward=true"
    assert request.headers["authorization"] == "Basic secret"
    assert request.headers["content-type"] == "application/json"


def test_other_parameters_are_kept():
    request = forwarded_request(_call([("includeTasks", "true"), ("x", "a b&c"), ("onlyFailed", "")]))
    assert request.path.endswith("?forward=true&includeTasks=true&x=a+b%26c&onlyFailed=")


def test_a_request_without_a_body_has_none_and_no_type():
    request = forwarded_request(_call(body=b"", method="DELETE"))
    assert request.body is None
    assert "content-type" not in request.headers


def test_the_second_hop_is_the_last():
    request = forwarded_request(_call([("forward", "true")]))
    assert request.path.endswith("?forward=false")
    for said in ("false", "no", ""):
        with pytest.raises(ConflictError, match="conflicting operation"):
            forwarded_request(_call([("forward", said)]))


def test_status_and_body_are_passed_on_byte_by_byte():
    body = '{"name":"ü","n":1.50}'.encode()
    answer = passed_on(_call(), LEADER, SENT, Response(200, body))
    assert (answer.status, answer.text) == (200, body.decode())
    error = b'{"error_code":404,"message":"Connector a not found"}'
    answer = passed_on(_call(), LEADER, SENT, Response(404, error))
    assert (answer.status, answer.text) == (404, error.decode())


def test_an_answer_without_content_stays_one():
    answer = passed_on(_call(), LEADER, SENT, Response(204))
    assert (answer.status, answer.empty) == (204, True)


def test_a_location_names_the_worker_that_was_asked():
    headers = {"location": "http://leader:8083/connectors/a%2Fb", "server": "x", "x-frame-options": "DENY"}
    answer = passed_on(_call(), LEADER, SENT, Response(201, b"{}", headers))
    assert answer.headers == {"location": "http://me:8083/connectors/a%2Fb"}


@pytest.mark.parametrize(
    ("status", "shown"), [(302, 500), (304, 500), (200, 500), (400, 400), (401, 401), (502, 502), (503, 503)]
)
def test_an_answer_that_is_not_connects_is_reported_with_the_url(status, shown):
    answer = passed_on(_call(), LEADER, SENT, Response(status, b"<html>Bad Gateway</html>"))
    assert (answer.status, answer.body["error_code"]) == (shown, shown)
    assert LEADER in answer.body["message"]
    assert str(status) in answer.body["message"]


def test_who_must_log_in_is_asked_to():
    error = b'{"error_code":401,"message":"User cannot access the resource."}'
    headers = {"www-authenticate": 'Basic realm="Kafka Connect"'}
    answer = passed_on(_call(), LEADER, SENT, Response(401, error, headers))
    assert (answer.status, answer.headers) == (401, headers)


class FrozenPeers:
    """A worker that takes requests and answers none."""

    timeout_s = 60.0

    def __init__(self):
        self.sent = []

    def send(self, url, request, within_s=None, silence=None):
        self.sent.append(str(request))
        raise TimedOutError(f"{url} did not answer {request} within {within_s:g} s")

    def close(self):
        pass


def test_a_worker_that_stands_still_gets_no_request():
    peers = FrozenPeers()
    forwarder = Forwarder(peers, 3.0)
    answer = asyncio.run(forwarder.forward(_call(), WrongWorkerError("Only the leader", LEADER + "/"), 60))
    forwarder.close()
    assert peers.sent == ["GET /"]
    assert answer.status == 500
    assert answer.body["message"] == (
        "Request timed out. Nothing was changed: http://leader:8083/ did not answer GET / within 3 s "
        "(setting kconnect.forward.answer.timeout.ms), so PUT /connectors/a%2Fb/config?forward=true was not sent to it."
    )


class FrozenBehindPeers(FrozenPeers):
    """A worker that answers nothing once it has taken a request; or says `looks` times how it is, and then answers."""

    def __init__(self, looks=0):
        super().__init__()
        self.looks = looks

    def send(self, url, request, within_s=None, silence=None):
        self.sent.append(str(request))
        if request.path == "/":
            return Response(200, b"{}")
        if silence is not None:
            for _ in range(self.looks or 1):
                silence.ask()
            return Response(204)
        if self.looks:
            return Response(503, b"{}")
        raise TimedOutError(f"{url} did not answer {request} within {within_s:g} s")


def _forwarded(peers):
    forwarder = Forwarder(peers, 3.0)
    try:
        return asyncio.run(forwarder.forward(_call(), WrongWorkerError("Only the leader", LEADER + "/"), 60))
    finally:
        forwarder.close()


def test_what_a_worker_took_that_says_nothing_any_more_ends_soon_and_is_not_known():
    peers = FrozenBehindPeers()
    answer = _forwarded(peers)
    assert peers.sent == ["GET /", "PUT /connectors/a%2Fb/config?forward=true", "GET /health"]
    assert answer.status == 500
    assert answer.body["message"] == (
        "Request timed out. http://leader:8083 has not answered PUT /connectors/a%2Fb/config?forward=true, and does "
        "not say how it is: http://leader:8083/ did not answer GET /health within 3 s (setting "
        "kconnect.forward.answer.timeout.ms): it is not known whether this was done, and it may still be done."
    )


def test_a_worker_that_says_how_it_is_may_take_its_time():
    peers = FrozenBehindPeers(looks=3)
    assert _forwarded(peers).status == 204
    assert peers.sent.count("GET /health") == 3


def test_the_users_password_is_not_shown():
    call = _call()
    assert "secret" not in repr(call)
    assert "secret" not in repr(forwarded_request(call))


def test_without_a_cluster_another_workers_work_is_a_conflict():
    herder = MemoryHerder()
    herder.failures["put_connector"] = WrongWorkerError("Only the leader can set connector configs.", LEADER)
    caller = RestCaller(herder)
    answered = caller.ask("PUT", "/connectors/a/config", file_source())
    caller.close()
    assert (answered.status, json.loads(answered.body)["error_code"]) == (409, 409)
