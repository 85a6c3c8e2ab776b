"""Connect values as the datums that AvroCodec writes and reads.

What has to be decided is decided once a schema: each part of it becomes a function, and a record is a call of
these. Source: io.confluent.connect.avro.AvroData.fromConnectData and toConnectData.

Differs: a schema that the registry had already gets times in its unit, and decimals in its scale; Java writes
milliseconds as microseconds then, and 1.25 as 0.0125.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any, Final

from kconnect.api import DataError, Date, Decimal, Schema, Struct, Time, Timestamp, Type
from kconnect.api.schema_types import LOGICAL_CHECKS, TYPE_CHECKS
from kconnect.builtin.schema_registry.avro.avro_codec import branch_key
from kconnect.builtin.schema_registry.avro.avro_names import AvroOptions, is_union
from kconnect.builtin.schema_registry.avro.avro_schema import NO_DEFAULT, AvroField, AvroType
from kconnect.builtin.schema_registry.avro.schema_from_avro import TO_LOGICAL, optional_branch
from kconnect.builtin.schema_registry.avro.schema_to_avro import ANYTHING, TO_PLAIN

Writer = Callable[[Any], Any]

_KINDS: Final = {
    Type.INT8: ("int", "long", "float", "double"),
    Type.INT16: ("int", "long", "float", "double"),
    Type.INT32: ("int", "long", "float", "double"),
    Type.INT64: ("long", "float", "double"),
    Type.FLOAT32: ("float", "double"),
    Type.FLOAT64: ("double",),
    Type.BOOLEAN: ("boolean",),
    Type.STRING: ("string", "enum"),
    Type.BYTES: ("bytes", "fixed"),
    Type.ARRAY: ("array",),
    Type.MAP: ("map", "array"),
    Type.STRUCT: ("record",),
}
"""Kinds of Avro schema that take a type, the nearest first."""

_UNITS: Final = {
    Date.LOGICAL_NAME: {"date": 1},
    Time.LOGICAL_NAME: {"time-millis": 1, "time-micros": 1000},
    Timestamp.LOGICAL_NAME: {
        f"{local}timestamp-{unit}": count
        for local in ("", "local-")
        for unit, count in (("millis", 1), ("micros", 1000), ("nanos", 1_000_000))
    },
}
"""How many of a logical type's units are one of Connect's, which has days and milliseconds."""

_ALL_UNITS: Final = frozenset(name for units in _UNITS.values() for name in units)
_EXACT: Final = decimal.Context(
    decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[decimal.Inexact, decimal.InvalidOperation]
)


def writer_of(schema: Schema | None, avro: AvroType, options: AvroOptions) -> Writer:
    """A function from values of `schema` to datums of `avro`, which may be one that the registry had already.

    Errors: DataError, here where the schemas do not fit and from the function where a value does not.
    """
    if schema is None:
        return schemaless
    return _Writers(options).of(schema, avro)


class _Writers:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options

    def of(self, schema: Schema | None, avro: AvroType) -> Writer:
        if schema is None:
            return schemaless
        if avro.kind == "union":
            return self._union(schema, avro) if is_union(schema) else self._nullable(schema, avro)
        write = self._plain(schema, avro)

        def required(value: Any) -> Any:
            if value is None:
                raise DataError("Found null value for non-optional schema")
            return write(value)

        return required

    def _nullable(self, schema: Schema, avro: AvroType) -> Writer:
        index = branch_of(schema, avro, self._options)
        write, key = self._plain(schema, avro.branches[index]), branch_key(index)
        takes_null = schema.is_optional and any(branch.kind == "null" for branch in avro.branches)

        def nullable(value: Any) -> Any:
            if value is not None:
                return {key: write(value)}
            if not takes_null:
                raise DataError("Found null value for non-optional schema")
            return None

        return nullable

    def _union(self, schema: Schema, avro: AvroType) -> Writer:
        indexes = union_branches(schema, avro, self._options)
        writers = [
            (position, branch_key(index), self._plain(schema.fields[position].schema, avro.branches[index]))
            for position, index in enumerate(indexes)
        ]

        def union(value: Any) -> Any:
            if value is None:
                if not schema.is_optional:
                    raise DataError("Found null value for non-optional schema")
                return None
            for position, key, write in writers:
                member = value[schema.fields[position].name]
                if member is not None:
                    return {key: write(member)}
            if schema.is_optional:
                return None
            raise DataError("No field of the union has a value")

        return union

    def _plain(self, schema: Schema, avro: AvroType) -> Writer:
        """For values that are there."""
        if avro.kind not in _KINDS[schema.type]:
            raise DataError(f"{schema} cannot be written as the Avro type {_said(avro)}")
        kind = schema.type
        if kind is Type.STRUCT:
            return self._struct(schema, avro)
        if kind is Type.ARRAY:
            write = self.of(schema.value_schema, avro.inner)
            return lambda value: [write(element) for element in value]
        if kind is Type.MAP:
            return self._map(schema, avro)
        check = LOGICAL_CHECKS.get(schema.name or "") or TYPE_CHECKS[kind]
        plain = _plain_of(schema, avro)

        def scalar(value: Any) -> Any:
            if not check(value):
                schema.validate_value(value)
            return value

        if plain is None and avro.kind != "fixed":
            return scalar
        size = avro.size if avro.kind == "fixed" else None
        pads = schema.name == Decimal.LOGICAL_NAME

        def logical(value: Any) -> Any:
            scalar(value)
            found = value if plain is None else plain(schema, value)
            return found if size is None else _fixed(found, size, pads=pads)

        return logical

    def _map(self, schema: Schema, avro: AvroType) -> Writer:
        if avro.kind == "map":
            write = self.of(schema.value_schema, avro.inner)
            return lambda value: {key: write(item) for key, item in value.items()}
        key_field, value_field = avro.inner.field_named("key"), avro.inner.field_named("value")
        if key_field is None or value_field is None:
            raise DataError(f"{schema} cannot be written as the Avro type array of {_said(avro.inner)}")
        write_key = self.of(schema.key_schema, key_field.type)
        write_value = self.of(schema.value_schema, value_field.type)
        return lambda value: [{"key": write_key(key), "value": write_value(item)} for key, item in value.items()]

    def _struct(self, schema: Schema, avro: AvroType) -> Writer:
        names = {self._options.scrub_name(field.name): field for field in schema.fields}
        parts: list[tuple[str, str, Writer]] = []
        constants: dict[str, Any] = {}
        for entry in avro.fields:
            field = names.get(entry.name)
            if field is None:
                constants[entry.name] = constant_datum(entry)
                continue
            try:
                parts.append((entry.name, field.name, self.of(field.schema, entry.type)))
            except DataError as error:
                raise DataError(f"Field {field.name}: {error}") from error
        own = self._options.ignore_default_for_nullables

        def struct(value: Any) -> dict[str, Any]:
            if not isinstance(value, Struct) or (value.schema is not schema and value.schema != schema):
                if isinstance(value, Struct) and _is_required_form(value.schema, schema):
                    return fill(value)
                raise DataError("Mismatching struct schema")
            return fill(value)

        def fill(value: Struct) -> dict[str, Any]:
            made = dict(constants)
            for name, field_name, write in parts:
                found = value.get_without_default(field_name) if own else value[field_name]
                try:
                    made[name] = write(found)
                except DataError as error:
                    raise DataError(f"Field {field_name}: {error}") from error
            return made

        return struct


def has_own_unit(schema: Schema, avro: AvroType) -> bool:
    """Whether an Avro schema has other units than Connect, or another scale. Errors: DataError for another meaning."""
    if schema.name == Decimal.LOGICAL_NAME:
        return _scale(schema, avro) != Decimal.scale(schema)
    return schema.name in _UNITS and _count(schema, avro) != 1


def _plain_of(schema: Schema, avro: AvroType) -> Callable[[Schema, Any], Any] | None:
    plain = TO_PLAIN.get(schema.name or "")
    if plain is None or not has_own_unit(schema, avro):
        return plain
    if schema.name != Decimal.LOGICAL_NAME:
        count = _count(schema, avro)
        return lambda schema, value: plain(schema, value) * count
    to_schema = Decimal.schema(_scale(schema, avro))
    last_place = decimal.Decimal(1).scaleb(-_scale(schema, avro))

    def rescaled(schema: Schema, value: decimal.Decimal) -> Any:
        try:
            return plain(to_schema, value.quantize(last_place, context=_EXACT))
        except decimal.Inexact as error:
            raise DataError(f"{value} has more than the {_scale(schema, avro)} places of the Avro schema") from error

    return rescaled


def _scale(schema: Schema, avro: AvroType) -> int:
    if str(avro.props.get("logicalType", "")).lower() != "decimal":
        return Decimal.scale(schema)
    scale = avro.props.get("scale", 0)
    return scale if isinstance(scale, int) else 0


def _count(schema: Schema, avro: AvroType) -> int:
    logical = str(avro.props.get("logicalType", "")).lower()
    if logical in _ALL_UNITS and logical not in _UNITS[schema.name or ""]:
        raise DataError(f"{schema} cannot be written as the Avro type {logical}")
    return _UNITS[schema.name or ""].get(logical, 1)


def branch_of(schema: Schema, avro: AvroType, options: AvroOptions) -> int:
    """The branch of a union that takes a schema: that of its own name, else the first of the nearest kind.

    Errors: DataError if there is none.
    """
    name = None if schema.name is None else options.scrub_full_name(schema.name)
    kinds = _KINDS[schema.type]
    for index, branch in enumerate(avro.branches):
        if branch.kind in kinds and name is not None and name in (branch.name, branch.props.get("connect.name")):
            return index
    for kind in kinds:
        for index, branch in enumerate(avro.branches):
            if branch.kind == kind:
                return index
    raise DataError(f"{schema} fits no branch of the Avro union [{', '.join(map(_said, avro.branches))}]")


def union_branches(schema: Schema, avro: AvroType, options: AvroOptions) -> list[int]:
    """The branch of each field of a struct that stands for a union. Errors: DataError for a field without one."""
    members = [branch for branch in avro.branches if branch.kind != "null"]
    found = []
    for position, field in enumerate(schema.fields):
        if len(members) == len(schema.fields) and members[position].kind in _KINDS[field.schema.type]:
            found.append(avro.branches.index(members[position]))
        else:
            found.append(branch_of(field.schema, avro, options))
    return found


def _is_required_form(found: Schema, wanted: Schema) -> bool:
    """A struct may carry its schema as optional where the field's is required, or the other way round."""
    return found.fields == wanted.fields and found.name == wanted.name


