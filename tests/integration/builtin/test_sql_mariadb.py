"""SqlSource and SqlSink on a real MariaDB: `make mariadb`, which installs it. What PostgreSQL is asked, asked again."""

from __future__ import annotations

import datetime
import decimal
import itertools
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConnectError, SchemaBuilder, Struct
from kconnect.api.logical import Date, Decimal, Timestamp
from kconnect.testing import SinkHarness, SourceHarness
from kit.differences import hold_alike
from kit.mariadb import MariaDb, dotted, nothing_more, sink_into, source_of, values_of
from kit.random_types import Drawn, drawings, try_all
from kit.sql_tables import through_database

BOTH = {"mode": "timestamp+incrementing", "timestamp_column_name": "at", "incrementing_column_name": "id"}
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "true"}


TYPES = """CREATE TABLE types (id bigint AUTO_INCREMENT PRIMARY KEY, i1 tinyint, u1 tinyint unsigned, i2 smallint,
    i3 mediumint, i4 int NOT NULL, u4 int unsigned, i8 bigint, f4 float, f8 double, n decimal(12,3),
    wide decimal(50,10),
    flag boolean, c char(4), v varchar(20), t text, j json, u uuid, raw blob, fixed binary(2), day date, clock time(3),
    at datetime(6), atz timestamp(6) NULL, mood enum('sad','glad'), several set('a','b'), b1 bit(1), y year)"""


def test_every_type_is_that_of_confluents_connector(maria: MariaDb, schema: str) -> None:
    maria.run(
        "SET time_zone = '+00:00'",
        TYPES,
        """INSERT INTO types VALUES (7, 1, 200, 2, 3, 4, 5, 6, 0.5, 0.1, 1.5,
        12345678901234567890123456789012345.1, true,
        'ab', 'v', 'ä', '{"b": 1}', '7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10', x'00ff', x'0102', '2026-01-02',
        '03:04:05.678', '2026-01-02 03:04:05.678901', '2026-01-02 01:04:05.678901', 'glad', 'a,b', b'1', 2026)""",
        "INSERT INTO types (i4) VALUES (0)",
        schema=schema,
    )
    with source_of(maria, schema, mode="incrementing") as source:
        full, empty = sorted(source.poll(2), key=lambda record: record.value["i4"], reverse=True)
    fields = {field.name: field.schema for field in full.value_schema.fields}
    kinds = {name: (s.name or str(s.type)).rpartition(".")[2] for name, s in fields.items()}
    assert kinds == {
        **dict(id="INT64", i1="INT8", u1="INT16", i2="INT16", i3="INT32", i4="INT32", u4="INT64", i8="INT64"),
        **dict(f4="FLOAT32", f8="FLOAT64", n="Decimal", wide="Decimal", flag="INT8", b1="INT8"),
        **dict.fromkeys(("c", "v", "t", "j", "u", "mood", "several"), "STRING"),
        **dict(raw="BYTES", fixed="BYTES", day="Date", clock="Time", at="Timestamp", atz="Timestamp", y="INT32"),
    }
    assert [name for name, found in fields.items() if not found.is_optional] == ["id", "i4"]
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    found = values_of(full)
    assert (found["at"], found["atz"], found["clock"]) == (at, at - datetime.timedelta(hours=2), at.time())
    assert found["wide"] == decimal.Decimal("12345678901234567890123456789012345.1")
    assert (found["raw"], found["fixed"], found["several"], found["b1"]) == (b"\x00\xff", b"\x01\x02", "a,b", 1)
    assert (found["u1"], found["flag"], found["y"], found["mood"]) == (200, 1, 2026, "glad")
    assert [name for name, value in values_of(empty).items() if value is not None] == ["id", "i4"]
    assert dict(source.offsets[0].partition) == {"protocol": "1", "table": f"{schema}.types"}


ODD_TYPES = """CREATE TABLE odd (id int unsigned AUTO_INCREMENT PRIMARY KEY, flags bit(4), wide bit(64),
    big bigint unsigned, tiny tinyint unsigned, three decimal(5,0) unsigned, spot point, shape geometry, ip inet6,
    vs varbinary(3), e enum('x'), y2 year, d time(6), long_text longtext, n numeric(65,30), r double(9,2))"""


