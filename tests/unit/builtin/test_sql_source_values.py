"""What SqlSource makes of the types and values of a database: SQLite's, which may hold any value in any column."""

from __future__ import annotations

import datetime
import decimal
import sqlite3
import zoneinfo
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConnectError
from kconnect.builtin.connectors.sql.sql_values import decimal_of
from kit.sqlite_files import BOTH, IDS, add, change, nothing_more, source_of, values_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "shop.db"
    change(made, "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, at TIMESTAMP NOT NULL)")
    return made


def test_the_type_of_an_expression_is_that_of_its_first_values(file: Path) -> None:
    add(file, "a", "b")
    mixed = "SELECT CASE id WHEN 1 THEN 1 ELSE 1.5 END AS n, NULL AS none, name || '!' AS text FROM orders"
    with source_of(file, mode="bulk", query=mixed) as source:
        assert [values_of(record) for record in source.poll(2)] == [[1.0, None, "a!"], [1.5, None, "b!"]]


def test_every_type_is_that_of_confluents_connector(file: Path) -> None:
    change(
        file,
        "CREATE TABLE types (id INTEGER PRIMARY KEY, big BIGINT NOT NULL, price DECIMAL(8,2), ratio REAL, "
        "flag BOOLEAN, day DATE, clock TIME, at TIMESTAMP, ms TIMESTAMP, raw BLOB, memo VARCHAR(20))",
        "INSERT INTO types VALUES (1, 4294967296, 9.5, 0.1, 1, '2026-01-02', '03:04:05.678', "
        "'2026-01-02 03:04:05.678', 1767323045678, x'00ff', 'ä')",
        "INSERT INTO types (big) VALUES (1)",
    )
    with source_of(file, **IDS, table_whitelist="types") as source:
        full, empty = source.poll(2)
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    expected = [1, 1 << 32, decimal.Decimal("9.50"), 0.1, True, at.date(), at.time(), at, at, b"\x00\xff", "ä"]
    assert values_of(full) == expected
    assert values_of(empty) == [2, 1, *[None] * 9]
    fields = {field.name: field.schema for field in full.value_schema.fields}
    assert full.value_schema.name == "types"
    assert [name for name, schema in fields.items() if not schema.is_optional] == ["id", "big"]
    assert fields["price"].parameters == {"scale": "2", "connect.decimal.precision": "8"}
    logical = " ".join((schema.name or str(schema.type)).rpartition(".")[2] for schema in fields.values())
    assert logical == "INT64 INT64 Decimal FLOAT64 BOOLEAN Date Time Timestamp Timestamp BYTES STRING"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_numbers_and_what_has_a_zone_say_when_they_are_whatever_the_zone_of_the_database_is(
    file: Path, zone: str
) -> None:
    """In Java too milliseconds are of 1970 in UTC, and a Julian day is of the wall's clock."""
    change(
        file,
        "CREATE TABLE times (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)",
        "INSERT INTO times VALUES (1, '2026-01-02 03:04:05.678'), (2, 1767323045678), (3, 2461042.627843495), "
        "(4, '2026-01-02T03:04:05.678Z'), (5, '2026-01-02T08:04:05.678+05:00'), (6, '2026-03-29 02:30:00')",
    )
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)  # noqa: DTZ001
    local = at.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    first, last = sorted([(local, [1, 3]), (at.replace(tzinfo=datetime.UTC), [2, 4, 5])])
    for settings in (IDS, BOTH):
        with source_of(file, **settings, table_whitelist="times", db_timezone=zone, batch_max_rows="1") as source:
            found = [values_of(record) for record in source.poll(6)]
            assert sorted(one for one, when in found if when == local) == [1, 3]
            assert sorted(one for one, when in found if when == at.replace(tzinfo=datetime.UTC)) == [2, 4, 5]
            assert nothing_more(source)
        if settings is BOTH:
            assert [one for one, _ in found] == [*first[1], *last[1], 6]