def constant_datum(entry: AvroField) -> Any:
    """The datum of a field that the Connect schema does not have: its default."""
    if entry.default is NO_DEFAULT:
        raise DataError(f"The Avro schema has a field {entry.name} without default, which the record does not have")
    return _default_datum(entry.type, entry.default)


def _default_datum(avro: AvroType, default: Any) -> Any:
    kind = avro.kind
    if kind == "union":
        first = avro.branches[0]
        return None if first.kind == "null" else {branch_key(0): _default_datum(first, default)}
    if kind in ("bytes", "fixed"):
        return default.encode("latin-1")
    if kind == "array":
        return [_default_datum(avro.inner, item) for item in default]
    if kind == "map":
        return {key: _default_datum(avro.inner, item) for key, item in default.items()}
    if kind == "record":
        return {entry.name: _default_datum(entry.type, default.get(entry.name, entry.default)) for entry in avro.fields}
    return default


def _fixed(value: bytes, size: int, *, pads: bool) -> bytes:
    """A decimal is filled up with its sign, as Java does since 7.9."""
    if len(value) == size:
        return value
    if pads and len(value) < size:
        return value.rjust(size, b"\xff" if value[:1] >= b"\x80" else b"\x00")
    raise DataError(f"{len(value)} bytes do not fit the Avro type fixed of {size} bytes")


