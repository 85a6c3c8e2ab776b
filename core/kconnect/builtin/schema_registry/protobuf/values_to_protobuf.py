"""Connect values to Protobuf messages. Source: io.confluent.connect.protobuf.ProtobufData.fromConnectData.

What has to be decided is decided once a schema: each field becomes a function that sets it in a message.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from kconnect.api import DataError, Date, Decimal, Field, Schema, Struct, Time, Timestamp, Type
from kconnect.api.schema_types import LOGICAL_CHECKS, TYPE_CHECKS
from kconnect.builtin.schema_registry.protobuf.protobuf_names import (
    ENUM,
    LOGICAL_TYPES,
    WRAPPED,
    ProtobufOptions,
    is_enum,
    is_union,
)
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM

Writer = Callable[[Any], Message]
_Set = Callable[[Any, Any], None]  # a message, and the value that is not None
_Convert = Callable[[Any], Any]  # a value to what the field takes

_MASKS: Final = {
    FieldDescriptor.TYPE_UINT32: 0xFFFFFFFF,
    FieldDescriptor.TYPE_FIXED32: 0xFFFFFFFF,
    FieldDescriptor.TYPE_UINT64: 0xFFFFFFFFFFFFFFFF,
    FieldDescriptor.TYPE_FIXED64: 0xFFFFFFFFFFFFFFFF,
}


def writer_of(schema: Schema, message: Descriptor, options: ProtobufOptions) -> Writer:
    """A function from values of `schema` to messages, whose description may be one that the registry had already.

    Errors: DataError, here where the schema does not fit and from the function where a value does not.
    """
    make = GetMessageClass(message)
    fill = _fill_wrapper(schema, message) if message.full_name in WRAPPED else _Fillers(options).struct(schema, message)

    def write(value: Any) -> Message:
        made = make()
        fill(made, value)
        return made

    return write


def lost_fields(schema: Schema, message: Descriptor, options: ProtobufOptions) -> list[str]:
    """The fields that values of a schema have and a message has no place for."""
    lost: list[str] = []
    for field in schema.fields:
        if is_union(field.schema):
            lost += lost_fields(field.schema, message, options)
        elif options.scrub_name(field.name) not in message.fields_by_name:
            lost.append(field.name)
    return lost


class _Fillers:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def struct(self, schema: Schema, message: Descriptor) -> _Set:
        parts = self._parts(schema, message)
        own = self._options.ignore_default_for_nullables

        def fill(made: Any, value: Any) -> None:
            if not isinstance(value, Struct) or (value.schema is not schema and value.schema.fields != schema.fields):
                raise DataError("Mismatching struct schema")
            for name, put in parts:
                found = value.get_without_default(name) if own else value[name]
                if found is None:
                    continue  # Protobuf has no null: the field is left out
                try:
                    put(made, found)
                except DataError as error:
                    raise DataError(f"Field {name}: {error}") from error
                except (TypeError, ValueError, OverflowError, AttributeError) as error:
                    raise DataError(f"Field {name}: Invalid type for {_said(schema, name)}: {error}") from error

        return fill

    def _parts(self, schema: Schema, message: Descriptor) -> list[tuple[str, _Set]]:
        parts: list[tuple[str, _Set]] = []
        for entry in schema.fields:
            if is_union(entry.schema):
                parts.append((entry.name, self._union(entry, message)))
                continue
            field = message.fields_by_name.get(self._options.scrub_name(entry.name))
            if field is not None:
                parts.append((entry.name, self._field(entry.schema, field)))
        return parts

    def _union(self, union: Field, message: Descriptor) -> _Set:
        parts = self._parts(union.schema, message)

        def put(made: Any, value: Any) -> None:
            for name, put_member in parts:
                member = value[name]
                if member is not None:
                    put_member(made, member)
                    return
            raise DataError("Cannot find non-null field")

        return put

    def _field(self, schema: Schema, field: FieldDescriptor) -> _Set:
        name = field.name
        if schema.type is Type.MAP and schema.name not in LOGICAL_TYPES:
            return self._map(schema, field)
        if field.is_repeated != (schema.type is Type.ARRAY):
            raise DataError(f"The field {field.full_name} cannot take {schema.type}.")
        if schema.type is Type.ARRAY:
            return self._array(schema, field)
        message = field.message_type
        if message is None:
            convert = _scalar(schema, field)
            return lambda made, value: setattr(made, name, convert(value))
        fill = self._filler(schema, message)

        def put(made: Any, value: Any) -> None:
            part = getattr(made, name)
            part.SetInParent()  # also if all its fields have the values that are not written
            fill(part, value)

        return put

    def _array(self, schema: Schema, field: FieldDescriptor) -> _Set:
        name, element = field.name, schema.value_schema
        assert element is not None
        message = field.message_type
        if message is None:
            convert = _scalar(element, field)

            def put_scalars(made: Any, value: Any) -> None:
                _require_no_null(value)
                getattr(made, name).extend([convert(each) for each in value])

            return put_scalars
        fill = self._filler(element, message)

        def put(made: Any, value: Any) -> None:
            _require_no_null(value)
            parts = getattr(made, name)
            for each in value:
                fill(parts.add(), each)

        return put

    def _map(self, schema: Schema, field: FieldDescriptor) -> _Set:
        name, entry = field.name, field.message_type
        if entry is None or not field.is_repeated or {"key", "value"} - set(entry.fields_by_name):
            raise DataError(f"The field {field.full_name} cannot take a map.")
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        put_key = self._field(schema.key_schema, entry.fields_by_name["key"])
        put_value = self._field(schema.value_schema, entry.fields_by_name["value"])

        def put(made: Any, value: Any) -> None:
            parts = getattr(made, name)
            for key, item in value.items():
                part = parts.add()
                if key is not None:
                    put_key(part, key)
                if item is not None:
                    put_value(part, item)

        return put

    def _filler(self, schema: Schema, message: Descriptor) -> _Set:
        logical = _LOGICAL.get(schema.name or "")
        if logical is not None:
            if LOGICAL_TYPES[schema.name or ""] != message.full_name:
                raise DataError(f"{message.full_name} cannot take {schema.name}.")
            check = LOGICAL_CHECKS[schema.name or ""]

            def fill(made: Any, value: Any) -> None:
                if not check(value):
                    schema.validate_value(value)
                logical(made, value)

            return fill
        if schema.type is Type.STRUCT:
            return self.struct(schema, message)
        return _fill_wrapper(schema, message)


def _require_no_null(value: Any) -> None:
    if None in value:
        raise DataError(f"Its element {value.index(None)} is null, and Protobuf has no null in lists")


def _said(schema: Schema, name: str) -> str:
    field = schema.field(name)
    assert field is not None
    return str(field.schema.type)


def _fill_wrapper(schema: Schema, message: Descriptor) -> _Set:
    if message.full_name not in WRAPPED:
        raise DataError(f"{message.full_name} cannot take {schema.type}.")
    convert = _scalar(schema, message.fields_by_name["value"])

    def fill(made: Any, value: Any) -> None:
        made.value = convert(value)

    return fill


def _scalar(schema: Schema, field: FieldDescriptor) -> _Convert:
    if schema.name in LOGICAL_TYPES or not schema.type.is_primitive:
        raise DataError(f"The field {field.full_name} cannot take {schema.name or schema.type}.")
    if field.enum_type is not None:
        return _enum(schema, field)
    check = TYPE_CHECKS[schema.type]
    mask = _MASKS.get(field.type)

    def convert(value: Any) -> Any:
        if not check(value):
            schema.validate_value(value)
        return value

    return convert if mask is None else lambda value: convert(value) & mask


def _enum(schema: Schema, field: FieldDescriptor) -> _Convert:
    if schema.type is Type.INT32:
        return lambda value: value
    if not is_enum(schema) or field.enum_type is None:
        raise DataError(f"The enum field {field.full_name} cannot take {schema.type}.")
    numbers: dict[str, int] = {}
    for key, number in (schema.parameters or {}).items():
        for prefix in (f"{ENUM}.", f"{GENERAL_ENUM}."):
            if key.startswith(prefix):
                numbers[key.removeprefix(prefix)] = int(number)
    name = field.enum_type.name

    def convert(value: Any) -> int:
        number = numbers.get(value) if isinstance(value, str) else None
        if number is None:
            raise DataError(f"{value!r} is not a symbol of the enum {name}")
        return number

    return convert


def _decimal(made: Any, value: decimal.Decimal) -> None:
    scale = Decimal.scale_of(value)
    made.value = Decimal.from_logical(Decimal.schema(scale), value)
    made.precision = max(1, len(value.as_tuple().digits))
    made.scale = scale


def _date(made: Any, value: datetime.date) -> None:
    made.year, made.month, made.day = value.year, value.month, value.day


def _time(made: Any, value: datetime.time) -> None:
    made.hours, made.minutes, made.seconds = value.hour, value.minute, value.second
    made.nanos = value.microsecond // 1000 * 1_000_000


def _timestamp(made: Any, value: datetime.datetime) -> None:
    made.seconds, millis = divmod(Timestamp.from_logical(Timestamp.SCHEMA, value), 1000)
    made.nanos = millis * 1_000_000


_LOGICAL: Final[dict[str, _Set]] = {
    Decimal.LOGICAL_NAME: _decimal,
    Date.LOGICAL_NAME: _date,
    Time.LOGICAL_NAME: _time,
    Timestamp.LOGICAL_NAME: _timestamp,
}
