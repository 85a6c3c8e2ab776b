"""The columnar form of every transformation, predicate and converter gives what its record form gives, to the byte."""

from __future__ import annotations

import datetime
from decimal import Decimal as PyDecimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    ConnectError,
    ConnectHeaders,
    ConnectRecord,
    Converter,
    Date,
    Decimal,
    Predicate,
    RecordBatch,
    Schema,
    SchemaBuilder,
    SourceRecord,
    Struct,
    Time,
    Timestamp,
    Transformation,
    Type,
)
from kconnect.api.columns import column_of
from kconnect.builtin.converters.boolean_converter import BooleanConverter
from kconnect.builtin.converters.bytes_converter import ByteArrayConverter
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.number_converters import (
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.builtin.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from kconnect.builtin.sql.sql_transform import SqlTransform
from kconnect.builtin.transforms.cast import CastKey, CastValue
from kconnect.builtin.transforms.extract_field import ExtractFieldKey, ExtractFieldValue
from kconnect.builtin.transforms.filter import Filter
from kconnect.builtin.transforms.flatten import FlattenKey, FlattenValue
from kconnect.builtin.transforms.header_from import HeaderFromKey, HeaderFromValue
from kconnect.builtin.transforms.headers import DropHeaders, InsertHeader
from kconnect.builtin.transforms.hoist_field import HoistFieldValue
from kconnect.builtin.transforms.insert_field import InsertFieldValue
from kconnect.builtin.transforms.mask_field import MaskFieldKey, MaskFieldValue
from kconnect.builtin.transforms.regex_router import RegexRouter
from kconnect.builtin.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from kconnect.builtin.transforms.set_schema_metadata import SetSchemaMetadataKey, SetSchemaMetadataValue
from kconnect.builtin.transforms.timestamp_converter import TimestampConverterKey, TimestampConverterValue
from kconnect.builtin.transforms.timestamp_router import TimestampRouter
from kconnect.builtin.transforms.value_to_key import ValueToKey
from kconnect.builtin.transforms.with_schema import WithSchema
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.stages import StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain

INNER = SchemaBuilder.struct().field("x", Schema.INT32_SCHEMA).field("y.z", Schema.OPTIONAL_STRING_SCHEMA).optional()
ROW = (
    SchemaBuilder.struct()
    .name("row")
    .field("i", Schema.INT32_SCHEMA)
    .field("s", Schema.OPTIONAL_STRING_SCHEMA)
    .field("d", SchemaBuilder.int64().optional().default(11).build())
    .field("f", SchemaBuilder(Type.FLOAT64).optional().build())
    .field("b", SchemaBuilder(Type.BOOLEAN).default(True).build())
    .field("by", Schema.OPTIONAL_BYTES_SCHEMA)
    .field("ts", Timestamp.builder().optional().build())
    .field("n", INNER.build())
    .optional()
    .build()
)
TRANSFORMS: list[tuple[type[Transformation], dict[str, str]]] = [
    (ExtractFieldValue, {"field": "s"}),
    (ExtractFieldValue, {"field": "d"}),
    (ExtractFieldValue, {"field": "d", "replace.null.with.default": "false"}),
    (ExtractFieldValue, {"field": "b"}),
    (ExtractFieldValue, {"field": "n.`y.z`", "field.syntax.version": "V2"}),
    (ExtractFieldValue, {"field": "n.x", "field.syntax.version": "v2"}),
    (ExtractFieldValue, {"field": "none"}),
    (ExtractFieldKey, {"field": "i"}),
    (ReplaceFieldValue, {"exclude": "i,n"}),
    (ReplaceFieldValue, {"include": "s,d", "renames": "s:t,d:e"}),
    (ReplaceFieldValue, {"exclude": "i,s,d,f,b,by,ts,n"}),
    (ReplaceFieldValue, {"renames": "gone:i"}),
    (ReplaceFieldValue, {"exclude": "s", "replace.null.with.default": "false"}),
    (ReplaceFieldKey, {"renames": "i:id"}),
    (ReplaceFieldValue, {"exclude": "n.x,s", "field.syntax.version": "V2"}),
    (ReplaceFieldValue, {"include": "n.x,i", "renames": "n.x:y,i:id", "field.syntax.version": "V2"}),
    (ReplaceFieldValue, {"exclude": "n.x,n.`y.z`", "field.syntax.version": "V2"}),
    (MaskFieldValue, {"fields": "i,s,f,b"}),
    (MaskFieldValue, {"fields": "d"}),
    (MaskFieldValue, {"fields": "ts"}),
    (MaskFieldValue, {"fields": "by"}),
    (MaskFieldValue, {"fields": "i,s,d,f", "replacement": "7"}),
    (MaskFieldValue, {"fields": "b", "replacement": "true"}),
    (MaskFieldValue, {"fields": "i", "replacement": "many"}),
    (MaskFieldKey, {"fields": "s", "replacement": "***"}),
    (ValueToKey, {"fields": "d,i"}),
    (ValueToKey, {"fields": "n"}),
    (ValueToKey, {"fields": "n.x,n.`y.z`,i", "field.syntax.version": "V2"}),
    (MaskFieldValue, {"fields": "n.x,s", "replacement": "9", "field.syntax.version": "V2"}),
    (ValueToKey, {"fields": "s,none"}),
    (ValueToKey, {"fields": "d", "replace.null.with.default": "false"}),
    (HoistFieldValue, {"field": "h"}),
    (InsertFieldValue, {"topic.field": "t!", "static.field": "c", "static.value": "v", "timestamp.field": "at"}),
    (
        InsertFieldValue,
        {"topic.field": "n.t", "static.field": "`c.d`", "static.value": "v", "field.syntax.version": "V2"},
    ),
    (InsertFieldValue, {"static.field": "none.c", "static.value": "v", "field.syntax.version": "V2"}),
    (InsertFieldValue, {"timestamp.field": "i.at", "field.syntax.version": "V2"}),
    (CastValue, {"spec": "i:int8,f:float32,b:string,s:boolean,d:string"}),
    (CastValue, {"spec": "i:string,f:string,by:string,ts:string"}),
    (CastValue, {"spec": "i:float64,ts:int64,b:int16,d:int32"}),
    (CastValue, {"spec": "f:int32"}),
    (CastValue, {"spec": "s:int64"}),
    (CastValue, {"spec": "d:float32", "replace.null.with.default": "false"}),
    (CastValue, {"spec": "n.x:string,n.`y.z`:boolean", "field.syntax.version": "V2"}),
    (CastValue, {"spec": "n:string"}),
    (CastValue, {"spec": "int8"}),
    (CastKey, {"spec": "i:int64"}),
    (FlattenValue, {}),
    (FlattenKey, {"delimiter": "_"}),
    (HeaderFromValue, {"fields": "s,d", "headers": "h,hd", "operation": "copy"}),
    (HeaderFromValue, {"fields": "i,ts", "headers": "hi,ht", "operation": "move"}),
    (HeaderFromValue, {"fields": "n.x", "headers": "hx", "operation": "move", "field.syntax.version": "V2"}),
    (HeaderFromValue, {"fields": "none", "headers": "h", "operation": "copy"}),
    (HeaderFromKey, {"fields": "b", "headers": "hb", "operation": "move", "replace.null.with.default": "false"}),
    (DropHeaders, {"headers": "h"}),
    (InsertHeader, {"header": "h", "value.literal": "1.5"}),
    (SetSchemaMetadataValue, {"schema.name": "other", "schema.version": "7"}),
    (SetSchemaMetadataKey, {"schema.version": "2", "replace.null.with.default": "false"}),
    (TimestampConverterValue, {"field": "ts", "target.type": "unix"}),
    (TimestampConverterValue, {"field": "ts", "target.type": "unix", "unix.precision": "nanoseconds"}),
    (TimestampConverterValue, {"field": "ts", "target.type": "unix", "unix.precision": "seconds"}),
    (TimestampConverterValue, {"field": "ts", "target.type": "Date"}),
    (TimestampConverterValue, {"field": "ts", "target.type": "Time"}),
    (TimestampConverterValue, {"field": "ts", "target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSSX"}),
    (TimestampConverterValue, {"field": "ts", "target.type": "string", "format": "EEE, d MMM yy h:mm a %"}),
    (TimestampConverterValue, {"field": "d", "target.type": "Timestamp", "unix.precision": "microseconds"}),
    (TimestampConverterValue, {"field": "d", "target.type": "string", "format": "yyyyMMdd HHmmss"}),
    (TimestampConverterValue, {"field": "s", "target.type": "Timestamp", "format": "yyyy"}),
    (TimestampConverterValue, {"field": "i", "target.type": "Timestamp"}),
    (TimestampConverterKey, {"field": "none", "target.type": "Date"}),
    (TimestampRouter, {}),
    (TimestampRouter, {"timestamp.format": "yyyy-MM-dd-HH", "topic.format": "x${topic}"}),
    (RegexRouter, {"regex": "(.)opic", "replacement": "$1-other"}),
    (Filter, {}),
]
OTHER_ROW = (
    SchemaBuilder.struct()
    .field("g", Schema.OPTIONAL_FLOAT32_SCHEMA)
    .field("dec", Decimal.builder(2).optional().build())
    .field("wide", Decimal.builder(2).parameter(Decimal.PRECISION_FIELD, "12").optional().build())
    .field("da", Date.builder().optional().build())
    .field("ti", Time.builder().optional().build())
    .field("small", Schema.OPTIONAL_INT8_SCHEMA)
    .field("l", SchemaBuilder.array(Schema.OPTIONAL_FLOAT32_SCHEMA).optional().build())
    .field("m", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_INT64_SCHEMA).optional().build())
    .field("ls", SchemaBuilder.array(INNER.build()).optional().build())
    .optional()
    .build()
)
OTHER_TRANSFORMS: list[tuple[type[Transformation], dict[str, str]]] = [
    *((CastValue, {"spec": f"g:{kind}"}) for kind in ("float64", "int32", "string", "boolean", "int64", "float32")),
    *((CastValue, {"spec": f"dec:{kind},wide:{kind}"}) for kind in ("float64", "float32", "int64", "string")),
    *((CastValue, {"spec": f"da:{kind},ti:{kind}"}) for kind in ("int32", "int64", "string", "float64")),
    (CastValue, {"spec": "small:float32,l:string"}),
    (ExtractFieldValue, {"field": "g"}),
    (ExtractFieldValue, {"field": "wide"}),
    (ExtractFieldValue, {"field": "ls"}),
    (ExtractFieldKey, {"field": "m"}),
    (ReplaceFieldValue, {"exclude": "l", "renames": "g:h,dec:dc"}),
    (MaskFieldValue, {"fields": "g,dec,da,ti,small"}),
    (MaskFieldValue, {"fields": "g,dec", "replacement": "1.5"}),
    (MaskFieldValue, {"fields": "l,m"}),
    (ValueToKey, {"fields": "wide,da,ls"}),
    (HoistFieldValue, {"field": "h"}),
    (FlattenValue, {}),
    (HeaderFromValue, {"fields": "g,wide,ti", "headers": "a,b,c", "operation": "move"}),
    (SetSchemaMetadataValue, {"schema.name": "other"}),
    (TimestampConverterValue, {"field": "da", "target.type": "Timestamp"}),
    (TimestampConverterValue, {"field": "ti", "target.type": "string", "format": "HH:mm:ss.SSS"}),
    (TimestampConverterValue, {"field": "da", "target.type": "unix"}),
    (WithSchema, {"schema": "g double, dec decimal(20,4), wide string, da timestamp, small bigint, l array<double>, "
                            "m map<string,string>, ls array<struct<x:bigint>>"}),
    (SqlTransform, {"query": "SELECT g, g + 1 AS g1, CAST(g AS DOUBLE) AS gd, dec, wide * 2 AS w2, da, ti, l, "
                             "l[0] AS l0, small + 1 AS s1, CAST(wide AS STRING) AS ws FROM records "
                             "WHERE small IS NULL OR small < 100"}),
]  # fmt: skip
PREDICATES: list[tuple[type[Predicate], dict[str, str]]] = [
    (RecordIsTombstone, {}),
    (HasHeaderKey, {"name": "h"}),
    (TopicNameMatches, {"pattern": "t.*"}),
    (TopicNameMatches, {"pattern": "other"}),
]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