def schemaless(value: Any) -> dict[str, Any]:
    """The datum of ANYTHING. Errors: DataError for a type that has no place there."""
    made: dict[str, Any] = dict.fromkeys(_ANYTHING_FIELDS)
    if value is None:
        return made
    name, found = _schemaless_part(value)
    made[name] = {branch_key(1): found}
    return made


def _schemaless_part(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int):
        return ("int" if -(1 << 31) <= value < 1 << 31 else "long"), value
    if isinstance(value, float):
        return "double", value
    if isinstance(value, str):
        return "string", value
    if isinstance(value, list | tuple):
        return "array", [schemaless(item) for item in value]
    if isinstance(value, dict):
        return "map", [{"key": schemaless(key), "value": schemaless(item)} for key, item in value.items()]
    raise DataError(f"Unknown Python type for schemaless data: {type(value).__name__}")


_ANYTHING_FIELDS: Final = tuple(field.name for field in ANYTHING.fields)


def _said(avro: AvroType) -> str:
    return avro.name or avro.kind


Reader = Callable[[Any], Any]


def reader_of(schema: Schema, avro: AvroType) -> Reader:
    """A function from datums of `avro` to values of its Connect schema. Errors: the function's DataError."""
    if avro.kind == "union":
        if is_union(schema) and optional_branch(avro) is None:
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
