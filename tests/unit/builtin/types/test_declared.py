"""Values made to be what is declared: exactly, alike by records and by columns, and each misfit reported."""

from __future__ import annotations

import datetime
import decimal
import json
import os

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError, Date, Decimal, RecordBatch, Schema, SchemaBuilder, SinkRecord, Struct, Timestamp
from kconnect.api.columns import column_of, values_of
from kconnect.builtin.converters.json_columns import ByRecordsError
from kconnect.builtin.transforms.with_schema import WithSchema
from kconnect.builtin.types.declared import Declared, declared_type
from kit.examples import examples

UTC = datetime.UTC


def read(kind, value, schema=None):
    """One value as declared; the text of the error where it does not fit."""
    declared = Declared(declared_type(f"x {kind}"), is_fine=True)
    if schema is not None:
        outer = SchemaBuilder.struct().field("x", schema).build()
        struct = Struct(outer).put("x", value)
        return declared.value(outer, struct).get("x")
    try:
        return declared.value(None, {"x": value}).get("x")
    except DataError as error:
        return str(error)


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        ("decimal(12,2)", 0.37, decimal.Decimal("0.37")),
        ("decimal(12,2)", "0.37", decimal.Decimal("0.37")),
        ("decimal(12,2)", "0.370", decimal.Decimal("0.37")),
        ("decimal(12,2)", 3, decimal.Decimal("3.00")),
        ("decimal(12,2)", "1e3", decimal.Decimal("1000.00")),
        ("decimal(20,0)", 12345678901234567890, decimal.Decimal("12345678901234567890")),
        ("decimal(38,10)", "9" * 28 + "." + "9" * 10, decimal.Decimal("9" * 28 + "." + "9" * 10)),
        ("decimal(5,1)", -0.0, decimal.Decimal("0.0")),
        ("bigint", "12", 12),
        ("bigint", 12.0, 12),
        ("bigint", "1e2", 100),
        ("double", "0.1", 0.1),
        ("double", 3, 3.0),
        ("float", 5.7, 5.699999809265137),
        ("boolean", "TRUE", True),
        ("string", 1.5, "1.5"),
        ("string", True, "true"),
        ("string", {"a": [1, None]}, '{"a":[1,null]}'),
        ("varchar(3)", "äöü", "äöü"),
        ("binary", "AAE=", b"\0\1"),
        ("timestamp", 1764237600000, datetime.datetime(2025, 11, 27, 10, tzinfo=UTC)),
        ("timestamp(s)", 1764237600, datetime.datetime(2025, 11, 27, 10, tzinfo=UTC)),
        ("timestamp(s)", 1764237600.25, datetime.datetime(2025, 11, 27, 10, 0, 0, 250000, tzinfo=UTC)),
        ("timestamp(us)", 1764237600000001, datetime.datetime(2025, 11, 27, 10, 0, 0, 1, tzinfo=UTC)),
        ("timestamp(ns)", 1764237600000001999, datetime.datetime(2025, 11, 27, 10, 0, 0, 1, tzinfo=UTC)),
        ("timestamp", -1, datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        ("timestamp", "2025-11-27T10:00:00Z", datetime.datetime(2025, 11, 27, 10, tzinfo=UTC)),
        ("timestamp", "2025-11-27 12:00:00.123456789+02:00",
         datetime.datetime(2025, 11, 27, 10, 0, 0, 123456, tzinfo=UTC)),
        ("timestamp", "2025-11-27T11:00:00+01:00[Europe/Berlin]", datetime.datetime(2025, 11, 27, 10, tzinfo=UTC)),
        ("timestamp", "20251127T100000Z", datetime.datetime(2025, 11, 27, 10, tzinfo=UTC)),
        ("timestamp", "2025-11-27", datetime.datetime(2025, 11, 27, tzinfo=UTC)),
        ("timestamp(3)", "2025-11-27T10:00:00.123999", datetime.datetime(2025, 11, 27, 10, 0, 0, 123000, tzinfo=UTC)),
        ("date", 20000, datetime.date(2024, 10, 4)),
        ("date", "2025-11-27", datetime.date(2025, 11, 27)),
        ("date", "2025-11-27T00:00:00Z", datetime.date(2025, 11, 27)),
        ("date(ms)", 1764201600000, datetime.date(2025, 11, 27)),
        ("time", "03:04:05.123456", datetime.time(3, 4, 5, 123456)),
        ("time", "03:04+01:00", datetime.time(2, 4)),
        ("time", 11045123, datetime.time(3, 4, 5, 123000)),
        ("time(us)", 11045123456, datetime.time(3, 4, 5, 123456)),
        ("uuid", "6BA7B8109DAD11D180B400C04FD430C8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("json", {"b": 1, "a": [None]}, '{"b":1,"a":[null]}'),
        ("json", '{"b": 1}', '{"b": 1}'),
        ("json", "no json", '"no json"'),
        ("json", "NaN", '"NaN"'),
        ("json", '{"a":NaN}', '"{\\"a\\":NaN}"'),
        ("json", float("nan"), '"nan"'),
        ("json", decimal.Decimal("1.50"), "1.50"),
        ("json", datetime.date(2025, 11, 27), '"2025-11-27"'),
        ("json", b"\0\1", '"AAE="'),
        ("json", "[" * 5000, '"' + "[" * 5000 + '"'),
        ("array<string>", None, None),
        ("array<string>", [], []),
        ("array<int>", [1, None, "3"], [1, None, 3]),
        ("array<int>", "[1,2]", [1, 2]),
        ("map<string,date>", {"a": "2025-11-27", "b": None}, {"a": datetime.date(2025, 11, 27), "b": None}),
        ("map<int,string>", [[1, "a"]], {1: "a"}),
        ("map<int,string>", {"1": "a"}, {1: "a"}),
    ],
)  # fmt: skip
def test_values_are_read_exactly(kind, value, made):
    found = read(kind, value)
    assert found == made
    assert type(found) is type(made)


