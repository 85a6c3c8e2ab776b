"""The parts of a settings table: its rows (ConfigKey), and their validation results (ConfigValue)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from kconnect.api.config_parse import ConfigType, convert_to_string
from kconnect.api.config_validators import Validator


class Importance(Enum):
    """How important a setting is to most users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """The width of a setting's field in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class NoDefault(Enum):
    """The type of NO_DEFAULT: a setting without a default is required."""

    NO_DEFAULT = "NO_DEFAULT"


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


class Recommender(Protocol):
    """Suggests values for a setting and says whether a form should show it. Source: ConfigDef.Recommender.

    Called by `ConfigDef.validate`, once for each setting, on the thread that validates; NOT by `parse`. `parsed` has
    the settings by name, None where one could not be parsed. Must not block for long.
    """

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        """Suggested values, given the other settings; may raise ConfigError."""
        ...

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Whether the setting applies, given the other settings."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of the table. Source: ConfigDef.ConfigKey."""

    name: str
    type: ConfigType
    default: Any  # parsed; NO_DEFAULT if the setting is required
    validator: Validator | None
    importance: Importance
    doc: str
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str | None = ""  # None: Java's null
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    internal: bool = False

    @property
    def has_default(self) -> bool:
        """Whether it is optional."""
        return self.default is not NO_DEFAULT

    @property
    def default_string(self) -> str | None:
        """The default as REST shows it; None if there is none."""
        return convert_to_string(self.default, self.type) if self.has_default else None


class MayPass(str):
    """A message about what may be well later by itself, such as a server that is away.

    It refuses a connector that somebody creates or changes, and not one that a worker starts from its files.
    """

    __slots__ = ()


@dataclass(slots=True)
class ConfigValue:
    """The validation result of one setting. Mutable, so that a connector's `validate` can add to it."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    error_messages: list[str] = field(default_factory=list)
    visible: bool = True

    def add_error_message(self, message: str) -> None:
        """Add an error message; the user sees it beside the setting's name."""
        self.error_messages.append(message)


@dataclass(frozen=True, slots=True)
class Config:
    """All values of a validated config, as `Connector.validate` returns them."""

    config_values: list[ConfigValue]
