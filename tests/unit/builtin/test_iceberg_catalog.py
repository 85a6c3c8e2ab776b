"""A SQL catalog of Iceberg that several tasks open at once, before it has tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from kconnect.builtin.connectors.tables.iceberg_table import open_catalog


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


def test_any_other_problem_of_the_database_is_raised(settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all, " * 100)
    with pytest.raises(Exception, match="file is not a database") as raised:
        open_catalog(settings, 30)
    assert isinstance(raised.value.__cause__, sqlite3.DatabaseError)
