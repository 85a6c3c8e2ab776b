"""Micro bench of TableSink, one process, no Kafka: JSON without schema through JsonConverter into tables.

    python tests/bench/micro_tables.py --rows 1000000 --fetch 10000

Prints one JSON object: microseconds of CPU a row (all threads), rows a second, and of these how much the converter
takes, for each format; and the milliseconds of a commit of one row.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from typing import Any

from kconnect.api import RecordBatch, SinkRecord, TimestampType, TopicPartition
from kconnect.builtin.connectors.tables.table_sink import TableSinkTask
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.runtime.pipeline.conversion import Converters, FetchedBatch


def table_settings(kind: str, folder: str) -> dict[str, str]:
    if kind != "iceberg":
        return {"name": "bench", "table.format": kind, "table.path": f"{folder}/table"}
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}
    return {"name": "bench", "table.format": kind, **{f"table.catalog.{key}": value for key, value in catalog.items()}}


class Context:
    """A task's context in which nothing happens."""

    def offset(self, places: Any, offset: int | None = None) -> None: ...
    def put_within(self, timeout_ms: int) -> None: ...
    def request_commit(self) -> None: ...
    def errant_record_reporter(self) -> None:
        return None

    def is_closing(self) -> bool:
        return True

    def is_ending(self) -> bool:
        return False


def converters() -> Converters:
    key, value = JsonConverter(), JsonConverter()
    key.configure({"schemas.enable": "false"}, True)
    value.configure({"schemas.enable": "false"}, False)
    return Converters(key, value, SimpleHeaderConverter())


def fetched(rows: int, size: int) -> list[FetchedBatch]:
    values = [
        json.dumps(
            {"id": n, "name": f"customer {n % 5000}", "price": n / 8, "ok": n % 2 == 0, "country": "DE"}
        ).encode()
        for n in range(rows)
    ]
    return [
        FetchedBatch(
            "orders",
            0,
            range(start, min(start + size, rows)),
            None,
            values[start : start + size],
            [1_700_000_000_000 + start] * len(values[start : start + size]),
            TimestampType.CREATE_TIME,
            None,
        )
        for start in range(0, rows, size)
    ]


def give(task: TableSinkTask, batch: RecordBatch | list[SinkRecord]) -> None:
    if isinstance(batch, RecordBatch):
        task.put_batch(batch)
    else:
        task.put(batch)


def measure(settings: dict[str, str], batches: list[FetchedBatch], rows: int) -> dict[str, float]:
    made = converters()
    task = TableSinkTask()
    task.initialize(Context())
    task.start({**settings, "flush.ms": "60000"})
    at = TopicPartition("orders", 0)
    task.open([at])
    began, cpu = time.monotonic(), time.process_time()
    converting = 0.0
    for batch in batches:
        before = time.process_time()
        given = made.to_connect_batch(batch)
        converting += time.process_time() - before
        give(task, given)
    assert task.pre_commit({at: rows}) == {at: rows}
    used, took = time.process_time() - cpu, time.monotonic() - began
    singles = []
    for number in range(20):
        one = FetchedBatch(
            "orders", 0, [rows + number], None, batches[0].values[:1], [0], TimestampType.CREATE_TIME, None
        )
        before = time.monotonic()
        give(task, made.to_connect_batch(one))
        task.pre_commit({at: rows + number + 1})
        singles.append(time.monotonic() - before)
    task.stop()
    return {
        "us_cpu_a_row": round(used / rows * 1e6, 2),
        "us_converter": round(converting / rows * 1e6, 2),
        "rows_a_second": round(rows / took),
        "one_row_ms": round(sorted(singles)[len(singles) // 2] * 1000, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--fetch", type=int, default=10_000, help="records of one fetch")
    args = parser.parse_args()
    batches, results = fetched(args.rows, args.fetch), {}
    for kind in ("parquet", "delta", "iceberg"):
        with tempfile.TemporaryDirectory() as folder:
            results[kind] = measure(table_settings(kind, folder), batches, args.rows)
    found = {"python": sys.version.split()[0], "load": os.getloadavg()[0], **vars(args), "results": results}
    print(json.dumps(found, indent=2))  # noqa: T201 - its purpose
    return 0


if __name__ == "__main__":
    sys.exit(main())
