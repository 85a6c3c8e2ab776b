"""What is of a declared type comes back from each room as it was, at random; `make roundtrips` is the long form.

Rooms in Spark and PostgreSQL: integration/builtin/test_round_trips_outside.py.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from kconnect.api import Converter, RecordBatch, SinkRecord
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.connectors.objects.avro_types import arrow_fields, avro_schema
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kconnect.builtin.schema_registry.json_schema.json_schema_converter import JsonSchemaConverter
from kconnect.builtin.schema_registry.protobuf.protobuf_converter import ProtobufConverter
from kconnect.builtin.sql.sql_transform import SqlTransform
from kconnect.builtin.types.column_type import ColumnType
from kconnect.builtin.types.declared import Declared, declared_type
from kconnect.builtin.types.foreign_schemas import of_arrow
from kconnect.spark.arrow_types import arrow_schema, struct_type
from kconnect.testing import SinkHarness
from kit.memory_registry import MemoryRegistry
from kit.objects import sink_into, source_of
from kit.random_types import Drawn, drawings, try_all
from kit.sql_tables import WITH_SCHEMA, sent_by, through_database
from kit.tables import read_table, table_settings

AVRO_KEYS = ("string",)  # of maps in Avro objects: others are refused


def converter(kind: type[Converter], **more: str) -> Converter:
    made = kind() if kind is JsonConverter else kind(MemoryRegistry())
    given_settings = {key.replace("_", "."): value for key, value in more.items()}
    made.configure({"schema.registry.url": "http://unused:1", **given_settings}, False)
    return made


def through(made: Converter) -> Callable[[Drawn, Path], list[str]]:
    """Records and columns written, and read as records and columns: four ways, one result."""

    def trip(drawn: Drawn, folder: Path) -> list[str]:
        texts = [made.from_connect_data("t", drawn.schema, value) for value in drawn.values]
        by_columns = made.from_connect_batch("t", drawn.schema, column_of(drawn.schema, drawn.values))
        assert by_columns is NotImplemented or by_columns.to_pylist() == texts
        found = [made.to_connect_data("t", text).value for text in texts]
        columns = made.to_connect_batch("t", pa.array(texts, pa.binary()))
        if columns is not NotImplemented:
            assert drawn.of_values(values_of(*columns, len(texts))) == drawn.of_values(found)
        return drawn.of_values(found)

    return trip


def json_declared(**more: str) -> Callable[[Drawn, Path], list[str]]:
    """JSON without schema, read as the schema that is declared: by records, and by columns."""

    def trip(drawn: Drawn, folder: Path) -> list[str]:
        made = converter(JsonConverter, schemas_enable="false", **more)
        made.keeps_digits = True  # as the runtime says where a schema is declared
        made.configure(
            {"schemas.enable": "false", **{key.replace("_", "."): value for key, value in more.items()}}, False
        )
        texts = [made.from_connect_data("t", drawn.schema, value) for value in drawn.values]
        declared = Declared(drawn.kind)
        found = drawn.of_values([declared.value(None, made.to_connect_data("t", text).value) for text in texts])
        columns = made.to_connect_batch("t", pa.array(texts, pa.binary()))
        if columns is not NotImplemented and (column := declared.column(*columns)) is not None:
            assert drawn.of_column(column) == found
        return found

    return trip


def parquet(drawn: Drawn, folder: Path) -> list[str]:
    content = io.BytesIO()
    pq.write_table(table_of(drawn), content)
    return drawn.of_table(pq.read_table(io.BytesIO(content.getvalue())))


def table_of(drawn: Drawn) -> pa.Table:
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column_of(drawn.schema, drawn.values))])


def avro_rows(drawn: Drawn, folder: Path) -> list[str]:
    table, content = table_of(drawn), io.BytesIO()
    fastavro.writer(content, avro_schema(table.schema, "R"), table.to_pylist(maps_as_pydicts="strict"))
    reader = fastavro.reader(io.BytesIO(content.getvalue()))
    fields, plain = arrow_fields(reader.writer_schema)
    return drawn.of_table(pa.Table.from_pylist([plain(row) for row in reader], schema=fields))


def duckdb(drawn: Drawn, folder: Path) -> list[str]:
    """Through SqlTransform: records, and columns."""
    transform = SqlTransform()
    transform.configure({"query": "SELECT * FROM records"})
    records = [SinkRecord("t", 0, None, None, drawn.schema, value, n) for n, value in enumerate(drawn.values)]
    made = transform.apply_batch(RecordBatch.from_records(records))
    rows = made.to_records() if isinstance(made, RecordBatch) else made
    by_records = [transform.apply(record) for record in records]
    assert drawn.of_values([row.value for row in rows]) == drawn.of_values([row.value for row in by_records])
    return drawn.of_values([row.value for row in rows])


def table(kind: str) -> Callable[[Drawn, Path], list[str]]:
    def trip(drawn: Drawn, folder: Path) -> list[str]:
        config = table_settings(kind, folder)
        with SinkHarness("TableSink", {"topics": "t", **config}) as sink:
            sink.put(*drawn.values, schema=drawn.schema)
        return drawn.of_table(read_table(config))

    return trip


def objects(kind: str) -> Callable[[Drawn, Path], list[str]]:
    """ObjectSink, and ObjectSource with the schema declared."""

    def trip(drawn: Drawn, folder: Path) -> list[str]:
        with sink_into(folder, object_format=kind, flush_rows=str(len(drawn.values))) as sink:
            sink.put(*drawn.values, schema=drawn.schema)
        with source_of(folder, object_format=kind, value_schema=drawn.ddl, **WITH_SCHEMA) as source:
            return sent_by(source, drawn)

    return trip


def sqlite(drawn: Drawn, folder: Path) -> list[str]:
    return through_database({"connection.url": f"sqlite:///{folder}/x.db"}, "t", drawn)


@dataclass(frozen=True)
class Room:
    trip: Callable[[Drawn, Path], list[str]]
    drawn: Any
    share: float = 1.0
    """Of the examples of the others: a file or a table costs more than a call."""


ROOMS = {
    "Arrow": Room(lambda drawn, _: drawn.of_column(column_of(drawn.schema, drawn.values)),
                  drawings(is_fine=True, has_nan=True)),
    "JSON with schema": Room(through(converter(JsonConverter)), drawings()),
    "JSON, declared": Room(json_declared(), drawings(["decimal"])),
    "JSON with numbers for decimals, declared": Room(json_declared(decimal_format="NUMERIC"), drawings()),
    "Avro": Room(through(converter(AvroConverter)), drawings(has_nan=True)),
    "Protobuf": Room(through(converter(ProtobufConverter, optional_for_nullables="true")), drawings(of_protobuf=True)),
    "JSON Schema": Room(through(converter(JsonSchemaConverter)), drawings()),
    "Parquet": Room(parquet, drawings(is_fine=True, has_nan=True)),
    "Avro objects": Room(avro_rows, drawings(is_fine=True, has_nan=True, keys=AVRO_KEYS)),
    "SqlTransform": Room(duckdb, drawings(has_nan=True), 0.2),
    "SQLite": Room(sqlite, drawings(), 0.1),
    "TableSink, parquet": Room(table("parquet"), drawings(is_fine=True, has_nan=True), 0.1),
    "TableSink, delta": Room(table("delta"), drawings(["time"], is_fine=True, has_nan=True), 0.1),
    "TableSink, iceberg": Room(table("iceberg"), drawings(is_fine=True, has_nan=True), 0.05),
    "ObjectSink, parquet": Room(objects("parquet"), drawings(), 0.1),
    "ObjectSink, avro": Room(objects("avro"), drawings(keys=AVRO_KEYS), 0.1),
    "ObjectSink, jsonl": Room(objects("jsonl"), drawings(), 0.1),
    "ObjectSink, csv": Room(objects("csv"), drawings(), 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", ROOMS)
def test_values_come_back_from_each_room(name: str) -> None:
    room = ROOMS[name]

    def run(drawn: Drawn) -> None:
        with tempfile.TemporaryDirectory() as folder:
            assert room.trip(drawn, Path(folder)) == drawn.wanted

    try_all(name, room.drawn, run, small=max(10, int(40 * room.share)), share=room.share / SHARES)


SHARES = sum(room.share for room in ROOMS.values())


@settings(deadline=None, max_examples=100)
@given(drawn=drawings(is_fine=True))
def test_types_come_back_from_other_ways_to_say_them(drawn: Drawn) -> None:
    """DDL, Arrow, and Spark's types with their DDL."""
    kind = declared_type(drawn.ddl)
    assert declared_type(", ".join(f"{column.name} {column.type}" for column in kind.columns)) == nullable(kind)
    columns = pa.schema(list(arrow_type(drawn.schema)))
    assert of_arrow(pa.struct(list(columns))) == nullable(plainer(kind))
    spark = struct_type(columns)
    assert declared_type(spark.simpleString()) == nullable(plainer(kind, has_millis=False))
    assert struct_type(arrow_schema(spark)) == spark


def nullable(kind: ColumnType) -> ColumnType:
    return replace(kind, columns=tuple(replace(column, is_required=False) for column in kind.columns))


def plainer(kind: ColumnType, *, has_millis: bool = True) -> ColumnType:
    """The type as Arrow has it: texts are texts. Spark's times have microseconds."""
    if kind.name in ("varchar", "uuid", "json"):
        return ColumnType("string")
    if kind.name in ("time", "timestamp", "timestamp_ntz"):
        return kind if has_millis else replace(kind, digits=6 if kind.name == "time" else None)

    def inner(part: ColumnType | None) -> ColumnType | None:
        return None if part is None else plainer(part, has_millis=has_millis)

    columns = tuple(replace(c, type=plainer(c.type, has_millis=has_millis), is_required=False) for c in kind.columns)
    return replace(kind, key=inner(kind.key), item=inner(kind.item), columns=columns)
