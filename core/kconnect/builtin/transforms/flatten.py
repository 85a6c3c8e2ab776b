"""Flatten: nested structs or maps as one, with joined names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import (
    ConfigDef,
    ConnectRecord,
    DataError,
    RecordBatch,
    Schema,
    SchemaBuilder,
    Struct,
    Transformation,
    Type,
)
from kconnect.builtin.transforms.cast_values import schemaless_type
from kconnect.builtin.transforms.record_part import (
    Part,
    SchemaMemory,
    default_scalar,
    kept_child,
    require_map,
    require_struct,
    struct_like,
)
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.to_string import java_class

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "flattening"
DELIMITER_CONFIG = "delimiter"

CONFIG = ConfigDef().define(
    DELIMITER_CONFIG,
    ConfigDef.Type.STRING,
    ".",
    None,
    ConfigDef.Importance.MEDIUM,
    "What stands between the names of the levels.",
)


class _Flatten(Part, Transformation):
    """Lists stay as they are; maps beside a schema are refused. Source: o.a.k.connect.transforms.Flatten."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._delimiter: str = CONFIG.parse(configs)[DELIMITER_CONFIG]
        self._schemas = SchemaMemory(self._flat_schema)

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[Any, Any] = {}
            self._flatten_map(require_map(value, PURPOSE), "", flat)
            return self._replace(record, None, flat)
        struct = require_struct(value, PURPOSE)
        updated = Struct(self._schemas.changed(schema))
        self._flatten_struct(struct, "", updated)
        return self._replace(record, updated.schema, updated)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """The innermost child columns side by side, not copied. Null rows go by records: they keep their old schema."""
        schema, column = self._schema(batch), self._column(batch)
        if column is None:
            return batch
        if schema is None or schema.type is not Type.STRUCT or column.null_count:
            return NotImplemented
        import pyarrow as pa

        updated = self._schemas.changed(schema)
        leaves = _leaves(schema, column)
        if leaves is None or len(leaves) != len(updated.fields) or not leaves:
            return NotImplemented
        fields = [pa.field(field.name, leaf.type) for field, leaf in zip(updated.fields, leaves, strict=True)]
        return self._replace_column(batch, updated, pa.StructArray.from_arrays(leaves, fields=fields))

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _name(self, prefix: str, name: str) -> str:
        return prefix + self._delimiter + name if prefix else name

    def _flat_schema(self, schema: Schema) -> Schema:
        builder = struct_like(schema)
        self._add_fields(builder, schema, "", schema.is_optional, schema.default)
        return builder.build()

    def _add_fields(
        self, builder: SchemaBuilder, schema: Schema, prefix: str, is_optional: bool, given: Struct | None
    ) -> None:
        """The fields of one level. Within what is optional all is optional; `given` is the default of this level."""
        for field in schema.fields:
            name, inner = self._name(prefix, field.name), field.schema
            optional = is_optional or inner.is_optional
            default = inner.default if inner.default is not None or given is None else given.get(field)
            if inner.type is Type.STRUCT:
                self._add_fields(builder, inner, name, optional, default)
            elif inner.type is Type.MAP:
                raise _unsupported(name)
            else:
                builder.field(name, _leaf_schema(inner, optional, default))

    def _flatten_struct(self, struct: Struct | None, prefix: str, updated: Struct) -> None:
        if struct is None:
            return
        for field in struct.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is Type.STRUCT:
                self._flatten_struct(struct.get_without_default(field), name, updated)
            elif field.schema.type is Type.MAP:
                raise _unsupported(name)
            else:
                updated.put(name, struct.get(field))

    def _flatten_map(self, value: dict[Any, Any], prefix: str, flat: dict[Any, Any]) -> None:
        for key, item in value.items():
            name = self._name(prefix, key)
            kind = None if item is None else schemaless_type(item, "Flatten")
            if kind is Type.MAP:
                self._flatten_map(item, name, flat)
            elif kind is Type.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support class {java_class(item)} for record without schemas "
                    f"(for field {name})."
                )
            else:
                flat[name] = item


class FlattenKey(_Flatten):
    """`org.apache.kafka.connect.transforms.Flatten$Key`."""

    PART: ClassVar[str] = "key"


class FlattenValue(_Flatten):
    """`org.apache.kafka.connect.transforms.Flatten$Value`."""

    PART: ClassVar[str] = "value"


def _leaf_schema(schema: Schema, is_optional: bool, default: Any) -> Schema:
    builder = SchemaBuilder.array(schema.value_schema) if schema.type is Type.ARRAY else SchemaBuilder(schema.type)  # type: ignore[arg-type]  # the builder refuses None
    builder.name(schema.name).version(schema.version).doc(schema.doc).parameters(schema.parameters or {})
    if is_optional:
        builder.optional()
    if default is not None:
        builder.default(default)
    return builder.build()


def _leaves(schema: Schema, column: pa.Array) -> list[pa.Array] | None:
    """The columns of all levels in the order of their names; None where only records can tell what is right."""
    found: list[pa.Array] = []
    for field, child in zip(schema.fields, column.flatten(), strict=True):
        if field.schema.type is Type.STRUCT:
            below = _leaves(field.schema, child)
            if below is None:
                return None
            found += below
            continue
        if column.null_count == 0:
            kept = kept_child(field.schema, child, True)
        else:  # a default is only for rows in which the struct around the field is there
            kept = _kept_below_nulls(field.schema, child, column)
        if kept is None:
            return None
        found.append(kept)
    return found


def _kept_below_nulls(schema: Schema, child: pa.Array, column: pa.Array) -> pa.Array | None:
    if child.null_count <= column.null_count:
        return child
    if schema.default is None:
        return child if schema.is_optional else None
    default = default_scalar(schema, child.type)
    if default is None:
        return None
    import pyarrow.compute as pc

    is_missing = pc.and_(child.is_null(), column.is_valid())
    return pc.if_else(is_missing, default, child)


def _unsupported(name: str) -> DataError:
    return DataError(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
