"""SqlSource from a real PostgreSQL: types there and back, time zones, settings, schemas."""

from __future__ import annotations

import datetime
import decimal
import random
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from kconnect.api import ConnectError
from kconnect.testing import SinkHarness, SourceHarness
from kit.differences import hold_alike
from kit.postgres_source import BOTH, fresh_schema, nothing_more, run, source_of, values_of
from kit.tables import read_table, table_settings

UTC = datetime.UTC


@pytest.fixture
def schema(postgres_uri: str, request: pytest.FixtureRequest) -> str:
    return fresh_schema(postgres_uri, request)


TYPES = """CREATE TABLE types (id bigserial PRIMARY KEY, i2 smallint, i4 integer NOT NULL, i8 bigint, f4 real,
    f8 double precision, n numeric(12,3), wide numeric(50,10), free numeric, flag boolean, c char(4), v varchar(20),
    t text, j json, jb jsonb, u uuid, raw bytea, day date, clock time, at timestamp, atz timestamptz,
    mood mood, tags text[], span interval)"""


def test_every_type_is_that_of_confluents_connector(postgres_uri: str, schema: str) -> None:
    run(postgres_uri, "CREATE TYPE mood AS ENUM ('sad', 'glad')", TYPES, schema=schema)
    run(
        postgres_uri,
        """INSERT INTO types VALUES (7, 1, 2, 3, 0.5, 0.1, 1.5, 12345678901234567890123456789012345.1, 1.25, true, 'ab',
        'v', 'ä', '{"b": 1,  "a": 2}', '{"b": 1, "a": 2}', '7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10', '\\x00ff',
        '2026-01-02', '03:04:05.678', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.678901+02', 'glad',
        '{x}', '1 day')""",
        "INSERT INTO types (i4) VALUES (0)",
        schema=schema,
    )
    with source_of(postgres_uri, schema, mode="incrementing") as source:
        full, empty = sorted(source.poll(2), key=lambda record: record.value["i4"], reverse=True)
    fields = {field.name: field.schema for field in full.value_schema.fields}
    kinds = {name: (s.name or str(s.type)).rpartition(".")[2] for name, s in fields.items()}
    assert kinds == {
        **dict.fromkeys(("id", "i8"), "INT64"),
        **dict.fromkeys(("n", "wide"), "Decimal"),
        **dict.fromkeys(("c", "v", "t", "j", "jb", "u", "mood", "free", "span"), "STRING"),
        **dict.fromkeys(("at", "atz"), "Timestamp"),
        **dict(
            i2="INT16", i4="INT32", f4="FLOAT32", f8="FLOAT64", flag="BOOLEAN", raw="BYTES", day="Date", clock="Time"
        ),
        "tags": "ARRAY",
    }
    assert [name for name, found in fields.items() if not found.is_optional] == ["id", "i4"]
    scales = {name: found.parameters for name, found in fields.items() if kinds[name] == "Decimal"}
    assert scales == {
        "n": {"scale": "3", "connect.decimal.precision": "12"},
        "wide": {"scale": "10", "connect.decimal.precision": "50"},
    }
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    found = values_of(full)
    assert {name: str(found[name]).rstrip("0") for name in scales} == {
        "n": "1.5",
        "wide": "12345678901234567890123456789012345.1",
    }
    assert (found["free"], found["tags"], found["span"]) == ("1.25", ["x"], "1 day")
    assert (found["at"], found["atz"], found["clock"]) == (at, at - datetime.timedelta(hours=2), at.time())
    assert (found["j"], found["jb"], found["c"]) == ('{"b": 1,  "a": 2}', '{"a": 2, "b": 1}', "ab  ")
    assert (found["u"], found["mood"]) == ("7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10", "glad")
    assert [name for name, value in values_of(empty).items() if value is not None] == ["id", "i4"]
    assert dict(source.offsets[0].partition) == {"protocol": "1", "table": f"postgres.{schema}.types"}


