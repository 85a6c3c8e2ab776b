"""What a Singer tap writes, line by line: pure."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from kconnect.api import ConfigError, ConnectError, DataError, SourceRecord
from kconnect.builtin.connectors.singer.messages import BadRecord, Messages, State
from kconnect.builtin.connectors.singer.singer_source import SingerSourceConnector, selected
from kconnect.builtin.connectors.singer.tap import secrets_of
from kconnect.testing import SourceHarness

FIELDS = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "price": {"type": ["null", "number"]},
    "count": {"type": ["integer", "number"]},
    "ok": {"type": "boolean"},
    "any": {"type": ["string", "integer", "null"]},
    "nothing": {},
    "either": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
    "open": {"type": "object"},
    "inner": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "list": {"type": ["array", "null"], "items": {"type": "integer"}},
}


def messages() -> Messages:
    return Messages("tap-x", "db.", {"tap": "tap-x"})


def say(one: Messages, **message: Any) -> Any:
    return one.read(json.dumps(message).encode())


def with_schema(properties: dict[str, Any], keys: list[str] | None = None) -> Messages:
    one = messages()
    say(one, type="SCHEMA", stream="s", schema={"properties": properties}, key_properties=keys or [])
    return one


def test_a_record_becomes_one_of_connect_with_schema_key_topic_and_time() -> None:
    one = with_schema(FIELDS, ["id"])
    held = {
        "id": 7,
        "at": "2026-11-23T13:00:00+01:00",
        "day": "2026-11-23T00:00:00",
        "price": 3,
        "count": 2.5,
        "ok": True,
        "any": 5,
        "nothing": [1],
        "either": 4,
        "open": {"a": 1},
        "inner": {"x": 1, "more": 2},
        "list": [1, None],
        "unknown": "is left out",
    }
    record = say(one, type="RECORD", stream="s", record=held, time_extracted="1970-01-01T00:00:01Z")
    assert isinstance(record, SourceRecord)
    assert (record.topic, record.timestamp, record.key.get("id")) == ("db.s", 1000, 7)
    value = record.value
    assert [value.get(name) for name in ("id", "name", "price", "count", "ok", "either", "list")] == [
        7,
        None,
        3.0,
        2.5,
        True,
        4,
        [1, None],
    ]
    assert value.get("at") == datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert value.get("day") == date(2026, 11, 23)
    assert [value.get(name) for name in ("any", "nothing", "open")] == ["5", "[1]", '{"a":1}']
    assert value.get("inner").get("x") == 1
    value.validate()


def test_a_state_is_kept_as_it_was_and_other_messages_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    one = messages()
    assert say(one, type="STATE", value={"bookmarks": {"s": 1}}) == State('{"bookmarks":{"s":1}}')
    assert say(one, type="ACTIVATE_VERSION", stream="s", version=1) is None
    assert say(one, type="NOVELTY") is say(one, type="NOVELTY") is None
    assert one.read(b" \n") is None
    assert caplog.text.count("NOVELTY") == 1


def test_a_schema_may_change_between_records() -> None:
    one = with_schema({"a": {"type": "integer"}})
    first = say(one, type="RECORD", stream="s", record={"a": 1})
    say(one, type="SCHEMA", stream="s", schema={"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}})
    second = say(one, type="RECORD", stream="s", record={"a": 2, "b": "x"})
    assert first.value_schema is not second.value_schema
    assert second.value.get("b") == "x"
    say(one, type="SCHEMA", stream="s", schema={"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}})
    assert say(one, type="RECORD", stream="s", record={}).value_schema is second.value_schema


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"Hello, I am a tap\n", "Line 1 of tap-x is not a message of Singer, it is not JSON: Hello, I am a tap"),
        (b"[1]\n", "it has no type"),
        (b'{"type": "RECORD", "stream": "s", "record": {}}', "no SCHEMA of stream s came before it"),
        (b'{"type": "SCHEMA", "stream": "s"}', "a SCHEMA has a stream and a schema"),
        (b'{"type": "BATCH", "stream": "s"}', "writes batches to files"),
    ],
)
def test_a_line_that_is_no_message_is_told_with_its_number(line: bytes, told: str) -> None:
    with pytest.raises(DataError, match=told):
        messages().read(line)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("id", "x", "id: 'x' is not an integer"),
        ("id", 2**64, "more than 64 bits"),
        ("id", True, "is not an integer"),
        ("price", "much", "is not a number"),
        ("ok", 1, "neither true nor false"),
        ("at", "soon", "is not a time in ISO 8601"),
        ("inner", [], "is not an object"),
        ("inner", {"x": "y"}, "inner: x: 'y' is not an integer"),
        ("list", {}, "is not a list"),
    ],
)
def test_a_record_that_does_not_fit_is_told_and_the_next_is_read(field: str, value: Any, told: str) -> None:
    one = with_schema(FIELDS)
    bad = say(one, type="RECORD", stream="s", record={field: value})
    assert isinstance(bad, BadRecord)
    assert told in str(bad.error)
    assert "A record of stream s (line 2 of tap-x)" in str(bad.error)
    assert isinstance(say(one, type="RECORD", stream="s", record={"id": 1}), SourceRecord)


def test_streams_are_selected_in_the_taps_own_catalog() -> None:
    catalog = {"streams": [{"stream": "a", "metadata": []}, {"tap_stream_id": "b", "metadata": [{"breadcrumb": []}]}]}
    found = json.loads(selected(json.dumps(catalog).encode(), ["b"], "tap-x"))["streams"]
    assert [(stream["selected"], stream["metadata"][0]["metadata"]["selected"]) for stream in found] == [
        (False, False),
        (True, True),
    ]
    with pytest.raises(ConnectError, match="tap-x has no stream c; it has: a, b"):
        selected(json.dumps(catalog).encode(), ["c"], "tap-x")
    with pytest.raises(ConnectError, match="gave no catalog"):
        selected(b"usage: tap-x", ["c"], "tap-x")


def test_secrets_are_found_by_the_names_of_their_fields() -> None:
    config = {"user": "me-myself", "password": "sesame", "api": {"auth": {"id": 'quo"te'}}, "tokens": ["abcd", "x"]}
    assert set(secrets_of(config)) == {"sesame", 'quo"te', 'quo\\"te', "abcd"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"singer.command": 'tap "x'}, "No closing quotation"),
        ({"singer.command": " '' ".strip(" '") or "''", "singer.config": "[1]"}, "It must be a JSON object"),
        ({"singer.config": '{"password": "sesame'}, r"\[hidden\] for configuration singer\.config: It is not JSON$"),
        ({"singer.catalog": "nowhere.json"}, "It cannot be read: No such file"),
        ({"singer.catalog": '{"streams": []}', "singer.streams": "a"}, "singer.catalog selects streams already"),
    ],
)
def test_settings_that_cannot_work_are_refused_and_no_secret_is_shown(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        SourceHarness("SingerSource", {"singer.command": "tap-x", **settings}).start()
    assert "sesame" not in str(error.value)


def test_an_offset_is_a_state_in_json() -> None:
    connector = SingerSourceConnector()
    assert connector.alter_offsets({}, [({"tap": "x"}, {"state": "{}"}), ({"tap": "x"}, None)])
    for offset in ({}, {"state": "{"}, {"state": {}}):
        with pytest.raises(DataError, match="is its state"):
            connector.alter_offsets({}, [({"tap": "x"}, offset)])
