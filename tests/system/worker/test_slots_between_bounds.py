"""Slots of a worker follow its load between the bounds of kconnect.slots, and no record is lost or doubled by moves."""

from __future__ import annotations

import itertools
import re
import sys
import time
import urllib.request
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, TopicPartition

from kconnect.model import RunState
from kit.cli import cli_run
from kit.pace import ample_s, pace
from kit.standalone import Standalone
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

TASKS, LEAST, MOST = 3, 1, 3
COMPUTING, SINK = "computing", "out"
# From a change of the load to the slots that it needs, on a machine of two cores
FOLLOWS_WITHIN_S = 30

# A record costs eight milliseconds; `rate` is how many each task is to make in a second
_SOURCE = """
import pathlib, time
from kconnect.api import ConfigDef, Schema, SourceConnector, SourceRecord, SourceTask

class ComputingTask(SourceTask):
    def start(self, props):
        self.props, self.task = props, props["task"]
        found = self.context.offset_storage_reader().offset({"task": self.task})
        self.number, self.at_s = (0 if found is None else found["next"]), time.monotonic()

    def poll(self):
        rate = float(pathlib.Path(self.props["rate"]).read_text())
        now_s = time.monotonic()
        self.at_s = max(self.at_s + 1 / rate, now_s)
        if self.at_s > now_s:
            self.context.wait(self.at_s - now_s)
        end_s = time.monotonic() + 0.008
        while time.monotonic() < end_s:
            sum(range(100))
        number, self.number = self.number, self.number + 1
        return [SourceRecord({"task": self.task}, {"next": self.number}, self.props["topic"], f"{self.task}:{number}",
            kafka_partition=int(self.task), value_schema=Schema.STRING_SCHEMA)]

    def stop(self):
        pass

class ComputingSource(SourceConnector):
    def start(self, props):
        self.props = dict(props)
    def task_class(self):
        return ComputingTask
    def task_configs(self, max_tasks):
        return [{**self.props, "task": str(number)} for number in range(max_tasks)]
    def stop(self):
        pass
    def config(self):
        return ConfigDef()
    def version(self):
        return "1"
"""


@pytest.fixture
def worker(request, broker, tmp_path):
    (tmp_path / "computing_source.py").write_text(_SOURCE)
    (tmp_path / "rate").write_text("10")
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=TASKS)
    connectors = {
        COMPUTING: {
            "connector.class": "computing_source:ComputingSource",
            "tasks.max": str(TASKS),
            "rate": str(tmp_path / "rate"),
            "topic": topic,
        },
        SINK: {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": topic},
    }
    settings = {"kconnect.slots": f"{LEAST}..{MOST}", "plugin.path": str(tmp_path)}
    running = Standalone(tmp_path, broker.bootstrap, connectors, settings)
    running.start()
    yield running, broker.bootstrap, topic
    running.stop()


def count_of(worker: Standalone) -> int:
    """Slots that are up."""
    with worker.client() as client:
        return sum(slot["attached"] for slot in client.slots() if slot["slot"] is not None)


def metric(worker: Standalone, name: str) -> float:
    with urllib.request.urlopen(f"{worker.url}/metrics", timeout=ample_s(10)) as answer:
        found = re.search(rf"^kafka_connect_worker_slot_metrics_{name} (\S+)$", answer.read().decode(), re.M)
    assert found is not None, name
    return float(found[1])


def records_of(bootstrap: str, topic: str) -> dict[int, list[tuple[str, int]]]:
    """What is in each partition, in order, with the time at which it was made in ms."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.auto.commit": False})
    found: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    try:
        partitions = [TopicPartition(topic, number, 0) for number in range(TASKS)]
        ends = {part.partition: consumer.get_watermark_offsets(part, ample_s(10))[1] for part in partitions}
        consumer.assign(partitions)
        while any(len(found[number]) < end for number, end in ends.items()):
            message = consumer.poll(ample_s(10))
            assert message is not None, "the broker answers"
            assert message.error() is None
            found[message.partition()].append((message.value().decode(), message.timestamp()[1]))
    finally:
        consumer.close()
    return found


def moves_of(worker: Standalone) -> list[tuple[str, float]]:
    """Task and gap in seconds of each move that the log tells."""
    pattern = r"Task (\S+) has moved from slot \d+ to slot \d+ in ([\d.]+) s: "
    return [(task, float(gap)) for task, gap in re.findall(pattern, worker.log_text())]


def test_slots_follow_a_load_that_rises_tenfold_and_falls_and_every_record_is_there_once(worker):
    running, bootstrap, topic = worker
    assert count_of(running) == LEAST
    assert [metric(running, f"slot_count{part}") for part in ("", "_min", "_max")] == [LEAST, LEAST, MOST]

    began_s = time.monotonic()
    (running.folder / "rate").write_text("100")
    eventually(lambda: count_of(running) == MOST, FOLLOWS_WITHIN_S, "as many slots as the load needs")
    rose_s = time.monotonic() - began_s
    eventually(lambda: len(moves_of(running)) >= TASKS - 1, FOLLOWS_WITHIN_S, "a task for each of them")
    assert metric(running, "slot_count") == MOST
    shown = cli_run("slots", "--url", running.url, home=running.folder / "home", expect=0).stdout
    assert "shared, 1..3" in shown
    assert re.search(r"Slot 1 starts: slot 0 has wanted \d+ % of a core for 5 s", running.log_text())

    began_s, falls_ms = time.monotonic(), time.time() * 1000
    (running.folder / "rate").write_text("0.5")
    eventually(lambda: count_of(running) == LEAST, FOLLOWS_WITHIN_S, "the load needs no more")
    fell_s = time.monotonic() - began_s
    assert re.search(r"Slot \d ends: \d slots have wanted \d+ % of a core together for 10 s", running.log_text())
    assert "lost its worker" not in running.log_text()
    with running.client() as client:
        client.pause_connector(COMPUTING)
    running.await_task(COMPUTING, RunState.PAUSED)
    made = records_of(bootstrap, topic)
    for number, records in made.items():
        assert [value for value, _ in records] == [f"{number}:{count}" for count in range(len(records))]
    sent = {value for records in made.values() for value, _ in records}
    out = running.folder / "out.txt"
    eventually(lambda: set(out.read_text().splitlines()) == sent, 30, "the sink has them all")
    gaps = [gap for task, gap in moves_of(running) if task.startswith(COMPUTING)]
    times = [[at_ms for _, at_ms in records if at_ms < falls_ms] for records in made.values()]
    longest = [max(later - earlier for earlier, later in itertools.pairwise(each)) / 1000 for each in times]
    sys.stdout.write(
        f"{MOST} slots after {rose_s:.0f} s, {LEAST} after {fell_s:.0f} s; moves took {sorted(gaps)} s; "
        f"longest time between two records of a task under load {longest} s; "
        f"a machine {pace.slowness:.1f} times as slow as a quiet one\n"
    )
    assert max(gaps) <= ample_s(0.5)