# The type, the text that is written, the schema's type, what is read: arrays are arrays, what Connect lacks is text
ODD_TYPES: tuple[tuple[str, str | None, str, Any], ...] = (
    ("price", "12.345", "Decimal", decimal.Decimal("12.35")),
    ("price[]", "{1.5,NULL}", "ARRAY Decimal", [decimal.Decimal("1.50"), None]),
    ("prices", "{1,2}", "ARRAY INT32", [1, 2]),
    ("text[]", '{a,NULL,"b c","NULL","\\"\\\\"}', "ARRAY STRING", ["a", None, "b c", "NULL", '"\\']),
    ("text[]", "{}", "ARRAY STRING", []),
    ("int[]", "[0:1]={3,4}", "ARRAY INT32", [3, 4]),
    ("int[][]", "{{1,2},{3,4}}", "ARRAY ARRAY", [[1, 2], [3, 4]]),
    ("mood[]", "{sad,NULL}", "ARRAY STRING", ["sad", None]),
    ("pair", '(1,"a b")', "STRING", '(1,"a b")'),
    ("pair[]", '{"(1,x)"}', "ARRAY STRING", ["(1,x)"]),
    ("bit(1)", "1", "BOOLEAN", True),
    ("bit(4)", "1010", "STRING", "1010"),
    ("varbit(8)", "101", "STRING", "101"),
    ("inet", "10.0.0.1", "STRING", "10.0.0.1"),
    ("cidr", "10.0.0.0/8", "STRING", "10.0.0.0/8"),
    ("macaddr", "08:00:2b:01:02:03", "STRING", "08:00:2b:01:02:03"),
    ("money", "-1234.5", "FLOAT64", -1234.5),
    ("money[]", "{1.5}", "ARRAY FLOAT64", [1.5]),
    ("interval", "1 day 2 hours", "STRING", "1 day 02:00:00"),
    ("timetz", "10:00:00+05", "STRING", "10:00:00+05"),
    ("tstzrange", "[2026-01-01 00:00Z,)", "STRING", '["2026-01-01 00:00:00+00",)'),
    ("int4multirange", "{[1,3),[5,7)}", "STRING", "{[1,3),[5,7)}"),
    ("int4range[]", '{"[1,3)"}', "ARRAY STRING", ["[1,3)"]),
    ("point", "(1,2)", "STRING", "(1,2)"),
    ("tsvector", "a b", "STRING", "'a' 'b'"),
    ("xml", None, "STRING", None),
    ("public.vector(2)", "[1,2.5]", "STRING", "[1,2.5]"),  # of an extension, as citext and hstore
    ("oid", "5", "INT64", 5),
    ("pg_lsn", "0/16B", "STRING", "0/16B"),
    ("regclass", "pg_class", "STRING", "pg_class"),
    ("jsonb[]", '{"{\\"a\\": 1}"}', "ARRAY STRING", ['{"a": 1}']),
    ("uuid[]", "{7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10}", "ARRAY STRING", ["7d4ff3f4-8a0e-4d0a-8d2e-0e3f6d0a6f10"]),
    ("numeric(9,3)[]", "{1.5}", "ARRAY Decimal", [decimal.Decimal("1.500")]),
    ("numeric[]", "{1.25,NaN}", "ARRAY STRING", ["1.25", "NaN"]),
    ("numeric", "NaN", "STRING", "NaN"),
    ("numeric", "1e-140", "STRING", "0." + "0" * 139 + "1"),
    ("numeric(3,-2)", "12345", "Decimal", decimal.Decimal("123E2")),
    ("bytea[]", '{"\\\\x00ff"}', "ARRAY BYTES", [b"\x00\xff"]),
    ("boolean[]", "{t,f,NULL}", "ARRAY BOOLEAN", [True, False, None]),
    ("date[]", "{2026-01-02}", "ARRAY Date", [datetime.date(2026, 1, 2)]),
    ("time[]", "{10:00,NULL}", "ARRAY Time", [datetime.time(10), None]),
    ("timestamptz[]", "{2026-01-01 00:00+02}", "ARRAY Timestamp", [datetime.datetime(2025, 12, 31, 22, tzinfo=UTC)]),
)


