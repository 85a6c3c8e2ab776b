"""What all cases share: the broker and its topics, the input, a worker that runs, its metrics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, TopicPartition

from bench.meter import ProcessTree, Sample, cpu_us_per_record, sample_until, steady_rate
from bench.sides import SIDES, Side
from kit.topics import create_topic, delete_topic, produce_lines
from kit.waiting import eventually

__all__ = [
    "LINE_BYTES",
    "START_S",
    "Ground",
    "Metrics",
    "end_offsets",
    "file_source",
    "made_topic",
    "make_input",
    "running",
    "stream",
]

LINE_BYTES = 100
# Java moves 0.27 M records a second on 2 cores; a run that is ten times slower than that is no result.
_SLOWEST_PER_S = 27_000
START_S = 60.0

Metrics: TypeAlias = dict[str, float]


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
    has_rows: bool = False
    has_sql_rows: bool = False
    has_mirrored: bool = False
    count: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of our worker, beside those of all."""

    @property
    def deadline_s(self) -> float:
        return START_S + self.lines / _SLOWEST_PER_S

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


def stream(
    worker: Side,
    began: float,
    ground: Ground,
    progress: Callable[[], int],
    count: int | None = None,
    deadline_s: float | None = None,
) -> Metrics:
    """The metrics of moving `count` records within `deadline_s`; of the input's lines if nothing else is said."""
    tree = ProcessTree(worker.pid)
    samples: list[Sample] = sample_until(
        count or ground.lines, progress, tree, worker.is_alive, deadline_s or ground.deadline_s
    )
    first = next(sample for sample in samples if sample.records)
    return {
        "records_per_s": steady_rate(samples),
        "cpu_us_per_record": cpu_us_per_record(samples),
        "first_record_s": first.at_s - began,
        "total_s": samples[-1].at_s - began,
        "pss_mb": tree.pss_mb(),
    }


def file_source(topic: str, file: Path) -> dict[str, str]:
    return {
        "name": topic,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }


@contextlib.contextmanager
def made_topic(ground: Ground, side: str, case: str) -> Iterator[str]:
    topic = ground.next_name(side, case)
    create_topic(ground.bootstrap, topic)
    try:
        yield topic
    finally:
        delete_topic(ground.bootstrap, topic)


@contextlib.contextmanager
def end_offsets(bootstrap: str, topic: str) -> Iterator[Callable[[], int]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 2})
    part = TopicPartition(topic, 0)
    try:
        # a broker under load may not know a new topic yet
        eventually(lambda: 0 in consumer.list_topics(topic, 10).topics[topic].partitions, 20, f"{topic} is known")
        yield lambda: int(consumer.get_watermark_offsets(part, timeout=10)[1])
    finally:
        consumer.close()


@contextlib.contextmanager
def running(
    side: str,
    ground: Ground,
    name: str,
    *connectors: dict[str, str],
    env: Mapping[str, str] | None = None,
    plugins: Path | None = None,
) -> Iterator[tuple[Side, float]]:
    worker = SIDES[side](
        ground.folder / name, ground.bootstrap, *connectors, env=env, plugins=plugins, settings=ground.settings
    )
    try:
        yield worker, worker.start()
    except (RuntimeError, TimeoutError) as err:
        raise RuntimeError(f"{name}: {err}\n{worker.log_tail()}") from err
    finally:
        worker.stop()
        time.sleep(0.5)  # the broker writes and forgets: let it finish before the next run