ints = st.integers(-(1 << 31), (1 << 31) - 1)
stamps = st.integers(-(1 << 40), 1 << 40).map(lambda millis: EPOCH + datetime.timedelta(milliseconds=millis))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


inner = st.tuples(ints, maybe(st.text(max_size=4))).map(lambda row: Struct.from_values(INNER.build(), list(row)))
other_rows = st.tuples(
    maybe(st.floats()),
    maybe(st.integers(-(10**20), 10**20).map(lambda unscaled: PyDecimal(unscaled).scaleb(-2))),
    maybe(st.integers(-(10**11), 10**11).map(lambda unscaled: PyDecimal(unscaled).scaleb(-2))),
    maybe(st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))),
    maybe(st.integers(0, 86_399_999).map(lambda millis: (EPOCH + datetime.timedelta(milliseconds=millis)).time())),
    maybe(st.integers(-128, 127)),
    maybe(st.lists(maybe(st.floats()), max_size=3)),
    maybe(st.dictionaries(st.text(max_size=2), maybe(ints), max_size=2)),
    maybe(st.lists(inner, max_size=2)),
).map(lambda row: Struct.from_values(OTHER_ROW, list(row)))
rows = st.tuples(
    ints,
    maybe(st.text(max_size=5)),
    maybe(ints),
    maybe(st.floats()),
    maybe(st.booleans()),
    maybe(st.binary(max_size=3)),
    maybe(stamps),
    maybe(inner),
).map(lambda row: Struct.from_values(ROW, list(row)))