@pytest.mark.parametrize(
    ("kind", "value", "reported"),
    [
        ("decimal(12,2)", 0.375, "Field x does not fit its column of type decimal(12,2): it is 0.375"),
        ("decimal(12,2)", "abc", "Field x does not fit its column of type decimal(12,2): it is 'abc'"),
        ("decimal(4,2)", 100, "Field x does not fit its column of type decimal(4,2): it is 100"),
        ("decimal(12,2)", float("nan"), ": it is nan"),
        ("decimal(12,2)", True, ": it is True"),
        ("decimal(12,2)", "1e999999999", ": it is '1e999999999'"),
        ("int", 2**31, "Field x does not fit its column of type int: it is 2147483648"),
        ("bigint", 1.5, "Field x does not fit its column of type bigint: it is 1.5"),
        ("bigint", "", "Field x does not fit its column of type bigint: it is ''"),
        ("double", 2**53 + 1, "Field x does not fit its column of type double: it is 9007199254740993"),
        ("double", str(2**53 + 1), "Field x does not fit its column of type double: it is '9007199254740993'"),
        ("float", "16777217", "Field x does not fit its column of type float: it is '16777217'"),
        ("date", 20419.5, "Field x does not fit its column of type date: it is 20419.5 and has a time of day"),
        ("time", "11045000", "Field x does not fit its column of type time: it is '11045000'"),
        ("timestamp", "1312052310230", "Field x does not fit its column of type timestamp: it is '1312052310230'"),
        ("float", 1e300, "Field x does not fit its column of type float: it is 1e+300"),
        ("boolean", 1, "Field x does not fit its column of type boolean: it is 1"),
        ("boolean", "yes", "Field x does not fit its column of type boolean: it is 'yes'"),
        ("varchar(2)", "abc", "Field x does not fit its column of type varchar(2): it is 'abc' and has 3 characters"),
        ("binary", "ä", "Field x does not fit its column of type binary: it is 'ä' and no base64"),
        ("array<int>", "[" * 100_000, "Field x does not fit its column of type array<int>: it is '[[[["),
        ("map<string,int>", [["a", 1], ["a", 2]],
         "Field x['a'] does not fit its column of type map<string,int>: it is there twice: the map has 'a' already"),
        ("map<int,int>", {"1": 1, "01": 2}, "it is there twice: the map has 1 already"),
        ("timestamp", "soon", "Field x does not fit its column of type timestamp: it is 'soon'"),
        ("timestamp", True, "Field x does not fit its column of type timestamp: it is True"),
        ("timestamp", 10**18, "Field x does not fit its column of type timestamp: it is 1000000000000000000"),
        ("timestamp", "2025-02-30T00:00:00Z", ": it is '2025-02-30T00:00:00Z'"),
        ("date", "2025-11-27T10:00:00Z", "and has a time of day"),
        ("date(ms)", 1764237600000, "and has a time of day"),
        ("date", 1764237600000, "Field x does not fit its column of type date: it is 1764237600000"),
        ("time", 86400000, "Field x does not fit its column of type time: it is 86400000"),
        ("uuid", "x", "Field x does not fit its column of type uuid: it is 'x'"),
        ("array<int>", [1, "a"], "Field x[1] does not fit its column of type int: it is 'a'"),
        ("array<int>", {"a": 1}, "Field x does not fit its column of type array<int>: it is {'a': 1}"),
        ("map<string,int>", {"k": "v"}, "Field x['k'] does not fit its column of type int: it is 'v'"),
        ("struct<a:struct<b:int>>", {"a": {"b": "z"}}, "Field x.a.b does not fit its column of type int: it is 'z'"),
        ("struct<a:int>", [1], "Field x does not fit its column of type struct<a:int>: it is [1] and has no fields"),
        ("struct<a:int NOT NULL>", {}, "Field x.a does not fit its column of type int NOT NULL: it is missing"),
        ("bigint NOT NULL", None, "Field x does not fit its column of type bigint NOT NULL: it is null"),
    ],
)  # fmt: skip
def test_a_misfit_is_reported_with_column_value_and_type(kind, value, reported):
    assert reported in read(kind, value)


