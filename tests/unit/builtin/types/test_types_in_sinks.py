"""Declared types, and Debezium's, as each sink of ours stores them: records and batches, read back by others."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import json
import sqlite3
from operator import itemgetter
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from kconnect.api import Decimal, Schema, SchemaBuilder, Struct
from kconnect.testing import SinkHarness
from kit.tables import FORMATS, read_table, table_settings

UTC = datetime.UTC
AT = datetime.datetime(2025, 11, 27, 10, 0, 0, 123456, tzinfo=UTC)
DECLARED = (
    "id bigint NOT NULL, price decimal(12,2), at timestamp, wall timestamp_ntz, d date, u uuid, j json, "
    "l array<string>, ls array<struct<p:int,q:string>>, m map<string,int>, s smallint"
)
GOOD = [
    {"id": 1, "price": "0.37", "at": "2025-11-27T11:00:00.123456+01:00", "wall": "2025-11-27T10:00:00.123456",
     "d": "2026-01-02", "u": "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "j": {"a": [1]}, "l": None,
     "ls": [{"p": 1}, {"q": "z"}], "m": {"k": 7}, "s": 1},
    {"id": 2, "price": 0.37, "at": 1764237600123, "l": [], "ls": [], "m": {}},
    {"id": 3, "l": ["a", None]},
]  # fmt: skip
BAD = [{"id": 4, "price": 0.375}, {"id": 5, "at": "soon"}, {"price": 1}, {"id": 7, "ls": [{"p": "x"}]}]
NAIVE = AT.replace(tzinfo=None)
WANTED = [
    {"id": 1, "price": decimal.Decimal("0.37"), "at": AT, "wall": NAIVE, "d": datetime.date(2026, 1, 2),
     "u": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "j": '{"a":[1]}', "l": None,
     "ls": [{"p": 1, "q": None}, {"p": None, "q": "z"}], "m": {"k": 7}, "s": 1},
    {"id": 2, "price": decimal.Decimal("0.37"), "at": AT.replace(microsecond=123000), "wall": None, "d": None,
     "u": None, "j": None, "l": [], "ls": [], "m": {}, "s": None},
    {"id": 3, "price": None, "at": None, "wall": None, "d": None, "u": None, "j": None, "l": ["a", None], "ls": None,
     "m": None, "s": None},
]  # fmt: skip
REPORTED = [
    "Field price does not fit its column of type decimal(12,2): it is 0.375",
    "Field at does not fit its column of type timestamp: it is 'soon'",
    "Field id does not fit its column of type bigint NOT NULL: it is missing",
    "Field ls[0].p does not fit its column of type int: it is 'x'",
]
OBJECTS = ("parquet", "avro")


def put(connector, settings, values, *, schemas=False):
    """Run a sink over values as JSON; gives the messages of the records that were errors."""
    worker = {"value.converter.schemas.enable": str(schemas).lower()}
    harness = SinkHarness(connector, {"topics": "t", "errors.tolerance": "all", **settings}, worker=worker).start()
    harness.put_bytes(*(json.dumps(value).encode() for value in values))
    harness.commit()
    harness.stop()
    return [str(record.error) for record in harness.errant]


def plain(rows):
    """Maps of Arrow as dicts, in the order of ids."""
    made = [{**row, **({"m": dict(row["m"])} if row.get("m") is not None else {})} for row in rows]
    return sorted(made, key=lambda row: row["id"])


def in_objects(kind, folder):
    """The rows of all objects."""
    files = [file for file in Path(folder).rglob("*") if file.is_file()]
    if kind == "parquet":
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return [row for file in files for row in fastavro.reader(io.BytesIO(file.read_bytes()))]


@pytest.mark.parametrize("count", [1, 60], ids=["records", "columns"])
@pytest.mark.parametrize("kind", FORMATS)
def test_tables_have_the_declared_types_and_misfits_are_their_records_errors(kind, count, tmp_path):
    settings = {**table_settings(kind, tmp_path), "value.schema": DECLARED}
    rows = [{**row, "id": row["id"] + 10 * n} for n in range(count) for row in GOOD]
    reported = put("TableSink", settings, [*rows, *BAD])
    assert reported == REPORTED
    found = plain(read_table(settings).to_pylist())
    assert found == plain([{**row, "id": row["id"] + 10 * n} for n in range(count) for row in WANTED])


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_have_the_declared_types(kind, tmp_path):
    settings = {"object.url": str(tmp_path), "object.format": kind, "flush.rows": "3", "value.schema": DECLARED}
    assert put("ObjectSink", settings, [*BAD, *GOOD]) == REPORTED
    assert plain(in_objects(kind, tmp_path)) == WANTED


def test_a_database_has_the_declared_types(tmp_path):
    settings = {"connection.driver": "sqlite3", "connection.url": str(tmp_path / "x.db"), "auto.create": "true",
                "value.schema": DECLARED}  # fmt: skip
    assert put("SqlSink", settings, [*GOOD, *BAD]) == REPORTED
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
        rows = database.execute("SELECT id, price, d, u, j, l, s FROM t ORDER BY id").fetchall()
        times = database.execute("SELECT at, wall FROM t WHERE id < 3 ORDER BY id").fetchall()
    assert times == [
        ("2025-11-27 10:00:00.123456+00:00", "2025-11-27 10:00:00.123456"),
        ("2025-11-27 10:00:00.123+00:00", None),
    ]
    assert rows == [
        (1, "0.37", "2026-01-02", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", '{"a":[1]}', None, 1),
        (2, "0.37", None, None, None, "[]", None),
        (3, None, None, None, None, '["a",null]', None),
    ]


def named(field, name, kind="int64"):
    return {"field": field, "type": kind, "name": f"io.debezium.time.{name}", "optional": True}


DEBEZIUM = {"type": "struct", "name": "shop.Value", "fields": [
    {"field": "id", "type": "int64"}, named("at", "MicroTimestamp"), named("zoned", "ZonedTimestamp", "string"),
    named("d", "Date", "int32"),
    {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "optional": True,
     "parameters": {"scale": "2", "connect.decimal.precision": "12"}},
]}  # fmt: skip
CHANGE = {"schema": DEBEZIUM, "payload": {"id": 1, "at": 1764237600123456, "zoned": "2025-11-27T10:00:00.123456Z",
                                          "d": 20420, "price": "JQ=="}}  # fmt: skip
MEANT = {"id": 1, "at": NAIVE, "zoned": AT, "d": datetime.date(2025, 11, 28), "price": decimal.Decimal("0.37")}


@pytest.mark.parametrize("kind", FORMATS)
def test_tables_take_debeziums_times_and_decimals_for_what_they_mean(kind, tmp_path):
    settings = table_settings(kind, tmp_path)
    assert put("TableSink", settings, [CHANGE], schemas=True) == []
    found = read_table(settings)
    assert found.to_pylist() == [MEANT]
    assert str(found.schema.field("price").type) == "decimal128(12, 2)"


@pytest.mark.parametrize("kind", FORMATS)
def test_tables_keep_each_digit_of_debeziums_times_of_day(kind, tmp_path):
    settings = table_settings(kind, tmp_path)
    clocks = [named("clock", "MicroTime"), named("zoned", "ZonedTime", "string"), named("short", "Time", "int32")]
    schema = {**DEBEZIUM, "fields": [DEBEZIUM["fields"][0], *clocks]}
    payloads = [
        {"id": 1, "clock": 3_600_000_000, "zoned": "01:00:00Z", "short": 3_600_000},
        {"id": 2, "clock": None, "zoned": None, "short": None},
        {"id": 3, "clock": 86_399_999_999, "zoned": "01:02:03.5+02:00", "short": 1},
    ]
    assert put("TableSink", settings, [{"schema": schema, "payload": one} for one in payloads], schemas=True) == []
    found = sorted(read_table(settings).to_pylist(), key=itemgetter("id"))
    one, last = datetime.time(1), datetime.time(23, 59, 59, 999_999)
    zoned, short = datetime.time(23, 2, 3, 500_000), datetime.time(microsecond=1000)
    wanted = [(one, one, one), (None, None, None), (last, zoned, short)]
    if kind == "delta":  # it has no time of day: whole milliseconds are numbers, others texts
        wanted = [("01:00:00", "01:00:00", 3_600_000), (None, None, None), ("23:59:59.999999", "23:02:03.500000", 1)]
    assert [(row["clock"], row["zoned"], row["short"]) for row in found] == wanted


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_have_debeziums_times_and_decimals_as_what_they_mean(kind, tmp_path):
    settings = {"object.url": str(tmp_path), "object.format": kind, "flush.rows": "1"}
    assert put("ObjectSink", settings, [CHANGE], schemas=True) == []
    assert in_objects(kind, tmp_path) == [MEANT]


def test_a_database_has_debeziums_times_as_times(tmp_path):
    settings = {"connection.driver": "sqlite3", "connection.url": str(tmp_path / "x.db"), "auto.create": "true"}
    assert put("SqlSink", settings, [CHANGE], schemas=True) == []
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
        ((at, zoned, day),) = database.execute("SELECT at, zoned, d FROM t").fetchall()
    assert (at[:19], zoned[:19], day) == ("2025-11-27 10:00:00", "2025-11-27 10:00:00", "2025-11-28")


def test_a_schema_that_does_not_parse_or_has_no_place_is_refused_before_anything_starts(tmp_path):
    for settings, reported in (
        ({"value.schema": "id bigin"}, r"value.schema: Unknown type: bigin, at line 1, column 4"),
        ({"value.schema": "id bigint", "table.schema": "id int"}, "value.schema and table.schema declare different"),
        ({"table.schema": "t time"}, "delta has no place for time. parquet, iceberg,"),
    ):
        with pytest.raises(Exception, match=reported):
            SinkHarness("TableSink", {"topics": "t", **table_settings("delta", tmp_path), **settings}).start()


HUNDREDS = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("x", Decimal.builder(-2).optional().build())


@pytest.mark.parametrize("kind", [*FORMATS, *OBJECTS, "sqlite"])
def test_a_decimal_that_counts_hundreds_is_a_whole_number_and_one_too_large_is_its_records_error(kind, tmp_path):
    """A table of Parquet said "Scale must be .." for ever, as no format has negative scales."""
    settings = {"object.url": str(tmp_path), "object.format": kind, "flush.rows": "2"}
    if kind in FORMATS:
        settings = table_settings(kind, tmp_path)
    if kind == "sqlite":
        settings = {"connection.url": f"sqlite:///{tmp_path}/x.db", "auto.create": "true"}
    connector = {"sqlite": "SqlSink", **dict.fromkeys(FORMATS, "TableSink")}.get(kind, "ObjectSink")
    schema, whole = HUNDREDS.build(), decimal.Decimal("1.2E+3")
    numbers = [whole, decimal.Decimal(10**38 // 100).scaleb(2), None]
    with SinkHarness(connector, {"topics": "t", "errors.tolerance": "all", **settings}) as sink:
        sink.put(*(Struct(schema).put("id", n).put("x", x) for n, x in enumerate(numbers)), schema=schema)
    reported = [str(record.error) for record in sink.errant]
    if kind == "sqlite":  # its texts have room
        assert reported == []
        with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
            assert [row[0] for row in database.execute("SELECT x FROM t WHERE id = 0")] == [str(whole)]
        return
    (error,) = reported
    assert "Field x does not fit its column of type decimal(38,0): it is " in error
    rows = read_table(settings).to_pylist() if kind in FORMATS else in_objects(kind, tmp_path)
    assert sorted((row["id"], row["x"]) for row in rows if row["id"] != 1) == [(0, whole), (2, None)]
