"""SqlSink into a real PostgreSQL: types, upserts, deletes, refusals, lost connections, a killed process."""

from __future__ import annotations

import datetime
import decimal
import itertools
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kconnect.api import ConnectError, RetriableError, Schema, SchemaBuilder, Struct
from kconnect.api.logical import Date, Decimal, Timestamp
from kconnect.testing import ManualClock, MemoryLog, SinkHarness
from kit.differences import hold_alike
from kit.pace import ended
from kit.waiting import eventually, stays


@pytest.fixture
def server(postgres_uri: str) -> str:
    return postgres_uri


def sink_into(
    server: str, topic: str, clock: ManualClock | None = None, log: MemoryLog | None = None, **more: str
) -> SinkHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"topics": topic, "connection.driver": "psycopg", "connection.url": server, **settings}
    return SinkHarness("SqlSink", {"auto.create": "true", **config}, log=log, clock=clock or ManualClock())


def rows(server: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server) as connection:
        return connection.execute(query).fetchall()


UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}


def test_every_type_arrives_as_its_own(server: str) -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    builder = SchemaBuilder.struct()
    for name, schema in (
        ("id", SchemaBuilder.int64().build()),
        ("price", Decimal.schema(2)),
        ("day", Date.SCHEMA),
        ("at", Timestamp.SCHEMA),
        ("raw", SchemaBuilder.bytes().build()),
        ("flag", SchemaBuilder.bool().optional().build()),
        ("tags", SchemaBuilder.array(SchemaBuilder.string().build()).build()),
    ):
        builder.field(name, schema)
    schema = builder.build()
    cells = {
        "id": 1 << 40,
        "price": decimal.Decimal("9.50"),
        "day": at.date(),
        "at": at,
        "raw": b"\x00\xff",
        "tags": ["ä"],
    }
    with sink_into(server, "types", **UPSERT) as sink:
        sink.put(Struct(schema, cells), schema=schema)
    assert rows(server, 'SELECT id, price, day, at, raw, flag, tags FROM "types"') == [
        (1 << 40, decimal.Decimal("9.50"), at.date(), at, b"\x00\xff", None, '["ä"]')
    ]


def test_a_column_follows_the_schema_of_its_records_when_that_becomes_wider(server: str) -> None:
    """As a table does whose source had its column altered: INT32 became INT64. Nothing stands beside it."""
    narrow, wide = (
        SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).field("n", kind).build()
        for kind in (Schema.OPTIONAL_INT32_SCHEMA, Schema.OPTIONAL_INT64_SCHEMA)
    )
    for evolves in ("true", "false"):
        name = f"follows_{evolves}"
        with sink_into(server, name, auto_evolve=evolves, errors_tolerance="all") as sink:
            sink.put(Struct(narrow).put("id", 1).put("n", 7), schema=narrow)
            sink.put(Struct(wide).put("id", 2).put("n", 1 << 40), schema=wide)
        kept = [(1, 7), (2, 1 << 40)] if evolves == "true" else [(1, 7)]
        assert rows(server, f"SELECT * FROM {name} ORDER BY id") == kept
        assert [str(record.error).partition(": ")[2] for record in sink.errant] == (
            [] if evolves == "true" else ["MisfitError: Column n is integer, and would change the value 1099511627776"]
        )


def test_a_column_widens_for_numbers_and_no_value_is_changed_by_the_database(server: str) -> None:
    """3.5 was rounded into a bigint, and "no" in a boolean was false."""
    with sink_into(server, "seen", auto_evolve="true") as sink:
        sink.put({"id": 1, "price": 3, "big": 1, "ok": True})
        sink.put({"id": 2, "price": 3.5, "big": 2**63}, {"id": 3, "price": 2.5, "big": 0.5, "ok": "no"})
        sink.put({"id": 4, "price": "free", "big": 2**53 + 1})
        assert not sink.errant
    assert rows(server, 'SELECT price, price__v_text, big, ok, ok__v_text FROM "seen" ORDER BY id') == [
        (3.0, None, 1, True, None),
        (3.5, None, 2**63, None, None),
        (2.5, None, decimal.Decimal("0.5"), None, "no"),
        (None, "free", 2**53 + 1, None, None),
    ]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute('CREATE TABLE "fixed" (id int8, n int8, ok boolean, p numeric(5,2), at date, r real)')
    with sink_into(server, "fixed", errors_tolerance="all") as sink:
        bad = [{"n": 3.5}, {"ok": "no"}, {"p": 1.255}, {"at": "2026-01-02T10:00"}, {"r": 0.123456789}, {"n": "01"}]
        good = [{"n": 3.0}, {"ok": True}, {"p": "1.25"}, {"at": "2026-01-02"}, {"r": 0.1}, {"n": "12"}]
        sink.put(*[{"id": number, **value} for number, value in enumerate(bad + good)])
        assert [letter.record.kafka_offset for letter in sink.errant] == list(range(6))
    assert rows(server, 'SELECT max(n), bool_and(ok), max(p), max(at), max(r) FROM "fixed"') == [
        (12, True, decimal.Decimal("1.25"), datetime.date(2026, 1, 2), pytest.approx(0.1))
    ]


