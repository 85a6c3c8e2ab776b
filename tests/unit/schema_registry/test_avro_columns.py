"""Avro from Arrow columns is byte for byte Avro from records; what cannot be written so goes by records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp
from kconnect.schema_registry.avro_converter import AvroConverter
from kit.memory_registry import MemoryRegistry

_LONG = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([0, -1, 63, 64, -64, -65, 8191, 8192, -8193, 1 << 27])
_COLUMNS: dict[str, tuple[Schema, pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (Schema.INT64_SCHEMA, pa.int64(), _LONG),
    "nullable long": (Schema.OPTIONAL_INT64_SCHEMA, pa.int64(), st.none() | _LONG),
    "byte": (Schema.INT8_SCHEMA, pa.int8(), st.integers(-128, 127)),
    "int": (Schema.OPTIONAL_INT32_SCHEMA, pa.int32(), st.none() | st.integers(-(1 << 31), (1 << 31) - 1)),
    "float": (Schema.FLOAT32_SCHEMA, pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (Schema.OPTIONAL_FLOAT64_SCHEMA, pa.float64(), st.none() | st.floats(allow_nan=False)),
    "boolean": (Schema.OPTIONAL_BOOLEAN_SCHEMA, pa.bool_(), st.none() | st.booleans()),
    "text": (Schema.STRING_SCHEMA, pa.string(), st.text()),
    "nullable text": (Schema.OPTIONAL_STRING_SCHEMA, pa.string(), st.none() | st.text()),
    "bytes": (Schema.OPTIONAL_BYTES_SCHEMA, pa.binary(), st.none() | st.binary()),
    "date": (Date.SCHEMA, pa.date32(), st.dates()),
    "time": (
        Time.builder().optional().build(),
        pa.time32("ms"),
        st.none() | st.integers(0, 86_399_999).map(lambda ms: Time.to_logical(Time.SCHEMA, ms)),
    ),
    "timestamp": (
        Timestamp.builder().optional().build(),
        pa.timestamp("ms", tz="UTC"),
        st.none() | st.integers(-(1 << 40), 1 << 41).map(lambda ms: Timestamp.to_logical(Timestamp.SCHEMA, ms)),
    ),
}


def converter() -> AvroConverter:
    made = AvroConverter(MemoryRegistry())
    made.configure({"schema.registry.url": "http://unused:1"}, False)
    return made


@given(st.data())
def test_columns_and_records_give_the_same_bytes(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(_COLUMNS)), min_size=1, max_size=5))
    kinds = [_COLUMNS[name] for name in names]
    inner = SchemaBuilder.struct().name("Inner")
    for number, (schema, _, _) in enumerate(kinds):
        inner.field(f"f{number}", schema)
    inner_schema = inner.build()
    outer = SchemaBuilder.struct().name("Outer").field("in", inner_schema).field("n", Schema.INT32_SCHEMA).build()
    rows = data.draw(
        st.lists(
            st.fixed_dictionaries({f"f{number}": kind[2] for number, kind in enumerate(kinds)}), min_size=1, max_size=8
        )
    )
    arrow = pa.struct([(f"f{number}", kind[1]) for number, kind in enumerate(kinds)])
    column = pa.array([{"in": row, "n": 3} for row in rows], pa.struct([("in", arrow), ("n", pa.int32())]))
    made = converter()

    found = made.from_connect_batch("t", outer, column)

    assert found is not NotImplemented, "it went by records"
    structs = [Struct(outer, {"in": Struct(inner_schema, row), "n": 3}) for row in rows]
    assert found.to_pylist() == [made.from_connect_data("t", outer, struct) for struct in structs]
    assert made.from_connect_batch("t", outer, column.slice(1)).to_pylist() == found.to_pylist()[1:]


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (None, pa.array([1])),
        (Schema.OPTIONAL_STRING_SCHEMA, pa.array(["a", None])),
        (Schema.BYTES_SCHEMA, pa.array([b"a"])),
        (Decimal.schema(1), pa.array([1], pa.decimal128(38, 1))),
        (SchemaBuilder.array(Schema.INT32_SCHEMA).build(), pa.array([[1]], pa.list_(pa.int32()))),
        (Schema.STRING_SCHEMA, pa.array(["a"], pa.large_string())),
    ],
)
def test_what_columns_cannot_say_goes_by_records(schema: Schema | None, column: pa.Array) -> None:
    assert converter().from_connect_batch("t", schema, column) is NotImplemented


def test_a_null_in_a_required_field_is_an_error_which_records_name() -> None:
    schema = SchemaBuilder.struct().name("R").field("f", Schema.INT32_SCHEMA).build()
    column = pa.array([{"f": 1}, {"f": None}], pa.struct([("f", pa.int32())]))

    with pytest.raises(DataError, match="Found null value for non-optional schema"):
        converter().from_connect_batch("t", schema, column)
