"""Cases of tables: topics into tables by TableSink, beside Structured Streaming with Spark's own Kafka jar."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Producer

from bench.ground import START_S, Ground, Metrics, made_topic, running
from bench.meter import ProcessTree, cpu_us_per_record, sample_until, steady_rate
from bench.plain_topics import TOPICS, texts
from bench.spark_side import spark_run
from kit.topics import create_topic, delete_topic, produce_lines

__all__ = [
    "filled_rows",
    "filled_table",
    "row",
    "rows_in",
    "table_delta",
    "table_latency",
    "table_parquet",
    "table_plain_topics",
    "table_sql",
    "times_of_rows",
]

_TOPIC = "rows"
_PARTITIONS = 2
_COUNTRIES = ("DE", "FR", "PL", "NL", "SE")
# So many commits that there is a steady rate between them
_COMMIT_ROWS = 50_000
# The latency case
_FLUSH_MS = 200
_ROWS, _WARMING = 60, 5


def table_parquet(side: str, ground: Ground) -> Metrics:
    """JSON rows of 80 bytes without schema, of two partitions, into Parquet files: by TableSink, and by Spark.

    Spark is Structured Streaming with its Kafka jar (4.2.0, the newest there is) and a schema that it is reported; bar:
    three times its rows/s, and 5 us of CPU a row.
    """
    return _table(side, ground, "parquet")


def table_delta(side: str, ground: Ground) -> Metrics:
    """The same into Delta Lake. Delta's jars do not run on this Spark, so Spark's side writes plain Parquet files."""
    return _table(side, ground, "delta")


def table_sql(side: str, ground: Ground) -> Metrics:
    """The same rows through SqlTransform, with a condition and a calculated field, into Parquet files."""
    name = ground.next_name(side, "table-sql")
    folder = ground.folder / f"{name}-table"
    query = "SELECT id, upper(country) AS country, amount * 2 AS twice, ts FROM records WHERE id >= 0"
    step = {"transforms": "sql", "transforms.sql.type": "SqlTransform", "transforms.sql.query": query}
    sink = _sink(name, filled_rows(ground), "parquet", folder) | step
    return filled_table(side, ground, sink | {"flush.rows": _commit_rows(ground)}, "parquet", folder)


def table_plain_topics(side: str, ground: Ground) -> Metrics:
    """Ten topics of JSON without schema as producers write them (plain_topics.py), each into a table of its own.

    Members are missing, null or of two kinds, and numbers beyond 64 bits; bar: 150,000 rows/s for all together.
    """
    name = ground.next_name(side, "table-plain-topics")
    folder = ground.folder / f"{name}-tables"
    count = ground.lines // len(TOPICS)
    topics = [f"{name}-{topic}" for topic in TOPICS]
    for topic, made in zip(TOPICS, topics, strict=True):
        create_topic(ground.bootstrap, made, partitions=1)
        produce_lines(ground.bootstrap, made, texts(topic, count))
    sink = _sink(name, ",".join(topics), "parquet", folder / "${topic}") | {"flush.rows": _commit_rows(ground)}
    counters = [rows_in("parquet", folder / topic) for topic in topics]
    try:
        with running(side, ground, name, sink) as (worker, began):
            tree, total = ProcessTree(worker.pid), count * len(topics)
            samples = sample_until(
                total, lambda: sum(rows() for rows in counters), tree, worker.is_alive, ground.deadline_s
            )
            committed = [sample for sample in samples if sample.records]
            return {
                "records_per_s": steady_rate(samples),
                "cpu_us_per_record": cpu_us_per_record(committed),
                "first_record_s": committed[0].at_s - began,
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for topic in topics:
            delete_topic(ground.bootstrap, topic)


def _commit_rows(ground: Ground) -> str:
    return str(min(_COMMIT_ROWS, ground.lines // 8))


def _table(side: str, ground: Ground, kind: str) -> Metrics:
    name = ground.next_name(side, f"table-{kind}")
    folder = ground.folder / f"{name}-table"
    sink = _sink(name, filled_rows(ground), kind, folder) | {"flush.rows": _commit_rows(ground)}
    return filled_table(side, ground, sink, kind, folder)


def filled_table(side: str, ground: Ground, sink: dict[str, str], kind: str, folder: Path) -> Metrics:
    """All rows of the topic into a table that is removed afterwards: by this sink, or by Spark into Parquet files."""
    try:
        if side == "spark":
            return spark_run(ground, "topic-to-parquet", topic=filled_rows(ground), path=str(folder))
        with running(side, ground, sink["name"], sink) as (worker, began):
            tree = ProcessTree(worker.pid)
            samples = sample_until(ground.lines, rows_in(kind, folder), tree, worker.is_alive, ground.deadline_s)
            # from a commit on: what is before the first belongs to rows that nobody has counted
            committed = [sample for sample in samples if sample.records]
            return {
                "records_per_s": steady_rate(samples),
                "cpu_us_per_record": cpu_us_per_record(committed),
                "first_record_s": committed[0].at_s - began,
                "pss_mb": tree.pss_mb(),
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table_latency(side: str, ground: Ground) -> Metrics:
    """From a row's way to Kafka to the moment when a reader of the table has it, less flush.ms; bar: 50 ms.

    A row at a time, into Parquet files and into Delta Lake by turns; flush.ms is 200.
    """
    metrics: Metrics = {}
    for kind in ("parquet", "delta"):
        with made_topic(ground, side, f"latency-{kind}") as topic:
            folder = ground.folder / f"{topic}-table"
            sink = _sink(topic, topic, kind, folder) | {"tasks.max": "1", "flush.ms": str(_FLUSH_MS)}
            with running(side, ground, topic, sink):
                times = times_of_rows(ground.bootstrap, topic, rows_in(kind, folder))
                taken = sorted(taken_ms - _FLUSH_MS for taken_ms in times)
        shutil.rmtree(folder, ignore_errors=True)
        metrics |= {f"{kind}_p50_ms": statistics.median(taken), f"{kind}_p99_ms": taken[len(taken) * 99 // 100]}
    return metrics


def times_of_rows(bootstrap: str, topic: str, rows: Callable[[], int]) -> list[float]:
    """Milliseconds from each row's sending, one at a time, until the table has it; the first ones warm up."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 2})
    taken = []
    for number in range(_ROWS + _WARMING):
        time.sleep(0.02 + (number * 37 % 100) / 1000)
        producer.produce(topic, row(number))
        began = time.monotonic()
        producer.flush(START_S)
        while rows() <= number:
            if time.monotonic() > began + (START_S if number else 3 * START_S):  # the first waits for the worker
                raise TimeoutError(f"row {number} was not in the table in time")
            time.sleep(0.001)
        if number >= _WARMING:
            taken.append((time.monotonic() - began) * 1000)
    return taken


