"""What is of a declared type comes back from each converter, column, Parquet and object as it was, at random."""

from __future__ import annotations

import datetime
import decimal
import io
import os

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kconnect.api import Struct, Type
from kconnect.api.columns import column_of, values_of
from kconnect.builtin.connectors.objects.avro_types import arrow_fields, avro_schema
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kconnect.builtin.schema_registry.json_schema.json_schema_converter import JsonSchemaConverter
from kconnect.builtin.types.column_type import schema_of
from kconnect.builtin.types.declared import declared_type
from kit.memory_registry import MemoryRegistry

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
# Without NaN, infinities and -0.0, which Java reads of JSON as 0.0
LEAVES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    "decimal(12,2)": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    "decimal(38,10)": st.integers(-(10**37), 10**37).map(
        lambda n: decimal.Decimal(n).scaleb(-10, decimal.Context(prec=60))
    ),
    "string": st.text(max_size=5),
    "binary": st.binary(max_size=5),
    "date": st.dates(),
    "time": st.integers(0, 86_399_999).map(lambda ms: (EPOCH + datetime.timedelta(milliseconds=ms)).time()),
    "timestamp": st.integers(-(2**42), 2**42).map(lambda ms: EPOCH + datetime.timedelta(milliseconds=ms)),
    "uuid": st.uuids().map(str),
}


def nested(children):
    lists = children.map(lambda pair: (f"array<{pair[0]}>", st.lists(st.none() | pair[1], max_size=3)))
    maps = children.map(
        lambda pair: (f"map<string,{pair[0]}>", st.dictionaries(st.text(max_size=2), st.none() | pair[1], max_size=2))
    )
    structs = st.tuples(children, children).map(
        lambda both: (
            f"struct<a:{both[0][0]}, b:{both[1][0]}>",
            st.fixed_dictionaries({"a": st.none() | both[0][1], "b": st.none() | both[1][1]}),
        )
    )
    return lists | maps | structs


TYPES = st.recursive(st.sampled_from(sorted(LEAVES)).map(lambda name: (name, LEAVES[name])), nested, max_leaves=4)


@st.composite
def rows(draw):
    """A schema of a few columns, and values of it."""
    kinds = draw(st.lists(TYPES, min_size=1, max_size=3))
    schema = schema_of(declared_type(", ".join(f"f{n} {kind}" for n, (kind, _) in enumerate(kinds))))
    row = st.fixed_dictionaries({f"f{n}": st.none() | values for n, (_, values) in enumerate(kinds)})
    return schema, [connect(schema, value) for value in draw(st.lists(row, min_size=1, max_size=3))]


def connect(schema, value):
    """A drawn value in Connect's form: structs in place of dicts where the schema says so."""
    if value is None or schema is None:
        return value
    if schema.type is Type.STRUCT:
        parts = [connect(field.schema, value[field.name]) for field in schema.fields]
        return Struct.from_values(schema, parts)
    if isinstance(value, list):
        return [connect(schema.value_schema, item) for item in value]
    if isinstance(value, dict):
        return {key: connect(schema.value_schema, item) for key, item in value.items()}
    return value


def shown(value):
    """A value as text that shows all of it, but not the order of a map."""
    if isinstance(value, Struct):
        return f"{{{', '.join(f'{field.name}={shown(value.get(field))}' for field in value.schema.fields)}}}"
    if isinstance(value, dict):
        return f"map{sorted((key, shown(item)) for key, item in value.items())}"
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else repr(value)


def json_with_schema():
    made = JsonConverter()
    made.configure({}, False)
    return made


def registered(kind):
    made = kind(MemoryRegistry())
    made.configure({"schema.registry.url": "http://unused:1"}, False)
    return made


CONVERTERS = {
    "JSON with schema": json_with_schema,
    "Avro": lambda: registered(AvroConverter),
    "JSON Schema": lambda: registered(JsonSchemaConverter),
}
# KCONNECT_TYPE_EXAMPLES=1000000 is the long form
EXAMPLES = int(os.environ.get("KCONNECT_TYPE_EXAMPLES", "40"))


@pytest.mark.parametrize("name", CONVERTERS)
@settings(deadline=None, max_examples=EXAMPLES)
@given(drawn=rows())
def test_converters_give_back_what_they_were_given(name, drawn):
    schema, values = drawn
    converter = CONVERTERS[name]()
    texts = [converter.from_connect_data("t", schema, value) for value in values]
    assert [shown(converter.to_connect_data("t", text).value) for text in texts] == [shown(value) for value in values]
    column = column_of(schema, values)
    by_columns = converter.from_connect_batch("t", schema, column)
    assert by_columns is NotImplemented or by_columns.to_pylist() == texts
    made = converter.to_connect_batch("t", pa.array(texts, pa.binary()))
    if made is not NotImplemented:
        found = values_of(made[0], made[1], len(values))
        assert [shown(value) for value in found] == [shown(value) for value in values]


@settings(deadline=None, max_examples=EXAMPLES)
@given(drawn=rows())
def test_columns_parquet_and_avro_objects_give_back_what_they_were_given(drawn):
    schema, values = drawn
    column = column_of(schema, values)
    wanted = [shown(value) for value in values]
    assert [shown(value) for value in values_of(schema, column, len(values))] == wanted
    table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(column)])
    content = io.BytesIO()
    pq.write_table(table, content)
    back = pq.read_table(io.BytesIO(content.getvalue())).cast(table.schema).to_struct_array().combine_chunks()
    assert [shown(value) for value in values_of(schema, back, len(values))] == wanted
    content = io.BytesIO()
    fastavro.writer(content, avro_schema(table.schema, "R"), table.to_pylist(maps_as_pydicts="strict"))
    reader = fastavro.reader(io.BytesIO(content.getvalue()))
    fields, plain = arrow_fields(reader.writer_schema)
    made = pa.Table.from_pylist([plain(row) for row in reader], schema=fields)
    assert made.cast(table.schema).equals(table)
