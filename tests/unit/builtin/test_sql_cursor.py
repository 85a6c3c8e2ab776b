"""Offsets of SqlSource in Confluent's form, statements that go on behind them, names of tables."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import ConfigError, ConnectError, DataError
from kconnect.builtin.connectors.sql.sql_cursor import (
    MARK,
    Cursor,
    Place,
    SqlStyle,
    before_repeat,
    offset_columns,
    statement,
)
from kconnect.builtin.connectors.sql.sql_source_config import CONFIG
from kconnect.builtin.connectors.sql.sql_tables import TableId, chosen, joined, mapped, parted

UTC = datetime.UTC
STYLE = SqlStyle("postgresql", lambda name: f'"{name}"', UTC)
AT_US = 1_767_323_045_123_456  # 2026-01-02T03:04:05.123456Z


def test_an_offset_has_javas_milliseconds_and_the_nanoseconds_of_its_second() -> None:
    place = Place(7, AT_US)
    assert place.to_offset() == {"incrementing": 7, "timestamp": 1_767_323_045_123, "timestamp_nanos": 123_456_000}
    assert Place.of_offset(place.to_offset()) == place
    assert Place.of_offset({"timestamp": 1_767_323_045_123}) == Place(None, AT_US // 1000 * 1000)
    before_1970 = Place(None, -1)
    assert before_1970.to_offset() == {"timestamp": -1, "timestamp_nanos": 999_999_000}
    assert Place.of_offset(before_1970.to_offset()) == before_1970
    assert Place.of_offset({"timestamp": None, "timestamp_nanos": None}) == Place.of_offset({}) == Place()


@pytest.mark.parametrize("wrong", [{"id": 1}, {"incrementing": "7"}, {"timestamp": True}, {"timestamp_nanos": 10**9}])
def test_what_is_no_offset_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        Place.of_offset(wrong)


def said(cursor: Cursor | None, place: Place, end_us: int | None = None, style: SqlStyle = STYLE) -> Any:
    text, params = statement("SELECT * FROM t", cursor, place, end_us, style, "")
    return text.replace(MARK, "?"), params


def test_a_statement_goes_on_behind_the_last_id_or_time() -> None:
    assert said(None, Place()) == ("SELECT * FROM t", [])
    ids, times, both = Cursor("id"), Cursor(None, ("at",)), Cursor("id", ("at", "made"))
    assert said(ids, Place()) == ('SELECT * FROM t WHERE "id" IS NOT NULL ORDER BY "id" ASC', [])
    assert said(ids, Place(7)) == ('SELECT * FROM t WHERE "id" > ? ORDER BY "id" ASC', [7])
    at = datetime.datetime.fromisoformat("2026-01-02T03:04:05.123456")
    assert said(times, Place(None, AT_US), AT_US + 1) == (
        'SELECT * FROM t WHERE "at" < ? AND "at" > ? ORDER BY "at" ASC',
        [at.replace(microsecond=123457), at],
    )
    time = 'COALESCE("at", "made")'
    assert said(both, Place(None, AT_US))[0] == f'SELECT * FROM t WHERE {time} >= ? ORDER BY {time} ASC, "id" ASC'
    assert said(both, Place(7, AT_US), AT_US) == (
        f'SELECT * FROM t WHERE {time} < ? AND (({time} = ? AND "id" > ?) OR {time} > ?) ORDER BY {time} ASC, "id" ASC',
        [at, at, 7, at],
    )


def test_times_are_given_in_the_databases_zone_unless_the_column_has_one() -> None:
    berlin = SqlStyle("postgresql", STYLE.quote, zoneinfo.ZoneInfo("Europe/Berlin"))
    (local,) = said(Cursor(None, ("at",)), Place(None, AT_US), None, berlin)[1]
    assert local == datetime.datetime.fromisoformat("2026-01-02T04:04:05.123456")
    (aware,) = said(Cursor(None, ("at",), True), Place(None, AT_US), None, berlin)[1]
    assert aware == datetime.datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)
    mixed = Cursor(None, ("at", "made"), True, ("made",))
    wanted = 'COALESCE("at", (CAST("made" AS timestamp) AT TIME ZONE \'Europe/Berlin\'))'
    assert wanted in said(mixed, Place(None, AT_US), None, berlin)[0]


def test_a_time_that_only_the_databases_clock_has_is_given_by_it() -> None:
    berlin = SqlStyle("postgresql", STYLE.quote, zoneinfo.ZoneInfo("Europe/Berlin"))
    year_0 = -62_135_600_008_000_000  # 0001-01-01 there

    (local,) = said(Cursor(None, ("at",)), Place(None, year_0), None, berlin)[1]
    assert local == datetime.datetime(1, 1, 1)  # noqa: DTZ001 - it has none
    with pytest.raises(DataError, match="The offset -62135600008000 is outside the years 1 to 9999"):
        said(Cursor(None, ("at",), True), Place(None, year_0), None, berlin)
    with pytest.raises(DataError, match="The offset 1000000000000000 is outside the years"):
        said(Cursor(None, ("at",)), Place(None, 10**18), None, berlin)


def times_of(*seconds: int) -> pa.Array:
    return pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))


def test_by_time_alone_a_row_has_its_time_as_offset_only_if_no_row_of_that_time_follows() -> None:
    def seconds(before: Place, is_last: bool) -> list[Any]:
        columns = offset_columns("timestamp", times_of(1, 1, 2, 3, 3), None, before, is_last)
        return [ms and ms // 1000 for ms in columns["timestamp"].to_pylist()]

    assert seconds(Place(), True) == [None, 1, 2, 2, 3]
    assert seconds(Place(None, 500_000), True) == [0, 1, 2, 2, 3]
    assert seconds(Place(), False) == [None, 1, 2, 2, 2]


def test_with_an_id_each_row_has_an_offset_of_its_own() -> None:
    columns = offset_columns("timestamp+incrementing", times_of(1, 1), pa.array([4, 9]), Place(), True)
    assert columns["incrementing"].to_pylist() == [4, 9]
    assert columns["timestamp"].to_pylist() == [1000, 1000]


ORDERS, OLD, VIEW = TableId("db", "public", "orders"), TableId("db", "old", "orders"), TableId("db", "public", 'v"1,x')


def settings(**more: Any) -> dict[str, Any]:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return CONFIG.parse({"connection.url": "x", "mode": "bulk", **given})


def test_tables_are_chosen_by_name_full_name_or_pattern() -> None:
    every = [VIEW, ORDERS]
    assert chosen(every, settings()) == [ORDERS, VIEW]
    for name in ("orders", "public.orders", "db.public.orders", '"db"."public"."orders"'):
        assert chosen(every, settings(table_whitelist=name)) == [ORDERS]
        assert chosen(every, settings(table_blacklist=name)) == [VIEW]
    assert chosen(every, settings(table_include_list=r"public\..*", table_exclude_list=".*v.*")) == [ORDERS]
    assert chosen([OLD, ORDERS], settings(table_whitelist="old.orders")) == [OLD]
    for name in ("ORDERS", "Public.orders", '"DB"."public"."orders"'):
        assert chosen(every, settings(table_whitelist=name)) == []
        assert chosen(every, settings(table_whitelist=name), tells_case=False) == [ORDERS]
        assert chosen(every, settings(table_blacklist=name), tells_case=False) == [VIEW]
    assert chosen(every, settings(table_include_list=r"Public\.O.*"), tells_case=False) == [ORDERS]
    with pytest.raises(ConnectError, match=r"share a topic: db\.old\.orders, db\.public\.orders"):
        chosen([OLD, ORDERS], settings())


def test_a_tasks_tables_are_written_as_confluents_connector_writes_them() -> None:
    assert joined([ORDERS, VIEW]) == '"db"."public"."orders","db"."public"."v""1,x"'
    assert parted(joined([ORDERS, VIEW]), "postgresql") == [ORDERS, VIEW]
    assert parted('"shop"."t","u"', "mysql") == [TableId("shop", "", "t"), TableId("", "", "u")]
    assert parted("", "sqlite") == []


def test_an_offset_is_looked_for_under_each_name_that_a_table_ever_had() -> None:
    assert ORDERS.partitions() == [
        {"protocol": "1", "table": "db.public.orders"},
        {"protocol": "1", "table": "public.orders"},
        {"table": "orders"},
    ]


def test_a_table_has_to_match_just_one_entry_of_a_mapping() -> None:
    assert mapped(["public.*:id", "old.*:no"], ORDERS) == "id"
    with pytest.raises(ConfigError, match="matches 2 entries"):
        mapped([".*orders:id", "public.*:no"], ORDERS)


@pytest.mark.parametrize(
    ("zone", "begins", "lasts_min"),
    [
        ("Europe/Berlin", "2026-10-25T00:00:00+00:00", 60),
        ("America/New_York", "2026-11-01T05:00:00+00:00", 60),
        ("Australia/Lord_Howe", "2026-04-04T14:30:00+00:00", 30),
    ],
)
def test_rows_of_two_equal_hours_are_all_found_although_the_second_compares_as_the_first(
    zone: str, begins: str, lasts_min: int
) -> None:
    style, cursor = SqlStyle("postgresql", STYLE.quote, zoneinfo.ZoneInfo(zone)), Cursor(None, ("at",))
    first, minute = datetime.datetime.fromisoformat(begins), datetime.timedelta(minutes=1)
    rows, found = dict[int, datetime.datetime](), list[int]()
    place: datetime.datetime | None = None
    for passed in range(-90, 3 * 60, 5):
        now = first + passed * minute
        end_us = before_repeat(round(now.timestamp() * 1_000_000), cursor, style)
        is_within = 0 <= passed < 2 * lasts_min
        assert end_us == round((first if is_within else now).timestamp() * 1_000_000)
        (end,) = statement("SELECT", cursor, Place(), end_us, style)[1]
        new = {at: row for row, at in rows.items() if at < end and (place is None or at > place)}
        found += [row for row, at in rows.items() if at in new]
        place = max(new, default=place)
        rows[passed] = now.astimezone(style.zone).replace(tzinfo=None) + datetime.timedelta(seconds=1)
    assert sorted(found) == [*rows][:-1]


def test_times_with_a_zone_and_those_of_utc_come_at_once() -> None:
    within = round(datetime.datetime.fromisoformat("2026-10-25T00:30:00+00:00").timestamp() * 1_000_000)
    berlin = SqlStyle("postgresql", STYLE.quote, zoneinfo.ZoneInfo("Europe/Berlin"))
    assert before_repeat(within, Cursor(None, ("at",), has_zone=True), berlin) == within
    assert before_repeat(within, Cursor(None, ("at",)), STYLE) == within
    assert before_repeat(10**18, Cursor(None, ("at",)), berlin) == 10**18
