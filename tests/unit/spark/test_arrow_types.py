"""Which of Spark's types records can have, and where one that they cannot have is."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from kconnect.errors import ConfigError
from kconnect.spark.arrow_types import arrow_schema, check_record_types


def row(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (row(id=IntegerType(), v=VariantType()), "variant at v"),
        (row(v=DayTimeIntervalType()), "interval day to second at v"),
        (row(v=YearMonthIntervalType()), "interval year to month at v"),
        (row(v=CalendarIntervalType()), "interval at v"),
        (row(a=row(b=ArrayType(VariantType()))), "variant at a.b[]"),
        (row(m=MapType(StringType(), YearMonthIntervalType())), "interval year to month at m[]"),
    ],
)
def test_a_type_that_only_spark_has_is_named_with_its_column_before_a_task_runs(
    columns: StructType, named: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"A record cannot hold a value of type {named}")) as caught:
        check_record_types(columns)
    assert caught.value.hint == "Cast the column, for example to string."


def test_all_other_types_are_columns_of_arrow() -> None:
    """What is not refused must become columns, or the first row of it ends a task."""
    plain = [BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType()]
    more = [BinaryType(), DateType(), TimestampType(), TimestampNTZType(), NullType()]
    nested = ArrayType(MapType(StringType(), row(x=DateType())))
    schema = row(**{f"c{at}": kind for at, kind in enumerate([*plain, *more, DecimalType(38, 18), nested])})
    check_record_types(schema)
    assert len(arrow_schema(schema)) == len(schema)
