"""What a Singer tap writes, line by line: pure."""

from __future__ import annotations

import json
import time as timelib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from kconnect.api import ConfigError, ConnectError, DataError, SourceRecord
from kconnect.builtin.connectors.singer.singer_source import SingerSourceConnector, selected
from kconnect.builtin.connectors.singer.tap import BadRecord, Messages, State, secrets_of
from kconnect.builtin.types.fitting import as_mapping
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


def values_of(one: Messages, *records: Any) -> list[Any]:
    """What becomes of each record: its value, or the end of the error."""
    found = [say(one, type="RECORD", stream="s", record=record) for record in records]
    return [
        str(made.error).partition("does not fit: ")[2] if isinstance(made, BadRecord) else as_mapping(made.value)
        for made in found
    ]


def test_a_member_without_a_name_is_the_error_of_its_record_alone() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    one = with_schema({"o": inner, "l": {"type": "array", "items": inner}})
    wrong = "A member has no name, and no field can be without one"
    assert values_of(
        one,
        {"": 1},
        {"new": 1, "o": {"": 1}},
        {"l": [{"b": 2}, {"": 1}]},
        {"new": 2, "o": {"c": 3}, "l": [{"b": 4}]},
    ) == [wrong, wrong, wrong, {"o": {"a": None, "c": 3}, "l": [{"a": None, "b": 4}], "new": 2}]


def test_a_time_at_the_end_of_time_is_the_error_of_its_record() -> None:
    one = with_schema({"at": {"type": "string", "format": "date-time"}})
    assert values_of(one, {"at": "0001-01-01T00:00:00+01:00"}, {"at": "9999-12-31T23:59:59.5-01:00"}, {"at": None}) == [
        "at: '0001-01-01T00:00:00+01:00' is outside the years 1 to 9999 of UTC",
        "at: '9999-12-31T23:59:59.5-01:00' is outside the years 1 to 9999 of UTC",
        {"at": None},
    ]


def test_a_date_loses_no_time_of_day_and_a_text_of_a_number_no_digit() -> None:
    one = with_schema(
        {
            "day": {"type": "string", "format": "date"},
            "n": {"type": "number"},
            "cents": {"type": "number", "multipleOf": 0.01},
        }
    )
    records = [
        {"day": "2026-11-23T00:00:00Z", "n": "12.5", "cents": "1234567890123456789012345678901.25"},
        {"day": "2026-11-23T23:30:00-05:00"},
        {"day": "2026-11-23xx"},
        {"n": "0.1234567890123456789"},
        {"n": "1_000"},
        {"cents": "1_000"},
    ]
    whole, *wrong = values_of(one, *records)
    assert whole == {"day": date(2026, 11, 23), "n": 12.5, "cents": Decimal("1234567890123456789012345678901.25")}
    assert wrong == [
        "day: '2026-11-23T23:30:00-05:00' has a time of day, and a date has none",
        "day: '2026-11-23xx' is not a date in ISO 8601",
        "n: 0.1234567890123456789 has more digits than a double; multipleOf of the schema would make it a decimal",
        "n: '1_000' is not a number",
        "cents: '1_000' is not a number of 2 digits behind the point",
    ]


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
        "unknown": "is kept",
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
    assert (value.get("inner").get("x"), value.get("inner").get("more")) == (1, 2)
    assert value.get("unknown") == "is kept"
    value.validate()


def as_plain(record: Any) -> Any:
    assert isinstance(record, SourceRecord), record.error
    record.value.validate()
    return as_mapping(record.value)


def test_what_a_schema_does_not_name_stays(caplog: pytest.LogCaptureFixture) -> None:
    one = messages()
    say(one, type="SCHEMA", stream="s", schema={"type": "object"}, key_properties=["id"])
    record = say(one, type="RECORD", stream="s", record={"id": 1, "a": 2})
    assert as_plain(record) == {"id": 1, "a": 2}
    assert as_mapping(record.key) == {"id": 1}
    properties = {"id": {"type": "integer"}, "meta": {"type": "object"}}
    say(one, type="SCHEMA", stream="u", schema={"type": "object", "properties": properties}, key_properties=["id"])
    held = {"id": 1, "extra": "x", "meta": {"k": 1}}
    assert as_plain(say(one, type="RECORD", stream="u", record=held)) == {"id": 1, "meta": '{"k":1}', "extra": "x"}


def test_the_type_of_an_unnamed_field_is_what_holds_all_its_values() -> None:
    one = with_schema({})
    found = [
        as_plain(say(one, type="RECORD", stream="s", record={"a": value}))["a"]
        for value in (None, 1, 2.5, 2**70, 1, "x", [1, {"b": None}], True)
        if value is not None
    ]
    assert found == [1, 2.5, float(2**70), 1.0, "x", '[1,{"b":null}]', "true"]


