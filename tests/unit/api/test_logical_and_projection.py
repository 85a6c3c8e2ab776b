"""Logical types to and from their plain form, and projection between schemas."""

from __future__ import annotations

import datetime
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Schema,
    SchemaBuilder,
    SchemaProjector,
    SchemaProjectorError,
    Struct,
    Time,
    Timestamp,
)

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("text", "scale", "raw"),
    [
        ("0", 0, "00"),
        ("0.00", 2, "00"),
        ("1.27", 2, "7f"),
        ("1.28", 2, "0080"),
        ("-1.28", 2, "80"),
        ("-1.29", 2, "ff7f"),
        ("1E+3", -3, "01"),
        ("-0.00", 2, "00"),
    ],
)
def test_decimals_are_the_bytes_of_a_big_integer(text: str, scale: int, raw: str) -> None:
    schema = Decimal.schema(scale)
    assert Decimal.from_logical(schema, decimal.Decimal(text)).hex() == raw
    assert Decimal.to_logical(schema, bytes.fromhex(raw)) == decimal.Decimal(text)
    assert Decimal.scale_of(Decimal.to_logical(schema, bytes.fromhex(raw))) == scale


@given(st.integers(-(10**60), 10**60), st.integers(-20, 50))
def test_decimals_of_any_size_come_back_digit_for_digit(unscaled: int, scale: int) -> None:
    digits = tuple(map(int, str(abs(unscaled))))
    value = decimal.Decimal((int(unscaled < 0), digits, -scale))
    schema = Decimal.schema(scale)
    back = Decimal.to_logical(schema, Decimal.from_logical(schema, value))
    assert back == value
    assert Decimal.scale_of(back) == scale


def test_a_decimal_of_another_scale_is_refused_in_javas_words() -> None:
    with pytest.raises(DataError) as caught:
        Decimal.from_logical(Decimal.schema(2), decimal.Decimal("1.5"))
    assert str(caught.value) == (
        "Decimal value has mismatching scale for given Decimal schema. Schema has scale 2, value has scale 1."
    )


def test_decimals_that_are_none_and_schemas_without_scale_are_refused() -> None:
    with pytest.raises(DataError, match="NaN"):
        Decimal.from_logical(Decimal.schema(0), decimal.Decimal("NaN"))
    with pytest.raises(DataError, match=r"^Invalid Decimal schema: scale parameter not found\.$"):
        Decimal.scale(Schema.BYTES_SCHEMA)
    with pytest.raises(DataError, match="no bytes"):
        Decimal.to_logical(Decimal.schema(0), b"")


@given(st.dates())
def test_dates_come_back(value: datetime.date) -> None:
    assert Date.to_logical(Date.SCHEMA, Date.from_logical(Date.SCHEMA, value)) == value


@given(st.integers(0, 86_399_999))
def test_times_of_day_come_back(millis: int) -> None:
    assert Time.from_logical(Time.SCHEMA, Time.to_logical(Time.SCHEMA, millis)) == millis


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_instants_come_back_in_utc(millis: int) -> None:
    value = Timestamp.to_logical(Timestamp.SCHEMA, millis)
    assert value.tzinfo is UTC
    assert Timestamp.from_logical(Timestamp.SCHEMA, value) == millis


def test_an_instant_of_another_zone_is_the_same_instant() -> None:
    there = datetime.timezone(datetime.timedelta(hours=2))
    assert Timestamp.from_logical(Timestamp.SCHEMA, datetime.datetime(1970, 1, 1, 2, tzinfo=there)) == 0


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (
            lambda: Date.to_logical(Schema.INT32_SCHEMA, 1),
            "Requested conversion of Date object but the schema does not match.",
        ),
        (
            lambda: Date.to_logical(Date.SCHEMA, 2**31 - 1),
            "2147483647 days since 1970-01-01 is outside the years 1 to 9999",
        ),
        (
            lambda: Date.from_logical(Date.SCHEMA, datetime.datetime(2020, 1, 1, tzinfo=UTC)),
            "Kafka Connect Date type should not have any time fields set to non-zero values.",
        ),
        (
            lambda: Time.to_logical(Time.SCHEMA, -1),
            "Time values must use number of milliseconds greater than 0 and less than 86400000",
        ),
        (
            lambda: Timestamp.to_logical(Timestamp.SCHEMA, 2**63 - 1),
            f"{2**63 - 1} ms since the epoch is outside the years 1 to 9999",
        ),
        (
            lambda: Timestamp.from_logical(Timestamp.SCHEMA, datetime.datetime(2020, 1, 1)),  # noqa: DTZ001
            "The timestamp 2020-01-01 00:00:00 has no time zone",
        ),
    ],
)
def test_what_has_no_logical_value_is_refused(convert: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        convert()  # type: ignore[operator]
    assert str(caught.value) == message


def test_projection_widens_numbers_and_fills_defaults() -> None:
    source = SchemaBuilder.struct().field("a", Schema.INT8_SCHEMA).field("gone", Schema.INT8_SCHEMA).build()
    target = (
        SchemaBuilder.struct()
        .field("a", Schema.FLOAT64_SCHEMA)
        .field("b", SchemaBuilder.string().default("x"))
        .field("c", Schema.OPTIONAL_INT8_SCHEMA)
        .build()
    )
    projected = SchemaProjector.project(source, Struct(source, {"a": 1, "gone": 2}), target)
    assert projected == Struct(target, {"a": 1.0, "b": "x"})
    assert isinstance(projected["a"], float)


def test_projection_goes_into_lists_and_maps() -> None:
    source = SchemaBuilder.map(Schema.STRING_SCHEMA, SchemaBuilder.array(Schema.INT8_SCHEMA)).build()
    target = SchemaBuilder.map(Schema.STRING_SCHEMA, SchemaBuilder.array(Schema.FLOAT32_SCHEMA)).build()
    assert SchemaProjector.project(source, {"a": [1, 2]}, target) == {"a": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (Schema.INT64_SCHEMA, Schema.INT8_SCHEMA, "Schema type mismatch. source type: INT64 and target type: INT8"),
        (
            SchemaBuilder.int8().name("a").build(),
            Schema.INT8_SCHEMA,
            "Schema name mismatch. source name: a and target name: None",
        ),
        (
            Decimal.schema(1),
            Decimal.schema(2),
            "Schema parameters not equal. source parameters: {scale=1} and target parameters: {scale=2}",
        ),
        (
            Schema.OPTIONAL_INT8_SCHEMA,
            Schema.INT8_SCHEMA,
            "Writer schema is optional, however, target schema does not provide a default value.",
        ),
    ],
)
def test_projection_refuses_what_is_not_compatible(source: Schema, target: Schema, message: str) -> None:
    with pytest.raises(SchemaProjectorError) as caught:
        SchemaProjector.project(source, None, target)
    assert str(caught.value) == message.replace("None", "null")


def test_projection_names_the_field_that_is_missing() -> None:
    target = SchemaBuilder.struct().field("a", Schema.INT8_SCHEMA).build()
    source = SchemaBuilder.struct().build()
    with pytest.raises(SchemaProjectorError, match=r"Required field `a` is missing from source schema: Schema{STRUCT}"):
        SchemaProjector.project(source, Struct(source), target)
