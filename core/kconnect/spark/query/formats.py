"""What is known of Spark's formats: where they come from, whether a batch written twice counts once. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format, by the name that spark.format has."""

    packages: tuple[tuple[str, str], ...] = ()
    """What brings it: lines of Spark (4.2), and Maven coordinates for spark.jars.packages. Empty: Spark itself."""
    is_exactly_once: bool = False
    """A batch that is written again after a crash counts once: the table remembers the number of the last one."""
    merges: bool = False
    """Has MERGE INTO."""
    widens: bool = False
    """Each file has columns of its own, so that those of later ones may be wider."""
    tells_types: bool = False
    """Each file says which columns it has, of which types."""
    is_table: bool = False
    """What is written is a table with columns of its own, which rows do not change."""
    conf: tuple[tuple[str, str], ...] = ()
    """Settings of the worker without which it does not work."""


_DELTA_CONF: Final = (
    ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
    ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
)
FORMATS: Final[dict[str, Format]] = {
    "parquet": Format(widens=True, tells_types=True),
    "orc": Format(widens=True, tells_types=True),
    "json": Format(widens=True),
    "csv": Format(widens=True),
    "text": Format(widens=True),
    "xml": Format(widens=True),
    "jdbc": Format(is_table=True),
    "avro": Format(
        packages=tuple((line, "org.apache.spark:spark-avro_2.13:4.1.1") for line in ("4.1", "4.2", "4.3")),
        widens=True,
        tells_types=True,
    ),
    "kafka": Format(
        packages=(
            ("4.1", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"),
            *((line, "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0") for line in ("4.2", "4.3")),
        )
    ),
    "delta": Format(
        packages=tuple((line, f"io.delta:delta-spark_{line}_2.13:4.4.0") for line in ("4.1", "4.2")),
        is_exactly_once=True,
        merges=True,
        is_table=True,
        conf=_DELTA_CONF,
    ),
    "iceberg": Format(
        packages=(("4.1", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"),),
        is_exactly_once=True,
        merges=True,
        is_table=True,
    ),
}


def known(name: str) -> Format:
    """What is known of a format; for one that is not in the list, nothing is promised."""
    return FORMATS.get(name.lower(), Format())


def package_of(name: str, spark_version: str) -> str | None:
    """Maven coordinates of what brings a format to this Spark; None if there is nothing that works with it."""
    line = ".".join(spark_version.split(".")[:2])
    return dict(known(name).packages).get(line)


def missing(name: str, spark_version: str) -> str | None:
    """What to do about a format that this Spark lacks, in sentences; None if it is not known."""
    found = known(name)
    if not found.packages:
        return None
    package = package_of(name, spark_version)
    if package is None:
        lines = " and ".join(line for line, _ in found.packages)
        return (
            f"Spark {spark_version} has no format {name}, and no jar of it works with this version: there is one for "
            f"Spark {lines}. TableSink writes delta and iceberg without Spark, in any version"
        )
    more = "".join(f", {key}={value}" for key, value in found.conf)
    return (
        f"Spark has no format {name} without its jar. Set spark.jars.packages={package}{more} "
        "in the worker's properties, or the jar's path in spark.jars, and start it again"
    )


def guarantee_of(name: str, mode: str) -> str:
    """What a sink promises, in words: for validate, the log and the docs."""
    found = known(name)
    if found.is_exactly_once or (mode == "merge" and found.merges):
        return "exactly once"
    return "at least once"
