"""Keys and values of source offsets: Java's spelling, equality by value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import DataError
from kconnect.java.compat.jackson import jackson_text
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key, decode_value, encode_key, encode_value

FLAT = st.dictionaries(
    st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
)


def test_a_key_is_connector_and_partition_as_java_writes_them():
    assert encode_key("n1", {"filename": "/ü"}) == '["n1",{"filename":"/ü"}]'.encode()


def test_a_tombstone_has_no_value():
    assert encode_value(None) is None
    assert decode_value(None) is None


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ("→ ü", '"→ ü"'),
        ("😀", '"\\uD83D\\uDE00"'),
        ("\ud800", '"\\uD800"'),
        ("\x1b\x7f/", '"\\u001B\x7f/"'),
        ('"\\\b\t\n\f\r', '"\\"\\\\\\b\\t\\n\\f\\r"'),
        (True, "true"),
        (None, "null"),
        (5000000000, "5000000000"),
        (1.5, "1.5"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e21, "1.0E21"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-1.5e-9, "-1.5E-9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), '"NaN"'),
        (b"\x00\xff", '"AP8="'),
    ],
)
def test_values_are_spelled_as_jackson_spells_them(value, spelled):
    assert jackson_text(value) == spelled


@given(FLAT)
def test_every_offset_reads_back_equal(offset):
    assert decode_value(encode_value(offset)) == offset


@given(st.text(), FLAT)
def test_every_key_reads_back_equal(connector, partition):
    assert decode_key(encode_key(connector, partition)) == (connector, partition)


@given(FLAT)
def test_our_spelling_is_plain_json(offset):
    assert json.loads(jackson_text(offset)) == offset


def test_keys_equal_in_value_are_one_key():
    assert canonical_key(b'["c",{"a":1,"b":2}]') == canonical_key(b'["c", {"b": 2, "a": 1}]')
    assert canonical_key(b'["c",{"a":1}]') != canonical_key(b'["c",{"a":1.0}]')
    assert canonical_key(b'["c",{"a":1}]') != canonical_key(b'["c",{"a":"1"}]')
    assert canonical_key(b'["c",{"a":1}]') != canonical_key(b'["c",{"a":true}]')


@pytest.mark.parametrize("key", [b"", b"\xff", b"{}", b'["c"]', b'["c",null]', b"[1,{}]", b'["c",{},1]'])
def test_a_key_of_another_form_belongs_to_no_connector(key):
    assert decode_key(key) is None
    assert canonical_key(key) == key


def test_nested_values_are_refused_in_javas_words():
    with pytest.raises(DataError, match="Offsets may only contain primitive types as values, but field a contains MAP"):
        encode_value({"a": {"b": 1}})
    with pytest.raises(DataError, match="but field a contains ARRAY"):
        encode_key("c", {"a": [1]})
    with pytest.raises(DataError, match="Offsets may only use String keys"):
        encode_value({1: 2})  # type: ignore[dict-item]  # the point of the test


@pytest.mark.parametrize("value", [b"[]", b"1", b"{", b"\xff\xfe"])
def test_a_value_of_another_form_is_refused(value):
    with pytest.raises(DataError, match="offset is not"):
        decode_value(value)