@pytest.mark.parametrize("what", ["table", "query"])
def test_every_other_type_is_read_alike_from_a_table_and_by_a_query(maria: MariaDb, schema: str, what: str) -> None:
    maria.run(
        ODD_TYPES,
        "INSERT INTO odd VALUES (1, b'1010', x'ffffffffffffffff', 18446744073709551615, 255, 99999, POINT(1,2), "
        "ST_GeomFromText('LINESTRING(0 0,1 1)'), '::1', x'00ff', 'x', 1999, '23:59:59.123456', 'long', 1.5, 2.25)",
        schema=schema,
    )
    query = "SELECT odd.*, ST_AsText(spot) AS reported, 1.50 AS price, NULL AS nothing FROM odd WHERE id > 0"
    more = {"query": query, "topic.prefix": "q"} if what == "query" else {}
    with source_of(maria, schema, mode="bulk", bigint_unsigned_handling_mode="precise", **more) as source:
        (record,) = source.poll(1)
    fields = {
        one.name: (one.schema.name or one.schema.type.name).rpartition(".")[2] for one in record.value_schema.fields
    }
    found = values_of(record)
    if what == "query":
        assert (found.pop("reported"), found.pop("price"), found.pop("nothing")) == (
            "POINT(1 2)",
            decimal.Decimal("1.50"),
            None,
        )
        assert (fields.pop("reported"), fields.pop("price"), fields.pop("nothing")) == ("STRING", "Decimal", "STRING")
        assert found.pop("spot")[-16:].hex() == "000000000000f03f0000000000000040", "well-known binary"
        found.pop("shape")
    else:
        assert (found.pop("spot"), found.pop("shape")) == ("POINT(1 2)", "LINESTRING(0 0,1 1)")
    kinds = dict(id="INT64", flags="INT64", wide="Decimal", big="Decimal", tiny="INT16", three="Decimal", ip="STRING")
    kinds |= dict(vs="BYTES", e="STRING", y2="INT32", d="Time", long_text="STRING", n="Decimal", r="FLOAT64")
    shapes = dict.fromkeys(("spot", "shape"), "BYTES" if what == "query" else "STRING")
    assert fields == {**kinds, **shapes}
    most = decimal.Decimal((1 << 64) - 1)
    assert found == {
        **dict(id=1, flags=10, wide=most, big=most, tiny=255, three=decimal.Decimal(99999), ip="::1", vs=b"\x00\xff"),
        **dict(e="x", y2=1999, d=datetime.time(23, 59, 59, 123000), long_text="long", n=decimal.Decimal("1.5"), r=2.25),
    }


@pytest.mark.parametrize(
    ("kind", "value", "reported"),
    [
        ("bigint unsigned", "18446744073709551615", r"not of type int64: 18446744073709551615"),
        ("time", "'-10:00:00'", r"a value \(timedelta\) that is not of type time: -1 day, 14:00:00"),
        ("time", "'100:00:00'", r"a value \(timedelta\) that is not of type time: 4 days, 4:00:00"),
    ],
)
def test_a_value_that_connect_cannot_hold_fails_the_task_and_says_which(
    maria: MariaDb, schema: str, kind: str, value: str, reported: str
) -> None:
    maria.run(
        "DROP TABLE IF EXISTS odd", f"CREATE TABLE odd (v {kind})", f"INSERT INTO odd VALUES ({value})", schema=schema
    )
    with source_of(maria, schema, mode="bulk") as source, pytest.raises(ConnectError, match=reported) as caught:
        source.poll(1)
    assert f"{schema}.odd cannot be read: Column v " in str(caught.value)


KINDS = (
    *("smallint", "int", "bigint", "double", "decimal(20,4)", "boolean", "text", "blob", "date", "time(3)"),
    "datetime(3)",
)


