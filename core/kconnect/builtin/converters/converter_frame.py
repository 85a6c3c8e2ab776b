"""ConverterFrame: what all our converters of data do alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from kconnect.api import ConfigDef, Converter, HeaderConverter, Schema, SchemaAndValue
from kconnect.builtin.version import KAFKA_VERSION

__all__ = ["ConverterFrame"]


class ConverterFrame(Converter, HeaderConverter):
    """A converter whose headers are converted as its values are, with one table of settings and nothing to close."""

    TABLE: ClassVar[ConfigDef]

    @abstractmethod
    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None: ...

    def config(self) -> ConfigDef:
        return self.TABLE

    def version(self) -> str:
        return KAFKA_VERSION

    def from_connect_header(self, topic: str, header_key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, header_key: str, value: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, value)

    def close(self) -> None:
        """Nothing to let go of."""
