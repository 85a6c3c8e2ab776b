"""Pages for who operates: workers, an hour as plots, plugins, loggers, the log; as values, and over a real console."""

from __future__ import annotations

import logging
import re

import pytest

from kconnect.admin.console.html import render
from kconnect.admin.console.pages.connector import plots_of
from kconnect.admin.console.pages.workers import HOUR_MS, LINE_WIDTH, rounds, spreads, worker_rows, workers_of_statuses
from kconnect.client import ConnectClient
from kconnect.logs.log_tail import MOST_LINES
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.runtime.herder.interface import RuntimeInfo, SlotInfo
from kconnect.runtime.metrics import TaskMeter
from kit.memory_herder import MemoryHerder, file_source

NASTY = "<script>alert(1)</script>\"'&"


def status(name, *workers):
    tasks = tuple(TaskState(number, RunState.RUNNING, worker) for number, worker in enumerate(workers))
    return ConnectorStatus(name, ConnectorState(RunState.RUNNING, workers[0]), tasks, ConnectorType.SINK)


def worker(name, tasks=(), **more):
    given = {"connectors": [], "tasks": list(tasks), "slots": [], "rebalances": []}
    return {"worker": name, "answers": True, "is_leader": False, "spark": None, **given, **more}


def rebalance(generation, ended_ms, **more):
    counts = dict.fromkeys(("connectors_added", "connectors_revoked", "tasks_added", "tasks_revoked", "delay_ms"), 0)
    base = {"generation": generation, "began_ms": ended_ms - 500, "ended_ms": ended_ms, "why": "unknown",
            "is_leader": False, "leader_url": "http://a:1"}  # fmt: skip
    return {**base, **counts, **more}


@pytest.fixture
def herder():
    herder = MemoryHerder()
    herder.put_connector(NASTY, file_source(), replace=True)
    return herder


def test_each_worker_has_its_share_of_the_busiest_ones_tasks():
    rows = worker_rows([worker("a:1", ["x-0", "x-1"], is_leader=True), worker("b:2", ["x-2"])], {})
    assert [(row.worker, row.role, row.tasks, row.share) for row in rows] == [
        ("a:1", "leader", 2, 100),
        ("b:2", "", 1, 50),
    ]


def test_of_a_worker_that_does_not_answer_slots_are_unknown_and_tasks_the_last_known():
    rows = worker_rows([worker("a:1", ["x-0"]), worker("b:2", ["x-1", "x-2", "x-3"], answers=False)], {})
    values = {"workers": rows, "is_ours": True, "spreads": [], "rounds": []}
    cells = re.findall(r'<td class="number">(.*?)</td>', render("workers_body.html", values))
    assert cells[:3] == ["0", "1", "0"]
    assert cells[3:6] == [
        "0",
        '3<small class="block">last known</small>',
        '<span class="muted">unknown</span>',
    ]


def test_spark_is_not_starting_where_slots_run():
    """A worker under load may answer one question in time, and not the other."""
    slot = SlotInfo(0, True, "node", 42, ()).to_json()
    rows = worker_rows([worker("a:1"), worker("b:2", slots=[slot])], {})
    html = render("workers_body.html", {"workers": rows, "is_ours": True, "spreads": [], "rounds": []})
    assert re.findall(r'<td><span class="muted">(\w+)</span></td></tr>', html)[:2] == ["starting", "unknown"]


