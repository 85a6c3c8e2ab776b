"""Records as they are shown: text where bytes are text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.record_json import bytes_of, connector_of, kind_of, shown_record
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.clock import moment
from kconnect.model import LogRecord

CONFIG, STATUS, OFFSET = InternalTopic.CONFIG, InternalTopic.STATUS, InternalTopic.OFFSET


def record(key: bytes | None, value: bytes | None) -> LogRecord:
    return LogRecord("t", 2, 7, key, value, 1_700_000_000_123)


def test_a_record_has_its_place_time_text_and_size():
    assert shown_record(record(b"k", b"v\xc3\xa9"), b"v\xc3\xa9") == {
        "partition": 2,
        "offset": 7,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "key": "k",
        "value": "v\u00e9",
        "size": 4,
    }


def test_bytes_that_are_no_text_are_marked_base64_and_a_tombstone_is_null():
    shown = shown_record(record(b"\xff\x00", None), None)
    assert shown["key"] == {"base64": "/wA="}
    assert shown["value"] is None
    assert bytes_of("base64:/wA=") == b"\xff\x00"
    assert bytes_of("connector-x") == b"connector-x"
    with pytest.raises(ValueError, match="base64 data"):
        bytes_of("base64:!")


@pytest.mark.parametrize(
    ("which", "key", "connector"),
    [
        (CONFIG, b"connector-a-b", "a-b"),
        (CONFIG, b"task-a-b-12", "a-b"),
        (CONFIG, b"commit-a", "a"),
        (CONFIG, b"target-state-a", "a"),
        (CONFIG, b"session-key", None),
        (CONFIG, b"logger-cluster-org.x", None),
        (CONFIG, b"whatever", None),
        (STATUS, b"status-connector-a", "a"),
        (STATUS, b"status-task-a-1-2", "a-1"),
        (STATUS, b"status-topic-t:connector-a:b", "a:b"),
        (STATUS, b"nothing", None),
        (OFFSET, b'["a",{"f":1}]', "a"),
        (OFFSET, b"[1]", None),
        (OFFSET, None, None),
    ],
)
def test_a_record_is_about_the_connector_of_its_key(which, key, connector):
    if which is STATUS and key and key.startswith(b"status-topic"):
        assert kind_of(key) is STATUS
    assert connector_of(which, key) == connector


def test_keys_tell_the_topic_in_which_they_stand():
    assert [kind_of(key) for key in (b"connector-x", b"status-task-x-0", b'["x",{}]', b"orders", b"\xff", None)] == [
        CONFIG,
        STATUS,
        OFFSET,
        None,
        None,
        None,
    ]


def test_a_time_beyond_calendars_is_none():
    assert moment(None) is None
    assert moment(1 << 62) is None
    assert moment(0) == "1970-01-01T00:00:00.000Z"


@given(
    st.sampled_from(list(InternalTopic)),
    st.one_of(st.none(), st.binary(), st.sampled_from([b"connector-x", b"task-x-1", b"session-key"])),
    st.one_of(st.none(), st.binary(), st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps)),
)
def test_any_bytes_can_be_shown(which, key, value):
    data = value.encode() if isinstance(value, str) else value
    json.dumps(shown_record(record(key, data), SecretMasks().value(which, key, data)))
    connector_of(which, key)
    kind_of(key)
