"""The short way of schemaless JSON gives the bytes of the long way, or steps aside."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.builtin.converters.json_converter import plain_json
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


@given(st.floats(-2e7, 2e7))
def test_floats_are_spelled_as_in_java(value: float) -> None:
    made = plain_json({"f": value})
    assert made is None or made == WRITER.value(None, {"f": value}).encode()


def test_an_ordinary_value_goes_the_short_way() -> None:
    value = {"id": 1, "name": 'a "quote" \n é', "ok": True, "price": -2.25, "tags": ["x", None], "in": {"a": 0.0}}
    made = plain_json(value)
    assert made == WRITER.value(None, value).encode()
    assert made is not None


@pytest.mark.parametrize(
    "value",
    [
        {"f": float("nan")},
        {"f": float("inf")},
        {"f": 1e7},
        {"f": 1e-5},
        {"n": 1 << 64},
        {"s": "\x1b"},
        {"s": "\U0001f600"},
        {"s": "\ud800"},
        {"b": b"x"},
        {1: "x"},
        {"d": Decimal("1.0")},
        [(1, 2)],
    ],
)
def test_what_orjson_would_write_otherwise_is_left_to_the_writer(value: Any) -> None:
    assert plain_json(value) is None