def test_upserts_and_tombstones_leave_what_the_last_record_of_each_key_says(server: str) -> None:
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    sink = sink_into(server, "keyed", **settings).start()
    for key, value in ((1, {"n%": "a"}), (2, {"n%": "b"}), (1, {"n%": "c"}), (2, None)):
        sink.put(value, key=key)
    sink.crash()
    with sink:
        assert sink.deliver() == 4
    assert rows(server, 'SELECT * FROM "keyed"') == [(1, "c")]


def test_a_url_is_enough_and_times_without_zone_are_those_of_the_databases(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute('CREATE TABLE "local" (id int8 PRIMARY KEY, at timestamp, atz timestamptz)')
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    settings = {**UPSERT, "connection_driver": "", "db_timezone": "America/New_York", "auto_evolve": "true"}
    with sink_into(server, "local", **settings) as sink:
        builder = SchemaBuilder.struct().field("id", SchemaBuilder.int64().build())
        times = builder.field("at", Timestamp.SCHEMA).field("atz", Timestamp.SCHEMA)
        schema = times.field("more", SchemaBuilder.string().optional().build()).build()
        sink.put(Struct(schema, {"id": 1, "at": at, "atz": at, "more": "x"}), schema=schema)
    assert rows(server, "SELECT at::text, atz = timestamptz '2026-01-02 03:04:05Z', more FROM \"local\"") == [
        ("2026-01-01 22:04:05", True, "x")
    ]


def test_a_refused_row_is_reported_and_the_rest_of_the_put_is_written(server: str) -> None:
    with sink_into(server, "narrow", **UPSERT, errors_tolerance="all") as sink:
        sink.put({"id": 1, "n": 1})
        sink.put({"id": 2, "n": 2}, {"id": 3, "n": "no number"}, {"id": 4, "n": 4})
        assert [item.record.kafka_offset for item in sink.errant] == [2]
    assert rows(server, 'SELECT id FROM "narrow" ORDER BY 1') == [(1,), (2,), (4,)]


def test_a_connection_that_the_server_ends_is_made_again(server: str) -> None:
    with sink_into(server, "ended", **UPSERT) as sink:
        sink.put({"id": 1})
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        with pytest.raises(RetriableError, match="away or busy"):
            sink.put({"id": 2})
        assert sink.deliver() == 1
    assert rows(server, 'SELECT id FROM "ended" ORDER BY 1') == [(1,), (2,)]


# A column's type, a value without schema, what is then in the column as text; an error's words where it starts with !
INTO_COLUMNS: tuple[tuple[str, Any, str | None], ...] = (
    ("text[]", ["a", None, 'b "c', ""], '{a,NULL,"b \\"c",""}'),
    ("text[]", [], "{}"),
    ("text[]", '["x"]', "{x}"),
    ("text[]", "{x,y}", "{x,y}"),
    ("text[]", [{"a": 1}, 2], '{"{\\"a\\":1}",2}'),
    ("int[]", [1, None, 3.0], "{1,NULL,3}"),
    ("int[]", [1, 2.5], "!is integer[], and would change the value [1, 2.5]"),
    ("int[]", [[1, 2], [3, 4]], "{{1,2},{3,4}}"),
    ("float8[]", [1.5, "NaN"], "{1.5,NaN}"),
    ("numeric(9,2)[]", [1.25], "{1.25}"),
    ("boolean[]", [True, None], "{t,NULL}"),
    ("boolean[]", ["no"], "!is boolean[]"),
    ("jsonb[]", [{"a": 'x"y'}, [1], "t"], r'{"{\"a\": \"x\\\"y\"}",[1],"\"t\""}'),
    ("bytea[]", ["AP8="], r'{"\\x00ff"}'),
    ("timestamptz[]", [1764237600000], '{"2025-11-27 10:00:00+00"}'),
    ("uuid[]", ["7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10"], "{7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10}"),
    ("jsonb", [{"a": 1}, None], '[{"a": 1}, null]'),
    ("jsonb", {"a": {"b": [1.5]}}, '{"a": {"b": [1.5]}}'),
    ("jsonb", 5, "5"),
    ("jsonb", "no json", '"no json"'),
    ("json", '{"a":  1}', '{"a":  1}'),
    ("uuid", "7D4FF3F4-8A0E-4D0A-8D2E-0E3F6D0A6F10", "7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10"),
    ("uuid", [1], "!invalid input syntax for type uuid"),
    ("feeling", "glad", "glad"),
    ("feeling", "bad", '!invalid input value for enum feeling: "bad"'),
    ("feeling[]", ["glad", None], "{glad,NULL}"),
    ("positive", 5, "5"),
    ("positive", -5, "!violates check constraint"),
    ("positive", 1.5, "!is integer, and would change the value 1.5"),
    ("inet", "10.0.0.1", "10.0.0.1/32"),
    ("interval", "1 day 2 hours", "1 day 02:00:00"),
    ("interval", 90, "00:01:30"),
    ("bit(4)", "1010", "1010"),
    ("bit(1)", True, "1"),
    ("varbit", 101, "101"),
    ("money", 1.5, "$1.50"),
    ("point", "(1,2)", "(1,2)"),
    ("int4range", "[1,3)", "[1,3)"),
    ("public.vector(2)", "[1,2.5]", "[1,2.5]"),
    ("public.vector(2)", [1, 2.5], "[1,2.5]"),
    ("int", 3.0, "3"),
    ("int", 3.5, "!Column v is integer, and would change the value 3.5"),
    ("int", "17", "17"),
    ("int", "x", "!is integer, and would change the value 'x'"),
    ("int", True, "!is integer, and would change the value True"),
    ("boolean", "true", "true"),
    ("boolean", "no", "!is boolean, and would change the value 'no'"),
    ("text", 5, "5"),
    ("text", True, "true"),
    ("text", {"a": [1]}, '{"a":[1]}'),
    ("varchar(3)", "long", "!value too long for type character varying"),
    ("numeric(12,2)", "0.37", "0.37"),
    ("numeric", 0.1, "0.1"),
    ("numeric", [1], "!is numeric, and would change the value [1]"),
    ("bytea", "AP8=", "\\x00ff"),
    ("bytea", "\\x00ff", "\\x00ff"),
    ("bytea", "no base64", "!is bytea, and would change the value 'no base64'"),
    ("date", 20_000, "2024-10-04"),
    ("date", "2026-01-02", "2026-01-02"),
    ("time", 3_600_000, "01:00:00"),
    ("timestamptz", 1764237600000, "2025-11-27 10:00:00+00"),
    ("timestamp", "2025-11-27T10:00:00.123456", "2025-11-27 10:00:00.123456"),
    ("timestamptz", {"a": 1}, "!is timestamp with time zone, and would change the value {'a': 1}"),
)


def test_values_are_cast_by_the_type_of_the_column_that_is_there(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("CREATE TYPE feeling AS ENUM ('sad', 'glad')")
        connection.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")

    def reported(case: tuple[str, Any, str | None]) -> str | None:
        kind, value, wanted = case
        with psycopg.connect(server, autocommit=True, options="-ctimezone=UTC") as connection:
            connection.execute("DROP TABLE IF EXISTS into_columns")
            connection.execute(f"CREATE TABLE into_columns (id int, v {kind})")
            with sink_into(server, "into_columns", auto_create="false", errors_tolerance="all") as sink:
                sink.put({"id": 1, "v": None}, {"id": 2, "v": value}, {"id": 3, "v": None})
                errors = [str(item.error) for item in sink.errant]
            found = connection.execute("SELECT id, v::text FROM into_columns ORDER BY id").fetchall()
        if wanted is not None and wanted.startswith("!"):
            is_reported = len(errors) == 1 and wanted[1:] in errors[0] and "into_columns-0, offset 1" in errors[0]
            return None if is_reported and [row[0] for row in found] == [1, 3] else f"{errors} {found}, not {wanted}"
        is_right = (errors, found) == ([], [(1, None), (2, wanted), (3, None)])
        return None if is_right else f"{errors} {found}, not {wanted}"

    hold_alike(((f"{kind} {value!r}", case) for case in INTO_COLUMNS for kind, value, _ in [case]), reported)


@pytest.mark.parametrize("seed", range(2))
def test_each_record_is_there_once_whoever_of_two_owners_writes_it(server: str, seed: int) -> None:
    chance, log, number, topic = random.Random(seed), MemoryLog(), itertools.count(), f"owned_{seed}"
    owners = [sink_into(server, topic, log=log, delivery_guarantee="exactly_once").start() for _ in range(2)]
    for _ in range(30):
        owner = chance.choice(owners)
        if chance.random() < 0.6:
            owner.put(*[{"id": next(number)} for _ in range(chance.randrange(1, 4))])
        else:
            owner.crash()
            owner.start()
    for owner in owners:
        owner.deliver()
        owner.deliver()
        owner.stop()
    assert rows(server, f"SELECT id FROM {topic} ORDER BY id") == [(each,) for each in range(next(number))]


def test_a_writer_that_sleeps_in_mid_transaction_is_waited_for_and_not_overtaken(server: str) -> None:
    once, log = {"delivery_guarantee": "exactly_once"}, MemoryLog()
    with sink_into(server, "asleep", log=log, **once) as owner:
        owner.put({"id": 0})
        with psycopg.connect(server) as asleep:
            asleep.execute("UPDATE kconnect_offsets SET next_offset = 2 WHERE topic = 'asleep' AND next_offset = 1")
            owner.task._writer.roll_back()
            owner.task._writer._database.session["lock_timeout"] = "50ms"
            with pytest.raises(RetriableError, match="lock timeout"):
                owner.put({"id": 1})
        assert owner.deliver() == 1  # it had written the record, so this commit is refused
    assert rows(server, "SELECT id FROM asleep") == [(0,)]


_CHILD = """
import sys
from kconnect.testing import SinkHarness
uri, mode = sys.argv[1:]
key = {"upsert": {"pk.mode": "record_value", "pk.fields": "id"}, "insert": {}}[mode]
config = {"topics": "killed_" + mode, "connection.driver": "psycopg", "connection.url": uri, "auto.create": "true",
          "insert.mode": mode, "batch.size": "50", **key}
with SinkHarness("SqlSink", config) as sink:
    for start in range(0, 1_000_000, 1000):
        sink.put(*({"id": number, "n": number * 2} for number in range(start, start + 1000)))
"""


@pytest.mark.parametrize("mode", ["upsert", "insert"])
def test_a_sink_that_is_killed_in_mid_batch_and_delivers_again_has_each_row_once_by_upsert_only(
    server: str, tmp_path: Path, mode: str
) -> None:
    """kill -9 between statements of a transaction; everything comes again from the last commit of offsets (none)."""
    with (tmp_path / "err").open("w") as said:
        child = subprocess.Popen([sys.executable, "-c", _CHILD, server, mode], stderr=said)
    table = f'"killed_{mode}"'

    def has_rows() -> bool:
        assert child.poll() is None, (tmp_path / "err").read_text()
        found = rows(server, f"SELECT to_regclass('{table}')")
        return found[0][0] is not None and rows(server, f"SELECT count(*) FROM {table}")[0][0] >= 2000

    try:
        eventually(has_rows, 20, "rows of the child are in the table", pause_s=0.01)
        stays(lambda: child.poll() is None, 0.005, "the child goes on into its next put")
    finally:
        os.kill(child.pid, signal.SIGKILL)
        ended(child, 10)
    others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    eventually(lambda: rows(server, others) == [(0,)], 10, "the server has noticed that the child is gone")
    written = rows(server, f"SELECT count(*) FROM {table}")[0][0]
    assert written % 1000 == 0, "a put is one transaction"
    total = written + 1000
    settings = UPSERT if mode == "upsert" else {}
    with sink_into(server, f"killed_{mode}", **settings) as sink:
        sink.put(*({"id": number, "n": number * 2} for number in range(total)))
    count, distinct = rows(server, f"SELECT count(*), count(DISTINCT (id, n)) FROM {table}")[0]
    assert distinct == total
    assert count == (total if mode == "upsert" else total + written)


def test_a_topic_with_dots_is_a_table_of_that_name_in_quotes_and_else_reported(server: str) -> None:
    more = {"table_name_format": '"${topic}"', "insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
    with sink_into(server, "z.abc.orders", auto_evolve="true", **more) as sink:
        sink.put({"id": 1})
        sink.put({"id": 1, "n": 2.5})
    assert rows(server, 'SELECT id, n FROM "z.abc.orders"') == [(1, 2.5)]
    with sink_into(server, "z.abc.orders") as sink, pytest.raises(ConnectError, match="cross-database") as caught:
        sink.put({"id": 1})
    assert 'quoted, as in table.name.format="${topic}"' in (caught.value.hint or "")


def test_topics_that_begin_alike_do_not_get_one_table(server: str) -> None:
    with sink_into(server, "a" * 62 + "_orders", errors_tolerance="all") as sink:
        with pytest.raises(ConnectError, match="has a name of 69 bytes"):
            sink.put({"id": 1})
        assert not sink.errant
    assert rows(server, f"SELECT to_regclass('{'a' * 62}_')") == [(None,)]


@pytest.mark.parametrize("mode", ["insert", "update"])
def test_the_column_is_named_whose_value_the_server_refuses(server: str, mode: str) -> None:
    table = f"named_{mode}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE {table} (id int PRIMARY KEY, n smallint, d date, u uuid, s varchar(3), t text)"
        )
        connection.execute(f"INSERT INTO {table} VALUES (1)")
    bad = {"n": 99_999, "d": "no day", "u": "no uuid", "s": "long"}
    keys = {"insert_mode": "update", "pk_mode": "record_value", "pk_fields": "id"} if mode == "update" else {}
    with sink_into(server, table, auto_create="false", errors_tolerance="all", **keys) as sink:
        sink.put(
            *({"t": "longer", "id": 1 if mode == "update" else 2 + i, k: v} for i, (k, v) in enumerate(bad.items()))
        )
        reported = [str(item.error) for item in sink.errant]
    assert len(reported) == len(bad)
    for text, name in zip(reported, bad, strict=True):
        assert re.search(rf"[Cc]olumn {name}\b", text) or (name == "s" and "varying(3)" in text), text
        assert "\n" not in text


def test_declared_types_have_columns_of_their_own(server: str) -> None:
    """Of a session whose zone is not UTC: a time of a clock on the wall is not moved by it."""
    declared = (
        "id bigint, price decimal(12,2), at timestamp, wall timestamp_ntz, clock time, u uuid, j json, small smallint, "
        "l array<string>, f float"
    )
    value = {
        "id": 1, "price": "0.37", "at": "2025-11-27T11:00:00.123456+01:00", "wall": "2025-11-27T10:00:00.123456",
        "clock": "03:04:05.123456", "u": "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "j": {"a": [1]}, "small": 7,
        "l": ["a", None], "f": 5.7,
    }  # fmt: skip
    zone = "-c TimeZone=Asia/Tokyo"
    sink = sink_into(server, "declared_types", value_schema=declared, connection_arg_options=zone).start()
    sink.put(value, {**value, "id": 2, "price": "1234567890.12"})
    with pytest.raises(Exception, match=r"price does not fit its column of type decimal\(12,2\): it is 0\.375"):
        sink.put({"id": 3, "price": 0.375})
    sink.crash()
    types = rows(server, "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
                         "WHERE a.attrelid = 'declared_types'::regclass AND a.attnum > 0")  # fmt: skip
    assert dict(types) == {
        "id": "bigint", "price": "numeric(12,2)", "at": "timestamp with time zone",
        "wall": "timestamp without time zone", "clock": "time without time zone", "u": "uuid", "j": "jsonb",
        "small": "smallint", "l": "text", "f": "real",
    }  # fmt: skip
    at = datetime.datetime(2025, 11, 27, 10, 0, 0, 123456, datetime.UTC)
    ((price, found, wall, clock, uuid_, json_),) = rows(
        server, "SELECT price, at, wall, clock, u::text, j FROM declared_types WHERE id = 1"
    )
    assert (price, found, wall) == (decimal.Decimal("0.37"), at, at.replace(tzinfo=None))
    assert (clock, uuid_, json_) == (datetime.time(3, 4, 5, 123456), value["u"].lower(), {"a": [1]})
