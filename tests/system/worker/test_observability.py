"""A real worker shows what it does: metrics, slots, the Spark UI, the log."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kit.alerts import Scrapes, alerts_of
from kit.cli import cli_env, cli_run, connect_command
from kit.pace import ample_s
from kit.places import DOCS
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]
MONITORING = DOCS / "monitoring.md"
SOURCE, SINK, WAITING, TOLERANT = "observed-in", "observed-out", "observed-later", "observed-bad"
PRICES = "observed-prices"


@pytest.fixture(scope="module")
def worker(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("observed")
    (folder / "in.txt").write_text("".join(f"line {number}\n" for number in range(1000)))
    topic = "observed-lines"
    create_topic(broker.bootstrap, topic)
    connectors = {
        SOURCE: {"connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": topic},
        WAITING: {"connector.class": "FileStreamSource", "file": str(folder / "later.txt"), "topic": topic},
        SINK: {"connector.class": "FileStreamSink", "file": str(folder / "out.txt"), "topics": topic},
        TOLERANT: {
            "connector.class": "FileStreamSink",
            "file": str(folder / "good.txt"),
            "topics": "observed-mixed",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "errors.tolerance": "all",
            "errors.log.enable": "true",
            "errors.deadletterqueue.topic.name": "observed-letters",
            "errors.deadletterqueue.topic.replication.factor": "1",
        },
    }
    create_topic(broker.bootstrap, "observed-mixed")
    produce_lines(broker.bootstrap, "observed-mixed", ["1", "bad", "{", "2", "worse"])
    settings = {"spark.ui.enabled": "true", "spark.ui.port": "0", "kconnect.sink.lag.interval.ms": "500"}
    running = Standalone(folder, broker.bootstrap, connectors, settings)
    running.files.append(Path("--timings"))
    running.start()
    yield running
    running.stop()


def prometheus_of(worker: Standalone) -> str:
    request = urllib.request.Request(f"{worker.url}/metrics", headers={"Accept": "text/plain"})
    with urllib.request.urlopen(request, timeout=ample_s(10)) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def metrics_of(worker: Standalone) -> dict[str, float]:
    lines = prometheus_of(worker).splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_timings_tell_when_each_step_of_the_start_had_happened(worker):
    """The JVM starts, and what slots are forked from imports, while the worker's own code is loaded."""
    worker.await_log("WHAT HAS HAPPENED")
    lines = worker.log_text().partition("WHAT HAS HAPPENED\n")[2].splitlines()
    found = [re.fullmatch(r" *(\d+\.\d\d) +\d+\.\d\d +(.+)", line) for line in lines]
    steps = [(float(each[1]), each[2]) for each in found if each is not None]
    assert [at_s for at_s, _ in steps] == sorted(at_s for at_s, _ in steps)
    names = [name for _, name in steps]
    for first, later in (
        ("Spark's JVM is launched", "The worker's code is loaded"),
        ("The process that slots are forked from begins its imports", "The worker's code is loaded"),
        ("Spark's JVM answers", "Spark's context is there"),
        ("Spark's context is there", "Slot 0 is forked"),
        ("Slot 0 is forked", "Slot 0 takes tasks"),
        (f"Connector {SOURCE} is created", f"Task {SOURCE}-0 is RUNNING"),
        ("REST answers", "The worker has started"),
    ):
        assert names.index(first) < names.index(later), names


def test_metrics_tell_what_the_tasks_moved(worker):
    source, sink = f'{{connector="{SOURCE}",task="0"}}', f'{{connector="{SINK}",task="0"}}'

    # Rates and maxima are of the last minute, and the start of the worker may take one
    with (worker.folder / "in.txt").open("a") as file:
        file.write("line 1000\n")

    def all_moved() -> dict[str, float] | None:
        seen = metrics_of(worker)
        is_moved = (
            seen.get(f"kafka_connect_source_task_metrics_source_record_write_total{source}") == 1001
            and seen.get(f"kafka_connect_source_task_metrics_source_record_active_count{source}") == 0
            and seen.get(f"kafka_connect_sink_task_metrics_sink_record_send_total{sink}") == 1001
            and seen.get(f"kafka_connect_sink_task_metrics_offset_commit_completion_total{sink}", 0) >= 1
        )
        return seen if is_moved else None

    seen = eventually(all_moved, 20, "the counters of both tasks reach the worker")
    assert seen[f"kafka_connect_source_task_metrics_source_record_poll_rate{source}"] > 0
    assert seen[f"kafka_connect_sink_task_metrics_partition_count{sink}"] == 1
    assert seen[f"kafka_connect_sink_task_metrics_put_batch_max_time_ms{sink}"] > 0
    assert seen["kafka_connect_worker_metrics_connector_startup_success_total"] == 4
    assert seen["kafka_connect_worker_metrics_task_startup_success_total"] == 4
    assert seen[f'kafka_connect_connector_metrics_status{{connector="{SINK}",value="running"}}'] == 1
    converter = "org.apache.kafka.connect.storage.StringConverter"
    labels = f'{{connector="{SOURCE}",task="0",value="{converter}"}}'
    assert seen[f"kafka_connect_connector_task_metrics_value_converter_class{labels}"] == 1