def test_every_other_type_is_read_and_none_is_left_out(postgres_uri: str, schema: str) -> None:
    columns = ", ".join(f'"c{index}" {kind}' for index, (kind, *_) in enumerate(ODD_TYPES))
    run(
        postgres_uri,
        "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN price AS numeric(9,2)",
        "CREATE DOMAIN prices AS int[]",
        f"CREATE TABLE odd (id bigserial PRIMARY KEY, {columns})",
        schema=schema,
    )
    with psycopg.connect(postgres_uri, options="-ctimezone=UTC", autocommit=True) as connection:
        marks = sql.SQL(", ").join(sql.Literal(text) for _, text, *_ in ODD_TYPES)
        connection.execute(sql.SQL("INSERT INTO {} VALUES (DEFAULT, {})").format(sql.Identifier(schema, "odd"), marks))
    url = f"{postgres_uri}&options=-ctimezone%3DUTC"
    with source_of(postgres_uri, schema, mode="incrementing", connection_url=url) as source:
        (record,) = source.poll(1)

    def reported(case: tuple[str, str | None, str, Any]) -> str | None:
        index = ODD_TYPES.index(case)
        fields = [record.value_schema.fields[index + 1].schema]
        if fields[0].type.name == "ARRAY":
            fields.append(fields[0].value_schema)
        kind = " ".join((field.name or field.type.name).rpartition(".")[2] for field in fields)
        found = (kind, record.value[f"c{index}"])
        return None if found == case[2:] else f"{found}, not {case[2:]}"

    hold_alike(((f"{kind} {text}", case) for case in ODD_TYPES for kind, text, *_ in [case]), reported)
    config = {"connection.url": url, "topics": "odd", "table.name.format": f"{schema}.back"}
    run(postgres_uri, "CREATE TABLE back (LIKE odd)", schema=schema)
    with SinkHarness("SqlSink", config) as sink:
        sink.put(record.value, schema=record.value_schema)
    there, here = (run(postgres_uri, f"SELECT t::text FROM {table} t", schema=schema) for table in ("odd", "back"))
    there = [(there[0][0].replace("[0:1]=", ""),)]  # the bounds of an array are no part of it elsewhere
    assert here == there, "and each goes into a column of its type"


def test_a_numeric_without_precision_is_confluents_decimal_under_confluents_name(
    postgres_uri: str, schema: str
) -> None:
    run(
        postgres_uri,
        "CREATE TABLE free (id serial PRIMARY KEY, n numeric)",
        "INSERT INTO free (n) VALUES (1.25)",
        schema=schema,
    )
    config = {"connection.url": postgres_uri, "schema.pattern": schema, "mode": "incrementing"}
    with SourceHarness("io.confluent.connect.jdbc.JdbcSourceConnector", config) as source:
        (record,) = source.poll(1)
    field = record.value_schema.field("n").schema
    assert field.parameters == {"scale": "127", "connect.decimal.precision": "0"}
    assert record.value["n"] == decimal.Decimal("1.25")


KINDS_OF_A_SHOP = """CREATE TABLE kinds (id serial PRIMARY KEY, total numeric(12,2), weight numeric,
    wide numeric(50,10), tags text[], counts int[], prefs jsonb, wakes time, local_at timestamp,
    updated_at timestamptz, ship tstzrange)"""


