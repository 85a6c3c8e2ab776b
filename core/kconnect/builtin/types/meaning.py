"""What values of Debezium's schemas mean: numbers and texts that are times, structs that are decimals. Pure.

Connect's own sinks take io.debezium.time.MicroTimestamp for what its INT64 is; ours for the time. A Decimal of more
digits than a column of Arrow, Spark or a table format has is its exact text; for those who hold it, `holds_wide`.
Schemas without any of these inside come back as they are, after one look.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import Decimal, Schema, SchemaBuilder, Struct, Type
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.column_type import MOST_DIGITS, ColumnType, schema_of
from kconnect.builtin.types.declared import read_column
from kconnect.builtin.types.fitting import NotFittingError, data_error, misfit
from kconnect.builtin.types.foreign_schemas import CONNECT_NAMES
from kconnect.builtin.types.reading import reader_of

if TYPE_CHECKING:
    import pyarrow as pa

VARIABLE_SCALE: Final = "io.debezium.data.VariableScaleDecimal"


def meant_schema(schema: Schema) -> Schema:
    """The schema of what values of this one mean; itself where it says so already."""
    found = _meaning(schema, holds_wide=False)
    return schema if found is None else found.schema


def meant_value(schema: Schema | None, value: Any, *, holds_wide: bool = False) -> Any:
    """What a value of this schema means. Errors: DataError that names the field."""
    found = None if schema is None else _meaning(schema, holds_wide=holds_wide)
    if found is None or value is None:
        return value
    try:
        return found.value(value)
    except NotFittingError as error:
        raise data_error(error) from None  # which says all of it, without one error a level


def meant_values(
    schema: Schema | None, values: Sequence[Any], *, holds_wide: bool = False
) -> tuple[Schema | None, Sequence[Any]]:
    """What values of this schema mean, with their schema. Errors: as of `meant_value`."""
    found = None if schema is None else _meaning(schema, holds_wide=holds_wide)
    if found is None:
        return schema, values
    return found.schema, [meant_value(schema, value, holds_wide=holds_wide) for value in values]


def meant_column(schema: Schema | None, column: pa.Array | None) -> pa.Array | None:
    """What a column of this schema means. Errors: DataError where single values must tell which one it is."""
    found = None if schema is None else _meaning(schema, holds_wide=False)
    if found is None or column is None:
        return column
    try:
        return found.column(column)
    except NotFittingError as error:
        raise data_error(error) from None  # as above


@dataclass(frozen=True, slots=True)
class _Meaning:
    schema: Schema
    value: Callable[[Any], Any]
    """Never called with None. Errors: NotFittingError."""
    column: Callable[[Any], Any]


def _meaning(schema: Schema, *, holds_wide: bool) -> _Meaning | None:
    """Returns None for a schema that means what it is."""
    of_all = _KNOWN[holds_wide]
    known = of_all.get(id(schema))
    if known is None or known[0] is not schema:
        if len(of_all) >= _MOST_KNOWN:
            of_all.clear()
        # Kept alive, so that its id is no other's
        known = of_all[id(schema)] = (schema, _found(schema, holds_wide))
    return known[1]


_KNOWN: Final[dict[bool, dict[int, tuple[Schema, _Meaning | None]]]] = {True: {}, False: {}}
_MOST_KNOWN: Final = 1000


def _found(schema: Schema, holds_wide: bool) -> _Meaning | None:
    kind = _kind(schema)
    if kind is not None:
        return _of_leaf(kind, schema)
    if schema.name == Decimal.LOGICAL_NAME:
        if holds_wide or not (_is_wide(schema) or Decimal.scale(schema) < 0):
            return None
        return _of_wide(schema) if _is_wide(schema) else _of_hundreds(schema)
    if schema.type is Type.STRUCT:
        return _of_struct(schema, [_found(field.schema, holds_wide) for field in schema.fields])
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        inner = _found(schema.value_schema, holds_wide)
        return None if inner is None else _of_list(schema, inner)
    if schema.type is Type.MAP and schema.value_schema is not None:
        inner = _found(schema.value_schema, holds_wide)
        return None if inner is None else _of_map(schema, inner)
    return None


def _kind(schema: Schema) -> ColumnType | None:
    if schema.name is None or not schema.name.startswith("io.debezium."):
        return None
    if schema.name == VARIABLE_SCALE:
        return ColumnType("string")
    kind = CONNECT_NAMES.get(schema.name)
    return None if kind is None or kind.name in ("uuid", "json") else kind


def _is_wide(schema: Schema) -> bool:
    zeros = max(0, -Decimal.scale(schema))
    return abs(Decimal.scale(schema)) > MOST_DIGITS or (Decimal.precision(schema) or 0) + zeros > MOST_DIGITS


def _of_hundreds(schema: Schema) -> _Meaning:
    """A Decimal that counts hundreds, say, as a whole number: no format of a table has negative scales."""
    builder, digits = Decimal.builder(0), Decimal.precision(schema)
    if digits is not None:
        builder.parameter(Decimal.PRECISION_FIELD, str(digits - Decimal.scale(schema)))

    def value(given: decimal.Decimal) -> decimal.Decimal:
        found = decimal.Decimal(int(given))
        if found.adjusted() >= MOST_DIGITS:
            raise misfit(given, ColumnType("decimal", digits=MOST_DIGITS))
        return found

    made = _of_builder(builder, schema, value)
    return _Meaning(made, value, lambda column: _rebuilt(made, value, schema, column))


def _of_builder(builder: SchemaBuilder, schema: Schema, value: Callable[[Any], Any]) -> Schema:
    """What the builder makes, as optional as the schema, and with its default."""
    if schema.default is not None:
        builder.default(value(schema.default))
    return (builder.optional() if schema.is_optional else builder).build()


def _of_wide(schema: Schema) -> _Meaning:
    """A Decimal as text. Confluent's JDBC source gives all that have no scale 127 digits, most of them zeros."""
    is_any_scale = Decimal.scale(schema) == _ANY_SCALE

    def value(given: decimal.Decimal) -> str:
        text = f"{given:f}"
        return text.rstrip("0").rstrip(".") if is_any_scale and "." in text else text

    made = _of_builder(SchemaBuilder.string(), schema, value)
    return _Meaning(made, value, lambda column: _rebuilt(made, value, schema, column))


