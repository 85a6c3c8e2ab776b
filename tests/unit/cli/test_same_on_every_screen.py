"""One cluster on every screen: the same state, the same reason with the same restarts, the same order."""

from __future__ import annotations

import html
import io
import re
import time

import pytest
from rich.console import Console

from kconnect.admin.console.connector_rows import connector_rows
from kconnect.admin.console.html import render
from kconnect.admin.console.pages.connector import state_values
from kconnect.client.outage import Outage
from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Restarts,
    RunState,
    TaskCondition,
    TaskId,
    TaskState,
)
from kconnect.runtime.herder.decisions.auto_restarts import Notice, NoticeKind
from kconnect.runtime.herder.decisions.failures import NoHelp
from kconnect.runtime.webhooks.documents import of_notice
from kconnect_cli.admin.cluster_health import health_document
from kconnect_cli.commands.describe import description_text
from kconnect_cli.commands.status import health_text
from kconnect_cli.screen.live_view import PageContent, page
from kconnect_cli.screen.status_rows import more_of, part_of, status_rows, why
from kit.top_world import Driven, look, worker

W = "w1:8083"
SINCE_MS = time.time_ns() // 1_000_000 - 3 * 3_600_000
# Of before, so that it is due whenever the test runs
DUE_MS = 1_700_000_000_000
# However long after the import the test runs
LASTED = re.compile(r" for [34] h \d+ min")
CAUSE = "OSError: disk is full"
TRACE = f"Traceback (most recent call last):\n  File x\n{CAUSE}"


def of(name: str, own: str, *tasks: TaskState, condition: Condition | None = None) -> ConnectorStatus:
    found = None if condition is None else TaskCondition(condition, SINCE_MS, 0, "OSError: gone")
    return ConnectorStatus(name, ConnectorState(RunState(own), W, condition=found), tasks, ConnectorType.SINK)


def task(number: int, state: str, restarts: Restarts | None = None, condition: Condition | None = None) -> TaskState:
    found = None if condition is None else TaskCondition(condition, SINCE_MS, 3, "put() hangs")
    return TaskState(number, RunState(state), W, TRACE if state == "FAILED" else None, None, found, restarts)


HELD = Restarts(AutoRestart.WAITING, 1, 5, "once it is resumed")
# In the order in which each screen has them; the reason is without the time that has passed
CLUSTER = {
    each.name: (each, state, why)
    for each, state, why in [
        (
            of(
                "held",
                "PAUSED",
                task(0, "PAUSED"),
                task(1, "FAILED", HELD),
            ),
            "FAILED",
            f"task 1: restart 2 of 5 follows once it is resumed: {CAUSE}",
        ),
        (
            of("midway", "RUNNING", task(0, "FAILED", Restarts(AutoRestart.WAITING, 1, 5, None, DUE_MS))),
            "FAILED",
            f"task 0: restart 2 of 5 is due: {CAUSE}",
        ),
        (
            of(
                "mixed", "RUNNING", task(0, "FAILED", Restarts(AutoRestart.NOT_RESTARTED, 0, 0, str(NoHelp.JAVA_LEADS)))
            ),
            "FAILED",
            f"task 0: {CAUSE} (not restarted because a Java worker leads the group)",
        ),
        (
            of("spent", "RUNNING", task(0, "FAILED", Restarts(AutoRestart.GIVEN_UP, 5, 5))),
            "FAILED",
            f"task 0: given up after 5 restarts: {CAUSE}",
        ),
        (
            of("wrong", "RUNNING", task(0, "FAILED", Restarts(AutoRestart.NOT_RESTARTED, 0, 5, NoHelp.RIGHTS))),
            "FAILED",
            f"task 0: {CAUSE} (not restarted because it is not authorized)",
        ),
        (of("hangs", "RUNNING", task(0, "RUNNING", None, Condition.STUCK)), "RUNNING", "task 0 stuck: put() hangs"),
        (of("idle", "RUNNING", condition=Condition.NO_TASK_CONFIGS), "RUNNING", "no task configs: OSError: gone"),
        (of("orphan", "RUNNING", task(0, "RUNNING"), task(1, "UNASSIGNED")), "UNASSIGNED", ""),
        (of("alive", "RUNNING", task(0, "RUNNING")), "RUNNING", ""),
        (of("asleep", "PAUSED", task(0, "PAUSED")), "PAUSED", ""),
        (of("off", "STOPPED"), "STOPPED", ""),
    ]
}
STATUSES = {name: CLUSTER[name][0] for name in sorted(CLUSTER)}
PARTS = {(name, part.id): part for name, status in STATUSES.items() for part in status.tasks}
WRONG = [(name, number) for name, number in PARTS if CLUSTER[name][2].startswith(f"task {number}")]


def without_time(text: str) -> str:
    return LASTED.sub("", text)


def reason_of(name: str) -> str:
    """Without the task: for screens that have it in a column."""
    return CLUSTER[name][2].partition(" ")[2].partition(" ")[2]


def seen_on_top() -> Driven:
    return Driven(columns=160).take(look(*STATUSES.values()), worker())


def test_lists_of_connectors_have_the_same_order_states_and_reasons():
    top = {row.id: row for row in seen_on_top().state.rows}
    console = {row.name: row for row in connector_rows(STATUSES, {}, {})}
    assert list(top) == list(console) == list(CLUSTER)
    for name, (_, state, reason) in CLUSTER.items():
        assert (top[name].values["STATE"], without_time(top[name].values["WHY"])) == (state, reason)
        assert console[name].why == reason
        row = html.unescape(render("overview_row.html", {"row": console[name], "key": "k", "out_of_band": False}))
        assert (f">{reason}</small>" in row) == bool(reason)
    assert [console[name].health for name in CLUSTER] == [
        *["failed"] * 5, *["degraded"] * 2, "waiting", "running", "paused", "stopped"
    ]  # fmt: skip