@pytest.mark.parametrize("format_", ["parquet", "iceberg"])
@pytest.mark.parametrize("granularity", ["connect_logical", "micros_debezium"])
def test_columns_are_those_of_a_table_in_a_lake(
    postgres_uri: str, schema: str, tmp_path: Path, format_: str, granularity: str
) -> None:
    run(
        postgres_uri,
        "DROP TABLE IF EXISTS kinds",
        KINDS_OF_A_SHOP,
        """INSERT INTO kinds VALUES (1, 12.5, 1.25, 12345678901234567890123456789012345.1, '{a,NULL}', '{1,NULL}',
        '{"a": 1}', '10:11:12.123456', '2026-01-02 03:04:05.123456', '2026-01-02 03:04:05.123456+01',
        '[2026-01-01 00:00Z,)')""",
        "INSERT INTO kinds (id) VALUES (2)",
        schema=schema,
    )
    json = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "true"}
    settings = {"connection.url": postgres_uri, "schema.pattern": schema, "mode": "incrementing", **json}
    with SourceHarness("SqlSource", {**settings, "timestamp.granularity": granularity}) as source:
        source.poll(2)
    table = {**table_settings(format_, tmp_path), "topics": "kinds", "flush.ms": "0"}
    with SinkHarness("TableSink", {**table, **json}, log=source.log) as sink:
        assert sink.deliver() == 2
    found = read_table(table)
    kinds = {field.name: str(field.type) for field in found.schema}
    assert (kinds["total"], kinds["weight"], kinds["wide"]) == ("decimal128(12, 2)", "string", "string")
    assert (kinds["wakes"], kinds["updated_at"].replace("Etc/", "")) == ("time64[us]", "timestamp[us, tz=UTC]")
    full, empty = sorted(found.to_pylist(), key=lambda row: row["id"])
    is_fine = granularity == "micros_debezium"
    micros = 123456 if is_fine else 123000
    assert (full["total"], full["weight"]) == (decimal.Decimal("12.50"), "1.25")
    assert full["wide"] == "12345678901234567890123456789012345.1000000000"
    assert (full["tags"], full["counts"], full["prefs"]) == (["a", None], [1, None], '{"a": 1}')
    assert full["wakes"] == datetime.time(10, 11, 12, micros)
    local = datetime.datetime(2026, 1, 2, 3, 4, 5, micros, UTC)
    assert (full["local_at"].replace(tzinfo=UTC), full["updated_at"]) == (local, local - datetime.timedelta(hours=1))
    assert [name for name, value in empty.items() if value is not None] == ["id"]


def random_rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)

    def value(kind: str) -> Any:
        if kind != "id" and draw.random() < 0.2:
            return None
        moment = datetime.datetime(1, 1, 3) + datetime.timedelta(microseconds=draw.randrange(315_537_000_000_000_000))  # noqa: DTZ001
        text = "".join(draw.choice("aä€\U0001f600 \"'\\,\n\t%{}") for _ in range(draw.randrange(9)))
        made: dict[str, Any] = {
            "int2": draw.randrange(-(1 << 15), 1 << 15),
            "int4": draw.randrange(-(1 << 31), 1 << 31),
            "int8": draw.randrange(-(1 << 63), 1 << 63),
            "float8": draw.choice([0.0, -0.0, 1e300, 5e-324, draw.random()]),
            "numeric(20,4)": f"{draw.randrange(10**16)}.{draw.randrange(10**4)}",
            "bool": draw.random() < 0.5,
            "text": text,
            "bytea": draw.randbytes(draw.randrange(5)),
            "date": moment.date(),
            "time(3)": moment.time().replace(microsecond=moment.microsecond // 1000 * 1000),
            "timestamptz(3)": moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=datetime.UTC),
        }
        return made[kind]

    return [(number, *(value(kind) for kind in KINDS)) for number in range(count)]


KINDS = (
    *("int2", "int4", "int8", "float8", "numeric(20,4)", "bool", "text", "bytea", "date", "time(3)"),
    "timestamptz(3)",
)


def test_random_rows_go_through_a_topic_into_a_table_that_equals_theirs(postgres_uri: str, schema: str) -> None:
    columns = ", ".join(f'"c {index}" {kind}' for index, kind in enumerate(KINDS))
    run(postgres_uri, f"CREATE TABLE there (id int8 PRIMARY KEY, {columns})", schema=schema)
    with psycopg.connect(postgres_uri) as connection, connection.cursor() as cursor:
        marks = ", ".join(["%s"] * (len(KINDS) + 1))
        cursor.executemany(f'INSERT INTO "{schema}".there VALUES ({marks})', random_rows(15, 500))
    json = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "true"}
    config = {"connection.url": postgres_uri, "schema.pattern": schema, "mode": "incrementing", **json}
    ids = {"incrementing.column.name": "id", "batch.max.rows": "64"}
    with SourceHarness("SqlSource", {**config, **ids}) as source:
        source.poll(500)
    back = {"connection.driver": "psycopg", "connection.url": postgres_uri, "auto.create": "true", "topics": "there"}
    table = {
        "table.name.format": f"{schema}.back",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
    }
    with SinkHarness("SqlSink", {**back, **table, **json}, log=source.log) as sink:
        sink.deliver()
    there, here = (run(postgres_uri, f"SELECT * FROM {name} ORDER BY id", schema=schema) for name in ("there", "back"))
    assert here == there


