"""Routing, methods, negotiation, bodies and deadlines of the REST application."""

from __future__ import annotations

import re
import threading

import orjson
import pytest

from kconnect.client.outage import OUTAGE_HEADER, Outage
from kconnect.errors import ConflictError, NotAllowedError
from kconnect.model import Condition, TaskCondition
from kconnect.runtime.herder.health.reasons import Reason
from kconnect.runtime.rest.app import AppSettings
from kit.ages import Age
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ample_s

# Ten times what an answer takes that waits for nothing
_ANSWERED_WITHIN_S = 0.05


@pytest.fixture
def herder():
    return MemoryHerder()


@pytest.fixture
def rest(herder):
    caller = RestCaller(herder, AppSettings(request_timeout_s=5, max_body_bytes=2000))
    yield caller
    herder.gate.set()
    caller.close()


def test_root_names_version_commit_and_cluster_in_javas_order(rest):
    answer = rest.ask("GET", "/")
    assert answer.body == b'{"version":"4.3.0","commit":"abc","kafka_cluster_id":"cluster"}'
    assert answer.headers["content-type"] == "application/json"


def test_health_is_red_until_the_herder_is_ready(rest, herder):
    herder.ready = False
    answer = rest.ask("GET", "/health")
    assert (answer.status, answer.json) == (503, {"status": "starting", "message": "Worker is still starting up."})
    herder.ready = True
    assert rest.ask("GET", "/health").status == 200


def test_health_is_red_while_anything_is_wrong_and_says_what_and_for_how_long(rest, herder):
    age = Age(7)
    herder.reasons = [
        Reason("config.storage.topic=c is another one", age.since_ms),
        Reason("Joining group g", age.since_ms, True),
    ]
    answer = rest.ask("GET", "/health")
    assert (answer.status, answer.json["status"]) == (500, "unhealthy")
    age.assert_reported(answer.json["message"], "config.storage.topic=c is another one (AGE).")
    assert answer.json["reasons"] == [
        {"reason": "config.storage.topic=c is another one", "status": "unhealthy", "since_ms": age.since_ms},
        {"reason": "Joining group g", "status": "starting", "since_ms": age.since_ms},
    ]
    herder.reasons = []
    assert rest.ask("GET", "/health").json.keys() == {"status", "message"}


def test_health_tells_how_many_tasks_have_failed_and_is_green(rest, herder):
    rest.ask("PUT", "/connectors/src/config", {"connector.class": "FileStreamSource", "topic": "t"})
    plain = rest.ask("GET", "/health").json["message"]
    herder.traces["src"] = "it broke"
    answer = rest.ask("GET", "/health")
    assert (answer.status, answer.json["status"]) == (200, "healthy")
    assert answer.json["message"] == f"{plain} 1 task on it is FAILED."
    herder.reported = ["2 tasks are held back for another 240 s"]
    answer = rest.ask("GET", "/health")
    assert (answer.status, answer.json["status"]) == (200, "healthy")
    assert answer.json["message"] == f"{plain} 1 task on it is FAILED. 2 tasks are held back for another 240 s."


def test_health_tells_how_many_connectors_give_no_task_configs_and_is_green(rest, herder):
    plain = rest.ask("GET", "/health").json["message"]
    herder.own_conditions["src"] = TaskCondition(Condition.NO_TASK_CONFIGS, 0, 3, "OSError: gone")
    answer = rest.ask("GET", "/health")
    assert (answer.status, answer.json["message"]) == (200, f"{plain} 1 connector on it gives no task configs.")


def test_health_names_what_a_start_waits_for_though_requests_are_answered_already(rest, herder):
    age = Age(3.2)
    herder.reasons = [Reason("Spark is starting", age.since_ms, is_starting=True)]
    answer = rest.ask("GET", "/health")
    assert (answer.status, answer.json["status"]) == (503, "starting")
    age.assert_reported(answer.json["message"], "Worker is still starting up. Spark is starting (AGE).")


WAITING = [
    ("GET", "/"),
    ("GET", "/connectors"),
    ("POST", "/connectors"),
    ("GET", "/connectors/a"),
    ("GET", "/connectors/a/status"),
    ("PUT", "/connectors/a/config"),
    ("PUT", "/connectors/a/pause"),
    ("DELETE", "/connectors/a"),
    ("PUT", "/admin/loggers/root"),
]


