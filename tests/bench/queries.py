"""Cases of Spark's queries: SparkSink and SparkSource beside Spark alone, and `format("kconnect")`."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

from bench.ground import Ground, Metrics, end_offsets, made_topic, running, stream
from bench.meter import ProcessTree
from bench.spark_side import spark_run
from bench.tables import filled_rows, filled_table, row, rows_in, times_of_rows
from bench.waiting import all_run

__all__ = ["format_lines", "query_latency", "spark_source", "table_query"]

# What keeps the two slots busy: dicts from Python that are dropped, 8 us each
_BUSY = 2
_ENDLESS = 10**9
_SCHEMA = "id bigint, user string, amount double, country string, ts bigint"
_FILES = 20


def table_query(side: str, ground: Ground) -> Metrics:
    """The rows of table-parquet by SparkSink, which writes them as a query of Spark, beside Spark alone.

    Batches of 250,000 rows, so that there is a steady rate between them.
    """
    name = ground.next_name(side, "table-query")
    folder = ground.folder / f"{name}-table"
    sink = _query_sink(name, filled_rows(ground), folder) | {"spark.max.records": str(min(250_000, ground.lines // 8))}
    return filled_table(side, ground, sink, "parquet", folder)


def query_latency(side: str, ground: Ground) -> Metrics:
    """From a row's way to Kafka to the moment when a reader has it in SparkSink's files; bar: 500 ms.

    A row at a time, each a batch of its own, beside two slots that are busy.
    """
    name = ground.next_name(side, "query-latency")
    folder = ground.folder / f"{name}-table"
    busy = [_busy_source(f"{name}-busy-{number}") for number in range(_BUSY)]
    try:
        with made_topic(ground, side, name) as topic:
            sink = _query_sink(name, topic, folder) | {"spark.trigger.ms": "0"}
            with running(side, ground, name, sink, *busy) as (worker, _):
                taken = sorted(times_of_rows(ground.bootstrap, topic, rows_in("parquet", folder)))
                if not all_run(worker.url, 1 + _BUSY):
                    raise RuntimeError("not every connector runs")
                pss = ProcessTree(worker.pid).pss_mb()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"row_p50_ms": statistics.median(taken), "row_p99_ms": taken[len(taken) * 99 // 100], "pss_mb": pss}


def spark_source(side: str, ground: Ground) -> Metrics:
    """Rows of Parquet files into a topic as JSON, by SparkSource and by Spark's own Kafka sink; bar: as many rows/s."""
    files = ground.folder / "rows-files"
    if not files.exists():
        _write_files(files, ground.lines)
    with made_topic(ground, side, "spark-source") as topic, end_offsets(ground.bootstrap, topic) as progress:
        if side == "spark":
            return spark_run(ground, "files-to-topic", topic=topic, path=str(files))
        source = {
            "name": topic,
            "connector.class": "SparkSource",
            "topic": topic,
            "spark.format": "parquet",
            "spark.options.path": str(files),
            "spark.schema": _SCHEMA,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        with running(side, ground, topic, source) as (worker, began):
            return stream(worker, began, ground, progress)


def _write_files(folder: Path, lines: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    each = -(-lines // _FILES)
    for first in range(0, lines, each):
        rows = pa.Table.from_pylist([json.loads(row(number)) for number in range(first, min(first + each, lines))])
        pq.write_table(rows, folder / f"{first:010d}.parquet")


def format_lines(side: str, ground: Ground) -> Metrics:
    """`readStream.format("kconnect")` of a file of lines, written nowhere (`noop`); bar: 250,000 rows/s."""
    return spark_run(ground, "format-lines", path=str(ground.input_file))


def _query_sink(name: str, topic: str, folder: Path) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "SparkSink",
        "topics": topic,
        "spark.format": "parquet",
        "spark.options.path": str(folder),
        "spark.schema": _SCHEMA,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def _busy_source(name: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "NumbersSource",
        "tasks.max": "1",
        "topic": name,
        "count": str(_ENDLESS),
        "transforms": "insert,drop",
        "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.insert.static.field": "source",
        "transforms.insert.static.value": "bench",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
    }
