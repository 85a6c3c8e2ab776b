"""A Spark session of this process for a file of tests, and its end: session, JVM and what pyspark keeps of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kconnect.java.devbroker import cache_folder
from kconnect.java.installed import find_java
from kconnect.spark.jvm import FAST_FLAGS, spark_archive
from kit.pace import ended

__all__ = ["local_session", "session_settings"]


def session_settings() -> dict[str, str]:
    """Of a session that starts quickly: its JVM has the flags and the class archive of a worker's."""
    archive = spark_archive(cache_folder(), find_java("Spark in tests")).flags()
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join([*FAST_FLAGS, *archive]),
    }


@contextmanager
def local_session(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """`local[2]`, quiet, with `format("kconnect")` registered and nothing left of it afterwards."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import kconnect.spark

    conf = {
        **session_settings(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        **(settings or {}),
    }
    before = os.environ.pop("PYSPARK_SUBMIT_ARGS", None)
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        kconnect.spark.register(spark)
        yield spark
    finally:
        gateway = SparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        ended(gateway.proc, 20)
        SparkContext._gateway = SparkContext._jvm = None
        if before is not None:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before