@pytest.mark.parametrize(("method", "path"), WAITING)
def test_a_request_waits_for_a_worker_that_starts(rest, herder, method, path):
    body = {"POST": {"name": "b", "config": file_source()}, "PUT": file_source()}.get(method)
    if path == "/admin/loggers/root":
        body = {"level": "DEBUG"}
    rest.ask("PUT", "/connectors/a/config", file_source())
    herder.calls.clear()
    herder.opened = False
    asked = threading.Thread(target=lambda: answers.append(rest.ask(method, path, body)))
    answers: list = []
    asked.start()
    asked.join(_ANSWERED_WITHIN_S)
    assert asked.is_alive()
    assert herder.calls == []
    herder.opened = True
    asked.join(ample_s(5))
    assert answers[0].status < 300, answers[0].body


@pytest.mark.parametrize(
    "path", ["/health", "/metrics", "/admin/slots", "/admin/herder-trace", "/connector-plugins", "/openapi.json"]
)
def test_what_needs_no_stores_is_answered_while_the_worker_starts(rest, herder, path):
    herder.opened = False
    assert rest.ask("GET", path).status == 200


def test_a_trace_is_asked_for_whole_or_since_an_entry(rest, herder):
    assert rest.ask("GET", "/admin/herder-trace").json == {"format": 1, "last": 7, "entries": []}
    assert rest.ask("GET", "/admin/herder-trace?since=12").status == 200
    assert [call for call in herder.calls if call[0] == "trace"] == [("trace", None), ("trace", 12)]


@pytest.mark.parametrize("since", ["", "-1", "1.5", "x", "9" * 30, "%D9%A1"])
def test_a_trace_since_what_is_no_number_is_refused(rest, since):
    answer = rest.ask("GET", f"/admin/herder-trace?since={since}")
    assert answer.status == 400
    assert "since must be the number of an entry" in answer.json["message"]


def test_a_worker_that_does_not_start_in_time_says_what_it_waits_for(herder):
    herder.opened = False
    age = Age(9.1)
    herder.reasons = [Reason("Waiting for Kafka at here:1", age.since_ms, is_starting=True)]
    caller = RestCaller(herder, AppSettings(request_timeout_s=0.1))
    answer = caller.ask("GET", "/connectors")
    caller.close()
    assert answer.status == 500
    assert answer.json == {"error_code": 500, "message": answer.message}
    age.assert_reported(
        answer.message, "Request timed out. The worker is still starting up. Waiting for Kafka at here:1 (AGE)."
    )


def test_a_worker_that_stops_refuses_at_once_also_who_waited_for_its_start(rest, herder):
    herder.opened = False
    answers: list = []
    asked = threading.Thread(target=lambda: answers.append(rest.ask("GET", "/connectors")))
    asked.start()
    herder.failures["is_open"] = ConflictError("Worker is shutting down")
    asked.join(ample_s(5))
    assert answers[0].status == 409
    assert answers[0].json == {"error_code": 409, "message": "Worker is shutting down"}
    assert rest.ask("POST", "/connectors", {"name": "b", "config": file_source()}).status == 409


def test_requests_that_wait_for_the_start_take_no_thread_from_those_that_do_not(herder):
    herder.opened = False
    caller = RestCaller(herder, AppSettings(request_timeout_s=5))
    waiting = [threading.Thread(target=lambda: caller.ask("GET", "/connectors")) for _ in range(40)]
    for thread in waiting:
        thread.start()
    assert caller.ask("GET", "/health").status == 200
    herder.opened = True
    for thread in waiting:
        thread.join(ample_s(5))
    caller.close()


def test_health_is_503_while_kafka_is_away(rest, herder):
    age = Age(7)
    herder.kafka_away = Outage(age.since_ms, 7.0, "kafka:9092", "the broker at kafka:9092: Connection refused", 7)
    away = herder.kafka_away.sentence()
    herder.reasons = [Reason(away, age.since_ms)]
    answer = rest.ask("GET", "/health")
    assert (answer.status, answer.json["status"]) == (503, "unhealthy")
    assert re.fullmatch(
        r"Kafka is away: no broker of bootstrap.servers=kafka:9092 has answered since \S+Z "
        r"\(Connection refused\)",
        away,
    )
    age.assert_reported(answer.json["message"], f"{away} (AGE).")


def test_every_answer_tells_of_the_outage_in_a_header_and_of_none_when_there_is_none(rest, herder):
    outage = Outage(1_700_000_000_000, 83.2, "kafka:9092", "no answer in time", 7)
    for path in ("/", "/connectors", "/connectors/nope", "/metrics"):
        herder.kafka_away = outage
        assert Outage.from_headers(rest.ask("GET", path).headers) == outage
        herder.kafka_away = None
        assert OUTAGE_HEADER not in rest.ask("GET", path).headers


