"""Settings of Java's plugins as ConfigDef, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kconnect.api import ConfigDef
from kconnect.api.config_key import NO_DEFAULT, ConfigKey, ConfigValue, Importance, Width
from kconnect.api.config_parse import ConfigType, convert_to_string, parse_type
from kconnect.errors import ConfigError

Check = Callable[[str, str | None], str | None]
"""Asks the plugin's own validator: name and value as text; the sentence it throws, None when it is content."""


class JavaValidator:
    """The validator of one setting, asked in Java."""

    def __init__(self, check: Check, told: str) -> None:
        self._check = check
        self._told = told

    def ensure_valid(self, name: str, value: Any) -> None:
        problem = self._check(name, None if value is None else str(value))
        if problem is not None:
            raise ConfigError(problem)

    def __str__(self) -> str:
        return self._told


def config_def(keys: Sequence[Mapping[str, Any]] | None, check: Check | None = None) -> ConfigDef:
    """The table of what Java's `ConfigJson.keys` told."""
    made = ConfigDef()
    for key in keys or ():
        kind = ConfigType[str(key["type"])]
        text = key["default"]
        made.define_key(
            ConfigKey(
                name=str(key["name"]),
                type=kind,
                default=NO_DEFAULT if key["required"] else (None if text is None else _parsed(key["name"], text, kind)),
                validator=JavaValidator(check, str(key["validator"])) if check and key["validated"] else None,
                importance=Importance[str(key["importance"])],
                doc=key["doc"] or "",
                group=key["group"],
                order=int(key["order"]),
                width=Width[str(key["width"])],
                display_name=key["display"] or str(key["name"]),
                dependents=tuple(key["dependents"] or ()),
                internal=bool(key["internal"]),
            )
        )
    return made


def config_values(values: Sequence[Mapping[str, Any]], table: ConfigDef) -> list[ConfigValue]:
    """What Java's validate() found, key by key."""
    made = []
    for value in values:
        name = str(value["name"])
        key = table.config_keys.get(name)
        made.append(
            ConfigValue(
                name,
                _value(name, value["value"], key),
                list(value["recommended"] or ()),
                list(value["errors"] or ()),
                bool(value["visible"]),
            )
        )
    return made


def _value(name: str, text: str | None, key: ConfigKey | None) -> Any:
    if text is None or key is None:
        return text
    try:
        return parse_type(name, text, key.type)
    except ConfigError:
        return text


def _parsed(name: str, text: str, kind: ConfigType) -> Any:
    try:
        parsed = parse_type(name, text, kind)
    except ConfigError:
        return text
    # A default whose text changes on the way would be shown otherwise than by Java
    return parsed if convert_to_string(parsed, kind) == text else text
