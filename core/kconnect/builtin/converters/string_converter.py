"""StringConverter: any value as its text, any bytes as a string."""

from __future__ import annotations

from collections.abc import Mapping
from types import NotImplementedType
from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigDef, ConfigError, Headers, Schema, SchemaAndValue
from kconnect.builtin.converters.builtin_converter import BuiltinConverter, converter_config, with_type
from kconnect.java.compat.charsets import Charset, charset_named
from kconnect.java.compat.to_string import java_text
from kconnect.java.compat.utf8 import decode_as_java

if TYPE_CHECKING:
    import pyarrow as pa

ENCODING_CONFIG = "converter.encoding"
KEY_WORDS = {True: "key", False: "value"}

CONFIG = converter_config().define(
    ENCODING_CONFIG,
    ConfigDef.Type.STRING,
    "UTF-8",
    None,
    ConfigDef.Importance.HIGH,
    "Character set of the bytes in Kafka.",
    width=ConfigDef.Width.MEDIUM,
    display_name="Encoding",
)


class StringConverter(BuiltinConverter):
    """Source: o.a.k.connect.storage.StringConverter (Kafka 4.3)."""

    TABLE = CONFIG
    _charset: Charset | None = None  # None is UTF-8

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        name = CONFIG.parse(with_type(configs, KEY_WORDS[is_key]))[ENCODING_CONFIG]
        try:
            found = charset_named(name)
        except LookupError:
            raise ConfigError(
                f"Unsupported encoding {name}",
                hint=f"{ENCODING_CONFIG} takes the name of a character set, such as UTF-8.",
            ) from None
        self._charset = None if found.codec == "utf-8" else found

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if value is None:
            return None
        text = value if isinstance(value, str) else java_text(value, schema)
        if self._charset is not None:
            return self._charset.encode(text)
        return text.encode("utf-8", "replace")  # Java writes ? too for what it cannot encode

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if value is None:
            return SchemaAndValue(Schema.OPTIONAL_STRING_SCHEMA, None)
        text = decode_as_java(value) if self._charset is None else self._charset.decode(value)
        return SchemaAndValue(Schema.OPTIONAL_STRING_SCHEMA, text)

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        """Strings and bytes are there already; whole numbers and booleans read as Java's; the rest goes by records."""
        import pyarrow as pa
        import pyarrow.types as types

        if self._charset is not None:
            return NotImplemented
        kind = column.type
        if types.is_string(kind):
            return column.cast(pa.binary())  # no copy
        if schema is not None and schema.name is None and (types.is_integer(kind) or types.is_boolean(kind)):
            return column.cast(pa.string()).cast(pa.binary())
        return NotImplemented

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | Any:  # Any: mypy takes NotImplemented for it
        """Checks UTF-8 without copying; a batch with invalid UTF-8 goes by records, which give U+FFFD."""
        import pyarrow as pa

        if self._charset is not None:
            return NotImplemented
        try:
            return Schema.OPTIONAL_STRING_SCHEMA, column.cast(pa.string())
        except pa.ArrowInvalid:
            return NotImplemented