@pytest.mark.parametrize(
    ("kind", "value", "reported"),
    [
        (
            "timestamp",
            "'infinity'",
            "odd cannot be read: Column v has a value that is not of .*: timestamp too large",
        ),
        ("date", "'-infinity'", "Column v has a value that is not of type date: date too small"),
        ("time", "'24:00'", "Column v has a value that is not of type time: .*hour must be in 0..23"),
        ("numeric(9,2)", "'NaN'", r"Column v has a value \(Decimal\) that is not of type decimal: NaN"),
        ("int[]", "'{{1}}'", r"Column v\[\] has a value \(list\) that is not of type int32"),
    ],
)
def test_a_value_that_connect_cannot_hold_fails_the_task_and_says_which(
    postgres_uri: str, schema: str, kind: str, value: str, reported: str
) -> None:
    run(
        postgres_uri,
        "DROP TABLE IF EXISTS odd",
        f"CREATE TABLE odd (v {kind})",
        f"INSERT INTO odd VALUES ({value})",
        schema=schema,
    )
    with source_of(postgres_uri, schema, mode="bulk") as source, pytest.raises(ConnectError, match=reported):
        source.poll(1)


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "bulk"])
def test_a_row_that_connect_cannot_hold_is_given_up_alone_where_errors_are_tolerated(
    postgres_uri: str, schema: str, mode: str
) -> None:
    run(
        postgres_uri,
        "DROP TABLE IF EXISTS odd",
        "CREATE TABLE odd (id serial PRIMARY KEY, at timestamp NOT NULL, v timestamp, d date[], n numeric(9,2))",
        "INSERT INTO odd (at, v, d, n) SELECT t, t, ARRAY[t::date], 1 FROM "
        "generate_series(timestamp '2026-01-01', '2026-01-08', '1 day') t",
        "UPDATE odd SET v = 'infinity' WHERE id = 2",
        "UPDATE odd SET d = '{-infinity}' WHERE id = 5",
        "UPDATE odd SET n = 'NaN' WHERE id = 8",
        schema=schema,
    )
    settings = {"timestamp_column_name": "at", "errors_tolerance": "all", "batch_max_rows": "4"}
    with source_of(postgres_uri, schema, mode=mode, poll_interval_ms="60000", **settings) as source:
        assert sorted(record.value["id"] for record in source.poll(5)) == [1, 3, 4, 6, 7]
        assert nothing_more(source, 3)
        given_up = {one.record.value["id"]: (one.record, str(one.error)) for one in source.errant}
        assert sorted(given_up) == [2, 5, 8]
        assert given_up[2][0].value["v"] == "infinity"
        assert "odd cannot be read: Column v has a value that is not of type timestamp" in given_up[2][1]
        if mode == "incrementing":
            assert given_up[8][0].source_offset == {"incrementing": 8}


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date"])
def test_a_row_of_a_time_before_the_calendar_is_given_up_alone_and_once(
    postgres_uri: str, schema: str, kind: str, mode: str
) -> None:
    run(
        postgres_uri,
        "DROP TABLE IF EXISTS early",
        f"CREATE TABLE early (id serial PRIMARY KEY, at {kind} NOT NULL)",
        "INSERT INTO early (at) VALUES ('2026-01-01'), ('-infinity'), ('0044-03-15 BC')",
        schema=schema,
    )
    settings = {"timestamp_column_name": "at", "errors_tolerance": "all", "db_timezone": "Europe/Berlin"}
    settings |= {"incrementing_column_name": "id", "table_whitelist": "early", "batch_max_rows": "2"}
    with source_of(postgres_uri, schema, mode=mode, **settings) as source:
        assert [record.value["id"] for record in source.poll(1)] == [1]
        assert nothing_more(source)
        given_up = sorted(one.record.value["at"] for one in source.errant)
        assert (given_up[0], given_up[1].split()[-1]) == ("-infinity", "BC")
        assert len(source.errant) == 2
        source.commit()
        source.restart()
        run(postgres_uri, "INSERT INTO early (at) VALUES ('2026-01-02')", schema=schema)
        assert [record.value["id"] for record in source.poll(1)] == [4]
        assert len(source.errant) == 2