def test_times_of_debezium_are_read_in_their_own_unit():
    def named(name, kind=SchemaBuilder.int64):
        return kind().name(f"io.debezium.time.{name}").build()

    at = datetime.datetime(2025, 11, 27, 10, 0, 0, 1, tzinfo=UTC)
    assert read("timestamp", 1764237600000001, named("MicroTimestamp")) == at
    assert read("timestamp", 1764237600000001000, named("NanoTimestamp")) == at
    assert read("timestamp", "2025-11-27T10:00:00.000001Z", named("ZonedTimestamp", SchemaBuilder.string)) == at
    assert read("date", 20000, named("Date", SchemaBuilder.int32)) == datetime.date(2024, 10, 4)
    assert read("time", 11045123456, named("MicroTime")) == datetime.time(3, 4, 5, 123456)
    any_scale = SchemaBuilder.struct().name("io.debezium.data.VariableScaleDecimal")
    schema = any_scale.field("scale", Schema.INT32_SCHEMA).field("value", Schema.BYTES_SCHEMA).build()
    value = Struct(schema).put("scale", 2).put("value", b"\x25")
    assert read("decimal(12,2)", value, schema) == decimal.Decimal("0.37")


def test_what_has_a_schema_is_read_by_it_too():
    at = datetime.datetime(2025, 11, 27, 10, tzinfo=UTC)
    assert read("string", at, Timestamp.SCHEMA) == "2025-11-27T10:00:00.000Z"
    assert read("date", at.replace(hour=0), Timestamp.SCHEMA) == datetime.date(2025, 11, 27)
    assert read("timestamp", datetime.date(2025, 11, 27), Date.SCHEMA) == at.replace(hour=0)
    assert read("decimal(12,2)", decimal.Decimal("0.3"), Decimal.schema(1)) == decimal.Decimal("0.30")
    with_default = SchemaBuilder.int32().optional().default(7).build()
    assert read("bigint", None, with_default) == 7


# --- records and columns ---

LEAVES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-130, 130),
    "int": st.integers(-(2**33), 2**33) | st.sampled_from(["1", "x", 1.0, 1.5]),
    "bigint": st.integers(-(2**63), 2**63 - 1) | st.floats(-10, 10),
    "float": st.floats(),
    "double": st.floats() | st.integers(-(2**60), 2**60),
    "decimal(12,2)": st.decimals(-1000, 1000, places=2).map(float) | st.integers(-(10**11), 10**11)
    | st.decimals(-1000, 1000, places=3).map(str),
    "string": st.text(max_size=5) | st.integers(0, 5) | st.booleans(),
    "varchar(3)": st.text(max_size=4),
    "binary": st.binary(max_size=4).map(lambda raw: __import__("base64").b64encode(raw).decode()),
    "date": st.integers(-1000, 30000) | st.dates().map(str),
    "time": st.times().map(str) | st.integers(-1, 86_400_000),
    "timestamp": st.datetimes().map(lambda at: at.isoformat() + "Z") | st.integers(-(2**44), 2**44)
    | st.datetimes().map(str) | st.dates().map(str),
    "timestamp(us)": st.integers(-(2**54), 2**54),
    "timestamp_ntz": st.datetimes().map(str),
    "uuid": st.uuids().map(str),
    "json": st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2) | st.text(max_size=3),
}  # fmt: skip


