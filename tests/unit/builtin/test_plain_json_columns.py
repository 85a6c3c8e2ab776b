"""Schemaless JSON that a sink takes in columns; tests/integration/builtin compares these with records at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest

from kconnect.api import RecordBatch, TimestampType
from kconnect.builtin.converters.columns_from_plain_json import PlainJsonColumns
from kconnect.builtin.converters.json_columns import ByRecordsError
from kconnect.builtin.converters.json_converter import FEWEST_PLAIN_ROWS, JsonConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.builtin.python_function import PythonTransform
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.stages import StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain

MANY = FEWEST_PLAIN_ROWS


def plain_converter() -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": "false"}, is_key=False)
    return made


def row(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"n{number}", "price": number + 0.5, "in": {"tags": ["x"] * (number % 3)}}


def texts_of(values: Sequence[Any]) -> list[bytes | None]:
    return [orjson.dumps(value) for value in values]


def batch_of(texts: list[bytes | None], made: Converters | None = None, topic: str = "t") -> RecordBatch | list[Any]:
    made = made or Converters(StringConverter(), plain_converter(), StringConverter())
    numbers = list(range(len(texts)))
    fetched = FetchedBatch(topic, 0, numbers, None, texts, None, TimestampType.NO_TIMESTAMP_TYPE, None)
    return made.to_connect_batch(fetched)


def column_of(texts: list[bytes | None], columns: PlainJsonColumns, topic: str = "t") -> Any:
    """The column's type; records where it cannot be columns."""
    try:
        return str(columns.column(topic, pa.array(texts, pa.binary())).type)
    except ByRecordsError:
        return "records"


@pytest.fixture
def columns() -> PlainJsonColumns:
    made = plain_converter()
    return PlainJsonColumns(lambda text: made.to_connect_data("t", text).value, 2)


def test_texts_that_are_alike_are_a_batch_of_the_same_records() -> None:
    values = [row(number) for number in range(MANY)]
    batch = batch_of(texts_of(values))
    assert isinstance(batch, RecordBatch)
    assert batch.value_schema is None
    assert (
        str(batch.value.type) == "struct<id: int64, name: string, price: double, in: struct<tags: list<item: string>>>"
    )  # type: ignore[union-attr]  # there is a value
    records = batch.to_records()
    assert [(record.value_schema, record.value) for record in records] == [(None, value) for value in values]
    assert [list(record.value) for record in records] == [list(values[0])] * MANY


def test_tombstones_and_nulls_are_null_rows() -> None:
    texts = texts_of([row(number) for number in range(MANY)])
    texts[3], texts[5] = None, b"null"
    batch = batch_of(texts)
    assert isinstance(batch, RecordBatch)
    assert batch.value.is_null().to_pylist() == [number in (3, 5) for number in range(MANY)]  # type: ignore[union-attr]  # there is a value
    assert [record.value for record in batch.to_records()][2:7] == [row(2), None, row(4), None, row(6)]


def test_few_texts_go_by_records_as_columns_take_longer() -> None:
    assert isinstance(batch_of(texts_of([row(number) for number in range(MANY - 1)])), list)


def test_keys_may_be_numbers_and_texts_in_json() -> None:
    made = Converters(plain_converter(), plain_converter(), StringConverter())
    keys = [b"%d" % number for number in range(MANY)]
    numbers = list(range(MANY))
    fetched = FetchedBatch("t", 0, numbers, keys, [b'"x"'] * MANY, None, TimestampType.NO_TIMESTAMP_TYPE, None)
    batch = made.to_connect_batch(fetched)
    assert isinstance(batch, RecordBatch)
    assert [(record.key, record.value) for record in batch.to_records()] == [(number, "x") for number in numbers]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({**row(1), "price": 2.0}, "Java has a Double 2.0 beside a Long 2"),
        ({**row(1), "in": None, "price": 1}, "a null where the member may be missing"),
        (dict(reversed(row(1).items())), "another order"),
        ({**row(1), "name": 5}, "another type"),
        ({**row(1), "id": 2**63}, "beyond 64 bits"),
        ({**row(1), "in": {"tags": ["x", 1]}}, "a list of two types"),
        ([row(1)], "a list beside objects"),
    ],
)
def test_what_no_column_can_say_goes_by_records(odd: Any, why: str) -> None:
    values = [row(number) for number in range(MANY)]
    values[-3] |= {"price": 2}
    del values[-3]["in"]
    texts = texts_of(values)
    texts[-2] = orjson.dumps(odd)
    made = batch_of(texts)
    assert isinstance(made, list), why
    assert repr([record.value for record in made[:-2]]) == repr(values[:-2])
    assert repr(made[-2].value) == repr(plain_converter().to_connect_data("t", texts[-2]).value)