def test_a_table_of_nothing_but_times_before_the_calendar_goes_on(postgres_uri: str, schema: str) -> None:
    run(
        postgres_uri,
        "CREATE TABLE ancient (id serial PRIMARY KEY, at timestamp NOT NULL)",
        "INSERT INTO ancient (at) VALUES ('-infinity')",
        schema=schema,
    )
    settings = {"timestamp_column_name": "at", "errors_tolerance": "all", "db_timezone": "Europe/Berlin"}
    with source_of(postgres_uri, schema, mode="timestamp", table_whitelist="ancient", **settings) as source:
        assert nothing_more(source)
        run(postgres_uri, "INSERT INTO ancient (at) VALUES ('2026-01-02')", schema=schema)
        assert [record.value["id"] for record in source.poll(1)] == [2]
        assert len(source.errant) == 1


def test_times_mean_the_same_whatever_the_zones_of_database_and_session_are(postgres_uri: str, schema: str) -> None:
    run(
        postgres_uri,
        "CREATE TABLE zones (id serial PRIMARY KEY, at timestamp NOT NULL, atz timestamptz NOT NULL, "
        "moved timestamptz)",
        "INSERT INTO zones (at, atz) SELECT t AT TIME ZONE 'America/New_York', t FROM "
        "generate_series(timestamptz '2026-03-08 05:00Z', '2026-03-08 09:00Z', '30 min') t",
        schema=schema,
    )
    separator = "&" if "?" in postgres_uri else "?"
    url = f"{postgres_uri}{separator}options=-ctimezone%3DAsia/Tokyo"
    for column in ("at", "atz", "moved,at"):  # the last are of both kinds
        settings = {**BOTH, "timestamp_column_name": column, "db_timezone": "America/New_York", "connection_url": url}
        with source_of(postgres_uri, schema, **settings, batch_max_rows="2") as source:
            records = source.poll(9)
            assert nothing_more(source)
            assert [record.value["at"] for record in records] == [record.value["atz"] for record in records]
            source.commit()
            run(
                postgres_uri,
                "INSERT INTO zones (at, atz) VALUES ('2026-03-08 06:00', '2026-03-08 10:00Z')",
                schema=schema,
            )
            (late,) = source.poll(1)
            assert late.source_offset["timestamp"] == int(late.value["atz"].timestamp() * 1000)
            run(postgres_uri, "DELETE FROM zones WHERE atz >= '2026-03-08 10:00Z'", schema=schema)


def test_isolation_suffix_and_quoting_are_those_of_the_settings(postgres_uri: str, schema: str) -> None:
    level = "SELECT current_setting('transaction_isolation') AS level"
    settings = {"mode": "bulk", "query": level, "topic_prefix": "q", "transaction_isolation_mode": "REPEATABLE_READ"}
    with source_of(postgres_uri, schema, **settings) as source:
        assert values_of(source.poll(1)[0]) == {"level": "repeatable read"}
    run(
        postgres_uri,
        "CREATE TABLE t (id serial PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 3)",
        schema=schema,
    )
    with source_of(postgres_uri, schema, mode="bulk", query_suffix="LIMIT 2", poll_interval_ms="60000") as source:
        assert [record.value["id"] for record in source.poll(2)] == [1, 2]
        assert nothing_more(source, 3)  # the end of the round, and polls that wait a second for the next one
    unquoted = {"incrementing_column_name": "ID", "quote_sql_identifiers": "never"}
    with source_of(postgres_uri, schema, mode="incrementing", **unquoted) as source:
        assert len(source.poll(3)) == 3


def test_an_offset_that_an_older_connector_wrote_is_gone_on_from(postgres_uri: str, schema: str) -> None:
    run(
        postgres_uri,
        "CREATE TABLE t (id serial PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 4)",
        schema=schema,
    )
    for number, partition in enumerate(({"protocol": "1", "table": f"{schema}.t"}, {"table": "t"}), start=2):
        config = {"connection.url": postgres_uri, "schema.pattern": schema, "mode": "incrementing"}
        kept = [(partition, {"incrementing": number})]
        with SourceHarness("io.confluent.connect.jdbc.JdbcSourceConnector", config, offsets=kept) as source:
            assert [record.value["id"] for record in source.poll(4 - number)] == list(range(number + 1, 5))


