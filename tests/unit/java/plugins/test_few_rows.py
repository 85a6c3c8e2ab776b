"""Columns written and read by rows are those that go by way of Arrow."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import Schema, SchemaBuilder, Time, Timestamp
from kconnect.api.columns import column_of, values_of
from kconnect.errors import DataError
from kconnect.java.plugins.blocks import BlockReader, BlockWriter
from kconnect.java.plugins.few_rows import write_rows
from kit.examples import examples
from kit.random_data import random_schema, random_value


def by_arrow(schema: Schema, values: Sequence[Any]) -> bytes:
    block = BlockWriter({})
    block.column(schema, column_of(schema, values))
    return b"".join(map(bytes, block.done()))


def by_rows(schema: Schema, values: Sequence[Any]) -> bytes:
    block, column = BlockWriter({}), bytearray()
    write_rows(column, schema, values)
    block.encoded(column)
    return b"".join(map(bytes, block.done()))


def read_by_arrow(block: bytes, schema: Schema, count: int) -> list[Any]:
    reader = BlockReader(block)
    assert reader.head() == {}
    return values_of(schema, reader.column(schema, count), count)


def read_by_rows(block: bytes, schema: Schema, count: int) -> list[Any]:
    reader = BlockReader(block)
    assert reader.head() == {}
    return reader.rows(schema, count)


@given(st.integers(0, 1 << 32), st.integers(0, 40))
@examples(1500)
def test_columns_by_rows_are_read_as_arrows_and_arrows_by_rows(seed: int, count: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    values = [random_value(random, schema) for _ in range(count)]
    try:
        wanted = by_arrow(schema, values)
    except DataError:
        with pytest.raises(DataError):
            by_rows(schema, values)
        return
    made = by_rows(schema, values)
    assert repr(read_by_rows(made, schema, count)) == repr(values)
    assert repr(read_by_rows(wanted, schema, count)) == repr(values)
    assert repr(read_by_arrow(made, schema, count)) == repr(values)


def test_times_of_microseconds_are_milliseconds_in_java() -> None:
    time_of_day = datetime.time(1, 2, 3, 456_789)
    texts = ("2026-01-02T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z")
    moments = [datetime.datetime.fromisoformat(text) for text in texts]
    for logical, values in ((Time, [time_of_day, None]), (Timestamp, [*moments, None])):
        schema = logical.builder().optional().parameter(Timestamp.UNIT_FIELD, "us").build()
        for nested in (schema, SchemaBuilder.array(schema).build()):
            given = values if nested is schema else [values, []]
            wanted = [value and value.replace(microsecond=value.microsecond // 1000 * 1000) for value in values]
            for block in (by_arrow(nested, given), by_rows(nested, given)):
                for read in (read_by_arrow, read_by_rows):
                    assert read(block, nested, len(given)) == (wanted if nested is schema else [wanted, []])


def test_values_of_another_type_have_no_column() -> None:
    for schema, value in (
        (Schema.INT32_SCHEMA, True),
        (Schema.INT8_SCHEMA, 128),
        (Schema.FLOAT64_SCHEMA, 1),
        (Schema.STRING_SCHEMA, "\ud800"),
        (Schema.BYTES_SCHEMA, "text"),
    ):
        with pytest.raises(DataError):
            by_rows(schema, [value])