@pytest.mark.parametrize(
    ("node", "value", "wanted"),
    [
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": 1, "n": None}, {"k": 1, "n": None}),
        ({"type": "object", "properties": {"x": {}}, "additionalProperties": {"type": "string"}}, {"y": 1}, {"y": "1"}),
        ({"type": "object", "properties": {"x": {}}, "additionalProperties": False}, {"y": 1}, {"y": 1}),
        ({"type": "array", "items": {"type": "object", "properties": {"x": {}}}}, [{"y": 1}], [{"y": 1}]),
        ({"type": "array"}, [1, "a"], '[1,"a"]'),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, 1.5, 1.5),
        ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string"}]}, "soon", "soon"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, 5, "5"),
        ({"oneOf": [{"type": ["null", "integer"]}, {"type": "null"}]}, 5, 5),
        (
            {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
            {"a": "1", "c": 2},
            {"a": "1", "c": 2},
        ),
        ({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}]}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ({"type": "number", "multipleOf": 0.01}, 1.1, Decimal("1.10")),
        ({"type": ["null", "number"], "multipleOf": 1e-6}, 12345678901234567890.123456, None),
        ({"type": "string", "format": "time"}, "03:04:05.678", time(3, 4, 5, 678000)),
        ({"type": "string", "format": "uuid"}, "x", "x"),
        (True, {"a": [1]}, '{"a":[1]}'),
    ],
)
def test_every_kind_of_schema_keeps_what_comes(node: Any, value: Any, wanted: Any) -> None:
    one = with_schema({"f": node})
    if wanted is None:
        text = b'{"type":"RECORD","stream":"s","record":{"f":12345678901234567890.123456}}'
        assert as_plain(one.read(text))["f"] == Decimal("12345678901234567890.123456")
        return
    found = as_plain(say(one, type="RECORD", stream="s", record={"f": value}))["f"]
    if isinstance(found, dict) and isinstance(wanted, dict):
        found = {name: part for name, part in found.items() if part is not None or name in wanted}
    if isinstance(found, list) and isinstance(found[0], dict):
        found = [{name: part for name, part in item.items() if part is not None} for item in found]
    assert found == wanted


def test_a_number_that_no_double_holds_is_reported_and_none_loses_a_digit() -> None:
    one = with_schema({"n": {"type": "number"}, "d": {"type": "number", "multipleOf": 0.01}, "t": {"type": "object"}})
    for text, reported in (("n", "more digits than a double"), ("d", "more than 2 digits behind the point")):
        line = b'{"type":"RECORD","stream":"s","record":{"%s":12345678901234567.891}}' % text.encode()
        bad = one.read(line)
        assert isinstance(bad, BadRecord)
        assert reported in str(bad.error)
    line = b'{"type":"RECORD","stream":"s","record":{"t":{"a":[12345678901234567.891]},"x":12345678901234567.891}}'
    found = as_plain(one.read(line))
    assert (found["t"], found["x"]) == ('{"a":[12345678901234567.891]}', Decimal("12345678901234567.891"))
    assert one.read(b'{"type":"STATE","value":{"at":0.12345678901234567891}}') == State('{"at":0.12345678901234567891}')


def test_fields_that_came_stay_when_the_schema_changes() -> None:
    one = with_schema({"a": {"type": "integer"}})
    say(one, type="RECORD", stream="s", record={"a": 1, "x": 1, "y": 1})
    say(one, type="SCHEMA", stream="s", schema={"properties": {"a": {"type": "string"}, "y": {"type": "string"}}})
    assert as_plain(say(one, type="RECORD", stream="s", record={"a": 1})) == {"a": "1", "y": None, "x": None}


def test_a_state_is_kept_as_it_was_and_other_messages_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    one = messages()
    assert say(one, type="STATE", value={"bookmarks": {"s": 1}}) == State('{"bookmarks":{"s":1}}')
    assert say(one, type="ACTIVATE_VERSION", stream="s", version=1) is None
    assert say(one, type="NOVELTY") is say(one, type="NOVELTY") is None
    assert one.read(b" \n") is None
    assert caplog.text.count("NOVELTY") == 1


def test_a_state_of_nothing_is_none_and_does_not_take_the_place_of_the_last() -> None:
    one = messages()
    assert say(one, type="STATE", value=None) is None
    assert say(one, type="STATE") is None
    assert say(one, type="STATE", value={}) == State("{}")


