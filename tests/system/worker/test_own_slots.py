"""A connector that eats memory fails by itself in a slot of its own, and those beside it move on without a restart."""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from kconnect.model import RunState, TaskId
from kit.cli import cli_run
from kit.pace import ample_s
from kit.standalone import Standalone, write_properties
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(600)]

MEMORY = "kconnect.slot.memory"
HOG, SOURCE, SINK = "hog", "calm-in", "calm-out"

_HOG = """
import pathlib, time

def eat(meal):
    kept = []
    while True:
        if pathlib.Path(meal).exists():
            kept.append(bytearray(b"x" * 20_000_000))
        else:
            yield "hungry"
        time.sleep(0.05)
"""


def hog(folder: Path, **settings: str) -> dict[str, str]:
    return {
        "connector.class": "PythonSource",
        "function": "hog_source:eat",
        "function.args.meal": str(folder / "meal"),
        "topic": "hungry",
        "errors.restart.max": "0",
        "kconnect.slot": "own",
        **settings,
    }


@pytest.fixture
def worker(request, broker, tmp_path):
    (tmp_path / "hog_source.py").write_text(_HOG)
    (tmp_path / "in.txt").write_text("line 0\n")
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    connectors = {
        SOURCE: {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": topic},
        SINK: {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": topic},
        HOG: hog(tmp_path, **{MEMORY: "300m", "kconnect.slot.cores": "1"}),
    }
    running = Standalone(tmp_path, broker.bootstrap, connectors, {"kconnect.slots": "1", "plugin.path": str(tmp_path)})
    running.start()
    yield running
    running.stop()


def slots_of(worker: Standalone) -> dict[str | None, dict[str, Any]]:
    """The slots by whose they are; None: shared."""
    with worker.client() as client:
        return {slot["connector"]: slot for slot in client.slots()}


def tasks_of(slot: Mapping[str, Any]) -> set[str]:
    return {task["connector"] for task in slot["tasks"]}


def written(worker: Standalone) -> float | None:
    """What the calm source has sent since it started."""
    with urllib.request.urlopen(f"{worker.url}/metrics", timeout=ample_s(10)) as answer:
        found = re.search(rf'_source_record_write_total{{connector="{SOURCE}",task="0"}} (\S+)', answer.read().decode())
    return float(found[1]) if found else None


def lines_pass(worker: Standalone, line: str) -> None:
    """What is added to the file reaches the other one."""
    with (worker.folder / "in.txt").open("a") as file:
        file.write(f"{line}\n")
    eventually(lambda: line in (worker.folder / "out.txt").read_text().splitlines(), 30, f"{line} has passed")


def test_a_connector_that_eats_memory_fails_alone_in_a_slot_of_its_own(worker):
    lines_pass(worker, "before")
    before = slots_of(worker)
    assert tasks_of(before[HOG]) == {HOG}
    assert tasks_of(before[None]) == {SOURCE, SINK}
    assert len(psutil.Process(before[HOG]["pid"]).cpu_affinity()) == 1
    assert len(psutil.Process(before[None]["pid"]).cpu_affinity()) == len(os.sched_getaffinity(0))
    eventually(lambda: slots_of(worker)[HOG]["memory_bytes"], 30, "its slot has said what it takes")
    shown = cli_run("slots", "--url", worker.url, home=worker.folder / "home", expect=0).stdout
    whose, own = (next(line for line in shown.splitlines() if part in line) for part in ("WHOSE", f"{HOG}-0"))
    assert HOG in own[whose.index("WHOSE") :][:6]
    assert "of 300 MiB" in own

    (worker.folder / "meal").touch()
    trace = worker.await_task(HOG, RunState.FAILED)

    assert trace.startswith(f"Slot {before[HOG]['slot']} of connector hog took ")
    assert "kconnect.slot.memory allows 300 MB: its process was killed" in trace
    lines_pass(worker, "after")
    assert slots_of(worker)[None]["pid"] == before[None]["pid"]
    eventually(lambda: written(worker) == 3, 30, "the calm source has counted on: it was not started again")

    (worker.folder / "meal").unlink()
    with worker.client() as client:
        client.restart_task(TaskId(HOG, 0))
    worker.await_task(HOG, RunState.RUNNING)
    own_pid = slots_of(worker)[HOG]["pid"]
    assert own_pid != before[HOG]["pid"]

    with worker.client() as client:
        client.delete_connector(HOG)
    eventually(lambda: not psutil.pid_exists(own_pid), 40, "the slot ends with the connector")
    assert slots_of(worker).keys() == {None}
    lines_pass(worker, "last")
    assert slots_of(worker)[None]["pid"] == before[None]["pid"]


def test_the_settings_are_known_to_who_checks_a_config_before(worker):
    bad = write_properties(worker.folder / "bad.properties", {"name": "bad", **hog(worker.folder)} | {MEMORY: "much"})
    good = write_properties(worker.folder / "good.properties", {"name": "good", **hog(worker.folder), MEMORY: "1g"})

    found = cli_run("check", str(worker.files[0]), str(bad), str(good), "-o", "json", home=worker.folder / "home")

    assert "Invalid value much for configuration kconnect.slot.memory" in found.stdout
    assert "Unknown setting" not in found.stdout
    with worker.client() as client:
        answer = client.validate("PythonSource", {"name": "bad", **hog(worker.folder), MEMORY: "much"})
        query = {"name": "query", "topics": "t", "spark.format": "parquet", "spark.path": str(worker.folder / "table")}
        refused = client.validate("SparkSink", {**query, "connector.class": "SparkSink", "kconnect.slot": "own"})
    assert [info["value"]["name"] for info in answer["configs"] if info["value"]["errors"]] == [MEMORY]
    (why,) = [error for info in refused["configs"] for error in info["value"]["errors"]]
    assert why.startswith("SparkSink runs as a query of Spark")


def test_a_connector_moves_between_shared_slots_and_its_own_as_its_config_says(worker):
    with worker.client() as client:
        client.put_connector_config(HOG, hog(worker.folder, **{"kconnect.slot": "shared"}) | {"name": HOG})
    eventually(lambda: HOG in tasks_of(slots_of(worker)[None]), 30, "its task is in the shared slot")
    worker.await_task(HOG, RunState.RUNNING)
    with worker.client() as client:
        client.put_connector_config(HOG, hog(worker.folder, **{MEMORY: "1g"}) | {"name": HOG})

    eventually(lambda: tasks_of(slots_of(worker).get(HOG, {"tasks": []})) == {HOG}, 30, "its task is in its own slot")
    worker.await_task(HOG, RunState.RUNNING)
    assert slots_of(worker)[HOG]["memory_limit_bytes"] == 2**30
    assert tasks_of(slots_of(worker)[None]) == {SOURCE, SINK}
