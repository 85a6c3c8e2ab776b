"""The setting that every converter has: whether it works on keys, values or headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect.api import ConfigDef

__all__ = ["TYPE_CONFIG", "converter_config", "with_type"]

TYPE_CONFIG = "converter.type"


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