def random_rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)

    def value(kind: str) -> Any:
        if draw.random() < 0.2:
            return None
        day = datetime.datetime(1000, 1, 3) + datetime.timedelta(milliseconds=draw.randrange(280_000_000_000_000))  # noqa: DTZ001
        made: dict[str, Any] = {
            "smallint": draw.randrange(-(1 << 15), 1 << 15),
            "int": draw.randrange(-(1 << 31), 1 << 31),
            "bigint": draw.randrange(-(1 << 63), 1 << 63),
            "double": draw.choice([0.0, 1e300, 5e-324, draw.random()]),
            "decimal(20,4)": f"{draw.randrange(10**16)}.{draw.randrange(10**4)}",
            "boolean": draw.random() < 0.5,
            "text": "".join(draw.choice("aä€\U0001f600 \"'\\,\n\t%{}") for _ in range(draw.randrange(9))),
            "blob": draw.randbytes(draw.randrange(5)),
            "date": day.date(),
            "time(3)": day.time(),
            "datetime(3)": day,
        }
        return made[kind]

    return [(number, *(value(kind) for kind in KINDS)) for number in range(count)]


@pytest.mark.parametrize("mode", ["incrementing", "bulk"])
def test_random_rows_go_through_a_topic_into_a_table_that_equals_theirs(maria: MariaDb, schema: str, mode: str) -> None:
    columns = ", ".join(f"`c {index}` {kind}" for index, kind in enumerate(KINDS))
    marks = ", ".join(["%s"] * (len(KINDS) + 1))
    maria.run(
        f"CREATE TABLE there (id bigint PRIMARY KEY, {columns})",
        (f"INSERT INTO there VALUES ({marks})", random_rows(15, 500)),
        schema=schema,
    )
    ids = {"incrementing.column.name": "id"} if mode == "incrementing" else {"poll.interval.ms": "600000"}
    config = {**maria.settings(schema), "mode": mode, "batch.max.rows": "64", **ids, **JSON}
    with SourceHarness("SqlSource", config) as source:
        source.poll(500)
        assert nothing_more(source)
    table = {**dotted(UPSERT), "table.name.format": "back", "auto.create": "true", "topics": "there"}
    with SinkHarness("SqlSink", {**maria.settings(schema), **table, **JSON}, log=source.log) as sink:
        assert sink.deliver() == 500
    there, here = (maria.run(f"SELECT * FROM {name} ORDER BY id", schema=schema) for name in ("there", "back"))
    assert here == there


def test_new_and_changed_rows_are_found_and_gone_on_from(maria: MariaDb, schema: str) -> None:
    maria.run(
        "SET time_zone = '+00:00'",
        "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, at timestamp(3) NOT NULL, n int)",
        "INSERT INTO t (at, n) VALUES ('2026-01-02 00:00:00.5', 1), ('2026-01-02 00:00:00.5', 2), ('2026-01-02', 3)",
        schema=schema,
    )
    with source_of(maria, schema, **BOTH) as source:
        assert [record.value["n"] for record in source.poll(3)] == [3, 1, 2]
        assert nothing_more(source)
        maria.run(
            "SET time_zone = '+00:00'",
            "UPDATE t SET n = 10, at = '2026-01-03' WHERE n = 1",
            "INSERT INTO t (at, n) VALUES ('2026-01-03', 4)",
            schema=schema,
        )
        assert [record.value["n"] for record in source.poll(2)] == [10, 4]
        source.commit()
        log, offsets = source.log, [(dict(one.partition), dict(one.offset)) for one in source.offsets]
    assert log is not None
    maria.run("SET time_zone = '+00:00'", "INSERT INTO t (at, n) VALUES ('2026-01-04', 5)", schema=schema)
    config = {**maria.settings(schema), "poll.interval.ms": "20", **dotted(BOTH)}
    with SourceHarness("io.confluent.connect.jdbc.JdbcSourceConnector", config, offsets=offsets) as source:
        assert [record.value["n"] for record in source.poll(1)] == [5]
        assert nothing_more(source)


def test_times_mean_the_same_whatever_the_zone_of_the_database_is(maria: MariaDb, schema: str) -> None:
    maria.run(
        "CREATE TABLE zones (id int AUTO_INCREMENT PRIMARY KEY, at datetime(3) NOT NULL)",
        "INSERT INTO zones (at) VALUES ('2026-01-01 22:04:05'), ('2026-01-01 23:04:05')",
        schema=schema,
    )
    with source_of(maria, schema, **BOTH, db_timezone="America/New_York", batch_max_rows="1") as source:
        records = source.poll(2)
        assert nothing_more(source)
    first = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert [record.value["at"] for record in records] == [first, first + datetime.timedelta(hours=1)]
    with sink_into(maria, schema, "back", db_timezone="America/New_York", **UPSERT) as sink:
        fields = SchemaBuilder.struct().field("id", SchemaBuilder.int64().build()).field("at", Timestamp.SCHEMA).build()
        sink.put(Struct(fields, {"id": 1, "at": first}), schema=fields)
    assert maria.run("SELECT CAST(at AS char) FROM back", schema=schema) == [("2026-01-01 22:04:05.000",)]


