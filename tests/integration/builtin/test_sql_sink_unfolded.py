"""Rows that PostgreSQL unfolds of arrays are those that its driver sends one by one, and so is what is refused."""

from __future__ import annotations

import datetime
import decimal
import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import psycopg
import pytest

from kconnect.api import SchemaBuilder, Struct
from kconnect.api.logical import Timestamp
from kconnect.builtin.connectors.sql import sql_writer
from kconnect.builtin.connectors.sql.sql_bulk import array_text, array_type, last_of_each
from kconnect.testing import SinkHarness

_DAY: Final = datetime.datetime.fromisoformat("2026-01-01")
_TEXTS: Final = (
    "",
    "x",
    "NULL",
    "null",
    '"',
    "\\",
    '\\"',
    "{a,b}",
    "a,b",
    " ",
    "ä€😀",
    "\x1f",
    "\x1e",
    "a\nb",
    "'",
    "%s",
)
Draw = Callable[[random.Random], Any]


def _json(draw: random.Random) -> str:
    return draw.choice(['{"a": "x\\"y"}', "[1, null]", '"\\\\"', "1.50", "null"])


def _moment(draw: random.Random, micros: int = 1) -> datetime.datetime:
    return _DAY + datetime.timedelta(microseconds=draw.randrange(10**15) // micros * micros)


_ZONES: Final = (datetime.UTC, datetime.timezone(datetime.timedelta(hours=-3, minutes=-30)))
VALUES: Final[Mapping[str, Draw]] = {
    "smallint": lambda draw: draw.randrange(-(1 << 15), 1 << 15),
    "integer": lambda draw: draw.randrange(-(1 << 31), 1 << 31),
    "bigint": lambda draw: draw.choice([-(1 << 63), (1 << 63) - 1, 0, draw.randrange(1 << 40)]),
    "real": lambda draw: draw.choice([0.5, -1.25e20, float("inf"), float("nan"), 0.10000000149011612]),
    "double precision": lambda draw: draw.choice([draw.random(), 1e-300, 1.7e308, float("-inf"), float("nan"), -0.0]),
    "numeric": lambda draw: draw.choice([decimal.Decimal("1.500"), 10**40, decimal.Decimal("1E-30"), 7]),
    "numeric(10,2)": lambda draw: decimal.Decimal(draw.randrange(10**6)) / 100,
    "boolean": lambda draw: draw.random() < 0.5,
    "text": lambda draw: draw.choice(_TEXTS),
    "character varying(5)": lambda draw: draw.choice(["", "abc", "a\\b", 'a"b']),
    "json": _json,
    "jsonb": _json,
    "uuid": lambda draw: str(uuid.UUID(int=draw.getrandbits(128))),
    "bytea": lambda draw: draw.randbytes(draw.randrange(4)),
    "date": lambda draw: (_DAY + datetime.timedelta(days=draw.randrange(-700_000, 2_000_000))).date(),
    "time without time zone": lambda draw: (
        _DAY + datetime.timedelta(microseconds=draw.randrange(86_400_000_000))
    ).time(),
    "timestamp without time zone": lambda draw: _DAY + datetime.timedelta(microseconds=draw.randrange(10**15)),
    "timestamp(3) with time zone": lambda draw: (
        _DAY + datetime.timedelta(milliseconds=draw.randrange(10**12))
    ).replace(tzinfo=draw.choice([datetime.UTC, datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))])),
}


@pytest.mark.parametrize("seed", range(3))
def test_an_array_of_any_type_is_read_as_the_values_that_the_driver_sends(seed: int, postgres_uri: str) -> None:
    draw = random.Random(seed)
    differences = []
    with psycopg.connect(postgres_uri) as connection:
        for number, (name, value) in enumerate(VALUES.items()):
            kind = array_type(name)
            assert kind is not None
            cells = [value(draw) if draw.random() < 0.9 else None for _ in range(200)]
            if (texts := array_text(kind, cells)) is None:  # a text has what stands between texts
                assert name == "text"
                texts = array_text(kind, cells := [cell for cell in cells if cell not in ("\x1f", "\x1e")])
            assert texts is not None, name
            connection.execute(f"CREATE TEMP TABLE one{number} (n int, c {name}) ON COMMIT DROP")
            cursor = connection.cursor()
            cursor.executemany(f"INSERT INTO one{number} VALUES (%s, %s)", [*enumerate(cells)])
            sent = cursor.execute(f"SELECT c::text FROM one{number} ORDER BY n").fetchall()
            cursor.execute(f"TRUNCATE one{number}")
            cursor.execute(f"INSERT INTO one{number} (c) SELECT * FROM unnest(CAST(%s AS {kind}[]))", (texts,))
            found = cursor.execute(f"SELECT c::text FROM one{number}").fetchall()
            differences += [
                (name, cell, one, other) for cell, one, other in zip(cells, found, sent, strict=True) if one != other
            ]
            connection.commit()
    assert differences == []