def nested(children):
    """A type of the leaves, with values that mostly are of it."""
    lists = children.map(lambda pair: (f"array<{pair[0]}>", st.lists(st.none() | pair[1], max_size=3)))
    maps = children.map(
        lambda pair: (
            f"map<string,{pair[0]}>",
            st.dictionaries(st.sampled_from("abc"), st.none() | pair[1], max_size=2),
        )
    )
    structs = st.tuples(children, children).map(
        lambda both: (
            f"struct<a:{both[0][0]}, b:{both[1][0]}>",
            st.fixed_dictionaries(
                {}, optional={"a": st.none() | both[0][1], "b": both[1][1], "more": st.integers(0, 1)}
            ),
        )
    )
    return lists | maps | structs


TYPES = st.recursive(st.sampled_from(sorted(LEAVES)).map(lambda name: (name, LEAVES[name])), nested, max_leaves=3)


@st.composite
def declared_rows(draw):
    kinds = draw(st.lists(TYPES, min_size=1, max_size=3))
    ddl = ", ".join(f"f{index} {kind}" for index, (kind, _) in enumerate(kinds))
    row = st.fixed_dictionaries({}, optional={f"f{index}": st.none() | one for index, (_, one) in enumerate(kinds)})
    return ddl, draw(st.lists(st.none() | row, min_size=1, max_size=6))


def by_records(declared, schema, values):
    made = []
    for value in values:
        try:
            made.append(declared.value(schema, value))
        except DataError:
            return None
    return made


def shown(value):
    """A value as text that shows all of it, NaN too, but not the order of a map, which structs of Arrow lack."""
    if isinstance(value, Struct):
        return f"{{{', '.join(f'{field.name}={shown(value.get(field))}' for field in value.schema.fields)}}}"
    if isinstance(value, dict):
        return f"map{sorted((key, shown(item)) for key, item in value.items())}"
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else repr(value)


# KCONNECT_TYPE_EXAMPLES=1000000 is the long form: 6 ms each
@examples(int(os.environ.get("KCONNECT_TYPE_EXAMPLES", "150")))
@given(declared_rows())
def test_records_and_columns_give_the_same(drawn):
    ddl, rows = drawn
    declared = Declared(declared_type(ddl), is_fine=True)
    wanted = by_records(declared, None, rows)
    try:
        column = pa.array(rows)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return  # no converter gives such a column
    if not pa.types.is_struct(column.type) or values_of(None, column, len(rows)) != rows:
        return  # likewise: there all rows have the fields of all
    made = declared.column(None, column)
    if made is not None:
        found = values_of(declared.schema, made, len(rows))
        assert shown(found) == shown(wanted)
    if wanted is not None:
        column = column_of(declared.schema, wanted)
        assert shown(values_of(declared.schema, column, len(rows))) == shown(wanted)
        # what was made fits once more, as what has a schema
        again = declared.column(declared.schema, column)
        assert shown(by_records(declared, declared.schema, wanted)) == shown(wanted)
        assert again is None or shown(values_of(declared.schema, again, len(rows))) == shown(wanted)


def test_plain_columns_are_read_by_arrow():
    rows = [{"id": 1, "price": 0.37, "at": 1764237600000, "on": "2025-11-27", "tags": ["a", None], "who": {"a": 1}},
            {"id": 2, "price": 3.0, "at": None, "on": None, "tags": None, "who": None}]  # fmt: skip
    ddl = "id bigint NOT NULL, price decimal(12,2), at timestamp, on date, tags array<string>, who struct<a:int>"
    declared = Declared(declared_type(ddl), is_fine=True)
    made = declared.column(None, pa.array(rows))
    assert made is not None
    assert made.to_pylist()[1]["tags"] is None
    assert values_of(declared.schema, made, 2) == by_records(declared, None, rows)


# --- the transformation ---


def sink_record(value, schema=None, topic="t"):
    return SinkRecord(topic, 0, None, None, schema, value, 0)


def with_schema(**settings_):
    made = WithSchema()
    made.configure({"microseconds": "true", **{name.replace("__", "."): text for name, text in settings_.items()}})
    return made


