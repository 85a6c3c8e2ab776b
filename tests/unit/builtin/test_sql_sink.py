"""SqlSink into sqlite files, through the harness; and the SQL of the other dialects."""

from __future__ import annotations

import datetime
import decimal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import DataError, RetriableError, SchemaBuilder, SinkRecord, Struct
from kconnect.api.logical import Date, Decimal, Timestamp
from kconnect.builtin.connectors.sql_dialect import DIALECTS, dialect_of, placeholders
from kconnect.errors import ConfigError, ConnectError
from kconnect.testing import ManualClock, SinkHarness

UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id", "auto_create": "true"}


def sink_into(file: Path, **more: Any) -> SinkHarness:
    own = {name: more.pop(name) for name in ("clock", "put_retries", "has_reporter") if name in more}
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"topics": "orders", "connection.driver": "sqlite3", "connection.url": str(file), **settings}
    return SinkHarness("SqlSink", config, **own)


def rows(file: Path, query: str = "SELECT * FROM orders ORDER BY 1") -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


def test_maps_become_rows_of_a_table_that_is_made_for_them(file: Path) -> None:
    with sink_into(file, auto_create="true") as sink:
        sink.put(
            {"id": 1, "name": "pen", "price": 1.5, "tags": ["a", "ä"]},
            {"id": 2, "name": None, "price": 2.0, "tags": []},
        )
    assert rows(file) == [(1, "pen", 1.5, '["a", "ä"]'), (2, None, 2.0, "[]")]
    assert [row[2] for row in rows(file, "PRAGMA table_info(orders)")] == ["INTEGER", "TEXT", "REAL", "TEXT"]


def test_upserts_change_the_row_that_is_there_and_redelivery_leaves_each_once(file: Path) -> None:
    sink = sink_into(file, **UPSERT).start()
    sink.put({"id": 1, "n": "a"}, {"id": 2, "n": "b"}, {"id": 1, "n": "c"})
    sink.crash()
    with sink:
        assert sink.deliver() == 3
    assert rows(file) == [(1, "c"), (2, "b")]


def test_plain_inserts_come_twice_after_a_crash_unless_the_place_in_kafka_is_the_key(file: Path) -> None:
    sink = sink_into(file, auto_create="true").start()
    sink.put({"id": 1})
    sink.crash()
    with sink:
        sink.deliver()
    assert rows(file) == [(1,), (1,)]
    by_place = {
        "insert_mode": "upsert",
        "pk_mode": "kafka",
        "auto_create": "true",
        "table_name_format": "copy_${topic}",
    }
    sink = sink_into(file, **by_place).start()
    sink.put({"id": 1}, {"id": 1})
    sink.crash()
    with sink:
        sink.deliver()
    assert rows(file, "SELECT * FROM copy_orders") == [("orders", 0, 0, 1), ("orders", 0, 1, 1)]


def test_structs_with_logical_types_find_their_columns(file: Path) -> None:
    key_schema = SchemaBuilder.struct().field("id", SchemaBuilder.int64().build()).build()
    schema = (
        SchemaBuilder.struct()
        .field("price", Decimal.schema(2))
        .field("day", Date.SCHEMA)
        .field("at", Timestamp.SCHEMA)
        .field("raw", SchemaBuilder.bytes().build())
        .build()
    )
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    value = Struct(schema, {"price": decimal.Decimal("9.50"), "day": at.date(), "at": at, "raw": b"\x00\xff"})
    with sink_into(file, insert_mode="upsert", pk_mode="record_key", auto_create="true") as sink:
        sink.put(value, key=Struct(key_schema, {"id": 5}), schema=schema, key_schema=key_schema)
    assert rows(file) == [(5, "9.50", "2026-01-02", "2026-01-02 03:04:05.678+00:00", b"\x00\xff")]


def test_tombstones_delete_and_only_wanted_fields_are_written(file: Path) -> None:
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    with sink_into(file, **settings, auto_create="true", fields_whitelist="name") as sink:
        sink.put({"name": "a", "secret": "x"}, key=1)
        sink.put({"name": "b", "secret": "x"}, key=2)
        sink.put(None, key=1)
        sink.put(None, key=77)
    assert rows(file) == [(2, "b")]


def test_names_that_try_to_be_sql_stay_names(file: Path) -> None:
    nasty = 'x"); DROP TABLE orders; --'
    with sink_into(file, auto_create="true") as sink:
        sink.put({nasty: 1, "per%cent": 2})
    assert rows(file) == [(1, 2)]
    assert [row[1] for row in rows(file, "PRAGMA table_info(orders)")] == [nasty, "per%cent"]


def test_one_bad_record_is_reported_and_its_neighbours_are_written(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n > 0))")
    connection.close()
    with sink_into(file, errors_tolerance="all") as sink:
        sink.put({"id": 1, "n": 1}, {"id": 2, "n": -1}, {"id": 3, "n": 3}, "no map", None)
        assert [item.record.kafka_offset for item in sink.errant] == [3, 4, 1]
        assert "CHECK constraint failed" in str(sink.errant[2].error)
        assert list(sink.commit().values()) == [5]
    assert rows(file) == [(1, 1), (3, 3)]