def test_a_worker_whose_slots_follow_the_load_says_between_which_numbers():
    slots = [
        SlotInfo(0, True, "node", 42, (), shared_least=2, shared_most=8).to_json(),
        SlotInfo(3, True, "node", 43, (), connector="hog").to_json(),
    ]
    spark = {"version": "4.1.0", "application_id": "app", "executors": [], "ui_url": None, "master": "local[2]"}
    rows = worker_rows([{**worker("a:1", slots=slots), "spark": spark}], {})
    html = render("workers_body.html", {"workers": rows, "is_ours": True, "spreads": [], "rounds": []})
    assert "Slots that connectors share follow the load: kconnect.slots=2..8." in html
    fixed = SlotInfo(0, True, "node", 42, (), shared_least=2, shared_most=2).to_json()
    rows = worker_rows([{**worker("a:1", slots=[fixed]), "spark": spark}], {})
    html = render("workers_body.html", {"workers": rows, "is_ours": True, "spreads": [], "rounds": []})
    assert "follow the load" not in html


def test_the_driver_has_a_row_with_its_queries():
    driver = SlotInfo(None, True, "node", 41, (TaskId("lake", 0),), executor="driver")
    one = {**worker("a:1", ["lake-0"]), "slots": [SlotInfo(0, True, "node", 42, ()).to_json(), driver.to_json()]}
    (row,) = worker_rows([one], {})
    assert [(slot.slot, slot.place, slot.tasks) for slot in row.slots] == [
        (0, "node, process 42", ()),
        ("driver", "node, process 41", (("lake", 0),)),
    ]


def test_workers_without_slots_are_those_that_statuses_name():
    found = workers_of_statuses([status("x", "b:2", "a:1"), status("y", "a:1")])
    assert [(each["worker"], each["connectors"], each["tasks"]) for each in found] == [
        ("a:1", ["y"], ["x-1", "y-0"]),
        ("b:2", ["x"], ["x-0"]),
    ]


def test_uneven_connectors_come_first():
    found = spreads([status("even", "a", "b"), status("skewed", "a", "a", "a"), status("single", "a")], ["a", "b"])
    assert [(each.connector, each.counts, each.is_uneven) for each in found] == [
        ("skewed", (3, 0), True),
        ("even", (1, 1), False),
    ]