def test_what_an_array_would_change_is_left_to_the_driver() -> None:
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert array_type("character(5)") is None  # a cast to character is one to a single one
    assert array_type("bit(3)") is None
    assert array_type("integer[]") is None
    assert array_type("mood") is None
    assert array_type("character varying(5)") == "character varying"
    for kind, cells in (
        ("text", ["a", "\x1f"]),
        ("text", ["\x1e", None]),
        ("text", ["\x1e\x1f", None]),
        ("text", ["a", 1]),
        ("numeric", [0.1]),
        ("boolean", [1]),
        ("integer", [True]),
        ("timestamp without time zone", [at]),
        ("timestamp with time zone", [at.replace(tzinfo=None)]),
        ("date", [at]),
    ):
        assert array_text(kind, cells) is None, (kind, cells)
    assert array_text("integer", [None, None]) == "{NULL,NULL}"


def test_the_last_row_of_each_key_is_written() -> None:
    assert last_of_each([[1, 2, 3]]) is None
    assert last_of_each([[1, 2, 1, 3, 2], ["a", "b", "a", "c", "d"]]) == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", [{}, {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_the_same_rows_are_in_the_table(
    mode: dict[str, str], seed: int, postgres_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keys that come twice, values that do not fit, rows that the table refuses, and members that are missing."""
    draw = random.Random(seed)
    key = "PRIMARY KEY" if mode else ""
    columns = ", ".join(f"c{n} {name}" for n, name in enumerate(VALUES))
    puts = []
    for _ in range(3):
        rows = []
        for n in range(60):
            row: dict[str, Any] = {"id": draw.randrange(40) if mode else n}
            row |= {f"c{at}": VALUES[name](draw) for at, name in enumerate(VALUES) if draw.random() < 0.9}
            rows.append(row)
        puts.append(rows)
    puts[1][7]["c0"] = 1 << 20
    puts[2][9]["c8"] = "a\0b"
    found = []
    for table, fewest in (("unfolded", 10), ("sent", 10**9)):
        monkeypatch.setattr(sql_writer, "_FEWEST_UNFOLDED", fewest)
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id bigint {key}, {columns})")
        settings = {"connection.url": postgres_uri, "connection.driver": "psycopg", "errors.tolerance": "all"}
        with SinkHarness("SqlSink", {"topics": "t", "table.name.format": table, **settings, **mode}) as sink:
            for rows in puts:
                sink.put(*rows)
            refused = [str(one.error).replace(table, "T") for one in sink.errant]
        with psycopg.connect(postgres_uri) as connection:
            found.append((connection.execute(f"SELECT t::text FROM {table} t ORDER BY 1").fetchall(), refused))
    assert len(found[0][1]) == 2
    assert found[0] == found[1]


def test_keys_that_the_table_has_as_one_are_written_in_their_order(postgres_uri: str) -> None:
    """Python tells them apart, and one statement may not change a row twice: the column cuts fractions off."""
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ticks; CREATE TABLE ticks (at timestamptz(0) PRIMARY KEY, n int)")
    schema = SchemaBuilder.struct().field("at", Timestamp.SCHEMA).field("n", SchemaBuilder.int32().build()).build()
    at = _DAY.replace(tzinfo=datetime.UTC)
    values = [Struct(schema, {"at": at + datetime.timedelta(milliseconds=n), "n": n}) for n in range(20)]
    settings = {"connection.url": postgres_uri, "connection.driver": "psycopg", "insert.mode": "upsert"}
    with SinkHarness("SqlSink", {"topics": "ticks", **settings, "pk.mode": "record_value", "pk.fields": "at"}) as sink:
        sink.put(*values, schema=schema)
    with psycopg.connect(postgres_uri) as connection:
        assert connection.execute("SELECT n FROM ticks").fetchall() == [(19,)]