def test_a_time_without_a_zone_is_of_utc_and_one_key_may_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    timelib.tzset()
    try:
        one = messages()
        say(one, type="SCHEMA", stream="s", schema={"properties": {"id": {"type": "integer"}}}, key_properties="id")
        for text in ("2026-01-01T00:00:00", "2026-01-01T00:00:00Z", "2025-12-31T19:00:00-05:00"):
            found = say(one, type="RECORD", stream="s", record={"id": 7}, time_extracted=text)
            assert (found.timestamp, found.key["id"]) == (1767225600000, 7)
    finally:
        monkeypatch.undo()
        timelib.tzset()


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
    ("line", "reported"),
    [
        (b"Hello, I am a tap\n", "Line 1 of tap-x is not a message of Singer, it is not JSON: Hello, I am a tap"),
        (b"[1]\n", "it has no type"),
        (b'{"type": "RECORD", "stream": "s", "record": {}}', "no SCHEMA of stream s came before it"),
        (b'{"type": "SCHEMA", "stream": "s"}', "a SCHEMA has a stream and a schema"),
        (b'{"type": "BATCH", "stream": "s"}', "writes batches to files"),
    ],
)
def test_a_line_that_is_no_message_is_reported_with_its_number(line: bytes, reported: str) -> None:
    with pytest.raises(DataError, match=reported):
        messages().read(line)


@pytest.mark.parametrize(
    ("field", "value", "reported"),
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
def test_a_record_that_does_not_fit_is_reported_and_the_next_is_read(field: str, value: Any, reported: str) -> None:
    one = with_schema(FIELDS)
    bad = say(one, type="RECORD", stream="s", record={field: value})
    assert isinstance(bad, BadRecord)
    assert reported in str(bad.error)
    assert "A record of stream s (line 2 of tap-x)" in str(bad.error)
    assert isinstance(say(one, type="RECORD", stream="s", record={"id": 1}), SourceRecord)


def test_streams_are_selected_in_the_taps_own_catalog() -> None:
    catalog: Any = {"streams": [{"stream": "a", "metadata": []}]}
    schema = {"type": "object", "properties": {"x": {"type": "object", "properties": {"y": {}}}}}
    catalog["streams"].append({"tap_stream_id": "b", "metadata": [{"breadcrumb": []}], "schema": schema})
    found = json.loads(selected(json.dumps(catalog).encode(), ["b"], "tap-x"))["streams"]
    assert [(stream["selected"], stream["metadata"][0]["metadata"]["selected"]) for stream in found] == [
        (False, False),
        (True, True),
    ]
    inner = {"selected": True, "type": "object", "properties": {"y": {"selected": True}}}
    assert found[1]["schema"] == {"selected": True, "type": "object", "properties": {"x": inner}}
    with pytest.raises(ConnectError, match="tap-x has no stream c; it has: a, b"):
        selected(json.dumps(catalog).encode(), ["c"], "tap-x")
    with pytest.raises(ConnectError, match="gave no catalog"):
        selected(b"usage: tap-x", ["c"], "tap-x")


def test_secrets_are_found_by_the_names_of_their_fields() -> None:
    config = {"user": "me-myself", "password": "sesame", "api": {"auth": {"id": 'quo"te'}}, "tokens": ["abcd", "x"]}
    assert set(secrets_of(config)) == {"sesame", 'quo"te', 'quo\\"te', "abcd"}


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"singer.command": 'tap "x'}, "No closing quotation"),
        ({"singer.command": " '' ".strip(" '") or "''", "singer.config": "[1]"}, "It must be a JSON object"),
        ({"singer.config": '{"password": "sesame'}, r"\[hidden\] for configuration singer\.config: It is not JSON$"),
        ({"singer.catalog": "nowhere.json"}, "It cannot be read: No such file"),
        ({"singer.catalog": '{"streams": []}', "singer.streams": "a"}, "singer.catalog selects streams already"),
    ],
)
def test_settings_that_cannot_work_are_refused_and_no_secret_is_shown(settings: dict[str, str], reported: str) -> None:
    with pytest.raises(ConfigError, match=reported) as error:
        SourceHarness("SingerSource", {"singer.command": "tap-x", **settings}).start()
    assert "sesame" not in str(error.value)


def test_an_offset_is_a_state_in_json() -> None:
    connector = SingerSourceConnector()
    assert connector.alter_offsets({}, [({"tap": "x"}, {"state": "{}"}), ({"tap": "x"}, None)])
    for offset in ({}, {"state": "{"}, {"state": {}}):
        with pytest.raises(DataError, match="is its state"):
            connector.alter_offsets({}, [({"tap": "x"}, offset)])
