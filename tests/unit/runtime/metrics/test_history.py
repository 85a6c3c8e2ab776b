"""The last hour of a worker's tasks: samples of counters as rates, gaps, bounds, memory."""

from itertools import pairwise

import pytest

from kconnect.admin.console.pages.connector import plots_of
from kconnect.model import RunState, TaskId
from kconnect.runtime.metrics import PluginValue, Spread, TaskCounters, TaskMeter
from kconnect.runtime.metrics.history import EVERY_S, KEPT, MOST_TASKS, History, SlotLoad

# A multiple of a minute, as the lines of the overview begin with one
BEGIN_S = 1_760_000_400
A, B = TaskId("orders", 0), TaskId("orders", 1)


class Hour:
    """A history, and the counters of tasks as they grow."""

    def __init__(self):
        self.history = History()
        self.at = 0
        self.meters = {}
        self.slots = []
        self.lags = {}

    def start(self, task_id, **state):
        self.meters[task_id] = TaskMeter(run=1, born_s=float(self.at), **state)
        self.count(task_id)

    def count(self, task_id, **grown):
        meter = self.meters[task_id]
        counters = meter.latest.snapshot()
        for name, value in grown.items():
            if isinstance(value, Spread):
                getattr(counters, name).add(value.count, value.total, value.most)
            else:
                setattr(counters, name, getattr(counters, name) + value)
        meter.add(self.at - 1, counters)

    def tick(self, seconds=EVERY_S):
        self.at += seconds
        now_ms = (BEGIN_S + self.at) * 1000
        self.history.sample(float(self.at), now_ms, self.meters, self.slots, self.lags, now_ms - 7_000)

    def series(self, task_id, name, last):
        found = next(
            task
            for task in self.history.of(task_id.connector)["tasks"]
            if (task["connector"], task["task"]) == (task_id.connector, task_id.task)
        )
        return found["series"][name][-last:]


@pytest.fixture
def hour():
    return Hour()


def test_counters_become_rates_errors_and_latencies_of_each_ten_seconds(hour):
    hour.start(A)
    hour.tick()
    for records in (1_000, 500):
        hour.at += 5
        hour.count(A, records_read=records, records_put=records, errors=2, put_ms=Spread(4, 100.0, 60.0), lag_most=70)
        hour.tick(5)
    hour.tick()
    assert hour.series(A, "records_in_per_s", 4) == [0, 100, 50, 0]
    assert hour.series(A, "errors", 4) == [0, 2, 2, 0]
    assert hour.series(A, "put_ms", 4) == [None, 25, 25, None]
    assert hour.series(A, "put_max_ms", 3) == [60, 60, None]
    assert hour.series(A, "lag", 4) == [
        0,
        pytest.approx(70, rel=1e-2),
        pytest.approx(140, rel=1e-2),
        pytest.approx(140, rel=1e-2),
    ]


def test_a_task_that_starts_again_counts_as_a_restart_and_from_zero(hour):
    hour.start(A)
    hour.count(A, records_polled=1_000)
    hour.tick()
    hour.start(A, state=RunState.FAILED)
    hour.count(A, records_polled=30)
    hour.tick()
    hour.tick()
    assert hour.series(A, "restarts", 3) == [0, 1, 0]
    assert hour.series(A, "records_in_per_s", 3) == [0, 3, 0]
    assert hour.series(A, "failed", 3) == [0, 1, 1]


def test_where_a_task_or_the_worker_was_not_there_is_a_gap(hour):
    hour.start(A)
    hour.tick()
    hour.tick(3 * EVERY_S)
    meters, hour.meters = hour.meters, {}
    hour.tick()
    hour.meters = meters
    hour.tick()
    assert hour.series(A, "records_in_per_s", 7) == [None, 0, None, None, 0, None, 0]
    times = hour.history.of("orders")["times"]
    assert times[-1] == (BEGIN_S + hour.at) * 1000
    assert {later - earlier for earlier, later in pairwise(times)} == {EVERY_S * 1000}


def test_an_hour_is_kept_and_a_task_that_left_goes_with_its_last_sample(hour):
    hour.start(A)
    hour.tick()
    hour.meters = {}
    for _ in range(KEPT - 1):
        hour.tick()
    assert len(hour.history.of("orders")["tasks"]) == 1
    hour.tick()
    assert hour.history.of("orders")["tasks"] == []


def test_a_clock_that_was_put_back_adds_no_sample(hour):
    hour.start(A)
    hour.tick()
    before = hour.history.of("orders")
    hour.tick(-5 * EVERY_S)
    assert hour.history.of("orders") == before


