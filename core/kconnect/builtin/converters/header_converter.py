"""SimpleHeaderConverter: header values as text, and text as the value it looks like."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kconnect.api import ConfigDef, HeaderConverter, Schema, SchemaAndValue
from kconnect.api import values as connect_values
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.utf8 import decode_as_java

log = logging.getLogger(__name__)

CONFIG = ConfigDef()


class SimpleHeaderConverter(HeaderConverter):
    """What a text looks like is decided by kconnect.api.values.

    Source: o.a.k.connect.storage.SimpleHeaderConverter (Kafka 4.3).
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """It has nothing to configure."""

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def from_connect_header(self, topic: str, header_key: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        text = connect_values.convert_to_string(schema, value)
        return None if text is None else text.encode("utf-8", "replace")

    def to_connect_header(self, topic: str, header_key: str, value: bytes | None) -> SchemaAndValue:
        """The text `null` gives null without a schema, as every null does."""
        if value is None:
            return SchemaAndValue.NULL
        try:
            return connect_values.parse_string(decode_as_java(value)) or SchemaAndValue.NULL
        except Exception as error:
            log.warning(
                "Failed to deserialize value for header '%s' on topic '%s', so using byte array: %s",
                header_key,
                topic,
                error,
            )
            return SchemaAndValue(Schema.BYTES_SCHEMA, value)

    def close(self) -> None:
        """There is nothing to release."""
