"""Offsets in a topic: what is folded, written and waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key, decode_value, encode_key
from kconnect.runtime.storage.offset_values import connector_partitions
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.topic_offsets import OffsetCache, TopicOffsetStore
from kit.record_logs import ScriptedLog

A, B = b'["c",{"p":"a"}]', b'["c",{"p":"b"}]'
AB, BA, LOOSE = b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]', b'["c", {"a": 1, "b": 2}]'
LOST = ConnectError("lost")


@pytest.fixture
def topic():
    return MemoryTopic("offsets")


@pytest.fixture
def make(topic):
    stores = []

    def start(problems=(), *, is_held=False):
        log = ScriptedLog(topic, problems, is_held=is_held)
        store = TopicOffsetStore(log, write_timeout_s=0)
        stores.append(store)
        store.start()
        return log, store

    yield start
    for store in stores:
        store.stop()


def test_what_is_in_the_topic_at_the_start_is_known(topic, make):
    for key, value in ((A, b"0"), (B, b"1"), (A, b"2"), (B, b"3")):
        topic.append(key, value)
    _, store = make()
    assert store.entries() == {A: b"2", B: b"3"}


def test_a_get_reads_to_the_end_first(topic, make):
    _, store = make()
    with topic.held_back():
        topic.append(A, b"by another worker")
        assert store.get([A, B]) == {A: b"by another worker", B: None}
        topic.append(B, b"1")
        assert store.entries() == {A: b"by another worker", B: b"1"}


def test_a_set_ends_when_all_are_written_in_whatever_order(make):
    log, store = make(is_held=True)
    written = store.send({A: b"1", B: b"2"})
    log.end_next(index=1)
    assert not written.done()
    log.end_next()
    assert written.result(0) is None
    assert store.get([A, B]) == {A: b"1", B: b"2"}


def test_an_offset_null_is_written_as_a_tombstone_and_read_as_none(topic, make):
    log, store = make()
    store.set({A: b"1", B: None})
    assert log.sent == [(A, b"1"), (B, None)]
    store.set({A: None})
    assert store.get([A, B]) == {A: None, B: None}
    assert topic.records[-1].value is None
    assert store.entries() == {}


def test_a_set_fails_with_the_first_failure_of_its_records(make):
    log, store = make(is_held=True)
    written = store.send({A: b"1", B: b"2", b"x": b"3"})
    log.end_next()
    log.end_next(LOST)
    assert written.exception(0) is LOST
    log.end_next(RetriableError("too late to count"))
    assert written.exception(0) is LOST


def test_a_set_that_can_not_even_begin_fails(topic):
    class Full(MemoryRecordLog):
        def send(self, key, value):
            raise RetriableError("the queue is full")

    store = TopicOffsetStore(Full(topic))
    store.start()
    with pytest.raises(RetriableError, match="queue is full"):
        store.set({A: b"1"})
    store.stop()


def test_a_set_names_the_setting_of_its_deadline(make):
    log, store = make(is_held=True)
    with pytest.raises(TimedOutError, match=r"not written to topic offsets within 0 s \(offset.flush.timeout.ms\)"):
        store.set({A: b"1"})
    log.end_next()


def test_partitions_follow_values_and_tombstones(topic, make):
    _, store = make()
    topic.append(A, b"1")
    topic.append(B, b"1")
    topic.append(b'["d",{"p":"a"}]', b"1")
    assert connector_partitions(store, "c") == [{"p": "a"}, {"p": "b"}]
    assert connector_partitions(store, "d") == [{"p": "a"}]
    topic.append(A, None)
    assert connector_partitions(store, "c") == [{"p": "b"}]
    assert connector_partitions(store, "nobody") == []


@pytest.mark.parametrize("key", [b"no json", b"{}", b'["c"]', b'["c",[]]', b'[1,{"p":"a"}]', b'["c",null]'])
def test_a_key_of_another_form_is_logged_and_belongs_to_no_connector(topic, make, caplog, key):
    _, store = make()
    topic.append(key, b"1")
    assert store.get([key]) == {key: b"1"}
    assert connector_partitions(store, "c") == []
    assert "offsets-0@0 of the offsets topic belongs to no connector" in caplog.text


def test_a_record_without_a_key_is_logged_and_skipped(topic, make, caplog):
    _, store = make()
    topic.append(None, b"1")
    assert store.entries() == {}
    assert "offsets-0@0 of the offsets topic is ignored: it has no key" in caplog.text


def test_of_two_spellings_the_one_written_last_counts(topic, make):
    _, store = make()
    topic.append(AB, b"new", timestamp_ms=20)
    topic.append(BA, b"old", timestamp_ms=10)  # from another partition of the topic, read later
    assert store.get([LOOSE]) == {LOOSE: b"new"}
    assert store.entries() == {AB: b"new"}
    topic.append(AB, None, timestamp_ms=30)
    assert store.entries() == {BA: b"old"}


def test_keys_in_more_than_one_spelling_are_reported():
    cache = OffsetCache()
    for key in (AB, LOOSE, BA, A):
        cache.apply(key, b"1")
    assert cache.duplicates() == {BA: [AB, LOOSE]}


def test_a_value_goes_to_every_spelling_that_java_reads(topic, make):
    log, store = make()
    for key in (AB, BA, LOOSE):
        topic.append(key, b"1")
    store.set({BA: b"2"})
    assert log.sent == [(AB, b"2"), (BA, b"2")]
    assert store.get([AB]) == {AB: b"2"}


def test_a_tombstone_goes_to_every_spelling(topic, make):
    log, store = make()
    for key in (AB, BA, LOOSE):
        topic.append(key, b"1")
    store.set({BA: None})
    assert log.sent == [(AB, None), (BA, None), (LOOSE, None)]
    assert store.entries() == {}


def test_a_partition_that_is_there_keeps_its_spelling(topic, make):
    log, store = make()
    topic.append(AB, b"1")
    store.set({BA: b"2"})
    assert log.sent == [(AB, b"2")]


def test_a_spelling_that_is_not_javas_is_left_for_one_that_is(topic, make):
    log, store = make()
    topic.append(LOOSE, b"1")
    store.set({AB: b"2"})
    assert log.sent == [(AB, b"2")]
    assert store.entries() == {AB: b"2"}


KEYS = st.binary() | st.sampled_from(
    [AB, BA, LOOSE, A, b"[" * 100_000, b'["c",{"a":' + b"[" * 900 + b"]" * 900 + b"}]"]
)


@given(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3))))
def test_arbitrary_bytes_never_raise_and_the_last_value_of_each_key_counts(records):
    cache, model = OffsetCache(), {}
    for key, value in records:
        cache.apply(key, value)
        model.pop(key, None)
        if value is not None:
            model[key] = value
        assert cache.spellings_to_write(key, value)
    for key in {key for key, _ in records}:
        same = [value for other, value in model.items() if canonical_key(other) == canonical_key(key)]
        assert cache.value(key) == (same[-1] if same else None)
    assert {canonical_key(key) for key in cache.entries()} == {canonical_key(key) for key in model}


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()), st.text())
def test_any_order_of_the_fields_is_the_same_key(partition, connector):
    cache = OffsetCache()
    cache.apply(encode_key(connector, partition), b"1")
    turned = dict(reversed(partition.items()))
    assert cache.value(encode_key(connector, turned)) == b"1"
    assert cache.spellings_to_write(encode_key(connector, turned), b"2") == [encode_key(connector, partition)]


def test_what_is_nested_beyond_reason_is_no_key_and_no_offset():
    deep = b"[" * 100_000
    assert decode_key(deep) is None
    with pytest.raises(ConnectError, match="is not JSON"):
        decode_value(deep)


def test_a_spelling_that_is_not_read_back_yet_counts_too(topic, make):
    log, store = make()
    with topic.held_back():
        store.set({AB: b"1"})
        store.set({BA: b"2"})
        store.set({BA: None})
    assert log.sent == [(AB, b"1"), (AB, b"2"), (AB, None)]
    assert store.entries() == {}


def test_a_spelling_whose_write_has_failed_does_not_count(make):
    log, store = make([LOST])
    with pytest.raises(ConnectError, match="lost"):
        store.set({AB: b"1"})
    store.set({BA: b"2"})
    assert log.sent == [(AB, b"1"), (BA, b"2")]
