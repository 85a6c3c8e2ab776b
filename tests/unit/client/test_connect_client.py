"""The REST client against answers of workers, good and bad."""

from __future__ import annotations

import httpx2
import pytest

from kconnect.client import ClientAccess, ConnectClient
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    NotFoundError,
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


def client_of(*answers, **settings):
    """A client whose requests get these answers one after the other, and the list of the requests."""
    left, seen = list(answers), []

    def handle(request):
        seen.append(request)
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ConnectClient("http://w:8083/", transport=httpx2.MockTransport(handle), **settings), seen


def error(status, message):
    return httpx2.Response(status, json={"error_code": status, "message": message})


def test_a_status_is_read_into_the_model():
    client, seen = client_of(httpx2.Response(200, json=STATUS))
    status = client.connector_status("src")
    assert (status.connector.state, status.tasks[0].state) == (RunState.RUNNING, RunState.FAILED)
    assert (status.tasks[0].trace, status.tasks[0].version) == ("boom", None)
    assert str(seen[0].url) == "http://w:8083/connectors/src/status"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", b"/connectors/a%2Fb/config"),
        ("50%", b"/connectors/50%25/config"),
        ("a%2Fb", b"/connectors/a%252Fb/config"),
        ("a\\b", b"/connectors/a%5Cb/config"),
        ("..", b"/connectors/%2E%2E/config"),
        ("ü ?#", b"/connectors/%C3%BC%20%3F%23/config"),
    ],
)
def test_names_are_encoded_whole(name, path):
    client, seen = client_of(httpx2.Response(200, json={"name": name}))
    client.connector_config(name)
    assert seen[0].url.raw_path == path


def test_every_endpoint_has_its_method_and_path():
    info = {"name": "c", "config": {}, "tasks": [{"connector": "c", "task": 0}], "type": "sink"}
    calls = [
        (lambda c: c.server_info(), {"version": "4"}, "GET", b"/"),
        (lambda c: c.health(), {"status": "healthy"}, "GET", b"/health"),
        (lambda c: c.connectors(), ["c"], "GET", b"/connectors"),
        (lambda c: c.connector_statuses(), {"src": {"status": STATUS}}, "GET", b"/connectors?expand=status"),
        (lambda c: c.connector_infos(), {"c": {"info": info}}, "GET", b"/connectors?expand=info"),
        (lambda c: c.connector("c"), info, "GET", b"/connectors/c"),
        (lambda c: c.create_connector("c", {}), info, "POST", b"/connectors"),
        (lambda c: c.put_connector_config("c", {}), info, "PUT", b"/connectors/c/config"),
        (lambda c: c.delete_connector("c"), None, "DELETE", b"/connectors/c"),
        (lambda c: c.pause_connector("c"), None, "PUT", b"/connectors/c/pause"),
        (lambda c: c.resume_connector("c"), None, "PUT", b"/connectors/c/resume"),
        (lambda c: c.stop_connector("c"), None, "PUT", b"/connectors/c/stop"),
        (lambda c: c.restart_connector("c"), None, "POST", b"/connectors/c/restart"),
        (
            lambda c: c.restart_connector("c", include_tasks=True),
            STATUS,
            "POST",
            b"/connectors/c/restart?includeTasks=true&onlyFailed=false",
        ),
        (
            lambda c: c.tasks("c"),
            [{"id": {"connector": "c", "task": 0}, "config": {}}],
            "GET",
            b"/connectors/c/tasks",
        ),
        (lambda c: c.task_status(TaskId("c", 3)), STATUS["tasks"][0], "GET", b"/connectors/c/tasks/3/status"),
        (lambda c: c.restart_task(TaskId("c", 3)), None, "POST", b"/connectors/c/tasks/3/restart"),
        (lambda c: c.connector_offsets("c"), {"offsets": []}, "GET", b"/connectors/c/offsets"),
        (lambda c: c.alter_connector_offsets("c", []), {"message": "m"}, "PATCH", b"/connectors/c/offsets"),
        (lambda c: c.reset_connector_offsets("c"), {"message": "m"}, "DELETE", b"/connectors/c/offsets"),
        (lambda c: c.plugins(connectors_only=False), [{}], "GET", b"/connector-plugins?connectorsOnly=false"),
        (lambda c: c.patch_config("c", {"a": None}), info, "PATCH", b"/connectors/c/config"),
        (lambda c: c.topics("c"), {"c": {"topics": ["t"]}}, "GET", b"/connectors/c/topics"),
        (lambda c: c.reset_topics("c"), None, "PUT", b"/connectors/c/topics/reset"),
        (lambda c: c.plugin_config("a$B"), [{}], "GET", b"/connector-plugins/a%24B/config"),
        (lambda c: c.plugin_config("p", "4.3"), [{}], "GET", b"/connector-plugins/p/config?version=4.3"),
        (lambda c: c.validate("p", {}), {"error_count": 0}, "PUT", b"/connector-plugins/p/config/validate"),
        (lambda c: c.loggers(), {"root": {"level": "INFO"}}, "GET", b"/admin/loggers"),
        (lambda c: c.logger("a.b"), {"level": "INFO"}, "GET", b"/admin/loggers/a.b"),
        (lambda c: c.set_logger("a", "DEBUG"), ["a", "a.b"], "PUT", b"/admin/loggers/a"),
        (lambda c: c.set_logger("a", "DEBUG", scope="cluster"), None, "PUT", b"/admin/loggers/a?scope=cluster"),
    ]
    for call, body, method, path in calls:
        client, seen = client_of(httpx2.Response(204) if body is None else httpx2.Response(200, json=body))
        call(client)
        assert (seen[0].method, seen[0].url.raw_path) == (method, path)


