"""ByteArrayConverter: bytes pass through."""

from __future__ import annotations

from collections.abc import Mapping
from types import NotImplementedType
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError, Headers, Schema, SchemaAndValue, Type
from kconnect.builtin.converters.builtin_converter import BuiltinConverter, converter_config
from kconnect.java.compat.to_string import java_class

if TYPE_CHECKING:
    import pyarrow as pa

CONFIG = converter_config()


class ByteArrayConverter(BuiltinConverter):
    """Source: o.a.k.connect.converters.ByteArrayConverter (Kafka 4.3)."""

    TABLE = CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        """It has nothing to configure."""

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter is not compatible with objects of type class {java_class(value)}")

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        return SchemaAndValue(Schema.OPTIONAL_BYTES_SCHEMA, value)

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        import pyarrow.types as types

        # a Decimal is BYTES by schema and no bytes by value: the record form refuses it
        return column if types.is_binary(column.type) else NotImplemented

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | NotImplementedType:
        return Schema.OPTIONAL_BYTES_SCHEMA, column
