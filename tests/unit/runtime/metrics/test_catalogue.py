"""The catalogue and what is made of it: readings, and text that Prometheus reads."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    PartitionLag,
    Restarts,
    RunState,
    SinkLag,
    TaskCondition,
    TaskId,
    TaskState,
)
from kconnect.runtime.metrics import (
    CATALOGUE,
    CLIENTS,
    COORDINATOR,
    NOT_COLLECTED,
    OWN,
    GroupMeter,
    GroupView,
    KafkaView,
    PluginUse,
    Reading,
    SettleMeter,
    Spread,
    StartupCount,
    Startups,
    TaskCounters,
    TaskMeter,
    WorkerView,
    group_readings,
    kafka_readings,
    lag_readings,
    prometheus_text,
    readings_of,
)
from kconnect.runtime.metrics.catalogue import BY_NAME
from kconnect.runtime.metrics.document import metrics_document
from kconnect.runtime.metrics.readings import (
    RestartsView,
    RestView,
    SlotCount,
    WebhookView,
    rest_readings,
    restart_readings,
    webhook_readings,
)
from kit.places import DOCS

# One line of the exposition format, as its grammar says
LINE = re.compile(
    r'^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?P<labels>\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)+\})? (?P<value>\S+)$'
)


def status_of(name: str, kind: ConnectorType, *states: RunState) -> ConnectorStatus:
    tasks = tuple(TaskState(number, state, "w:1", None, "7") for number, state in enumerate(states))
    return ConnectorStatus(name, ConnectorState(RunState.RUNNING, "w:1", None, "1.0"), tasks, kind)


def meter_of(counters: TaskCounters) -> TaskMeter:
    meter = TaskMeter(run=1, born_s=0.0)
    meter.enter(0.0, RunState.RUNNING)
    meter.add(10.0, counters)
    return meter


@pytest.fixture
def view() -> WorkerView:
    return WorkerView(
        now_s=10.0,
        statuses=[
            status_of("in", ConnectorType.SOURCE, RunState.RUNNING),
            status_of('o"ut\\', ConnectorType.SINK, RunState.RUNNING, RunState.FAILED),
        ],
        plugins={
            "in": [
                PluginUse("connector", "a.Source", "1.0"),
                PluginUse("task", "a.SourceTask", "1.0"),
                *(PluginUse(f"{part}-converter", "a.Converter", None) for part in ("key", "value", "header")),
                PluginUse("transform", "a.Hoist", "2", "hoist"),
                PluginUse("predicate", "a.Match", "2", "match"),
            ]
        },
        meters={
            TaskId("in", 0): meter_of(
                TaskCounters(
                    records_polled=500,
                    records_written=400,
                    records_active=100,
                    poll_ms=Spread(2, 10.0, 7.0),
                    transaction_size=Spread(4, 40, 16),
                    transaction_least=3,
                )
            ),
            TaskId('o"ut\\', 0): meter_of(
                TaskCounters(records_read=50, commits=3, commit_failures=1, partitions=4, batches=2)
            ),
        },
        connector_starts=StartupCount(3, 1),
        slots=SlotCount(3, 2, 8),
    )


class CountedText(str):
    """Counts how often it is escaped."""

    __slots__ = ("escaped",)

    def replace(self, *args):
        self.escaped = getattr(self, "escaped", 0) + 1
        return super().replace(*args)


def test_the_labels_of_a_task_are_written_once_for_all_of_its_readings(view):
    """A worker of 5,000 connectors has 300,000 readings: it took 4 s to answer."""
    label = CountedText("in")
    readings = [Reading(reading.metric, (label,), 1) for reading in readings_of(view) if reading.labels == ("in",)]
    assert len(readings) > 5
    text = prometheus_text(readings)
    assert text.count('{connector="in"} 1') == len(readings)
    assert label.escaped == 1


def test_each_condition_of_a_task_is_a_series_that_is_one_or_zero(view):
    view.meters[TaskId("in", 0)].condition = TaskCondition(Condition.NOT_COMMITTING, 1_700_000_000_000, 12, "no space")
    text = prometheus_text(readings_of(view))
    name = "kafka_connect_task_condition_metrics_condition"
    found = re.findall(name + r'\{connector="in",task="0",condition="([^"]+)"\} (\d)', text)
    others = {"stuck": "0", "keeps failing": "0", "retrying": "0", "lagging": "0", "healthy": "0"}
    assert dict(found) == {"not committing": "1", **others}
    assert f'{name}_count{{connector="in",task="0"}} 12' in text
    assert f'{name}_since_timestamp{{connector="in",task="0"}} 1700000000000' in text


def test_a_connector_that_gives_no_task_configs_is_a_series_that_is_one_or_zero(view):
    name = "kafka_connect_connector_condition_metrics_condition"
    found = TaskCondition(Condition.NO_TASK_CONFIGS, 1_700_000_000_000, 3, "gone")
    for known in ({}, {"in": found}):
        text = prometheus_text(readings_of(replace(view, connector_conditions=known)))
        series = dict(re.findall(name + r'\{connector="in",condition="([^"]+)"\} (\d)', text))
        assert series == {"no task configs": "1" if known else "0", "healthy": "0" if known else "1"}
        assert f'{name}_count{{connector="in"}} {3 if known else 0}' in text
        assert (f'{name}_since_timestamp{{connector="in"}} 1700000000000' in text) is bool(known)


def test_a_task_that_has_ended_has_no_condition(view):
    view.meters[TaskId("in", 0)].condition = TaskCondition(Condition.HEALTHY, 0)
    view.meters[TaskId("in", 0)].enter(10.0, RunState.FAILED)
    assert "task_condition" not in prometheus_text(readings_of(view))


class Hands:
    """A clock whose hands the test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def time_ms(self) -> int:
        return int(self.now_s * 1000)

    def wait(self, event, timeout_s: float) -> bool:
        self.now_s += timeout_s
        return event.is_set()


