"""Where tasks run: slots in a Spark application, and the link between them and their worker.

The only importer of pyspark (and only inside functions, so that importing this package is cheap). Implements
herder.interface.Launcher; slots host tasks with pipeline.TaskHost. Start reading at launcher.py, then slot_pool.py
(worker side of a slot), entry.py and slot.py (executor side); executors.py and shipping.py are for clusters.

Importing this package alone loads nothing else: an executor's Python that lacks a package must get as far as entry.py,
which says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kconnect.spark.launcher import SparkLauncher
    from kconnect.spark.settings import SparkSettings

__all__ = ["SparkLauncher", "SparkSettings", "register"]


def register(spark: SparkSession) -> None:
    """Make `format("kconnect")` known to a Spark session: any Python connector to read, to stream and to write with."""
    from kconnect.spark.datasource.format import register as register_format

    register_format(spark)


def __getattr__(name: str) -> Any:  # whatever the name stands for
    if name == "SparkLauncher":
        from kconnect.spark.launcher import SparkLauncher

        return SparkLauncher
    if name == "SparkSettings":
        from kconnect.spark.settings import SparkSettings

        return SparkSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