def test_metrics_count_bad_records_and_dead_letters(broker, worker):
    task = f'{{connector="{TOLERANT}",task="0"}}'

    def counted() -> dict[str, float]:
        seen = metrics_of(worker)
        prefix = "kafka_connect_task_error_metrics_"
        return {name[len(prefix) : -len(task)]: seen[name] for name in seen if name.startswith(prefix) and task in name}

    def all_counted() -> bool:
        errors = counted()
        now_ms = time.time() * 1000
        assert now_ms - 600_000 < errors.pop("last_error_timestamp", 0) <= now_ms
        assert errors == {
            "total_record_failures": 3,
            "total_record_errors": 3,
            "total_records_skipped": 3,
            "total_retries": 0,
            "total_errors_logged": 3,
            "deadletterqueue_produce_requests": 3,
            "deadletterqueue_produce_failures": 0,
        }
        return metrics_of(worker).get(f"kafka_connect_sink_task_metrics_sink_record_send_total{task}") == 2

    eventually(all_counted, 20, "the counters of the tolerant task reach the worker")
    assert consume_values(broker.bootstrap, "observed-letters", 3) == [b"bad", b"{", b"worse"]
    message = f"ERROR [{TOLERANT}|task-0|value-converter] Error encountered in task"
    eventually(lambda: worker.log.read_text().count(message) == 3, 10, "all three are in the log")


def test_the_lag_of_a_stopped_sink_is_in_metrics_and_alerts_and_beside_its_offsets(broker, worker, tmp_path):
    series = f'kafka_connect_sink_topic_metrics_lag_records{{connector="{SINK}",topic="observed-lines"}}'
    eventually(lambda: metrics_of(worker).get(series) == 0, 20, "the sink has caught up")
    alerts, scrapes = alerts_of(MONITORING), Scrapes()
    with ConnectClient(worker.url) as client:
        before = client.offsets_and_lag(SINK)[1].partitions[0].offset
        client.stop_connector(SINK)
        produce_lines(broker.bootstrap, "observed-lines", ["more"] * 100_001)
        eventually(lambda: metrics_of(worker).get(series) == 100_001, 20, "the lag of the stopped sink is seen")
        scrapes.add(prometheus_of(worker))
        assert "ConnectSinkIsBehind" in scrapes.firing(alerts)
        place = {"topic": "observed-lines", "partition": 0, "offset": before, "end_offset": before + 100_001}
        shown = cli_run("--url", worker.url, "offsets", "show", SINK, home=tmp_path, expect=0)
        assert shown.stdout.splitlines()[0].split() == ["PARTITION", "OFFSET", "END", "LAG"]
        assert shown.stdout.splitlines()[1].split()[2:] == [str(before + 100_001), "100001"]
        assert f"{SINK} is 100,001 records behind." in shown.stderr
        saved = cli_run("--url", worker.url, "offsets", "show", SINK, "-o", "json", home=tmp_path, expect=0)
        assert saved.json["lag"] == {"total": 100_001, "partitions": [{**place, "lag": 100_001}]}
        alter = ("offsets", "alter", SINK, "-f", "-", "--yes")
        cli_run("--url", worker.url, *alter, home=tmp_path, stdin=saved.stdout, expect=0)
        client.resume_connector(SINK)
        eventually(lambda: metrics_of(worker).get(series) == 0, 30, "the sink has caught up again")
    scrapes.add(prometheus_of(worker))
    assert "ConnectSinkIsBehind" not in scrapes.firing(alerts)


def test_slots_tell_their_job_process_and_cost(worker):
    with ConnectClient(worker.url) as client:

        def measured() -> bool:
            slots = client.slots()
            return all(slot["attached"] and slot["memory_bytes"] for slot in slots)

        eventually(measured, 20, "every slot reported what it uses")
        slots = client.slots()
    assert sorted(task["connector"] for slot in slots for task in slot["tasks"]) == sorted(
        [SOURCE, SINK, WAITING, TOLERANT]
    )
    for slot in slots:
        assert (slot["job_group"], slot["executor"]) == (f"kconnect-slot-{slot['slot']}", "driver")
        assert slot["cpu_seconds"] > 0
        assert slot["memory_bytes"] > 10 * 2**20
        with open(f"/proc/{slot['pid']}/cmdline") as line:
            assert "python" in line.read()