def test_texts_that_differ_in_case_accents_or_blanks_are_keys_of_their_own(maria: MariaDb, schema: str) -> None:
    keys = ["a", "A", "ä", "a\u0308", "a ", "", " ", "ss", "ß", "\U0001f600", "\U0001f601"]
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "k", "delete_enabled": "true"}
    with sink_into(maria, schema, "exact", **settings) as sink:
        for number, key in enumerate(keys):
            sink.put({"n": number}, key=key)
        sink.put(None, key="A")
        sink.put({"n": 100}, key="a ")
    found = dict(maria.run("SELECT k, n FROM exact", schema=schema))
    assert found == {**{key: number for number, key in enumerate(keys) if key != "A"}, "a ": 100}


def test_a_timestamp_is_its_moment_whatever_the_zone_of_the_server_is(maria: MariaDb, schema: str) -> None:
    """Of the hour that comes twice when summer ends, both are found: the server's clock shows them alike."""
    summer, winter = (f"SET time_zone = '{offset}'" for offset in ("+02:00", "+01:00"))
    maria.run(
        summer,
        "CREATE TABLE autumn (id int AUTO_INCREMENT PRIMARY KEY, at timestamp NOT NULL)",
        "INSERT INTO autumn (at) VALUES ('2025-10-26 02:50:00')",
        schema=schema,
    )
    settings = {"mode": "timestamp", "timestamp_column_name": "at", "table_whitelist": "autumn"}
    with source_of(maria, schema, **settings, connection_sessionVariables="time_zone='+01:00'") as source:
        assert [str(one.value["at"]) for one in source.poll(1)] == ["2025-10-26 00:50:00+00:00"]
        maria.run(winter, "INSERT INTO autumn (at) VALUES ('2025-10-26 02:10:00')", schema=schema)
        assert [str(one.value["at"]) for one in source.poll(1)] == ["2025-10-26 01:10:00+00:00"]
        maria.run(winter, "INSERT INTO autumn (at) VALUES (now())", schema=schema)
        assert source.poll(1)  # at once, not when UTC shows that time
    maria.run("ALTER TABLE autumn ADD COLUMN made datetime NOT NULL DEFAULT '2025-10-26'", schema=schema)
    settings["timestamp_column_name"] = "at,made"
    with (
        source_of(maria, schema, **settings, db_timezone="Europe/Berlin") as source,
        pytest.raises(ConnectError, match=r"made has times of db\.timezone=Europe/Berlin, and the others moments"),
    ):
        source.poll(1)
    back = {"auto_create": "false", "table_name_format": "autumn", "connection_sessionVariables": "time_zone='+02:00'"}
    with sink_into(maria, schema, "back", **back) as sink:
        fields = SchemaBuilder.struct().field("id", SchemaBuilder.int64().build()).field("at", Timestamp.SCHEMA).build()
        sink.put(
            Struct(fields, {"id": 9, "at": datetime.datetime(2025, 10, 26, 1, 30, tzinfo=datetime.UTC)}), schema=fields
        )
    unix = maria.run("SELECT unix_timestamp(at) FROM autumn WHERE id = 9", schema=schema)
    assert unix == [(datetime.datetime(2025, 10, 26, 1, 30, tzinfo=datetime.UTC).timestamp(),)]


