"""What Debezium's schemas mean, by records and by columns."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from kconnect.api import DataError, Decimal, Schema, SchemaBuilder, Struct, Type
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.types.meaning import meant_column, meant_schema, meant_value, meant_values

AT = datetime.datetime(2025, 11, 27, 10, 0, 0, 123456, tzinfo=datetime.UTC)
CLOCK = datetime.time(3, 4, 5, 123456)
US = 1764237600123456


def named(name, kind=Type.INT64):
    return SchemaBuilder(kind).name(name).version(1).optional().build()


VARIABLE = (
    SchemaBuilder.struct().name("io.debezium.data.VariableScaleDecimal").optional()
    .field("scale", Schema.INT32_SCHEMA).field("value", Schema.BYTES_SCHEMA).build()
)  # fmt: skip
FIELDS = [
    ("micros", named("io.debezium.time.MicroTimestamp"), US, AT, "timestamp[us]"),
    ("nanos", named("io.debezium.time.NanoTimestamp"), US * 1000 + 7, AT, "timestamp[us]"),
    ("millis", named("io.debezium.time.Timestamp"), US // 1000, AT.replace(microsecond=123000), "timestamp[ms]"),
    ("zoned", named("io.debezium.time.ZonedTimestamp", Type.STRING), "2025-11-27T11:00:00.123456+01:00", AT,
     "timestamp[us, tz=UTC]"),
    ("day", named("io.debezium.time.Date", Type.INT32), 20000, datetime.date(2024, 10, 4), "date32[day]"),
    ("clock", named("io.debezium.time.MicroTime"), 11045123456, CLOCK, "time64[us]"),
    ("clock_ms", named("io.debezium.time.Time", Type.INT32), 11045123, CLOCK.replace(microsecond=123000), "time32[ms]"),
    ("zoned_clock", named("io.debezium.time.ZonedTime", Type.STRING), "03:04:05.123456Z", CLOCK, "time64[us]"),
    ("number", VARIABLE, Struct(VARIABLE).put("scale", 2).put("value", b"\x25"), "0.37", "string"),
    ("plain", Schema.OPTIONAL_INT64_SCHEMA, 7, 7, "int64"),
    ("uuid", named("io.debezium.data.Uuid", Type.STRING), "x", "x", "string"),
    ("stays", named("io.debezium.time.MicroDuration"), 7, 7, "int64"),
    ("days", SchemaBuilder.array(named("io.debezium.time.Date", Type.INT32)).optional().build(), [20000, None],
     [datetime.date(2024, 10, 4), None], "list<item: date32[day]>"),
    ("by", SchemaBuilder.map(Schema.STRING_SCHEMA, named("io.debezium.time.MicroTimestamp")).optional().build(),
     {"a": US}, {"a": AT}, "map<string, timestamp[us]>"),
]  # fmt: skip


def row_schema():
    builder = SchemaBuilder.struct().name("shop.Value").optional()
    for name, schema, *_ in FIELDS:
        builder.field(name, schema)
    return builder.build()


ROW = row_schema()


def test_values_and_columns_mean_the_same():
    full = Struct.from_values(ROW, [given for _, _, given, _, _ in FIELDS])
    bare = Struct.from_values(ROW, [None] * len(FIELDS))
    made = meant_schema(ROW)
    assert (made.name, made.is_optional) == ("shop.Value", True)
    assert [str(field.type) for field in arrow_type(made)] == [kind for *_, kind in FIELDS]
    values = [meant_value(ROW, full), meant_value(ROW, bare), None]
    assert [values[0].get(name) for name, *_ in FIELDS] == [meant for _, _, _, meant, _ in FIELDS]
    column = meant_column(ROW, column_of(ROW, [full, bare, None]))
    assert column.type == arrow_type(made)
    assert values_of(made, column, 3) == values
    assert column.equals(column_of(made, values))


def test_what_means_itself_comes_back_as_it_is():
    plain = SchemaBuilder.struct().field("a", Schema.INT32_SCHEMA).build()
    column = pa.array([{"a": 1}])
    assert meant_schema(plain) is plain
    assert meant_column(plain, column) is column
    assert meant_value(None, {"a": 1}) == {"a": 1}


def test_a_text_that_is_no_time_is_reported_with_its_field():
    zoned = named("io.debezium.time.ZonedTimestamp", Type.STRING)
    schema = SchemaBuilder.struct().field("after", SchemaBuilder.struct().field("at", zoned).build()).build()
    inner = Struct(schema.field("after").schema).put("at", "infinity")
    with pytest.raises(DataError, match=r"Field after\.at does not fit its column of type timestamp: it is 'infinity'"):
        meant_value(schema, Struct(schema).put("after", inner))


@pytest.mark.parametrize(
    ("scale", "precision", "given", "text"),
    [
        (10, 50, "12345678901234567890123456789012345.1", "12345678901234567890123456789012345.1"),
        (10, 50, "0E-10", "0.0000000000"),
        (127, 0, "1.25" + "0" * 125, "1.25"),
        (127, 0, "100." + "0" * 127, "100"),
        (-50, 0, "1E+50", "1" + "0" * 50),
    ],
)
def test_a_decimal_that_no_column_holds_is_its_text_and_stays_where_it_is_held(
    scale: int, precision: int, given: str, text: str
) -> None:
    leaf = Decimal.builder(scale).parameter("connect.decimal.precision", str(precision)).optional().build()
    schema = SchemaBuilder.struct().field("n", leaf).field("list", SchemaBuilder.array(leaf).build()).build()
    value = Struct(schema, {"n": decimal.Decimal(given), "list": [decimal.Decimal(given), None]})
    made, (found, none) = meant_values(schema, [value, None])
    assert none is None
    assert (found["n"], found["list"]) == (text, [text, None])
    assert made is not None
    assert made.field("n").schema.type is Type.STRING
    assert meant_value(schema, value, holds_wide=True) is value
    narrow = SchemaBuilder.struct().field("n", Decimal.schema(2)).build()
    assert meant_schema(narrow) is narrow


def test_a_null_stays_null_where_the_schema_has_a_default_which_means_what_values_do():
    def day(default):
        return SchemaBuilder(Type.INT32).name("io.debezium.time.Date").version(1).optional().default(default).build()

    schema = (
        SchemaBuilder.struct().field("day", day(20000)).field("n", SchemaBuilder.int32().optional().default(7).build())
    ).build()
    row = Struct(schema)
    made = meant_value(schema, row)
    assert [made.get_without_default(name) for name in ("day", "n")] == [None, None]
    assert [made.get(name) for name in ("day", "n")] == [datetime.date(2024, 10, 4), 7]
    column = meant_column(schema, column_of(schema, [row]))
    assert column.to_pylist() == column_of(meant_schema(schema), [made]).to_pylist() == [{"day": None, "n": None}]
    wide = SchemaBuilder.struct().field("d", Decimal.builder(50).optional().default(decimal.Decimal("1.5")).build())
    assert meant_value(wide.build(), Struct(wide.build())).get("d") == "1.5"
