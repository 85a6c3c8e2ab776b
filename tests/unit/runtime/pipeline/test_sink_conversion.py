"""Records for a sink that takes no batches, or large ones: by way of columns they are what each gives alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Message

from kconnect.api import SinkRecord, Transformation
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.runtime.kafka import ConsumedRun
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_conversion import SinkConversion
from kconnect.runtime.pipeline.sink_puts import ColumnsPut, RecordsPut
from kconnect.runtime.pipeline.stages import StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain

MANY, FEW = 200, 20


class CountedJson(JsonConverter):
    """Counts what it converts alone."""

    alone = 0

    def to_connect_data(self, *args: Any, **more: Any) -> Any:
        self.alone += 1
        return super().to_connect_data(*args, **more)


class Second(Transformation):
    """Refuses what is 7, drops what is odd."""

    def apply(self, record: Any) -> Any:
        if record.value["id"] == 7:
            raise ValueError("seven")
        return None if record.value["id"] % 2 else record

    def configure(self, configs: Any) -> None: ...

    def config(self) -> Any: ...


def messages(texts: list[bytes], headers: Any = None) -> ConsumedRun:
    made = [
        Message(topic="t", partition=3, offset=10 + number, key=b"k", value=text, headers=headers, timestamp=(1, 5))
        for number, text in enumerate(texts)
    ]
    return ConsumedRun("t", 3, made)


def texts(count: int) -> list[bytes]:
    return [json.dumps({"id": number, "x": number / 2}).encode() for number in range(count)]


def conversion(converter: JsonConverter, *steps: Transformation, **more: Any) -> SinkConversion:
    converter.configure({"schemas.enable": "false"}, False)
    converters = Converters(StringConverter(), converter, SimpleHeaderConverter())
    chain = TransformChain([TransformStep(step) for step in steps])
    raw_records = RawRecords(is_wanted=False)
    return SinkConversion(converters, chain, raw_records, lambda topics: None, **{"takes_batches": False, **more})


def records_of(made: SinkConversion, run: ConsumedRun) -> list[SinkRecord]:
    payload = made.convert(run)
    assert isinstance(payload, list)
    return payload


@pytest.mark.parametrize("headers", [None, [("h", b"1")]])
def test_many_records_are_converted_together_and_few_one_by_one(headers: Any) -> None:
    together, alone = CountedJson(), CountedJson()
    many = records_of(conversion(together), messages(texts(MANY), headers))
    parts = [messages(texts(MANY), headers) for _ in range(MANY // FEW)]
    few = []
    for number, run in enumerate(parts):
        part = ConsumedRun("t", 3, run._messages[number * FEW : (number + 1) * FEW])
        few += records_of(conversion(alone), part)

    assert (together.alone < MANY, alone.alone) == (True, MANY)
    assert many == few
    assert [repr(record) for record in many] == [repr(record) for record in few]


def test_a_task_that_wants_large_batches_has_few_records_in_one_put_with_those_of_other_partitions() -> None:
    made = conversion(JsonConverter(), takes_batches=True, fewest_in_batch=MANY)
    large, small, smaller = (made.batch_of(messages(texts(count))) for count in (MANY, MANY - 1, FEW))
    assert isinstance(large.payload, ColumnsPut)
    assert isinstance(small.payload, RecordsPut)
    assert small.payload.join(smaller.payload)
    assert len(small.payload) == MANY - 1 + FEW
    assert large.payload.batch.to_records()[: MANY - 1] == small.payload.records[: MANY - 1]


def test_a_text_that_cannot_be_read_is_named_with_what_was_read_before_it() -> None:
    given = texts(MANY)
    given[150] = b'{"id":'
    with pytest.raises(StageError, match="topic 't', partition 3, offset 160 failed in VALUE_CONVERTER") as failure:
        records_of(conversion(CountedJson()), messages(given))
    assert [record.value["id"] for record in failure.value.done] == list(range(150))


def test_transformations_get_the_records_one_by_one_in_order() -> None:
    given = [text for number, text in enumerate(texts(MANY)) if number != 7]
    made = records_of(conversion(CountedJson(), Second()), messages(given))
    assert [record.value["id"] for record in made] == list(range(0, MANY, 2))
    with pytest.raises(StageError, match="offset 17 failed in TRANSFORMATION of Second: ValueError: seven"):
        records_of(conversion(CountedJson(), Second()), messages(texts(MANY)))