def test_tables_of_several_kinds_are_found_and_names_stay_names(postgres_uri: str, schema: str) -> None:
    nasty = 'x"); DROP %s; --'
    made = sql.SQL("CREATE TABLE {} (id serial PRIMARY KEY, {} int)").format(*[sql.Identifier(nasty)] * 2)
    put = sql.SQL("INSERT INTO {} ({}) VALUES (5)").format(*[sql.Identifier(nasty)] * 2)
    run(postgres_uri, made, put, "CREATE VIEW seen AS SELECT 1 AS id", schema=schema)
    named = {"transforms": "n", "transforms_n_type": "RegexRouter", "transforms_n_regex": ".*"}
    named |= {"transforms_n_replacement": "t", "table_types": "TABLE,VIEW", "table_blacklist": "seen"}
    with source_of(postgres_uri, schema, mode="incrementing", **named) as source:
        (record,) = source.poll(1)
        assert values_of(record) == {"id": 1, nasty: 5}
    with source_of(postgres_uri, schema, mode="bulk", table_types="VIEW") as source:
        assert [(record.topic, values_of(record)) for record in source.poll(1)] == [("seen", {"id": 1})]


def test_a_name_of_another_type_than_tables_is_said_with_it(
    postgres_uri: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    parted = "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)"
    low, high = (f"CREATE TABLE p{n} PARTITION OF parts FOR VALUES FROM ({n}) TO ({n + 10})" for n in (0, 10))
    run(postgres_uri, parted, low, high, "INSERT INTO parts VALUES (3), (13)", schema=schema)
    run(postgres_uri, "CREATE MATERIALIZED VIEW seen AS SELECT id FROM parts", schema=schema)
    named = {"mode": "incrementing", "incrementing_column_name": "id", "table_whitelist": "parts,seen,none"}
    with source_of(postgres_uri, schema, **named):
        assert "names what does not exist (yet) as a table (table.types): parts, seen, none" in caplog.text
    for name, kind in (("seen", "MATERIALIZED VIEW"), ("parts", "PARTITIONED TABLE")):
        assert f"table.whitelist: {name} is there as {kind}, which table.types=TABLE,{kind} reads" in caplog.text
    assert "none is there" not in caplog.text
    with source_of(postgres_uri, schema, **named, table_types="partitioned table") as source:
        assert [(record.topic, record.value["id"]) for record in source.poll(2)] == [("parts", 3), ("parts", 13)]


def test_a_foreign_table_is_found_by_its_type(postgres_uri: str, schema: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is not read here: its wrapper has no handler."""
    run(postgres_uri, "CREATE FOREIGN DATA WRAPPER idle", "CREATE SERVER far FOREIGN DATA WRAPPER idle", schema=schema)
    run(postgres_uri, "CREATE FOREIGN TABLE abroad (id int NOT NULL, name text) SERVER far", schema=schema)
    named = {"mode": "bulk", "table_whitelist": "abroad"}
    with source_of(postgres_uri, schema, **named):
        assert "table.whitelist: abroad is there as FOREIGN TABLE, which table.types=TABLE,FOREIGN TABLE" in caplog.text
        assert "No table fits the settings" in caplog.text
    caplog.clear()
    with source_of(postgres_uri, schema, **named, table_types="foreign table"):
        assert caplog.messages == []


@pytest.mark.parametrize("setting", ["table_whitelist", "table_blacklist"])
def test_a_name_that_differs_in_case_alone_from_a_tables_is_said(
    postgres_uri: str, schema: str, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(postgres_uri, "DROP TABLE IF EXISTS secrets", "CREATE TABLE secrets (id bigint)", schema=schema)
    with source_of(postgres_uri, schema, mode="bulk", **{setting: "Secrets"}):
        listing = setting.replace("_", ".")
        assert f"{listing} names what does not exist (yet) as a table (table.types): Secrets. " in caplog.text
        assert "tells upper from lower case, and has secrets" in caplog.text
