"""Protobuf messages to Connect values. Source: io.confluent.connect.protobuf.ProtobufData.toConnectData.

What has to be decided is decided once a schema: each field becomes a function of its message.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor

from kconnect.api import DataError, Schema, Struct, Timestamp, Type
from kconnect.builtin.schema_registry.protobuf.protobuf_names import WRAPPED, ProtobufOptions
from kconnect.builtin.schema_registry.protobuf.schema_mapping import Parts, is_map, union_name

Reader = Callable[[Any], Any]

_EXACT: Final = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_SIGN_64: Final = 1 << 63
_UNSIGNED_64: Final = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)


def reader_of(schema: Schema, message: Descriptor, options: ProtobufOptions) -> Reader:
    """A function from messages to values of their Connect schema. Errors: the function's DataError."""
    readers = _Readers(options)
    if schema.type is not Type.STRUCT:
        return _value_of(message)
    return readers.struct(schema, message)


class _Readers:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def struct(self, schema: Schema, message: Descriptor) -> Reader:
        readers: list[Reader] = []
        parts = Parts(message)
        for oneof in parts.oneofs:
            if self._options.flatten_unions:
                readers += [self._member(_schema_of(schema, field.name), field) for field in oneof.fields]
            else:
                readers.append(self._union(_schema_of(schema, union_name(oneof, self._options)), oneof))
        for field in parts.fields:
            readers.append(self._field(_schema_of(schema, field.name), field, parts))
        return lambda found: Struct.from_values(schema, [read(found) for read in readers])

    def _member(self, schema: Schema, field: FieldDescriptor) -> Reader:
        name, read = field.name, self._one(schema, field)
        return lambda found: read(getattr(found, name)) if found.HasField(name) else None

    def _union(self, schema: Schema, oneof: OneofDescriptor) -> Reader:
        count, name = len(oneof.fields), oneof.name
        members = {
            field.name: (place, self._one(schema.fields[place].schema, field))
            for place, field in enumerate(oneof.fields)
        }

        def union(found: Any) -> Struct | None:
            which = found.WhichOneof(name)
            if which is None:
                return None
            place, read = members[which]
            values: list[Any] = [None] * count
            values[place] = read(getattr(found, which))
            return Struct.from_values(schema, values)

        return union

    def _field(self, schema: Schema, field: FieldDescriptor, parts: Parts) -> Reader:
        name = field.name
        if is_map(field):
            return self._map(schema, field)
        if field.is_repeated:
            assert schema.value_schema is not None
            read_element = self._one(schema.value_schema, field)
            return lambda found: [read_element(element) for element in getattr(found, name)]
        if self._tells_absence(field, parts):
            return self._member(schema, field)
        read = self._one(schema, field)
        if read is _same:
            return lambda found: getattr(found, name)
        return lambda found: read(getattr(found, name))

    def _tells_absence(self, field: FieldDescriptor, parts: Parts) -> bool:
        """Whether a field that is not there is null, not the value that its type has then."""
        if self._options.struct_for_nulls:
            return False
        if field.message_type is not None:
            return True
        return parts.is_optional(field) if self._options.optional_for_proto2 else parts.is_proto3_optional(field)

    def _map(self, schema: Schema, field: FieldDescriptor) -> Reader:
        name, entry = field.name, field.message_type
        assert entry is not None
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        key, value = entry.fields
        read_key, read_value = self._one(schema.key_schema, key), self._one(schema.value_schema, value)

        def entries(found: Any) -> dict[Any, Any]:
            try:
                return {read_key(each.key): read_value(each.value) for each in getattr(found, name)}
            except TypeError as error:
                raise DataError("A key of this map is a list or a map, which Python cannot have as a key") from error

        return entries

    def _one(self, schema: Schema, field: FieldDescriptor) -> Reader:
        """For one value that is there."""
        if field.enum_type is not None:
            return _enum(field.enum_type, as_number=schema.type is Type.INT32)
        message = field.message_type
        if message is None:
            return _scalar(schema, field)
        logical = _LOGICAL.get(message.full_name)
        if logical is not None:
            return lambda found: logical(schema, found)
        if schema.type is not Type.STRUCT:
            return _value_of(message)
        return self.struct(schema, message)


def _schema_of(schema: Schema, name: str) -> Schema:
    field = schema.field(name)
    assert field is not None
    return field.schema


def _same(value: Any) -> Any:
    return value


def _scalar(schema: Schema, field: FieldDescriptor) -> Reader:
    if field.type in _UNSIGNED_64:
        return lambda value: value - (1 << 64) if value >= _SIGN_64 else value  # Java's long has the same bits
    if schema.type in (Type.INT8, Type.INT16):
        half = 1 << (7 if schema.type is Type.INT8 else 15)
        return lambda value: (value + half) % (2 * half) - half  # Java's byteValue()
    return _same


def _value_of(wrapper: Descriptor) -> Reader:
    """The value in a wrapper message."""
    assert wrapper.full_name in WRAPPED
    read = _scalar(Schema(WRAPPED[wrapper.full_name]), wrapper.fields_by_name["value"])
    return lambda found: read(found.value)


def _enum(enum: EnumDescriptor, *, as_number: bool) -> Reader:
    if as_number:
        return _same
    names = {value.number: value.name for value in reversed(enum.values)}  # of several, the first
    return lambda number: names.get(number) or f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}"


def _decimal(schema: Schema, found: Any) -> decimal.Decimal:
    unscaled = decimal.Decimal(int.from_bytes(found.value, "big", signed=True))
    value = unscaled.scaleb(-found.scale, _EXACT)
    if found.precision:
        value = decimal.Context(
            prec=found.precision, rounding=decimal.ROUND_HALF_UP, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN
        ).plus(value)
    return value


def _date(schema: Schema, found: Any) -> datetime.date:
    try:
        return datetime.date(found.year, found.month, found.day)
    except ValueError as error:
        raise DataError(f"{found.year}-{found.month}-{found.day} is not a date: {error}") from error


def _time(schema: Schema, found: Any) -> datetime.time:
    try:
        return datetime.time(found.hours, found.minutes, found.seconds, found.nanos // 1_000_000 * 1000)
    except ValueError as error:
        shown = f"{found.hours}:{found.minutes}:{found.seconds}"
        raise DataError(f"{shown} and {found.nanos} ns is not a time of day: {error}") from error


def _timestamp(schema: Schema, found: Any) -> datetime.datetime:
    return Timestamp.to_logical(schema, found.seconds * 1000 + found.nanos // 1_000_000)


_LOGICAL: Final[dict[str, Callable[[Schema, Any], Any]]] = {
    "confluent.type.Decimal": _decimal,
    "google.type.Date": _date,
    "google.type.TimeOfDay": _time,
    "google.protobuf.Timestamp": _timestamp,
}
