"""`connect status` and `connect describe` against a REST server."""

from __future__ import annotations

import json
import socket
import threading

import pytest
import yaml

from kconnect.client import ConnectClient
from kconnect.client.outage import Outage
from kconnect.model import (
    Condition,
    ConnectorOffset,
    PartitionLag,
    SinkLag,
    TargetState,
    TaskCondition,
    TaskId,
)
from kconnect.runtime.herder.health.reasons import Reason
from kconnect.runtime.metrics import Moves

TRACE = "Task orders-0 failed: x. Root cause: OSError: disk is full\nTraceback ..\n"


@pytest.fixture
def moving(herder, monkeypatch):
    """Tasks with counters, as a worker has them."""
    moves = {TaskId("orders", 0): Moves(12.5, 100, 0), TaskId("lines", 0): Moves(2.0, 7, 0)}
    monkeypatch.setattr(herder, "moves", lambda: moves)


def test_a_healthy_cluster_is_a_screen_and_exit_code_0(connect, moving):
    code, out, _ = connect("status")
    assert code == 0
    assert out.startswith("HEALTHY  http://127.0.0.1:")
    assert "1 worker: 127.0.0.1:8083\n2 connectors: 2 RUNNING\n2 tasks: 2 RUNNING\n14 records/s\n" in out
    assert connect("status", "-o", "name")[:2] == (0, "")


def test_what_failed_is_reported_with_its_root_cause_and_exit_code_7(connect, herder):
    herder.traces["orders"] = TRACE
    herder.conditions[TaskId("lines", 0)] = TaskCondition(Condition.STUCK, 0, 0, "poll() hangs")
    code, out, _ = connect("status")
    assert code == 7
    assert out.splitlines()[:3] == [out.splitlines()[0], "  1 task FAILED", "  1 task RUNNING without progress"]
    assert "OSError: disk is full" in out
    assert "stuck for" in out
    assert connect("status", "-o", "name")[1] == "1 task FAILED\n1 task RUNNING without progress\n"
    body = json.loads(connect("status", "-o", "json")[1])
    assert (body["healthy"], body["tasks"]) == (False, {"total": 2, "states": {"FAILED": 1, "RUNNING": 1}})
    assert body["failed"] == [
        {"name": "orders", "task": 0, "worker_id": "127.0.0.1:8083", "why": "OSError: disk is full"}
    ]
    assert list(body) == [
        "healthy", "problems", "place", "cluster_id", "workers", "connectors", "tasks", "failed", "unassigned", "late",
        "outage", "records_per_s", "lag", "lag_at_ms", "doctor", "notes",
    ]  # fmt: skip


def test_an_outage_is_a_problem_and_what_is_paused_is_none(connect, herder):
    herder.set_target_state("lines", TargetState.PAUSED)
    assert connect("status")[0] == 0
    herder.kafka_away = Outage(1_700_000_000_000, 83.0, "kafka:9092", "kafka:9092: Connection refused", 5)
    code, out, _ = connect("status")
    assert code == 7
    assert "Kafka has been away since" in out.splitlines()[1]


def test_the_first_of_two_workers_is_away_and_the_second_is_asked_for_all(connect, moving):
    place = json.loads(connect("status", "-o", "json")[1])["place"]
    code, out, err = connect("status", "--url", f"http://127.0.0.1:1,{place}")
    assert code == 7, out + err
    assert out.splitlines()[:2] == [
        out.splitlines()[0],
        "  Worker 127.0.0.1:1 does not answer: Nobody answers at http://127.0.0.1:1 (connection refused)",
    ]
    assert out.startswith(f"UNHEALTHY  {place}")
    assert "2 workers, 1 without an answer: 127.0.0.1:8083, 127.0.0.1:1\n" in out
    code, out, _ = connect("describe", "orders", "--url", f"http://127.0.0.1:1,{place}")
    assert code == 0
    assert "topic = t" in out


def test_a_given_worker_that_is_frozen_is_named_though_the_group_has_dropped_it(connect, moving):
    place = json.loads(connect("status", "-o", "json")[1])["place"]
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # takes connections, and says nothing
        host = f"127.0.0.1:{frozen.getsockname()[1]}"
        for urls in (f"{host},{place}", f"{place},{host}"):
            code, out, _ = connect("status", "--url", urls, "-o", "json")
            (silent,) = [worker for worker in json.loads(out)["workers"] if not worker["answers"]]
            assert (code, silent["worker"]) == (7, host)
            assert "did not answer GET /health within 2 s" in silent["problem"]