def test_every_type_arrives_as_its_own_and_columns_are_added(maria: MariaDb, schema: str) -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    cells = {"id": 1 << 40, "price": decimal.Decimal("9.50"), "day": at.date(), "at": at, "raw": b"\x00\xff"}
    cells |= {"flag": None, "tags": ["ä"]}
    builder = SchemaBuilder.struct()
    for name, kind in (
        ("id", SchemaBuilder.int64().build()),
        ("price", Decimal.schema(2)),
        ("day", Date.SCHEMA),
        ("at", Timestamp.SCHEMA),
        ("raw", SchemaBuilder.bytes().build()),
        ("flag", SchemaBuilder.bool().optional().build()),
        ("tags", SchemaBuilder.array(SchemaBuilder.string().build()).build()),
    ):
        builder.field(name, kind)
    fields = builder.build()
    more = builder.field("note", SchemaBuilder.string().optional().build()).build()
    with sink_into(maria, schema, "types", auto_evolve="true", **UPSERT) as sink:
        sink.put(Struct(fields, cells), schema=fields)
        sink.put(Struct(more, {**cells, "id": 2, "note": "ü"}), schema=more)
    found = maria.run("SELECT id, price, day, at, raw, flag, tags, note FROM types ORDER BY id DESC", schema=schema)
    whole = (cells["price"], at.date(), at.replace(tzinfo=None), b"\x00\xff", None, '["ä"]')
    assert found == [(1 << 40, *whole, None), (2, *whole, "ü")]


@pytest.mark.parametrize("mode", ["upsert", "insert", "update"])
def test_changes_by_key_and_deletions_leave_the_last_row(maria: MariaDb, schema: str, mode: str) -> None:
    settings = {"pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true", "insert_mode": mode}
    maria.run("CREATE TABLE keyed (id int PRIMARY KEY, `n%%` varchar(9))".replace("%%", "%"), schema=schema)
    maria.run("INSERT INTO keyed VALUES (3, 'old')", schema=schema)
    with sink_into(maria, schema, "keyed", **settings) as sink:
        for key, value in ((1, {"n%": "a"}), (2, {"n%": "b"}), (3, None), (2, None)):
            sink.put(value, key=key)
        if mode != "insert":
            sink.put({"n%": "c"}, key=1)
    wanted = {"upsert": [(1, "c")], "insert": [(1, "a")], "update": []}
    assert maria.run("SELECT * FROM keyed", schema=schema) == wanted[mode]


# A column's type, a value without schema, what is then in the column as text; an error's words where it starts with !
INTO_COLUMNS: tuple[tuple[str, Any, str | None], ...] = (
    ("json", {"a": [1, None]}, '{"a":[1,null]}'),
    ("json", ["a"], '["a"]'),
    ("json", "{}", "{}"),
    ("json", "{", "!CONSTRAINT `into_columns.v` failed"),  # a text with a CHECK is what MariaDB has for JSON
    ("set('a','b')", ["a", "b"], "a,b"),
    ("enum('a','b')", "b", "b"),
    ("enum('a','b')", 7, "!is enum('a','b'), and would change the value 7"),
    ("enum('a','2')", "2", "2"),
    ("bit(4)", "1010", "10"),
    ("bit(1)", True, "1"),
    ("int", 3.5, "!Column v is int(11), and would change the value 3.5"),
    ("int", "3.5", "!is int(11), and would change the value '3.5'"),
    ("int", "3", "3"),
    ("boolean", True, "1"),
    ("bigint unsigned", 18446744073709551615, "18446744073709551615"),
    ("decimal(12,2)", "0.37", "0.37"),
    ("decimal(12,2)", [1], "!is decimal(12,2), and would change the value [1]"),
    ("varchar(20)", {"a": 1}, '{"a":1}'),
    ("varchar(2)", "long", "!would change the value 'long'"),
    ("blob", "AP8=", None),
    ("datetime(3)", 1764237600123, "2025-11-27 10:00:00.123"),
    ("datetime(3)", "2025-11-27T11:00:00.5+01:00", "2025-11-27 10:00:00.500"),
    ("datetime", "2025-11-27 10:00:00", "2025-11-27 10:00:00"),
    ("timestamp(6) NULL", "2025-11-27T10:00:00.123456Z", "2025-11-27 10:00:00.123456"),
    ("date", 20_000, "2024-10-04"),
    ("time", 3_600_000, "01:00:00"),
    ("time", "100:00:00", "100:00:00"),
    ("year", 2026, "2026"),
    ("year", 1, "!is year(4), and would change the value 1"),
    ("float(7,2)", 12.345, "!is float(7,2), and would change the value 12.345"),
    ("datetime", 1764237600123, "!is datetime, and would change the value 1764237600123"),
    ("datetime", "10.0.0.1", "!is datetime, and would change the value '10.0.0.1'"),
    ("time", "101", "!is time, and would change the value '101'"),
    ("point", b"\0\0\0\0" + bytes.fromhex("0101000000000000000000f03f0000000000000040"), None),  # as a query gives it
    ("point", "POINT(1 2)", "!Cannot get geometry object"),
)


