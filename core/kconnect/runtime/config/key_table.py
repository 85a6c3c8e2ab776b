"""Rows of the settings tables (name, type, default, validator, importance, text), and tables made from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from kconnect.api.config_key import Importance
from kconnect.api.config_parse import ConfigType
from kconnect.api.config_validators import Validator
from kconnect.api.configdef import ConfigDef

# The default has the type that the setting parses to.
Row: TypeAlias = tuple[str, ConfigType, Any, Validator | None, Importance, str]
Rows: TypeAlias = tuple[Row, ...]


def define_rows(base: ConfigDef | None, *groups: Iterable[Row]) -> ConfigDef:
    """A new table with the rows of `base` and then these."""
    table = ConfigDef(base)
    for rows in groups:
        for row in rows:
            table.define(*row)
    return table
