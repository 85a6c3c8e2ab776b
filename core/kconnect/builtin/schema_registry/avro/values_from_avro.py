"""Datums that AvroCodec read to Connect values. Source: io.confluent.connect.avro.AvroData.toConnectData."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kconnect.api import DataError, Schema, Struct, Type
from kconnect.builtin.schema_registry.avro.avro_codec import branch_key
from kconnect.builtin.schema_registry.avro.avro_names import is_union
from kconnect.builtin.schema_registry.avro.avro_schema import AvroType
from kconnect.builtin.schema_registry.avro.schema_from_avro import TO_LOGICAL, optional_branch
from kconnect.builtin.schema_registry.avro.schema_to_avro import ANYTHING

Reader = Callable[[Any], Any]


def reader_of(schema: Schema, avro: AvroType) -> Reader:
    """A function from datums of `avro` to values of its Connect schema. Errors: the function's DataError."""
    if avro.kind == "union":
        if is_union(schema) and optional_branch(avro) is None and len(avro.branches) > 1:
            return _union(schema, avro)
        index = next(index for index, branch in enumerate(avro.branches) if branch.kind != "null")
        read, key = reader_of(schema, avro.branches[index]), branch_key(index)
        return lambda datum: None if datum is None else read(datum[key])
    if schema.type is Type.STRUCT:
        return _struct(schema, avro)
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        read_item = reader_of(schema.value_schema, avro.inner)
        return lambda datum: [read_item(item) for item in datum]
    if schema.type is Type.MAP:
        return _map(schema, avro)
    logical = TO_LOGICAL.get(schema.name or "")
    if logical is not None:
        return lambda datum: logical(schema, datum)
    if schema.type in (Type.INT8, Type.INT16):
        bits = 8 if schema.type is Type.INT8 else 16
        return lambda datum: (datum + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)  # Java's byteValue()
    return _same


def _same(datum: Any) -> Any:
    return datum


def _struct(schema: Schema, avro: AvroType) -> Reader:
    parts = [
        (entry.name, reader_of(field.schema, entry.type))
        for entry, field in zip(avro.fields, schema.fields, strict=True)
    ]

    def struct(datum: Any) -> Struct:
        return Struct.from_values(schema, [read(datum[name]) for name, read in parts])

    return struct


def _map(schema: Schema, avro: AvroType) -> Reader:
    assert schema.value_schema is not None
    assert schema.key_schema is not None
    if avro.kind == "map":
        read = reader_of(schema.value_schema, avro.inner)
        return lambda datum: {key: read(item) for key, item in datum.items()}
    types = {entry.name: entry.type for entry in avro.inner.fields}
    read_key = reader_of(schema.key_schema, types["key"])
    read_value = reader_of(schema.value_schema, types["value"])

    def entries(datum: Any) -> dict[Any, Any]:
        try:
            return {read_key(entry["key"]): read_value(entry["value"]) for entry in datum}
        except TypeError as error:
            raise DataError("A key of this map is a list or a map, which Python cannot have as a key") from error

    return entries


def _union(schema: Schema, avro: AvroType) -> Reader:
    members: dict[str, tuple[int, Reader]] = {}
    position = 0
    for index, branch in enumerate(avro.branches):
        if branch.kind != "null":
            members[branch_key(index)] = (position, reader_of(schema.fields[position].schema, branch))
            position += 1
    count = position

    def union(datum: Any) -> Struct | None:
        if datum is None:
            return None
        ((key, inner),) = datum.items()
        place, read = members[key]
        values: list[Any] = [None] * count
        values[place] = read(inner)
        return Struct.from_values(schema, values)

    return union


def schemaless_value(datum: Any) -> Any:
    """The value in a datum of ANYTHING."""
    for field in ANYTHING.fields:
        found = datum[field.name]
        if found is None:
            continue
        value = found[branch_key(1)]
        if field.name == "array":
            return [schemaless_value(item) for item in value]
        if field.name == "map":
            try:
                return {schemaless_value(entry["key"]): schemaless_value(entry["value"]) for entry in value}
            except TypeError as error:
                raise DataError("A key of this map is a list or a map, which Python cannot have as a key") from error
        return value
    return None