_ANY_SCALE: Final = 127


def _of_leaf(kind: ColumnType, schema: Schema) -> _Meaning:
    made = schema_of(kind, is_required=not schema.is_optional, is_fine=True)
    read = reader_of(kind, made, schema)
    if schema.default is not None:
        with suppress(NotFittingError):  # one that means nothing is none
            made = schema_of(kind, is_required=not schema.is_optional, is_fine=True, default=read(schema.default))

    def column(given: pa.Array) -> pa.Array:
        import pyarrow as pa

        try:
            return read_column(kind, made, schema, given)
        except pa.ArrowException:
            return _rebuilt(made, read, schema, given)

    return _Meaning(made, read, column)


def _of_struct(schema: Schema, found: Sequence[_Meaning | None]) -> _Meaning | None:
    if all(one is None for one in found):
        return None
    builder = _like(SchemaBuilder.struct(), schema)
    for field, one in zip(schema.fields, found, strict=True):
        builder.field(field.name, field.schema if one is None else one.schema)
    made = builder.build()
    parts = list(zip(schema.fields, found, strict=True))

    def value(given: Struct) -> Struct:
        values = []
        for field, one in parts:
            item = given.get_without_default(field)  # null stays null, as in columns
            try:
                values.append(item if one is None or item is None else one.value(item))
            except NotFittingError as error:
                raise error.within(field.name) from error
        return Struct.from_values(made, values)

    def column(given: pa.StructArray) -> pa.StructArray:
        import pyarrow as pa

        children = [
            child if one is None else one.column(child) for child, one in zip(given.flatten(), found, strict=True)
        ]
        names = [pa.field(field.name, child.type) for field, child in zip(schema.fields, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=names, mask=given.is_null() if given.null_count else None)

    return _Meaning(made, value, column)


def _of_list(schema: Schema, inner: _Meaning) -> _Meaning:
    made = _like(SchemaBuilder.array(inner.schema), schema).build()

    def value(given: list[Any]) -> list[Any]:
        return [None if item is None else inner.value(item) for item in given]

    return _Meaning(made, value, lambda column: _rebuilt(made, value, schema, column))


def _of_map(schema: Schema, inner: _Meaning) -> _Meaning:
    assert schema.key_schema is not None
    made = _like(SchemaBuilder.map(schema.key_schema, inner.schema), schema).build()

    def value(given: dict[Any, Any]) -> dict[Any, Any]:
        return {key: None if item is None else inner.value(item) for key, item in given.items()}

    return _Meaning(made, value, lambda column: _rebuilt(made, value, schema, column))


def _rebuilt(made: Schema, value: Callable[[Any], Any], schema: Schema, column: pa.Array) -> pa.Array:
    """A column by its values: lists and maps of times are rare."""
    import pyarrow as pa

    from kconnect.api.columns import column_of, values_of

    if column.null_count == len(column):
        return pa.nulls(len(column), arrow_type(made))
    return column_of(made, [None if one is None else value(one) for one in values_of(schema, column, len(column))])


def _like(builder: SchemaBuilder, schema: Schema) -> SchemaBuilder:
    builder.name(schema.name).version(schema.version).doc(schema.doc)
    if schema.parameters:
        builder.parameters(schema.parameters)
    return builder.optional() if schema.is_optional else builder