def test_a_rebalance_is_one_whoever_saw_it_with_the_reason_of_its_leader():
    now_ms = 10 * HOUR_MS
    seen = rebalance(4, now_ms - HOUR_MS // 2, tasks_added=2)
    lead = rebalance(4, now_ms - HOUR_MS // 2 + 100, tasks_revoked=1, is_leader=True, why="worker c:3 left")
    old = rebalance(3, now_ms - 2 * HOUR_MS)
    newest, oldest = rounds([worker("b:2", rebalances=[old, seen]), worker("a:1", rebalances=[lead])], now_ms)
    assert (newest.generation, newest.why, newest.moved) == (4, "worker c:3 left", "2 assigned, 1 task taken back")
    assert newest.at == pytest.approx(LINE_WIDTH / 2, abs=1)
    assert (oldest.generation, oldest.at) == (3, None)


def test_an_hour_is_plotted_where_there_was_anything():
    values = {
        "records_in_per_s": [None, 2.0],
        "records_out_per_s": [None, 1.0],
        "lag": [0.0, 0.0],
        "errors": [0.0, 3.0],
    }
    found = plots_of({"tasks": [{"series": values}, {"series": values}]})
    assert [plot.title for plot in found] == ["Records", "Errors"]
    assert found[0].lines[0].values == (None, 4.0)
    assert (found[1].lines[0].now, found[1].lines[0].mean, found[1].lines[0].most) == ("6", "3", "6")


def test_workers_show_slots_tasks_and_spark_with_nothing_unescaped(console, herder):
    herder.rebalances = list
    herder.slots = lambda: [
        SlotInfo(0, True, "node", 42, (TaskId(NASTY, 0),), "kconnect-slot-0", "1", 1.0, 12.4, 10**8),
        SlotInfo(1, True, "node", 43, (), memory_bytes=10**8, connector="hog", memory_limit_bytes=5 * 10**8),
    ]
    herder.spark = RuntimeInfo("local[2]", "4.1.0", "app-1", "http://node:4040")
    html = console.page("/ui/workers")
    assert "<script>alert" not in html
    assert "executor 1 on node, process 42" in html
    assert 'href="http://node:4040"' in html
    assert "12 %" in html
    assert '<a class="tag" href="/ui/connectors/hog">hog alone</a>' in html
    assert "100 MB of 500 MB" in html


def test_an_hour_of_a_connector_comes_with_its_metrics(console, herder):
    meter = TaskMeter(run=1, born_s=0.0)
    for second in (0, 10):
        herder.hour.sample(float(second), 1_760_000_400_000 + second * 1000, {TaskId(NASTY, 0): meter}, [])
    target = re.search(r'hx-get="(/ui/connectors/[^"]+/activity)"', console.page(connector_path()))[1]
    html = console.fragment(target).body.decode()
    assert "<script>alert" not in html
    assert "&#34;times&#34;:[" in html
    assert "Records, in" in html


def connector_path():
    from kconnect.client.exchange import segment

    return f"/ui/connectors/{segment(NASTY)}"


def test_a_connector_whose_tasks_have_not_run_has_no_plots_and_a_reason(console):
    assert "No task has run within the last hour" in console.fragment(f"{connector_path()}/activity").body.decode()


def test_plugins_are_listed_by_type_and_each_has_its_settings(console):
    html = console.page("/ui/plugins?type=source")
    assert "kconnect.FileStreamSource" in html
    assert "StringConverter" not in html
    shown = console.page("/ui/plugins/FileStreamSource")
    assert "Lines at once." in shown
    assert "required" in shown


def test_a_level_is_set_by_a_form_and_only_to_a_known_one(console, herder):
    found = console.post("/ui/loggers", {"logger": "kconnect.spark", "level": "DEBUG", "scope": "cluster", "q": ""})
    assert found.status == 303
    assert ("set_logger", "kconnect.spark", 10, True) in herder.calls
    assert console.post("/ui/loggers", {"logger": "x", "level": "LOUD"}).status == 400
    assert console.post("/ui/loggers", {"logger": " ", "level": "DEBUG"}).status == 400


def test_the_log_goes_on_behind_what_is_shown(console, herder):
    logger = logging.Logger("kconnect.test")
    logger.addHandler(herder.tail.handler)
    logger.error("first %s", NASTY)
    html = console.page("/ui/log")
    assert "first &lt;script&gt;" in html
    logger.error("second")
    target = re.search(r'hx-get="(/ui/log/more[^"]+)"', html)[1].replace("&amp;", "&")
    more = console.fragment(target).body.decode()
    assert "second" in more
    assert "first" not in more


def test_the_log_says_where_lines_are_missing(console, herder):
    logger = logging.Logger("kconnect.test")
    logger.addHandler(herder.tail.handler)
    logger.error("first")
    target = re.search(r'hx-get="(/ui/log/more[^"]+)"', console.page("/ui/log"))[1].replace("&amp;", "&")
    logger.error("second")
    more = console.fragment(target).body.decode()
    assert "Lines are missing here" not in more
    for number in range(MOST_LINES + 2):
        logger.error("line %d", number)
    assert "Lines are missing here" in console.fragment(target).body.decode()


def test_the_log_says_whose_lines_are_not_among_them(console, herder, monkeypatch):
    asked = ConnectClient.logs
    monkeypatch.setattr(ConnectClient, "logs", lambda *args, **query: {**asked(*args, **query), "silent": ["b:1"]})
    page = console.page("/ui/log")
    assert "No lines from b:1" in page
    target = re.search(r'hx-get="(/ui/log/more[^"]+)"', page)[1].replace("&amp;", "&")
    assert "No lines from b:1" in console.fragment(target).body.decode()


def test_where_no_worker_reads_the_topics_the_doctor_says_what_is_needed(console):
    assert "connect ui --direct --worker" in console.page("/ui/doctor")
    assert console.post("/ui/doctor/repair", {"id": "x", "fingerprint": "y"}).status == 400
