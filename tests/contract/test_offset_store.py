"""What every OffsetStore keeps to, in memory and in a file."""

from __future__ import annotations

import pytest

from kconnect.storage import FileOffsetStore, MemoryOffsetStore

A, B = b'["c",{"p":"a"}]', b'["c",{"p":"b"}]'


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    found = MemoryOffsetStore() if request.param == "memory" else FileOffsetStore(tmp_path / "offsets")
    found.start()
    yield found
    found.stop()


def test_a_key_never_set_has_no_value(store):
    assert store.get([A]) == {A: None}


def test_what_was_set_is_got(store):
    store.set({A: b"1", B: b"2"})
    assert store.get([B, A]) == {A: b"1", B: b"2"}


def test_the_last_value_wins_and_the_order_of_first_setting_stays(store):
    store.set({A: b"1", B: b"2"})
    store.set({A: b"3"})
    assert list(store.entries().items()) == [(A, b"3"), (B, b"2")]


def test_a_tombstone_stays_as_an_entry(store):
    store.set({A: b"1"})
    store.set({A: None})
    assert store.get([A]) == {A: None}
    assert store.entries() == {A: None}


def test_keys_equal_in_value_are_one_and_answers_carry_the_key_asked_with(store):
    store.set({b'["c",{"a":1,"b":2}]': b"1"})
    store.set({b'["c",{"b":2,"a":1}]': b"2"})
    assert store.get([b'["c", {"b":2, "a":1}]']) == {b'["c", {"b":2, "a":1}]': b"2"}
    assert store.entries() == {b'["c",{"a":1,"b":2}]': b"2"}


def test_setting_nothing_is_fine(store):
    store.set({})
    assert store.entries() == {}


def test_what_is_given_out_is_a_copy(store):
    store.set({A: b"1"})
    store.entries().clear()
    assert store.entries() == {A: b"1"}


def test_stopping_twice_is_fine(store):
    store.set({A: b"1"})
    store.stop()
    store.stop()