def test_a_worker_that_starts_and_takes_no_requests_yet_is_starting_at_once(connect, herder, monkeypatch):
    is_over = threading.Event()
    monkeypatch.setattr(herder, "is_ready", lambda: False)
    monkeypatch.setattr(herder, "is_open", lambda: False)
    monkeypatch.setattr(herder, "connectors", lambda: is_over.wait(60) or {})
    try:
        code, out, _ = connect("status")
    finally:
        is_over.set()
    assert code == 7
    assert out.startswith("UNHEALTHY")
    assert " is starting" in out.splitlines()[1]


def test_what_a_worker_says_is_wrong_with_it_is_a_problem(connect, herder, monkeypatch):
    monkeypatch.setattr(herder, "health", lambda: [Reason("The admin client is silent", 0)])
    code, out, _ = connect("status")
    assert code == 7
    assert "says that it is unhealthy: The admin client is silent" in out


def test_what_a_healthy_worker_has_to_say_stands_below_the_screen_and_in_the_document(connect, herder, monkeypatch):
    refused = "Other workers are not informed of its states: User:w lacks WRITE on topic statuses"
    monkeypatch.setattr(herder, "notices", lambda: [refused])
    code, out, err = connect("status")
    assert (code, out.partition("  ")[0]) == (0, "HEALTHY")
    assert f" says: {refused}.\n" in err
    document = json.loads(connect("status", "-o", "json")[1])
    assert f"{document['place']} says: {refused}." in document["notes"]


def test_nobody_who_answers_is_exit_code_5(connect):
    code, out, err = connect("status", "--url", "http://127.0.0.1:1")
    assert (code, out) == (5, "")
    assert "Nobody answers" in err


def test_describe_shows_everything_about_a_connector_with_its_secrets_masked(connect, herder, moving):
    herder.traces["orders"] = TRACE
    herder.topics["orders"] = ["t"]
    herder.patch_connector("orders", {"db.password": "geheim"})
    code, out, err = connect("describe", "orders")
    assert code == 0
    assert "connect config history orders shows the last changes of its config.\n" in err
    assert out.splitlines()[:3] == [
        "orders  source  FAILED  127.0.0.1:8083",
        "  12 records/s, 0 errors",
        "  task 0: OSError: disk is full",
    ]
    assert "db.password = [hidden]" in out
    assert "geheim" not in out + err
    assert "TOPICS\n  t\n" in out
    assert "geheim" in connect("describe", "orders", "--show-secrets")[1]


def test_describe_in_json_and_yaml_is_the_same_document_and_null_is_what_is_not_known(connect, herder, moving):
    body = json.loads(connect("describe", "orders", "-o", "json")[1])
    assert yaml.safe_load(connect("describe", "orders", "-o", "yaml")[1]) == body
    (task,) = body["tasks"]
    assert (task["state"], task["records_per_s"], task["records"]) == ("RUNNING", 12.5, 100)
    assert (body["changes"], body["lag"], body["offsets"]) == (None, None, [])


def test_describe_of_a_sink_has_the_lag_of_each_partition(connect, monkeypatch):
    place = {"kafka_topic": "t", "kafka_partition": 0}
    lag = SinkLag((PartitionLag("t", 0, 7, 12, 5),))
    answer = [ConnectorOffset(place, {"kafka_offset": 7})], lag
    monkeypatch.setattr(ConnectClient, "offsets_and_lag", lambda _self, _name: answer)
    body = json.loads(connect("describe", "orders", "-o", "json")[1])
    assert body["lag"] == 5
    assert body["offsets"] == [{"partition": place, "offset": {"kafka_offset": 7}, "end_offset": 12, "lag": 5}]
    assert "5 behind" in connect("describe", "orders")[1]


def test_describe_of_a_connector_that_does_not_exist_names_those_that_do(connect):
    code, out, err = connect("describe", "order")
    assert (code, out) == (3, "")
    assert "orders" in err
