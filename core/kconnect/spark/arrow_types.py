"""Schemas of Spark and Arrow, one as the other, by what each version of pyspark has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Arrow's schema of a StructType; points in time are in UTC."""
    import inspect

    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.1 has no such parameter, and gives UTC
    known = inspect.signature(to_arrow_schema).parameters
    more: dict[str, Any] = {"timezone": "UTC"} if "timezone" in known else {}
    return to_arrow_schema(schema, **more)


def struct_type(schema: pa.Schema) -> StructType:
    """Spark's schema of Arrow's; times without a zone stay so, which Spark 4.1 has to be told."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
