"""Tables of each format for tests, and readers that know nothing of us."""

from __future__ import annotations

import uuid
from pathlib import Path

import duckdb
import pyarrow as pa

FORMATS = ("parquet", "delta", "iceberg")


def table_settings(kind: str, folder: Path, name: str = "sink") -> dict[str, str]:
    """Settings of TableSink for a table of its own in a folder."""
    settings = {"name": name, "table.format": kind}
    if kind == "iceberg":
        folder.mkdir(exist_ok=True)
        return {
            **settings,
            "table.name": "default.t",
            "table.catalog.type": "sql",
            "table.catalog.uri": f"sqlite:///{folder}/catalog.db",
            "table.catalog.warehouse": str(folder / "warehouse"),
        }
    return {**settings, "table.path": str(folder / "table")}


def memory_settings(name: str = "sink") -> dict[str, str]:
    """A Parquet table in fsspec's memory."""
    return {"name": name, "table.format": "parquet", "table.path": f"memory://{uuid.uuid4().hex}/table"}


def read_table(settings: dict[str, str]) -> pa.Table:
    """All rows, read by DuckDB (plain files), deltalake or pyiceberg. Shape: no rows and columns without a table."""
    kind = settings["table.format"]
    if kind == "parquet":
        return _plain_files(settings["table.path"])
    if kind == "delta":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return pa.table(DeltaTable(settings["table.path"]).to_pyarrow_table())
        except TableNotFoundError:
            return pa.table({})
    from pyiceberg.exceptions import NoSuchTableError

    from kconnect.builtin.types.iceberg_catalog import open_catalog

    prefix = "table.catalog."
    own = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    catalog = open_catalog(own, 30)
    try:
        return catalog.load_table(settings["table.name"]).scan().to_arrow()
    except NoSuchTableError:
        return pa.table({})
    finally:
        catalog.close()


def _plain_files(path: str) -> pa.Table:
    with duckdb.connect() as session:
        if path.startswith("memory://"):
            import fsspec

            session.register_filesystem(fsspec.filesystem("memory"))
        if not session.execute(f"select 1 from glob('{path}/**/*.parquet')").fetchall():
            return pa.table({})
        query = f"select * from read_parquet('{path}/**/*.parquet', union_by_name=true, hive_partitioning=true)"
        return session.sql(query).to_arrow_table()