def test_without_a_report_the_task_fails_at_the_record_and_nothing_of_the_put_is_kept(file: Path) -> None:
    sink = sink_into(file, **UPSERT, has_reporter=False).start()
    sink.put({"id": 1, "n": 1})
    with pytest.raises(DataError, match=r"orders-0, offset 2 .*no column named m"):
        sink.put({"id": 2, "n": 2}, {"id": 3, "m": 3})
    sink.crash()
    assert rows(file) == [(1, 1)]


def test_a_locked_database_is_waited_for_and_given_up_where_the_settings_say(file: Path) -> None:
    clock = ManualClock()
    other = sqlite3.connect(file, isolation_level=None)
    settings = {**UPSERT, "connection_arg_timeout": "0", "max_retries": "2", "retry_backoff_ms": "700"}
    sink = sink_into(file, **settings, clock=clock, put_retries=1).start()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetriableError, match="locked"):
        sink.put({"id": 1})
    assert clock.waits == [0.7]
    with pytest.raises(ConnectError, match=r"3 times in a row \(max\.retries=2\)"):
        sink.deliver()
    other.execute("COMMIT")
    other.close()
    assert sink.deliver() == 1
    sink.stop()
    assert rows(file) == [(1,)]


def test_settings_that_do_not_fit_together_are_refused(file: Path) -> None:
    for wrong, told in (
        ({"insert_mode": "upsert"}, "needs a primary key"),
        ({"pk_mode": "record_value"}, "needs pk.fields"),
        ({"pk_mode": "kafka", "pk_fields": "a,b"}, "three names"),
        ({"delete_enabled": "true"}, "record_key"),
        ({"connection_driver": "no_such_driver"}, "cannot be imported"),
        ({"connection_driver": "json"}, "dialect"),
    ):
        with pytest.raises(ConfigError, match=told):
            sink_into(file, **wrong).start()


def test_records_without_the_key_that_is_asked_for_are_refused(file: Path) -> None:
    with sink_into(file, **UPSERT, errors_tolerance="all") as sink:
        sink.put({"n": 1}, {"id": None, "n": 1}, None)
        assert [str(item.error).rpartition(": ")[2] for item in sink.errant] == [
            "The key fields id are missing or null (pk.mode=record_value)",
            "The key fields id are missing or null (pk.mode=record_value)",
            "A tombstone (null value) has no key fields, and pk.mode is record_value",
        ]


def test_each_database_is_spoken_to_in_its_own_sql() -> None:
    marks = placeholders("pyformat", 2)
    assert DIALECTS["mysql"].upsert("shop.o`s", ["id", "n"], ["id"], marks) == (
        "INSERT INTO `shop`.`o``s` (`id`, `n`) VALUES (%s, %s) ON DUPLICATE KEY UPDATE `n` = VALUES(`n`)"
    )
    assert DIALECTS["mysql"].upsert("t", ["id"], ["id"], ["%s"]).endswith("UPDATE `id` = VALUES(`id`)")
    assert DIALECTS["postgresql"].upsert("t", ["id", "n"], ["id"], marks) == (
        'INSERT INTO "t" ("id", "n") VALUES (%s, %s) ON CONFLICT ("id") DO UPDATE SET "n" = excluded."n"'
    )
    assert DIALECTS["postgresql"].upsert("t", ["id"], ["id"], ["%s"]).endswith('("id") DO NOTHING')
    assert DIALECTS["mysql"].create("t", {"id": "text", "n": "text"}, ["id"]) == (
        "CREATE TABLE IF NOT EXISTS `t` (`id` VARCHAR(255) NOT NULL, `n` LONGTEXT, PRIMARY KEY (`id`))"
    )
    assert dialect_of("psycopg2", "auto").name == "postgresql"
    assert dialect_of("anything", "mysql").name == "mysql"
    assert placeholders("numeric", 2) == [":1", ":2"]
    with pytest.raises(ConfigError, match="named"):
        placeholders("named", 1)


def test_errors_that_pass_are_told_from_those_that_stay() -> None:
    class StateError(Exception):
        sqlstate: str | None = None

    lost, deadlock, syntax = StateError(), StateError(), StateError()
    deadlock.sqlstate, syntax.sqlstate = "40P01", "42601"
    passes = DIALECTS["postgresql"].passes
    assert (passes(lost), passes(deadlock), passes(syntax)) == (True, True, False)
    assert DIALECTS["mysql"].passes(Exception(1213, "Deadlock found"))
    assert not DIALECTS["mysql"].passes(Exception(1054, "Unknown column"))


def test_a_put_of_records_with_changing_columns_keeps_their_order(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
    connection.close()
    with sink_into(
        file, insert_mode="upsert", pk_mode="record_key", pk_fields="id", delete_enabled="true", batch_size="2"
    ) as sink:
        sink.put_records(
            SinkRecord("orders", 0, None, 1, None, value, 0)
            for value in ({"a": "x"}, {"b": "y"}, None, {"a": "1"}, {"a": "2"}, {"a": "3"})
        )
    assert rows(file) == [(1, "3", None)]
