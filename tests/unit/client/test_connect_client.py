"""The REST client against answers of workers, good and bad."""

from __future__ import annotations

import json

import pytest

from kconnect.client import ClientAccess, ConnectClient, Response
from kconnect.client.outage import OUTAGE_HEADER, Outage
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    NoRouteError,
    NotFoundError,
    RetriableError,
    TimedOutError,
    UnreachableError,
)
from kconnect.model import ConnectorOffset, RunState, TaskId

STATUS = {
    "name": "src",
    "connector": {"state": "RUNNING", "worker_id": "w:1", "version": "4.3.0"},
    "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "version": None, "trace": "boom"}],
    "type": "source",
}


class Clock:
    """Time passes only by waiting."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def time_ms(self):
        return int(self.now * 1000)

    def wait(self, event, timeout_s):
        self.now += timeout_s
        return event.is_set()


class Scripted:
    """A transport that gives these answers one after the other, the last one for ever."""

    def __init__(self, answers):
        self.left, self.seen = list(answers), []

    def send(self, request):
        self.seen.append(request)
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def close(self):
        pass


def client_of(*answers, **settings):
    """A client whose requests get these answers, and the list of the requests."""
    transport = Scripted(answers)
    return ConnectClient("http://w:8083/", transport=transport, **settings), transport.seen


def ok(body, status=200):
    return Response(status, json.dumps(body).encode())


def error(status, message):
    return ok({"error_code": status, "message": message}, status)


def test_a_status_is_read_into_the_model():
    client, seen = client_of(ok(STATUS))
    status = client.connector_status("src")
    assert (status.connector.state, status.tasks[0].state) == (RunState.RUNNING, RunState.FAILED)
    assert (status.tasks[0].trace, status.tasks[0].version) == ("boom", None)
    assert str(seen[0]) == "GET /connectors/src/status?condition=true"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", "/connectors/a%2Fb/config"),
        ("50%", "/connectors/50%25/config"),
        ("a%2Fb", "/connectors/a%252Fb/config"),
        ("a\\b", "/connectors/a%5Cb/config"),
        ("..", "/connectors/%2E%2E/config"),
        ("ü ?#", "/connectors/%C3%BC%20%3F%23/config"),
    ],
)
def test_names_are_encoded_whole(name, path):
    client, seen = client_of(ok({"name": name}))
    client.connector_config(name)
    assert seen[0].path == path


def test_every_endpoint_has_its_method_and_path():
    info = {"name": "c", "config": {}, "tasks": [{"connector": "c", "task": 0}], "type": "sink"}
    calls = [
        (lambda c: c.server_info(), {"version": "4"}, "GET", "/"),
        (lambda c: c.health(), {"status": "healthy"}, "GET", "/health"),
        (lambda c: c.connectors(), ["c"], "GET", "/connectors"),
        (
            lambda c: c.connector_statuses(),
            {"src": {"status": STATUS}},
            "GET",
            "/connectors?expand=status&condition=true",
        ),
        (lambda c: c.connector_infos(), {"c": {"info": info}}, "GET", "/connectors?expand=info"),
        (lambda c: c.connector("c"), info, "GET", "/connectors/c"),
        (lambda c: c.create_connector("c", {}), info, "POST", "/connectors"),
        (lambda c: c.put_connector_config("c", {}), info, "PUT", "/connectors/c/config"),
        (lambda c: c.delete_connector("c"), None, "DELETE", "/connectors/c"),
        (lambda c: c.pause_connector("c"), None, "PUT", "/connectors/c/pause"),
        (lambda c: c.resume_connector("c"), None, "PUT", "/connectors/c/resume"),
        (lambda c: c.stop_connector("c"), None, "PUT", "/connectors/c/stop"),
        (lambda c: c.restart_connector("c"), None, "POST", "/connectors/c/restart"),
        (
            lambda c: c.restart_connector("c", include_tasks=True),
            STATUS,
            "POST",
            "/connectors/c/restart?includeTasks=true&onlyFailed=false",
        ),
        (
            lambda c: c.tasks("c"),
            [{"id": {"connector": "c", "task": 0}, "config": {}}],
            "GET",
            "/connectors/c/tasks",
        ),
        (
            lambda c: c.task_status(TaskId("c", 3)),
            STATUS["tasks"][0],
            "GET",
            "/connectors/c/tasks/3/status?condition=true",
        ),
        (lambda c: c.restart_task(TaskId("c", 3)), None, "POST", "/connectors/c/tasks/3/restart"),
        (lambda c: c.connector_offsets("c"), {"offsets": []}, "GET", "/connectors/c/offsets"),
        (lambda c: c.alter_connector_offsets("c", []), {"message": "m"}, "PATCH", "/connectors/c/offsets"),
        (lambda c: c.reset_connector_offsets("c"), {"message": "m"}, "DELETE", "/connectors/c/offsets"),
        (lambda c: c.plugins(connectors_only=False), [{}], "GET", "/connector-plugins?connectorsOnly=false"),
        (lambda c: c.plugins(locations=True), [{}], "GET", "/connector-plugins?locations=true"),
        (lambda c: c.patch_config("c", {"a": None}), info, "PATCH", "/connectors/c/config"),
        (lambda c: c.topics("c"), {"c": {"topics": ["t"]}}, "GET", "/connectors/c/topics"),
        (lambda c: c.reset_topics("c"), None, "PUT", "/connectors/c/topics/reset"),
        (lambda c: c.plugin_config("a$B"), [{}], "GET", "/connector-plugins/a%24B/config"),
        (lambda c: c.plugin_config("p", "4.3"), [{}], "GET", "/connector-plugins/p/config?version=4.3"),
        (lambda c: c.validate("p", {}), {"configs": []}, "PUT", "/connector-plugins/p/config/validate"),
        (lambda c: c.loggers(), {"root": {"level": "INFO"}}, "GET", "/admin/loggers"),
        (lambda c: c.logger("a.b"), {"level": "INFO"}, "GET", "/admin/loggers/a.b"),
        (lambda c: c.set_logger("a", "DEBUG"), ["a", "a.b"], "PUT", "/admin/loggers/a"),
        (lambda c: c.set_logger("a", "DEBUG", scope="cluster"), None, "PUT", "/admin/loggers/a?scope=cluster"),
    ]
    for call, body, method, path in calls:
        client, seen = client_of(Response(204) if body is None else ok(body))
        call(client)
        assert (seen[0].method, seen[0].path) == (method, path)


def test_offsets_travel_as_rest_spells_them():
    client, seen = client_of(ok({"message": "done"}))
    assert client.alter_connector_offsets("c", [ConnectorOffset({"f": 1}, None)]) == "done"
    assert json.loads(seen[0].body) == {"offsets": [{"partition": {"f": 1}, "offset": None}]}


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "Connector c not found", NotFoundError),
        (409, "Connector c already exists", AlreadyExistsError),
        (409, "Cannot complete request because of a conflicting operation", ConflictError),
        (400, "bad", BadRequestError),
        (500, "Request timed out. The last operation", TimedOutError),
        (500, "The offsets of connector c cannot be read: Kafka gave no answer within 3 s", TimedOutError),
        (500, "anything else", ConnectError),
    ],
)
def test_errors_keep_the_workers_message(status, message, kind):
    client, _ = client_of(error(status, message))
    with pytest.raises(ConnectError) as caught:
        client.delete_connector("c")
    assert (type(caught.value), str(caught.value)) == (kind, message)


def test_a_page_that_is_not_connects_confirms_nothing():
    client, _ = client_of(Response(200, b"<html>It works!</html>"))
    for change in (client.pause_connector, client.delete_connector, client.restart_connector):
        with pytest.raises(ConnectError, match="something that Kafka Connect does not say"):
            change("c")


@pytest.mark.parametrize("ask", ["server_info", "cluster", "doctor", "logs", "workers"])
@pytest.mark.parametrize("answer", [{"hello": "world"}, [], [{"hello": "world"}]])
def test_json_of_another_service_is_not_taken_for_an_answer(ask, answer):
    client, _ = client_of(ok(answer))
    with pytest.raises(ConnectError, match="something that Kafka Connect does not say"):
        getattr(client, ask)()


def test_a_login_page_in_front_of_a_worker_is_named_without_its_token():
    answer = Response(302, b"", {"location": "https://login.example/in?token=s3cret#s3cret"})
    client, _ = client_of(answer)
    with pytest.raises(ConnectError, match=r"a redirect to https://login\.example/in, which is not followed") as caught:
        client.connectors()
    assert "s3cret" not in f"{caught.value} {caught.value.hint}"


def test_a_proxy_that_is_asked_too_often_says_when_to_ask_again():
    client, _ = client_of(Response(429, b"slow down", {"retry-after": "120"}))
    with pytest.raises(RetriableError, match=r"refused GET /connectors \(429\): try again in 120 s"):
        client.connectors()


def test_a_path_behind_the_url_of_a_worker_is_shown_with_what_was_asked():
    client, _ = client_of(error(404, "HTTP 404 Not Found"))
    with pytest.raises(NoRouteError, match="serves nothing at GET /connectors: HTTP 404 Not Found") as caught:
        client.connectors()
    assert "the URL" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("ask", "status", "since"),
    [
        (lambda c: c.connector_offsets("a.b"), 404, "3.5 (KIP-875)"),
        (lambda c: c.offsets_and_lag("c"), 404, "3.5 (KIP-875)"),
        (lambda c: c.stop_connector("c"), 404, "3.5 (KIP-875)"),
        (lambda c: c.reset_connector_offsets("c"), 405, "3.6 (KIP-875)"),
        (lambda c: c.plugin_config("p"), 404, "3.2 (KIP-769)"),
        (lambda c: c.topics("c"), 404, "2.5 (KIP-558)"),
        (lambda c: c.loggers(), 404, "2.4 (KIP-495)"),
    ],
)
def test_a_route_that_an_older_worker_lacks_is_named_with_the_release_that_brought_it(ask, status, since):
    client, seen = client_of(error(status, "HTTP 404 Not Found" if status == 404 else "HTTP 405 Method Not Allowed"))
    with pytest.raises(NoRouteError, match="http://w:8083 serves nothing at ") as caught:
        ask(client)
    assert f"{seen[0]}" in str(caught.value)
    assert f"Kafka Connect has it since {since}" in (caught.value.hint or "")


def test_a_worker_before_3_8_is_sent_the_whole_config_for_a_patch():
    info = {"name": "c", "config": {"a": "2", "b": "1"}, "tasks": [], "type": "source"}
    old = {"a": "1", "b": "1", "gone": "1"}
    client, seen = client_of(error(405, "HTTP 405 Method Not Allowed"), ok(old), ok(info))
    assert client.patch_config("c", {"a": "2", "gone": None}).config == info["config"]
    assert [f"{request}" for request in seen[1:]] == ["GET /connectors/c/config", "PUT /connectors/c/config"]
    assert json.loads(seen[2].body) == {"a": "2", "b": "1"}


@pytest.mark.parametrize(
    ("flags", "restarted"),
    [
        ({"include_tasks": True}, [0, 1]),
        ({"include_tasks": True, "only_failed": True}, [0]),
        ({"only_failed": True}, []),
    ],
)
def test_a_worker_before_3_0_is_asked_for_each_task_of_a_restart(flags, restarted):
    second = {"id": 1, "state": "RUNNING", "worker_id": "w:1"}
    status = ok({**STATUS, "tasks": [*STATUS["tasks"], second]})
    client, seen = client_of(Response(204, b""), status, Response(204, b""))
    found = client.restart_connector("src", **flags)
    assert [f"{request}" for request in seen[2:]] == [
        f"POST /connectors/src/tasks/{number}/restart" for number in restarted
    ]
    assert found.connector.state is RunState.RESTARTING
    assert [task.id for task in found.tasks if task.state is RunState.RESTARTING] == restarted


def test_a_worker_before_3_7_sets_its_own_logger_and_no_others():
    client, _ = client_of(ok(["a", "a.b"]))
    with pytest.raises(ConnectError, match="Only http://w:8083 logs a at DEBUG: it has no scope=cluster"):
        client.set_logger("a", "DEBUG", scope="cluster")


def test_a_proxy_whose_worker_is_gone_is_reported_as_one():
    client, _ = client_of(Response(502, b"<html>Bad Gateway</html>"))
    with pytest.raises(UnreachableError, match="502, as a proxy does whose worker does not answer"):
        client.connectors()


def test_a_change_that_a_worker_refuses_while_kafka_is_away_is_reported_as_unreachable():
    away = {OUTAGE_HEADER: Outage(0, 9.0, "here:1", "no answer in time", 3).to_header()}
    refused = error(500, "Nothing was changed: Kafka is away")
    client, _ = client_of(Response(refused.status, refused.body, away))
    with pytest.raises(UnreachableError, match="Nothing was changed") as caught:
        client.pause_connector("c")
    assert caught.value.hint == "Try again when the worker is well: connect status shows it."


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("Request timed out. The worker is busy.", "The worker may still carry it out"),
        ("Request timed out. The worker is busy. Nothing was changed.", "Try again when the worker is well"),
    ],
)
def test_a_change_that_timed_out_says_whether_it_may_still_be_done(message, hint):
    client, _ = client_of(error(500, message))
    with pytest.raises(TimedOutError) as caught:
        client.pause_connector("c")
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    "answer",
    [
        Response(200, b"<html>hello</html>"),
        Response(404, b"<html>Not Found</html>"),
        ok({"unexpected": 1}),
        ok([]),
        ok({**STATUS, "connector": {"state": "DANCING", "worker_id": "w"}}),
        Response(302),
    ],
)
def test_something_that_is_no_connect_worker_is_reported_as_such(answer):
    client, _ = client_of(answer)
    with pytest.raises(ConnectError, match="something that Kafka Connect does not say") as caught:
        client.connector_status("c")
    assert caught.value.hint == "Is that the URL of a Kafka Connect worker?"


def test_a_worker_that_is_unwell_still_tells_its_health():
    client, _ = client_of(ok({"status": "starting", "message": "m"}, 503))
    assert client.health()["status"] == "starting"


def test_conflicts_are_not_retried_unless_asked_for():
    client, seen = client_of(error(409, "rebalance"), Response(204))
    with pytest.raises(ConflictError):
        client.pause_connector("c")
    assert len(seen) == 1


def test_conflicts_are_retried_until_they_pass():
    client, seen = client_of(error(409, "r"), error(409, "r"), Response(204), retry_conflicts_s=5, clock=Clock())
    client.pause_connector("c")
    assert len(seen) == 3


def test_conflicts_are_retried_no_longer_than_the_deadline():
    clock = Clock()
    client, seen = client_of(error(409, "rebalance"), retry_conflicts_s=5, clock=clock)
    with pytest.raises(ConflictError):
        client.pause_connector("c")
    assert 3 <= len(seen) <= 8
    assert clock.now <= 5


def test_who_asked_too_often_waits_as_long_as_the_worker_says():
    clock = Clock()
    body = error(429, "too often").body
    client, seen = client_of(Response(429, body, {"retry-after": "3"}), Response(204), retry_conflicts_s=5, clock=clock)
    client.pause_connector("c")
    assert (len(seen), clock.now) == (2, 3)
    client, seen = client_of(Response(429, body, {"retry-after": "30"}), retry_conflicts_s=5, clock=Clock())
    with pytest.raises(RetriableError, match="too often") as caught:
        client.pause_connector("c")
    assert (len(seen), caught.value.retry_after_s) == (1, 30)


def test_a_taken_name_is_not_retried():
    client, seen = client_of(error(409, "Connector c already exists"), retry_conflicts_s=5, clock=Clock())
    with pytest.raises(AlreadyExistsError):
        client.create_connector("c", {})
    assert len(seen) == 1


def test_host_and_port_alone_mean_http():
    assert ConnectClient("w:1").url == "http://w:1"
    assert ConnectClient("https://w:1/").url == "https://w:1"


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "ftp://w",
        "http://w:port",
        "http://w:99999",
        "http://w:0",
        ",",
        "http://a b",
        "http://w?x",
        "http://w#x",
    ],
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(BadRequestError, match="is not the URL of a worker"):
        ConnectClient(url)


def test_an_empty_url_is_called_empty():
    with pytest.raises(BadRequestError, match="The URL of a worker is empty"):
        ConnectClient(" ")


def test_a_url_with_a_user_in_it_is_refused_and_not_repeated():
    with pytest.raises(BadRequestError, match="has a user in it") as caught:
        ConnectClient("http://ann:s3cret@w")
    assert "s3cret" not in str(caught.value)


def test_the_user_is_sent_and_a_refusal_names_the_user_and_no_password():
    access = ClientAccess(user="ann", password="s3cret")
    client, seen = client_of(Response(401, b"User cannot access the resource."), access=access)
    with pytest.raises(ConnectError, match=r"http://w:8083 refuses user ann \(401\)") as caught:
        client.connectors()
    assert seen[0].headers["authorization"] == "Basic YW5uOnMzY3JldA=="
    assert "s3cret" not in f"{caught.value}{access!r}"


def test_certificates_that_can_not_be_read_are_named():
    with pytest.raises(ConfigError, match=r"/no/ca\.pem cannot be used"):
        ConnectClient("https://w", access=ClientAccess(ca="/no/ca.pem")).connectors()
