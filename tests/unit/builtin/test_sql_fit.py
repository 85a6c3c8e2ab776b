"""SqlSink never stores another value than the record has: in a real SQLite, and by the columns of each database."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import Schema, SchemaBuilder, Struct
from kconnect.builtin.connectors.sql.sql_dialect import DIALECTS
from kconnect.builtin.connectors.sql.sql_fit import MisfitError, TableColumn, TableColumns, fitted, is_safe, wider
from kconnect.builtin.connectors.sql.sql_rows import kind_of_values
from kconnect.builtin.connectors.sql.sql_target_columns import mysql_columns, postgres_columns, sqlite_columns
from kconnect.builtin.connectors.sql.sql_widening import definition_of
from kconnect.testing import SinkHarness

AT = dt.datetime(2026, 11, 28, 10, 0, 0, 500_000, dt.UTC)


def sink_into(file: Path, **more: str) -> SinkHarness:
    settings = {key.replace("__", ".").replace("_", "."): value for key, value in more.items()}
    config = {"topics": "t", "connection.url": f"sqlite:///{file}", "auto.create": "true", "auto.evolve": "true"}
    return SinkHarness("SqlSink", {**config, "errors.tolerance": "all", **settings})


def rows(file: Path) -> list[dict[str, Any]]:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.row_factory = sqlite3.Row
        found = [dict(row) for row in connection.execute("SELECT * FROM t ORDER BY id")]
    connection.close()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.db"


def test_a_column_is_made_for_what_all_records_of_a_put_have(file: Path) -> None:
    with sink_into(file) as sink:
        sink.put({"id": 1, "price": 3, "ok": True}, {"id": 2, "price": 3.5, "new": 1}, {"id": 3, "price": 2.5, "ok": 1})
    assert rows(file) == [
        {"id": 1, "price": 3.0, "ok": "true"},
        {"id": 2, "price": 3.5, "new": 1},
        {"id": 3, "price": 2.5, "ok": "1"},
    ]


@pytest.mark.parametrize("is_restarted", [True, False])
def test_numbers_come_back_whatever_put_they_come_in(file: Path, is_restarted: bool) -> None:
    sink = sink_into(file).start()
    for place, price in enumerate([3, 3.5, 2**63, 2**63 + 1, "01234", True]):
        sink.put({"id": place, "price": price})
        if is_restarted:
            sink.commit()
            sink.crash()
            sink.start()
    assert not sink.errant
    sink.stop()
    assert rows(file) == [
        {"id": 0, "price": 3},
        {"id": 1, "price": 3.5},
        {"id": 2, "price": float(2**63)},
        {"id": 3, "price__v_decimal": str(2**63 + 1)},
        {"id": 4, "price__v_text": "01234"},
        {"id": 5, "price__v_bool": 1},
    ]


def test_without_evolution_a_value_that_would_change_is_its_records_error(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, ok BOOLEAN, size REAL, name TEXT)")
    connection.close()
    with sink_into(file, auto_evolve="false") as sink:
        sink.put(
            {"id": 1, "ok": "no"},
            {"id": 2, "ok": False, "size": 2**53 + 1},
            {"id": 3, "size": 2**53, "name": 0.1 + 0.2},
            {"id": 4, "name": True},
        )
        reported = [str(letter.error) for letter in sink.errant]
    assert (
        "t-0, offset 0 cannot be written to table t: MisfitError: Column ok is BOOLEAN, and would change the value 'no'"
        in reported[0]
    )
    assert "Column size is REAL, and would change the value 9007199254740993" in reported[1]
    assert rows(file) == [{"id": 3, "size": float(2**53), "name": "0.30000000000000004"}, {"id": 4, "name": "true"}]


def test_contracts_by_column(file: Path) -> None:
    with sink_into(
        file, schema_contract="freeze", schema_contract_a="discard_value", schema_contract_b="discard-row"
    ) as sink:
        sink.put({"id": 1, "a": 1, "b": 1, "c": 1})
        sink.put({"id": 2, "a": "x", "c": 2}, {"id": 3, "b": "x"}, {"id": 4, "c": "x"}, {"id": 5, "new": 1})
        assert [letter.record.kafka_offset for letter in sink.errant] == [3, 4]
        assert (sink.task._discards.rows, sink.task._discards.values) == (1, 1)
    assert rows(file) == [{"id": 1, "a": 1, "b": 1, "c": 1}, {"id": 2, "c": 2}]


@pytest.mark.parametrize("is_key", [True, False])
def test_a_row_of_which_a_contract_leaves_nothing_is_one_of_nulls(file: Path, is_key: bool) -> None:
    """It was a statement without columns, which failed the task. Where no column may be null it is an error."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE TABLE t (id INTEGER{' NOT NULL' if is_key else ''})")
    with sink_into(file, schema__contract="discard-value") as sink:
        for value in ({"id": 1}, {"new": 5}, {"id": 2, "new": 6}, {"new": None}):
            sink.put(value)
        assert [record.record.kafka_offset for record in sink.errant] == ([1, 3] if is_key else [])
        assert all("no field with a value" in str(record.error) for record in sink.errant)
    assert rows(file) == [*([] if is_key else [{}, {}]), {"id": 1}, {"id": 2}]


