"""What is known of Spark's formats: where they come from, whether a batch written twice counts once. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format, by the name that spark.format has."""

    package: str | None = None
    """What brings it: Maven coordinates for spark.jars.packages. None: Spark itself."""
    is_exactly_once: bool = False
    """A batch that is written again after a crash counts once: the table remembers the number of the last one."""
    merges: bool = False
    """Has MERGE INTO."""
    conf: tuple[tuple[str, str], ...] = ()
    """Settings of the worker without which it does not work."""


_DELTA_CONF: Final = (
    ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
    ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
)
FORMATS: Final[dict[str, Format]] = {
    "parquet": Format(),
    "orc": Format(),
    "json": Format(),
    "csv": Format(),
    "text": Format(),
    "xml": Format(),
    "jdbc": Format(),
    "avro": Format(package="org.apache.spark:spark-avro_2.13:{spark}"),
    "kafka": Format(package="org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"),
    "delta": Format(
        package="io.delta:delta-spark_{spark_line}_2.13:4.4.0", is_exactly_once=True, merges=True, conf=_DELTA_CONF
    ),
    "iceberg": Format(
        package="org.apache.iceberg:iceberg-spark-runtime-{spark_line}_2.13:1.12.0", is_exactly_once=True, merges=True
    ),
}


def known(name: str) -> Format:
    """What is known of a format; for one that is not in the list, nothing is promised."""
    return FORMATS.get(name.lower(), Format())


def package_of(name: str, spark_version: str) -> str | None:
    """Maven coordinates of what brings a format to this Spark; None if it is not known."""
    package = known(name).package
    line = ".".join(spark_version.split(".")[:2])
    return None if package is None else package.format(spark=spark_version, spark_line=line)


def guarantee_of(name: str, mode: str) -> str:
    """What a sink promises, in words: for validate, the log and the docs."""
    found = known(name)
    if found.is_exactly_once or (mode == "merge" and found.merges):
        return "exactly once"
    return "at least once"
