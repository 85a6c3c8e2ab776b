"""Cases of Spark's queries: SparkSink and SparkSource beside Spark alone, and `format("kconnect")`."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from bench.ground import Figures, Ground, made_topic, running
from bench.meter import ProcessTree
from bench.spark_side import spark_run
from bench.tables import filled_rows, filled_table, rows_in, times_of_rows
from bench.waiting import all_run

__all__ = ["format_lines", "query_latency", "table_query"]

# What keeps the two slots busy: dicts from Python that are dropped, 8 us each
_BUSY = 2
_ENDLESS = 10**9


def table_query(side: str, ground: Ground) -> Figures:
    """The rows of table-parquet by SparkSink, which writes them as a query of Spark, beside Spark alone.

    Batches of 250,000 rows, so that there is a steady rate between them.
    """
    name = ground.next_name(side, "table-query")
    folder = ground.folder / f"{name}-table"
    sink = _query_sink(name, filled_rows(ground), folder) | {"spark.max.records": str(min(250_000, ground.lines // 8))}
    return filled_table(side, ground, sink, "parquet", folder)


def query_latency(side: str, ground: Ground) -> Figures:
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


def format_lines(side: str, ground: Ground) -> Figures:
    """`readStream.format("kconnect")` of a file of lines, written nowhere (`noop`); bar: 250,000 rows/s."""
    return spark_run(ground, "format-lines", path=str(ground.input_file))


def _query_sink(name: str, topic: str, folder: Path) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "SparkSink",
        "topics": topic,
        "spark.format": "parquet",
        "spark.options.path": str(folder),
        "spark.schema": "id bigint, user string, amount double, country string, ts bigint",
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