@pytest.mark.parametrize("evolves", ["true", "false"])
def test_new_fields_by_contract(file: Path, evolves: str) -> None:
    contract = {
        "schema_contract": "discard-value",
        "schema_contract_row": "discard_row",
        "schema_contract_no": "freeze",
    }
    with sink_into(file, auto_evolve=evolves, **contract) as sink:
        sink.put({"id": 1})
        sink.put({"id": 2, "x": 1, "row": None}, {"id": 3, "row": 1}, {"id": 4, "no": 1}, {"id": 5, "x": None})
        assert [letter.record.kafka_offset for letter in sink.errant] == [3]
        assert "has no column no, whose value is 1, and schema.contract is freeze" in str(sink.errant[0].error)
        assert (sink.task._discards.rows, sink.task._discards.values) == (1, 1)
    assert rows(file) == [{"id": 1}, {"id": 2}, {"id": 5}]


def test_a_number_of_a_schema_that_would_change_is_an_error_too(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, size REAL, flag INTEGER)")
    connection.close()
    schema = (
        SchemaBuilder.struct()
        .field("id", Schema.INT64_SCHEMA)
        .field("size", Schema.INT64_SCHEMA)
        .field("flag", Schema.BOOLEAN_SCHEMA)
        .build()
    )
    with sink_into(file) as sink:
        for number, size in ((1, 7), (2, 2**53 + 1)):
            sink.put(Struct(schema).put("id", number).put("size", size).put("flag", True), schema=schema)
        assert [letter.record.kafka_offset for letter in sink.errant] == [1]
    assert rows(file) == [{"id": 1, "size": 7.0, "flag": 1}], "a boolean of a schema may be kept as 1"


def test_values_without_schema_are_errors_where_nothing_is_to_be_inferred(file: Path) -> None:
    with sink_into(file, schema_infer="false") as sink:
        sink.put({"id": 1})
        assert "Its value has no schema, and schema.infer is false" in str(sink.errant[0].error)


