"""Columns and values made to fit a type. That all who use it agree is in tests/unit/spark/test_same_types.py."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import Schema, SchemaBuilder, Struct
from kconnect.api.plain_values import plain
from kconnect.builtin.types.fitting import DECLARED, KEPT, NotFittingError, as_mapping, as_text, build, fit

_ITEM = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("name", Schema.OPTIONAL_STRING_SCHEMA).build()


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
_NESTED = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
)


@given(st.lists(_NESTED) | st.dictionaries(st.text(), _NESTED))
def test_the_short_way_to_json_writes_what_the_long_way_writes(value):
    written = json.dumps(plain(value, is_data=True), ensure_ascii=False, separators=(",", ":"))
    assert as_text(value) == written


def test_times_of_connect_become_those_of_spark_and_back():
    kinds = pa.struct([("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32()), ("clock", pa.int32())])
    column = pa.array(
        [{"at": 1000, "day": 1, "clock": 5}],
        pa.struct([("at", pa.timestamp("ms", tz="UTC")), ("day", pa.date32()), ("clock", pa.time32("ms"))]),
    )
    assert fit(column, kinds).type == kinds
    back = fit(pa.array([1_000_999], pa.timestamp("us", tz="Etc/UTC")), pa.timestamp("ms", tz="UTC"))
    assert back.cast(pa.int64()).to_pylist() == [1000]


def test_nested_values_fit_by_name_and_sliced_columns_stay_whole():
    kind = pa.list_(pa.struct([("b", pa.int64()), ("c", pa.string())]))
    column = pa.array([[{"b": 1}], None, [{"b": 2}, {"b": 3}]]).slice(1)
    assert fit(column, kind).to_pylist() == [None, [{"b": 2, "c": None}, {"b": 3, "c": None}]]
    with pytest.raises(NotFittingError, match=r"it\[\] is 'x', the column int32"):
        build([["x"]], pa.list_(pa.int32()))


def test_values_of_several_types_are_read_one_by_one():
    assert build([1, "2", 3.0, None], pa.int64()).to_pylist() == [1, 2, 3, None]
    at = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
    kind = pa.timestamp("us", tz="UTC")
    assert build(["2026-11-23", 1_795_392_000_000, at, at.replace(tzinfo=None)], kind).to_pylist() == [at] * 4
    with pytest.raises(NotFittingError, match="id is 'x', the column int64") as reported:
        build([1, "2", "x"], pa.int64(), path="id")
    assert reported.value.row == 2


def test_structs_maps_and_lists_are_built_of_what_each_value_has():
    kind = pa.map_(pa.string(), pa.int64())
    assert build([{"a": 1}, None, {"b": "2"}], kind).to_pylist(maps_as_pydicts="strict") == [{"a": 1}, None, {"b": 2}]
    assert build([{"a": 1}, {"b": 2}], pa.string()).to_pylist() == ['{"a":1}', '{"b":2}']
    item, kind = Struct(_ITEM).put("id", 1), pa.struct([("id", pa.int32())])
    assert build([item, {"id": "7", "more": True}], kind).to_pylist() == [{"id": 1}, {"id": 7}]
    assert build([[item], []], pa.list_(kind)).to_pylist() == [[{"id": 1}], []]
    assert as_mapping([item]) == [{"id": 1, "name": None}]
    with pytest.raises(NotFittingError, match="it is 'x' and has no fields"):
        build([{"id": 1}, "x"], kind)


def test_nothing_is_cut_off_unless_the_type_was_declared():
    fine = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)])
    coarse = pa.timestamp("ms", tz="UTC")
    assert fit(fine, coarse, DECLARED).cast(pa.int64()).to_pylist() == [-1], "before 1970 it is the ms before as well"
    with pytest.raises(NotFittingError):
        fit(fine, coarse, KEPT)
    with pytest.raises(NotFittingError):
        fit(pa.array([0.1]), pa.float32(), KEPT)
    with pytest.raises(NotFittingError):
        fit(pa.array([1e300]), pa.float32(), DECLARED)
    assert str(fit(pa.array([float("nan"), float("inf")]), pa.float32(), KEPT).to_pylist()) == "[nan, inf]"


def test_times_of_day_and_decimals_are_read_from_text():
    clock = dt.time(1, 2, 3, 500_000)
    assert build(["01:02:03.5", 3_723_500], pa.time32("ms")).to_pylist() == [clock, clock]
    assert fit(pa.array([clock]), pa.int32()).to_pylist() == [3_723_500]
    assert build(["1e2", Decimal("1.5"), 2**60], pa.decimal128(38, 2)).to_pylist() == [100, Decimal("1.50"), 2**60]


def test_a_long_value_is_shown_by_its_beginning():
    with pytest.raises(NotFittingError) as reported:
        build(["x" * 1_000_000], pa.int64())
    assert len(str(reported.value)) < 120
