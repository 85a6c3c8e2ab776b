"""Random schemas for Avro, with enums, fixed and unions, and values of them, drawn from a seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

from kconnect.api import Date, Decimal, Schema, SchemaBuilder, Struct, Type
from kconnect.builtin.schema_registry.avro.avro_names import ENUM, FIXED_SIZE, UNION
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM, GENERAL_UNION
from kit.random_data import FIELDS, random_schema, random_value

__all__ = ["random_row_schema", "random_rows"]

_SYMBOLS = ("RED", "GREEN", "BLUE", "x1")
_FEW = (0, 0, 1, 2, 3)
_SIZES = (1, 5, 8, 9, 16)
_KEYS = (Schema.STRING_SCHEMA,) * 3 + (Schema.INT32_SCHEMA, Schema.BYTES_SCHEMA, Date.SCHEMA, Decimal.schema(2))


def random_row_schema(random: Random, *, general: bool = False, depth: int = 3) -> Schema:
    """A struct of up to six fields; `general` has enums and unions as `generalized.sum.type.support` does."""
    return _Schemas(random, general).struct(depth).build()


class _Schemas:
    def __init__(self, random: Random, general: bool) -> None:
        self._random = random
        self._general = general
        self._numbers: Iterator[int] = itertools.count()

    def struct(self, depth: int) -> SchemaBuilder:
        builder = SchemaBuilder.struct().name(f"com.example.Row{next(self._numbers)}")
        for name in self._random.sample(FIELDS, self._random.randint(1, 6)):
            builder.field(name, self._any(depth - 1))
        return builder

    def _any(self, depth: int) -> Schema:
        draw = self._random.random()
        if depth and draw < 0.15:
            return self._maybe(self.struct(depth))
        if depth and draw < 0.3:
            return self._maybe(SchemaBuilder.array(self._any(depth - 1)))
        if depth and draw < 0.4:
            entries = SchemaBuilder.map(self._random.choice(_KEYS), self._any(depth - 1))
            return self._maybe(entries.name(f"com.example.Entry{next(self._numbers)}"))
        if depth and draw < 0.45:
            return self._union(depth - 1)
        if draw < 0.52:
            return self._maybe(self._enum())
        if draw < 0.58:
            size = str(self._random.choice(_SIZES))
            fixed = SchemaBuilder.bytes().name(f"com.example.Fixed{next(self._numbers)}")
            return self._maybe(fixed.parameter(FIXED_SIZE, size))
        while True:
            found = random_schema(self._random, 0)
            if not isinstance(found.default, str) or found.default == _encodable(found.default):
                return found

    def _enum(self) -> SchemaBuilder:
        kind, name = GENERAL_ENUM if self._general else ENUM, f"com.example.Enum{next(self._numbers)}"
        builder = SchemaBuilder.string().name(name).parameter(kind, name)
        for symbol in _SYMBOLS:
            builder.parameter(f"{kind}.{symbol}", symbol)
        return builder

    def _union(self, depth: int) -> Schema:
        builder = SchemaBuilder.struct().name(UNION)
        if self._general:
            name = f"connect_union_{next(self._numbers)}"
            builder = SchemaBuilder.struct().name(name).parameter(GENERAL_UNION, name)
        builder.field("string", Schema.OPTIONAL_STRING_SCHEMA).field("long", Schema.OPTIONAL_INT64_SCHEMA)
        if depth:
            builder.field(f"Row{next(self._numbers)}", self.struct(depth).optional().build())
        return self._maybe(builder)

    def _maybe(self, builder: SchemaBuilder) -> Schema:
        return (builder.optional() if self._random.random() < 0.5 else builder).build()


def random_rows(random: Random, schema: Schema, count: int) -> list[Any]:
    """So many values that `column_of` takes."""
    return [_value(random, schema) for _ in range(count)]


def _value(random: Random, schema: Schema) -> Any:
    if schema.is_optional and random.random() < 0.2:
        return None
    parameters = schema.parameters or {}
    if schema.name == UNION or GENERAL_UNION in parameters:
        chosen = random.choice(schema.fields)
        return Struct(schema, {chosen.name: _given(random, chosen.schema)})
    if ENUM in parameters or GENERAL_ENUM in parameters:
        return random.choice(_SYMBOLS)
    if FIXED_SIZE in parameters:
        return random.randbytes(int(parameters[FIXED_SIZE]))
    if schema.type is Type.STRUCT:
        return Struct.from_values(schema, [_value(random, field.schema) for field in schema.fields])
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        is_long = schema.value_schema.type.is_primitive and random.random() < 0.03
        count = random.randint(9, 20) if is_long else random.choice(_FEW)
        return [_value(random, schema.value_schema) for _ in range(count)]
    if schema.type is Type.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        return {
            _given(random, schema.key_schema): _value(random, schema.value_schema) for _ in range(random.choice(_FEW))
        }
    found = random_value(random, schema, complete=True)
    if isinstance(found, str):
        found = _encodable(found)
        return found * 900 if random.random() < 0.02 else found
    return found


def _given(random: Random, schema: Schema) -> Any:
    """A value that is not null."""
    while True:
        found = _value(random, schema)
        if found is not None:
            return found


def _encodable(text: str) -> str:
    """The text without lone surrogates."""
    return text.encode("utf-8", "replace").decode()
