"""Which part of a record a transformation works on: `X$Key` and `X$Value` are the same code over another part.

Also the words of Java's checks (o.a.k.connect.transforms.util.Requirements), and the memory for changed schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import (
    ConfigDef,
    ConnectRecord,
    DataError,
    RecordBatch,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    Struct,
)
from kconnect.java.compat.to_string import java_class

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

REPLACE_NULL_CONFIG = "replace.null.with.default"


def with_replace_null(table: ConfigDef) -> ConfigDef:
    """The table with the setting that several transformations have."""
    return table.define(
        REPLACE_NULL_CONFIG,
        ConfigDef.Type.BOOLEAN,
        True,
        None,
        ConfigDef.Importance.MEDIUM,
        "Whether fields that are null take the default of their schema, where it has one.",
    )


class Part:
    """Mixed in with PART = "key" or "value": reads and replaces that part of records and batches."""

    PART: ClassVar[str] = "value"

    def _schema(self, record: ConnectRecord | RecordBatch) -> Schema | None:
        return record.key_schema if self.PART == "key" else record.value_schema

    def _value(self, record: ConnectRecord) -> Any:
        return record.key if self.PART == "key" else record.value

    def _column(self, batch: RecordBatch) -> Any:  # pa.Array | None
        return batch.key if self.PART == "key" else batch.value

    def _replace(self, record: R, schema: Schema | None, value: Any) -> R:
        if self.PART == "key":
            return record.new_record(key_schema=schema, key=value)
        return record.new_record(value_schema=schema, value=value)

    def _replace_column(self, batch: RecordBatch, schema: Schema, column: Any) -> RecordBatch:
        if self.PART == "key":
            return batch.with_(key_schema=schema, key=column)
        return batch.with_(value_schema=schema, value=column)


class SchemaMemory:
    """Remembers the changed schema for each schema seen, so that equal inputs give the very same output object.

    The schema of the record before is found by identity, without hashing. Java keeps 16; so do we.
    """

    SIZE = 16

    def __init__(self, change: Callable[[Schema], Schema]) -> None:
        self._change = change
        self._changed: dict[Schema, Schema] = {}
        self._last: Schema | None = None
        self._last_changed: Schema | None = None

    def changed(self, schema: Schema) -> Schema:
        if schema is self._last and self._last_changed is not None:
            return self._last_changed
        found = self._changed.get(schema)
        if found is None:
            found = self._change(schema)
            if len(self._changed) >= self.SIZE:
                del self._changed[next(iter(self._changed))]
            self._changed[schema] = found
        self._last, self._last_changed = schema, found
        return found


def struct_like(schema: Schema) -> SchemaBuilder:
    """A struct without fields, with name, version, doc and parameters of the given one. Source: SchemaUtil."""
    builder = SchemaBuilder.struct().name(schema.name).version(schema.version).doc(schema.doc)
    return builder.parameters(schema.parameters) if schema.parameters else builder


def kept_child(schema: Schema, child: pa.Array, replace_null: bool) -> pa.Array | None:
    """A field that is there already, with its default for nulls; None when only records can tell what is right."""
    if not child.null_count:
        return child
    if schema.default is not None and replace_null:
        default = default_scalar(schema, child.type)
        return None if default is None else child.fill_null(default)
    return child if schema.is_optional else None


def default_scalar(schema: Schema, kind: pa.DataType) -> pa.Scalar | None:
    """A field's default; None when only records can tell what is right, or hold it: half a surrogate pair."""
    import pyarrow as pa

    if schema.name is not None or not schema.type.is_primitive:
        return None
    try:
        return pa.scalar(schema.default, kind)
    except UnicodeEncodeError:
        return None


def require_map(value: Any, purpose: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {_class_name(value)}")
    return value


def require_struct(value: Any, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {_class_name(value)}")
    return value


def require_sink_record(record: ConnectRecord, purpose: str) -> SinkRecord:
    if not isinstance(record, SinkRecord):
        name = (
            "org.apache.kafka.connect.source.SourceRecord" if isinstance(record, SourceRecord) else _class_name(record)
        )
        raise DataError(f"Only SinkRecord supported for [{purpose}], found: {name}")
    return record


def _class_name(value: Any) -> str:
    return "null" if value is None else java_class(value)