def test_values_are_cast_by_the_type_of_the_column_that_is_there(maria: MariaDb, schema: str) -> None:
    def reported(case: tuple[str, Any, str | None]) -> str | None:
        kind, value, wanted = case
        maria.run("DROP TABLE IF EXISTS into_columns", f"CREATE TABLE into_columns (id int, v {kind})", schema=schema)
        with sink_into(maria, schema, "into_columns", auto_create="false", errors_tolerance="all") as sink:
            sink.put({"id": 1, "v": None}, {"id": 2, "v": value}, {"id": 3, "v": None})
            errors = [str(item.error) for item in sink.errant]
        shown = {"point": "ST_AsText(v)", "blob": "HEX(v)", "bit(4)": "v + 0", "bit(1)": "v + 0"}.get(kind, "v")
        found = maria.run(f"SELECT id, CAST({shown} AS char) FROM into_columns ORDER BY id", schema=schema)
        if wanted is not None and wanted.startswith("!"):
            is_reported = len(errors) == 1 and wanted[1:] in errors[0]
            return None if is_reported and [row[0] for row in found] == [1, 3] else f"{errors} {found}, not {wanted}"
        wanted = {"point": "POINT(1 2)", "blob": "00FF"}.get(kind, wanted)
        is_right = (errors, found) == ([], [(1, None), (2, wanted), (3, None)])
        return None if is_right else f"{errors} {found}, not {wanted}"

    hold_alike(((f"{kind} {value!r}", case) for case in INTO_COLUMNS for kind, value, _ in [case]), reported)


def test_what_the_table_fills_by_itself_is_left_to_it_where_a_record_does_not_have_it(
    maria: MariaDb, schema: str
) -> None:
    maria.run(
        "CREATE TABLE filled (id int, n int AUTO_INCREMENT UNIQUE, a varchar(9) DEFAULT 'none', b double, "
        "c int NOT NULL DEFAULT 7, at datetime DEFAULT '2026-01-02' ON UPDATE current_timestamp, "
        "twice int GENERATED ALWAYS AS (id * 2) STORED, d int DEFAULT (3 + 4))",
        "CREATE VIEW filled_view AS SELECT id, a, b FROM filled",
        schema=schema,
    )
    with sink_into(maria, schema, "filled", auto_create="false") as sink:
        sink.put({"id": 1, "a": "x", "n": 70}, {"id": 2, "b": 2.5}, {"id": 3, "c": 9, "b": 0.5, "d": 1})
    with sink_into(maria, schema, "filled_view", auto_create="false") as sink:
        sink.put({"id": 4, "a": "x"}, {"id": 5, "b": 1.5})
    found = maria.run("SELECT id, n, a, b, c, CAST(at AS date), twice, d FROM filled ORDER BY id", schema=schema)
    at = datetime.date(2026, 1, 2)
    assert found == [
        (1, 70, "x", None, 7, at, 2, 7),
        (2, 71, "none", 2.5, 7, at, 4, 7),
        (3, 72, "none", 0.5, 9, at, 6, 1),
        (4, 73, "x", None, 7, at, 8, 7),
        (5, 74, "none", 1.5, 7, at, 10, 7),
    ]


