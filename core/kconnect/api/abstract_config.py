"""AbstractConfig: the settings of a plugin, parsed by its ConfigDef, and which of them it has asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from kconnect.api.config_parse import ConfigType, Password
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError

log = logging.getLogger(__name__)


class AbstractConfig:
    """Typed settings; extend it to give them names. Threads: any, once it is made.

        class OrdersConfig(AbstractConfig):
            DEF = ConfigDef().define("batch.size", ConfigDef.Type.INT, 100, ...)

            def __init__(self, props):
                super().__init__(self.DEF, props)

        OrdersConfig({"batch.size": "5"}).get_int("batch.size")  # 5

    Errors: ConfigError for missing or invalid settings when it is made, for unknown names afterwards.
    Source: o.a.k.common.config.AbstractConfig (Kafka 4.3).
    Differs: a getter of another type is a ConfigError where Java casts and fails; references (`${provider:..}`) are
    resolved by the worker before a plugin sees its settings; instances of classes are for the plugin to make.
    """

    def __init__(self, definition: ConfigDef, originals: Mapping[str, Any]) -> None:
        self._definition = definition
        self._originals = dict(originals)
        self._values = definition.parse(self._originals)
        self._used: set[str] = set()
        self._values.update(self.post_process_parsed_config(dict(self._values)))

    def post_process_parsed_config(self, parsed_values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings to set in place of the parsed ones; for those that depend on each other. Default: none."""
        return {}

    def get(self, key: str) -> Any:
        """The value, of whatever type its definition has."""
        if key not in self._values:
            raise ConfigError(f"Unknown configuration '{key}'")
        self._used.add(key)
        return self._values[key]

    def get_boolean(self, key: str) -> bool | None:
        """Returns None where the setting has no value, as with all getters."""
        return cast("bool | None", self._of_type(key, ConfigType.BOOLEAN))

    def get_short(self, key: str) -> int | None:
        """A 16-bit integer."""
        return cast("int | None", self._of_type(key, ConfigType.SHORT))

    def get_int(self, key: str) -> int | None:
        """A 32-bit integer."""
        return cast("int | None", self._of_type(key, ConfigType.INT))

    def get_long(self, key: str) -> int | None:
        """A 64-bit integer."""
        return cast("int | None", self._of_type(key, ConfigType.LONG))

    def get_double(self, key: str) -> float | None:
        """A float."""
        return cast("float | None", self._of_type(key, ConfigType.DOUBLE))

    def get_list(self, key: str) -> list[str] | None:
        """A list of texts."""
        return cast("list[str] | None", self._of_type(key, ConfigType.LIST))

    def get_string(self, key: str) -> str | None:
        """A text."""
        return cast("str | None", self._of_type(key, ConfigType.STRING))

    def get_password(self, key: str) -> Password | None:
        """A secret; its text is `.value`."""
        return cast("Password | None", self._of_type(key, ConfigType.PASSWORD))

    def get_class(self, key: str) -> str | None:
        """The name of a class."""
        return cast("str | None", self._of_type(key, ConfigType.CLASS))

    def _of_type(self, key: str, wanted: ConfigType) -> object:
        value, found = self.get(key), self.type_of(key)
        if found is not wanted:
            raise ConfigError(f"Setting {key} is of type {found.name if found else 'none'}, not {wanted.name}")
        return value

    def type_of(self, key: str) -> ConfigType | None:
        """How a setting is defined; None for one that is not."""
        defined = self._definition.config_keys.get(key)
        return None if defined is None else defined.type

    def documentation_of(self, key: str) -> str | None:
        """What its definition says of a setting; None for one that is not defined."""
        defined = self._definition.config_keys.get(key)
        return None if defined is None else defined.doc

    def values(self) -> dict[str, Any]:
        """All defined settings with their values. They do not count as used."""
        return dict(self._values)

    def originals(self) -> dict[str, Any]:
        """What it was made of, settings that are not defined included."""
        return dict(self._originals)

    def originals_strings(self) -> dict[str, str]:
        """The same. Errors: ConfigError when one of them is not a string."""
        for key, value in self._originals.items():
            if not isinstance(value, str):
                raise ConfigError(f"Setting {key} is not a string but {type(value).__name__}")
        return dict(self._originals)

    def originals_with_prefix(self, prefix: str, *, strip: bool = True) -> dict[str, Any]:
        """The originals whose names begin so, by default without that beginning."""
        cut = len(prefix) if strip else 0
        found = {key: value for key, value in self._originals.items() if key.startswith(prefix) and key != prefix}
        self._used.update(found)
        return {key[cut:]: value for key, value in found.items()}

    def unused(self) -> set[str]:
        """Names of given settings that nobody asked for."""
        return set(self._originals) - self._used

    def ignore(self, key: str) -> None:
        """Count a setting as used."""
        self._used.add(key)

    def log_unused(self) -> None:
        """Write a line for the settings that nobody asked for: they are misspelt, or for somebody else."""
        if unused := sorted(self.unused()):
            log.info("These configurations %s were supplied but are not used yet.", unused)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractConfig) and self._originals == other._originals

    def __hash__(self) -> int:
        return hash(frozenset(self._originals))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self._values))})"  # names alone: values may be secrets
