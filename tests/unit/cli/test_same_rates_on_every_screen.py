"""The same samples of tasks on every screen: one rate, over one window, and one count of records and errors."""

from __future__ import annotations

import io
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from rich.console import Console

from kconnect.admin.cluster.activity import activities_of, task_metrics
from kconnect.admin.cluster.rest_cluster import RestCluster, WorkerKind
from kconnect.admin.console.connector_rows import connector_rows, number_text
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.runtime.metrics import TaskCounters, TaskMeter
from kconnect.runtime.metrics.history import History
from kconnect.runtime.metrics.history_sum import sum_of_overviews, with_moves
from kconnect_cli.admin.cluster_health import health_document
from kconnect_cli.admin.description import description_of
from kconnect_cli.commands.describe import description_text
from kconnect_cli.commands.status import health_text
from kconnect_cli.screen.live_view import PageContent, page
from kit.top_world import Driven, look, worker

BEGIN_MS = 1_700_000_000_000
NOW_S = 30.0
TASKS = {
    TaskId("orders", 0): ("w1:8083", 700),
    TaskId("orders", 1): ("w2:8083", 40),
    TaskId("lines", 0): ("w2:8083", 5),
}
RATES = {"orders": 740.0, "lines": 5.0}


def meter(per_s: int) -> TaskMeter:
    """One that moved so much in each second, a hundred times as much before the last ten; two records failed."""
    found = TaskMeter(run=1, born_s=0.0)
    for second in range(1, int(NOW_S) + 1):
        records = 100 * per_s * min(second, 20) + per_s * max(0, second - 20)
        found.add(float(second), TaskCounters(records_written=records, errors=2))
    return found


def answer_of(worker_id: str) -> dict:
    """What a worker answers to GET /admin/history of its own tasks."""
    meters = {task: meter(per_s) for task, (runs_it, per_s) in TASKS.items() if runs_it == worker_id}
    history = History()
    for second in (10, 20, 30):
        history.sample(float(second), BEGIN_MS + second * 1000, meters, [], {"orders": 56_000})
    moves = {task: each.moves(NOW_S) for task, each in meters.items()}
    return {"worker": worker_id, **with_moves(history.overview(), moves)}


@pytest.fixture(scope="module")
def answers():
    return {worker_id: answer_of(worker_id) for worker_id in ("w1:8083", "w2:8083")}


@pytest.fixture(scope="module")
def body(answers):
    return sum_of_overviews(list(answers.values()))


STATUSES = {
    name: ConnectorStatus(
        name,
        ConnectorState(RunState.RUNNING, "w1:8083"),
        tuple(TaskState(task.task, RunState.RUNNING, at) for task, (at, _) in TASKS.items() if task.connector == name),
        ConnectorType.SOURCE,
    )
    for name in RATES
}


class AskedClient(SimpleNamespace):
    """Answers `connect describe` with these readings."""

    url = "http://w1:8083"
    outage = None

    def history(self, connector=None, *, cluster):
        assert cluster
        return self.body if connector is None else {"tasks": []}

    def connector(self, _name):
        return SimpleNamespace(type=ConnectorType.SOURCE, config={})

    def connector_status(self, name):
        return STATUSES[name]

    def offsets_and_lag(self, _name):
        return [], None

    def topics(self, _name):
        return []


def test_commands_top_the_console_and_the_live_view_show_the_same_rate(answers, body):
    moves = activities_of(body)
    assert {name: each.metrics.rate for name, each in moves.items()} == RATES
    whole = health_document("http://w1:8083", STATUSES, [], activities=moves)
    assert (whole["records_per_s"], whole["lag"]) == (745.0, 56_000)
    assert "745 records/s, 56,000 records behind" in health_text(whole)

    top = Driven(columns=160).take(
        look(*STATUSES.values()), *(worker(each, moves=activities_of(answers[each])) for each in answers)
    )
    rows = {row.id: row.values for row in top.state.rows}
    assert {name: rows[name]["RECORDS/S"] for name in RATES} == RATES
    assert rows["orders"]["LAG"] == 56_000
    assert "745 records/s" in top.text

    console = {row.name: row for row in connector_rows(STATUSES, moves, {})}
    assert {name: console[name].per_s for name in RATES} == {name: number_text(rate) for name, rate in RATES.items()}
    assert {name: int(console[name].errors or 0) for name in RATES} == {name: rows[name]["ERRORS"] for name in RATES}

    live = io.StringIO()
    facts = PageContent(
        "w", 0, list(STATUSES.values()), {task: meter(rate).moves(NOW_S) for task, (_, rate) in TASKS.items()}
    )
    Console(file=live, width=120).print(page(facts, 30))
    seen = {tuple(line.split()[:2]): line.split()[3:6] for line in live.getvalue().splitlines() if "RUNNING" in line}
    metrics = task_metrics(moves)
    for task in TASKS:
        found = metrics[task]
        assert seen[task.connector, str(task.task)] == [f"{found.rate:,.0f}", f"{found.records:,}", str(found.errors)]


def test_a_description_has_what_the_lists_have(body):
    client = AskedClient(body=body)
    session = SimpleNamespace(
        client=client, reader=RestCluster(client, WorkerKind(True)), direct=None,
        url=client.url, on_connector=lambda name, read: read(name),
        given=lambda _kind: None, another_client=lambda: nullcontext(client),
    )  # fmt: skip
    found = description_of(session, "orders", lambda config: config)
    assert (found["records_per_s"], found["lag"]) == (740.0, 56_000)
    assert [task["records_per_s"] for task in found["tasks"]] == [700.0, 40.0]
    assert "740 records/s" in description_text(found)
