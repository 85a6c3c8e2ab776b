"""What is measured: each case runs one worker once and gives its figures."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, TopicPartition

from bench.meter import ProcessTree, Sample, cpu_us_per_record, sample_until, steady_rate
from bench.sides import SIDES, Side
from kit.topics import create_topic, delete_topic, produce_lines

__all__ = ["CASES", "LINE_BYTES", "ONLY_OURS", "Figures", "Ground", "make_input"]

LINE_BYTES = 100
# Java moves 0.27 M records a second on 2 cores; a run that is ten times slower than that is no result.
_SLOWEST_PER_S = 27_000
_START_S = 60.0
# Lines of the latency case; Java looks at its file once a second, so each takes it one
_APPENDS, _WARMING = 100, 5
# The idle case: compilers and consumers calm down, then the seconds that count
_SETTLE_S, _QUIET_S = 10.0, 10.0

Figures: TypeAlias = dict[str, float]


@dataclass(slots=True)
class Ground:
    """What all runs share: the broker, the input, a folder."""

    bootstrap: str
    folder: Path
    input_file: Path
    lines: int
    filled_topic: str
    """Holds the input's lines; made when the first case needs it."""
    is_filled: bool = False
    count: int = 0

    @property
    def deadline_s(self) -> float:
        return _START_S + self.lines / _SLOWEST_PER_S

    def next_name(self, side: str, case: str) -> str:
        self.count += 1
        return f"{case}-{side}-{self.count}"

    def fill_topic(self) -> None:
        if not self.is_filled:
            create_topic(self.bootstrap, self.filled_topic)
            with self.input_file.open("rb") as file:
                produce_lines(self.bootstrap, self.filled_topic, (line[:-1] for line in file))
            self.is_filled = True


def make_input(path: Path, lines: int) -> None:
    """Lines of 100 bytes and a newline, each with its number."""
    filler = "abcdefghijklmnopqrstuvwxyz0123456789" * 3
    filler = filler[: LINE_BYTES - 11]
    with path.open("w", encoding="ascii", newline="\n") as file:
        for first in range(0, lines, 10_000):
            file.write("".join(f"{number:010d} {filler}\n" for number in range(first, min(lines, first + 10_000))))


def file_to_topic(side: str, ground: Ground) -> Figures:
    """A file of lines into a topic of one partition."""
    with _topic(ground, side, "file-to-topic") as topic, _end_offsets(ground.bootstrap, topic) as progress:
        connector = _source(topic, ground.input_file)
        with _running(side, ground, topic, connector) as (worker, began):
            return _stream(worker, began, ground, progress)


def json_schemas(side: str, ground: Ground) -> Figures:
    """The same through three transformations, as JSON with the schema beside each value."""
    return _file_to_json(side, ground, "json-schemas", "true")


def json_schemaless(side: str, ground: Ground) -> Figures:
    """The same as JSON without schemas."""
    return _file_to_json(side, ground, "json-schemaless", "false")


def _file_to_json(side: str, ground: Ground, case: str, schemas: str) -> Figures:
    with _topic(ground, side, case) as topic, _end_offsets(ground.bootstrap, topic) as progress:
        connector = _source(topic, ground.input_file) | {
            "topic": f"{topic}.raw",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": schemas,
            "transforms": "hoist,insert,route",
            "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.hoist.field": "line",
            "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.insert.static.field": "source",
            "transforms.insert.static.value": "bench",
            "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.route.regex": "(.*)[.]raw",
            "transforms.route.replacement": "$1",
        }
        with _running(side, ground, topic, connector) as (worker, began):
            return _stream(worker, began, ground, progress)


