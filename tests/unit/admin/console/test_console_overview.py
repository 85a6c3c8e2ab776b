"""The overview: what is wrong first, and only what has changed when it is asked again."""

from __future__ import annotations

import gc
import re
import threading
from contextlib import contextmanager

import pytest

from kconnect.admin.cluster.activity import Activity
from kconnect.admin.cluster.port import Capabilities
from kconnect.admin.console.answers import error_reply
from kconnect.admin.console.cluster import Caller
from kconnect.admin.console.connector_rows import connector_rows, number_text, sparkline
from kconnect.admin.console.openers import UrlClusters
from kconnect.admin.console.shared_view import ClusterView, SharedView
from kconnect.client import ConnectClient
from kconnect.client.http_exchange import Response
from kconnect.client.offset_move import WHICH_TASK_HINT
from kconnect.client.outage import OUTAGE_HEADER, Outage
from kconnect.client.worker_start import WorkerHealth
from kconnect.errors import ConnectError, TimedOutError, UnreachableError
from kconnect.model import (
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TargetState,
    TaskId,
    TaskState,
)
from kconnect.runtime.health.flow_metrics import FlowMetrics
from kconnect.runtime.metrics import TaskMeter
from kit.console_pages import PageCaller
from kit.memory_herder import MemoryHerder, file_source
from kit.waiting import eventually

CALLER = Caller({"headers": []})


def status(name, *tasks, state=RunState.RUNNING):
    made = tuple(
        task if isinstance(task, TaskState) else TaskState(number, task, "w:1") for number, task in enumerate(tasks)
    )
    return ConnectorStatus(name, ConnectorState(state, "w:1"), made, ConnectorType.SINK)


@pytest.fixture
def herder():
    herder = MemoryHerder()
    for name in ("a", "b", "c"):
        herder.put_connector(name, file_source(), replace=True)
    return herder


def names(html):
    return re.findall(r'<a href="/ui/connectors/([^"]+)"', html)


def poll(console, html, query=""):
    target = re.search(r'hx-get="(/ui/rows\?[^"]+)"', html)[1].replace("&amp;", "&")
    return console.fragment(target + query)


def now_due(console):
    console._console._shared.forget()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.44, "0.4"), (3, "3"), (12.6, "13"), (999.6, "1000"), (3400, "3.4k"), (2e6, "2M"), (123456, "123k")],
)
def test_numbers_are_short(value, text):
    assert number_text(value) == text


def test_a_sparkline_is_drawn_only_where_something_moved():
    assert sparkline([0, 0, 0]) == ""
    assert sparkline([5]) == ""
    assert sparkline([0, 0, 0, 4, 4]) == "0.0,15.0 30.0,1.0 60.0,1.0", "a new one has the whole width"
    assert sparkline([0, 0, 0, 0, 4]) == "0.0,15.0 60.0,1.0"
    assert sparkline([0, 10, 5]) == "0.0,15.0 30.0,1.0 60.0,8.0"


def test_rates_lag_and_errors_are_shown_where_a_worker_tells_them():
    moves = Activity(FlowMetrics(1234.0, None, 7, 56000), per_s=(0, 1, 2))
    (row,) = connector_rows({"x": status("x", RunState.RUNNING)}, {"x": moves}, {})
    assert (row.per_s, row.lag, row.errors) == ("1.2k", "56k", "7")
    (row,) = connector_rows({"x": status("x", RunState.RUNNING)}, {}, {})
    assert row.per_s == ""


def test_the_page_has_all_connectors_and_counts_their_states(console, herder):
    herder.traces["c"] = "java.lang.X: broken"
    herder.set_target_state("b", TargetState.PAUSED)
    html = console.page("/ui")
    assert names(html) == ["c", "a", "b"]
    assert "task 0: java.lang.X: broken" in html
    assert re.findall(r"</i>(\w+) <b>(\d)</b>", html) == [("failed", "1"), ("running", "1"), ("paused", "1")]


def test_a_filter_finds_by_name_type_reason_and_state(console, herder):
    herder.traces["c"] = "java.lang.X: broken pipe"
    assert names(console.page("/ui?q=pipe%20broken")) == ["c"]
    assert names(console.page("/ui?state=running")) == ["a", "b"]
    assert names(console.page("/ui?q=B&state=running")) == ["b"]
    assert "No connector matches" in console.page("/ui?q=nothing")