@pytest.mark.parametrize(
    ("mapping", "kinds"),
    [
        ("none", ["Decimal", "Decimal", "Decimal"]),
        ("precision_only", ["INT16", "Decimal", "Decimal"]),
        ("best_fit", ["INT16", "FLOAT64", "Decimal"]),
        ("best_fit_eager_double", ["INT16", "FLOAT64", "FLOAT64"]),
    ],
)
def test_numerics_become_what_numeric_mapping_says(file: Path, mapping: str, kinds: list[str]) -> None:
    change(
        file,
        "CREATE TABLE n (a NUMERIC(4,0), b NUMERIC(8,2), c NUMERIC(30,2))",
        "INSERT INTO n VALUES (12, 1.5, 2.5)",
    )
    with source_of(file, mode="bulk", table_whitelist="n", numeric_mapping=mapping) as source:
        (record,) = source.poll(1)
    found = [(field.schema.name or str(field.schema.type)).rpartition(".")[2] for field in record.value_schema.fields]
    assert found == kinds
    assert [float(value) for value in values_of(record)] == [12, 1.5, 2.5]


@pytest.mark.parametrize(
    ("granularity", "expected"),
    [
        ("micros_long", 1767323045678000),
        ("micros_string", "1767323045678000"),
        ("micros_iso_datetime_string", "2026-01-02T04:04:05.678000"),
        ("nanos_long", 1767323045678000000),
        ("nanos_iso_datetime_string", "2026-01-02T04:04:05.678000000"),
    ],
)
def test_timestamps_are_numbers_or_texts_of_a_finer_unit_and_in_the_databases_zone(
    file: Path, granularity: str, expected: Any
) -> None:
    change(file, "INSERT INTO orders (at) VALUES ('2026-01-02 04:04:05.678')")
    with source_of(file, **BOTH, timestamp_granularity=granularity, db_timezone="Europe/Berlin") as source:
        (record,) = source.poll(1)
        assert record.value["at"] == expected
        assert record.source_offset["timestamp"] == 1767323045678
        assert nothing_more(source)


def test_a_column_of_sqlite_that_holds_other_values_than_its_type_is_text_from_then_on(file: Path, caplog: Any) -> None:
    change(
        file,
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, n INTEGER, price DECIMAL(8,2), any)",
        "INSERT INTO odd VALUES (1, 7, 0.1 + 0.2, 1), (2, 'secret', 1.5, 'x'), (3, 9, 2, x'00ff')",
        "INSERT INTO odd VALUES (4, 9, 'free', 1)",
    )
    with source_of(file, **IDS, table_whitelist="odd", batch_max_rows="1") as source:
        found = [values_of(record) for record in source.poll(4)]
    cents = decimal.Decimal("0.30")
    assert found == [
        [1, 7, cents, 1],
        [2, "secret", decimal.Decimal("1.50"), "x"],
        [3, "9", decimal.Decimal("2.00"), "AP8="],
        [4, "9", "free", "1"],
    ]
    assert "Column n has a value (str) that is not of type int64. The column is read as text" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("kind", "first", "stored", "read"),
    [
        ("BLOB", "x'00ff'", "5", b"5"),
        ("BLOB", "x'00ff'", "1000000000000", b"1000000000000"),
        ("BLOB", "x'00ff'", "1.5", b"1.5"),
        ("BLOB", "x'00ff'", r"'\x41'", rb"\x41"),
        ("BOOLEAN", "1", "7", "7"),
        ("BOOLEAN", "1", "0", False),
        ("DATE", "'2026-01-02'", "'2026-01-02 03:04:05'", "2026-01-02 03:04:05"),
        ("DATE", "'2026-01-02'", "'2026-01-02 00:00:00'", datetime.date(2026, 1, 2)),
        ("TIME", "'03:04:05'", "'03:04:05+02:00'", "03:04:05+02:00"),
    ],
)
def test_a_value_of_sqlite_that_is_only_near_its_columns_type_is_what_it_was(
    file: Path, kind: str, first: str, stored: str, read: Any
) -> None:
    change(
        file,
        f"CREATE TABLE odd (id INTEGER PRIMARY KEY, v {kind})",
        f"INSERT INTO odd VALUES (1, {first}), (2, {stored})",
    )
    with source_of(file, **IDS, table_whitelist="odd") as source:
        found = source.poll(2)[1].value["v"]
    assert (found, type(found)) == (read, type(read))


def test_a_text_with_digits_in_it_is_no_number(file: Path) -> None:
    """SQLite has no type UUID, and says NUMERIC of such a column."""
    change(
        file,
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, u UUID)",
        "INSERT INTO odd VALUES (1, '6ba7b810-9dad-11d1-80b4-00c04fd430c8'), (2, '12 apples'), (3, '$1.50')",
    )
    with source_of(file, **IDS, table_whitelist="odd") as source:
        found = [values_of(record)[1] for record in source.poll(3)]
    assert found == ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "12 apples", "$1.50"]