def test_the_overview_adds_up_the_tasks_of_a_connector_a_value_a_minute(hour):
    hour.start(A)
    hour.start(B)
    hour.tick()
    for _ in range(12):
        hour.count(A, records_put=100, errors=1)
        hour.count(B, records_put=300, lag_most=5)
        hour.tick()
    line = hour.history.overview()["connectors"]["orders"]
    assert line["records_per_s"][-1] == pytest.approx(40, rel=1e-2)
    assert line["errors"] == 12
    assert line["lag"] is None, "it is a matter of committed offsets, not of what a task has fetched"
    assert len(hour.history.overview()["times"]) == len(line["records_per_s"])


def test_the_overview_has_the_lag_of_sinks_whose_tasks_failed_too(hour):
    hour.start(A)
    hour.lags = {"orders": 8_211, "failed": 70}
    hour.tick()
    found = hour.history.overview()["connectors"]
    assert {name: line["lag"] for name, line in found.items()} == hour.lags
    assert {line["lag_at_ms"] for line in found.values()} == {(BEGIN_S + hour.at) * 1000 - 7_000}, "when that was known"
    hour.lags = {}
    hour.tick()
    assert hour.history.overview()["connectors"]["orders"]["lag"] is None


def test_slots_have_their_load(hour):
    hour.slots = [SlotLoad(0, 12.5, 200 * 2**20, 3), SlotLoad(1, None, None, 0)]
    hour.tick()
    first, second = hour.history.of()["slots"]
    assert first["series"]["cpu_percent"][-1] == pytest.approx(12.5, rel=1e-2)
    assert first["series"]["memory_bytes"][-1] == pytest.approx(200 * 2**20, rel=1e-2)
    assert second["series"]["cpu_percent"][-1] == 0


def test_a_thousand_busy_connectors_take_less_than_ten_megabytes(hour):
    names = [TaskId(f"connector-{number}", 0) for number in range(1_000)]
    for task_id in names:
        hour.start(task_id)
    hour.tick()
    spread = Spread(3, 9.0, 5.0)
    for task_id in names:
        hour.count(
            task_id, records_read=9, records_put=9, bytes_sent=9, errors=1, retries=1, lag_most=1, records_active=1,
            put_ms=spread, commit_ms=spread,
        )  # fmt: skip
    hour.tick()
    assert 5_000_000 < hour.history.bytes_held() < 10_000_000


def test_tasks_beyond_the_bound_are_counted_and_not_kept(hour):
    for number in range(MOST_TASKS + 2):
        hour.start(TaskId("many", number))
    hour.tick()
    found = hour.history.of("many")
    assert (len(found["tasks"]), found["left_out"]) == (MOST_TASKS, 2)


@pytest.mark.parametrize("value", [0, 1, 2, 3, 10, 999, 12_345_678, 10**15])
def test_values_keep_three_digits(hour, value):
    hour.start(A)
    hour.count(A, lag_most=value)
    hour.tick()
    assert hour.series(A, "lag", 1) == [pytest.approx(value, rel=5e-3)]


def test_counters_of_nothing_are_nothing(hour):
    assert hour.history.of("orders") == {"every_ms": 10_000, "times": [], "tasks": [], "slots": [], "left_out": 0}
    assert hour.history.overview()["connectors"] == {}
    assert TaskCounters() == TaskCounters()


def mbean(name, value, **labels):
    return PluginValue(name, "", (("connector", "orders"), ("task", "0"), *labels.items()), value, "mbeans")


def test_mbeans_have_series_of_their_own_their_exact_value_and_gaps_before_they_were_there(hour):
    hour.start(A)
    hour.tick()
    for behind in (1_234_567, 0):
        plugins = (mbean("behind", behind, context="streaming"), mbean("never", 0), PluginValue("own", "", (), 5))
        hour.meters[A].add(hour.at, TaskCounters(plugins=plugins))
        hour.tick()
    (task,) = hour.history.of("orders")["tasks"]
    behind, never = task["mbeans"]
    assert (behind["name"], behind["labels"], behind["value"]) == ("behind", {"context": "streaming"}, 0)
    assert behind["series"][-3:] == [None, pytest.approx(1_234_567, rel=1e-2), 0]
    assert (never["name"], never["value"], set(never["series"])) == ("never", 0, {None})
    (plot,) = [plot for plot in plots_of(hour.history.of("orders")) if plot.title == "behind"]
    assert [line.label for line in plot.lines] == ["0, streaming"]
    hour.meters = {}
    hour.tick()
    (task,) = hour.history.of("orders")["tasks"]
    assert [each["value"] for each in task["mbeans"]] == [None, None], "the task is not here any more"
