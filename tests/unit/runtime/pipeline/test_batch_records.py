"""A batch with a value that no record can have: the others become records, wherever records are made of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import Date, RecordBatch, SchemaBuilder, SourceTask
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.builtin.transforms.hoist_field import HoistFieldValue
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.health import HealthSettings, TaskHealth
from kconnect.runtime.pipeline.polled import PolledBatch, SourceConversion
from kconnect.runtime.pipeline.stages import DROPPED, FailurePolicy, RaiseAlways, StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain

SCHEMA = SchemaBuilder.struct().field("day", Date.builder().optional().build()).build()
FAR = 2**30
WHY = "Field day: 1073741824 days since 1970-01-01 is outside the years 1 to 9999"


class Tolerant:
    def __init__(self) -> None:
        self.failures: list[StageError] = []

    def on_failure(self, failure: StageError, retry: Any) -> Any:
        self.failures.append(failure)
        return DROPPED


class Hoist(HoistFieldValue):
    supports_batches = False


class Texts(StringConverter):
    def from_connect_batch(self, topic: str, schema: Any, column: Any) -> Any:
        return NotImplemented


class Task(SourceTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Any) -> None: ...

    def poll(self) -> None:
        return None

    def stop(self) -> None: ...


def batch_of(*days: int | None) -> RecordBatch:
    value = pa.StructArray.from_arrays([pa.array(days, pa.date32())], names=["day"])
    offsets = {"row": pa.array(range(1, len(days) + 1))}
    return RecordBatch("t", value=value, value_schema=SCHEMA, source_partition={"p": 1}, source_offsets=offsets)


def chain_of(policy: FailurePolicy, *, hoists: bool) -> TransformChain:
    hoist = Hoist()
    hoist.configure({"field": "x"})
    return TransformChain([TransformStep(hoist)] if hoists else [], policy)


def conversion(policy: FailurePolicy, *, hoists: bool) -> SourceConversion:
    converters = Converters(StringConverter(), Texts(), SimpleHeaderConverter(), policy)
    return SourceConversion(
        Task(),
        chain_of(policy, hoists=hoists),
        converters,
        TaskHealth(HealthSettings(), 0.0, 0.0),
        sends_before_failure=True,
    )


def values(unit: Any) -> list[str]:
    records = (
        unit.batches[0].values if unit.batches else [record.value for record in unit.records if record is not None]
    )
    return [value.decode() for value in records]


@pytest.mark.parametrize("hoists", [False, True])
def test_the_others_are_sent_and_the_failure_names_field_value_and_offset(hoists: bool) -> None:
    policy = Tolerant()
    (unit,) = PolledBatch(batch_of(0, FAR, None, FAR, 1)).units(conversion(policy, hoists=hoists))
    assert len(values(unit)) == 3
    assert [failure.record.source_offset for failure in policy.failures] == [{"row": 2}, {"row": 4}]
    assert all(WHY in str(failure) for failure in policy.failures)
    assert "1073741824" in policy.failures[0].record.value


@pytest.mark.parametrize("hoists", [False, True])
def test_what_is_before_it_is_sent_where_it_fails_the_task(hoists: bool) -> None:
    units = iter(PolledBatch(batch_of(0, 1, FAR, 2)).units(conversion(RaiseAlways(), hoists=hoists)))
    before = next(units)
    assert (len(values(before)), before.positions[-1][1]) == (2, {"row": 2})
    with pytest.raises(StageError, match=WHY) as failure:
        next(units)
    assert failure.value.record.source_offset == {"row": 3}
