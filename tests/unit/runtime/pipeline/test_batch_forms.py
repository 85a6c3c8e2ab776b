"""How many batches went by records, and why: counted where it happens, and carried to who shows it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import RecordBatch, TimestampType
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.builtin.predicates import HasHeaderKey
from kconnect.builtin.transforms.hoist_field import HoistFieldValue
from kconnect.builtin.transforms.insert_field import InsertFieldValue
from kconnect.model import BatchShare
from kconnect.runtime.metrics import TaskCounters, TaskMeter
from kconnect.runtime.pipeline.batch_forms import FEWEST_COUNTED, BatchForms
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_conversion import SinkConversion
from kconnect.runtime.pipeline.stages import TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain


def converters(forms: BatchForms) -> Converters:
    key, value, header = StringConverter(), JsonConverter(), SimpleHeaderConverter()
    key.configure({}, True)
    value.configure({"schemas.enable": "false"}, False)
    return Converters(key, value, header, by_records=forms.by_records)


def fetched(values: Sequence[Any]) -> FetchedBatch:
    texts = [json.dumps(value).encode() for value in values]
    return FetchedBatch("t", 0, list(range(len(texts))), None, texts, None, TimestampType.NO_TIMESTAMP_TYPE, None)


def counted(forms: BatchForms) -> BatchShare:
    counters = TaskCounters()
    forms.count(counters)
    return BatchShare(counters.batches, counters.batches_by_records, counters.by_records_because)


def conversion(forms: BatchForms, *steps: TransformStep, takes_batches: bool = True) -> SinkConversion:
    return SinkConversion(
        converters(forms),
        TransformChain(steps, by_records=forms.by_records),
        RawRecords(is_wanted=False),
        lambda topics: None,
        takes_batches=takes_batches,
        forms=forms,
    )


def numbers(count: int) -> list[Any]:
    return [{"price": number} for number in range(count)]


MIXED = [*numbers(99), {"price": "12"}]


def test_batches_of_a_sink_are_counted_with_the_reason_of_those_by_records() -> None:
    forms = BatchForms()
    made = conversion(forms)
    assert isinstance(made.convert_fetched(fetched(numbers(FEWEST_COUNTED))), RecordBatch)
    assert counted(forms) == BatchShare(1, 0, "")
    assert isinstance(made.convert_fetched(fetched(MIXED)), list)
    assert counted(forms) == BatchShare(2, 1, "member price is number and text")


def test_small_batches_and_those_of_a_task_that_takes_records_do_not_count() -> None:
    forms = BatchForms()
    conversion(forms).convert_fetched(fetched(MIXED[-50:]))
    conversion(forms, takes_batches=False).convert_fetched(fetched(MIXED))
    assert counted(forms) == BatchShare(0, 0, "")


def test_a_transformation_that_takes_records_is_named() -> None:
    step = InsertFieldValue()
    step.configure({"static.field": "f", "static.value": "v"})
    forms = BatchForms()
    some = TransformStep(step, HasHeaderKey(), place="transforms.mark")
    some.predicate.configure({"name": "h"})  # type: ignore[union-attr]  # it has one
    hoist = HoistFieldValue()
    hoist.configure({"field": "f"})
    hoist.supports_batches = False
    made = conversion(forms, TransformStep(hoist, place="transforms.up"), some)
    assert len(made.convert_fetched(fetched(numbers(100)))) == 100
    assert counted(forms) == BatchShare(1, 1, "transforms.up (HoistFieldValue) takes all records one by one")


def test_a_batch_of_a_source_with_values_that_are_no_columns_counts_once() -> None:
    forms = BatchForms()
    forms.begin(100)
    batch = RecordBatch("t", value=pa.array([str(n) for n in range(100)], pa.large_string()), kafka_partition=0)
    assert len(converters(forms).to_kafka_batch(batch)) == 100
    forms.by_records("another reason")
    assert counted(forms) == BatchShare(1, 1, "value.converter JsonConverter has no columns for them")


@pytest.mark.parametrize("share", [BatchShare(8, 1, "member a is number and text"), BatchShare(3, 0, "")])
def test_it_goes_to_the_worker_and_over_rest(share: BatchShare) -> None:
    counters = TaskCounters(
        batches=share.batches, batches_by_records=share.by_records, by_records_because=share.because
    )
    meter = TaskMeter(1, 0.0)
    meter.add(1.0, TaskCounters.from_json(json.loads(json.dumps(counters.to_json()))))
    found = meter.moves(2.0).forms
    assert found is not None
    assert BatchShare.from_json(json.loads(json.dumps(found.to_json()))) == share


def test_a_task_without_batches_says_nothing() -> None:
    meter = TaskMeter(1, 0.0)
    meter.add(1.0, TaskCounters(records_put=5))
    assert meter.moves(2.0).forms is None
