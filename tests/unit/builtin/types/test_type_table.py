"""The table of types is what each room makes of them, and docs/types.md prints it."""

from __future__ import annotations

import datetime
import decimal
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kconnect.api import Decimal, Schema, SchemaBuilder
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.connectors.objects.object_writers import as_avro
from kconnect.builtin.connectors.sql.sql_dialect import DIALECTS, kind_of_schema
from kconnect.builtin.connectors.tables.delta_table import DeltaLakeTable
from kconnect.builtin.connectors.tables.iceberg_table import IcebergTable
from kconnect.builtin.connectors.tables.table_config import TableConfig
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.types.column_type import schema_of
from kconnect.builtin.types.declared import declared_type
from kconnect.builtin.types.table import TABLE, holds, refusals
from kit.places import DOCS

TYPES = TABLE["declared"]
AT = datetime.datetime(2025, 11, 27, 10, 0, 0, 123456, tzinfo=datetime.UTC)
VALUES = {
    "boolean": True, "float": 5.7, "double": 5.7, "decimal(12,2)": decimal.Decimal("0.37"), "string": "a",
    "varchar(20)": "a", "binary": b"\0\1", "date": datetime.date(2024, 10, 4), "time": datetime.time(3, 4, 5, 123456),
    "time(3)": datetime.time(3, 4, 5, 123000), "timestamp": AT, "timestamp(3)": AT.replace(microsecond=123000),
    "timestamp_ntz": AT, "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "json": "{}", "array<int>": [7, None],
    "map<string,int>": {"k": 7},
}  # fmt: skip


def kind_of(text):
    return declared_type(f"x {text}").columns[0].type


def schema(text):
    return schema_of(kind_of(text), is_fine=True)


def value(text):
    if text.startswith("struct"):
        from kconnect.api import Struct

        return Struct(schema(text)).put("a", 7)
    return VALUES.get(text, 7)


def connect(text):
    made = schema(text)
    said = dict(made.parameters or {})
    if made.name is None:
        return made.type.name
    if not made.name.startswith("org.apache"):
        return f"{made.type.name}, {made.name}"
    if made.name == Decimal.LOGICAL_NAME:
        return f"Decimal of scale {said['scale']}, precision {said['connect.decimal.precision']}"
    unit = f" in {said['kconnect.unit']}" if "kconnect.unit" in said else ""
    zone = ", no zone" if said.get("kconnect.zone") == "none" else ""
    return made.name.rpartition(".")[2] + unit + zone


def arrow(text):
    return str(arrow_type(schema(text)))


def spark(text):
    from kconnect.spark.arrow_types import struct_type

    return struct_type(pa.schema([("x", arrow_type(schema(text)))]))[0].dataType.simpleString()


def delta(text):
    from deltalake import Schema as DeltaSchema

    if not holds("delta", kind_of(text)):
        return ""
    table = DeltaLakeTable("/none", {}, "w", [], "snappy", {}, is_declared=True)
    kind = table.stored_type(arrow_type(schema(text)))
    return said_by_delta(DeltaSchema.from_arrow(pa.schema([("x", kind)])).fields[0].type)


def said_by_delta(kind):
    import json

    node = json.loads(kind.to_json())

    def said(node):
        if isinstance(node, str):
            return node
        match node["type"]:
            case "array":
                return f"array<{said(node['elementType'])}>"
            case "map":
                return f"map<{said(node['keyType'])},{said(node['valueType'])}>"
            case _:
                parts = [f"{part['name']}:{said(part['type'])}" for part in node["fields"]]
                return f"struct<{','.join(parts)}>"

    return said(node)


def iceberg(text):
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    kind = IcebergTable.stored_type(None, arrow_type(schema(text)))
    made = _pyarrow_to_schema_without_ids(pa.schema([("x", kind)])).fields[0].field_type
    return re.sub(r"-?\d+: (\w+): optional ", r"\1: ", str(made))


def avro(text):
    made = as_avro(pa.schema([("x", arrow_type(schema(text)))]).empty_table())[0]["fields"][0]["type"][1]
    return made if isinstance(made, str) else " ".join(filter(None, (made["type"], made.get("logicalType"))))


def json_text(text):
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    made = converter.from_connect_data("t", schema(text), value(text))
    column = column_of(schema(text), [value(text)])
    outer = SchemaBuilder.struct().field("x", schema(text)).build()
    rows = pa.StructArray.from_arrays([column], names=["x"])
    texts = converter.from_connect_batch("t", outer, rows)
    assert texts is NotImplemented or texts.to_pylist() == [b'{"x":' + made + b"}"]
    return made.decode()


def database(name):
    return lambda text: DIALECTS[name].type_of(kind_of_schema(schema(text)))


ROOMS = {"Connect": connect, "Arrow, Parquet": arrow, "Spark": spark, "Delta": delta, "Iceberg": iceberg,
         "Avro objects": avro, "JSON": json_text, "PostgreSQL": database("postgresql"), "MySQL": database("mysql"),
         "SQLite": database("sqlite")}  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_says_what_the_code_makes(room):
    assert dict(zip(TYPES, TABLE[room], strict=True)) == {text: ROOMS[room](text) for text in TYPES}


@pytest.mark.parametrize("text", TYPES)
def test_values_go_into_columns_and_parquet_and_back(text, tmp_path):
    made = schema(text)
    column = column_of(made, [value(text), None])
    assert values_of(made, column, 2) == [single(text, value(text)), None]
    pq.write_table(pa.table({"x": column}), tmp_path / "x.parquet")
    back = pq.read_table(tmp_path / "x.parquet")["x"].combine_chunks()
    assert values_of(made, back.cast(column.type), 2) == [single(text, value(text)), None]


def single(text, given):
    return 5.699999809265137 if text == "float" else given


def test_the_page_prints_the_table():
    lines = [f"| {' | '.join(TABLE)} |", f"|{'---|' * len(TABLE)}"]
    rows = zip(*TABLE.values(), strict=True)
    lines += [f"| {' | '.join(f'`{cell}`' if cell else '-' for cell in row)} |" for row in rows]
    table = "\n".join(lines)
    assert table in (DOCS / "types.md").read_text("utf-8"), table


def test_a_type_that_a_format_has_no_place_for_is_refused_with_those_that_have():
    said = dict(refusals("delta", {"value.schema": "id bigint, w struct<t:time>, ts array<time>"}))
    assert said == {"value.schema": "Column ts[]: delta has no place for time. parquet, iceberg, avro, csv, jsonl and "
                                    "json have"}  # fmt: skip
    ((_, reported),) = refusals("delta", {"value.schema": "w struct<t:time>"})
    assert reported.startswith("Column w.t: delta has no place for time.")
    ((_, reported),) = refusals("avro", {"value.schema": "m map<int,string>"})
    assert reported.startswith("Column m: avro has no place for map<int,string>. parquet, delta,")
    assert list(refusals("lines", {"value.schema": "string"})) == []
    assert list(refusals("parquet", {"value.schema": "no type"})) == []
    settings = {"table.format": "delta", "table.path": "/tmp", "value.schema": "t time"}
    with pytest.raises(Exception, match="delta has no place for time"):
        TableConfig.parse(settings)
    assert Schema.INT8_SCHEMA is not None
