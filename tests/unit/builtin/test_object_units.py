"""Names of objects, and which rows are written together: pure decisions."""

from __future__ import annotations

import pytest

from kconnect.api import ConfigError, DataError
from kconnect.builtin.connectors.objects.object_names import ObjectNames
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


@pytest.mark.parametrize("template", ["${topi}", "${date}", "${topic:x}", "../${topic}", "a/../b"])
def test_a_template_with_other_variables_or_a_way_out_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match=r"object\.path"):
        ObjectNames(template, "csv", "none")


def test_neighbouring_rows_of_a_folder_come_together() -> None:
    names = ObjectNames("${date:%H}", "csv", "none")
    hour = 3_600_000
    runs = folder_runs(names, "t", 0, [NOON, NOON + 1, NOON + hour, NOON])
    assert list(runs) == [("11", 0, 2), ("12", 2, 3), ("11", 3, 4)]
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