@st.composite
def batches(draw: st.DrawFn, values: st.SearchStrategy[Any] = rows, schema: Schema = ROW) -> list[SourceRecord]:
    """One to four records of one topic and one schema, with or without keys, headers and times."""
    has_keys, has_headers, stamp = draw(st.booleans()), draw(st.booleans()), draw(maybe(st.integers(0, 1 << 40)))
    made = []
    for number, value in enumerate(draw(st.lists(values, min_size=1, max_size=4))):
        headers = ConnectHeaders()
        if has_headers and draw(st.booleans()):
            headers.add("h", number, Schema.INT32_SCHEMA)
        made.append(
            SourceRecord(
                {"p": 1},
                {"n": number},
                "topic",
                value,
                value_schema=schema,
                key=draw(values) if has_keys else None,
                key_schema=schema if has_keys else None,
                timestamp=stamp,
                headers=headers,
            )
        )
    return made


@cache
def json_converters() -> Converters:
    """One for all, as a task has: they write a schema once."""
    key, value, header = JsonConverter(), JsonConverter(), JsonConverter()
    key.configure({}, True)
    value.configure({}, False)
    header.configure({}, False)
    return Converters(key, value, header)


def kafka(records: list[ConnectRecord]) -> list[Any]:
    """What the records are in Kafka: JSON with schemas shows every difference there can be."""
    convert = json_converters().to_kafka_record
    return [attempt(lambda record=record: convert(record)) for record in records]