def test_twice_the_same_member_goes_by_records() -> None:
    assert isinstance(batch_of([b'{"a":1}'] * MANY + [b'{"a":1,"a":2}']), list)


def test_texts_that_look_like_times_stay_texts() -> None:
    batch = batch_of([b'{"at":"2024-01-02T03:04:05Z"}'] * MANY)
    assert isinstance(batch, RecordBatch)
    assert str(batch.value.type) == "struct<at: string>"  # type: ignore[union-attr]  # there is a value


def test_a_damaged_text_fails_alone_and_is_named() -> None:
    texts = texts_of([row(number) for number in range(MANY)])
    texts[70] = b'{"id":'
    with pytest.raises(StageError, match="topic 't', partition 0, offset 70 failed in VALUE_CONVERTER") as failure:
        batch_of(texts)
    assert len(failure.value.done) == 70


def test_what_was_learnt_of_a_topic_is_kept_for_its_next_batch(columns: PlainJsonColumns) -> None:
    assert column_of([b'{"a":null}', b'{"a":null}'], columns) == "struct<a: null>"
    assert column_of([b'{"a":null}', b'{"a":"x"}'], columns) == "struct<a: string>"
    assert column_of([b'{"a":null}'], columns) == "struct<a: string>"
    assert column_of([b'{"a":[]}'], columns, "other") == "struct<a: list<item: null>>"
    assert column_of([b'{"a":[]}', b'{"a":[{"b":1.5}]}'], columns, "other") == (
        "struct<a: list<item: struct<b: double>>>"
    )
    assert column_of([b'{"a":null}'], columns) == "struct<a: string>"


def test_texts_that_change_for_good_are_columns_again(columns: PlainJsonColumns) -> None:
    assert column_of([b'{"a":1,"b":"x"}'], columns) == "struct<a: int64, b: string>"
    assert column_of([b'{"a":1,"b":"x"}', b'{"a":"1","b":null}'], columns) == "records"
    assert column_of([b'{"a":"1","b":null}'], columns) == "struct<a: string, b: string>"
    assert column_of([b'{"b":"y","a":"1"}'], columns) == "struct<b: string, a: string>"


def test_a_member_that_is_missing_here_and_null_there_goes_by_records_until_one_ends(columns: PlainJsonColumns) -> None:
    assert column_of([b'{"a":1,"b":"x"}', b'{"a":1}'], columns) == "struct<a: int64, b: string>"
    assert column_of([b'{"a":1}', b'{"a":1,"b":null}'], columns) == "records"
    assert column_of([b'{"a":1,"b":null}'], columns) == "struct<a: int64, b: string>"
    assert column_of([b'{"a":1}'], columns) == "struct<a: int64, b: string>"
    assert column_of([b'{"a":null}', b'{"a":null,"b":1}'], columns, "never") == "struct<a: null, b: int64>"
    assert column_of([b'{"b":1}', b"{}"], columns, "never") == "struct<a: null, b: int64>"
    assert column_of([b'{"b":1}', b'{"a":null,"b":1}'], columns, "never") == "records"


def test_members_may_be_missing_and_new_ones_come() -> None:
    values = [{"id": 1, **({"n": number} if number % 3 else {}), "last": "x"} for number in range(MANY)]
    values[90] = {"id": 1, "sub": [{"x": 1}, {}], "last": "x"}
    batch = batch_of(texts_of(values))
    assert isinstance(batch, RecordBatch)
    assert [list(record.value.items()) for record in batch.to_records()] == [list(value.items()) for value in values]
    part = batch.slice(89, 3)
    assert [record.value for record in part.to_records()] == values[89:92]


