"""How a task fares beside its state: for who asks, and Java's body for who does not."""

from __future__ import annotations

from contextlib import closing

import pytest

from kconnect.client.http_exchange import Request, Response
from kconnect.model import Condition, TargetState, TaskCondition, TaskId
from kconnect.runtime.rest.conditions import OtherWorkers
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source

NO_TASK_CONFIGS = TaskCondition(Condition.NO_TASK_CONFIGS, 1_700_000_000_000, 7, "OSError: gone")
RETRYING = TaskCondition(Condition.RETRYING, 1_700_000_000_000, 12, "Lines.poll() raised X: no route")


@pytest.fixture
def herder():
    herder = MemoryHerder()
    for name in ("src", "other"):
        herder.put_connector(name, file_source(name=name), replace=False)
    herder.conditions[TaskId("src", 0)] = RETRYING
    return herder


@pytest.fixture
def rest(herder):
    caller = RestCaller(herder)
    yield caller
    caller.close()


@pytest.mark.parametrize(
    "path", ["/connectors/src/status", "/connectors?expand=status", "/connectors/src/tasks/0/status"]
)
def test_who_does_not_ask_gets_javas_body(rest, path):
    assert b"condition" not in rest.ask("GET", path).body


def test_who_asks_gets_it_with_each_task(rest):
    shown = {
        "name": "retrying",
        "since_ms": 1_700_000_000_000,
        "count": 12,
        "cause": "Lines.poll() raised X: no route",
    }
    assert rest.ask("GET", "/connectors/src/status?condition=true").json["tasks"][0]["condition"] == shown
    assert rest.ask("GET", "/connectors/src/tasks/0/status?condition=true").json["condition"] == shown
    every = rest.ask("GET", "/connectors?expand=info&expand=status&condition=true").json
    assert list(every["src"]) == ["info", "status"]
    assert every["src"]["status"]["tasks"][0]["condition"] == shown
    assert "condition" not in every["other"]["status"]["tasks"][0], "not known yet"


def test_a_connector_that_gives_no_task_configs_has_one_beside_those_of_its_tasks(rest, herder):
    herder.own_conditions["src"] = NO_TASK_CONFIGS
    shown = rest.ask("GET", "/connectors/src/status?condition=true").json
    assert shown["connector"]["condition"] == NO_TASK_CONFIGS.to_json()
    assert shown["tasks"][0]["condition"] == RETRYING.to_json()
    assert "condition" not in rest.ask("GET", "/connectors/other/status?condition=true").json["connector"]
    assert b"condition" not in rest.ask("GET", "/connectors/src/status").body


def test_a_worker_lists_those_of_connectors_for_who_knows_them(rest, herder):
    """A worker of a former version takes each row for one of a task."""
    of_tasks = [{"connector": "src", "task": 0, "condition": RETRYING.to_json()}]
    herder.own_conditions["src"] = NO_TASK_CONFIGS
    assert rest.ask("GET", "/conditions").json == of_tasks
    of_connectors = [{"connector": "src", "condition": NO_TASK_CONFIGS.to_json()}]
    assert rest.ask("GET", "/conditions?connectors=true").json == of_connectors + of_tasks


def test_a_task_that_has_ended_has_none(rest, herder):
    herder.traces["src"] = "boom"
    assert "condition" not in rest.ask("GET", "/connectors/src/status?condition=true").json["tasks"][0]


def test_a_paused_task_has_one(rest, herder):
    herder.set_target_state("src", TargetState.PAUSED)
    assert "condition" in rest.ask("GET", "/connectors/src/status?condition=true").json["tasks"][0]


def test_a_worker_lists_those_of_its_own_tasks(rest):
    assert rest.ask("GET", "/conditions").json == [{"connector": "src", "task": 0, "condition": RETRYING.to_json()}]


def test_a_worker_that_starts_is_listed_where_it_was_asked():
    """Its id is known once it has joined; without it the list has a worker without a name."""
    caller = RestCaller(MemoryHerder(worker_id=""))
    (only,) = caller.ask("GET", "/admin/workers").json
    caller.close()
    assert only["worker"] == "worker:8083"


class RefusingPeers:
    """Another worker that takes none of this one's requests, until it does."""

    status = 403

    def send(self, _url: str, _request: Request) -> Response:
        body = b'{"error_code": 403, "message": "made 899 s from now"}' if self.status == 403 else b"{}"
        return Response(self.status, body)

    def close(self) -> None: ...


def test_why_another_worker_refuses_everything_is_kept_until_it_does_not_and_logged_once(caplog):
    peers = RefusingPeers()
    others = OtherWorkers(peers, lambda: "http")  # type: ignore[arg-type]  # all that is asked of Peers
    with closing(others):
        for _ in range(3):
            assert others.ask_all(["b:1"], {"/": {}, "/admin/slots": {}}) == {"/": {}, "/admin/slots": {}}
        assert others.refusals() == {"b:1": "made 899 s from now"}
        assert caplog.text.count("Worker b:1 refuses requests of this one: made 899 s from now") == 1
        peers.status = 200
        assert others.ask(["b:1"], "/", {}) == {"b:1": {}}
        assert others.refusals() == {}
