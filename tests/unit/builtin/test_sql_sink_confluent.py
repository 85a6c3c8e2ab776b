"""Configs of Confluent's JDBC sink, run by SqlSink."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import DataError, RetriableError, SchemaBuilder, Struct
from kconnect.builtin.connectors.sql.sql_config import CONFIG
from kconnect.builtin.connectors.sql.sql_source_config import settings_of
from kconnect.errors import ConfigError, ConnectError
from kconnect.testing import SinkHarness
from kit.sqlite_files import rows_of

ORDERS = "SELECT * FROM orders ORDER BY 1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


def jdbc_sink_into(file: Path, **more: Any) -> SinkHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"topics": "orders", "connection.url": f"jdbc:sqlite:{file}", **settings}
    return SinkHarness("io.confluent.connect.jdbc.JdbcSinkConnector", config, has_reporter=False)


def test_a_config_of_confluents_sink_runs_as_it_is(file: Path) -> None:
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "auto_create": "true"}
    with jdbc_sink_into(file, **settings, connection_attempts="5", table_types="TABLE", dialect_name="") as sink:
        sink.put({"n": 1}, key=7)
        sink.put({"n": 2}, key=7)
    assert rows_of(file, ORDERS) == [(7, 2)]


def test_an_update_changes_rows_that_are_there_and_adds_none(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE orders (n TEXT, id INTEGER PRIMARY KEY); INSERT INTO orders VALUES ('a', 1)")
    connection.close()
    with jdbc_sink_into(file, insert_mode="update", pk_mode="record_value", pk_fields="id") as sink:
        sink.put({"id": 1, "n": "b"}, {"id": 2, "n": "c"}, {"id": 1})
    assert rows_of(file, ORDERS) == [("b", 1)]


def test_missing_columns_are_added_where_that_is_wanted(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE orders (ID INTEGER); INSERT INTO orders VALUES (0)")
    connection.close()
    with jdbc_sink_into(file, auto_evolve="true") as sink:
        sink.put({"id": 1, "name": "a", "at": 1.5})
        sink.put({"id": 2, "more": True})
    assert rows_of(file, ORDERS) == [(0, None, None, None), (1, "a", 1.5, None), (2, None, None, 1)]
    assert [row[2] for row in rows_of(file, "PRAGMA table_info(orders)")] == ["INTEGER", "TEXT", "REAL", "BOOLEAN"]


def test_a_required_field_without_default_is_not_added_as_a_column(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE orders (id INTEGER)")
    connection.close()
    builder = SchemaBuilder.struct().field("id", SchemaBuilder.int64().build())
    schema = builder.field("must", SchemaBuilder.int64().build()).build()
    with (
        jdbc_sink_into(file, auto_evolve="true") as sink,
        pytest.raises(DataError, match="lacks column must, which cannot be added"),
    ):
        sink.put(Struct(schema, {"id": 1, "must": 2}), schema=schema)


def test_all_fields_of_a_value_are_its_key_if_none_are_named(file: Path) -> None:
    with jdbc_sink_into(file, insert_mode="upsert", pk_mode="record_value", auto_create="true") as sink:
        sink.put({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert rows_of(file, ORDERS) == [(1, 2), (1, 3)]


def test_a_plain_key_needs_the_name_of_its_column(file: Path) -> None:
    with (
        jdbc_sink_into(file, pk_mode="record_key", auto_create="true") as sink,
        pytest.raises(DataError, match=r"The key is a plain int: pk\.fields must name its one column, not none"),
    ):
        sink.put({"a": 1}, key=7)


@pytest.mark.parametrize(("fills", "expected"), [("true", 5), ("false", None)])
def test_a_default_is_written_for_null_unless_the_settings_say_no(file: Path, fills: str, expected: Any) -> None:
    schema = SchemaBuilder.struct().field("n", SchemaBuilder.int64().optional().default(5).build()).build()
    with jdbc_sink_into(file, auto_create="true", replace_null_with_default=fills) as sink:
        sink.put(Struct(schema, {"n": None}), schema=schema)
    assert rows_of(file, ORDERS) == [(expected,)]


ENUMERATED = {
    "insert.mode": "upsert",
    "pk.mode": "record_key",
    "quote.sql.identifiers": "never",
    "table.types": "partitioned table",
}


@pytest.mark.parametrize("name", ENUMERATED)
def test_names_of_modes_are_in_small_letters_or_in_capitals_as_confluents(name: str) -> None:
    wanted = ENUMERATED[name]
    for given in (wanted, wanted.upper()):
        parsed = settings_of(CONFIG, {name: given})[name]
        assert parsed in (wanted, [wanted])
    with pytest.raises(ConfigError, match="all in small letters or all in capitals"):
        settings_of(CONFIG, {name: wanted.title()})


def test_a_config_in_capitals_runs(file: Path) -> None:
    settings = {"insert_mode": "UPSERT", "pk_mode": "RECORD_KEY", "pk_fields": "id", "auto_create": "true"}
    with jdbc_sink_into(file, **settings, table_types="VIEW", delete_enabled="true") as sink:
        sink.put({"n": 1}, key=7)
        sink.put({"n": 2}, key=7)
    assert rows_of(file, ORDERS) == [(7, 2)]


def test_parameters_of_the_url_are_those_of_the_connection(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"jdbc:sqlite:{file}?journal_mode=WAL&foo=bar"
    with jdbc_sink_into(file, connection_url=url, auto_create="true", connection_baz="1") as sink:
        sink.put({"n": 1})
    assert rows_of(file, "PRAGMA journal_mode") == [("wal",)]
    assert "these have no effect here: baz, foo" in caplog.text


def test_a_topic_with_dots_is_a_table_of_that_name_in_quotes_and_else_reported(file: Path) -> None:
    settings = {"topics": "z.abc.orders", "auto_create": "true"}
    with jdbc_sink_into(file, **settings, table_name_format='"${topic}"') as sink:
        sink.put({"id": 1}, topic="z.abc.orders")
    assert rows_of(file, 'SELECT id FROM "z.abc.orders"') == [(1,)]
    for topic, said in (("z.abc.orders", "syntax error"), ("z.orders", "unknown database")):
        with jdbc_sink_into(file, **settings) as sink:
            with pytest.raises(ConnectError, match=said) as caught:
                sink.put({"id": 1}, topic=topic)
            assert 'quoted, as in table.name.format="${topic}"' in (caught.value.hint or "")
            assert not isinstance(caught.value, RetriableError)