def of_group(clock: Hands, **changes) -> GroupView:
    known = {
        "protocol_version": 2,
        "leader_url": "http://a:8083/",
        "generation": 7,
        "connectors": 1,
        "tasks": 3,
        "meter": GroupMeter("connect-g", clock),
        "settling": SettleMeter(clock),
    }
    return GroupView(**{**known, **changes})


def test_a_worker_that_was_in_no_rebalance_yet_says_so_as_java_does():
    readings = list(group_readings(of_group(Hands(), protocol_version=1, leader_url="", generation=-1)))
    found = {reading.metric.name: reading.value for reading in readings}
    assert (found["connect-protocol"], found["leader-name"], found["epoch"]) == ("COMPATIBLE", "", -1)
    assert found["time-since-last-rebalance-ms"] == float("inf")
    assert found["last-rebalance-seconds-ago"] == found["last-heartbeat-seconds-ago"] == -1
    assert found["completed-rebalances-total"] == found["rebalance-total"] == found["heartbeat-rate"] == 0
    assert str(found["rebalance-avg-time-ms"]) == str(found["heartbeat-response-time-max"]) == "nan"


def test_readings_of_the_group_are_those_of_the_last_minute_and_totals_those_of_ever():
    clock = Hands()
    view = of_group(clock)
    clock.now_s += 30
    for latency_ms in (10, 20, 30):
        view.settling.begin()
        clock.now_s += latency_ms / 1000
        view.settling.end()
        view.meter.rebalances.note(latency_ms)
        view.meter.heartbeats.note(latency_ms / 10)
    clock.now_s += 10
    now = {reading.metric.name: reading.value for reading in group_readings(view)}
    assert (now["rebalance-avg-time-ms"], now["rebalance-max-time-ms"]) == (pytest.approx(20), pytest.approx(30))
    assert (now["rebalance-latency-avg"], now["rebalance-latency-max"]) == (20, 30)
    assert now["heartbeat-response-time-max"] == 3
    assert now["heartbeat-rate"] == pytest.approx(3 / 40, rel=0.01)
    assert now["rebalance-rate-per-hour"] == pytest.approx(3 / 40 * 3600, rel=0.01)
    assert now["time-since-last-rebalance-ms"] == pytest.approx(10_000)
    assert now["last-rebalance-seconds-ago"] == 10
    clock.now_s += 60
    later = {reading.metric.name: reading.value for reading in group_readings(view)}
    assert str(later["rebalance-avg-time-ms"]) == str(later["rebalance-latency-max"]) == "nan"
    assert later["rebalance-rate-per-hour"] == 0
    assert (later["completed-rebalances-total"], later["rebalance-latency-total"], later["heartbeat-total"]) == (
        3,
        60,
        3,
    )
    assert {reading.labels for reading in group_readings(view)} == {(), ("connect-g",)}


