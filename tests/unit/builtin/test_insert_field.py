"""InsertField: a timestamp that Python has no date for."""

from __future__ import annotations

import pytest

from kconnect.api import DataError, Schema, SchemaBuilder, SourceRecord, Struct
from kconnect.builtin.transforms.insert_field import InsertFieldValue


def test_a_timestamp_beyond_the_calendar_is_named() -> None:
    transform = InsertFieldValue()
    transform.configure({"timestamp.field": "at"})
    row = SchemaBuilder.struct().field("f", Schema.INT32_SCHEMA).build()
    record = SourceRecord({}, {}, "t", Struct(row, {"f": 1}), value_schema=row, timestamp=1_764_237_600_000_000)
    with pytest.raises(DataError, match="1764237600000000 ms since the epoch is outside the years 1 to 9999"):
        transform.apply(record)
