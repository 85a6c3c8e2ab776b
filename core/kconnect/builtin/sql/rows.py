"""The fields that a query can name, of a batch or of one record, as Arrow columns with their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from kconnect.api import (
    ConnectRecord,
    DataError,
    Headers,
    RecordBatch,
    Schema,
    SchemaBuilder,
    Timestamp,
    Type,
)
from kconnect.api.columns import arrow_type, column_of
from kconnect.api.values import convert_to_string
from kconnect.builtin.types.seen_schemas import as_data, schema_of_value

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.builtin.sql.spark_expressions import Path

HEADERS_SCHEMA: Final = SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA).optional().build()
TIMESTAMP_SCHEMA: Final = Timestamp.builder().optional().build()
_OF_THE_RECORD: Final = ("_key", "_value", "_topic", "_partition", "_offset", "_timestamp", "_headers")


class Rows(Protocol):
    """What a query is evaluated over. A field of the value hides what the record has under the same name.

    Names are found in upper or lower case, as in Spark, unless there are several that differ in nothing else.
    """

    are_seen: bool
    """Whether types are those of values, as there is no schema."""

    @property
    def length(self) -> int: ...

    def schema(self, path: Path) -> Schema | None:
        """The field's schema; None for one that a schemaless value lacks. Errors: DataError if there is none."""
        ...

    def column(self, path: Path, schema: Schema) -> pa.Array:
        """The field's values. A null takes the default of its schema."""
        ...

    def names(self, path: Path = ()) -> Sequence[str]:
        """The fields of the value, or of a struct in it, for `*`. Errors: DataError if it is no struct."""
        ...


class BatchRows:
    """The rows of a batch, which has schemas."""

    are_seen = False

    def __init__(self, batch: RecordBatch) -> None:
        self._batch = batch
        self.length = len(batch)

    def names(self, path: Path = ()) -> Sequence[str]:
        return _names_in(self.schema(path), path) if path else _names_of(self._batch.value_schema)

    def schema(self, path: Path) -> Schema | None:
        return self._found(path)[0]

    def column(self, path: Path, schema: Schema) -> pa.Array:
        import pyarrow as pa

        column = self._found(path)[1]
        return pa.nulls(self.length, arrow_type(schema)) if column is None else column

    def _found(self, path: Path) -> tuple[Schema | None, pa.Array | None]:
        """Schema and column; no column where every row is null."""
        name = named(path[0], _names_of(self._batch.value_schema))
        if name is not None:
            return _below(self._batch.value_schema, self._batch.value, (name, *path[1:]), is_there=True)
        first = path[0].lower()
        return _below(*self._of_the_record(first, path), path[1:], is_there=first == "_value")

    def _of_the_record(self, name: str, path: Path) -> tuple[Schema | None, pa.Array | None]:
        batch = self._batch
        if name == "_key":
            return batch.key_schema, batch.key
        if name == "_value":
            return batch.value_schema, batch.value
        if name == "_topic":
            return Schema.STRING_SCHEMA, _constant(batch.topic, Schema.STRING_SCHEMA, self.length)
        if name == "_partition":
            schema = Schema.OPTIONAL_INT32_SCHEMA
            return schema, _constant(batch.kafka_partition, schema, self.length)
        if name == "_offset":
            schema = Schema.OPTIONAL_INT64_SCHEMA
            offsets = batch.kafka_offsets
            return schema, _constant(None, schema, self.length) if offsets is None else offsets
        if name == "_timestamp":
            return TIMESTAMP_SCHEMA, _times(batch.timestamp, self.length)
        if name == "_headers":
            headers: Sequence[Headers | None] = batch.headers or [None] * self.length
            return HEADERS_SCHEMA, column_of(HEADERS_SCHEMA, [texts_of(item) for item in headers])
        if batch.value_schema is None and batch.value is None:
            return None, None
        raise no_field(path, self.names())


class RecordRows:
    """One record, of which key and value may be schemaless: then the kind of each value tells its type."""

    length = 1

    def __init__(self, record: ConnectRecord) -> None:
        self._record = record
        self.are_seen = record.value_schema is None

    def names(self, path: Path = ()) -> Sequence[str]:
        schema, value = self._found(path) if path else (self._record.value_schema, self._record.value)
        if schema is None and (isinstance(value, Mapping) or (path and value is None)):
            return [name for name in value or () if isinstance(name, str)]
        return _names_in(schema, path) if path else _names_of(schema)

    def schema(self, path: Path) -> Schema | None:
        schema, value = self._found(path)
        return schema if schema is not None or value is None else schema_of_value(value)

    def column(self, path: Path, schema: Schema) -> pa.Array:
        found, value = self._found(path)
        return column_of(schema, [value if found is not None else as_data(schema, value)])

    def value(self, path: Path) -> Any:
        """The field's value as it is in the record."""
        return self._found(path)[1]

    def _found(self, path: Path) -> tuple[Schema | None, Any]:
        record = self._record
        name = named(path[0], self.names())
        if name is not None:
            return _value_below(record.value_schema, record.value, (name, *path[1:]), is_there=True)
        first = path[0].lower()
        if first not in _OF_THE_RECORD:
            if record.value_schema is None and (record.value is None or isinstance(record.value, Mapping)):
                return None, None
            raise no_field(path, self.names())
        return _value_below(*self._of_the_record(first), path[1:], is_there=first == "_value")

    def _of_the_record(self, name: str) -> tuple[Schema | None, Any]:
        record = self._record
        if name == "_key":
            return record.key_schema, record.key
        if name == "_value":
            return record.value_schema, record.value
        if name == "_topic":
            return Schema.STRING_SCHEMA, record.topic
        if name == "_partition":
            return Schema.OPTIONAL_INT32_SCHEMA, record.kafka_partition
        if name == "_offset":
            return Schema.OPTIONAL_INT64_SCHEMA, getattr(record, "kafka_offset", None)
        if name == "_timestamp":
            stamp = record.timestamp
            return TIMESTAMP_SCHEMA, None if stamp is None else Timestamp.to_logical(TIMESTAMP_SCHEMA, stamp)
        return HEADERS_SCHEMA, texts_of(record.headers if record.has_headers else None)


