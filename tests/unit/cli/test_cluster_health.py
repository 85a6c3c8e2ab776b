"""What of a cluster is a problem, and what is not."""

from __future__ import annotations

import re

import pytest

from kconnect.admin.cluster.activity import Activity
from kconnect.clock import now_ms
from kconnect.model import Condition, TaskCondition
from kconnect.runtime.health.flow_metrics import FlowMetrics
from kconnect_cli.admin.cluster_health import health_document
from kconnect_cli.commands.describe import description_text
from kconnect_cli.commands.status import health_text
from kit.top_world import connector

UP = {"worker": "w1:8083", "answers": True, "problem": None, "records_per_s": None}


def health(*connectors, workers=(UP,), **more):
    return health_document("http://w1:8083", {each.name: each for each in connectors}, workers, **more)


def degraded(condition: Condition) -> TaskCondition:
    return TaskCondition(condition, 0, 3, "no route")


@pytest.mark.parametrize(
    "found",
    [
        health(),
        health(connector("a", "RUNNING", "RUNNING")),
        health(connector("a", own="STOPPED"), connector("b", "PAUSED", own="PAUSED")),
        health(connector("a", "RUNNING", condition=degraded(Condition.LAGGING))),
        health(connector("a", "RUNNING"), doctor={"ok": True, "counts": {"error": 0, "warning": 0, "info": 2}}),
    ],
)
def test_what_is_as_somebody_wants_it_is_healthy(found):
    assert (found["healthy"], found["problems"]) == (True, [])
    assert health_text(found).startswith("HEALTHY  http://w1:8083\n")


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (health(connector("a", "FAILED", "FAILED", trace="boom")), "2 tasks FAILED"),
        (health(connector("a", "FAILED", own="FAILED")), "1 connector and 1 task FAILED"),
        (health(connector("a", "UNASSIGNED")), "1 task UNASSIGNED"),
        (health(connector("a", "RUNNING", condition=degraded(Condition.STUCK))), "1 task RUNNING without progress"),
        (
            health(connector("a", "RUNNING", condition=degraded(Condition.NOT_COMMITTING))),
            "1 task RUNNING and not committing",
        ),
        (health(connector("a", "RUNNING"), workers=()), "No worker is running"),
        (
            health(workers=({"worker": "w2", "answers": False, "problem": "refused", "records_per_s": None},)),
            "Worker w2 does not answer: refused",
        ),
        (health(outage={"sentence": "Kafka has been away since 12:00"}), "Kafka has been away since 12:00"),
        (health(unhealthy="w1 did not answer GET /health"), "w1 did not answer GET /health"),
        (
            health(unhealthy="w1 says that it is unhealthy", outage={"sentence": "Kafka has been away since 12:00"}),
            "Kafka has been away since 12:00",
        ),
        (health(starting="starting: Spark is starting (3 s)."), "http://w1:8083 is starting: Spark is starting (3 s)"),
        (
            health(doctor={"ok": False, "counts": {"error": 2, "warning": 0, "info": 1}}),
            "The doctor found 2 errors in the topics: connect topics doctor",
        ),
    ],
)
def test_what_needs_somebody_is_a_problem_and_comes_first_on_the_screen(found, problem):
    assert found["problems"] == [problem]
    lines = health_text(found).splitlines()
    assert lines[0].startswith("UNHEALTHY")
    assert lines[1] == f"  {problem}"


def test_what_waits_says_why_in_an_outage():
    outage = {"sentence": "Kafka has been away since 12:00", "problem": "the broker at kafka:9092: no answer in time"}
    found = health(connector("a", "UNASSIGNED", own="UNASSIGNED"), outage=outage)
    why = "Kafka is away: the broker at kafka:9092: no answer in time"
    assert [row["why"] for row in found["unassigned"]] == [why, why]
    assert why in health_text(found)


def test_records_behind_say_how_old_the_number_is():
    def shown(lag: int, at_ms: int | None) -> str:
        moves = {"a": Activity(FlowMetrics(rate=5.0, lag=lag), lag_at_ms=at_ms)}
        return health_text(health(connector("a", "RUNNING"), activities=moves))

    assert re.search(r"5 records/s, 1,803 records behind 2[0-9] s ago\n", shown(1803, now_ms() - 20_000))
    assert "5 records/s, 1,803 records behind\n" in shown(1803, None), "a worker that does not tell"
    assert "5 records/s, 0 records behind\n" in shown(0, now_ms() - 20_000)
    assert "5 records/s, 1 record behind\n" in shown(1, None)


def test_the_screen_lists_what_failed_with_root_causes_and_not_more_than_fits():
    trace = "Task x failed: y. Root cause: OSError: gone\n"
    text = health_text(health(connector("a", *["FAILED"] * 20, trace=trace)))
    assert text.count("OSError: gone") == 15
    assert ".. and 5 more: connect connectors status" in text


def test_a_description_begins_with_what_is_wrong_and_leaves_out_what_is_not_known():
    task = {
        "id": 0,
        "state": "FAILED",
        "worker_id": "w1",
        "cause": "OSError: gone",
        "trace": "OSError: gone",
        "errors": 2,
    }
    text = description_text(
        {
            "name": "orders",
            "type": "sink",
            "state": "RUNNING",
            "worker_id": "w1:8083",
            "records_per_s": 12.0,
            "lag": None,
            "errors": 2,
            "tasks": [{**task, "records_per_s": None, "records": None}, {**task, "id": 1, "records_per_s": 3.0}],
            "config": {"topics": "t"},
            "topics": None,
            "offsets": [],
            "changes": [
                {
                    "timestamp": "2026-01-01T00:00:00Z",
                    "kind": "changed",
                    "sentence": "changed 1 setting",
                    "settings": [{"key": "topics", "old": "s", "new": "t"}],
                }
            ],
        }
    )
    assert text.splitlines()[:3] == [
        "orders  sink  FAILED  w1:8083",
        "  12 records/s, 2 errors",
        "  task 0, task 1: OSError: gone",
    ]
    assert "TOPICS" not in text
    assert "OFFSETS\n  none committed" in text
    assert text.endswith("  2026-01-01T00:00:00Z  changed 1 setting\n    - topics = s\n    + topics = t\n")
