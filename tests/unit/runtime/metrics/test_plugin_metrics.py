"""Metrics that plugins keep of themselves: names, sensors, and their way to the text for Prometheus."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kconnect.api import ConnectPlugin, Monitorable, PluginMetrics, Stat
from kconnect.builtin.transforms.filter import Filter
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, TaskId, TaskState
from kconnect.runtime.metrics import (
    PluginMetricsRegistry,
    PluginValue,
    TaskCounters,
    TaskMeter,
    WorkerView,
    prometheus_text,
)
from kconnect.runtime.metrics.readings import readings_of
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.testing import ManualClock


def values(registry: PluginMetricsRegistry) -> dict[str, float | int | str]:
    return {value.name: value.value for value in registry.values()}


def test_a_gauge_is_read_each_time_and_removed_by_its_name() -> None:
    registry = PluginMetricsRegistry()
    metrics = registry.of_plugin(connector="c", task="0")
    queue = [1, 2]
    name = metrics.metric_name("queue-size", "How much waits.", {"queue": "a"})
    metrics.add_metric(name, lambda: len(queue))
    assert registry.values() == (
        PluginValue("queue-size", "How much waits.", (("connector", "c"), ("task", "0"), ("queue", "a")), 2),
    )
    queue.clear()
    assert values(registry) == {"queue-size": 0}
    metrics.remove_metric(name)
    assert registry.values() == ()
    with pytest.raises(ValueError, match="Unknown metric queue-size"):
        metrics.remove_metric(name)


def test_nothing_is_there_twice_and_tags_of_the_plugin_are_taken() -> None:
    registry = PluginMetricsRegistry()
    metrics, other = registry.of_plugin(connector="c"), registry.of_plugin(connector="d")
    metrics.add_metric(metrics.metric_name("n", ""), lambda: 1)
    other.add_metric(other.metric_name("n", ""), lambda: 1)
    with pytest.raises(ValueError, match="Metric n with these tags already exists"):
        metrics.add_metric(metrics.metric_name("n", ""), lambda: 2)
    with pytest.raises(ValueError, match="Cannot use connector as a tag name"):
        metrics.metric_name("m", "", {"connector": "x"})
    metrics.add_sensor("s")
    other.add_sensor("s")
    with pytest.raises(ValueError, match="Sensor s already exists"):
        metrics.add_sensor("s")
    with pytest.raises(ValueError, match="Unknown sensor t"):
        metrics.remove_sensor("t")


def test_a_sensor_computes_over_the_last_minute_and_since_the_beginning() -> None:
    clock = ManualClock()
    registry = PluginMetricsRegistry(clock.monotonic)
    metrics = registry.of_plugin()
    sensor = metrics.add_sensor("calls")
    for stat in Stat:
        sensor.add(metrics.metric_name(stat.value, ""), stat)
    before = values(registry)
    assert (before["count"], before["total"], before["rate"]) == (0, 0, 0)
    assert all(math.isnan(float(before[name])) for name in ("avg", "max", "min", "value"))
    sensor.record(100)
    clock.advance(30)
    sensor.record(2)
    sensor.record(4)
    assert values(registry)["rate"] == pytest.approx(106 / 30)
    clock.advance(40)
    assert values(registry) == {
        "value": 4, "count": 3, "total": 106, "avg": 3, "max": 4, "min": 2, "rate": pytest.approx(0.1),
    }  # fmt: skip
    metrics.remove_sensor("calls")
    assert registry.values() == ()


def test_a_metric_that_fails_is_left_out_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    registry = PluginMetricsRegistry()
    metrics = registry.of_plugin()
    metrics.add_metric(metrics.metric_name("bad", ""), lambda: 1 // 0)
    metrics.add_metric(metrics.metric_name("odd", ""), lambda: None)  # type: ignore[arg-type,return-value]
    metrics.add_metric(metrics.metric_name("good", ""), lambda: True)
    assert (values(registry), values(registry)) == ({"good": 1}, {"good": 1})
    assert caplog.messages == [
        "Metric bad of a plugin is not shown: ZeroDivisionError: integer division or modulo by zero",
        "Metric odd of a plugin is not shown: TypeError: its value is of type NoneType, not a number or a text",
    ]


@pytest.mark.parametrize("value", [1, 2.5, "word", math.inf, -math.inf])
def test_values_travel_with_the_counters_of_their_task(value: Any) -> None:
    counters = TaskCounters(plugins=(PluginValue("n", "text", (("connector", "c"),), value),))
    assert TaskCounters.from_json(counters.to_json()) == counters
    assert "plugins" not in TaskCounters().to_json()


@pytest.mark.parametrize("body", [[["n"]], [["n", "t", [], None]], [["n", "t", [["a"]], 1]]])
def test_what_is_no_value_is_refused(body: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        TaskCounters.from_json({"plugins": body})


class Counting(Monitorable):
    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        metrics.add_metric(metrics.metric_name("seen.records", "Records seen."), lambda: 7)


def test_metrics_of_plugins_are_shown_with_javas_tags() -> None:
    monitor = PluginMonitor(TaskId("orders", 0))
    for tags in ({"transformation": "mask"}, {"predicate": "p"}, {"converter": "key"}):
        monitor.attach(Counting(), **tags)
    monitor.attach(object(), transformation="not monitorable")
    monitor.attach_to_client(Counting(), "connector-producer-orders-0", "interceptor.classes")
    of_connector = PluginMetricsRegistry()
    group = of_connector.of_plugin(connector="orders")
    group.add_metric(group.metric_name("tables", "Tables found."), lambda: "many")
    meter = TaskMeter(1, 0.0)
    meter.add(1.0, TaskCounters(plugins=monitor.registry.values()))
    status = ConnectorStatus(
        name="orders",
        type=ConnectorType.SOURCE,
        connector=ConnectorState("RUNNING", "w", None),
        tasks=(TaskState(0, "RUNNING", "w", None),),
    )
    view = WorkerView(
        now_s=1.0,
        statuses=[status],
        plugins={},
        meters={TaskId("orders", 0): meter},
        connector_plugins=of_connector.values(),
    )
    lines = [line for line in prometheus_text(readings_of(view)).splitlines() if "plugins" in line]
    assert lines == [
        "# HELP kafka_connect_plugins_seen_records Records seen.",
        "# TYPE kafka_connect_plugins_seen_records gauge",
        'kafka_connect_plugins_seen_records{client_id="connector-producer-orders-0",config="interceptor.classes",'
        'class="Counting"} 7',
        'kafka_connect_plugins_seen_records{connector="orders",task="0",converter="key"} 7',
        'kafka_connect_plugins_seen_records{connector="orders",task="0",predicate="p"} 7',
        'kafka_connect_plugins_seen_records{connector="orders",task="0",transformation="mask"} 7',
        "# HELP kafka_connect_plugins_tables Tables found.",
        "# TYPE kafka_connect_plugins_tables gauge",
        'kafka_connect_plugins_tables{connector="orders",value="many"} 1',
    ]


def test_our_plugins_are_connect_plugins() -> None:
    assert isinstance(Filter(), ConnectPlugin)
    assert not isinstance(object(), ConnectPlugin)
