"""Which records fit a table, what they change in it, and by what they are divided."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from kconnect.api import DataError
from kconnect.builtin.connectors.tables.partition_columns import partition_columns, with_partition_columns
from kconnect.builtin.types.evolution import Evolution, SchemaRules, conformed, schema_for


def rules(evolution="widen", *, widens=True):
    return SchemaRules("tables/t", Evolution(evolution), lambda kind: kind, lambda column, old, new: widens)


def batch(**columns):
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def typed(kind, *values):
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["c"])


def table(kind):
    return pa.schema([("c", kind)])


STRUCT = pa.struct([("x", pa.int64())])
FITS = {
    "an int in a float": (pa.float64(), typed(pa.int64(), 1, None), [1.0, None]),
    "a long that is small in an int": (pa.int32(), typed(pa.int64(), 7), [7]),
    "a whole float in a long": (pa.int64(), typed(pa.float64(), 2.0), [2]),
    "a text that is a time": (
        pa.timestamp("us", "UTC"),
        typed(pa.string(), "2026-11-23T01:02:03Z"),
        [dt.datetime(2026, 11, 23, 1, 2, 3, tzinfo=dt.UTC)],
    ),
    "a decimal of fewer digits": (
        pa.decimal128(38, 2),
        typed(pa.decimal128(5, 2), Decimal("1.25")),
        [Decimal("1.25")],
    ),
    "nulls of no type": (pa.string(), typed(pa.null(), None), [None]),
    "a struct with a field less": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        typed(STRUCT, {"x": 1}, None),
        [{"x": 1, "y": None}, None],
    ),
    "a list of ints in one of floats": (
        pa.list_(pa.float64()),
        typed(pa.list_(pa.int64()), [1, 2], None, [], [3]),
        [[1.0, 2.0], None, [], [3.0]],
    ),
    "a map of ints in one of floats": (
        pa.map_(pa.string(), pa.float64()),
        typed(pa.map_(pa.string(), pa.int64()), [("a", 1)], None),
        [[("a", 1.0)], None],
    ),
    "large texts": (pa.string(), typed(pa.large_string(), "a"), ["a"]),
}


@pytest.mark.parametrize("case", FITS)
def test_what_fits_a_column_without_loss_is_written_to_it_as_it_is(case):
    kind, given, expected = FITS[case]
    schema = schema_for(table(kind), given, rules("none"))
    assert schema == table(kind)
    assert conformed(given, schema).column(0).to_pylist() == expected
    assert conformed(given.slice(1), schema).column(0).to_pylist() == expected[1:]


WIDENS = {
    "int to long": (pa.int32(), typed(pa.int64(), 1 << 40), pa.int64()),
    "float to double": (pa.float32(), typed(pa.float64(), 0.1), pa.float64()),
    "decimal to more digits": (
        pa.decimal128(5, 2),
        typed(pa.decimal128(38, 2), Decimal("123456.78")),
        pa.decimal128(38, 2),
    ),
    "int in a struct": (
        pa.struct([("x", pa.int32())]),
        typed(STRUCT, {"x": 1 << 40}),
        STRUCT,
    ),
}


@pytest.mark.parametrize("case", WIDENS)
def test_a_value_that_is_too_large_widens_its_column_where_that_is_allowed_and_possible(case):
    kind, given, wide = WIDENS[case]
    assert schema_for(table(kind), given, rules("widen")) == table(wide)
    with pytest.raises(DataError, match="as it is in table tables/t") as error:
        schema_for(table(kind), given, rules("add"))
    assert "schema.evolution=widen would make it" in str(error.value.hint)
    with pytest.raises(DataError) as error:
        schema_for(table(kind), given, rules("widen", widens=False))
    assert "This format cannot make" in str(error.value.hint)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int64(), typed(pa.string(), "1")),
        (pa.string(), typed(pa.int64(), 1)),
        (pa.date32(), typed(pa.float64(), 1.5)),
        (pa.float64(), typed(pa.int64(), (1 << 53) + 1)),
        (pa.string(), typed(STRUCT, {"x": 1})),
        (pa.bool_(), typed(pa.int64(), 1)),
        (pa.timestamp("us", "UTC"), typed(pa.string(), "yesterday")),
    ],
    ids=str,
)
def test_what_would_lose_something_is_refused_with_the_column(kind, given):
    with pytest.raises(DataError, match=r"Column c is .* in the record, and .*as it is in table tables/t"):
        schema_for(table(kind), given, rules())


def test_columns_come_in_the_order_they_are_seen_and_wait_for_their_first_value():
    first = schema_for(None, batch(a=[1], b=[None], c=[[None]], d=[{"x": None}]), rules())
    assert first == pa.schema([("a", pa.int64())])
    later = schema_for(first, batch(b=["x"], d=[{"x": 1, "y": None}]), rules("add"))
    assert later == pa.schema([("a", pa.int64()), ("b", pa.string()), ("d", STRUCT)])
    assert schema_for(later, batch(a=[2]), rules("none")) == later
    with pytest.raises(DataError, match="Column e is not in table tables/t"):
        schema_for(later, batch(e=[2]), rules("none"))
    with pytest.raises(DataError, match=r"Column d\.z is not in table tables/t"):
        schema_for(later, batch(d=[{"z": 2}]), rules("none"))


def test_a_column_that_must_not_be_null_is_not():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])
    assert schema_for(schema, batch(a=[1], c=[1]), rules()).field("a").nullable is False
    for given in (batch(b=[1]), batch(a=[1, None])):
        with pytest.raises(DataError, match="Column a must not be null"):
            conformed(given, schema)


TIME = dt.datetime(2026, 11, 23, 14, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("entry", "column", "expected"),
    [
        ("day()", None, ("record_day", "2026-11-23")),
        ("hour(c)", pa.array([TIME], pa.timestamp("ms", "UTC")), ("c_hour", "2026-11-23T14")),
        ("month(c)", pa.array([TIME.date()]), ("c_month", "2026-11")),
        ("year(c)", pa.array(["2026-11-23"]), ("c_year", "2026")),
        ("day(c)", pa.array(["2026-11-23T23:30:00-02:00"]), ("c_day", "2026-11-24")),
        ("day(c)", pa.array([int(TIME.timestamp() * 1000)]), ("c_day", "2026-11-23")),
        ("day(c)", None, ("c_day", None)),
        ("c", None, ("c", None)),
    ],
)
def test_tables_are_divided_by_columns_and_dates(entry, column, expected):
    given = batch(a=[1]) if column is None else batch(a=[1]).append_column("c", column)
    made = with_partition_columns(given, partition_columns([entry]), int(TIME.timestamp() * 1000))
    name, value = expected
    assert made.column(name).to_pylist() == [value]


@pytest.mark.parametrize("entry", ["week()", "day(", "", "day(a)(b)"])
def test_an_entry_of_partition_by_that_means_nothing_is_reported(entry):
    with pytest.raises(DataError, match="is neither a column nor one of"):
        partition_columns([entry])


@pytest.mark.parametrize("column", [pa.array(["soon"]), pa.array([True])], ids=str)
def test_a_column_that_is_no_date_is_reported(column):
    given = batch(a=[1]).append_column("c", column)
    with pytest.raises(DataError, match=r"partition.by: column c has"):
        with_partition_columns(given, partition_columns(["day(c)"]), None)