def test_the_spark_ui_names_the_job_of_each_slot(worker):
    with ConnectClient(worker.url) as client:
        groups = {slot["job_group"] for slot in client.slots()}
    ui = re.search(r"http://[\w.:]+:(\d+)", worker.log.read_text().partition("Spark UI at ")[2])
    assert ui is not None, "the log tells where the UI is"

    def ask(path: str):
        with urllib.request.urlopen(f"http://127.0.0.1:{ui[1]}/api/v1/{path}", timeout=ample_s(10)) as answer:
            return json.load(answer)

    application = ask("applications")[0]["id"]

    def running() -> list[dict[str, str]]:
        jobs: list[dict[str, str]] = ask(f"applications/{application}/jobs")
        assert {job["jobGroup"] for job in jobs if job["status"] == "RUNNING"} == groups
        return jobs

    jobs = eventually(running, 20, "Spark hears of its own jobs a moment later")
    assert all(job["description"].startswith("kconnect slot ") for job in jobs)


def test_lines_of_connectors_and_tasks_say_whose_they_are(worker):
    for line in (
        rf"INFO \[{SOURCE}\|worker\] Starting file source connector",
        rf"WARNING \[{WAITING}\|task-0\] Couldn't find file .*later.txt",
    ):
        eventually(lambda line=line: re.search(line, worker.log.read_text()), 20, f"the log has {line}")


def test_the_command_shows_the_slots_as_a_table(worker, tmp_path):
    command = [*connect_command(), "--url", worker.url, "slots"]
    done = subprocess.run(
        command, env=cli_env(tmp_path), capture_output=True, text=True, timeout=ample_s(30), check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(title in done.stdout for title in ("SLOT", "JOB GROUP", "EXECUTOR", "CPU %", "MEMORY", "TASKS"))
    assert "kconnect-slot-0" in done.stdout
    assert f"{SOURCE}-0" in done.stdout


@pytest.fixture
def prices(broker, worker, tmp_path):
    """A sink in columns, behind prices that are numbers and texts."""
    create_topic(broker.bootstrap, PRICES)
    produce_lines(broker.bootstrap, PRICES, ['{"price":1}', '{"price":"1"}'] * 1000)
    config = {
        "connector.class": "ObjectSink",
        "object.url": f"file://{tmp_path / 'prices'}",
        "topics": PRICES,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    with ConnectClient(worker.url) as client:
        client.create_connector(PRICES, config)
        yield PRICES
        client.delete_connector(PRICES)


def test_describe_and_metrics_say_which_batches_went_by_records_and_why(worker, prices, tmp_path):
    def described(*more: str) -> str:
        return cli_run("describe", prices, "--url", worker.url, *more, home=tmp_path, expect=0).stdout

    line = "100% of batches by records: member price is number and text"
    eventually(lambda: line in described(), 30, "describe says it")
    labels = f'{{connector="{prices}",task="0"}}'
    metrics = metrics_of(worker)
    batches = metrics[f"kafka_connect_task_batch_metrics_batches_total{labels}"]
    assert batches > 0
    assert metrics[f"kafka_connect_task_batch_metrics_batches_by_records_total{labels}"] == batches
    forms = json.loads(described("-o", "json"))["forms"]
    assert forms == {"batches": batches, "by_records": batches, "because": "member price is number and text"}


def test_lines_that_slots_write_are_in_the_workers_log_over_rest(worker):
    with ConnectClient(worker.url) as client:

        def of_slot():
            return [line for line in client.logs(connector=TOLERANT)["lines"] if line["slot"] is not None]

        (first, *_) = eventually(of_slot, within_s=20, why="a line of the slot about a record that failed")
        assert (first["connector"], first["task"]) == (TOLERANT, 0)
        assert not [line for line in client.logs(connector=TOLERANT)["lines"] if line["connector"] == SINK]
    reported = cli_run("logs", TOLERANT, "-n", "500", "--url", worker.url, home=worker.folder, expect=0).stdout
    assert f"[{TOLERANT}|task-0] {first['text'].splitlines()[0]}" in reported


def test_the_history_has_samples_of_tasks_and_slots(worker):
    with ConnectClient(worker.url) as client:

        def sampled():
            found = client.history(SINK)
            slots = [slot["series"]["memory_bytes"][-1:] for slot in found["slots"]]
            return found["tasks"] and all(last and last[0] for last in slots) and found

        found = eventually(sampled, within_s=30, why="a sample, which is taken every ten seconds")
        assert (found["tasks"][0]["connector"], found["tasks"][0]["task"]) == (SINK, 0)
        assert SINK in client.history()["connectors"]


def test_what_runs_the_slots_is_reported_with_the_address_of_sparks_own_pages(worker):
    with ConnectClient(worker.url) as client:
        (only,) = client.workers()
    spark = only["spark"]
    assert spark["master"].startswith("local")
    assert spark["application_id"].startswith("local-")
    with urllib.request.urlopen(f"{spark['ui_url']}/jobs/", timeout=ample_s(10)) as answer:
        assert answer.status == 200
    assert {task for slot in only["slots"] for task in [f"{t['connector']}-{t['task']}" for t in slot["tasks"]]} == set(
        only["tasks"]
    )
