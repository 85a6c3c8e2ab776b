"""Names of objects, and which rows are written together: pure decisions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from kconnect.api import ConfigError, DataError
from kconnect.builtin.connectors.objects.object_names import ObjectNames, field_values
from kconnect.builtin.connectors.objects.object_units import Unit, folder_runs
from kconnect.builtin.connectors.objects.object_writers import Encoder
from kconnect.builtin.stores.flush_plan import FlushLimits

NOON = 1_795_000_000_000


def test_a_name_has_topic_partition_and_offsets_and_says_them_again() -> None:
    names = ObjectNames("${topic}/p${partition}", "jsonl", "gzip")
    name = names.name("orders", 3, 40, 99)
    assert name == "orders+3+00000000000000000040-00000000000000000099.jsonl.gz"
    assert names.folder("orders", 3, None) == "orders/p3"
    assert names.prefix("orders", 3, "orders") == "orders/p3/orders+3+"
    paths = [f"b/orders/p3/{name}", "b/orders/p3/orders+31+00000000000000000000-00000000000000000005.jsonl.gz", "b/x"]
    assert names.ends("orders", 3, paths) == [99]
    assert ObjectNames("", "parquet", "zstd").name("t", 0, 0, 1).endswith("1.parquet"), "compressed inside"


def test_a_folder_has_the_date_of_the_record_and_listings_end_before_it() -> None:
    names = ObjectNames("${topic}/dt=${date:%Y-%m-%d}/h=${date:%H}", "csv", "none")
    assert names.folder("t", 0, NOON) == "t/dt=2026-11-18/h=11"
    assert names.prefix("t", 0, "t") == "t/dt="
    assert names.prefix(None, 0, "t") == ""
    with pytest.raises(DataError, match="no timestamp"):
        names.folder("t", 0, None)


@pytest.mark.parametrize(
    "template",
    ["${topi}", "${date}", "${topic:x}", "${field:}", "${time:ts}", "${date:%H:Europe/Berln}", "../${topic}", "a/../b"],
)
def test_a_template_with_other_variables_or_a_way_out_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match=r"object\.path"):
        ObjectNames(template, "csv", "none")


@pytest.mark.parametrize(
    ("template", "value", "wanted"),
    [
        ("${field:country}", {"country": "DE"}, "DE"),
        ("c=${field:country}/x", {"country": "München/Süd"}, "c=München%2FSüd/x"),
        ("${field:country}", {"country": "../x"}, "%2E.%2Fx"),
        ("${field:country}", {"country": ".."}, "%2E."),
        ("a/${field:country}", {"country": "_x"}, "a/%5Fx"),
        ("a-${field:country}", {"country": "_x"}, "a-_x"),
        ("${field:country}", {"country": ""}, "__HIVE_DEFAULT_PARTITION__"),
        ("${field:country}", {"country": None}, "__HIVE_DEFAULT_PARTITION__"),
        ("${field:country}", {}, "__HIVE_DEFAULT_PARTITION__"),
        ("${field:country}", "text", "__HIVE_DEFAULT_PARTITION__"),
        ("${field:a.b}", {"a": {"b": 7}}, "7"),
        ("${field:a.b}", {"a.b": True}, "true"),
        ("${field:at}", {"at": datetime(2026, 1, 2, tzinfo=UTC)}, "2026-01-02T00%3A00%3A00.000Z"),
        ("${field:day}", {"day": date(2026, 1, 2)}, "2026-01-02"),
        ("${time:ts:%Y/%m/%d:Europe/Berlin}", {"ts": "2026-01-01T23:30:00Z"}, "2026/01/02"),
        ("${time:ts:%Y/%m/%d:Europe/Berlin}", {"ts": 1767310200000}, "2026/01/02"),
        ("${time:ts:%Y-%m-%d}", {"ts": "2026-01-02T00:30:00+02:00"}, "2026-01-01"),
        ("${time:ts:%Y-%m-%d}", {"ts": date(2026, 1, 2)}, "2026-01-02"),
        ("${time:ts:%H:%M}", {"ts": datetime(2026, 1, 2, 3, 4, tzinfo=UTC)}, "03:04"),
        ("${time:ts:%Y}", {}, "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_folder_is_made_of_fields_and_never_leads_elsewhere(template: str, value: Any, wanted: str) -> None:
    names = ObjectNames(template, "csv", "none")
    assert names.folder("t", 0, None, field_values(value, names.fields)) == wanted
    assert names.prefix("t", 0, "t").rstrip("t+0") == template.partition("${")[0]


def test_dates_have_a_zone_and_a_day_of_another_length() -> None:
    names = ObjectNames("${date:%Y-%m-%dT%H:%M:Europe/Berlin}", "csv", "none")
    assert names.folder("t", 0, NOON) == "2026-11-18T12:06"


@pytest.mark.parametrize(
    ("template", "value", "why"),
    [
        ("${field:a}", {"a": {"b": 1}}, "is dict, which names no folder"),
        ("${field:a}", {"a": [1]}, "is list"),
        ("${field:a}", {"a": "x" * 256}, "more than 255 bytes"),
        ("${time:a:%Y}", {"a": "soon"}, "'soon', which is neither milliseconds nor a time in ISO 8601"),
        ("${time:a:%Y}", {"a": True}, "neither"),
        ("${time:a:%Y}", {"a": 10**30}, "neither"),
    ],
)
def test_a_value_that_names_no_folder_is_the_error_of_its_record(template: str, value: Any, why: str) -> None:
    names = ObjectNames(template, "csv", "none")
    with pytest.raises(DataError, match=why):
        names.folder("t", 0, None, field_values(value, names.fields))


def test_neighbouring_rows_of_a_folder_come_together() -> None:
    names = ObjectNames("${date:%H}", "csv", "none")
    hour = 3_600_000
    runs = folder_runs(names, "t", 0, [NOON, NOON + 1, NOON + hour, NOON])
    assert list(runs) == [("11", 0, 2), ("12", 2, 3), ("11", 3, 4)]
    names = ObjectNames("${field:a}", "csv", "none")
    runs = folder_runs(names, "t", 0, [None] * 4, [(1,), (1,), (True,), ("1",)])
    assert list(runs) == [("1", 0, 2), ("true", 2, 3), ("1", 3, 4)]
    assert list(folder_runs(ObjectNames("x", "csv", "none"), "t", 0, [None, None])) == [("x", 0, 2)]


def _unit(first: int, end: int | None = None) -> Unit:
    return Unit(first, Encoder("lines", "none").content, 100.0, end)


def test_a_unit_is_full_at_its_rows_or_bytes_and_late_by_its_age() -> None:
    limits = FlushLimits(rows=3, bytes=100, seconds=5.0)
    unit = _unit(10)
    assert unit.room(limits, [10, 11, 12, 13]) == 3
    # What a transformation made of one record stays together
    assert (unit.room(limits, [10, 11, 12, 12, 12, 13]), unit.room(limits, [10, 10, 10, 10])) == (5, 4)
    unit.add("f", [b"a", b"b"], 2, 11)
    assert (unit.room(limits, [12, 13]), unit.is_full(limits, 12)) == (1, False)
    assert (unit.is_late(limits, 104.9), unit.is_late(limits, 105.0)) == (False, True)
    unit.add("f", [b"x" * 98], 1, 12)
    assert unit.is_full(limits, None)


def test_a_unit_that_was_written_before_ends_where_it_ended_whatever_the_limits_say_now() -> None:
    limits = FlushLimits(rows=1, bytes=1, seconds=0.0)
    unit = _unit(10, end=13)
    assert unit.room(limits, [10, 12, 13, 14]) == 3
    unit.add("f", [b"a"], 1, 10)
    assert not unit.is_late(limits, 1e9)
    assert (unit.is_full(limits, 12), unit.is_full(limits, 14)) == (False, True), "13 may be gone by compaction"
    unit.add("f", [b"a"], 1, 13)
    assert unit.is_full(limits, None)