def filled_rows(ground: Ground) -> str:
    """The topic with the rows; made when the first case needs it."""
    if not ground.has_rows:
        create_topic(ground.bootstrap, _TOPIC, partitions=_PARTITIONS)
        produce_lines(ground.bootstrap, _TOPIC, map(row, range(ground.lines)))
        ground.has_rows = True
    return _TOPIC


def row(number: int) -> bytes:
    """JSON of some 80 bytes."""
    return b'{"id":%d,"user":"user-%05d","amount":%d.%02d,"country":"%s","ts":%d}' % (
        number,
        number % 99_991,
        number % 977,
        number % 99 + 1,
        _COUNTRIES[number % 5].encode(),
        1_790_000_000_000 + number,
    )


def rows_in(kind: str, folder: Path) -> Callable[[], int]:
    """How many rows a reader of the table has now; each call looks at new files only."""
    known: dict[Path, int] = {}

    def parquet(path: Path) -> int:
        return int(pq.read_metadata(path).num_rows)

    def count() -> int:
        found = folder.glob("*.parquet") if kind == "parquet" else (folder / "_delta_log").glob("*.json")
        for path in found:
            if path not in known:
                known[path] = parquet(path) if kind == "parquet" else _added_rows(path.read_text("utf-8"))
        return sum(known.values())

    return count


def _added_rows(commit: str) -> int:
    actions: list[dict[str, Any]] = [json.loads(line) for line in commit.splitlines()]
    return sum(json.loads(action["add"]["stats"])["numRecords"] for action in actions if "add" in action)


def _sink(name: str, topic: str, kind: str, folder: Path) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "TableSink",
        "tasks.max": str(_PARTITIONS),
        "topics": topic,
        "table.format": kind,
        "table.path": str(folder),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
