"""ByteArrayConverter: bytes pass through."""

from __future__ import annotations

from collections.abc import Mapping
from types import NotImplementedType
from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigDef, Converter, DataError, HeaderConverter, Headers, Schema, SchemaAndValue, Type
from kconnect.builtin.converters.converter_config import converter_config
from kconnect.builtin.java_text import java_class
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ByteArrayConverter"]

CONFIG = converter_config()


class ByteArrayConverter(Converter, HeaderConverter):
    """Source: o.a.k.connect.converters.ByteArrayConverter (Kafka 4.3)."""

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        """It has nothing to configure."""

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

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

    def from_connect_header(self, topic: str, header_key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, header_key: str, value: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, value)

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

    def close(self) -> None:
        """Nothing to let go of."""
