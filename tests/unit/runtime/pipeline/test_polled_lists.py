"""Lists of records as columns, or as parallel lists: the same bytes, the same errors, only sooner."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConnectHeaders, RecordBatch, Schema, SchemaBuilder, SourceRecord, Struct
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.builtin.predicates import RecordIsTombstone
from kconnect.builtin.transforms.filter import Filter
from kconnect.builtin.transforms.hoist_field import HoistFieldValue
from kconnect.runtime.kafka import KafkaBatch
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.polled_lists import PolledLists
from kconnect.runtime.pipeline.stages import StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kit.failing_transform import DropsText

ITEM = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("name", Schema.OPTIONAL_STRING_SCHEMA).build()


def converters() -> Converters:
    key, value = JsonConverter(), JsonConverter()
    key.configure({"schemas.enable": "false"}, True)
    value.configure({"schemas.enable": "true"}, False)
    return Converters(key, value, StringConverter())


def items(count: int, topic: str = "t") -> list[SourceRecord]:
    return [
        SourceRecord(
            {"p": "a"}, {"n": row}, topic, Struct.from_values(ITEM, [row, None if row % 3 else "x"]), value_schema=ITEM
        )
        for row in range(count)
    ]


def dicts(count: int, **more: Any) -> list[SourceRecord]:
    return [SourceRecord({"p": "a"}, {"n": row}, "t", {"id": row}, key=f"k{row}", **more) for row in range(count)]


def test_a_long_list_of_one_schema_becomes_columns_with_the_same_bytes() -> None:
    records = items(100)
    batch = PolledLists(TransformChain([])).columns_of(records)
    assert isinstance(batch, RecordBatch)
    assert batch.last_source_offset() == {"n": 99}
    assert converters().to_kafka_batch(batch).values == [
        made.value for made in converters().to_kafka_records(records) if made is not None
    ]


@pytest.mark.parametrize("records", [items(5), dicts(100)], ids=["a few", "schemaless"])
def test_other_lists_stay_lists(records: list[SourceRecord]) -> None:
    assert PolledLists(TransformChain([])).columns_of(records) is records


def test_a_chain_with_a_step_for_records_only_gets_records() -> None:
    records = items(100)
    assert PolledLists(TransformChain([TransformStep(DropsText())])).columns_of(records) is records


def test_a_source_whose_lists_are_mixed_is_not_tried_each_time() -> None:
    lists = PolledLists(TransformChain([]))
    mixed = items(99) + items(1, topic="other")
    assert lists.columns_of(mixed) is mixed
    records = items(100)
    tries = [isinstance(lists.columns_of(records), RecordBatch) for _ in range(60)]
    assert tries == [False] * 50 + [True] * 10


def test_records_for_one_place_are_converted_to_parallel_lists() -> None:
    made = converters().to_kafka_list(dicts(3, timestamp=7))
    assert isinstance(made, KafkaBatch)
    assert made.keys == [b'"k0"', b'"k1"', b'"k2"']
    assert made.values == [b'{"schema":null,"payload":{"id":%d}}' % row for row in range(3)]
    assert (made.topic, made.partition, made.timestamps, made.headers) == ("t", None, [7, 7, 7], None)


def test_records_for_several_places_or_with_headers_are_converted_one_by_one() -> None:
    headers = ConnectHeaders()
    headers.add("h", "v", Schema.STRING_SCHEMA)
    for records in (
        dicts(2) + items(1, topic="other"),
        dicts(2, headers=headers),
        dicts(1) + dicts(1, kafka_partition=3),
    ):
        made = converters().to_kafka_list(records)
        assert isinstance(made, list)
        assert len(made) == len(records)
    assert converters().to_kafka_list([]) == []


def test_a_record_that_can_not_be_converted_is_named_and_those_before_it_are_kept() -> None:
    records = dicts(3)
    records[1].value = {"id": object()}
    with pytest.raises(StageError, match=r"A value of type builtins\.object has no form in JSON") as found:
        converters().to_kafka_list(records)
    assert "value.schema" in str(found.value.__cause__.hint)
    with pytest.raises(StageError) as caught:
        converters().to_kafka_list(records)
    assert caught.value.record is records[1]
    assert [made.key for made in caught.value.done] == [b'"k0"']


def test_filter_takes_the_rows_that_its_predicate_selects_out_of_a_batch() -> None:
    records = items(100)
    for row in (3, 50):
        records[row].value = None
    batch = RecordBatch.from_records(records)
    assert batch is not None
    for negate, kept in ((False, [row for row in range(100) if row not in (3, 50)]), (True, [3, 50])):
        chain = TransformChain([TransformStep(Filter(), RecordIsTombstone(), negate)])
        after = chain.apply_batch(batch)
        assert isinstance(after, RecordBatch)
        assert [record.source_offset["n"] for record in after.to_records()] == kept
        assert [record.source_offset["n"] for record in chain.apply_records(records)] == kept


def test_a_step_behind_the_filter_still_gets_columns() -> None:
    hoist = HoistFieldValue()
    hoist.configure({"field": "f"})
    records = items(70)
    records[0].value = None
    batch = RecordBatch.from_records(records)
    assert batch is not None
    after = TransformChain([TransformStep(Filter(), RecordIsTombstone()), TransformStep(hoist)]).apply_batch(batch)
    assert isinstance(after, RecordBatch)
    assert len(after) == 69
