"""SqlSink into sqlite files, through the harness; and the SQL of the other dialects."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import sqlite3
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import DataError, RetriableError, SchemaBuilder, SinkRecord, Struct
from kconnect.api.logical import Date, Decimal, Timestamp
from kconnect.builtin.connectors.sql.sql_dialect import DIALECTS, dialect_of, placeholders, values_of_marks
from kconnect.builtin.connectors.sql.sql_rows import RowMaker
from kconnect.errors import ConfigError, ConnectError
from kconnect.testing import ManualClock, SinkHarness
from kit.sqlite_files import rows_of

ORDERS = "SELECT * FROM orders ORDER BY 1"
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id", "auto_create": "true"}


def sink_into(file: Path, **more: Any) -> SinkHarness:
    own = {name: more.pop(name) for name in ("clock", "put_retries", "has_reporter") if name in more}
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"topics": "orders", "connection.driver": "sqlite3", "connection.url": str(file), **settings}
    return SinkHarness("SqlSink", config, **own)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


def test_maps_become_rows_of_a_table_that_is_made_for_them(file: Path) -> None:
    with sink_into(file, auto_create="true") as sink:
        sink.put(
            {"id": 1, "name": "pen", "price": 1.5, "tags": ["a", "ä"]},
            {"id": 2, "name": None, "price": 2.0, "tags": []},
        )
    assert rows_of(file, ORDERS) == [(1, "pen", 1.5, '["a","ä"]'), (2, None, 2.0, "[]")]
    assert [row[2] for row in rows_of(file, "PRAGMA table_info(orders)")] == ["INTEGER", "TEXT", "REAL", "TEXT"]


_SOME_MISSING: list[dict[str, Any]] = [
    {"id": 1, "a": "x"},
    {"id": 2, "b": 2.5, "d": 9},
    {"b": 1.5, "id": 3},
    {"id": 4, "a": "y", "c": True},
    {"id": 5, "d": 1},
]


def test_a_value_without_schema_makes_the_same_row_by_its_short_way() -> None:
    """Which is not taken where columns are chosen."""
    value = {"b": None, "a": [1], "id": 3}
    record = SinkRecord("t", 0, None, None, None, value, 7)
    short = RowMaker("copy_${topic}", "none", (), (), deletes=False).row(record)
    assert short == RowMaker("copy_${topic}", "none", (), tuple(value), deletes=False).row(record)
    assert (short.table, short.columns, short.values) == ("copy_t", ("b", "a", "id"), (None, [1], 3))


def test_members_that_are_missing_are_null_and_rows_stay_in_their_order(file: Path) -> None:
    with sink_into(file, auto_create="true", auto_evolve="true") as sink:
        sink.put(*_SOME_MISSING)
    assert rows_of(file, "SELECT id, a, b, c, d FROM orders ORDER BY rowid") == [
        (1, "x", None, None, None),
        (2, None, 2.5, None, 9),
        (3, None, 1.5, None, None),
        (4, "y", None, 1, None),
        (5, None, None, None, 1),
    ]


def test_names_that_differ_in_case_alone_are_one_column_and_no_value_is_lost(file: Path) -> None:
    with sink_into(file, auto_create="true", errors_tolerance="all") as sink:
        sink.put({"id": 1, "Name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "NAME": "c"}, {"id": 4, "Name": "d"})
        sink.put({"id": 5, "Name": "e", "name": "f"}, {"id": 6, "name": "g"})
        assert [str(record.error) for record in sink.errant] == [
            "The record at orders-0, offset 4 cannot be written to table orders: RefusedRecordError: Name and name "
            "differ in case alone, and are one column of table orders"
        ]
    assert rows_of(file, "SELECT id, name FROM orders ORDER BY 1") == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (6, "g")]


def test_topics_that_are_one_table_to_sqlite_are_not_mixed(file: Path) -> None:
    config = {"topics": "Orders,orders", "connection.driver": "sqlite3", "connection.url": str(file)}
    config |= {"auto.create": "true", "errors.tolerance": "all", "max.retries": "0"}
    said = "table Orders exists, and to SQLite both names are one table"
    for order in (("Orders", "orders"), ("orders", "Orders")):  # the table keeps its name after a restart
        with SinkHarness("SqlSink", config) as sink:
            for topic in order:
                sink.put({"topic": topic}, topic=topic)
            assert [(one.record.topic, said in str(one.error)) for one in sink.errant] == [("orders", True)]
            assert "table.name.format or RegexRouter" in str(sink.errant[0].error.hint)
            with pytest.raises(ConnectError, match=said):  # no row of the topic has a place
                sink.put(*[{"topic": "orders"}] * 600, topic="orders")
    assert rows_of(file, ORDERS) == [("Orders",), ("Orders",)]
    with sink_into(file) as sink:  # a table of one's own may be written otherwise
        sink.put({"topic": "x"})
    assert len(rows_of(file, ORDERS)) == 3


def test_what_the_table_fills_by_itself_is_left_to_it_where_a_record_does_not_have_it(file: Path) -> None:
    columns = "id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b REAL, c BOOLEAN DEFAULT NULL, d INT NOT NULL DEFAULT 7"
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"CREATE TABLE orders ({columns})")
    connection.close()
    with sink_into(file) as sink:
        sink.put(*_SOME_MISSING, {"a": None, "b": 0.5})
    assert rows_of(file, ORDERS) == [
        (1, "x", None, None, 7),
        (2, "none", 2.5, None, 9),
        (3, "none", 1.5, None, 7),
        (4, "y", None, 1, 7),
        (5, "none", None, None, 1),
        (6, None, 0.5, None, 7),
    ]


@pytest.mark.parametrize("more", [{}, UPSERT], ids=["insert", "upsert"])
def test_a_member_that_was_null_so_far_gets_the_column_of_its_first_value(file: Path, more: dict[str, str]) -> None:
    with sink_into(file, **{"auto_create": "true", **more}, auto_evolve="true") as sink:
        sink.put({"id": 1, "n": None}, {"id": 2, "n": None})
        assert rows_of(file, ORDERS) == [(1,), (2,)]
        sink.put({"id": 3, "n": None, "m": 1.5}, {"id": 4, "n": 7})
    assert rows_of(file, "SELECT id, n, m FROM orders ORDER BY id") == [
        (1, None, None),
        (2, None, None),
        (3, None, 1.5),
        (4, 7, None),
    ]


def test_an_upsert_leaves_what_a_record_does_not_have_as_it_is(file: Path) -> None:
    with sink_into(file, **UPSERT, auto_evolve="true") as sink:
        sink.put({"id": 1, "a": "x", "b": 1})
        sink.put({"id": 1, "b": 2}, {"id": 2, "a": "y"}, {"id": 1, "c": 3})
    assert rows_of(file, "SELECT id, a, b, c FROM orders ORDER BY id") == [(1, "x", 2, 3), (2, "y", None, None)]


def test_members_of_their_own_in_each_record_do_not_make_rows_of_all(file: Path) -> None:
    """Free-form maps: each row is written with its own columns."""
    with sink_into(file, auto_create="true", auto_evolve="true") as sink:
        sink.put(*({"id": number, f"k{number}": number} for number in range(20)))
    assert rows_of(file, "SELECT id, k3, k19 FROM orders WHERE id IN (3, 19) ORDER BY id") == [
        (3, 3, None),
        (19, None, 19),
    ]


def test_upserts_change_the_row_that_is_there_and_redelivery_leaves_each_once(file: Path) -> None:
    sink = sink_into(file, **UPSERT).start()
    sink.put({"id": 1, "n": "a"}, {"id": 2, "n": "b"}, {"id": 1, "n": "c"})
    sink.crash()
    with sink:
        assert sink.deliver() == 3
    assert rows_of(file, ORDERS) == [(1, "c"), (2, "b")]


def test_plain_inserts_come_twice_after_a_crash_unless_the_place_in_kafka_is_the_key(file: Path) -> None:
    sink = sink_into(file, auto_create="true").start()
    sink.put({"id": 1})
    sink.crash()
    with sink:
        sink.deliver()
    assert rows_of(file, ORDERS) == [(1,), (1,)]
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
    assert rows_of(file, "SELECT * FROM copy_orders") == [("orders", 0, 0, 1), ("orders", 0, 1, 1)]


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
    assert rows_of(file, ORDERS) == [(5, "9.50", "2026-01-02", "2026-01-02 03:04:05.678+00:00", b"\x00\xff")]


def test_tombstones_delete_and_only_wanted_fields_are_written(file: Path) -> None:
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    with sink_into(file, **settings, auto_create="true", fields_whitelist="name") as sink:
        sink.put({"name": "a", "secret": "x"}, key=1)
        sink.put({"name": "b", "secret": "x"}, key=2)
        sink.put(None, key=1)
        sink.put(None, key=77)
    assert rows_of(file, ORDERS) == [(2, "b")]


def test_names_that_try_to_be_sql_stay_names(file: Path) -> None:
    nasty = 'x"); DROP TABLE orders; --'
    with sink_into(file, auto_create="true") as sink:
        sink.put({nasty: 1, "per%cent": 2})
    assert rows_of(file, ORDERS) == [(1, 2)]
    assert [row[1] for row in rows_of(file, "PRAGMA table_info(orders)")] == [nasty, "per%cent"]


def test_one_bad_record_is_reported_and_its_neighbours_are_written(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n > 0))")
    connection.close()
    with sink_into(file, errors_tolerance="all") as sink:
        sink.put({"id": 1, "n": 1}, {"id": 2, "n": -1}, {"id": 3, "n": 3}, "no map", None)
        assert [item.record.kafka_offset for item in sink.errant] == [3, 4, 1]
        assert "CHECK constraint failed" in str(sink.errant[2].error)
        assert list(sink.commit().values()) == [5]
    assert rows_of(file, ORDERS) == [(1, 1), (3, 3)]


def test_a_member_without_a_text_for_a_name_is_no_column_as_in_other_sinks(file: Path) -> None:
    with sink_into(file, errors_tolerance="all", auto_create="true") as sink:
        sink.put({1: "number", "1": "text"}, {"1": "good"})
    (errant,) = sink.errant
    assert "A member has the name 1, and only texts are names of columns" in str(errant.error)


def test_what_to_do_about_a_record_is_in_its_error(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE orders (q INTEGER, twice INTEGER GENERATED ALWAYS AS (q * 2) STORED)")
    connection.close()
    with sink_into(file, errors_tolerance="all") as sink:
        sink.put({"q": 1, "twice": 2})
        assert str(sink.errant[0].error.hint).startswith("Leave the field out, by fields.whitelist")
    with sink_into(file, errors_tolerance="all", fields_whitelist="q") as sink:
        sink.put({"q": 1, "twice": 2})
    assert rows_of(file, ORDERS) == [(1, 2)]


def test_without_a_report_the_task_fails_at_the_record_and_nothing_of_the_put_is_kept(file: Path) -> None:
    sink = sink_into(file, **UPSERT, has_reporter=False).start()
    sink.put({"id": 1, "n": 1})
    with pytest.raises(DataError, match=r"orders-0, offset 2 .*no column named m"):
        sink.put({"id": 2, "n": 2}, {"id": 3, "m": 3})
    sink.crash()
    assert rows_of(file, ORDERS) == [(1, 1)]


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
    assert rows_of(file, ORDERS) == [(1,)]


def test_settings_that_do_not_fit_together_are_refused(file: Path) -> None:
    for wrong, reported in (
        ({"insert_mode": "upsert"}, "needs a primary key"),
        ({"insert_mode": "update"}, "needs a primary key"),
        ({"connection_driver": "", "connection_url": ""}, "Set connection.url"),
        ({"connection_driver": "", "connection_url": "jdbc:derby:x"}, "not translated"),
        ({"connection_driver": "", "connection_url": "jdbc:oracle:thin:@h:1:s"}, "oracledb"),
        ({"timestamp_fields_list": "at"}, "timestamp.fields.list is not supported"),
        ({"date_timezone": "DB_TIMEZONE", "db_timezone": "America/New_York"}, "other days than records have"),
        ({"pk_mode": "kafka", "pk_fields": "a,b"}, "three names"),
        ({"delete_enabled": "true"}, "record_key"),
        ({"connection_driver": "no_such_driver"}, "cannot be imported"),
        ({"connection_driver": "json"}, "dialect"),
    ):
        with pytest.raises(ConfigError, match=reported):
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
    values = values_of_marks(placeholders("pyformat", 2))
    assert DIALECTS["mysql"].upsert("shop.o`s", ["id", "n"], ["id"], values) == (
        "INSERT INTO `shop`.`o``s` (`id`, `n`) VALUES (%s, %s) ON DUPLICATE KEY UPDATE `n` = VALUES(`n`)"
    )
    assert DIALECTS["mysql"].upsert("t", ["id"], ["id"], "VALUES (%s)").endswith("UPDATE `id` = VALUES(`id`)")
    assert DIALECTS["postgresql"].upsert("t", ["id", "n"], ["id"], values) == (
        'INSERT INTO "t" ("id", "n") VALUES (%s, %s) ON CONFLICT ("id") DO UPDATE SET "n" = excluded."n"'
    )
    assert DIALECTS["postgresql"].upsert("t", ["id"], ["id"], "VALUES (%s)").endswith('("id") DO NOTHING')
    assert DIALECTS["mysql"].create("t", {"id": "text", "n": "text"}, ["id"]) == (
        "CREATE TABLE IF NOT EXISTS `t` (`id` VARCHAR(255) NOT NULL, `n` LONGTEXT, PRIMARY KEY (`id`))"
    )
    assert dialect_of("psycopg2", "auto").name == "postgresql"
    assert dialect_of("anything", "mysql").name == "mysql"
    assert placeholders("numeric", 2) == [":1", ":2"]
    with pytest.raises(ConfigError, match="named"):
        placeholders("named", 1)


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
    assert rows_of(file, ORDERS) == [(1, "3", None)]


def test_updates_and_new_columns_in_the_sql_of_each_database() -> None:
    marks = placeholders("pyformat", 3)
    assert DIALECTS["mysql"].update("s.t", ["id", "a", "b"], ["id"], marks) == (
        "UPDATE `s`.`t` SET `a` = %s, `b` = %s WHERE `id` = %s"
    )
    assert DIALECTS["mysql"].add_column("t", "c", "timestamp") == "ALTER TABLE `t` ADD COLUMN `c` DATETIME(3)"
    assert DIALECTS["postgresql"].add_column("t", "c", "text") == 'ALTER TABLE "t" ADD COLUMN IF NOT EXISTS "c" TEXT'
    unquoted = dataclasses.replace(DIALECTS["postgresql"], quote="")
    assert unquoted.insert("s.T", ["A"], "VALUES (%s)") == "INSERT INTO s.T (A) VALUES (%s)"
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    local = DIALECTS["mysql"].adapt(at, zoneinfo.ZoneInfo("Europe/Berlin"))
    assert local == datetime.datetime.fromisoformat("2026-01-02T04:04:05")


@pytest.mark.parametrize(
    ("kind", "given", "sql", "parts"),
    [
        ("postgresql", "shop.orders", '"shop"."orders"', ("shop", "orders")),
        ("postgresql", '"z.abc.orders"', '"z.abc.orders"', ("", "z.abc.orders")),
        ("postgresql", 'shop."a.b"', '"shop"."a.b"', ("shop", "a.b")),
        ("postgresql", '"sh.op"."a""b"', '"sh.op"."a""b"', ("sh.op", 'a"b')),
        ("postgresql", 'a"b', '"a""b"', ("", 'a"b')),
        ("postgresql", '"a"; DROP"', '"""a""; DROP"""', ("", '"a"; DROP"')),
        ("postgresql", '"a".b"."c', '"a"."b"""."""c"', ('a.b"', '"c')),
        ("postgresql", "`a.b`", '"`a"."b`"', ("`a", "b`")),
        ("postgresql", "srv.public.orders", '"srv"."public"."orders"', ("srv.public", "orders")),
        ("mysql", "`z.8`", "`z.8`", ("", "z.8")),
        ("mysql", 'shop.`a"b`', '`shop`.`a"b`', ("shop", 'a"b')),
        ("sqlite", '"z.8"', '"z.8"', ("", "z.8")),
        ("sqlite", "main.`z.8`", '"main"."z.8"', ("main", "z.8")),
    ],
)
def test_a_quoted_part_of_a_name_keeps_its_dots(kind: str, given: str, sql: str, parts: tuple[str, str]) -> None:
    assert DIALECTS[kind].name_of(given) == sql
    assert DIALECTS[kind].parts(given) == parts
    assert dataclasses.replace(DIALECTS[kind], quote="").name_of(given) == given


def test_names_that_postgresql_would_cut_to_one_are_no_names_of_tables() -> None:
    longest = "t" * 63
    assert DIALECTS["postgresql"].name_of(f"s.{longest}") == f'"s"."{longest}"'
    for name in (longest + "a", "ä" * 32):
        with pytest.raises(ConnectError, match=r"has a name of 64 bytes: PostgreSQL cuts it after 63") as caught:
            DIALECTS["postgresql"].insert(f"s.{name}", ["n"], "VALUES (%s)")
        assert not isinstance(caught.value, DataError)
    assert DIALECTS["sqlite"].name_of(longest + "a")


def test_names_that_postgresql_would_cut_to_one_are_no_names_of_columns() -> None:
    longest = "c" * 63
    assert DIALECTS["postgresql"].add_column("t", longest, "text").endswith(f'"{longest}" TEXT')
    for name in (longest + "a", "ä" * 32):
        with pytest.raises(DataError, match=r"has a name of 64 bytes: PostgreSQL cuts it after 63, and columns"):
            DIALECTS["postgresql"].insert("t", [name], "VALUES (%s)")
    assert DIALECTS["sqlite"].column(longest + "a")


@pytest.mark.parametrize("value", [{"n": "y"}, None])
def test_a_key_of_which_a_part_is_missing_is_refused_and_deletes_no_row_of_others(file: Path, value: Any) -> None:
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "delete_enabled": "true", "auto_create": "true"}
    keys = [{"id": 1, "r": "a"}, {"id": 1, "r": "b"}]
    with sink_into(file, errors_tolerance="all", **settings) as sink:
        sink.put_records([SinkRecord("orders", 0, None, key, None, {"n": "x"}, 0) for key in keys])
        sink.put_records([SinkRecord("orders", 0, None, {"id": 1}, None, value, 0)])
        sink.put_records([SinkRecord("orders", 0, None, keys[1], None, {"n": "z"}, 0)])
        [errant] = sink.errant
    assert "The key lacks r, which the primary key of table orders has" in str(errant.error)
    assert rows_of(file, ORDERS) == [(1, "a", "x"), (1, "b", "z")]