def test_a_poll_answers_nothing_while_nothing_changed(console):
    html = console.page("/ui")
    now_due(console)
    assert poll(console, html).status == 204


def test_a_poll_brings_only_the_rows_that_changed(console, herder):
    herder.traces["a"] = "java.lang.X: one"
    html = console.page("/ui")
    herder.traces["a"] = "java.lang.X: two"
    now_due(console)
    update = poll(console, html).body.decode()
    assert names(update) == ["a"]
    assert 'hx-swap-oob="true"' in update
    assert "java.lang.X: two" in update
    assert poll(console, update).status == 204


def test_a_poll_brings_the_whole_table_when_the_order_changed(console, herder):
    html = console.page("/ui")
    herder.traces["c"] = "java.lang.X: broken"
    now_due(console)
    assert names(poll(console, html).body.decode()) == ["c", "a", "b"]


def test_a_poll_brings_the_whole_table_when_rates_come_and_with_them_columns(console, herder):
    html = console.page("/ui")
    assert "Records/s" not in html
    meter = TaskMeter(run=1, born_s=0.0)
    for second in (0, 10):
        herder.hour.sample(float(second), 1_760_000_400_000 + second * 1000, {TaskId("a", 0): meter}, [])
    (kept,) = console._console._shared._kept.values()
    kept.activities_due_at = 0.0
    now_due(console)
    assert "Records/s" in poll(console, html).body.decode()


def test_readings_of_long_ago_are_not_kept(console, herder):
    html = console.page("/ui")
    for number in range(40):
        herder.traces["a"] = f"java.lang.X: {number}"
        now_due(console)
        html = poll(console, html).body.decode()
    assert sum(isinstance(found, ClusterView) for found in gc.get_objects()) < 30


def test_the_cluster_is_read_once_for_all_who_look_within_two_seconds(console, herder):
    console.page("/ui")
    herder.calls.clear()
    for _ in range(20):
        console.page("/ui")
    assert not [call for call in herder.calls if call[0] == "connectors"]


def test_while_kafka_is_away_the_page_says_since_when(console, herder):
    herder.kafka_away = Outage(1_700_000_000_000, 61.0, "b:9092", "b:9092 refused", 3)
    html = console.page("/ui")
    assert "Kafka has been away since" in html
    assert 'data-ms="1700000000000"' in html
    assert "b:9092 refused" in html


def test_a_table_that_is_sorted_again_brings_the_banners_along(console, herder):
    html = console.page("/ui")
    herder.traces["c"] = "java.lang.X: broken"
    herder.kafka_away = Outage(1_700_000_000_000, 61.0, "b:9092", "b:9092 refused", 3)
    now_due(console)
    update = poll(console, html).body.decode()
    assert names(update) == ["c", "a", "b"]
    assert re.search(r'<div id="banners"[^>]* hx-swap-oob="true">.*Kafka has been away', update, re.DOTALL)
    assert '<div id="state">' in update


def test_while_the_cluster_cannot_be_read_the_page_keeps_what_it_knew(console, herder):
    html = console.page("/ui")
    herder.failures["connectors"] = ConnectError("the herder is gone")
    now_due(console)
    update = poll(console, html).body.decode()
    assert "The cluster has not answered since" in update
    assert "the herder is gone" in update
    assert names(console.page("/ui")) == ["a", "b", "c"]
    del herder.failures["connectors"]
    now_due(console)
    assert "has not answered since <time data-ms" not in console.page("/ui")


def test_a_change_that_fails_says_nothing_of_the_cluster(console, herder):
    console.page("/ui")
    for error, title in (
        (TimedOutError("Request timed out. It may still be done."), "No answer in time"),
        (UnreachableError("Nothing was changed: Kafka is away"), "Nothing was changed"),
    ):
        herder.failures["set_target_state"] = error
        said = console.post("/ui/connectors/a/do/pause", {}, **{"hx-request": "true"}).body.decode()
        assert f"<strong>{title}" in said
        assert said.count("Nothing was changed") <= 1
        assert "has not answered since <time data-ms" not in console.page("/ui"), "its states are read"


def test_a_hint_leads_to_a_page_of_the_console(console, herder):
    herder.failures["set_target_state"] = TimedOutError("Request timed out. Nothing was changed: b says nothing")
    said = console.post("/ui/connectors/a/do/pause", {}, **{"hx-request": "true"}).body.decode()
    assert "Try again when the worker is well: the page Workers shows it." in said
    hint = f"Nothing was changed; it is resumed. {WHICH_TASK_HINT} It was stopped."
    reply = error_reply(TimedOutError("a did not stop", hint=hint), "POST", "/", fragment=True)
    assert reply.values["hint"].endswith("Its page shows which task does not end. It was stopped.")