def attempt(call: Any) -> Any:
    try:
        return call()
    except StageError as failure:
        return str(failure.error)


def outcome(chain: TransformChain, given: list[SourceRecord] | RecordBatch) -> list[Any] | str:
    """The Kafka form of what the chain gives, or the message of the record that failed in it."""
    try:
        after = chain.apply_batch(given) if isinstance(given, RecordBatch) else chain.apply_records(given)
    except StageError as failure:
        return f"{failure.record.source_offset}: {failure.error}"
    return kafka(list(after.to_records() if isinstance(after, RecordBatch) else after or []))


@cache
def chains(of_other_rows: bool = False) -> dict[str, TransformChain]:
    """A chain of each transformation alone; it sees many batches, as in a task."""
    made = {}
    transforms = OTHER_TRANSFORMS if of_other_rows else TRANSFORMS
    for kind, config in transforms:
        transform = kind()
        transform.configure(config)
        made[f"{kind.__name__} {config}"] = TransformChain([TransformStep(transform)])
    assert len(made) == len(transforms)
    return made


@given(records=batches(maybe(rows)) | batches())
def test_transformations_give_by_columns_what_they_give_by_records(records: list[SourceRecord]) -> None:
    """All of them on each batch: to draw a batch takes longer than to transform it."""
    batch = RecordBatch.from_records(records)
    assert batch is not None
    for name, chain in chains().items():
        assert outcome(chain, batch) == outcome(chain, records), name