def test_in_an_outage_the_order_is_the_same_and_what_waits_has_a_reason():
    away = Outage(1_700_000_000_000, 61.0, "b:9092", "b:9092 refused", 3)
    seen = Driven(columns=160).take(look(*STATUSES.values(), outage=away), worker())
    top = {row.id: row.values["WHY"] for row in seen.state.rows}
    console = {row.name: row.why for row in connector_rows(STATUSES, {}, {}, away)}
    assert list(top) == list(console) == list(CLUSTER)
    assert top["orphan"] == console["orphan"] == "task 1: Kafka is away: b:9092 refused"
    assert [name for name in CLUSTER if top[name] and not CLUSTER[name][2]] == ["orphan"]
    tasks = {row.id: row.values["WHY"] for row in seen.press("2").state.rows}
    assert (tasks["orphan-1"], tasks["orphan-0"]) == ("Kafka is away: b:9092 refused", "")


@pytest.mark.parametrize("name", CLUSTER)
def test_pages_of_one_connector_say_what_its_row_says(name):
    status, state, _ = CLUSTER[name]
    described = without_time(description_text(description(status)))
    assert described.splitlines()[0] == f"{name}  sink  {state}  {W}"
    body = html.unescape(render("connector_state.html", {**state_values(status), "own": "/ui/connectors/x"}))
    assert f'<i class="dot"></i>{state}</dd>' in body
    top = seen_on_top().press(*["down"] * list(CLUSTER).index(name), "enter").text
    assert f" {name} {state} sink on {W}" in top
    if state == "FAILED":
        assert all(reason_of(name) in page for page in (described, body, top))
    if name == "idle":
        said = [LASTED.sub("", page) for page in (described, body, top)]
        assert all("no task configs: OSError: gone" in page for page in said)


def description(status: ConnectorStatus) -> dict:
    empty = {"records_per_s": None, "lag": None, "errors": None}
    tasks = [
        {"id": each.id, "state": str(each.state), "worker_id": each.worker_id, **more_of(each), **empty}
        for each in status.tasks
    ]
    own = {"name": status.name, "type": "sink", "state": str(status.connector.state), "worker_id": W}
    return {**own, **more_of(status.connector), **empty, "tasks": tasks, "config": {}, "topics": None} | {
        "offsets": None, "changes": None
    }  # fmt: skip


def test_tables_of_tasks_give_each_the_same_reason():
    rows = {(row["name"], row["task"]): row for row in status_rows(list(STATUSES.values())) if row["task"] is not None}
    tasks_of_top = {(row.connector, row.task): row for row in seen_on_top().press("2").state.rows}
    health = health_document("http://w1:8083", STATUSES, None)
    reported = {(row["name"], row["task"]): row["why"] for key in ("failed", "late") for row in health[key]}
    assert without_time(reported.pop(("idle", None))) == "no task configs: OSError: gone"
    assert health["problems"][1:3] == ["1 connector RUNNING without task configs", "1 task RUNNING without progress"]
    assert sorted(reported) == sorted(WRONG)
    for key, row in rows.items():
        reason = reason_of(key[0]) if key in WRONG else ""
        seen = [why(row), tasks_of_top[key].values["WHY"], reported.get(key, "").removeprefix("stuck ")]
        assert [LASTED.sub("stuck", f" {text}").lstrip() for text in seen] == [reason] * 3


def test_tables_of_tasks_have_the_same_order():
    rows = [row for row in status_rows(list(STATUSES.values())) if row["task"] is not None]
    expected = [(row["name"], row["task"]) for row in sorted(rows, key=lambda row: part_of(row).place)]
    assert [(row.connector, row.task) for row in seen_on_top().press("2").state.rows] == expected
    stream = io.StringIO()
    content = PageContent("w1", 1.0, statuses=list(STATUSES.values()))
    Console(file=stream, width=160).print(page(content, 60))
    shown = [line.split()[:2] for line in stream.getvalue().splitlines()[3:] if re.match(r"\w+ +\d ", line)]
    assert [(name, int(number)) for name, number in shown] == expected
    health = health_text(health_document("http://w1:8083", STATUSES, None)).splitlines()
    places = [health.index(title) for title in ("FAILED", "LATE", "UNASSIGNED")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["held", "spent", "wrong"])
def test_a_webhook_tells_of_restarts_in_the_same_words(name):
    (seen,) = (each for each in STATUSES[name].tasks if each.state is RunState.FAILED)
    assert seen.restarts is not None
    kind = NoticeKind.GIVEN_UP if seen.restarts.state is AutoRestart.GIVEN_UP else NoticeKind.FAILED
    due_ms = 20_000 if seen.restarts.state is AutoRestart.WAITING else None
    no_help = NoHelp.RIGHTS if seen.restarts.state is AutoRestart.NOT_RESTARTED else None
    notice = Notice(kind, TaskId(name, seen.id), W, CAUSE, seen.restarts.count, seen.restarts.most, due_ms, no_help)
    reported = {
        "held": "restart 2 of 5 in 20 s",
        "spent": "given up after 5 restarts",
        "wrong": "not restarted because it is not authorized",
    }[name]
    assert of_notice(notice).message == f"Task {name}-{seen.id} is FAILED on {W}, {reported}: {CAUSE}"
