"""Settings of Java's plugins as ConfigDef, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kconnect.api import ConfigDef
from kconnect.api.config_key import NO_DEFAULT, ConfigKey, ConfigValue, Importance, Width
from kconnect.api.config_parse import ConfigType, convert_to_string, parse_type
from kconnect.errors import ConfigError

Ask = Callable[[str, Mapping[str, str | None]], Sequence[Mapping[str, Any]]]
"""Has Java validate the settings of a plugin below a prefix, both given: what its `ConfigJson.values` tells."""


@dataclass(frozen=True, slots=True)
class _InJava:
    """The validator of one setting, for those who read its text: Java asks it, with the value as Java parses it."""

    reported: str

    def ensure_valid(self, name: str, value: Any) -> None:
        """Nothing: see `ConfigDef.check_with`."""

    def __str__(self) -> str:
        return self.reported


def config_def(keys: Sequence[Mapping[str, Any]] | None, ask: Ask | None = None) -> ConfigDef:
    """The table of what Java's `ConfigJson.keys` reported; `ask`: where its values are checked."""
    made = ConfigDef()
    for key in keys or ():
        kind = ConfigType[str(key["type"])]
        text = key["default"]
        made.define_key(
            ConfigKey(
                name=str(key["name"]),
                type=kind,
                default=NO_DEFAULT if key["required"] else (None if text is None else _parsed(key["name"], text, kind)),
                validator=_InJava(str(key["validator"])) if key["validated"] else None,
                importance=Importance[str(key["importance"])],
                doc=key["doc"] or "",
                group=key["group"],
                order=int(key["order"]),
                width=Width[str(key["width"])],
                display_name=key["display"],
                dependents=tuple(key["dependents"] or ()),
                internal=bool(key["internal"]),
            )
        )
    if ask is not None and any(_wants_java(key) for key in keys or ()):
        made.check_with(lambda prefix, props: config_values(ask(prefix, props), made, prefix))
    return made


def _wants_java(key: Mapping[str, Any]) -> bool:
    """Whether more than the type of a setting counts: a class has to be there for the plugin's own loader."""
    return bool(key["validated"] or key["recommends"] or key["type"] == ConfigType.CLASS.value)


def config_values(values: Sequence[Mapping[str, Any]], table: ConfigDef, prefix: str = "") -> list[ConfigValue]:
    """What Java's validate() found, key by key. `prefix`: that of names, which the table's rows do not have."""
    made = []
    for value in values:
        name = str(value["name"])
        key = table.config_keys.get(name.removeprefix(prefix))
        made.append(
            ConfigValue(
                name,
                _value(name, value["value"], key),
                list(dict.fromkeys(value["recommended"] or ())),
                [str(error or "null") for error in value["errors"] or ()],  # as of an exception without message
                bool(value["visible"]),
            )
        )
    return made


def _value(name: str, text: str | None, key: ConfigKey | None) -> Any:
    return text if text is None or key is None else _parsed(name, text, key.type)


def _parsed(name: str, text: str, kind: ConfigType) -> Any:
    try:
        parsed = parse_type(name, text, kind)
    except ConfigError:
        return text
    # One whose text changes on the way would be shown otherwise than by Java
    return parsed if kind.is_sensitive or convert_to_string(parsed, kind) == text else text
