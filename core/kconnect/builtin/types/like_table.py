"""The columns of a table that is there, for `value.schema=like:..`: Parquet, Delta Lake, or Iceberg."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigError
from kconnect.builtin.types.column_type import ColumnType
from kconnect.builtin.types.foreign_schemas import of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

CATALOG_PREFIX: Final = "table.catalog."


def type_like(where: str, settings: Mapping[str, str]) -> ColumnType:
    """The type of the rows of a table: a Parquet file, a folder of them, a Delta table, one of Iceberg by its name.

    `settings`: the connector's, of which `table.catalog.*` says where names of Iceberg are. Errors: ConfigError.
    """
    import pyarrow as pa

    try:
        return of_arrow(pa.struct(list(_columns(where, settings))))
    except ConfigError:
        raise
    except Exception as error:  # of three libraries, which share no root
        raise ConfigError(f"The columns of {where} cannot be read: {type(error).__name__}: {error}") from error


def _columns(where: str, settings: Mapping[str, str]) -> pa.Schema:
    catalog = {key.removeprefix(CATALOG_PREFIX): value for key, value in settings.items() if _is_catalog(key)}
    if catalog and "/" not in where and not where.endswith(".parquet"):
        return _iceberg(where, catalog)
    if "://" in where:
        return _stored(where)
    folder = Path(where)
    if not folder.exists():
        hint = "An Iceberg table is named as in its catalog, which table.catalog.type and table.catalog.uri say."
        raise ConfigError(f"{where} does not exist", hint=None if "/" in where else hint)
    if (folder / "_delta_log").is_dir():
        return _delta(where)
    if (folder / "metadata").is_dir():
        return _iceberg_folder(folder / "metadata")
    import pyarrow.parquet as pq

    files = [folder] if folder.is_file() else sorted(_files(folder))
    if not files:
        raise ConfigError(f"{where} has no Parquet file")
    return pq.read_schema(files[-1])  # the newest by name, which has columns that came later


def _is_catalog(key: str) -> bool:
    return key.startswith(CATALOG_PREFIX)


def _files(folder: Path) -> list[Path]:
    hidden = ("_", ".")
    return [
        path
        for path in folder.rglob("*.parquet")
        if not any(part.startswith(hidden) for part in path.relative_to(folder).parts)
    ]


def _delta(where: str) -> pa.Schema:
    import pyarrow as pa
    from deltalake import DeltaTable

    fields = json.loads(DeltaTable(where).schema().to_json())["fields"]
    return pa.schema([pa.field(field["name"], _of_delta(field["type"]), field["nullable"]) for field in fields])


def _of_delta(kind: Any) -> pa.DataType:
    """Arrow's type of one of Delta's log, which are Spark's."""
    import pyarrow as pa

    if isinstance(kind, Mapping):
        match kind["type"]:
            case "struct":
                return pa.struct(
                    [pa.field(part["name"], _of_delta(part["type"]), part["nullable"]) for part in kind["fields"]]
                )
            case "array":
                return pa.list_(pa.field("element", _of_delta(kind["elementType"]), kind["containsNull"]))
            case _:
                item = pa.field("value", _of_delta(kind["valueType"]), kind["valueContainsNull"])
                return pa.map_(_of_delta(kind["keyType"]), item)
    if kind.startswith("decimal("):
        digits, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(digits), int(scale))
    return {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }[kind]


def _iceberg(name: str, catalog: Mapping[str, str]) -> pa.Schema:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    settings: dict[str, Any] = dict(catalog)
    return schema_to_pyarrow(load_catalog("default", **settings).load_table(name).schema())


def _iceberg_folder(folder: Path) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.table import StaticTable

    newest = max(folder.glob("*.metadata.json"), key=lambda path: path.stat().st_mtime)
    return schema_to_pyarrow(StaticTable.from_metadata(str(newest)).schema())


def _stored(where: str) -> pa.Schema:
    """Reads a table in a store: Delta where it has a log, else Parquet files."""
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(where)
    if system.get_file_info(f"{path}/_delta_log").type is fs.FileType.Directory:
        return _delta(where)
    import pyarrow.dataset as ds

    return ds.dataset(path, filesystem=system, format="parquet", exclude_invalid_files=False).schema
