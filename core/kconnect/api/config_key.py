"""What a table of settings is made of: its rows (ConfigKey), and what validation finds for them (ConfigValue)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from kconnect.api.config_parse import ConfigType, convert_to_string
from kconnect.api.config_validators import Validator

__all__ = ["NO_DEFAULT", "Config", "ConfigKey", "ConfigValue", "Importance", "NoDefault", "Recommender", "Width"]


class Importance(Enum):
    """How much a setting matters to most users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """How wide a form should draw the field of a setting."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class NoDefault(Enum):
    """The type of NO_DEFAULT: a setting without a default must be given."""

    NO_DEFAULT = "NO_DEFAULT"


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


class Recommender(Protocol):
    """Suggests values for a setting and says whether a form should show it. Source: ConfigDef.Recommender.

    Called by `ConfigDef.validate`, once for each setting, on the thread that validates; NOT by `parse`. `parsed` has
    the settings by name, None where one could not be parsed. Must not block for long.
    """

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        """Values to offer, given what the other settings are; may raise ConfigError."""
        ...

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Whether the setting has a meaning, given what the other settings are."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of the table. Source: ConfigDef.ConfigKey."""

    name: str
    type: ConfigType
    default: Any  # parsed; NO_DEFAULT when the setting must be given
    validator: Validator | None
    importance: Importance
    doc: str
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    internal: bool = False

    @property
    def has_default(self) -> bool:
        """Whether it may be left out."""
        return self.default is not NO_DEFAULT

    @property
    def default_string(self) -> str | None:
        """The default as REST shows it; None when there is none."""
        return convert_to_string(self.default, self.type) if self.has_default else None


@dataclass(slots=True)
class ConfigValue:
    """What validation found for one setting. Mutable, so that a connector's `validate` can add to it."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    error_messages: list[str] = field(default_factory=list)
    visible: bool = True

    def add_error_message(self, message: str) -> None:
        """Add a sentence about what is wrong; the user reads it beside the setting's name."""
        self.error_messages.append(message)


@dataclass(frozen=True, slots=True)
class Config:
    """All values of one validated config, which `Connector.validate` returns."""

    config_values: list[ConfigValue]
