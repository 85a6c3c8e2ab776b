"""What works of one format on the Spark of this interpreter; run by run.py, in an environment of its own.

    python probe.py FORMAT PACKAGE FOLDER

Prints a line of JSON for each step: its name, and what went wrong or null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any


def main(name: str, package: str, folder: str) -> None:
    session = _session(name, package, folder)
    try:
        for step, run in _steps(session, name, f"{folder}/{name}").items():
            problem = None
            try:
                run()
            except Exception as error:  # what Spark and jars raise share no root
                problem = " ".join(str(error).split())[:300] or type(error).__name__
            print(json.dumps({"step": step, "problem": problem}), flush=True)  # noqa: T201  # the answer
    finally:
        session.stop()


def _session(name: str, package: str, folder: str) -> Any:
    from pyspark.sql import SparkSession

    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.jars.ivy": f"{folder}/ivy",
    }
    if package != "-":
        conf["spark.jars.packages"] = package
    if name == "delta":
        conf["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if name == "iceberg":
        conf["spark.sql.extensions"] = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        conf["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
        conf["spark.sql.catalog.lake.type"] = "hadoop"
        conf["spark.sql.catalog.lake.warehouse"] = f"{folder}/lake"
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _steps(session: Any, name: str, path: str) -> dict[str, Callable[[], None]]:
    rows = session.range(10).selectExpr("id", "cast(id as string) as text")
    if name == "delta":
        return _delta(session, rows, path)
    if name == "iceberg":
        return _iceberg(session, rows)

    def write() -> None:
        given = rows.select("text") if name == "text" else rows
        given.write.format(name).mode("append").options(**options).save(path)

    options = {"rowTag": "row"} if name == "xml" else {}
    read = session.read.format(name).options(**options)
    return {"append": write, "read": lambda: _expect(read.load(path).count(), 10)}


def _delta(session: Any, rows: Any, path: str) -> dict[str, Callable[[], None]]:
    def count() -> int:
        found: int = session.read.format("delta").load(path).count()
        return found

    def append(batch: int, expected: int) -> None:
        writer = rows.write.format("delta").mode("append").option("txnAppId", "a").option("txnVersion", str(batch))
        writer.save(path)
        _expect(count(), expected)

    def merge() -> None:
        rows.createOrReplaceTempView("batch")
        session.sql(
            f"MERGE INTO delta.`{path}` t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.text = 'x' "
            "WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, s.text)"
        )
        _expect(session.read.format("delta").load(path).where("text = 'x'").count(), 20)

    def stream() -> None:
        reader = session.readStream.format("delta").option("ignoreChanges", "true").load(path)
        _run_to_end(reader.writeStream.format("noop"))

    return {
        "append": lambda: append(1, 10),
        "a batch that comes again": lambda: append(1, 10),
        "the next batch": lambda: append(2, 20),
        "merge": merge,
        "a new column": lambda: (
            rows.withColumn("n", rows.id).write.format("delta").mode("append").option("mergeSchema", "true").save(path)
        ),
        "readStream": stream,
    }


def _iceberg(session: Any, rows: Any) -> dict[str, Callable[[], None]]:
    table, mark = "lake.db.t", "snapshot-property.kconnect.batch"

    def append(batch: int) -> None:
        rows.write.format("iceberg").mode("append").option(mark, str(batch)).saveAsTable(table)

    def read_mark() -> None:
        found = session.sql(f"SELECT max(cast(summary['kconnect.batch'] AS bigint)) FROM {table}.snapshots").collect()
        _expect(found[0][0], 2)

    def stream() -> None:
        _run_to_end(session.readStream.format("iceberg").load(table).writeStream.format("noop"))

    def merge() -> None:
        rows.createOrReplaceTempView("batch")
        session.sql(
            f"MERGE INTO {table} t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.text = 'x' "
            "WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, s.text)"
        )

    return {
        "append": lambda: append(1),
        "the next batch": lambda: append(2),
        "the number of the last batch": read_mark,
        "readStream": stream,
        "merge": merge,
    }


def _run_to_end(writer: Any) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    if (error := query.exception()) is not None:
        raise error


def _expect(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{found} instead of {expected}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
