"""The short way of schemaless JSON gives the bytes of the long way, or steps aside."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api.plain_columns import NULL_IS_MISSING, WHOLE_IS_INT
from kconnect.api.values_text import number_text
from kconnect.builtin.converters.plain_json import plain_json, plain_json_list, plain_json_texts
from kconnect.java.compat.json_writer import JsonWriter

WRITER = JsonWriter(numeric_decimals=False, replace_null_with_default=True, cache_size=10)

LEAVES = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats() | st.text() | st.binary()
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


@given(TREES)
def test_it_gives_what_the_writer_gives(value: Any) -> None:
    made = plain_json(value)
    assert made is None or made == WRITER.value(None, value).encode()


@given(st.lists(TREES, max_size=6))
def test_many_together_are_written_as_each_alone(values: list[Any]) -> None:
    made = plain_json_list(values)
    assert made is None or made == [plain_json(value) for value in values]


def test_many_ordinary_values_go_the_short_way() -> None:
    values = [{"id": n, "at": 1.79e9 + n, "in": [{"ok": n % 2 == 0}, "x,y"]} for n in range(3)]
    assert plain_json_list(values) == [plain_json(value) for value in values]


@given(st.floats() | st.floats(-2e7, 2e7) | st.floats(1e7, 1e17) | st.integers(0, 1 << 60).map(float))
def test_floats_are_spelled_as_in_java(value: float) -> None:
    written = WRITER.value(None, {"f": [value]}).encode()
    assert plain_json({"f": [value]}) in (None, written)
    assert plain_json_texts(pa.array([{"f": [value]}, None])) in (None, [written, None])


@given(st.floats(1e7, 1e16, exclude_max=True) | st.integers(10**7, 10**16 - 1).map(float))
def test_the_short_way_of_long_floats_gives_the_digits_of_the_long_way(value: float) -> None:
    assert number_text(value) == number_text(-value)[1:]


def test_an_ordinary_value_goes_the_short_way() -> None:
    value = {"id": 1, "name": 'a "quote" \n é', "ok": True, "price": -2.25, "tags": ["x", None], "in": {"a": 0.0}}
    made = plain_json(value)
    assert made == WRITER.value(None, value).encode()
    assert made is not None


def test_a_value_with_floats_that_only_java_spells_so_goes_the_short_way() -> None:
    value = {"at": 1790000000.25, "in": [{"least": 5e-324, "none": float("nan")}, -1e300, 1e7, 1e-5, float("inf")]}
    made = plain_json(value)
    numbers = b'{"least":4.9E-324,"none":"NaN"},-1.0E300,1.0E7,1.0E-5,"Infinity"'
    assert made == b'{"at":1.79000000025E9,"in":[' + numbers + b"]}"
    assert made == WRITER.value(None, value).encode()


@pytest.mark.parametrize("text", ["\x1b[0m", "\\u001b", "\\\x1b", "\U0001f600 and é", "\x7f", "ÿ\U0010ffff\n"])
def test_characters_are_spelled_as_in_java(text: str) -> None:
    for value in (text, {text: [text, "x"]}):
        made = plain_json(value)
        assert made == WRITER.value(None, value).encode()
    column = pa.array([{"a": text, "b": 1}, {"a": "x", "b": None}, None])
    texts = plain_json_texts(column)
    expected = [None if value is None else WRITER.value(None, value).encode() for value in column.to_pylist()]
    assert texts == (None if "\x7f" in text else expected)


_ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            "f": st.none() | st.floats(-2e7, 2e7),
            "s": st.none() | st.text(),
            "in": st.none() | st.fixed_dictionaries({"ok": st.booleans(), "é": st.lists(st.floats(), max_size=2)}),
        }
    ),
    max_size=6,
)


@given(_ROWS)
def test_rows_of_a_column_are_written_as_the_writer_writes_each(rows: list[Any]) -> None:
    inner = pa.struct([("ok", pa.bool_()), ("é", pa.list_(pa.float64()))])
    kind = pa.struct([("n", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("in", inner)])
    column = pa.array(rows, kind)
    texts = plain_json_texts(column)
    expected = [None if row is None else WRITER.value(None, row).encode() for row in column.to_pylist()]
    assert texts in (None, expected)


def test_missing_members_and_whole_floats_are_minded() -> None:
    column = pa.array(
        [{"a": None, "f": 21.0}, {"a": "x", "f": 21.5}],
        pa.struct(
            [pa.field("a", pa.string(), metadata=NULL_IS_MISSING), pa.field("f", pa.float64(), metadata=WHOLE_IS_INT)]
        ),
    )
    assert plain_json_texts(column) == [b'{"f":21}', b'{"a":"x","f":21.5}']


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1e7]),
        pa.array([{"f": [0.5, float("nan")]}]),
        pa.array([b"x"]),
        pa.array([Decimal("1.0")]),
        pa.array(["a"], pa.large_string()),
    ],
)
def test_a_column_that_orjson_would_write_otherwise_is_left_to_the_writer(column: pa.Array) -> None:
    assert plain_json_texts(column) is None
    assert plain_json_texts(column.slice(0, 0)) in (None, [])


@pytest.mark.parametrize(
    "value",
    [
        {"n": 1 << 64, "f": 1e7},
        {"s": "\ud800"},
        {"b": b"x"},
        {1: "x"},
        {"d": Decimal("1.0")},
        [(1, 2)],
    ],
)
def test_what_only_the_writer_can_write_or_refuse_is_left_to_it(value: Any) -> None:
    assert plain_json(value) is None