def test_numbers_for_times_are_milliseconds_and_with_a_fraction_julian_days(file: Path) -> None:
    change(
        file,
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, at TIMESTAMP, clock TIME, day DATE)",
        "INSERT INTO odd VALUES (1, 1764237600123, 11045123, 1764237600123)",
        "INSERT INTO odd VALUES (2, julianday('2025-11-27 10:00:00.123'), julianday('2025-11-27 03:04:05.123'), "
        "julianday('2025-11-27 10:00:00'))",
        "INSERT INTO odd VALUES (3, '2025-11-27 10:00:00.123', '03:04:05.123', '2025-11-27')",
    )
    with source_of(file, mode="timestamp", timestamp_column_name="at", table_whitelist="odd",
                   validate_non_null="false") as source:  # fmt: skip
        found = [values_of(record) for record in source.poll(3)]
        assert nothing_more(source)
    time, clock = datetime.datetime(2025, 11, 27, 10, 0, 0, 123000, datetime.UTC), datetime.time(3, 4, 5, 123000)
    assert sorted(found) == [[row, time, clock, datetime.date(2025, 11, 27)] for row in (1, 2, 3)]


def test_a_number_that_is_no_time_is_a_text(file: Path) -> None:
    change(file, "CREATE TABLE odd (id INTEGER PRIMARY KEY, at TIMESTAMP)", "INSERT INTO odd VALUES (1, 1764237600.5)")
    with source_of(file, **IDS, table_whitelist="odd") as source:
        assert values_of(source.poll(1)[0]) == [1, "1764237600.5"]


def test_a_text_that_is_not_utf8_fails_the_task_and_is_not_waited_for(file: Path) -> None:
    change(file, "CREATE TABLE odd (id INTEGER PRIMARY KEY, t)", "INSERT INTO odd VALUES (1, CAST(x'ff' AS TEXT))")
    with source_of(file, **IDS, table_whitelist="odd") as source, pytest.raises(ConnectError, match="column 't'"):
        source.poll(1)


def test_numbers_of_a_column_without_type_keep_every_digit(file: Path) -> None:
    change(
        file,
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, any)",
        f"INSERT INTO odd VALUES (1, 3), (2, 0.5), (3, {2**53}), (4, {2**53 + 1}), (5, 2.5)",
    )
    with source_of(file, **IDS, table_whitelist="odd", batch_max_rows="1") as source:
        found = [values_of(record)[1] for record in source.poll(5)]
    assert found == [3, 0.5, float(2**53), str(2**53 + 1), "2.5"]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (0.1 + 0.2, "0.30"),
        (sum([0.1] * 1000), "100.00"),
        (99999999999.99, "99999999999.99"),
        (99999999999.999, None),
        (1000000.000005, None),
        ("0.375", None),
    ],
)
def test_of_a_decimal_only_what_sums_of_doubles_add_is_left_out(stored: Any, wanted: str | None) -> None:
    if wanted is not None:
        assert str(decimal_of(stored, 2, False)) == wanted
        return
    with pytest.raises(ValueError, match="has more than 2 digits behind the point"):
        decimal_of(stored, 2, False)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("value", ["garbage", "", "0000-00-00", "01/02/2026", "2026-01-01 10:00 PM", 10**18, b"\0"])
def test_a_row_whose_time_sqlite_cannot_read_is_reported_and_not_passed_over(file: Path, value: Any, zone: str) -> None:
    """As no time it compares with none, so that it would never be found."""
    add(file, "a")
    with source_of(file, **BOTH, db_timezone=zone) as source:
        assert [values_of(record)[1] for record in source.poll(1)] == ["a"]
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("INSERT INTO orders (name, at) VALUES ('b', ?)", (value,))
        with pytest.raises(ConnectError, match=r"Column at has a value .* that is not of type timestamp"):
            source.poll(1)
    change(file, "UPDATE orders SET at = '2026-01-03' WHERE name = 'b'")
    with source_of(file, **BOTH, db_timezone=zone) as source:
        assert [values_of(record)[1] for record in source.poll(2)] == ["a", "b"]
