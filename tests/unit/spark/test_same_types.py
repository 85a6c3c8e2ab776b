"""One value into one type is the same for TableSink, SparkSink and format("kconnect"), by records and by columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import RecordBatch, SinkRecord
from kconnect.builtin.connectors.tables.record_columns import batches_of_records, rows_of_batch
from kconnect.builtin.types.evolution import Evolution, SchemaRules, conformed, schema_for
from kconnect.errors import DataError
from kconnect.spark.datasource.chain import Part, Rows
from kconnect.spark.datasource.columns import Columns
from kconnect.spark.query.topic_rows import RowsOfBatch

TIME, DATE, PRICE = pa.timestamp("us", tz="UTC"), pa.date32(), pa.decimal128(12, 2)
AT = dt.datetime(2026, 11, 23, 1, 2, 3, tzinfo=dt.UTC)


def _records(values: list[Any]) -> list[SinkRecord]:
    return [SinkRecord("t", 0, None, None, None, {"c": value}, offset) for offset, value in enumerate(values)]


def _batch_of_records(values: list[Any]) -> RecordBatch:
    ((((batch, _),), _),) = batches_of_records(_records(values))
    return batch


def _batch(values: list[Any]) -> RecordBatch:
    column = pa.StructArray.from_arrays([pa.array(values)], names=["c"])
    offsets = pa.array(range(len(values)), pa.int64())
    return RecordBatch("t", kafka_partition=0, value=column, kafka_offsets=offsets)


def _report(record: SinkRecord, error: Exception) -> None:
    raise error


def _spark_sink(values: Any, kind: pa.DataType) -> list[Any]:
    rows = RowsOfBatch(pa.schema([("c", kind)]), (), is_inferred=False, keeps_tombstones=False)
    made: list[Any] = rows.of(values, _report)["c"].to_pylist()
    return made


def _dataframe(data: Any, length: int, kind: pa.DataType) -> list[Any]:
    columns = Columns(pa.schema([("c", kind)]), is_record=False)
    made: list[Any] = columns.batch(Rows(length, "t", None, None, None, Part(None), Part(data)))["c"].to_pylist()
    return made


def _table(batch: RecordBatch, kind: pa.DataType) -> list[Any]:
    rules = SchemaRules("t", Evolution.NONE, lambda found: found, lambda old, new: False)
    rows = rows_of_batch(batch).columns
    schema = schema_for(pa.schema([("c", kind)]), rows, rules)
    assert schema == pa.schema([("c", kind)])
    made: list[Any] = conformed(rows, schema)["c"].to_pylist()
    return made


USERS: dict[str, Callable[[list[Any], pa.DataType], list[Any]]] = {
    "TableSink by records": lambda values, kind: _table(_batch_of_records(values), kind),
    "TableSink by columns": lambda values, kind: _table(_batch(values), kind),
    "SparkSink by records": lambda values, kind: _spark_sink(_records(values), kind),
    "SparkSink by columns": lambda values, kind: _spark_sink(_batch(values), kind),
    "a DataFrame of records": lambda values, kind: _dataframe([{"c": value} for value in values], len(values), kind),
    "a DataFrame of columns": lambda values, kind: _dataframe(_batch(values).value, len(values), kind),
}
EVERYWHERE = {
    "ISO 8601": (TIME, "2026-11-23T01:02:03Z", AT),
    "another zone": (TIME, "2026-11-23T03:02:03+02:00", AT),
    "no zone, which is UTC": (TIME, "2026-11-23 01:02:03", AT),
    "a day": (TIME, "2026-11-23", AT.replace(hour=0, minute=0, second=0)),
    "microseconds": (TIME, "2026-11-23T01:02:03.123456Z", AT.replace(microsecond=123456)),
    "milliseconds, as JsonConverter writes them": (TIME, 1_795_395_723_000, AT),
    "a time of ms": (TIME, AT, AT),
    "a time before 1970": (TIME, -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)),
    "a time without a zone": (pa.timestamp("us"), "2026-11-23T03:02:03+02:00", AT.replace(tzinfo=None)),
    "a date": (DATE, "2026-11-23", AT.date()),
    "days, as JsonConverter writes them": (DATE, 20_780, AT.date()),
    "a number as it is seen": (PRICE, 12.5, Decimal("12.50")),
    "a whole number": (PRICE, 7, Decimal("7.00")),
    "a whole float": (pa.int64(), 2.0, 2),
    "a list": (pa.list_(TIME), [1_795_395_723_000], [AT]),
    "a struct": (
        pa.struct([("at", TIME), ("x", pa.int32())]),
        {"at": "2026-11-23T01:02:03Z"},
        {"at": AT, "x": None},
    ),
}
NOWHERE = {
    "no time": (TIME, "yesterday"),
    "no date": (DATE, "2026-13-01"),
    "a third digit": (PRICE, 1.005),
    "too many digits": (PRICE, 12_345_678_901),
    "a fraction": (pa.int64(), 2.5),
    "a truth": (pa.int64(), True),
    "a number for a truth": (pa.bool_(), 1),
    "a long in an int": (pa.int32(), 1 << 40),
    "an inexact double": (pa.float64(), (1 << 53) + 1),
    "a struct as a number": (pa.int64(), {"x": 1}),
}
# Into a column that was declared; a table whose columns were found keeps numbers and texts apart
DECLARED = {
    "a text that is a number": (pa.int64(), "12", 12),
    "a text that is a price": (PRICE, "12.34", Decimal("12.34")),
    "a number as text": (pa.string(), 12, "12"),
    "a fraction as text": (pa.string(), 1.5, "1.5"),
    "a truth as text": (pa.string(), True, "true"),
    "a struct as text": (pa.string(), {"x": [1, None]}, '{"x":[1,null]}'),
    "a list as text": (pa.string(), ["ä"], '["ä"]'),
    "a shorter float": (pa.float32(), 0.1, 0.10000000149011612),
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("case", EVERYWHERE)
def test_a_value_that_fits_is_the_same_everywhere(case: str, user: str) -> None:
    kind, given, expected = EVERYWHERE[case]
    assert USERS[user]([given, None, given], kind) == [expected, None, expected]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("case", NOWHERE)
def test_a_value_that_does_not_fit_is_an_error_everywhere_and_named(case: str, user: str) -> None:
    kind, given = NOWHERE[case]
    with pytest.raises(DataError, match=r"\bc\b"):
        USERS[user]([given], kind)


@pytest.mark.parametrize("user", [user for user in USERS if not user.startswith("TableSink")])
@pytest.mark.parametrize("case", DECLARED)
def test_a_declared_type_says_how_a_value_is_read(case: str, user: str) -> None:
    kind, given, expected = DECLARED[case]
    assert USERS[user]([given], kind) == [expected]


@pytest.mark.parametrize("user", [user for user in USERS if user.startswith("TableSink")])
@pytest.mark.parametrize("case", DECLARED)
def test_a_table_keeps_apart_what_means_something_else(case: str, user: str) -> None:
    kind, given, _ = DECLARED[case]
    with pytest.raises(DataError, match=r"Column c is .* in the record, and cannot be"):
        USERS[user]([given], kind)
