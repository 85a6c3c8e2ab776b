"""Routing, methods, negotiation, bodies and deadlines of the REST application."""

from __future__ import annotations

import pytest

from kconnect.rest.app import AppSettings
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source


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


def test_health_is_red_while_the_worker_is_out_of_its_group(rest, herder):
    herder.out_of_group = "config.storage.topic=c is another one"
    answer = rest.ask("GET", "/health")
    assert answer.status == 500
    assert answer.json == {"status": "unhealthy", "message": "config.storage.topic=c is another one."}
    herder.out_of_group = None
    assert rest.ask("GET", "/health").status == 200


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
        ("", 201),
    ],
)
def test_bodies_must_be_json_by_their_content_type(rest, content_type, status):
    answer = rest.ask("PUT", "/connectors/a/config", file_source(), headers={"content-type": content_type})
    assert answer.status == status


def test_a_body_over_the_limit_is_413_and_never_reaches_the_herder(rest, herder):
    answer = rest.ask("PUT", "/connectors/a/config", chunks=[b"x" * 1500, b"y" * 1500])
    assert (answer.status, answer.message) == (413, "The body is larger than 2000 bytes")
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
    assert rest.ask("GET", "/connectors/%ff").message == "The path holds bytes that are not UTF-8: %ff"


def test_a_herder_that_does_not_answer_in_time_is_500_and_names_the_setting(herder):
    herder.held.add("connectors")
    caller = RestCaller(herder, AppSettings(request_timeout_s=0.05))
    try:
        answer = caller.ask("GET", "/connectors")
    finally:
        herder.gate.set()
        caller.close()
    assert answer.status == 500
    assert answer.message.startswith("Request timed out")
    assert "kconnect.request.timeout.ms" in answer.message


def test_an_unexpected_error_is_500_with_its_message_and_logged_with_its_trace(rest, herder, caplog):
    herder.failures["connectors"] = ZeroDivisionError("division by zero")
    answer = rest.ask("GET", "/connectors")
    assert (answer.status, answer.message) == (500, "division by zero")
    assert "ZeroDivisionError" in caplog.text