def column(kind: str, **more: Any) -> TableColumn:
    return TableColumn("c", kind, kind.upper(), **more)


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        ("int64", 3.0, 3),
        ("int64", "12", 12),
        ("int64", Decimal("5"), 5),
        ("float64", 2**53, float(2**53)),
        ("float64", "0.1", 0.1),
        ("float32", 0.1, 0.1),
        ("decimal", 3.5, Decimal("3.5")),
        ("decimal", "1e3", Decimal(1000)),
        ("bool", True, True),
        ("text", 3.5, "3.5"),
        ("text", False, "false"),
        ("date", "2026-11-28", "2026-11-28"),
        ("date", "2026-11-28T00:00:00", dt.date(2026, 11, 28)),
        ("timestamp", "2026-11-28T12:00:00.5+02:00", AT),
        ("timestamp", "Nov 28, 2026", "Nov 28, 2026"),
        ("timestamp", "20261128", "20261128"),
        ("timestamp", "infinity", "infinity"),
        ("time", "12:34", "12:34"),
        ("time", "12:34:56+02:00", dt.time(10, 34, 56)),
        ("time", "-838:59:59", "-838:59:59"),
        ("year", "1999", 1999),
        ("money", "$1.50", "$1.50"),
        ("bytes", b"x", b"x"),
        ("", {"any": "thing"}, {"any": "thing"}),
    ],
)
def test_a_value_is_kept(kind: str, given: Any, kept: Any) -> None:
    found = fitted(column(kind), given, is_seen=True)
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("int64", 3.5),
        ("int64", "01234"),
        ("int64", " 1"),
        ("int64", True),
        ("int64", 2**63),
        ("int64", float("nan")),
        ("int16", 40_000),
        ("float64", 2**53 + 1),
        ("float64", "0.12345678901234567890"),
        ("float64", "x"),
        ("float64", True),
        ("float32", 3.141592653589793),
        ("bool", "no"),
        ("bool", 0),
        ("decimal", "x"),
        ("decimal", True),
        ("date", "2026-11-28T10:00:00"),
        ("timestamp", "2026-11-28T10:00:00.1234567"),
        ("timestamp", "now"),
        ("timestamp", "1764237600000"),
        ("timestamp", "10.0.0.1"),
        ("timestamp", "24:00:00"),
        ("timestamp", "2026-11-28 10:00:00 Europe/Berlin"),
        ("date", "2026-11-28 10:00:00 Europe/Berlin"),
        ("time", "12:34:56.1234567"),
        ("time", "2026-11-28T12:34:56"),
        ("time", "101"),
        ("year", 1),
        ("year", 2026.5),
        ("money", ""),
    ],
)
def test_a_value_that_would_change_is_a_misfit(kind: str, given: Any) -> None:
    assert not is_safe(column(kind), [given])
    with pytest.raises(MisfitError, match=f"Column c is {kind.upper()}, and would change the value"):
        fitted(column(kind), given, is_seen=True)


def test_decimals_keep_their_digits_or_are_misfits() -> None:
    price = column("decimal", precision=5, scale=2)
    assert is_safe(price, [Decimal("1.25"), None, 3])
    assert not is_safe(price, [Decimal("1.255")])
    assert fitted(price, Decimal("1.250"), is_seen=False) == Decimal("1.25")
    for value in (Decimal("1.255"), 1000, "0.375", float("inf")):
        with pytest.raises(MisfitError):
            fitted(price, value, is_seen=False)
    assert not is_safe(price, [1000])
    assert is_safe(column("decimal"), [Decimal("1e-50"), 1 << 200])
    hundreds = column("decimal", precision=3, scale=-2)
    assert not is_safe(hundreds, [255])
    assert fitted(hundreds, 99_900, is_seen=True) == 99_900
    for value in (255, 100_000, 0.5):
        with pytest.raises(MisfitError):
            fitted(hundreds, value, is_seen=True)


def test_a_time_of_a_record_has_no_more_digits_than_its_column_but_one_of_a_schema_is_cut_off() -> None:
    at = dt.datetime(2025, 11, 27, 10, 0, 0, 123000, dt.UTC)
    for seconds in (
        *postgres_columns([("a", "timestamp(0) with time zone", True, False)], dt.UTC),
        *mysql_columns([("a", "datetime", "datetime", None, None, 0, None, 1, 0)], DIALECTS["mysql"].adapt),
    ):
        fitted(seconds, 1764237600000, is_seen=True)
        fitted(seconds, at, is_seen=False)
        for value in (1764237600123, "2025-11-27T10:00:00.123Z"):
            with pytest.raises(MisfitError):
                fitted(seconds, value, is_seen=True)
    [clock] = postgres_columns([("a", "time(0) without time zone", True, False)], dt.UTC)
    for given in ("12:00:00.6", 1):
        with pytest.raises(MisfitError):
            fitted(clock, given, is_seen=True)