@given(records=batches(maybe(other_rows), OTHER_ROW) | batches(other_rows, OTHER_ROW))
def test_other_types_come_out_of_columns_as_out_of_records(records: list[SourceRecord]) -> None:
    batch = RecordBatch.from_records(records)
    assert batch is not None
    for name, chain in chains(of_other_rows=True).items():
        assert outcome(chain, batch) == outcome(chain, records), name


# Which go by records even when no value is null and each can be converted, and why.
BY_RECORDS = {
    "ExtractFieldValue none": "the field does not exist",
    "ReplaceFieldValue i,s,d,f,b,by,ts,n": "nothing is left",
    "ReplaceFieldValue n.x,n.`y.z` V2": "nothing is left of a struct",
    "ReplaceFieldValue gone:i": "two fields of one name",
    "MaskFieldValue by": "bytes cannot be masked",
    "MaskFieldValue b true": "booleans have no replacement",
    "MaskFieldValue i many": "the replacement is no number",
    "ValueToKey s,none": "the field does not exist",
    "InsertFieldValue none.c v V2": "the struct does not exist",
    "InsertFieldValue i.at V2": "a number has no fields",
    "CastValue n:string": "a struct cannot be cast",
    "CastValue int8": "a struct cannot be cast",
    "HeaderFromValue none h copy": "the field does not exist",
    "TimestampConverterValue i Timestamp": "the field is no timestamp",
}
NOON = 1_483_444_800_000
FULL = (7, "2017", 2, 0.5, True, b"x", EPOCH, Struct(INNER.build(), {"x": 1, "y.z": "true"}))
BARE = (7, None, None, None, True, None, None, None)


# Null, a struct can be cast to a text and bytes can be masked; a null struct has nothing for a field that is required.
WHERE_NULL = {
    "CastValue n:string",
    "MaskFieldValue by",
    "HeaderFromValue n.x hx move V2",
    "ValueToKey n.x,n.`y.z`,i V2",
}


@pytest.mark.parametrize(
    ("row", "otherwise"), [(FULL, set()), (BARE, WHERE_NULL)], ids=["each field has a value", "nulls where they may be"]
)
def test_columnar_forms_run_on_columns(row: tuple[Any, ...], otherwise: set[str]) -> None:
    """What a columnar form hands back to the records is counted: a form that always does so is none."""
    values = [Struct.from_values(ROW, list(row)) for _ in range(3)]
    records = [
        SourceRecord({}, {"n": n}, "topic", value, value_schema=ROW, key=value, key_schema=ROW, timestamp=NOON + n)
        for n, value in enumerate(values)
    ]
    batch = RecordBatch.from_records(records)
    assert batch is not None

    handed_back = set()
    for kind, config in TRANSFORMS:
        transform = kind()
        transform.configure(config)
        try:
            made = transform.apply_batch(batch)
        except ConnectError:
            made = NotImplemented
        if made is NotImplemented:
            handed_back.add(" ".join([kind.__name__, *config.values()]))

    assert handed_back == BY_RECORDS.keys() ^ otherwise


