"""Connect schemas for what was seen in values without schema, and the values as data of them. Pure."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any, Final

from kconnect.api import Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp, Type
from kconnect.builtin.types.fitting import as_text
from kconnect.builtin.types.leaf_columns import exact_decimal
from kconnect.builtin.types.seen import Kind, Seen, see


def schema_of_seen(seen: Seen, *, keeps_untyped: bool = True) -> Schema:
    """The schema, optional all the way down. What was null alone is text, or left out of structs (`keeps_untyped`)."""
    if seen.kind is Kind.STRUCT:
        builder = SchemaBuilder.struct().optional()
        for name, member in seen.members.items():
            if keeps_untyped or member.kind is not Kind.NOTHING:
                builder.field(name, schema_of_seen(member, keeps_untyped=keeps_untyped))
        return builder.build()
    if seen.item is not None:
        return SchemaBuilder.array(schema_of_seen(seen.item, keeps_untyped=keeps_untyped)).optional().build()
    if seen.numbers is None:
        return _SCHEMAS.get(seen.kind, Schema.OPTIONAL_STRING_SCHEMA)
    kind = seen.type
    if str(kind).startswith("decimal"):
        return Decimal.builder(kind.scale).optional().build()
    return _NUMBERS.get(str(kind), Schema.OPTIONAL_STRING_SCHEMA)


def schema_of_value(value: Any) -> Schema:
    """The schema of a value without one, by what is seen in it. Errors: DataError."""
    found = _PLAIN.get(type(value))
    if found is not None and not (type(value) is int and not _LEAST <= value < -_LEAST):
        return found
    return value.schema if isinstance(value, Struct) else schema_of_seen(see([value]))


def as_data(schema: Schema, value: Any) -> Any:
    """A value without schema as one of a schema that was made for it: mappings are structs, numbers of one type."""
    if value is None:
        return None
    if isinstance(value, Mapping) and schema.type is Type.STRUCT:
        return Struct.from_values(schema, [as_data(field.schema, value.get(field.name)) for field in schema.fields])
    if isinstance(value, list) and schema.type is Type.ARRAY and schema.value_schema is not None:
        return [as_data(schema.value_schema, item) for item in value]
    if schema.name == Decimal.LOGICAL_NAME:
        number = exact_decimal(value) if isinstance(value, float) else decimal.Decimal(value)
        return number.quantize(decimal.Decimal(1).scaleb(-Decimal.scale(schema)), context=_EXACT)
    if schema.type is Type.FLOAT64:
        return float(value)
    if schema.type is Type.STRING and not isinstance(value, str):
        return as_text(value)
    return value


_EXACT: Final = decimal.Context(prec=100_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_LEAST: Final = -(1 << 63)
# Those that need no look
_PLAIN: Final[Mapping[type, Schema]] = {
    bool: Schema.OPTIONAL_BOOLEAN_SCHEMA,
    int: Schema.OPTIONAL_INT64_SCHEMA,
    float: Schema.OPTIONAL_FLOAT64_SCHEMA,
    str: Schema.OPTIONAL_STRING_SCHEMA,
}
_NUMBERS: Final = {"int64": Schema.OPTIONAL_INT64_SCHEMA, "double": Schema.OPTIONAL_FLOAT64_SCHEMA}
_SCHEMAS: Final[Mapping[Kind, Schema]] = {
    Kind.BOOL: Schema.OPTIONAL_BOOLEAN_SCHEMA,
    Kind.BYTES: Schema.OPTIONAL_BYTES_SCHEMA,
    Kind.DATE: Date.builder().optional().build(),
    Kind.TIME: Time.builder().optional().build(),
    Kind.TIMESTAMP: Timestamp.builder().optional().build(),
}
