"""format("kconnect") with the lines of a file: rows a second and CPU a row, streamed, and written by a sink.

    python tests/bench/spark_format.py [MILLIONS_OF_ROWS]

First come 1,000 rows into a table and into objects, the first write after Spark is up and one more; bar: 2 s.

Lines have 99 B. Rows a second count from start() to the end of the last batch, so they include Spark's own start of a
query (1-3 s); CPU is that of driver, JVM and Python processes together, planner and executors included.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

_LINE = "x" * 80


def main() -> None:
    rows = int(float(sys.argv[1] if len(sys.argv) > 1 else 2) * 1_000_000)
    with tempfile.TemporaryDirectory(prefix="kconnect-bench-") as name:
        folder = Path(name)
        with (folder / "lines").open("w") as file:
            file.writelines(f"line number {number:08d} {_LINE}\n"[-99:] for number in range(rows))
        spark = _session(folder)
        try:
            for number in (1, 2):
                for name, sink in _small_sinks(folder / f"small-{number}"):
                    _measured(f"1,000 rows, {name}, {number}", 1000, partial(_written_small, spark, sink))
            source = {"connector.class": "FileStreamSource", "file": f"{folder}/lines", "topic": "t"}
            _measured("warm-up", rows, lambda: _streamed(spark, source, folder / "0", "noop"))
            _measured("readStream -> noop", rows, lambda: _streamed(spark, source, folder / "1", "noop"))
            _measured("readStream -> parquet", rows, lambda: _streamed(spark, source, folder / "2", "parquet"))
            bytes_of = {**source, "value.converter": "StringConverter"}
            _measured("readStream, bytes -> noop", rows, lambda: _streamed(spark, bytes_of, folder / "3", "noop"))
            _measured("read -> FileStreamSink", rows, lambda: _written(spark, source, folder / "out"))
        finally:
            spark.stop()


def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    import kconnect.spark

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "1g").config("spark.local.dir", str(folder / "spark")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    kconnect.spark.register(spark)
    return spark


def _small_sinks(folder: Path) -> list[tuple[str, dict[str, str]]]:
    return [
        ("TableSink", {"connector.class": "TableSink", "table.format": "parquet", "table.path": f"{folder}/table"}),
        ("ObjectSink", {"connector.class": "ObjectSink", "object.url": f"file://{folder}/objects"}),
    ]


def _written_small(spark: Any, sink: dict[str, str]) -> None:
    rows = spark.range(1000).selectExpr("id", "concat('customer ', id) AS name", "id / 4 AS price")
    rows.write.format("kconnect").options(**sink, topics="t").mode("append").save()


def _streamed(spark: Any, source: dict[str, str], folder: Path, sink: str) -> None:
    stream = spark.readStream.format("kconnect").options(**source).load().select("value")
    writer = stream.writeStream.format(sink).option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.option("path", f"{folder}/table").trigger(availableNow=True).start()
    query.awaitTermination()


def _written(spark: Any, source: dict[str, str], out: Path) -> None:
    found = spark.read.format("kconnect").options(**source).load().select("value")
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": "t"}
    found.write.format("kconnect").options(**sink).mode("append").save()


def _measured(name: str, rows: int, run: Callable[[], None]) -> None:
    began_s, cpu_s = time.perf_counter(), _cpu_s()
    run()
    took_s, cpu_s = time.perf_counter() - began_s, _cpu_s() - cpu_s
    load = os.getloadavg()[0]
    message = (
        f"{took_s:6.2f} s {rows / took_s:10,.0f} rows/s  {cpu_s / rows * 1e6:5.2f} us CPU a row  (load {load:.1f})"
    )
    sys.stdout.write(f"{name:28} {message}\n")
    sys.stdout.flush()


def _cpu_s() -> float:
    found = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        found += times.user + times.system + times.children_user + times.children_system
    return found


if __name__ == "__main__":
    main()
