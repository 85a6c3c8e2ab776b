"""SchemaProjector: read a value that was written with one schema as a value of another, compatible one."""

from __future__ import annotations

import struct
from typing import Any

from kconnect.api.schema import Schema, Struct
from kconnect.api.schema_types import Type
from kconnect.errors import SchemaProjectorError, string_value

# From narrow to wide: a number may be read as its own type or any further right.
_NUMBERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)


class SchemaProjector:
    """Values from one schema to another: fields added with a default, fields dropped, numbers widened.

    Source: o.a.k.connect.data.SchemaProjector.
    """

    @staticmethod
    def project(source: Schema, value: Any, target: Schema) -> Any:
        """The value converted to the target schema.

        Errors: SchemaProjectorError if types, names or parameters do not match, or a required field has no value.
        """
        _check_compatible(source, target)
        if source.is_optional and not target.is_optional:
            if target.default is None:
                raise SchemaProjectorError(
                    "Writer schema is optional, however, target schema does not provide a default value."
                )
            return target.default if value is None else _project(source, value, target)
        return None if value is None else _project(source, value, target)


def _check_compatible(source: Schema, target: Schema) -> None:
    if source.type is not target.type and not _is_promotable(source.type, target.type):
        raise SchemaProjectorError(f"Schema type mismatch. source type: {source.type} and target type: {target.type}")
    if source.name != target.name:
        raise SchemaProjectorError(
            f"Schema name mismatch. source name: {string_value(source.name)} "
            f"and target name: {string_value(target.name)}"
        )
    if source.parameters != target.parameters:
        raise SchemaProjectorError(
            f"Schema parameters not equal. source parameters: {_shown(source)} and target parameters: {_shown(target)}"
        )


def _shown(schema: Schema) -> str:
    if schema.parameters is None:
        return "null"
    return "{" + ", ".join(f"{key}={value}" for key, value in schema.parameters.items()) + "}"


def _is_promotable(source: Type, target: Type) -> bool:
    return source in _NUMBERS and target in _NUMBERS and _NUMBERS.index(source) <= _NUMBERS.index(target)


def _project(source: Schema, value: Any, target: Schema) -> Any:
    """An existing value; the schemas are compatible."""
    if target.type is Type.STRUCT:
        return _project_struct(source, value, target)
    if target.type is Type.ARRAY:
        inner = _both(source.value_schema, target.value_schema)
        return [SchemaProjector.project(inner[0], item, inner[1]) for item in value]
    if target.type is Type.MAP:
        keys = _both(source.key_schema, target.key_schema)
        items = _both(source.value_schema, target.value_schema)
        return {
            SchemaProjector.project(keys[0], key, keys[1]): SchemaProjector.project(items[0], item, items[1])
            for key, item in value.items()
        }
    return _promoted(value, target.type)


def _project_struct(source: Schema, value: Struct, target: Schema) -> Struct:
    projected = Struct(target)
    for field in target.fields:
        known = source.field(field.name)
        if known is not None:
            try:
                projected.put(field.name, SchemaProjector.project(known.schema, value.get(field.name), field.schema))
            except SchemaProjectorError as err:
                raise SchemaProjectorError(f"Error projecting {known.name}") from err
        elif field.schema.is_optional:
            continue
        elif field.schema.default is not None:
            projected.put(field.name, field.schema.default)
        else:
            raise SchemaProjectorError(f"Required field `{field.name}` is missing from source schema: {source}")
    return projected


def _promoted(value: Any, target: Type) -> Any:
    """Ints become floats where the target is one; int to int needs nothing, as Python has one int."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if target is Type.FLOAT64:
        return float(value)
    if target is Type.FLOAT32:
        return struct.unpack("f", struct.pack("f", value))[0]
    return value


def _both(source: Schema | None, target: Schema | None) -> tuple[Schema, Schema]:
    if source is None or target is None:
        raise SchemaProjectorError("A schema inside is missing: neither side can be read with the other")
    return source, target