def test_offsets_travel_as_rest_spells_them():
    client, seen = client_of(httpx2.Response(200, json={"message": "done"}))
    assert client.alter_connector_offsets("c", [ConnectorOffset({"f": 1}, None)]) == "done"
    assert httpx2.Response(200, content=seen[0].content).json() == {
        "offsets": [{"partition": {"f": 1}, "offset": None}]
    }


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "Connector c not found", NotFoundError),
        (409, "Connector c already exists", AlreadyExistsError),
        (409, "Cannot complete request because of a conflicting operation", ConflictError),
        (400, "bad", BadRequestError),
        (500, "Request timed out. The last operation", TimedOutError),
        (500, "anything else", ConnectError),
    ],
)
def test_errors_keep_the_workers_message(status, message, kind):
    client, _ = client_of(error(status, message))
    with pytest.raises(ConnectError) as caught:
        client.delete_connector("c")
    assert (type(caught.value), str(caught.value)) == (kind, message)


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(200, text="<html>hello</html>"),
        httpx2.Response(404, text="<html>Not Found</html>"),
        httpx2.Response(200, json={"unexpected": 1}),
        httpx2.Response(200, json=[]),
        httpx2.Response(200, json={**STATUS, "connector": {"state": "DANCING", "worker_id": "w"}}),
        httpx2.Response(302, headers={"location": "http://elsewhere/"}),
    ],
)
def test_something_that_is_no_connect_worker_is_told_as_such(answer):
    client, _ = client_of(answer)
    with pytest.raises(ConnectError, match="something that Kafka Connect does not say") as caught:
        client.connector_status("c")
    assert caught.value.hint == "Is that the URL of a Kafka Connect worker?"


def test_a_worker_that_is_unwell_still_tells_its_health():
    client, _ = client_of(httpx2.Response(503, json={"status": "starting", "message": "m"}))
    assert client.health()["status"] == "starting"


def test_nobody_there_names_the_url_and_what_to_do():
    client, _ = client_of(httpx2.ConnectError("[Errno 111] Connection refused"))
    with pytest.raises(UnreachableError, match=r"Nobody answers at http://w:8083 \(connection refused\)") as caught:
        client.connectors()
    assert "connect standalone" in (caught.value.hint or "")


def test_a_late_answer_names_the_deadline():
    client, _ = client_of(httpx2.ReadTimeout("late"), timeout_s=7)
    with pytest.raises(TimedOutError, match="did not answer GET /connectors within 7 s"):
        client.connectors()


def test_a_broken_connection_is_no_trace():
    client, _ = client_of(httpx2.RemoteProtocolError("peer closed"))
    with pytest.raises(UnreachableError, match="broke off GET /connectors: peer closed"):
        client.connectors()


def test_conflicts_are_not_retried_unless_asked_for():
    client, seen = client_of(error(409, "rebalance"), httpx2.Response(204))
    with pytest.raises(ConflictError):
        client.pause_connector("c")
    assert len(seen) == 1


def test_conflicts_are_retried_until_they_pass():
    client, seen = client_of(error(409, "r"), error(409, "r"), httpx2.Response(204), retry_conflicts_s=5, clock=Clock())
    client.pause_connector("c")
    assert len(seen) == 3


def test_conflicts_are_retried_no_longer_than_the_deadline():
    clock = Clock()
    client, seen = client_of(error(409, "rebalance"), retry_conflicts_s=5, clock=clock)
    with pytest.raises(ConflictError):
        client.pause_connector("c")
    assert 3 <= len(seen) <= 8
    assert clock.now <= 5


def test_a_taken_name_is_not_retried():
    client, seen = client_of(error(409, "Connector c already exists"), retry_conflicts_s=5, clock=Clock())
    with pytest.raises(AlreadyExistsError):
        client.create_connector("c", {})
    assert len(seen) == 1


def test_host_and_port_alone_mean_http():
    assert ConnectClient("w:1").url == "http://w:1"
    assert ConnectClient("https://w:1/").url == "https://w:1"


@pytest.mark.parametrize("url", ["", "http://", "ftp://w", "http://w:port", "http://w:99999"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(BadRequestError, match="is no URL of a worker"):
        ConnectClient(url)


def test_the_user_is_sent_and_a_refusal_names_the_user_and_no_password():
    access = ClientAccess(user="ann", password="s3cret")
    client, seen = client_of(httpx2.Response(401, text="User cannot access the resource."), access=access)
    with pytest.raises(ConnectError, match=r"http://w:8083 refuses user ann \(401\)") as caught:
        client.connectors()
    assert seen[0].headers["authorization"] == "Basic YW5uOnMzY3JldA=="
    assert "s3cret" not in f"{caught.value}{access!r}"


def test_certificates_that_can_not_be_read_are_named():
    with pytest.raises(ConfigError, match=r"/no/ca\.pem can not be used"):
        ConnectClient("https://w", access=ClientAccess(ca="/no/ca.pem")).connectors()
