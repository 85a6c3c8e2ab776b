"""Schemas of Spark and Arrow, one as the other, by what each version of pyspark has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kconnect.builtin.types.foreign_schemas import CAST, no_record_type
from kconnect.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Arrow's schema of a StructType; points in time are in UTC."""
    import inspect

    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.1 has no such parameter, and gives UTC
    known = inspect.signature(to_arrow_schema).parameters
    more: dict[str, Any] = {"timezone": "UTC"} if "timezone" in known else {}
    return to_arrow_schema(schema, **more)


# What Arrow has no columns for, or has as bytes that only Spark reads
_OF_SPARK_ALONE: Final = (
    "CalendarIntervalType",
    "DayTimeIntervalType",
    "GeographyType",
    "GeometryType",
    "VariantType",
    "YearMonthIntervalType",
)


def check_record_types(kind: DataType, place: str = "") -> None:
    """Refuse, while Spark plans, types that records cannot have. Errors: ConfigError with type and column."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        for field in kind:
            check_record_types(field.dataType, f"{place}.{field.name}" if place else field.name)
    elif isinstance(kind, ArrayType):
        check_record_types(kind.elementType, f"{place}[]")
    elif isinstance(kind, MapType):
        check_record_types(kind.keyType, f"{place} (key)")
        check_record_types(kind.valueType, f"{place}[]")
    elif type(kind).__name__ in _OF_SPARK_ALONE:
        raise ConfigError(no_record_type(kind.simpleString(), place), hint=CAST)


def struct_type(schema: pa.Schema) -> StructType:
    """Spark's schema of Arrow's; times without a zone stay so, which Spark 4.1 must be given.

    Times of day have microseconds there.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    fields = [pa.field(field.name, _with_micros(field.type), field.nullable) for field in schema]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def _with_micros(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_time32(kind):
        return pa.time64("us")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _with_micros(field.type), field.nullable) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _with_micros(kind.value_type), kind.value_field.nullable))
    if pa.types.is_map(kind):
        return pa.map_(_with_micros(kind.key_type), _with_micros(kind.item_type))
    return kind
