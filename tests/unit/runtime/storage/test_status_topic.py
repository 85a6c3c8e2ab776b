"""Records of the status topic: Java's bytes, and nothing that cannot be read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.status_topic import (
    Ignored,
    StatusRead,
    StoredStatus,
    TopicRead,
    TopicUse,
    decode_record,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
TOPICS = st.text("abcXYZ019._-", min_size=1)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
STATUSES = st.builds(
    StoredStatus,
    state=st.sampled_from([state for state in RunState if state is not RunState.DESTROYED]),
    worker_id=st.text(),
    generation=INTS,
    trace=st.none() | st.text(),
    version=st.none() | st.text(),
)
RUNNING = StoredStatus(RunState.RUNNING, "w:8083", 2, None, "4.3.0")
VALUE = b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":2,"version":"4.3.0"}'


def test_a_status_is_written_in_javas_bytes():
    assert encode_status(RUNNING) == VALUE
    assert status_key("a b→") == "status-connector-a b→".encode()
    assert status_key(TaskId("x-1", 7)) == b"status-task-x-1-7"


def test_a_destroyed_status_is_a_tombstone():
    assert encode_status(StoredStatus(RunState.DESTROYED, "w", 1)) is None


def test_the_use_of_a_topic_is_written_in_javas_bytes():
    use = TopicUse("t", "c", 0, 1795232633057)
    assert topic_key("c", "t") == b"status-topic-t:connector-c"
    assert encode_topic_use(use) == b'{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1795232633057}}'


def test_records_of_before_there_was_a_version_are_read():
    old = b'{"state":"FAILED","trace":"boom","worker_id":"w","generation":1}'
    assert decode_record(b"status-connector-c", old) == StatusRead(
        "c", StoredStatus(RunState.FAILED, "w", 1, "boom", None)
    )


@pytest.mark.parametrize("name", ["a-b", "a-0", "0", "-", "a:b", "task-a-1", ":connector-", "a b→\n\t😀", "connector-"])
def test_names_with_dashes_colons_and_numbers_are_reported_from_the_rest_of_the_key(name):
    assert decode_record(status_key(name), VALUE) == StatusRead(name, RUNNING)
    assert decode_record(status_key(TaskId(name, 12)), VALUE) == StatusRead(TaskId(name, 12), RUNNING)
    use = TopicUse("t.x-1", name, 0, 1)
    assert decode_record(topic_key(name, "t.x-1"), encode_topic_use(use)) == TopicRead(name, "t.x-1", use)
    assert decode_record(topic_key(name, "t"), None) == TopicRead(name, "t", None)


@given(NAMES, st.integers(0, (1 << 31) - 1), STATUSES)
def test_every_status_reads_back_equal(name, task, status):
    assert decode_record(status_key(name), encode_status(status)) == StatusRead(name, status)
    subject = TaskId(name, task)
    assert decode_record(status_key(subject), encode_status(status)) == StatusRead(subject, status)


@given(NAMES, TOPICS, INTS, st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_use_of_a_topic_reads_back_equal(name, topic, task, time_ms):
    use = TopicUse(topic, name, task, time_ms)
    assert decode_record(topic_key(name, topic), encode_topic_use(use)) == TopicRead(name, topic, use)


INVALID_KEYS = [
    None,
    b"",
    b"\xff\xfe",
    b"status-unknown",
    b"status-connector-",
    b"status-task-",
    b"status-task-foo-#",
    b"status-task-foo",
    b"status-task-0",
    b"status-task--0",
    b"status-task-foo-2147483648",
    "status-task-foo-٣".encode(),
    b"status-topic-",
    b"status-topic-:connector-",
    b"status-topic-foo:",
    b"status-topic-foo:connector-",
    b"status-topic-:connector-c",
    b"status-topic-foo:konnector-c",
]


@pytest.mark.parametrize("value", [None, b"", VALUE])
def test_a_record_with_an_invalid_status_key_is_ignored(value):
    found = {key: decode_record(key, value) for key in INVALID_KEYS}
    assert len(found) == 18
    assert {key: read for key, read in found.items() if not isinstance(read, Ignored)} == {}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"invalid",
        b"null",
        b"[]",
        b"NaN",
        b"\xff",
        b"[" * 100_000,
        b"1" * 5000,
        b"{}",
        VALUE.replace(b"RUNNING", b"LOUD"),
        VALUE.replace(b'"RUNNING"', b"1"),
        VALUE.replace(b'"RUNNING"', b'["RUNNING"]'),
        VALUE.replace(b":2,", b':"2",'),
        VALUE.replace(b":2,", b":true,"),
        VALUE.replace(b":2,", b":2147483648,"),
        VALUE.replace(b"null", b"1"),
        VALUE.replace(b'"w:8083"', b"null"),
        b'{"topic":{"name":"t","connector":"c","task":0}}',
        b'{"topic":{"name":1,"connector":"c","task":0,"discoverTimestamp":1}}',
        b'{"topic":[]}',
    ],
)
def test_a_record_with_an_invalid_status_value_is_ignored(value):
    for key in (status_key("c"), status_key(TaskId("c", 0)), topic_key("c", "t")):
        assert isinstance(decode_record(key, value), Ignored)


KEYS = st.sampled_from([b"", b"status-", b"status-connector-", b"status-task-", b"status-topic-", b"status-topic-t:"])


@given(KEYS, st.binary(), st.none() | st.binary())
def test_arbitrary_bytes_never_raise(prefix, key, value):
    assert decode_record(prefix + key, value) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["state", "topic", "generation"]), inner)
    ),
)


@given(st.sampled_from(["status-connector-c", "status-task-c-0", "status-topic-t:connector-c"]), JSON)
def test_arbitrary_json_never_raises(key, value):
    assert decode_record(key.encode(), json.dumps(value).encode()) is not None
