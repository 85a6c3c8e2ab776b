"""What a worker's memory costs at its start: the config topic read by Java's worker, by our store, by our command.

Both are whole workers, timed from the start of the process until GET /health says that they are healthy (Java answers
GET /connectors before all is read). Both also with an empty topic, so that what the records cost can be distinguished
from what a start costs; beside it the part of our config store, in a process with no REST server and no group.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from bench.ground import START_S, Ground, Metrics
from kit.cli import connect_command
from kit.distributed_worker import Distributed
from kit.java_connect import RELEASE_JVM_OPTIONS, JavaConnect, write_properties
from kit.topics import create_topic, delete_topic
from kit.waiting import eventually

__all__ = ["config_start", "fill", "is_healthy"]

_RECORDS = 100_000
_CONNECTORS, _TASKS = 1_000, 4
_OPENER = Path(__file__).with_name("open_config_store.py")
_COMPACT = {"cleanup.policy": "compact"}


def config_start(side: str, ground: Ground) -> Metrics:
    """The start on a config topic of 100,000 records: 1,000 connectors of 4 tasks with history, deleted at last.

    Deleted, so that no worker spends time on starting them. `show_s`: `connect topics config show` while they are
    there; bar 2 s.
    """
    name = ground.next_name(side, "config-start")
    topics = {kind: f"{name}-{kind}" for kind in ("empty", "full", "live")}
    for topic in topics.values():
        create_topic(ground.bootstrap, topic, config=_COMPACT)
    try:
        fill(ground.bootstrap, topics["full"], _history(with_deletes=True))
        if side == "java":
            return {
                "ready_s": _java_ready_s(ground, f"{name}-1", topics["full"]),
                "ready_empty_s": _java_ready_s(ground, f"{name}-0", topics["empty"]),
            }
        fill(ground.bootstrap, topics["live"], _history(with_deletes=False))
        return {
            "store_start_s": _store_start_s(ground, topics["full"]),  # first: a worker adds a session key
            "ready_s": _our_ready_s(ground, f"{name}-1", topics["full"]),
            "ready_empty_s": _our_ready_s(ground, f"{name}-0", topics["empty"]),
            "show_s": _show_s(ground, topics["live"]),
        }
    finally:
        for topic in topics.values():
            delete_topic(ground.bootstrap, topic)


def _history(*, with_deletes: bool) -> Iterator[tuple[str, bytes | None]]:
    """Exactly 100,000 records, as a leader writes them."""
    rest = _RECORDS - (2 * _CONNECTORS if with_deletes else 0)
    yield from _first(_versions(), rest)
    if with_deletes:
        for number in range(_CONNECTORS):
            yield f"connector-orders-{number}", None
            yield f"target-state-orders-{number}", None


def _first(records: Iterator[tuple[str, bytes]], count: int) -> Iterator[tuple[str, bytes | None]]:
    for _ in range(count):
        yield next(records)


def _versions() -> Iterator[tuple[str, bytes]]:
    version = 0
    while True:
        version += 1
        for number in range(_CONNECTORS):
            name = f"orders-{number}"
            config = {
                "name": name,
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": str(_TASKS),
                "file": f"/data/{name}.txt",
                "topic": f"{name}-v{version}",
                "batch.size": str(100 + version),
            }
            if version == 1:
                yield f"target-state-{name}", b'{"state":"STARTED","state.v2":"STARTED"}'
            yield f"connector-{name}", _json({"properties": config})
            for task in range(_TASKS):
                yield f"task-{name}-{task}", _json({"properties": {**config, "task.class": "FileStreamSourceTask"}})
            yield f"commit-{name}", _json({"tasks": _TASKS})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def fill(bootstrap: str, topic: str, records: Iterator[tuple[str, bytes | None]]) -> None:
    """Produce to partition 0, in order, until the broker has all."""
    # Idempotent, so that a batch that a fresh topic refuses keeps its place
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 2})
    for key, value in records:
        producer.produce(topic, key=key.encode(), value=value, partition=0)
        producer.poll(0)
        if len(producer) > 50_000:
            producer.flush(START_S)
    if producer.flush(START_S):
        raise RuntimeError(f"the broker did not take the records of {topic}")


def _settings(ground: Ground, name: str, topic: str) -> dict[str, str]:
    return {
        "bootstrap.servers": ground.bootstrap,
        "group.id": name,
        "config.storage.topic": topic,
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-status",
    }


def _java_ready_s(ground: Ground, name: str, topic: str) -> float:
    worker = JavaConnect(
        ground.folder / name,
        ground.bootstrap,
        mode="distributed",
        worker=_settings(ground, name, topic),
        jvm_options=RELEASE_JVM_OPTIONS,
    )
    worker.prepare()
    began = time.monotonic()
    worker.start(ready=False)
    try:
        eventually(lambda: is_healthy(worker.url), START_S, "Java is healthy", pause_s=0.01)
        taken = time.monotonic() - began
        if left := worker.request("GET", "/connectors")[1]:
            raise RuntimeError(f"{len(left)} connectors where all were deleted")
        return taken
    finally:
        worker.stop()
        for kind in ("offsets", "status"):
            delete_topic(ground.bootstrap, f"{name}-{kind}")


def is_healthy(url: str) -> bool:
    """Whether a worker says so; Java's waits some seconds for its herder before it answers."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=START_S) as answer:
            return bool(answer.status == 200)
    except OSError:  # it comes up; 404 and 503 among them
        return False


def _our_ready_s(ground: Ground, name: str, topic: str) -> float:
    with Distributed(ground.folder / name, ground.bootstrap, name, {"config.storage.topic": topic}) as worker:
        began = time.monotonic()
        worker.start(START_S)
        taken = time.monotonic() - began
        with worker.client() as client:
            if left := client.connectors():
                raise RuntimeError(f"{len(left)} connectors where all were deleted")
        worker.stop()
    for kind in ("offset", "status"):
        delete_topic(ground.bootstrap, f"{name}-{kind}")
    return taken


def _store_start_s(ground: Ground, topic: str) -> float:
    """Of the store's start on all records, in a process of its own."""
    file = write_properties(ground.folder / f"{topic}.properties", _settings(ground, topic, topic))
    done = subprocess.run(
        [sys.executable, str(_OPENER), str(file)], capture_output=True, text=True, timeout=START_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the store did not start:\n{done.stderr}")
    reported = json.loads(done.stdout)
    if reported["connectors"] or reported["offset"] != _RECORDS:
        raise RuntimeError(f"next offset {_RECORDS}, no connector left: not {reported}")
    return float(reported["start_s"])


def _show_s(ground: Ground, topic: str) -> float:
    file = write_properties(ground.folder / f"{topic}.properties", _settings(ground, topic, topic))
    command = [*connect_command(), "topics", "config", "show", "--worker", str(file)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    taken = time.monotonic() - began
    if done.returncode or len(done.stdout.splitlines()) != _CONNECTORS + 1:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[:500]}{done.stderr}")
    return taken
