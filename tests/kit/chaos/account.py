"""What came of it, counted: numbers in the topic, lines of the sink, offsets committed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kit.pace import ample_s

__all__ = ["Account", "Delivered", "account_of", "delivered", "sink_lines"]

_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """One record of the topic."""

    partition: int
    task: int
    seqno: int
    offset: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """`lost` and `duplicates` are numbers of the source, `sink_lost` records of the topic the sink never had."""

    records: int
    lost: int
    duplicates: int
    sink_lines: int
    sink_lost: int
    sink_duplicates: int
    longest_gap_s: float
    """In which no task of the source brought anything."""
    longest_task_gap_s: float
    """In which one of the tasks brought nothing."""
    examples: list[str] = field(default_factory=list)
    """The first numbers that are missing."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def account_of(
    records: Iterable[Delivered], sunk: Counter[tuple[int, int]], committed: Mapping[int, int], tasks: int
) -> Account:
    """`sunk`: how often the sink had the record of (task, offset). `committed`: the seqno committed for each task."""
    records = list(records)
    examples, lost, duplicates = [], 0, 0
    for task in range(tasks):
        numbers = Counter(record.seqno for record in records if record.task == task)
        end = max(max(numbers, default=-1), committed.get(task, -1)) + 1
        missing = [number for number in range(end) if number not in numbers]
        lost += len(missing)
        examples += [f"source task {task}: {number} of {end}" for number in missing[:3]]
        duplicates += sum(numbers.values()) - len(numbers)
    places = {(record.task, record.offset) for record in records}
    unseen = sorted(places - sunk.keys())
    examples += [f"sink: offset {offset} of source task {task}" for task, offset in unseen[:3]]
    return Account(
        records=len(records),
        lost=lost,
        duplicates=duplicates,
        sink_lines=sum(sunk.values()),
        sink_lost=len(unseen),
        sink_duplicates=sum(sunk[place] - 1 for place in places if place in sunk),
        longest_gap_s=_longest_gap_s(record.time_ms for record in records),
        longest_task_gap_s=max(
            (_longest_gap_s(record.time_ms for record in records if record.task == task) for task in range(tasks)),
            default=0.0,
        ),
        examples=examples,
    )


def delivered(bootstrap: str, topic: str, *, committed_only: bool) -> list[Delivered]:
    """All records of the topic; with `committed_only` as `read_committed` shows them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-account",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "log_level": 2,
        }
    )
    found: list[Delivered] = []
    try:
        parts = sorted(consumer.list_topics(topic, timeout=ample_s(_PATIENCE_S)).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, part, 0) for part in parts])
        open_parts = set(parts)
        while open_parts:
            messages = consumer.consume(10_000, timeout=_PATIENCE_S)
            assert messages, f"{topic}: nothing came for {_PATIENCE_S:g} s, {sorted(open_parts)} are not at their ends"
            for message in messages:
                if message.error() is not None:
                    open_parts.discard(message.partition())  # its end
                    continue
                found.append(
                    Delivered(
                        int(message.partition()),
                        int(message.key()),
                        int(message.value()),
                        int(message.offset()),
                        int(message.timestamp()[1]),
                    )
                )
    finally:
        consumer.close()
    return found


def sink_lines(file: Path) -> Counter[tuple[int, int]]:
    """How often the sink was given the record of (source task, offset). What a kill cut off in mid-line is no line."""
    found: Counter[tuple[int, int]] = Counter()
    if not file.exists():
        return found
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if row := _row(line):
                found[row["task"], row["offset"]] += 1
    return found


def _row(line: str) -> dict[str, Any] | None:
    """A line of a put. Behind an unfinished line, which a kill left, another task's may stand."""
    begin = line.rfind('{"name"')
    if begin < 0 or not line.endswith("}\n"):
        return None
    row: dict[str, Any] = json.loads(line[begin:])
    return None if row.get("flushed") else row


def _longest_gap_s(times_ms: Iterable[int]) -> float:
    ordered = sorted(times_ms)
    return max((later - sooner for sooner, later in pairwise(ordered)), default=0) / 1000