def have_schemas(batch: RecordBatch) -> bool:
    """Whether the columns of keys and values have schemas; without, each value's own kind has to be looked at."""
    parts = ((batch.key_schema, batch.key), (batch.value_schema, batch.value))
    return all(schema is not None or column is None for schema, column in parts)


def texts_of(headers: Headers | None) -> dict[str, str | None] | None:
    """The headers as text; of several with one key the last counts."""
    if not headers:
        return None
    return {header.key: convert_to_string(header.schema, header.value) for header in headers}


def named(name: str, names: Sequence[str]) -> str | None:
    """The name among them, in the same letters or else in upper or lower case. Errors: DataError if several fit."""
    if name in names:
        return name
    near = [other for other in names if other.lower() == name.lower()]
    if len(near) > 1:
        raise DataError(f"{name} can be any of the fields {', '.join(near)}")
    return near[0] if near else None


def no_field(path: Path, names: Sequence[str]) -> DataError:
    known = ", ".join(names) or "no fields; _value is the whole"
    return DataError(f"The value has no field {'.'.join(path)}; it has {known}")


def _fields(schema: Schema | None) -> Sequence[Any]:  # Field
    return schema.fields if schema is not None and schema.type is Type.STRUCT else ()


def _names_of(schema: Schema | None) -> Sequence[str]:
    return [field.name for field in _fields(schema)]


def _names_in(schema: Schema | None, path: Path) -> Sequence[str]:
    if schema is None or schema.type is not Type.STRUCT:
        raise DataError(f"{'.'.join(path)}.*: {'.'.join(path)} has no fields")
    return _names_of(schema)


def _below(
    schema: Schema | None, column: pa.Array | None, path: Path, *, is_there: bool
) -> tuple[Schema | None, pa.Array | None]:
    """`is_there`: the outermost is never null. A field of what can be null can be null."""
    can_be_null = False
    for step in path:
        if schema is None:  # and no column: every key or value is null
            return None, None
        can_be_null, is_there = can_be_null or (schema.is_optional and not is_there), False
        field = _field(schema, step, path)
        schema = field.schema
        column = None if column is None else _with_default(schema, column.flatten()[field.index])
    return _as_optional(schema) if can_be_null else schema, column


def _value_below(schema: Schema | None, value: Any, path: Path, *, is_there: bool) -> tuple[Schema | None, Any]:
    can_be_null = False
    for step in path:
        if schema is None:
            if value is not None and not isinstance(value, Mapping):
                raise DataError(f"{step}: only a map has fields, found {type(value).__name__}")
            found = None if value is None else named(step, [name for name in value if isinstance(name, str)])
            value = None if value is None or found is None else value[found]
            continue
        can_be_null, is_there = can_be_null or (schema.is_optional and not is_there), False
        field = _field(schema, step, path)
        schema, value = field.schema, None if value is None else value.get(field)
        if value is None:
            value = schema.default
    return _as_optional(schema) if can_be_null else schema, value


def _field(schema: Schema, step: str, path: Path) -> Any:  # Field
    name = named(step, _names_of(schema))
    if name is None:
        raise no_field(path, _names_of(schema))
    return schema.field(name)


@lru_cache(maxsize=256)  # asked for each record, and the very same schema has to come
def _as_optional(schema: Schema | None) -> Schema | None:
    """The same schema, optional. One with a default needs not be: a null takes it."""
    if schema is None or schema.is_optional or schema.default is not None:
        return schema
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        builder = SchemaBuilder.array(schema.value_schema)
    elif schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        builder = SchemaBuilder.map(schema.key_schema, schema.value_schema)
    else:
        builder = SchemaBuilder(schema.type)
    builder.name(schema.name).version(schema.version).doc(schema.doc)
    if schema.parameters:
        builder.parameters(schema.parameters)
    for field in _fields(schema):
        builder.field(field.name, field.schema)
    return builder.optional().build()


def _with_default(schema: Schema, column: pa.Array) -> pa.Array:
    if schema.default is None or not column.null_count:
        return column
    import pyarrow.compute as pc

    return pc.if_else(column.is_valid(), column, column_of(schema, [schema.default])[0])


def _constant(value: Any, schema: Schema, length: int) -> pa.Array:
    import pyarrow as pa

    return pa.repeat(pa.scalar(value, arrow_type(schema)), length)


def _times(stamp: pa.Array | int | None, length: int) -> pa.Array:
    import pyarrow as pa

    column = pa.repeat(pa.scalar(stamp, pa.int64()), length) if stamp is None or isinstance(stamp, int) else stamp
    return column.cast(arrow_type(TIMESTAMP_SCHEMA))
