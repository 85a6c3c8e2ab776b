"""The settings that declare a schema: their names, their text in the tables of settings, and what a config has of them.

Imported by who reads configs, so it loads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from kconnect.api.configdef import ConfigDef

T = TypeVar("T")
VALUE_SCHEMA: Final = "value.schema"
OF_TOPIC: Final = "value.schema."
"""Followed by a topic: the schema of that topic's values."""
FORMER_NAMES: Final = ("spark.schema", "table.schema")
"""Had the same meaning in sinks."""
CATALOG_PREFIX: Final = "table.catalog."
"""Where names of Iceberg's tables are."""
CATALOG_TIMEOUT: Final = "table.catalog.timeout.ms"
CATALOG_TIMEOUT_MS: Final = 30_000
_DOC: Final = (
    "What values are, in Spark's DDL: `id bigint, price decimal(12,2), at timestamp, tags array<string>`. Or a file: "
    "orders.avsc, a JSON Schema in orders.json, DDL in orders.sql; or like:PATH, the columns of a table that is there. "
    "value.schema.TOPIC: of one topic. docs/types.md has the types and how values are read."
)


def with_value_schema(table: ConfigDef) -> ConfigDef:
    """The table of settings with those of this room."""
    return table.define_prefix(OF_TOPIC).define(
        VALUE_SCHEMA, ConfigDef.Type.STRING, "", None, ConfigDef.Importance.MEDIUM, _DOC
    )


def declarations(settings: Mapping[str, Any], *, is_sink: bool) -> dict[str, str]:
    """The settings of a connector that declare a schema, with what they say. Empty ones declare nothing."""
    names = [name for name in settings if _declares(name, is_sink=is_sink)]
    return {name: text for name in names if (text := str(settings[name] or "").strip())}


def catalog_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What pyiceberg is given of a connector's settings."""
    return {
        key.removeprefix(CATALOG_PREFIX): value
        for key, value in settings.items()
        if key.startswith(CATALOG_PREFIX) and key != CATALOG_TIMEOUT
    }


def without_taken(settings: Mapping[str, T], table: ConfigDef) -> dict[str, T]:
    """The settings without those whose names are of this room, but which a connector's table has with a meaning of its
    own, such as `value.schema.fields` of a connector of others.
    """
    row = table.config_keys.get(VALUE_SCHEMA)
    if row is not None and row.doc == _DOC:
        return dict(settings)
    return {
        name: text
        for name, text in settings.items()
        if not (_declares(name, is_sink=True) and (name in table.config_keys or name.startswith(table.prefixes)))
    }


def _declares(name: str, *, is_sink: bool) -> bool:
    return name == VALUE_SCHEMA or name.startswith(OF_TOPIC) or (is_sink and name in FORMER_NAMES)
