"""The Java-serialised map: what real workers wrote is read, what we write is the same bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import DataError
from kconnect.java.compat.serialized_map import dump_map, load_map
from kit.places import GOLDEN

RECORDED = sorted((GOLDEN / "standalone").glob("*.bin"))
MAPS = st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=300), max_size=60)


def test_there_are_golden_files():
    assert len(RECORDED) >= 12


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_file_written_by_java_is_written_again_byte_for_byte(path):
    data = path.read_bytes()
    assert dump_map(load_map(data)) == data


def test_a_reset_partition_stays_as_an_entry_without_value():
    found = load_map((GOLDEN / "standalone/offsets-03-after-reset.bin").read_bytes())
    assert list(found.values()) == [None, None, b'{"position":14}', b'{"position":14}']


@given(MAPS)
def test_what_is_written_is_read_back_in_order(entries):
    assert list(load_map(dump_map(entries)).items()) == list(entries.items())


def test_a_back_reference_of_an_array_is_followed():
    twice = dump_map({b"a": b"same", b"b": b"same"})
    second = b"\x75\x71\x00\x7e\x00\x02\x00\x00\x00\x04same\x78"
    assert twice.endswith(second)
    referring = twice.removesuffix(second) + b"\x71\x00\x7e\x00\x04\x78"
    assert load_map(referring) == {b"a": b"same", b"b": b"same"}


def test_any_threshold_and_bucket_count_is_accepted():
    data = bytearray(dump_map({b"k": b"v"}))
    at = data.index(b"\x77\x08")
    data[at - 4 : at] = struct.pack(">i", 999)
    data[at + 2 : at + 6] = struct.pack(">i", 4096)
    assert load_map(bytes(data)) == {b"k": b"v"}


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"this is not java", "invalid stream header: 74686973"),
        (b"\xac\xed\x00\x05", "in the middle of"),
        (dump_map({b"k": b"v"})[:-1], "in the middle of the end of the map"),
        (dump_map({b"k": b"v"}) + b"x", "goes on by 1 byte"),
        (dump_map({b"k": b"v"}).replace(b"HashMap", b"TreeMap"), "expected a java.util.HashMap at byte 4"),
        (dump_map({b"k": b"v"}).replace(b"\x00\x00\x00\x01v", b"\xff\xff\xff\xffv"), "negative length -1"),
        (dump_map({b"k": b"v"}).replace(b"\x00\x00\x00\x01v", b"\x7f\xff\xff\xffv"), "in the middle of a byte array"),
        (dump_map({b"k": None})[:-2] + b"\x71\x00\x7e\x00\x09\x78", "names no byte array"),
        (dump_map({b"k": None})[:-2] + b"\x74\x78", "found type 0x74"),
    ],
)
def test_anything_else_is_refused_with_the_place(data, reported):
    with pytest.raises(DataError, match=reported):
        load_map(data)


@given(st.binary(max_size=200))
def test_noise_never_raises_anything_but_a_data_error(noise):
    for data in (noise, b"\xac\xed\x00\x05" + noise, dump_map({b"k": b"v"})[:50] + noise):
        try:
            load_map(data)
        except DataError:
            continue