def test_a_worker_is_rebalancing_from_its_assignment_until_its_work_is_begun():
    view = of_group(Hands())
    rebalancing = BY_NAME["connect-worker-rebalance-metrics", "rebalancing"]

    def shown():
        return [reading.value for reading in group_readings(view) if reading.metric is rebalancing]

    view.settling.begin()
    assert shown() == [1]
    view.settling.end()
    assert shown() == [0]
    view.settling.end()
    assert view.settling.timings.count == 1


def values(readings, group, name):
    return {reading.labels: reading.value for reading in readings if reading.metric is BY_NAME[group, name]}


def test_no_name_stands_twice_and_reasons_are_for_rows_of_the_catalogue():
    all_of_them = [*CATALOGUE, *COORDINATOR, *CLIENTS, *OWN]
    names = [(metric.group, metric.name) for metric in all_of_them]
    assert len(set(names)) == len(names) == len({metric.prometheus for metric in all_of_them})
    assert set(NOT_COLLECTED) <= set(names)


_GIVEN_UP = Restarts(AutoRestart.GIVEN_UP, 3, 3)


def test_restarts_are_counted_for_the_worker_and_for_each_part():
    view = RestartsView(total=7, waiting=1, given_up=1, not_restarted=0, parts={("in", ""): _GIVEN_UP})
    readings = list(restart_readings(view))
    assert values(readings, "connect-restart-metrics", "automatic-restarts-total") == {(): 7}
    assert values(readings, "part-restart-metrics", "is-given-up") == {("in", ""): 1}
    assert values(readings, "part-restart-metrics", "automatic-restarts") == {("in", ""): 3}


def test_every_metric_is_collected_or_says_why_not(view):
    kafka = kafka_readings(KafkaView(is_available=True, since_answer_s=1.0, outages=0))
    lags = lag_readings({"out": SinkLag((PartitionLag("t", 0, 1, 2, 1),))})
    view.meters[TaskId("in", 0)].condition = TaskCondition(Condition.HEALTHY, 1)
    view = replace(view, connector_conditions={"in": TaskCondition(Condition.NO_TASK_CONFIGS, 1)})
    given_up = RestartsView(total=3, waiting=0, given_up=1, not_restarted=0, parts={("in", "0"): _GIVEN_UP})
    readings = [*readings_of(view), *group_readings(of_group(Hands())), *kafka, *restart_readings(given_up)]
    readings += webhook_readings(WebhookView(delivered=1, failed=0, dropped=0, waiting=0, is_failing=False))
    readings += rest_readings(
        RestView(denied=0, limited=0, has_current_roles=True, audit_written=0, audit_lost=0, is_audit_written=True)
    )
    readings += lags
    collected = {(reading.metric.group, reading.metric.name) for reading in readings}
    assert set(BY_NAME) - collected == set(NOT_COLLECTED)


def test_readings_say_what_the_counters_hold(view):
    readings = list(readings_of(view))
    counted = [values(readings, "connect-worker-slot-metrics", f"slot-count{part}") for part in ("", "-min", "-max")]
    assert counted == [{(): 3}, {(): 2}, {(): 8}]
    assert values(readings, "source-task-metrics", "source-record-poll-rate") == {("in", "0"): 50}
    assert values(readings, "source-task-metrics", "source-record-active-count") == {("in", "0"): 100}
    assert values(readings, "source-task-metrics", "poll-batch-avg-time-ms") == {("in", "0"): 5}
    assert values(readings, "source-task-metrics", "poll-batch-max-time-ms") == {("in", "0"): 7}
    for name, size in (("avg", 10), ("max", 16), ("min", 3)):
        assert values(readings, "source-task-metrics", f"transaction-size-{name}") == {("in", "0"): size}
    assert values(readings, "sink-task-metrics", "partition-count") == {('o"ut\\', "0"): 4}
    failures = values(readings, "connector-task-metrics", "offset-commit-failure-percentage")
    assert failures == {("in", "0"): 0, ('o"ut\\', "0"): 0.25}
    assert values(readings, "connector-task-metrics", "running-ratio")["in", "0"] == 1
    worker = "connect-worker-metrics"
    assert values(readings, worker, "connector-failed-task-count") == {("in",): 0, ('o"ut\\',): 1}
    assert values(readings, worker, "connector-startup-attempts-total") == {(): 4}
    assert values(readings, worker, "connector-startup-success-percentage") == {(): 0.75}
    assert values(readings, "connector-task-metrics", "status") == {
        ("in", "0"): "running",
        ('o"ut\\', "0"): "running",
        ('o"ut\\', "1"): "failed",
    }