def test_microseconds_go_through_a_topic_into_a_table_that_is_made(maria: MariaDb, schema: str, tmp_path: Path) -> None:
    maria.run(
        "SET time_zone = '+00:00'",
        "CREATE TABLE fine (id int PRIMARY KEY, at datetime(6), stamp timestamp(6) NULL, clock time(6))",
        "INSERT INTO fine VALUES (1, '2026-01-02 03:04:05.123456', '2026-01-02 03:04:05.000001', '10:11:12.123456')",
        schema=schema,
    )
    with source_of(maria, schema, mode="bulk", timestamp_granularity="micros_debezium", **JSON) as source:
        source.poll(1)
        log = source.log
    settings = {"topics": "fine", "auto.create": "true", **JSON}
    back = {**maria.settings(schema), "table.name.format": "back"}
    for target in (back, {"connection.url": f"jdbc:sqlite:{tmp_path}/back.db", "table.name.format": "back"}):
        with SinkHarness("SqlSink", {**settings, **target}, log=log) as sink:
            assert sink.deliver() == 1
    here = maria.run("SELECT CAST(at AS char), CAST(stamp AS char), CAST(clock AS char) FROM back", schema=schema)
    assert here == [("2026-01-02 03:04:05.123456", "2026-01-02 03:04:05.000001", "10:11:12.123456")]
    with closing(sqlite3.connect(tmp_path / "back.db")) as connection:
        (row,) = connection.execute("SELECT at, stamp, clock FROM back").fetchall()
    assert [text[:26].removesuffix("+00:00") for text in row] == list(here[0])


ONCE = {"delivery_guarantee": "exactly_once"}


def test_offsets_are_beside_the_rows_and_gone_on_from(maria: MariaDb, schema: str) -> None:
    with sink_into(maria, schema, "Once", **ONCE) as sink:
        sink.put({"id": 0}, {"id": 1})
        sink.crash()
        sink.start()
        sink.deliver()
        sink.put({"id": 2})
        maria.run("UPDATE kconnect_offsets SET next_offset = 2", schema=schema)
        sink.put({"id": 3})  # refused: the table has another offset
        assert sink.deliver() == 2
        maria.run("CREATE TABLE plain (id int) ENGINE=MyISAM", schema=schema)
    with (
        sink_into(maria, schema, "plain", **ONCE) as sink,
        pytest.raises(ConnectError, match="engine MyISAM knows no transactions"),
    ):
        sink.put({"id": 1})
    assert maria.run("SELECT id FROM Once ORDER BY id", schema=schema) == [(0,), (1,), (2,), (2,), (3,)]
    assert maria.run("SELECT topic, next_offset FROM kconnect_offsets", schema=schema) == [("Once", 4)]


def test_a_refused_row_is_reported_and_the_rest_of_the_put_is_written(maria: MariaDb, schema: str) -> None:
    with sink_into(maria, schema, "narrow", **UPSERT, errors_tolerance="all") as sink:
        sink.put({"id": 1, "n": 1})
        sink.put({"id": 2, "n": 2}, {"id": 3, "n": "no number"}, {"id": 4, "n": 4})
        assert [item.record.kafka_offset for item in sink.errant] == [2]
    assert maria.run("SELECT id FROM narrow ORDER BY 1", schema=schema) == [(1,), (2,), (4,)]


def test_a_server_that_is_not_strict_changes_no_value(maria: MariaDb, schema: str) -> None:
    """Without a word it makes 127 of 1000 and "abc" of "abcdef". Making a table again after a refusal would commit."""
    maria.run("CREATE TABLE lax (id int, s varchar(3), n tinyint(1), f varbinary(2), u uuid)", schema=schema)
    settings = maria.settings(schema)
    url = f"{settings['connection.url']}?sessionVariables=sql_mode=''"
    with sink_into(maria, schema, "lax", connection_url=url, errors_tolerance="all") as sink:
        sink.put({"id": 1, "s": "abcdef"}, {"id": 2, "n": 1000}, {"id": 3, "f": b"\0\1\2"}, {"id": 4, "u": 5})
        sink.put({"id": 5, "s": "abc", "n": 1, "u": "7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10"})
        assert [item.record.kafka_offset for item in sink.errant] == [0, 1, 2, 3]
    assert maria.run("SELECT id, s, n FROM lax", schema=schema) == [(5, "abc", 1)]


def test_values_of_declared_types_come_back_at_random(maria: MariaDb, schema: str) -> None:
    numbers = itertools.count()

    def run(drawn: Drawn) -> None:
        assert through_database(maria.settings(schema), f"round_trip_{next(numbers)}", drawn) == drawn.wanted

    try_all("MariaDB", drawings(), run, small=20, share=0.01)
