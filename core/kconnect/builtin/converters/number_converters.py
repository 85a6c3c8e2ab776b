"""Integer, Long, Short, Double and Float converters: one number as its big-endian bytes."""

from __future__ import annotations

import array
import struct
import sys
from collections.abc import Mapping
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, ClassVar

from kconnect.api import DataError, Headers, Schema, SchemaAndValue, Type
from kconnect.builtin.converters.builtin_converter import BuiltinConverter, converter_config
from kconnect.java.compat.to_string import java_class

if TYPE_CHECKING:
    import pyarrow as pa

CONFIG = converter_config()


class _NumberConverter(BuiltinConverter):
    """Source: o.a.k.connect.converters.NumberConverter and its serializers (Kafka 4.3).

    Differs: a Python int or float that comes without a schema is taken by every converter whose range holds it; Java
    looks at the class of the number, which Python's do not have.
    """

    TABLE = CONFIG
    WORD: ClassVar[str]
    JAVA_CLASS: ClassVar[str]
    SCHEMA: ClassVar[Schema]
    FORMAT: ClassVar[str]
    """Is a format of the modules `struct` and `array`."""
    SIZE_WORD: ClassVar[str]
    """How Java names the deserializer when the size is wrong."""

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        self._packer = struct.Struct(f">{self.FORMAT}")

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if value is None:
            return None
        python_type = float if self.SCHEMA.type in (Type.FLOAT32, Type.FLOAT64) else int
        found = java_class(value, schema)
        if type(value) is python_type and (found == self.JAVA_CLASS or schema is None):
            try:
                return self._packer.pack(value)
            except (struct.error, OverflowError) as error:
                raise DataError(f"Failed to serialize to {self.WORD} (was class {found}): ") from error
        reason = TypeError(f"class {found} cannot be cast to class {self.JAVA_CLASS}")
        raise DataError(f"Failed to serialize to {self.WORD} (was class {found}): ") from reason

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if value is None:
            return SchemaAndValue(self.SCHEMA, None)
        if len(value) != self._packer.size:
            reason = ValueError(f"Size of data received by {self.SIZE_WORD} is not {self._packer.size}")
            raise DataError(f"Failed to deserialize {self.WORD}: ") from reason
        return SchemaAndValue(self.SCHEMA, self._packer.unpack(value)[0])

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        """The column's buffer with its byte order reversed. Measured: 0.01 us a row, by records 0.6 us."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if schema is None or schema.name is not None or column.type != self._arrow_type():
            return NotImplemented
        made = pa.Array.from_buffers(pa.binary(self._packer.size), len(column), [None, self._turned(column)])
        made = made.cast(pa.binary())
        return pc.if_else(column.is_valid(), made, pa.scalar(None, made.type)) if column.null_count else made

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | Any:  # Any: mypy takes NotImplemented for it
        """The reverse; a batch with values of another size goes by records, so that the error names the record."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            fixed = column.cast(pa.binary(self._packer.size))
        except pa.ArrowInvalid:
            return NotImplemented
        made = pa.Array.from_buffers(self._arrow_type(), len(fixed), [None, self._turned(fixed)])
        return self.SCHEMA, pc.if_else(fixed.is_valid(), made, pa.scalar(None, made.type)) if fixed.null_count else made

    def _turned(self, column: pa.Array) -> pa.Buffer:
        """The fixed-size values of the column in the other byte order."""
        import pyarrow as pa

        size = self._packer.size
        raw = memoryview(column.buffers()[1])[column.offset * size : (column.offset + len(column)) * size]
        turned = array.array(self.FORMAT)
        turned.frombytes(raw)
        if sys.byteorder == "little":
            turned.byteswap()
        return pa.py_buffer(turned)

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.type_for_alias(self.SCHEMA.type.value)


class ShortConverter(_NumberConverter):
    """`org.apache.kafka.connect.converters.ShortConverter`."""

    WORD, JAVA_CLASS, FORMAT = "short", "java.lang.Short", "h"
    SCHEMA, SIZE_WORD = Schema.OPTIONAL_INT16_SCHEMA, "ShortDeserializer"


class IntegerConverter(_NumberConverter):
    """`org.apache.kafka.connect.converters.IntegerConverter`."""

    WORD, JAVA_CLASS, FORMAT = "integer", "java.lang.Integer", "i"
    SCHEMA, SIZE_WORD = Schema.OPTIONAL_INT32_SCHEMA, "IntegerDeserializer"


class LongConverter(_NumberConverter):
    """`org.apache.kafka.connect.converters.LongConverter`."""

    WORD, JAVA_CLASS, FORMAT = "long", "java.lang.Long", "q"
    SCHEMA, SIZE_WORD = Schema.OPTIONAL_INT64_SCHEMA, "LongDeserializer"


class FloatConverter(_NumberConverter):
    """`org.apache.kafka.connect.converters.FloatConverter`."""

    WORD, JAVA_CLASS, FORMAT = "float", "java.lang.Float", "f"
    SCHEMA, SIZE_WORD = Schema.OPTIONAL_FLOAT32_SCHEMA, "Deserializer"


class DoubleConverter(_NumberConverter):
    """`org.apache.kafka.connect.converters.DoubleConverter`."""

    WORD, JAVA_CLASS, FORMAT = "double", "java.lang.Double", "d"
    SCHEMA, SIZE_WORD = Schema.OPTIONAL_FLOAT64_SCHEMA, "Deserializer"