def python_source(side: str, ground: Ground) -> Figures:
    """Plain lists of SourceRecord from a custom Python source, dicts of four fields, as JSON without schemas."""
    with _topic(ground, side, "python-source") as topic, _end_offsets(ground.bootstrap, topic) as progress:
        connector = {
            "name": topic,
            "connector.class": "NumbersSource",
            "tasks.max": "1",
            "topic": topic,
            "count": str(ground.lines),
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        with _running(side, ground, topic, connector) as (worker, began):
            return _stream(worker, began, ground, progress)


def topic_to_file(side: str, ground: Ground) -> Figures:
    """The records of one topic into a file."""
    return _topic_to_file(side, ground, "topic-to-file", {})


def dlq_idle(side: str, ground: Ground) -> Figures:
    """The same with a dead letter queue that gets nothing: to be within 5 % of topic-to-file."""
    more = {
        "errors.tolerance": "all",
        "errors.retry.timeout": "60000",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": "dead-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    return _topic_to_file(side, ground, "dlq-idle", more)


def _topic_to_file(side: str, ground: Ground, case: str, more: dict[str, str]) -> Figures:
    ground.fill_topic()
    name = ground.next_name(side, case)
    target = ground.folder / f"{name}.txt"
    connector = {
        "name": name,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "topics": ground.filled_topic,
        "file": str(target),
        **more,
    }

    def progress() -> int:
        return target.stat().st_size // (LINE_BYTES + 1) if target.exists() else 0

    try:
        with _running(side, ground, name, connector) as (worker, began):
            return _stream(worker, began, ground, progress)
    finally:
        target.unlink(missing_ok=True)


def cold_start(side: str, ground: Ground) -> Figures:
    """From the start of the process to the first record in the topic."""
    small = ground.folder / "small.txt"
    if not small.exists():
        make_input(small, 10)
    with (
        _topic(ground, side, "cold-start") as topic,
        _end_offsets(ground.bootstrap, topic) as progress,
        _running(side, ground, topic, _source(topic, small)) as (worker, began),
    ):
        tree = ProcessTree(worker.pid)
        samples = sample_until(1, progress, tree, worker.is_alive, _START_S, every_s=0.01)
        return {"first_record_s": samples[-1].at_s - began, "cpu_s": samples[-1].cpu_s, "pss_mb": tree.pss_mb()}


def latency(side: str, ground: Ground) -> Figures:
    """From the append of a line to its arrival at a consumer of the topic, a line at a time, milliseconds."""
    with _topic(ground, side, "latency") as topic:
        file = ground.folder / f"{topic}.txt"
        file.write_text("")
        with _running(side, ground, topic, _source(topic, file)), _last_record(ground.bootstrap, topic) as next_value:
            taken = sorted(_times_of_appends(file, next_value))
    return {"p50_ms": taken[len(taken) // 2], "p99_ms": taken[len(taken) * 99 // 100], "most_ms": taken[-1]}


def _times_of_appends(file: Path, next_value: Callable[[], bytes | None]) -> Iterator[float]:
    """Lines at uneven moments, so that they meet no timer's beat; the first ones warm up."""
    for number in range(_APPENDS + _WARMING):
        time.sleep(0.02 + (number * 37 % 100) / 1000)
        began = time.monotonic()
        with file.open("a") as stream:
            stream.write(f"line {number}\n")
        deadline = began + _START_S
        while next_value() != f"line {number}".encode():
            if time.monotonic() > deadline:
                raise TimeoutError(f"line {number} did not arrive within {_START_S} s")
        if number >= _WARMING:
            yield (time.monotonic() - began) * 1000


@contextlib.contextmanager
def _last_record(bootstrap: str, topic: str) -> Iterator[Callable[[], bytes | None]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": f"bench-{topic}", "fetch.wait.max.ms": 10, "log_level": 2}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])

    def next_value() -> bytes | None:
        message = consumer.poll(1.0)
        return None if message is None or message.error() else message.value()

    try:
        yield next_value
    finally:
        consumer.close()


def idle_100(side: str, ground: Ground) -> Figures:
    """A hundred sources whose files do not grow: start, memory, CPU of ten quiet seconds, stop."""
    name = ground.next_name(side, "idle-100")
    connectors = []
    for number in range(100):
        file = ground.folder / f"{name}-{number}.txt"
        file.write_text("")
        connectors.append(_source(f"{name}-{number}", file))
    with _running(side, ground, name, *connectors) as (worker, began):
        wait = time.monotonic() + _START_S * 2
        while not _all_run(worker.url, len(connectors)):
            if not worker.is_alive() or time.monotonic() > wait:
                raise RuntimeError("a hundred connectors were not RUNNING in time")
            time.sleep(0.1)
        running_s = time.monotonic() - began
        time.sleep(_SETTLE_S)
        tree = ProcessTree(worker.pid)
        before, at = tree.cpu_s(), time.monotonic()
        time.sleep(_QUIET_S)
        cpu = (tree.cpu_s() - before) / (time.monotonic() - at)
        pss = tree.pss_mb()
        stop_began = time.monotonic()
        worker.stop()
        stop_s = time.monotonic() - stop_began
    return {"running_s": running_s, "pss_mb": pss, "cpu_percent": cpu * 100, "stop_s": stop_s}


def _all_run(url: str, count: int) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/connectors?expand=status", timeout=10) as answer:
            known = json.load(answer)
    except (OSError, ValueError):
        return False
    tasks = [task["state"] for one in known.values() for task in one["status"]["tasks"]]
    return len(tasks) == count and set(tasks) == {"RUNNING"}


CASES: dict[str, Callable[[str, Ground], Figures]] = {
    "file-to-topic": file_to_topic,
    "json-schemas": json_schemas,
    "json-schemaless": json_schemaless,
    "python-source": python_source,
    "topic-to-file": topic_to_file,
    "dlq-idle": dlq_idle,
    "cold-start": cold_start,
    "latency": latency,
    "idle-100": idle_100,
}

ONLY_OURS = frozenset({"python-source"})
"""Cases that Java Connect can not run."""


def _stream(worker: Side, began: float, ground: Ground, progress: Callable[[], int]) -> Figures:
    tree = ProcessTree(worker.pid)
    samples: list[Sample] = sample_until(ground.lines, progress, tree, worker.is_alive, ground.deadline_s)
    first = next(sample for sample in samples if sample.records)
    return {
        "records_per_s": steady_rate(samples),
        "cpu_us_per_record": cpu_us_per_record(samples),
        "first_record_s": first.at_s - began,
        "total_s": samples[-1].at_s - began,
        "pss_mb": tree.pss_mb(),
    }


def _source(topic: str, file: Path) -> dict[str, str]:
    return {
        "name": topic,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }


@contextlib.contextmanager
def _topic(ground: Ground, side: str, case: str) -> Iterator[str]:
    topic = ground.next_name(side, case)
    create_topic(ground.bootstrap, topic)
    try:
        yield topic
    finally:
        delete_topic(ground.bootstrap, topic)


@contextlib.contextmanager
def _end_offsets(bootstrap: str, topic: str) -> Iterator[Callable[[], int]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 2})
    part = TopicPartition(topic, 0)
    try:
        yield lambda: int(consumer.get_watermark_offsets(part, timeout=10)[1])
    finally:
        consumer.close()


@contextlib.contextmanager
def _running(side: str, ground: Ground, name: str, *connectors: dict[str, str]) -> Iterator[tuple[Side, float]]:
    worker = SIDES[side](ground.folder / name, ground.bootstrap, *connectors)
    try:
        yield worker, worker.start()
    except (RuntimeError, TimeoutError) as err:
        raise RuntimeError(f"{name}: {err}\n{worker.log_tail()}") from err
    finally:
        worker.stop()
        time.sleep(0.5)  # the broker writes and forgets: let it finish before the next run
