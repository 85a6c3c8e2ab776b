"""What really runs: records as they come out at the far end, counted by somebody who asks no worker."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

__all__ = ["Flow", "Task"]

Task = tuple[str, int]
"""Connector and number."""


class Flow:
    """Reads topics to which VerifiableSources write, and the file of a VerifiableSink. A context manager.

    Threads: its own reads; `count` and `last_at` may be asked from any.
    """

    def __init__(self, bootstrap: str, sources: Mapping[str, str], sink: str, journal: Path, partitions: int) -> None:
        """`sources`: the connector that writes to each topic."""
        self._sources, self._sink, self._journal = sources, sink, journal
        self._partitions = partitions
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": "outages-flow",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 2_000,
            "log_level": 0,
        }
        self._lock = threading.Lock()  # guards the two below
        self._counts: Counter[Task] = Counter()
        self._last_at: dict[Task, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outages-flow")

    def count(self, task: Task) -> int:
        with self._lock:
            return self._counts[task]

    def counts(self) -> Counter[Task]:
        with self._lock:
            return Counter(self._counts)

    def last_at(self, task: Task) -> float:
        """When (monotonic) the last record of a task came; minus infinity before the first."""
        with self._lock:
            return self._last_at.get(task, float("-inf"))

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(self._config)
        try:
            parts = range(self._partitions)
            consumer.assign([TopicPartition(topic, part, 0) for topic in self._sources for part in parts])
            read_to = 0
            while not self._stop.is_set():
                found: Counter[Task] = Counter()
                for message in consumer.consume(1_000, timeout=0.2):
                    if message.error() is None:
                        found[self._sources[message.topic()], int(message.key())] += 1
                read_to = self._read_journal(read_to, found)
                self._note(found)
        finally:
            consumer.close()

    def _read_journal(self, read_to: int, found: Counter[Task]) -> int:
        """Whole lines from there on. What a kill cut off in mid-line is no line."""
        if not self._journal.exists():
            return 0
        with self._journal.open("rb") as file:
            file.seek(read_to)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        for line in whole.splitlines():
            begin = line.rfind(b'{"name"')
            if begin >= 0 and line.endswith(b"}") and b'"flushed"' not in line:
                found[self._sink, json.loads(line[begin:])["sinkTask"]] += 1
        return read_to + len(whole)

    def _note(self, found: Counter[Task]) -> None:
        at = time.monotonic()
        with self._lock:
            self._counts.update(found)
            self._last_at.update(dict.fromkeys(found, at))