@pytest.mark.parametrize(
    ("type_name", "given", "bad"),
    [
        ("numeric(8,2)[]", ["3.45", None, 1], "3.456"),
        ("integer[]", [1, "2"], True),
        ("integer[]", [], "1_000"),
        ("character varying(3)[]", ["abc"], "abc "),
        ("timestamp(0) without time zone[]", [0], 1),
        ("date[]", ["2026-11-28"], "2026-11-28T10:00:00"),
        ("money[]", [1.5], "1.239"),
    ],
)
def test_each_element_of_an_array_fits_as_a_value_of_its_own_column_does(type_name: str, given: Any, bad: Any) -> None:
    [array] = postgres_columns([("a", type_name, True, False)], dt.UTC)
    assert isinstance(fitted(array, given, is_seen=True), str)
    with pytest.raises(MisfitError, match=r"Column a\[\] is"):
        fitted(array, [*given, bad], is_seen=True)


@pytest.mark.parametrize(
    ("type_name", "bad"),
    [
        ("character varying(3)", "abc "),
        ('"char"', "ab"),
        ("cidr", 3.5),
        ("macaddr", 99999999999),
        ("interval", [1.5]),
        ("money", "1.005"),
        ("money", 12.345),
        ("bit(8)", 0.5),
        ("oid", -1),
    ],
)
def test_postgresql_does_not_get_what_it_would_change(type_name: str, bad: Any) -> None:
    [found] = postgres_columns([("a", type_name, True, False)], dt.UTC)
    assert not is_safe(found, [bad])
    with pytest.raises(MisfitError):
        fitted(found, bad, is_seen=True)


@pytest.mark.parametrize(
    ("type_name", "given", "bad"),
    [
        ("float(7,2)", 3.25, 12.345),
        ("double(8,2)", "1.25", "1.005"),
        ("enum('sad','2')", "2", "1"),
        ("set('a','b')", ["a", "b"], 3),
        ("bit(8)", "101", "1_0"),
        ("year(4)", 2026, 5),
        ("time(3)", "12:00:00.123", "12:00:00.1234"),
    ],
)
def test_mysql_does_not_get_what_it_would_change(type_name: str, given: Any, bad: Any) -> None:
    digits, scale = (8, 2) if "," in type_name and "'" not in type_name else (None, None)
    name = type_name.partition("(")[0]
    row = ("a", name, type_name, digits, scale, 3 if name == "time" else None, None, 1, 0)
    [found] = mysql_columns([row], DIALECTS["mysql"].adapt)
    fitted(found, given, is_seen=True)
    with pytest.raises(MisfitError):
        fitted(found, bad, is_seen=True)


def test_columns_of_each_database_are_known() -> None:
    found = postgres_columns(
        [
            ("a", "bigint", True, False),
            ("b", "numeric(12,2)", True, False),
            ("c", "numeric", True, False),
            ("d", "order_state", False, True),
            ("e", "numeric(3,-2)", True, False),
        ],
        dt.UTC,
    )
    assert [one.name for one in found if not one.is_null_if_left_out] == ["d"]
    assert [one.name for one in found if one.is_key] == ["d"]
    assert [(one.kind, one.precision, one.scale) for one in found] == [
        ("int64", None, 0),
        ("decimal", 12, 2),
        ("decimal", None, 0),
        ("", None, 0),
        ("decimal", 3, -2),
    ]
    found = mysql_columns(
        [
            ("a", "int", "int(10) unsigned", 10, 0, None, None, 1, 0),
            ("b", "tinyint", "tinyint(1)", 3, 0, None, None, 0, 1),
            ("c", "datetime", "datetime(3)", None, None, 3, None, None, 0),
            ("d", "varchar", "varchar(3)", None, None, None, 3, 1, 0),
        ],
        DIALECTS["mysql"].adapt,
    )
    assert [(one.kind, one.is_unsigned, one.precision) for one in found] == [
        ("int32", True, None),
        ("", False, None),
        ("timestamp", False, 3),
        ("text", False, None),
    ]
    assert [one.length for one in found] == [None, None, None, 3]
    assert [one.is_null_if_left_out for one in found] == [True, False, False, True]
    assert [one.is_key for one in found] == [False, True, False, False]
    with pytest.raises(MisfitError):
        fitted(found[2], "2026-11-28T10:00:00.123456", is_seen=True)
    with pytest.raises(MisfitError):
        fitted(found[0], -1, is_seen=True)
    kinds = [
        one.kind
        for one in sqlite_columns(
            [(n, str(n), name, 0, None, 0) for n, name in enumerate(("INT8", "VARCHAR(5)", "REAL", "", "BOOLEAN"))],
            DIALECTS["sqlite"].adapt,
        )
    ]
    assert kinds == ["int64", "text", "float64", "", "bool"]
    [real] = sqlite_columns([(0, "a", "REAL", 0, None, 0)], DIALECTS["sqlite"].adapt)
    assert is_safe(real, [1.5, None, float("inf")])
    assert not is_safe(real, [float("nan")])
    with pytest.raises(MisfitError, match="Column a is REAL, and would change the value nan"):
        fitted(real, float("nan"), is_seen=False)