@pytest.mark.parametrize("path", ["/nope", "/connectors/x/nope", "/CONNECTORS", "//connectors", "/connectors//status"])
def test_unknown_paths_are_404_with_a_json_body_and_no_content_type(rest, path):
    answer = rest.ask("GET", path)
    assert (answer.status, answer.message) == (404, "HTTP 404 Not Found")
    assert "content-type" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/"), ("DELETE", "/connectors"), ("TRACE", "/"), ("FOO", "/connectors"), ("GET", "/connectors/x/pause")],
)
def test_wrong_methods_are_405_without_content_type(rest, method, path):
    answer = rest.ask(method, path)
    assert (answer.status, answer.message) == (405, "HTTP 405 Method Not Allowed")
    assert "content-type" not in answer.headers


def test_one_slash_at_the_end_is_allowed(rest):
    assert rest.ask("GET", "/connectors/").json == []


def test_options_lists_methods_as_jersey_does(rest):
    answer = rest.ask("OPTIONS", "/connectors")
    assert (answer.body, answer.headers["allow"]) == (b"HEAD, POST, GET, OPTIONS", "HEAD,POST,GET,OPTIONS")
    assert answer.headers["content-type"] == "text/plain"
    assert rest.ask("OPTIONS", "/").headers["allow"] == "HEAD,GET,OPTIONS"


def test_head_has_the_length_of_the_get(rest):
    assert rest.ask("HEAD", "/connectors").headers["content-length"] == "2"


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/xml", 406),
        ("text/html", 406),
        ("application/json;q=0", 406),
        ("text/html;q=0.9, application/json;q=0.5", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("", 200),
    ],
)
def test_accept_is_honoured(rest, accept, status):
    assert rest.ask("GET", "/connectors", headers={"accept": accept}).status == status


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("text/plain", 415),
        ("application/vnd.kafka.v1+json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json; charset=utf-8", 201),
        ("", 415),
        (None, 415),
    ],
)
def test_bodies_must_be_json_by_their_content_type(rest, content_type, status):
    """A page of any origin may have a browser POST a body without one, and no preflight asks whether it may."""
    given = {} if content_type is None else {"content-type": content_type}
    answer = rest.ask("PUT", "/connectors/a/config", chunks=[orjson.dumps(file_source())], headers=given)
    assert answer.status == status


def test_a_body_over_the_limit_is_413_and_never_reaches_the_herder(rest, herder):
    answer = rest.ask("PUT", "/connectors/a/config", chunks=[b"x" * 1500, b"y" * 1500])
    assert (answer.status, answer.message) == (
        413,
        "The body is larger than 2000 bytes (setting kconnect.rest.max.body.bytes)",
    )
    assert herder.calls == []


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "50%", "a\\b", "..", "a b", "ü→😀", "a+b", "a?b#c;d", '"'])
def test_names_of_any_characters_are_reached_by_their_location(rest, name):
    created = rest.ask("POST", "/connectors", {"name": name, "config": file_source()})
    assert created.status == 201
    path = created.headers["location"].removeprefix("http://worker:8083")
    assert rest.ask("GET", path).json["name"] == name
    assert rest.ask("GET", f"{path}/status").json["name"] == name
    assert rest.ask("DELETE", path).status == 204


def test_a_path_that_is_not_utf8_is_400(rest):
    assert rest.ask("GET", "/connectors/%ff").message == "The path contains bytes that are not UTF-8: %ff"


def test_a_herder_that_does_not_answer_in_time_is_500_and_names_the_setting(herder):
    herder.held.add("connectors")
    age = Age(0)
    herder.reasons = [Reason("Java's plugins are being prepared", age.since_ms, is_starting=True)]
    caller = RestCaller(herder, AppSettings(request_timeout_s=0.05))
    try:
        answer = caller.ask("GET", "/connectors")
    finally:
        herder.gate.set()
        caller.close()
    assert answer.status == 500
    assert answer.message.startswith("Request timed out")
    assert "kconnect.request.timeout.ms" in answer.message
    _, done, reason = answer.message.partition("may still be carried out. ")
    assert done
    age.assert_reported(reason, "Java's plugins are being prepared (AGE).")


def test_an_unexpected_error_is_500_with_its_message_and_logged_with_its_trace(rest, herder, caplog):
    herder.failures["connectors"] = ZeroDivisionError("division by zero")
    answer = rest.ask("GET", "/connectors")
    assert (answer.status, answer.message) == (500, "division by zero")
    assert "ZeroDivisionError" in caplog.text


def test_a_right_that_lacks_is_answered_with_the_line_that_grants_it_and_logged_without_a_trace(rest, herder, caplog):
    refusal = NotAllowedError("Error writing: User:w lacks WRITE on topic c.", hint="Grant it: kafka-acls ..")
    herder.failures["connectors"] = refusal
    answer = rest.ask("GET", "/connectors")
    assert answer.status == 500
    assert answer.message == "Error writing: User:w lacks WRITE on topic c. Grant it: kafka-acls .."
    assert "Traceback" not in caplog.text
