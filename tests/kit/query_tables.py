"""SparkSink into Delta and Iceberg tables on a Spark that their jars run on, and readers that know nothing of us."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

from kconnect.spark.query.formats import package_of

__all__ = ["EXTENSIONS", "count_query_rows", "read_query_table", "sink_settings", "spark_settings", "table_formats"]

# What a catalog of Iceberg keeps its tables in; pyiceberg reads the same file
_SQLITE = "org.xerial:sqlite-jdbc:3.54.1.0"
EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def table_formats() -> list[str]:
    """Those of both whose jars run on the Spark of this interpreter."""
    return [name for name in EXTENSIONS if package_of(name, pyspark.__version__) is not None]


def spark_settings(folder: Path) -> dict[str, str]:
    """What a worker needs for both: jars by their Maven coordinates, a catalog in a folder."""
    formats = table_formats()
    packages = [package_of(name, pyspark.__version__) or "" for name in formats]
    settings = {
        "spark.jars.ivy": os.environ.get("KCONNECT_IVY", str(folder / "ivy")),
        "spark.sql.extensions": ",".join(EXTENSIONS[name] for name in formats),
        # The first start fetches them
        "kconnect.slot.start.timeout.ms": "600000",
    }
    if "delta" in formats:
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if "iceberg" in formats:
        packages.append(_SQLITE)
        prefix = "spark.sql.catalog.lake"
        catalog = _catalog(folder)
        catalog.create_namespace_if_not_exists("db")
        catalog.close()
        settings |= {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000",
            f"{prefix}.jdbc.schema-version": "V1",
            f"{prefix}.warehouse": str(folder / "lake"),
        }
    return settings | {"spark.jars.packages": ",".join(packages)}


def sink_settings(kind: str, folder: Path, table: str, **more: str) -> dict[str, str]:
    """A SparkSink into a table; keywords with `_` become keys with `.`."""
    where = {"spark.options.path": str(folder / table)} if kind == "delta" else {"spark.table": f"lake.db.{table}"}
    return {
        "connector.class": "SparkSink",
        "spark.format": kind,
        "spark.trigger.ms": "200",
        "delivery.guarantee": "exactly_once",
        **where,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def read_query_table(kind: str, folder: Path, table: str) -> pa.Table:
    """All rows, by deltalake or pyiceberg. Shape: no rows and columns without a table."""
    if kind == "delta":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return pa.table(DeltaTable(str(folder / table)).to_pyarrow_table())
        except TableNotFoundError:
            return pa.table({})
    from pyiceberg.exceptions import NoSuchTableError

    catalog = _catalog(folder)
    try:
        return catalog.load_table(f"db.{table}").scan().to_arrow()
    except NoSuchTableError:
        return pa.table({})
    finally:
        catalog.close()


def count_query_rows(kind: str, folder: Path, table: str) -> int:
    """How many rows it has, by what its files say of themselves: a look that costs little, again and again."""
    if kind == "delta":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(str(folder / table)).count()
        except TableNotFoundError:
            return 0
    from pyiceberg.exceptions import NoSuchTableError

    catalog = _catalog(folder)
    try:
        return int(catalog.load_table(f"db.{table}").scan().count())
    except NoSuchTableError:
        return 0
    finally:
        catalog.close()


def _catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "lake"))
