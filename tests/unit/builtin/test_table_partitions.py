"""TableSink into tables that are divided by a column: a value that cannot name a folder is one record's error."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import Decimal, Schema, SchemaBuilder, SinkRecord, Struct
from kconnect.testing import SinkHarness
from kit.tables import FORMATS, read_table, table_settings

NAN = float("nan")
MONEY = Decimal.builder(2).parameter("connect.decimal.precision", "12").optional().build()
LIST = SchemaBuilder.array(Schema.INT32_SCHEMA).optional().build()


def written(kind: str, folder: Path, schema: Schema, values: list[Any], by: str = "c") -> tuple[list[Any], list[str]]:
    """What is in the table of the values, all in one put, and the errors of the others."""
    settings = {**table_settings(kind, folder), "topics": "t", "flush.ms": "0", "partition.by": by}
    rows = SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).field("c", schema).build()
    with SinkHarness("TableSink", {**settings, "errors.tolerance": "all"}) as sink:
        sink.put(*(Struct(rows, {"id": number, "c": value}) for number, value in enumerate(values)), schema=rows)
        errors = [str(one.error) for one in sink.errant]
    table = read_table(settings)
    return [row["c"] for row in sorted(table.to_pylist(), key=lambda row: row["id"])], errors


@pytest.mark.parametrize("kind", FORMATS)
def test_a_text_that_readers_would_take_for_null_or_is_too_long_for_a_folder_is_its_records_error(
    kind: str, tmp_path: Path
) -> None:
    values = ["a", "", "/=%20", "x" * 300, "__HIVE_DEFAULT_PARTITION__", None, "..", "\0"]
    found, errors = written(kind, tmp_path, Schema.OPTIONAL_STRING_SCHEMA, values)
    lost = (3,) if kind == "iceberg" else (1, 3, 4)
    assert found == [value for place, value in enumerate(values) if place not in lost]
    assert len(errors) == len(lost)
    assert any("column c has a value whose folder has a name of 302 bytes, where 255 fit" in text for text in errors)


@pytest.mark.parametrize(
    ("kind", "schema", "values", "kept"),
    [
        # Without this nobody could read the table again
        ("delta", MONEY, [decimal.Decimal("1.50"), decimal.Decimal("-1.50")], [decimal.Decimal("1.50")]),
        ("delta", Schema.OPTIONAL_FLOAT64_SCHEMA, [0.5, 1e300], [0.5]),
        ("delta", Schema.OPTIONAL_BYTES_SCHEMA, [b"a"], []),
        ("parquet", Schema.OPTIONAL_BYTES_SCHEMA, [b"a"], []),
        ("iceberg", Schema.OPTIONAL_BYTES_SCHEMA, [b"a", b"\xff"], [b"a", b"\xff"]),
        ("iceberg", Schema.OPTIONAL_FLOAT64_SCHEMA, [0.5, NAN], [0.5]),
        *((kind, LIST, [[1]], []) for kind in FORMATS),
    ],
)
def test_what_a_format_cannot_be_divided_by_ends_neither_the_task_nor_the_table(
    kind: str, schema: Schema, values: list[Any], kept: list[Any], tmp_path: Path
) -> None:
    found, errors = written(kind, tmp_path, schema, values)
    assert found == kept
    assert len(errors) == len(values) - len(kept)
    assert all("(partition.by)" in text for text in errors)


def test_a_table_of_others_is_asked_what_it_is_divided_by(tmp_path: Path) -> None:
    first = written("delta", tmp_path, Schema.OPTIONAL_STRING_SCHEMA, ["a"])
    assert first == (["a"], [])
    found, errors = written("delta", tmp_path, Schema.OPTIONAL_STRING_SCHEMA, ["is there", "", "b"], by="")
    assert (found, len(errors)) == (["a", "b"], 1)


def test_days_of_every_year_name_folders(tmp_path: Path) -> None:
    day = SchemaBuilder.int32().name("org.apache.kafka.connect.data.Date").version(1).optional().build()
    values = [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
    for kind in FORMATS:
        (tmp_path / kind).mkdir()
        assert written(kind, tmp_path / kind, day, values, by="day(c)") == (values, [])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_timestamp_beyond_the_calendar_is_its_records_error(kind: str, tmp_path: Path) -> None:
    """A producer that gave microseconds for milliseconds, say."""
    settings = {**table_settings(kind, tmp_path), "topics": "t", "flush.ms": "0", "partition.by": "day()"}
    with SinkHarness("TableSink", {**settings, "errors.tolerance": "all"}) as sink:
        sink.put_records(
            SinkRecord("t", 0, None, None, None, {"id": number}, number, timestamp=time_ms)
            for number, time_ms in enumerate((0, 1_764_237_600_000_000, 253_402_300_799_999))
        )
        (error,) = [str(one.error) for one in sink.errant]
    assert "the record's timestamp is 1764237600000000 ms since 1970, which is not in the years 1 to 9999" in error
    assert sorted(row["id"] for row in read_table(settings).to_pylist()) == [0, 2]


def test_a_field_with_the_name_of_a_made_column_is_not_replaced_by_another_value(tmp_path: Path) -> None:
    settings = {**table_settings("parquet", tmp_path), "topics": "t", "flush.ms": "0", "partition.by": "day(at)"}
    given: list[Any] = [None, "1970-01-01", "yesterday", {"a": 1}]
    with SinkHarness("TableSink", {**settings, "errors.tolerance": "all"}) as sink:
        for value in given:
            sink.put({"at": 0, "at_day": value})
        errors = [str(one.error) for one in sink.errant]
    assert len(errors) == 2
    assert all("column at_day is made of the day of at, and the record has a field of that name" in e for e in errors)
    assert len(read_table(settings)) == 2