def test_what_the_clients_of_tasks_count_of_themselves(view):
    sent = TaskCounters(
        bytes_sent=2000, bytes_received=100, request_ms=Spread(4, 20.0, 9.0), throttle_ms=Spread(1, 3.0, 3.0)
    )
    view.meters[TaskId("in", 0)] = meter_of(sent)
    view.meters[TaskId('o"ut\\', 0)] = meter_of(
        TaskCounters(bytes_received=500, request_ms=Spread(1, 2.0, 2.0), lag_most=7)
    )
    readings = list(readings_of(view))
    source, sink = ("in", "0"), ('o"ut\\', "0")
    for name, value in (
        ("outgoing-byte-total", 2000),
        ("outgoing-byte-rate", 200),
        ("incoming-byte-total", 100),
        ("request-latency-avg", 5),
        ("request-latency-max", 9),
        ("produce-throttle-time-max", 3),
    ):
        assert values(readings, "producer-metrics", name) == {source: value}
    assert values(readings, "consumer-metrics", "incoming-byte-total") == {sink: 500}
    assert values(readings, "consumer-fetch-manager-metrics", "fetch-latency-avg") == {sink: 2}
    view.meters[TaskId('o"ut\\', 0)].add(11.0, TaskCounters(lag_most=2))
    assert values(readings_of(view), "consumer-fetch-manager-metrics", "records-lag-max") == {sink: 7}


def test_the_text_follows_the_grammar_of_prometheus(view):
    text = prometheus_text(readings_of(view))
    assert text.endswith("\n")
    seen: list[str] = []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            seen.append(line.split(" ")[2])
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == seen[-1]
            assert line.split(" ")[3] in ("gauge", "counter")
        else:
            found = LINE.match(line)
            assert found, line
            assert found["name"] == seen[-1], "lines of one metric stand together, below its HELP"
            float(found["value"])
    assert seen == sorted(set(seen))
    assert 'kafka_connect_source_task_metrics_source_record_poll_total{connector="in",task="0"} 500' in text
    assert 'kafka_connect_connector_metrics_status{connector="o\\"ut\\\\",value="running"} 1' in text
    assert "kafka_connect_worker_metrics_connector_startup_failure_total 1" in text
    assert 'put_batch_avg_time_ms{connector="o\\"ut\\\\",task="0"} NaN' in text


def test_no_readings_are_no_text():
    assert prometheus_text(()) == ""
    assert prometheus_text([Reading(BY_NAME["connect-worker-metrics", "task-count"], (), 2)]).splitlines()[-1] == (
        "kafka_connect_worker_metrics_task_count 2"
    )


def test_a_start_counts_once_and_only_when_it_has_ended():
    starts = Startups()
    starts.began("a")
    starts.reached("a", RunState.UNASSIGNED)
    assert starts.count().attempts == 0
    for state in (RunState.RUNNING, RunState.PAUSED, RunState.RUNNING, RunState.FAILED):
        starts.reached("a", state)
    starts.began("b")
    starts.reached("b", RunState.FAILED)
    starts.began("c")
    starts.forget("c")
    starts.reached("c", RunState.RUNNING)
    assert starts.count() == StartupCount(1, 1)


def test_the_list_of_metrics_in_the_docs_is_that_of_the_catalogue():
    committed = DOCS / "metrics.md"
    assert committed.read_text() == metrics_document(), "make it anew: python -m kconnect.runtime.metrics.document"
