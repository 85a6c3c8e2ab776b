"""Tasks of a real worker that do not get on: REST, commands, metrics and the log say so, and that it is over.

One that raises fails alone, one that never returns is left behind. Other calls that fail or hang, of sources and of
sinks: integration/runtime/pipeline/test_task_conditions.py; on every launcher: integration/spark/test_launcher.py.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import Condition, RunState, TaskId
from kit.cli import CliResult, cli_run
from kit.pace import ample_s
from kit.places import KIT
from kit.postgres import Database, database
from kit.standalone import Standalone
from kit.topics import create_topic, end_offset, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]

_PLUGINS = KIT / "plugins"
SOURCE, SINK, ROWS = "moody-in", "moody-out", "rows"
# These have a transformation and a converter with moods of their own
STAGED_SOURCE, STAGED_SINK = "staged-in", "staged-out"
FLOODED = "flooded"
# Its task never returns from poll()
HUNG = "hung"
_STUCK_MS, _LAGGING_MS = 3_000, 2_000
# What a sink must fall behind by to be reported, and what it is given at once: much, or a flood that stands still for a
# moment, on a busy machine, lets the sink come near again
_LEAST_BEHIND, _WAVE = 10_000, 12_000
_SERIES = "kafka_connect_task_condition_metrics_condition"
_FLOODED_LABELS = f'connector="{FLOODED}",task="0"'


class Ward:
    """The worker, the moods of its connectors, and the database that one of them writes to."""

    def __init__(self, folder: Path, bootstrap: str, shop: Database) -> None:
        self.folder, self.shop = folder, shop
        connectors: dict[str, dict[str, str]] = {
            name: {
                "connector.class": f"moody_connectors.Moody{kind}",
                "mood.file": str(folder / f"{name}.mood"),
                "errors.retry.delay.max.ms": "300",
            }
            for name, kind in ((SOURCE, "Source"), (SINK, "Sink"))
        }
        connectors[SINK]["topics"] = "moods"
        connectors[FLOODED] = {
            **connectors[SINK],
            "topics": "flood",
            "mood.file": str(folder / f"{FLOODED}.mood"),
            "kconnect.task.lagging.after.ms": str(_LAGGING_MS),
        }
        for name, moody in ((STAGED_SOURCE, SOURCE), (STAGED_SINK, SINK)):
            connectors[name] = {
                **connectors[moody],
                "mood.file": str(folder / f"{name}.mood"),
                "transforms": "moody",
                "transforms.moody.type": "moody_connectors.MoodyTransform",
                "transforms.moody.mood.file": str(folder / f"{name}-transform.mood"),
                "value.converter": "moody_connectors.MoodyConverter",
                "value.converter.mood.file": str(folder / f"{name}-converter.mood"),
            }
        connectors[HUNG] = {"connector.class": "faulty_connectors.FaultySource", "hang.in": "poll"}
        connectors[ROWS] = {
            "connector.class": "SqlSink",
            "topics": "rows",
            "connection.driver": "psycopg",
            "connection.url": shop.uri,
            "auto.create": "true",
            "max.retries": "1000000",
            "retry.backoff.ms": "200",
            "transforms": "wrap",
            "transforms.wrap.type": "HoistField$Value",
            "transforms.wrap.field": "item",
        }
        settings = {
            "plugin.path": str(_PLUGINS),
            "kconnect.task.stuck.after.ms": str(_STUCK_MS),
            "task.shutdown.graceful.timeout.ms": "2000",
        }
        self.bootstrap = bootstrap
        self.worker = Standalone(folder, bootstrap, connectors, settings)

    def mood(self, name: str, mood: str) -> None:
        """All at once, so that no half of a word is read."""
        new = self.folder / f"{name}.new"
        new.write_text(mood)
        new.replace(self.folder / f"{name}.mood")

    def condition(self, name: str) -> dict[str, Any]:
        with self.worker.client() as client:
            (task,) = client.connector_status(name).tasks
        return {} if task.condition is None else task.condition.to_json()

    def await_condition(self, name: str, wanted: Condition, within_s: float = 30) -> dict[str, Any]:
        def reached() -> dict[str, Any]:
            found = self.condition(name)
            assert found.get("name") == str(wanted), f"{found}\n{self.worker.log_text()[-1500:]}"
            return found

        return eventually(reached, within_s, f"{name} is {wanted}")

    def await_stuck_at(self, name: str, place: str) -> dict[str, Any]:
        """A plugin that hangs looks at its mood every 20 ms: it may be seen elsewhere, once."""

        def reached() -> dict[str, Any]:
            found = self.await_condition(name, Condition.STUCK)
            assert place in found["cause"], found
            return found

        return eventually(reached, 30, f"{name} hangs at {place}")

    def metrics(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.worker.url}/metrics", timeout=ample_s(10)) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    def still_moves_records(self) -> None:
        """The source that is well goes on, in the same slots."""
        before = end_offset(self.bootstrap, "moods")
        eventually(lambda: end_offset(self.bootstrap, "moods") > before, 20, "the neighbour goes on")

    def connect(self, *args: str) -> CliResult:
        return cli_run(*args, "--url", self.worker.url, home=self.folder, expect=0)


@pytest.fixture(scope="module")
def ward(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    folder = tmp_path_factory.mktemp("degraded")
    for topic in ("moods", "rows", "flood", "trouble"):
        create_topic(broker.bootstrap, topic)
    with database() as shop:
        ward = Ward(folder, broker.bootstrap, shop)
        with ward.worker:
            ward.worker.start()
            yield ward


def test_a_call_that_keeps_failing_is_seen_on_every_screen_until_it_does_not(ward: Ward) -> None:
    name, call = SOURCE, "MoodySourceTask.poll()"
    ward.await_condition(name, Condition.HEALTHY)
    ward.mood(name, "away")
    found = eventually(lambda: (seen := ward.condition(name)).get("count", 0) >= 5 and seen, 30, "five attempts")
    assert found["cause"] == f"{call} raised RetriableError: the shop is closed"

    reported = ward.connect("connectors", "status", name).stdout
    assert " RUNNING   retrying    127.0.0.1:" in reported, reported
    assert f"failed attempts: {call} raised RetriableError: the shop is closed" in reported
    row = json.loads(ward.connect("tasks", "list", name, "-o", "json").stdout)[0]
    assert (row["state"], row["condition"]["name"]) == ("RUNNING", "retrying")
    labels = f'connector="{name}",task="0"'
    seen = eventually(
        lambda: (
            (found := ward.metrics()).get(f"kafka_connect_task_error_metrics_total_retries{{{labels}}}", 0) >= 5
            and found
        ),
        10,
        "attempts are counted",
    )
    series = "kafka_connect_task_condition_metrics_condition"
    assert seen[f'{series}{{{labels},condition="retrying"}}'] == 1
    assert seen[f'{series}{{{labels},condition="healthy"}}'] == 0
    attempts = seen[f"kafka_connect_task_error_metrics_total_retries{{{labels}}}"]
    lines = ward.worker.log_text().count(f"{call} failed and will be retried")
    assert lines <= max(3, attempts / 10), "equal messages are counted"

    ward.mood(name, "")
    ward.await_condition(name, Condition.HEALTHY)
    ward.worker.await_log(f"{call} works again after ", 10)
    eventually(lambda: ward.metrics()[f'{series}{{{labels},condition="retrying"}}'] == 0, 10)


def test_a_call_that_hangs_is_named_with_its_line_until_it_returns(ward: Ward) -> None:
    name, call = SINK, "MoodySinkTask.put()"
    ward.await_condition(name, Condition.HEALTHY)
    ward.mood(name, "hang")
    found = ward.await_stuck_at(name, "the line that is to be named")
    assert found["cause"].startswith(f"{call} has not returned: it is at ")
    assert "moody_connectors.py" in found["cause"]
    assert "self._mood.suffer()" in found["stack"]
    shown = ward.connect("tasks", "show", name, "0").stdout
    assert f"RUNNING  {ward.worker.url.removeprefix('http://')}  stuck for " in shown
    assert "self._mood.suffer()" in shown
    message = f"[{name}|task-0] {call} has not returned for "
    ward.worker.await_log(message, 10)

    ward.mood(name, "")
    ward.await_condition(name, Condition.HEALTHY)
    ward.worker.await_log(f"{call} has returned after ", 10)


@pytest.mark.parametrize(
    ("name", "stage", "called"),
    [(STAGED_SOURCE, "converter", "in from_connect_data"), (STAGED_SINK, "transform", "in apply")],
)
def test_a_transformation_or_converter_that_hangs_is_named_with_its_line(
    ward: Ward, name: str, stage: str, called: str
) -> None:
    ward.await_condition(name, Condition.HEALTHY)
    ward.mood(f"{name}-{stage}", "hang")
    lines = (_PLUGINS / "moody" / "moody_connectors.py").read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if "the line that is to be named" in line)
    found = ward.await_stuck_at(name, f"/moody_connectors.py:{number} in suffer: time.sleep(0.02)")
    assert called in found["stack"].splitlines()[0], "the stack begins in the plugin"
    assert "stuck for " in ward.connect("tasks", "show", name, "0").stdout

    ward.mood(f"{name}-{stage}", "")
    ward.await_condition(name, Condition.HEALTHY)


def test_a_sink_that_falls_behind_its_topic_is_lagging_with_the_metrics_until_it_catches_up(
    ward: Ward, broker: DevBroker
) -> None:
    ward.await_condition(FLOODED, Condition.HEALTHY)
    ward.mood(FLOODED, "slow")
    with flood(broker.bootstrap, "flood"):
        assert_lagging_everywhere(ward)

    ward.mood(FLOODED, "")

    ward.await_condition(FLOODED, Condition.HEALTHY)
    assert ward.condition(FLOODED)["count"] == 0
    eventually(lambda: ward.metrics()[f"{_SERIES}_count{{{_FLOODED_LABELS}}}"] == 0, 10)
    assert ward.metrics()[f'{_SERIES}{{{_FLOODED_LABELS},condition="lagging"}}'] == 0


def assert_lagging_everywhere(ward: Ward) -> None:
    found = ward.await_condition(FLOODED, Condition.LAGGING, 40)
    assert found["count"] >= _LEAST_BEHIND
    assert found["cause"].startswith(f"It is {found['count']:,} records behind the ends of its partitions")
    assert abs(found["since_ms"] / 1000 - time.time()) < ample_s(60)
    metric = r"It is ([0-9,]+) records behind the ends of its partitions"
    reported = ward.connect("connectors", "status", FLOODED).stdout
    row = next(line for line in reported.splitlines() if " lagging " in line)
    assert re.search(rf"RUNNING +lagging +127\.0\.0\.1:[0-9]+ +for [0-9]+ s: {metric}", row), row
    (task,) = json.loads(ward.connect("tasks", "list", FLOODED, "-o", "json").stdout)
    assert (task["state"], task["condition"]["name"]) == ("RUNNING", "lagging")
    assert task["condition"]["count"] >= _LEAST_BEHIND
    with urllib.request.urlopen(f"{ward.worker.url}/conditions", timeout=ample_s(10)) as answer:
        (shown,) = [each for each in json.load(answer) if each["connector"] == FLOODED]
    assert shown["condition"]["name"] == "lagging"
    assert shown["condition"]["count"] >= _LEAST_BEHIND
    seen = ward.metrics()
    assert seen[f'{_SERIES}{{{_FLOODED_LABELS},condition="lagging"}}'] == 1
    assert seen[f"{_SERIES}_count{{{_FLOODED_LABELS}}}"] >= _LEAST_BEHIND
    assert seen[f"{_SERIES}_since_timestamp{{{_FLOODED_LABELS}}}"] == found["since_ms"]


@contextmanager
def flood(bootstrap: str, topic: str) -> Iterator[None]:
    """Inside, the topic grows, wave by wave, faster than a slow sink reads."""
    over = threading.Event()

    def rise() -> None:
        while not over.wait(0.3):
            produce_lines(bootstrap, topic, ["drop"] * _WAVE)

    thread = threading.Thread(target=rise)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_sink_without_its_database_is_retrying_and_writes_on_when_it_is_back(ward: Ward, broker: DevBroker) -> None:
    produce_lines(broker.bootstrap, "rows", ["one"])
    eventually(lambda: items(ward.shop) == ["one"], 30, "the first row")
    ward.await_condition(ROWS, Condition.HEALTHY)
    ward.shop.stop()
    produce_lines(broker.bootstrap, "rows", ["two"])
    ward.await_condition(ROWS, Condition.RETRYING)
    found = eventually(lambda: (seen := ward.condition(ROWS)).get("count", 0) >= 3 and seen, 30, "three attempts")
    assert found["cause"].startswith(  # of the last attempt; the first one may be reported that the server shuts down
        "SqlSinkTask.put() raised RetriableError: The database is away or busy: Operational"
    )

    ward.shop.start()

    ward.await_condition(ROWS, Condition.HEALTHY)
    eventually(lambda: items(ward.shop) == ["one", "two"], 10, "the second row")


def test_offsets_that_cannot_be_stored_are_not_committing_and_the_file_is_named(ward: Ward) -> None:
    ward.await_condition(SOURCE, Condition.HEALTHY)
    file = ward.worker.offsets_file
    beside = file.with_name(f".{file.name}.tmp")
    beside.mkdir()  # what the file is written to first, so that no write succeeds, whoever runs the test
    try:
        found = eventually(lambda: (seen := ward.condition(SOURCE)).get("count", 0) >= 3 and seen, 30, "failed commits")
        assert found["name"] == "not committing"
        assert str(file) in found["cause"]
        message = "could not be committed; the next commit includes them"
        lines = [line for line in ward.worker.log_text().splitlines() if message in line and f"{SOURCE}-0" in line]
        assert len(lines) <= max(2, found["count"] / 10), lines
    finally:
        beside.rmdir()
    ward.await_condition(SOURCE, Condition.HEALTHY)
    ward.worker.await_log("are stored again after", 10)


def test_who_does_not_ask_sees_javas_statuses(ward: Ward) -> None:
    with urllib.request.urlopen(f"{ward.worker.url}/connectors/{SOURCE}/status", timeout=ample_s(10)) as answer:
        (task,) = json.load(answer)["tasks"]
    assert list(task) == ["id", "state", "worker_id", "version"]
    with urllib.request.urlopen(f"{ward.worker.url}/conditions", timeout=ample_s(10)) as answer:
        found = {TaskId(each["connector"], each["task"]) for each in json.load(answer)}
    assert found == {TaskId(name, 0) for name in (SOURCE, SINK, ROWS, STAGED_SOURCE, STAGED_SINK, FLOODED, HUNG)}


def test_a_task_that_raises_is_failed_with_its_trace_and_its_neighbours_go_on(ward: Ward) -> None:
    config = {"connector.class": "faulty_connectors.FaultySink", "raise.in": "put", "topics": "moods"}
    with ward.worker.client() as client:
        client.create_connector("raises", config)
        trace = ward.worker.await_task("raises", RunState.FAILED)
        ward.still_moves_records()
        client.delete_connector("raises")
    assert "trouble in put" in trace.splitlines()[0], trace
    assert "faulty_connectors.py" in trace


def test_a_task_that_never_returns_is_left_behind_at_its_deadline_and_a_new_one_runs(ward: Ward) -> None:
    with ward.worker.client() as client:
        client.stop_connector(HUNG)
        assert client.connector_status(HUNG).tasks == ()
        client.resume_connector(HUNG)
    ward.worker.await_task(HUNG, RunState.RUNNING)
    ward.still_moves_records()


def test_a_worker_stops_in_time_although_a_task_never_returns(ward: Ward) -> None:
    """The last one here: it stops the worker of them all."""
    assert ward.worker.stop(within_s=20) == 143


def items(shop: Database) -> list[str]:
    with psycopg.connect(shop.uri) as connection:
        try:
            return [row[0] for row in connection.execute('SELECT item FROM "rows" ORDER BY item').fetchall()]
        except psycopg.errors.UndefinedTable:
            return []