CREATED = """CREATE TABLE `a` (
  `n` int(11) DEFAULT 1 COMMENT 'of `n` int(11), all',
  `a ``b` varchar(3) CHARACTER SET latin1 NOT NULL,
  "q" double CHECK (`q` > 0),
  bare int(10) unsigned,
  PRIMARY KEY (`n`)
) ENGINE=InnoDB"""


@pytest.mark.parametrize(
    ("name", "type_name", "found"),
    [
        ("`n`", "int(11)", " DEFAULT 1 COMMENT 'of `n` int(11), all'"),
        ("`a ``b`", "varchar(3)", " CHARACTER SET latin1 NOT NULL"),
        ("`q`", "double", " CHECK (`q` > 0)"),
        ("bare", "int(10) unsigned", ""),
        ("`n`", "bigint(20)", None),
        ("`other`", "int(11)", None),
    ],
)
def test_all_that_a_table_says_of_a_column_is_found_behind_its_type(
    name: str, type_name: str, found: str | None
) -> None:
    assert definition_of(CREATED, name, type_name) == found


def test_a_kind_holds_all_values_and_the_wider_one_what_the_column_has() -> None:
    assert [kind_of_values(values) for values in ([3, 3.5], [3, None], [2**63], [True, 1], [None], ["a"], [AT])] == [
        "float64",
        "int64",
        "decimal",
        "text",
        None,
        "text",
        "timestamp",
    ]
    odd = ([b"x"], [AT.date(), None], [AT.time()], [Decimal("1.50"), 7], [10**40], [0.5, 2**53 + 1], [{"a": 1}], [[1]])
    assert [kind_of_values(values) for values in odd] == [
        "bytes",
        "date",
        "time",
        "decimal",
        "text",
        "decimal",
        "text",
        "text",
    ]
    assert [wider(column("int16"), value) for value in (3.5, 1 << 40, 1 << 64, Decimal("1.5"), "x", True)] == [
        "float64",
        "int64",
        "decimal",
        "decimal",
        None,
        None,
    ]
    assert [wider(column(kind), 2**53 + 1) for kind in ("float64", "float32", "bool", "decimal")] == [
        None,
        None,
        None,
        "decimal",
    ]


def test_a_column_is_found_whatever_the_case_where_that_makes_no_other_column() -> None:
    upper, lower, name = (TableColumn(name, "text", "text") for name in ("A", "a", "Name"))
    telling = TableColumns([upper, lower, name], tells_case=True)

    assert (telling["A"], telling["a"], telling["Name"], telling.get("name")) == (upper, lower, name, None)
    assert [*telling.values()] == [upper, lower, name]
    assert "NAME" not in telling
    assert TableColumns([upper], tells_case=False)["a"] is upper
    assert not TableColumns([], tells_case=True)