def test_a_record_gets_the_declared_schema_and_a_tombstone_stays():
    step = with_schema(schema="id bigint, price decimal(12,2)")
    record = step.apply(sink_record({"id": "1", "price": "0.37", "other": 1}))
    assert record.value.get("price") == decimal.Decimal("0.37")
    assert record.value_schema is record.value.schema
    assert step.apply(sink_record(None)).value is None


def test_a_tombstone_of_a_source_has_no_schema_so_that_its_bytes_are_null():
    step = with_schema(schema="id bigint", microseconds="false")
    assert step.apply(sink_record(None)).value_schema is None
    batch = RecordBatch("t", value=pa.array([{"id": 1}, None]), kafka_partition=0, kafka_offsets=pa.array([0, 1]))
    assert step.apply_batch(batch) is NotImplemented


def test_whole_numbers_of_a_schema_are_booleans_where_they_are_0_and_1_as_mysql_has_them():
    step = with_schema(schema="flag boolean")
    given = SchemaBuilder.struct().field("flag", SchemaBuilder.int8().optional().build()).build()
    records = [sink_record(Struct(given, {"flag": value}), given) for value in (1, 0, None)]
    assert [step.apply(record).value.get("flag") for record in records] == [True, False, None]
    batch = RecordBatch.from_records(records)
    made = step.apply_batch(batch)
    assert [record.value.get("flag") for record in made.to_records()] == [True, False, None]
    for value, schema in ((Struct(given, {"flag": 2}), given), ({"flag": 1}, None)):
        with pytest.raises(DataError, match=r"Field flag does not fit its column of type boolean: it is [12]$"):
            step.apply(sink_record(value, schema))


def test_topics_have_schemas_of_their_own():
    step = with_schema(schema__orders="id bigint", schema__items="n int")
    assert step.apply(sink_record({"id": 1}, topic="orders")).value.get("id") == 1
    assert step.apply(sink_record({"n": 1}, topic="items")).value.get("n") == 1
    assert step.apply(sink_record({"z": 1}, topic="else")).value == {"z": 1}
    renamed = sink_record({"id": 1}, topic="orders").new_record(topic="renamed")
    assert step.apply(renamed).value.get("id") == 1


def test_a_field_that_no_column_takes_is_reported_once(caplog):
    step = with_schema(schema="id bigint")
    for _ in range(3):
        step.apply(sink_record({"id": 1, "extra": 2}))
    step.apply_batch(RecordBatch("t", value=pa.array([{"id": 1, "extra": 2}]), kafka_partition=0,
                                 kafka_offsets=pa.array([0])))  # fmt: skip
    assert [line.getMessage() for line in caplog.records] == [
        "Field extra of the records is in no column of the declared schema and is left out"
    ]


def test_a_batch_stays_columns_and_one_misfit_sends_it_by_records():
    step = with_schema(schema="id bigint, price decimal(12,2)")

    def batch(rows):
        return RecordBatch("t", value=pa.array(rows), kafka_partition=0, kafka_offsets=pa.array(range(len(rows))))

    made = step.apply_batch(batch([{"id": 1, "price": 0.37}, {"id": 2, "price": None}]))
    assert str(made.value.type) == "struct<id: int64, price: decimal128(12, 2)>"
    assert step.apply_batch(batch([{"id": 1, "price": 0.375}])) is NotImplemented


def test_values_that_are_no_structs_are_declared_by_one_type():
    step = with_schema(schema="decimal(12,2)")
    assert step.apply(sink_record("0.37")).value == decimal.Decimal("0.37")
    with pytest.raises(DataError, match=r"The value does not fit: it shall be of type decimal\(12,2\): it is 'x'"):
        step.apply(sink_record("x"))


def test_digits_of_numbers_survive_the_converter():
    from kconnect.builtin.converters.json_converter import JsonConverter

    converter = JsonConverter()
    converter.keeps_digits = True
    converter.configure({"schemas.enable": "false"}, is_key=False)
    row = converter.to_connect_data("t", b'{"p":1234567890123456789012.125,"n":12345678901234567890,"f":0.1}').value
    assert row == {"p": decimal.Decimal("1234567890123456789012.125"), "n": 12345678901234567890, "f": 0.1}
    texts = pa.array([json.dumps({"p": 1.5}).encode()] * 150 + [b'{"p":0.12345678901234567891}'], pa.binary())
    with pytest.raises(ByRecordsError, match="more digits than 64 bits or a double hold"):
        converter.to_connect_batch("t", texts)
    assert converter.to_connect_batch("t", texts[:150]) is not NotImplemented
