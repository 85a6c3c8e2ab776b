"""What every OffsetStore keeps to: in memory, in a file, in a topic, in a connector's own topic beside the worker's."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kconnect.model import ConnectorOffset
from kconnect.runtime.storage import (
    FileOffsetStore,
    MemoryOffsetStore,
    commit_source_offsets,
    connector_partitions,
    list_source_offsets,
    read_source_offsets,
)
from kconnect.runtime.storage.offset_store import ConnectorOffsetStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.record_logs import kafka_logs
from kit.topics import topic_for

A, B = b'["c",{"p":"a"}]', b'["c",{"p":"b"}]'


def in_topic(name="offsets"):
    return TopicOffsetStore(MemoryRecordLog(MemoryTopic(name, partitions=5)))


MAKERS = {
    "memory": lambda folder: MemoryOffsetStore(),
    "file": lambda folder: FileOffsetStore(folder / "offsets"),
    "topic": lambda folder: in_topic(),
    "own topic and worker's file": lambda folder: ConnectorOffsetStore(
        "c", in_topic(), FileOffsetStore(folder / "offsets")
    ),
    "own topic only": lambda folder: ConnectorOffsetStore("c", in_topic(), None),
    "worker's store only": lambda folder: ConnectorOffsetStore("c", None, MemoryOffsetStore()),
}
ON_KAFKA = pytest.param("kafka", marks=pytest.mark.broker)
KEEP_TOMBSTONES = ("memory", "file", "worker's store only")


@pytest.fixture(scope="module", params=[*MAKERS, ON_KAFKA])
def kind(request):
    """Which store; and the broker is there for the one that needs it."""
    if request.param == "kafka":
        request.getfixturevalue("broker")
    return request.param


@pytest.fixture
def store(kind, request, tmp_path):
    with ExitStack() as closing:
        if kind == "kafka":
            bootstrap = request.getfixturevalue("broker").bootstrap
            found = TopicOffsetStore(closing.enter_context(kafka_logs(bootstrap, topic_for(request)))())
        else:
            found = MAKERS[kind](tmp_path)
        found.start()
        closing.callback(found.stop)
        yield found


def test_a_key_never_set_has_no_value(store):
    assert store.get([A]) == {A: None}


def test_what_was_set_is_got(store):
    store.set({A: b"1", B: b"2"})
    assert store.get([B, A]) == {A: b"1", B: b"2"}


def test_the_last_value_wins_and_the_order_of_first_setting_stays(store):
    store.set({A: b"1", B: b"2"})
    store.set({A: b"3"})
    assert list(store.entries().items()) == [(A, b"3"), (B, b"2")]


def test_a_tombstone_removes_the_value(store):
    store.set({A: b"1"})
    store.set({A: None})
    assert store.get([A]) == {A: None}
    assert connector_partitions(store, "c") == []


@pytest.mark.parametrize("kind", KEEP_TOMBSTONES, indirect=True)
def test_a_tombstone_stays_as_an_entry_where_they_are_kept(store):
    store.set({A: b"1"})
    store.set({A: None})
    assert store.entries() == {A: None}


def test_what_was_sent_is_there_once_its_future_has_ended(store):
    assert store.send({A: b"1", B: None}).result(10) is None
    assert store.get([A, B]) == {A: b"1", B: None}


def test_partitions_of_a_connector_are_those_with_an_offset(store):
    store.set({A: b"1", B: b"2", b'["d",{"p":"a"}]': b"3", b'["c",null]': b"4", b"x": b"5"})
    store.set({B: None})
    assert connector_partitions(store, "c") == [{"p": "a"}]


def test_offsets_are_committed_read_and_listed(store):
    offsets = [ConnectorOffset({"p": "a"}, {"at": 1}), ConnectorOffset({"p": "b"}, {"at": 2.5})]
    commit_source_offsets(store, "c", offsets)
    assert read_source_offsets(store, "c", [{"p": "b"}, {"p": "?"}]) == [{"at": 2.5}, None]
    assert list_source_offsets(store, "c") == offsets


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