def test_a_starting_worker_shows_what_it_waits_for_instead_of_hanging(console, herder):
    herder.opened = herder.ready = False
    html = console.page("/ui")
    assert "Worker is still starting up" in html
    herder.opened = herder.ready = True
    now_due(console)
    assert names(console.page("/ui")) == ["a", "b", "c"]


def test_the_theme_is_the_browsers_or_what_the_reader_chose(console):
    assert '<html lang="en">' in console.page("/ui")
    assert '<html lang="en" data-theme="dark">' in console.page("/ui", cookie="kconnect-theme=dark")
    assert '<html lang="en">' in console.page("/ui", cookie='kconnect-theme="><script>')


def test_of_a_thousand_connectors_the_first_screens_come_first_and_the_rest_at_once(console, herder):
    for number in range(997):
        herder.put_connector(f"x-{number:04d}", file_source(), replace=True)
    html = console.page("/ui")
    assert len(names(html)) == 120
    assert "all <b>1000</b>" in html
    assert 'hx-trigger="load, every 2s"' in html
    whole = poll(console, html).body.decode()
    assert len(names(whole)) == 1000
    assert poll(console, whole).status == 204


def test_where_most_rows_changed_the_whole_table_is_sent(console, herder):
    for number in range(70):
        herder.put_connector(f"x-{number:02d}", file_source(), replace=True)
    for name in herder.known:
        herder.traces[name] = "java.lang.X: one"
    html = console.page("/ui")
    for name in herder.known:
        herder.traces[name] = "java.lang.X: two"
    now_due(console)
    update = poll(console, html).body.decode()
    assert 'id="rows"' in update
    assert len(names(update)) == 73


@pytest.mark.parametrize("changes", [0, 3])
def test_a_page_that_is_from_before_a_restart_gets_the_rows_of_now(changes):
    herders = MemoryHerder(), MemoryHerder()
    for herder in herders:
        herder.put_connector("a", file_source(), replace=True)
    before, after = (PageCaller(herder) for herder in herders)
    try:
        html = before.page("/ui")
        for number in range(changes):
            herders[0].set_target_state("a", TargetState.STARTED if number % 2 else TargetState.PAUSED)
            now_due(before)
            html = before.page("/ui")
        herders[1].traces["a"] = "java.lang.X: broken"
        after.page("/ui")
        update = poll(after, html).body.decode()
        assert names(update) == ["a"]
        assert "java.lang.X: broken" in update
        assert poll(after, update).status == 204
    finally:
        before.close()
        after.close()


def test_an_outage_that_is_over_is_not_reported_by_a_client_that_was_kept_since():
    away = Outage(1_700_000_000_000, 61.0, "b:9092", "b:9092 refused", 3)
    reported = {OUTAGE_HEADER: away.to_header()}

    class Worker:
        def send(self, request):
            return Response(200, b'{"version": "4.3.0"}', dict(reported))

        def close(self):
            pass

    clusters = UrlClusters("w", lambda: ConnectClient(transport=Worker()))
    with clusters.open(CALLER) as cluster:
        cluster.server_info()
        assert cluster.outage == away
    with clusters.open(CALLER) as cluster:
        assert cluster.outage is None
        cluster.server_info()
        assert cluster.outage == away
        reported.clear()
        cluster.server_info()
        assert cluster.outage is None
    clusters.close()


class HangingClusters:
    """A cluster whose readings take as long as `asked` says, by the clock of the test."""

    def __init__(self):
        self.now_s = 1000.0
        self.asked = lambda: None
        self.says = lambda: WorkerHealth()
        self.readings = 0

    @contextmanager
    def open(self, caller):
        yield self

    place, outage = "w", None

    def health(self):
        return self.says()

    def capabilities(self):
        return Capabilities()

    def activities(self, statuses):
        return None

    def connector_infos(self):
        return {}

    def connector_statuses(self):
        self.readings += 1
        self.asked()
        return {"a": status("a", RunState.RUNNING)}


@pytest.fixture
def hanging():
    return HangingClusters()


@pytest.fixture
def shared(hanging):
    return SharedView(hanging, lambda: hanging.now_s)


