"""BooleanConverter: one byte, 1 or 0."""

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

_BYTES = {True: b"\x01", False: b"\x00"}
_VALUES = {raw: value for value, raw in _BYTES.items()}


class BooleanConverter(BuiltinConverter):
    """Source: o.a.k.connect.converters.BooleanConverter (Kafka 4.3)."""

    TABLE = CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        """It has nothing to configure."""

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(f"BooleanConverter is not compatible with objects of type class {java_class(value)}")
        return _BYTES[value]

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if value is None or value in _VALUES:
            return SchemaAndValue(Schema.OPTIONAL_BOOLEAN_SCHEMA, None if value is None else _VALUES[value])
        reason = (
            f"Unexpected byte received by BooleanDeserializer: {int.from_bytes(value, signed=True)}"
            if len(value) == 1
            else "Size of data received by BooleanDeserializer is not 1"
        )
        raise DataError("Failed to deserialize boolean: ") from ValueError(reason)

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_boolean(column.type) or (schema is not None and schema.type is not Type.BOOLEAN):
            return NotImplemented
        return pc.if_else(column, pa.scalar(b"\x01", pa.binary()), pa.scalar(b"\x00", pa.binary()))

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | Any:  # Any: mypy takes NotImplemented for it
        import pyarrow as pa
        import pyarrow.compute as pc

        truths = pc.equal(column, pa.scalar(b"\x01", column.type))
        falses = pc.equal(column, pa.scalar(b"\x00", column.type))
        if truths.true_count + falses.true_count + column.null_count != len(column):
            return NotImplemented  # by records the error falls on the record whose bytes are no boolean
        return Schema.OPTIONAL_BOOLEAN_SCHEMA, truths