def test_numbers_as_javascript_writes_them_are_floats_whose_whole_ones_are_ints() -> None:
    values = [{"price": number / 4 if number % 4 else number // 4, "sizes": [number, 0.5]} for number in range(MANY)]
    batch = batch_of(texts_of(values))
    assert isinstance(batch, RecordBatch)
    assert str(batch.value.type) == "struct<price: double, sizes: list<item: double>>"  # type: ignore[union-attr]  # there is a value
    assert repr([record.value for record in batch.to_records()]) == repr(values)


def test_a_batch_without_any_value_goes_by_records(columns: PlainJsonColumns) -> None:
    assert column_of([None, None], columns) == "records"


def test_objects_with_very_many_members_go_by_records(columns: PlainJsonColumns) -> None:
    wide = orjson.dumps({f"member {number}": number for number in range(301)})
    assert column_of([wide], columns) == "records"


def test_objects_whose_names_are_data_go_by_records(columns: PlainJsonColumns) -> None:
    found = [column_of([b'{"id %d":1}' % number for number in range(at, at + 40)], columns) for at in range(0, 400, 40)]
    assert found[:3].count("records") == 0
    assert found[-1] == "records"


def test_texts_that_never_fit_are_tried_ever_less() -> None:
    tried: list[bytes] = []
    made = plain_converter()

    def read(text: bytes) -> Any:
        tried.append(text)
        return made.to_connect_data("t", text).value

    columns = PlainJsonColumns(read, 2)
    mixed: list[bytes | None] = [b'{"a":1}', b'{"a":"x"}']
    assert {column_of(mixed, columns) for _ in range(150)} == {"records"}
    assert len(tried) < 25
    assert {column_of(mixed[:1], columns) for _ in range(65)} == {"records", "struct<a: int64>"}
    assert column_of(mixed[:1], columns) == "struct<a: int64>"


def keep(batch: RecordBatch) -> RecordBatch:
    return batch


def test_a_function_for_batches_gets_columns_of_values_without_schema() -> None:
    step = PythonTransform()
    step.configure({"function": f"{__name__}:keep", "takes": "batch"})
    batch = batch_of(texts_of([row(number) for number in range(MANY)]))
    assert isinstance(batch, RecordBatch)
    assert TransformChain([TransformStep(step)]).apply_batch(batch) is batch


ALIKE = [b'{"a":%d}' % number for number in range(50)]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ([b'{"price":1}', b'{"price":"1"}'], "member price is number and text"),
        ([*ALIKE, b'{"a":"1"}', *ALIKE], "member a is number and text"),
        ([b'{"o":{"tags":[1]}}', b'{"o":{"tags":[{}]}}'], "member o.tags[] is number and object"),
        ([b'{"v":2}', b'{"v":2.0}'], "member v is written as 2 and as 2.0"),
        ([b'{"a":1,"b":null}', b'{"a":1}'], "member b is null in some records and missing in others"),
        ([*ALIKE, b'{"a":1,"b":null}', b"{}", b'{"a":1,"b":2}'], "member b is null in some records and missing"),
        ([b'{"a":1,"b":2}', b'{"b":1,"a":2}'], "members of the value come in several orders"),
        ([b'{"s":{"a":1,"b":2}}', b'{"s":{"b":1,"a":2}}'], "members of member s come in several orders"),
        ([b"1", b'"x"'], "the value is number and text"),
        ([b'{"n":18446744073709551616}'], "Arrow refuses a text: "),
        ([b'{"a\\n":1}'], "the name 'a\\n' needs escapes in JSON"),
        ([None], "all values are null"),
    ],
)
def test_why_values_are_no_columns_is_reported(columns: PlainJsonColumns, texts: list[bytes | None], why: str) -> None:
    with pytest.raises(ByRecordsError) as caught:
        columns.column("t", pa.array(texts, pa.binary()))
    assert str(caught.value).startswith(why)


def test_why_is_reported_too_while_batches_are_left_out(columns: PlainJsonColumns) -> None:
    mixed = pa.array([b'{"price":1}', b'{"price":"1"}'], pa.binary())
    reported = set()
    for _ in range(20):
        with pytest.raises(ByRecordsError) as caught:
            columns.column("t", mixed)
        reported.add(str(caught.value))
    assert reported == {"member price is number and text"}