@given(records=batches(maybe(rows)), negate=st.booleans())
def test_predicates_give_by_columns_what_they_give_by_records(records: list[SourceRecord], negate: bool) -> None:
    batch = RecordBatch.from_records(records)
    assert batch is not None
    for kind, config in PREDICATES:
        predicate = kind()
        predicate.configure(config)
        found = predicate.test_batch(batch)
        each = [predicate.test(record) for record in records]
        assert ([found] * len(records) if isinstance(found, bool) else found.to_pylist()) == each, f"{kind} {config}"
        chain = TransformChain([TransformStep(Filter(), predicate, negate)])
        assert outcome(chain, batch) == outcome(chain, records), f"{kind.__name__} {config}"


NUMBERS: list[tuple[type[Converter], Schema, st.SearchStrategy[Any]]] = [
    (ShortConverter, Schema.OPTIONAL_INT16_SCHEMA, st.integers(-(1 << 15), (1 << 15) - 1)),
    (IntegerConverter, Schema.OPTIONAL_INT32_SCHEMA, ints),
    (LongConverter, Schema.OPTIONAL_INT64_SCHEMA, st.integers(-(1 << 63), (1 << 63) - 1)),
    (FloatConverter, Schema.OPTIONAL_FLOAT32_SCHEMA, st.floats(width=32, allow_nan=False)),
    (DoubleConverter, Schema.OPTIONAL_FLOAT64_SCHEMA, st.floats(allow_nan=False)),
    (BooleanConverter, Schema.OPTIONAL_BOOLEAN_SCHEMA, st.booleans()),
    (ByteArrayConverter, Schema.OPTIONAL_BYTES_SCHEMA, st.binary(max_size=5)),
    (StringConverter, Schema.OPTIONAL_STRING_SCHEMA, st.text(max_size=5)),
]


@pytest.mark.parametrize(("kind", "schema", "values"), NUMBERS, ids=[kind.__name__ for kind, *_ in NUMBERS])
@given(data=st.data())
def test_converter_gives_by_columns_what_it_gives_by_records(
    kind: type[Converter], schema: Schema, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    converter = kind()
    converter.configure({}, False)
    given_values = data.draw(st.lists(maybe(values), max_size=6))
    start = data.draw(st.integers(0, len(given_values)))
    column = column_of(schema, given_values).slice(start)
    by_records = [converter.from_connect_data("t", schema, value) for value in given_values[start:]]
    made = converter.from_connect_batch("t", schema, column)
    assert made is not NotImplemented
    assert made.to_pylist() == by_records
    back_schema, back = converter.to_connect_batch("t", made)  # type: ignore[misc]  # NotImplemented fails the test
    assert back_schema == schema
    assert back.to_pylist() == [converter.to_connect_data("t", raw).value for raw in by_records]


@pytest.mark.parametrize("kind", [kind for kind, schema, _ in NUMBERS if schema.type not in (Type.BYTES, Type.STRING)])
@given(raws=st.lists(maybe(st.binary(max_size=9)), min_size=1, max_size=4))
def test_bytes_that_are_no_number_are_left_to_the_record_form(kind: type[Converter], raws: list[bytes | None]) -> None:
    converter = kind()
    converter.configure({}, False)
    made = converter.to_connect_batch("t", pa.array(raws, pa.binary()))
    if made is NotImplemented:
        with pytest.raises(ConnectError, match="Failed to deserialize"):
            [converter.to_connect_data("t", raw) for raw in raws]
        return
    _, column = made
    assert repr(column.to_pylist()) == repr([converter.to_connect_data("t", raw).value for raw in raws])


@given(records=batches(maybe(rows)), schemas=st.sampled_from(["true", "false"]))
def test_json_gives_by_columns_what_it_gives_by_records(records: list[SourceRecord], schemas: str) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": schemas}, False)
    converters = Converters(converter, converter, converter)
    batch = RecordBatch.from_records(records)
    assert batch is not None
    by_columns = converters.to_kafka_batch(batch)
    by_records = converters.to_kafka_records(records)
    assert by_columns.values == [made.value for made in by_records if made is not None]
    if by_columns.keys is not None:
        assert by_columns.keys == [made.key for made in by_records if made is not None]