def test_a_cluster_that_has_not_answered_in_time_is_asked_again_within_seconds(hanging, shared):
    shared.get(CALLER)
    hanging.now_s += 3

    def late():
        hanging.now_s += 95
        raise TimedOutError("w did not answer within 95 s")

    hanging.asked = late
    assert shared.get(CALLER).problem == "w did not answer within 95 s"
    hanging.asked = lambda: None
    hanging.now_s += 3
    assert shared.get(CALLER).problem is None


def test_a_worker_that_says_nothing_of_its_health_is_unhealthy_and_no_reading_waits_for_it(hanging, shared):
    assert shared.get(CALLER).unhealthy is None
    answer = threading.Event()

    def late():
        assert answer.wait(30)
        return WorkerHealth(problem="w did not answer GET /health within 4 s")

    hanging.says = late
    hanging.now_s += 11
    assert shared.get(CALLER).unhealthy is None
    answer.set()
    eventually(lambda: shared.get(CALLER).unhealthy == "w did not answer GET /health within 4 s", 30)
    assert shared.get(CALLER).problem is None
    hanging.says = lambda: WorkerHealth()
    hanging.now_s += 11
    eventually(lambda: shared.get(CALLER).unhealthy is None, 30)


def test_what_a_healthy_worker_has_to_say_is_a_banner(console, herder):
    herder.reported = ["The file audit.log cannot be written"]
    assert '<p class="banner">The file audit.log cannot be written.</p>' in console.page("/ui/")


def test_notices_are_asked_for_again(hanging, shared):
    hanging.says = lambda: WorkerHealth(notices=("The disk is full",))
    assert shared.get(CALLER).notices == ("The disk is full",)
    hanging.says = lambda: WorkerHealth()
    hanging.now_s += 11
    eventually(lambda: shared.get(CALLER).notices == (), 30)


def test_who_waits_for_the_first_reading_gets_its_failure_and_does_not_wait_once_more(hanging, shared):
    def late():
        hanging.now_s += 15
        raise TimedOutError("w did not answer within 15 s", hint="Look at its log.")

    hanging.asked = late
    for _ in range(3):
        with pytest.raises(TimedOutError, match="w did not answer") as reported:
            shared.get(CALLER)
        assert reported.value.hint == "Look at its log."
    assert hanging.readings == 1
    hanging.now_s += 3
    hanging.asked = lambda: None
    assert shared.get(CALLER).rows


def test_what_a_page_has_found_out_its_banner_does_not_ask_again(hanging, shared):
    rows = shared.get(CALLER).rows
    hanging.now_s += 3
    shared.note_failure(CALLER, TimedOutError("w did not answer within 15 s"))
    reported = shared.get(CALLER)
    assert (reported.problem, reported.rows, hanging.readings) == ("w did not answer within 15 s", rows, 1)
    hanging.now_s += 3
    assert shared.get(CALLER).problem is None


def test_a_reading_that_once_took_long_does_not_keep_the_next_one_away_for_minutes(hanging, shared):
    shared.get(CALLER)
    hanging.now_s += 3

    def slow():
        hanging.now_s += 20

    hanging.asked = slow
    shared.get(CALLER)
    hanging.asked = lambda: None
    hanging.now_s += 61
    shared.get(CALLER)
    assert hanging.readings == 3


def test_who_comes_while_a_reading_hangs_is_reported_that_the_rows_are_from_before(hanging, shared):
    first = shared.get(CALLER)
    hanging.now_s += 3
    asked, go_on = threading.Event(), threading.Event()

    def hang():
        asked.set()
        go_on.wait(30)

    hanging.asked = hang
    reader = threading.Thread(target=shared.get, args=[CALLER])
    reader.start()
    try:
        assert asked.wait(30)
        assert shared.get(CALLER) is first
        hanging.now_s += 6
        reported = shared.get(CALLER)
        assert (reported.problem, reported.rows) == ("It is still being asked.", first.rows)
        assert shared.get(CALLER).version == reported.version
    finally:
        go_on.set()
        reader.join(30)
    after = shared.get(CALLER)
    assert after.problem is None
    assert after.version > reported.version


def test_what_is_changed_during_a_reading_is_read_once_more(hanging, shared):
    hanging.asked = shared.forget
    shared.get(CALLER)
    hanging.asked = lambda: None
    shared.get(CALLER)
    assert hanging.readings == 2
