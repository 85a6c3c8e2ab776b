"""The fields of a sink's records, as Spark's schema: as configured, or as found in the first records."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kconnect.api import RecordBatch, Schema, SinkRecord, Type
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.column_type import schema_of
from kconnect.builtin.types.declared import declared_type
from kconnect.builtin.types.fitting import as_mapping
from kconnect.builtin.types.meaning import meant_schema
from kconnect.builtin.types.seen import joined_schemas
from kconnect.errors import ConfigError
from kconnect.model import TopicPartition
from kconnect.spark.arrow_types import struct_type
from kconnect.spark.query.topic_rows import ABOUT, VALUE, fields_of

if TYPE_CHECKING:
    from kconnect.spark.query.topic_reader import TopicPath

log = logging.getLogger(__name__)

# Records looked at in each partition
_SAMPLE: Final = 500


def found_fields(
    path: TopicPath, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> pa.Schema | None:
    """The fields of the first records of each partition; None if there are no records with a value yet.

    Errors: StageError for records that cannot be converted; DataError for values of different types.
    """
    rows: list[dict[str, Any]] = []
    schemas: list[pa.Schema] = []
    for at, to in sorted(end.items()):
        first = begin.get(at, 0)
        for payload in path.read(at, first, min(to, first + _SAMPLE)):
            _look(payload, rows, schemas)
    if rows:
        schemas.append(fields_of(rows))
    if not schemas:
        return None
    return joined_schemas(schemas)


def declared_fields(text: str) -> pa.Schema:
    """The fields that `value.schema` declares. Errors: ConfigError."""
    kind = arrow_type(schema_of(declared_type(text), is_fine=True))
    return pa.schema(list(kind) if pa.types.is_struct(kind) else [(VALUE, kind)])


def spark_schema(fields: pa.Schema, about: tuple[str, ...]) -> Any:  # a StructType
    """Spark's schema: these fields, then the columns about the record. Errors: ConfigError."""
    from pyspark.sql.types import StructField, StructType

    own = struct_type(fields)
    if taken := [field.name for field in own if field.name in ABOUT]:
        raise ConfigError(
            f"The records have a field {taken[0]}, which is the name of a column about records: rename it, for example "
            "with the transformation ReplaceField"
        )
    more = struct_type(pa.schema([(name, ABOUT[name]) for name in about]))
    return StructType([*(StructField(field.name, field.dataType, True) for field in own), *more])


def _look(payload: RecordBatch | list[SinkRecord], rows: list[dict[str, Any]], schemas: list[pa.Schema]) -> None:
    if isinstance(payload, RecordBatch):
        column = payload.value
        if payload.value_schema is None and column is not None and pa.types.is_struct(column.type):
            payload = payload.to_records()  # type: ignore[assignment]  # a sink's batch gives sink records
        elif payload.value_schema is not None:
            _add(schemas, payload.value_schema)
            return
        else:
            payload = payload.to_records()  # type: ignore[assignment]  # as above
    for record in payload:  # type: ignore[union-attr]  # records by now
        if record.value_schema is not None:
            _add(schemas, record.value_schema)
            continue
        row = as_mapping(record.value)
        if row is not None:
            rows.append(row if isinstance(row, dict) else {VALUE: row})


def _add(schemas: list[pa.Schema], schema: Schema) -> None:
    kind = arrow_type(meant_schema(schema))
    made = pa.schema(list(kind)) if schema.type is Type.STRUCT else pa.schema([(VALUE, kind)])
    if made not in schemas:
        schemas.append(made)
