"""A SQL catalog of Iceberg that several tasks open at once, before it has tables."""

from __future__ import annotations

import gc
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from kconnect.builtin.types.declared import declared_type
from kconnect.builtin.types.iceberg_catalog import LOCATION_CLASS, limit, open_catalog
from kconnect.errors import ConfigError


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}


def test_a_catalog_whose_tables_another_task_makes_meanwhile_is_opened(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SqlCatalog.create_tables

    def second(self: SqlCatalog) -> None:
        """Both have looked, and found none: the database takes the first's and refuses these."""
        monkeypatch.setattr(SqlCatalog, "create_tables", made)
        made(self)
        with self.engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE iceberg_tables (catalog_name VARCHAR(255))")

    monkeypatch.setattr(SqlCatalog, "create_tables", second)
    catalog = open_catalog(settings, 30)
    assert catalog.list_namespaces() == []
    catalog.close()


@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")  # pyiceberg's, of the catalog that is none
def test_any_other_problem_of_the_database_is_raised(settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all, " * 100)
    with pytest.raises(Exception, match="file is not a database") as raised:
        open_catalog(settings, 30)
    assert isinstance(raised.value.__cause__, sqlite3.DatabaseError)
    del raised
    gc.collect()


PROVIDER = "pyiceberg.table.locations.SimpleLocationProvider"
ROWS = pa.table({"a": [1, 2]})


@pytest.fixture
def elsewhere(settings: dict[str, str]) -> Iterator[SqlCatalog]:
    """Stands for a catalog that somebody else runs: what it answers is not the config's word."""
    catalog = SqlCatalog("default", **settings)
    catalog.create_namespace("default")
    yield catalog
    catalog.close()


@pytest.mark.parametrize("own", [{}, {"warehouse": "demo"}, {"folder": "/srv/tables"}], ids=str)
def test_a_catalog_elsewhere_has_no_file_of_this_machine_read_written_or_deleted(
    elsewhere: SqlCatalog, own: dict[str, str], tmp_path: Path
) -> None:
    elsewhere.create_table("default.t", ROWS.schema).append(ROWS)
    (tmp_path / "kept").touch()
    table = limit(elsewhere, {"uri": "http://catalog", **own}).load_table("default.t")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PermissionError, match=r"names /.*, a path of this machine; table\.catalog\.folder says"):
        table.append(ROWS)
    with pytest.raises(PermissionError, match="a path of this machine"):
        table.scan().to_arrow()
    with pytest.raises(PermissionError, match="a path of this machine"):
        table.io.delete(f"file:{tmp_path}/kept")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["warehouse", "folder"])
def test_it_places_tables_in_the_folder_that_the_config_names_and_in_stores(
    elsewhere: SqlCatalog, name: str, tmp_path: Path
) -> None:
    table = limit(elsewhere, {name: str(tmp_path)}).create_table("default.t", ROWS.schema)
    table.append(ROWS)
    assert table.scan().to_arrow().num_rows == 2
    assert table.io.new_input("s3://bucket/file").location == "s3://bucket/file"
    for way in (
        f"{tmp_path}/../kept",
        f"file://{tmp_path}x",
        f"FILE:{tmp_path}/../kept",
        f"file:{tmp_path}/t?/../../x",
    ):
        with pytest.raises(PermissionError, match="a path of this machine"):
            table.io.new_output(way)


def test_a_table_elsewhere_names_no_class_but_the_configs(elsewhere: SqlCatalog) -> None:
    named = {LOCATION_CLASS: PROVIDER, "py-io-impl": "subprocess.Popen"}
    elsewhere.create_table("default.t", ROWS.schema)
    own = {"warehouse": elsewhere.properties["warehouse"], "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    limited = limit(SqlCatalog("default", **elsewhere.properties), own, PROVIDER)
    with limited.load_table("default.t").transaction() as change:
        change.set_properties(named)
    assert type(limited.load_table("default.t").io).__name__ == "FsspecFileIO"
    limited.close()
    with pytest.raises(PermissionError, match=f"{LOCATION_CLASS}={PROVIDER}, a class that only"):
        limit(elsewhere, {}).load_table("default.t")


def test_columns_like_those_of_a_table_are_read_from_the_catalog_of_that_name(
    settings: dict[str, str], tmp_path: Path
) -> None:
    """The name was handed on twice: a TypeError."""
    catalog = SqlCatalog("shop", **settings)
    catalog.create_namespace("default")
    catalog.create_table("default.t", ROWS.schema)
    catalog.close()
    config = {f"table.catalog.{key}": value for key, value in settings.items()}
    found = declared_type("like:default.t", {**config, "table.catalog.name": "shop", "table.catalog.timeout.ms": "500"})
    assert [(column.name, column.type.name) for column in found.columns] == [("a", "bigint")]
    with pytest.raises(ConfigError, match=r"The columns of default\.t cannot be read: NoSuchTableError"):
        declared_type("like:default.t", config)


def test_a_catalog_that_does_not_answer_is_an_error_in_time_also_where_columns_are_read() -> None:
    """pyiceberg waits for it endlessly, and whoever validates a connector waited too."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = {"table.catalog.uri": uri, "table.catalog.timeout.ms": "300"}
        with pytest.raises(ConfigError, match=r"did not answer within 0\.3 s, .* table\.catalog\.timeout\.ms sets"):
            declared_type("like:default.t", settings)
