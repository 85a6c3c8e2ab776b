"""Records and headers: construction, copies, equality."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from kconnect.api import (
    ConnectHeaders,
    DataError,
    Header,
    Headers,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    TimestampType,
)
from kconnect.api.record import sink_records


def source() -> SourceRecord:
    return SourceRecord({"file": "a"}, {"position": 5}, "lines", "text", value_schema=Schema.STRING_SCHEMA)


def sink() -> SinkRecord:
    return SinkRecord("lines", 2, None, None, Schema.STRING_SCHEMA, "text", 7, timestamp=3)


def test_a_source_record_holds_what_it_was_given() -> None:
    record = source()
    assert (record.topic, record.value, record.value_schema) == ("lines", "text", Schema.STRING_SCHEMA)
    assert (record.source_partition, record.source_offset) == ({"file": "a"}, {"position": 5})
    assert (record.key, record.key_schema, record.kafka_partition, record.timestamp) == (None, None, None, None)


def test_a_sink_record_keeps_where_it_was_read_when_a_transform_moves_it() -> None:
    moved = sink().new_record(topic="other", kafka_partition=None)
    assert (moved.topic, moved.kafka_partition, moved.kafka_offset) == ("other", None, 7)
    assert (moved.original_topic, moved.original_kafka_partition, moved.original_kafka_offset) == ("lines", 2, 7)
    assert moved.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE


@pytest.mark.parametrize("origin", [{}, {"original_topic": "r", "original_kafka_partition": 7}])
def test_records_of_columns_are_those_that_are_made_one_by_one(origin: dict[str, Any]) -> None:
    headers = Headers()
    headers.add("h", 1, Schema.INT32_SCHEMA)
    rows = [("k", {"a": 1}, 5, None, None), (None, None, 9, 17, headers)]
    keys, values, offsets, times, all_headers = zip(*rows, strict=True)
    kind = TimestampType.LOG_APPEND_TIME
    made = sink_records("t", 3, Schema.STRING_SCHEMA, keys, None, values, offsets, times, kind, all_headers, **origin)
    expected = [
        SinkRecord(
            "t",
            3,
            Schema.STRING_SCHEMA,
            key,
            None,
            value,
            at,
            timestamp=time,
            timestamp_type=kind,
            headers=header,
            **origin,
        )
        for key, value, at, time, header in rows
    ]
    slots = [name for part in SinkRecord.__mro__ for name in getattr(part, "__slots__", ())]
    absent = object()
    assert [[getattr(one, name, absent) for name in slots] for one in made] == [
        [getattr(one, name, absent) for name in slots] for one in expected
    ]


def test_a_changed_copy_leaves_the_record_alone() -> None:
    record = source()
    record.headers.add_string("a", "1")
    copy = record.new_record(value=None, value_schema=None, timestamp=9)
    copy.headers.add_string("b", "2")
    assert (record.value, len(record.headers)) == ("text", 1)
    assert (copy.value, copy.timestamp, len(copy.headers)) == (None, 9, 2)
    assert copy.source_offset == record.source_offset
    assert type(copy) is SourceRecord


def test_headers_given_to_a_copy_replace_the_old_ones() -> None:
    record = source()
    record.headers.add_string("a", "1")
    copy = record.new_record(headers=Headers([Header("b", 2)]))
    assert [header.key for header in copy.headers] == ["b"]


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(TypeError, match="'valeu' of SourceRecord"):
        source().new_record(valeu=1)


def test_records_have_no_room_for_other_attributes() -> None:
    with pytest.raises(AttributeError):
        source().other = 1  # type: ignore[attr-defined]


def test_records_are_equal_by_value_and_headers_count() -> None:
    assert source() == source()
    assert source() != source().new_record(timestamp=1)
    assert sink() == sink()
    assert sink() != source()
    with_header = source()
    with_header.headers.add_string("a", "1")
    assert with_header != source()


def test_asking_for_headers_makes_no_difference_to_equality() -> None:
    touched = source()
    assert len(touched.headers) == 0
    assert not touched.has_headers
    assert touched == source()


def test_records_survive_pickle() -> None:
    record = sink()
    record.headers.add_int64("n", 1)
    assert pickle.loads(pickle.dumps([record, source()])) == [record, source()]


def test_records_show_all_their_parts() -> None:
    text = repr(source())
    assert text.startswith("SourceRecord{sourcePartition={'file': 'a'}, sourceOffset={'position': 5}} ConnectRecord{")
    assert "topic='lines'" in text
    assert "headers=ConnectHeaders(headers=)" in text


def test_headers_keep_order_and_repeated_keys() -> None:
    headers = Headers().add_string("a", "1").add_int32("b", 2).add_string("a", "3")
    assert [(key, value) for key, value, _ in headers] == [("a", "1"), ("b", 2), ("a", "3")]
    assert headers.last_with_name("a") == Header("a", "3", Schema.STRING_SCHEMA)
    assert headers.last_with_name("z") is None
    assert [header.value for header in headers.all_with_name("a")] == ["1", "3"]


def test_headers_are_dropped_by_key_and_thinned_to_the_latest() -> None:
    def three() -> Headers:
        return Headers().add("a", 1).add("b", 2).add("a", 3).add("b", 4)

    assert [h.value for h in three().remove("a")] == [2, 4]
    assert [h.value for h in three().retain_latest("a")] == [2, 3, 4]
    assert [h.value for h in three().retain_latest()] == [3, 4]
    assert len(three().clear()) == 0


def test_headers_are_changed_or_dropped_by_a_function() -> None:
    headers = Headers().add("a", 1).add("b", 2)
    headers.apply(lambda header: None if header.value == 1 else header._replace(value=20))
    assert [(h.key, h.value) for h in headers] == [("b", 20)]
    assert [h.value for h in Headers().add("a", 1).add("b", 2).apply(lambda h: h._replace(value=0), "b")] == [1, 0]


def test_a_duplicate_changes_apart() -> None:
    first = Headers().add("a", 1)
    second = first.duplicate().add("b", 2)
    assert (len(first), len(second)) == (1, 2)
    assert first != second
    assert ConnectHeaders is Headers


def test_values_that_do_not_fit_their_schema_are_refused() -> None:
    with pytest.raises(DataError, match=r"The value x is not compatible with the schema Schema{INT32}"):
        Headers().add("a", "x", Schema.INT32_SCHEMA)
    with pytest.raises(DataError, match=r"A null value requires an optional schema but was Schema{STRING}"):
        Headers().add("a", None, Schema.STRING_SCHEMA)
    with pytest.raises(DataError, match="Expecting ARRAY but instead found STRING"):
        Headers().add_list("a", [1], Schema.STRING_SCHEMA)


def test_null_containers_become_schemaless_nulls() -> None:
    schema = SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT8_SCHEMA).build()
    headers = Headers().add_map("m", None, schema).add_struct("s", None).add_string("t", None)
    assert [header.schema for header in headers] == [None, None, Schema.OPTIONAL_STRING_SCHEMA]


@pytest.mark.parametrize(
    "add",
    [lambda h: h.add(None, 1), lambda h: h.add_string(None, "v"), lambda h: h.add(Header(None, 1))],
    ids=["value", "string", "header"],
)
def test_a_header_must_have_a_name(add: Callable[[Any], Headers]) -> None:
    headers = ConnectHeaders()
    with pytest.raises(DataError, match="Null header keys are not permitted"):
        add(headers)
    assert len(headers) == 0


@pytest.mark.parametrize(
    "given",
    [
        {"a": 1, "b": b"x"},
        [("a", 1), ("b", b"x")],
        [Header("a", 1), Header("b", b"x")],
        Headers([Header("a", 1), Header("b", b"x")]),
    ],
)
def test_headers_may_be_given_as_a_mapping_or_as_pairs(given: Any) -> None:
    wanted = Headers([Header("a", 1), Header("b", b"x")])
    assert source().new_record(headers=given).headers == wanted
    assert sink().new_record(headers=given).headers == wanted
    assert SourceRecord(None, None, "t", headers=given).headers == wanted


@pytest.mark.parametrize("given", [5, "text", ["ab"], [5], [("a",)]])
def test_what_are_no_headers_are_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="headers must be Headers, a mapping, or pairs of a key and a value; found"):
        source().new_record(headers=given)
