"""What the built-in converters of data share: their base class, and the setting `converter.type`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from kconnect.api import ConfigDef, Converter, HeaderConverter, Schema, SchemaAndValue
from kconnect.builtin.version import KAFKA_VERSION

TYPE_CONFIG = "converter.type"


class BuiltinConverter(Converter, HeaderConverter):
    """A converter whose headers are converted as its values are, with one table of settings and nothing to close."""

    TABLE: ClassVar[ConfigDef]

    ignores_headers = True

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
        """There is nothing to release."""


def converter_config() -> ConfigDef:
    """A fresh table with that setting. Source: o.a.k.connect.storage.ConverterConfig."""
    return ConfigDef().define(
        TYPE_CONFIG,
        ConfigDef.Type.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.ValidString.in_("key", "value", "header"),
        ConfigDef.Importance.LOW,
        "What this converter is used for.",
    )


def with_type(configs: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The settings with `converter.type` as the runtime knows it, whatever the file says."""
    return {**configs, TYPE_CONFIG: kind}
