"""What is of a declared type comes back from each room as it was, at random; `make roundtrips` is the long form.

Rooms in Spark and PostgreSQL: integration/builtin/test_round_trips_outside.py.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from kconnect.api import Converter, RecordBatch, Schema, SchemaAndValue, SinkRecord, Struct
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.connectors.objects.avro_rows import AvroObject
from kconnect.builtin.connectors.objects.object_writers import as_avro
from kconnect.builtin.converters.json_columns import ByRecordsError
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
from kit.examples import examples
from kit.memory_registry import MemoryRegistry
from kit.objects import sink_into, source_of
from kit.random_avro import random_row_schema, random_rows
from kit.random_json_schema import random_document, random_valid
from kit.random_protobuf import RandomProtobuf
from kit.random_types import CASES, SEED, Drawn, drawings, shown, try_all
from kit.sql_tables import WITH_SCHEMA, sent_by, through_database
from kit.tables import read_table, table_settings


def converter(kind: type[Converter], **more: str) -> Converter:
    made = kind() if kind is JsonConverter else kind(MemoryRegistry())
    given_settings = {key.replace("_", "."): value for key, value in more.items()}
    made.configure({"schema.registry.url": "http://unused:1", **given_settings}, False)
    return made


def columns_of(made: Converter, texts: list[bytes | None]) -> Any:
    """Schema and column of the texts; None where the converter has none."""
    try:
        found = made.to_connect_batch("t", pa.array(texts, pa.binary()))
    except ByRecordsError:
        return None
    return None if found is NotImplemented else found


def through(made: Converter) -> Callable[[Drawn, Path], list[str]]:
    """Records and columns written, and read as records and columns: four ways, one result."""

    def trip(drawn: Drawn, folder: Path) -> list[str]:
        texts = [made.from_connect_data("t", drawn.schema, value) for value in drawn.values]
        by_columns = made.from_connect_batch("t", drawn.schema, column_of(drawn.schema, drawn.values))
        assert by_columns is NotImplemented or by_columns.to_pylist() == texts
        found = [made.to_connect_data("t", text).value for text in texts]
        columns = columns_of(made, texts)
        if columns is not None:
            assert drawn.of_values(values_of(*columns, len(texts))) == drawn.of_values(found)
        return drawn.of_values(found)

    return trip


def json_declared(**more: str) -> Callable[[Drawn, Path], list[str]]:
    """JSON without schema, read as the schema that is declared: by records, and by columns."""

    def trip(drawn: Drawn, folder: Path) -> list[str]:
        return drawn.of_values(json_as(drawn.kind, drawn, **more))

    return trip


def json_as(kind: ColumnType, drawn: Drawn, **more: str) -> list[Any]:
    """JSON without schema, read as the columns of the type: by records, and by columns."""
    made = converter(JsonConverter, schemas_enable="false", **more)
    made.keeps_digits = True  # as the runtime says where a schema is declared
    made.configure({"schemas.enable": "false", **{key.replace("_", "."): value for key, value in more.items()}}, False)
    texts = [made.from_connect_data("t", drawn.schema, value) for value in drawn.values]
    declared = Declared(kind)
    found = [declared.value(None, made.to_connect_data("t", text).value) for text in texts]
    columns = columns_of(made, texts)
    if columns is not None and (column := declared.column(*columns)) is not None:
        assert [shown(value) for value in values_of(declared.schema, column, len(texts))] == [*map(shown, found)]
    return found


def parquet(drawn: Drawn, folder: Path) -> list[str]:
    content = io.BytesIO()
    pq.write_table(table_of(drawn), content)
    return drawn.of_table(pq.read_table(io.BytesIO(content.getvalue())))


def table_of(drawn: Drawn) -> pa.Table:
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column_of(drawn.schema, drawn.values))])


def avro_rows(drawn: Drawn, folder: Path) -> list[str]:
    table, content = table_of(drawn), io.BytesIO()
    fastavro.writer(content, *as_avro(table))
    found = AvroObject(io.BytesIO(content.getvalue()))
    rows = [row for block in found.blocks() for row in block.rows()]
    return drawn.of_table(pa.Table.from_pylist(rows, schema=found.fields))


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


def like(kind: str) -> Callable[[Drawn, Path], list[str]]:
    """JSON without schema, read as the columns of a table that a sink has made of such values."""

    def trip(drawn: Drawn, folder: Path) -> list[str]:
        config = table_settings(kind, folder)
        with SinkHarness("TableSink", {"topics": "t", **config}) as sink:
            sink.put(*drawn.values, schema=drawn.schema)
        where = config["table.name"] if kind == "iceberg" else config["table.path"]
        columns = declared_type(f"like:{where}", config)
        names = {column.name for column in columns.columns}
        assert names == {field.name for field in drawn.schema.fields}
        found = json_as(columns, drawn, decimal_format="NUMERIC")
        return drawn.of_table(pa.Table.from_struct_array(column_of(found[0].schema, found)))

    return trip


def one_after_the_other(names: Sequence[str]) -> Callable[[Drawn, Path], list[str]]:
    """What one converter has read, with the schema it has then, written by the next."""

    def trip(drawn: Drawn, folder: Path) -> list[str]:
        schema, values = drawn.schema, drawn.values
        for name in names:
            made = CONVERTERS[name]()
            found = [made.to_connect_data("t", made.from_connect_data("t", schema, value)) for value in values]
            schema, values = found[0].schema, [one.value for one in found]
        return drawn.of_values(values)

    return trip


CONVERTERS: dict[str, Callable[[], Converter]] = {
    "JSON": lambda: converter(JsonConverter),
    "Avro": lambda: converter(AvroConverter),
    "Protobuf": lambda: converter(ProtobufConverter, optional_for_nullables="true"),
    "JSON Schema": lambda: converter(JsonSchemaConverter),
}


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
    "Avro objects": Room(avro_rows, drawings(is_fine=True, has_nan=True)),
    "SqlTransform": Room(duckdb, drawings(has_nan=True), 0.2),
    "SQLite": Room(sqlite, drawings(), 0.1),
    "TableSink, parquet": Room(table("parquet"), drawings(is_fine=True, has_nan=True), 0.1),
    "TableSink, delta": Room(table("delta"), drawings(["time"], is_fine=True, has_nan=True), 0.1),
    "TableSink, iceberg": Room(table("iceberg"), drawings(is_fine=True, has_nan=True), 0.05),
    "ObjectSink, parquet": Room(objects("parquet"), drawings(), 0.1),
    "ObjectSink, avro": Room(objects("avro"), drawings(), 0.1),
    "ObjectSink, jsonl": Room(objects("jsonl"), drawings(), 0.1),
    "ObjectSink, csv": Room(objects("csv"), drawings(), 0.1),
    "like: parquet": Room(like("parquet"), drawings(), 0.1),
    "like: delta": Room(like("delta"), drawings(["time"]), 0.1),
    "like: iceberg": Room(like("iceberg"), drawings(), 0.05),
    **{
        f"{', then '.join(names)}": Room(
            one_after_the_other(names), drawings(of_protobuf="Protobuf" in names), 0.3
        )
        for names in itertools.permutations(CONVERTERS, 2)
    },
    **{
        f"{', then '.join(names)}": Room(one_after_the_other(names), drawings(of_protobuf=True), 0.1)
        for names in ([*CONVERTERS], [*reversed(CONVERTERS)])
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ROOMS)
def test_values_come_back_from_each_room(name: str) -> None:
    room = ROOMS[name]

    def run(drawn: Drawn) -> None:
        with tempfile.TemporaryDirectory() as folder:
            assert room.trip(drawn, Path(folder)) == drawn.wanted

    try_all(name, room.drawn, run, small=max(10, int(40 * room.share)), share=room.share / SHARES)


Reader = Callable[[Random], Iterator[SchemaAndValue]]


def read_of_avro(random: Random) -> Iterator[SchemaAndValue]:
    """Of a random schema with its enums, unions, fixed and names."""
    schema = random_row_schema(random)
    avro = converter(AvroConverter, scrub_invalid_names="true", ignore_default_for_nullables="true")
    for value in random_rows(random, schema, 5):
        yield avro.to_connect_data("t", avro.from_connect_data("t", schema, value))


def read_of_protobuf(random: Random) -> Iterator[SchemaAndValue]:
    """Of a random file: nested messages, maps, enums, oneofs, wrappers, optional and repeated fields."""
    made, registry = RandomProtobuf(random), MemoryRegistry()
    number = registry.add("t-value", made.text, schemaType="PROTOBUF")
    protobuf = ProtobufConverter(registry)
    nullable = random.choice(("true", "false"))
    protobuf.configure({"schema.registry.url": "http://unused:1", "optional.for.nullables": nullable})
    for _ in range(5):
        yield protobuf.to_connect_data("t", framed(number, b"\x00" + made.value().SerializeToString()))


def read_of_json_schema(random: Random, *, is_plain: bool) -> Iterator[SchemaAndValue]:
    """Of a random document: unions, enums, maps, lists, what is required, what is not there."""
    document, registry = random_document(random, is_plain=is_plain), MemoryRegistry()
    number = registry.add("t-value", json.dumps(document), schemaType="JSON")
    made = JsonSchemaConverter(registry)
    made.configure({"schema.registry.url": "http://unused:1", "use.optional.for.nonrequired": "true"})
    for _ in range(5):
        yield made.to_connect_data("t", framed(number, json.dumps(random_valid(random, document)).encode()))


def framed(number: int, content: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + content


FOREIGN: dict[str, tuple[Reader, Sequence[str]]] = {
    "Avro": (read_of_avro, ("JSON", "JSON Schema")),
    "Protobuf": (read_of_protobuf, ("JSON", "JSON Schema", "Avro", "Protobuf")),
    "JSON Schema": (partial(read_of_json_schema, is_plain=False), ("JSON", "JSON Schema")),
    "JSON Schema, plain": (partial(read_of_json_schema, is_plain=True), ("JSON", "JSON Schema", "Avro", "Protobuf")),
}


@pytest.mark.parametrize("form", FOREIGN)
def test_what_a_random_schema_of_others_gives_comes_back_from_another_converter(form: str) -> None:
    read, others = FOREIGN[form]
    for number in range(max(25, CASES // 40)):
        made = {name: CONVERTERS[name]() for name in others}
        for found in read(Random(SEED * 1_000_000 + number)):
            for name, other in made.items():
                again = other.to_connect_data("t", other.from_connect_data("t", found.schema, found.value))
                wanted = with_defaults(found.schema, found.value, has_all_numbers=name != "JSON")
                assert shown(again.value) == shown(wanted), (number, name, found.schema)


def with_defaults(schema: Schema | None, value: Any, *, has_all_numbers: bool) -> Any:
    """As in Java: null is the default of its schema, and JsonConverter has neither infinities nor -0.0."""
    of = partial(with_defaults, has_all_numbers=has_all_numbers)
    value = schema.default if value is None and schema is not None else value
    if isinstance(value, Struct):
        return Struct.from_values(value.schema, [of(field.schema, value[field.name]) for field in value.schema.fields])
    if schema is not None and isinstance(value, list):
        return [of(schema.value_schema, item) for item in value]
    if schema is not None and isinstance(value, dict):
        return {of(schema.key_schema, key): of(schema.value_schema, item) for key, item in value.items()}
    is_kept = has_all_numbers or not isinstance(value, float) or (math.isfinite(value) and value != 0)
    return value if is_kept else 0.0


SHARES = sum(room.share for room in ROOMS.values())


@examples(100)
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
