"""Writes Connect data as JSON text, with a writer function built once per schema."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any

from kconnect.api import DataError, Date, Decimal, Schema, Struct, Time, Timestamp, Type
from kconnect.api.natural_values import natural
from kconnect.java.compat.jackson import quote, write_double, write_float
from kconnect.java.compat.to_string import java_class

Write = Callable[[Any], str]


class RawJson(str):
    """A value that is JSON already: it is written as it is."""

    __slots__ = ()


_TYPE_NAMES = {Type.FLOAT32: "float", Type.FLOAT64: "double"}


class JsonWriter:
    """Writes values and schemas as Java's JsonConverter does.

    Source: JsonConverter.convertToJson, asJsonSchema (Kafka 4.3).

    Threads: one. Functions are cached for up to `cache_size` schemas (`schemas.cache.size`).
    """

    def __init__(self, *, numeric_decimals: bool, replace_null_with_default: bool, cache_size: int) -> None:
        self.numeric_decimals = numeric_decimals
        self._replace_null = replace_null_with_default
        self._cache_size = max(1, cache_size)
        self._writers: dict[Schema, Write] = {}
        self._schema_texts: dict[Schema, str] = {}

    def value(self, schema: Schema | None, value: Any) -> str:
        """JSON text of a value. Errors: DataError in Java's words."""
        try:
            return _write_schemaless(value) if schema is None else self.writer(schema)(value)
        except RecursionError:  # whose trace has a thousand lines
            raise DataError("A value is nested too deeply to be written as JSON") from None

    def schema(self, schema: Schema | None) -> str:
        """JSON text of a schema, as in the envelope."""
        if schema is None:
            return "null"
        text = self._schema_texts.get(schema)
        if text is None:
            text = "{" + self._schema_body(schema) + "}"
            if len(self._schema_texts) >= self._cache_size:
                self._schema_texts.clear()
            self._schema_texts[schema] = text
        return text

    def writer(self, schema: Schema) -> Write:
        """The function that writes values of this schema."""
        found = self._writers.get(schema)
        if found is None:
            found = self._nullable(schema, self._writer_of_present(schema))
            if len(self._writers) >= self._cache_size:
                self._writers.clear()
            self._writers[schema] = found
        return found

    def null(self, schema: Schema) -> str:
        """The value to write for None. Errors: DataError if the schema does not allow it."""
        if schema.default is not None and self._replace_null:
            return self.writer(schema)(schema.default)
        if schema.is_optional:
            return "null"
        raise DataError("Conversion error: null value for field that is required and has no default value")

    def _nullable(self, schema: Schema, present: Write) -> Write:
        def write(value: Any) -> str:
            return self.null(schema) if value is None else present(value)

        return write

    def _writer_of_present(self, schema: Schema) -> Write:
        logical = self._logical_writers().get(schema.name or "")
        if logical is not None:
            return lambda value: logical(schema, value)
        if schema.type is Type.ARRAY:
            return self._array_writer(schema)
        if schema.type is Type.MAP:
            return self._map_writer(schema)
        if schema.type is Type.STRUCT:
            return self._struct_writer(schema)
        return _PRIMITIVES[schema.type]

    def _array_writer(self, schema: Schema) -> Write:
        item = self._inner_writer(schema.value_schema)

        def write(value: Any) -> str:
            if not isinstance(value, list | tuple | set):
                raise _misfit(schema.type, value)
            return "[" + ",".join([item(element) for element in value]) + "]"

        return write

    def _map_writer(self, schema: Schema) -> Write:
        key_schema = schema.key_schema
        key, item = self._inner_writer(key_schema), self._inner_writer(schema.value_schema)
        has_string_keys = key_schema is not None and key_schema.type is Type.STRING

        def write(value: Any) -> str:
            if not isinstance(value, dict):
                raise _misfit(schema.type, value)
            if has_string_keys:
                return _object({_name(name, key): item(element) for name, element in value.items()})
            return "[" + ",".join([f"[{key(name)},{item(element)}]" for name, element in value.items()]) + "]"

        return write

    def _struct_writer(self, schema: Schema) -> Write:
        fields = [(f"{quote(field.name)}:", self.writer(field.schema), field) for field in schema.fields]

        def write(value: Any) -> str:
            if not isinstance(value, Struct):
                raise _misfit(schema.type, value)
            if value.schema != schema:
                raise DataError("Mismatching schema.")
            get = value.get_without_default
            return "{" + ",".join([name + writer(get(field)) for name, writer, field in fields]) + "}"

        return write

    def _inner_writer(self, schema: Schema | None) -> Write:
        return _write_schemaless if schema is None else self.writer(schema)

    def _logical_writers(self) -> dict[str, Callable[[Schema, Any], str]]:
        return {
            Decimal.LOGICAL_NAME: self._decimal,
            Date.LOGICAL_NAME: _date,
            Time.LOGICAL_NAME: _time,
            Timestamp.LOGICAL_NAME: _timestamp,
        }

    def _decimal(self, schema: Schema, value: Any) -> str:
        if not isinstance(value, PyDecimal):
            raise DataError(f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}")
        return str(value) if self.numeric_decimals else _base64(Decimal.from_logical(schema, value))

    def _schema_body(self, schema: Schema) -> str:
        parts = [f'"type":"{_TYPE_NAMES.get(schema.type, schema.type.value)}"']
        if schema.type is Type.ARRAY:
            parts.append(f'"items":{self.schema(schema.value_schema)}')
        elif schema.type is Type.MAP:
            parts.append(f'"keys":{self.schema(schema.key_schema)}')
            parts.append(f'"values":{self.schema(schema.value_schema)}')
        elif schema.type is Type.STRUCT:
            fields = [f'{{{self._schema_body(field.schema)},"field":{quote(field.name)}}}' for field in schema.fields]
            parts.append(f'"fields":[{",".join(fields)}]')
        parts.append(f'"optional":{"true" if schema.is_optional else "false"}')
        if schema.name is not None:
            parts.append(f'"name":{quote(schema.name)}')
        if schema.version is not None:
            parts.append(f'"version":{schema.version}')
        if schema.doc is not None:
            parts.append(f'"doc":{quote(schema.doc)}')
        if schema.parameters is not None:
            parts.append('"parameters":' + _object({name: quote(text) for name, text in schema.parameters.items()}))
        if schema.default is not None:
            parts.append(f'"default":{self.writer(schema)(schema.default)}')
        return ",".join(parts)


def _object(members: dict[str, str]) -> str:
    return "{" + ",".join([f"{quote(name)}:{text}" for name, text in members.items()]) + "}"


def _name(key: Any, write: Write) -> str:
    """A map key as a member name: the text of its JSON value, as Jackson's asText gives it."""
    if isinstance(key, str):
        return key
    write(key)  # raises where Java does
    return "null"


def _write_schemaless(value: Any) -> str:
    if value is None:
        return "null"
    writer = _SCHEMALESS.get(type(value))
    if writer is None and type(made := natural(value)) in _SCHEMALESS:
        return _write_schemaless(made)
    if writer is None:
        name = java_class(value)
        is_java = name.startswith("java.")
        raise DataError(
            f"Java class class {name} does not have corresponding schema type."
            if is_java
            else f"A value of type {name} has no form in JSON",
            hint=_NO_FORM,
        )
    return writer(value)


_NO_FORM = "Declare what it is in value.schema, as `at timestamp`, or give a text, a number, a list or a dict."


def _schemaless_map(value: dict[Any, Any]) -> str:
    if all(isinstance(name, str) for name in value):
        return _object({name: _write_schemaless(element) for name, element in value.items()})
    pairs = [f"[{_write_schemaless(name)},{_write_schemaless(element)}]" for name, element in value.items()]
    return "[" + ",".join(pairs) + "]"


def _schemaless_struct(value: Struct) -> str:
    raise DataError("Mismatching schema.")


def _int(kind: Type, bits: int) -> Write:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _misfit(kind, value)
        if not low <= value <= high:  # a reader would silently wrap it around; in Java there is no such value
            raise DataError(
                f"Invalid value for {kind}: a number of {value.bit_length() + 1} bits does not fit in {bits}"
            )
        return str(value)

    return write


def _float(kind: Type, write_number: Callable[[float], str]) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, float):
            raise _misfit(kind, value)
        return write_number(value)

    return write


def _boolean(value: Any) -> str:
    if not isinstance(value, bool):
        raise _misfit(Type.BOOLEAN, value)
    return "true" if value else "false"


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit(Type.STRING, value)
    return quote(value)


def _bytes(value: Any) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise DataError(f"Invalid type for bytes type: class {java_class(value)}")
    return _base64(bytes(value))


def _base64(raw: bytes) -> str:
    return '"' + base64.b64encode(raw).decode("ascii") + '"'


def _date(schema: Schema, value: Any) -> str:
    if not isinstance(value, datetime.date):
        raise _no_date("Date", value)
    return str(Date.from_logical(schema, value))


def _time(schema: Schema, value: Any) -> str:
    if isinstance(value, datetime.date):
        raise DataError("Kafka Connect Time type should not have any date fields set to non-zero values.")
    if not isinstance(value, datetime.time):
        raise _no_date("Time", value)
    return str(Time.from_logical(schema, value))


def _timestamp(schema: Schema, value: Any) -> str:
    if not isinstance(value, datetime.datetime):
        raise _no_date("Timestamp", value)
    return str(Timestamp.from_logical(schema, value))


def _no_date(kind: str, value: Any) -> DataError:
    return DataError(f"Invalid type for {kind}, expected Date but was class {java_class(value)}")


def _misfit(kind: Type, value: Any) -> DataError:
    return DataError(f"Invalid type for {kind}: class {java_class(value)}")


_PRIMITIVES: dict[Type, Write] = {
    Type.INT8: _int(Type.INT8, 8),
    Type.INT16: _int(Type.INT16, 16),
    Type.INT32: _int(Type.INT32, 32),
    Type.INT64: _int(Type.INT64, 64),
    Type.FLOAT32: _float(Type.FLOAT32, write_float),
    Type.FLOAT64: _float(Type.FLOAT64, write_double),
    Type.BOOLEAN: _boolean,
    Type.STRING: _string,
    Type.BYTES: _bytes,
}

_SCHEMALESS: dict[type, Write] = {
    bool: _boolean,
    int: str,
    float: write_double,
    str: quote,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    list: lambda value: "[" + ",".join([_write_schemaless(element) for element in value]) + "]",
    dict: _schemaless_map,
    Struct: _schemaless_struct,
    RawJson: str,
}
