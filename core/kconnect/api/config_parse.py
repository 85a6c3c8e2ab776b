"""Converts text to typed values and back by Java's rules, for `ConfigDef`."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from kconnect.errors import ConfigError, NotFoundError

_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+")
# Java's Double.parseDouble also reads a trailing d or f, and hexadecimal floats with their p exponent.
_DECIMAL = re.compile(r"([+-]?)(?:(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(NaN)|(Infinity))[dDfF]?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[dDfF]?", re.ASCII)
# Java trims every character up to and including the space, and nothing above it.
_TRIMMED = "".join(map(chr, range(0x21)))

_BITS = {"INT": 32, "SHORT": 16, "LONG": 64}
_WANTED = {
    "STRING": "a string",
    "PASSWORD": "a string",
    "INT": "a 32-bit integer",
    "SHORT": "a 16-bit integer (short)",
    "LONG": "a 64-bit integer (long)",
    "DOUBLE": "a double",
}


class ConfigType(Enum):
    """The type a setting is parsed to: bool, str, int, float, list[str], class name (str), Password."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"

    @property
    def is_sensitive(self) -> bool:
        return self is ConfigType.PASSWORD


class Password:
    """A secret that is never displayed: `str()` and `repr()` give `[hidden]`, `.value` the text. Source: Password."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def parse_type(name: str, value: Any, type: ConfigType, find_class: Callable[[str], object] | None = None) -> Any:
    """The typed value of one setting; None stays None. Errors: ConfigError with Java's message.

    Shape: text is trimmed; LIST gives list[str]; CLASS gives the name, looked up first if `find_class` is given.
    Source: ConfigDef.parseType.
    """
    if value is None:
        return None
    trimmed = java_trim(value) if isinstance(value, str) else None
    match type:
        case ConfigType.BOOLEAN:
            return _boolean(name, value, trimmed)
        case ConfigType.STRING:
            return trimmed if trimmed is not None else _refuse(name, value, type)
        case ConfigType.PASSWORD:
            if isinstance(value, Password):
                return value
            return Password(trimmed) if trimmed is not None else _refuse(name, value, type)
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _integer(name, value, trimmed, type)
        case ConfigType.DOUBLE:
            return _double(name, value, trimmed)
        case ConfigType.LIST:
            return _list(name, value, trimmed)
        case ConfigType.CLASS:
            return _class_name(name, value, trimmed, find_class)


def convert_to_string(value: Any, type: ConfigType) -> str | None:
    """A typed value as text, as REST shows it; a Password stays hidden. Source: ConfigDef.convertToString."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if type is ConfigType.LIST:
        return ",".join(str(item) for item in value)
    return str(value)


def java_trim(text: str) -> str:
    """Text without leading and trailing control characters and spaces, as Java's `String.trim`."""
    return text.strip(_TRIMMED)


def _boolean(name: str, value: Any, trimmed: str | None) -> bool:
    if isinstance(value, bool):
        return value
    if trimmed is not None and trimmed.lower() in ("true", "false"):
        return trimmed.lower() == "true"
    raise ConfigError.invalid(name, value, "Expected value to be either true or false")


def _integer(name: str, value: Any, trimmed: str | None, type: ConfigType) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif trimmed is None:
        return int(_refuse(name, value, type))
    elif _INTEGER.fullmatch(trimmed):
        number = int(trimmed)
    else:
        raise ConfigError.invalid(name, value, f"Not a number of type {type.name}")
    limit = 1 << (_BITS[type.name] - 1)
    if not -limit <= number < limit:
        raise ConfigError.invalid(name, value, f"Not a number of type {type.name}")
    return number


def _double(name: str, value: Any, trimmed: str | None) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if trimmed is None:
        return float(_refuse(name, value, ConfigType.DOUBLE))
    if _HEX_FLOAT.fullmatch(trimmed):
        return float.fromhex(trimmed.rstrip("dDfF") if trimmed[-1] in "dDfF" else trimmed)
    found = _DECIMAL.fullmatch(trimmed)
    if found is None:
        raise ConfigError.invalid(name, value, "Not a number of type DOUBLE")
    sign, digits, exponent, nan, infinity = found.groups()
    return float(sign + (nan or infinity or digits + (exponent or "")))


def _list(name: str, value: Any, trimmed: str | None) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if trimmed is None:
        raise ConfigError.invalid(name, value, "Expected a comma separated list.")
    return _COMMA.split(trimmed) if trimmed else []


def _class_name(name: str, value: Any, trimmed: str | None, find_class: Callable[[str], object] | None) -> str:
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if trimmed is None:
        raise ConfigError.invalid(name, value, "Expected a Class instance or class name.")
    if find_class is not None:
        try:
            find_class(trimmed)
        except (NotFoundError, ConfigError) as err:
            refused = ConfigError.invalid(name, value, f"Class {value} could not be found.")
            refused.hint = err.hint
            raise refused from err
    return trimmed


def _refuse(name: str, value: Any, type: ConfigType) -> Any:
    found = _java_class(value)
    raise ConfigError.invalid(name, value, f"Expected value to be {_WANTED[type.name]}, but it was a {found}")


def _java_class(value: Any) -> str:
    """The name Java would give the value's class, so that messages read the same."""
    if isinstance(value, bool):
        return "java.lang.Boolean"
    if isinstance(value, int):
        return "java.lang.Integer" if -(1 << 31) <= value < 1 << 31 else "java.lang.Long"
    if isinstance(value, float):
        return "java.lang.Double"
    if isinstance(value, list | tuple):
        return "java.util.ArrayList"
    return type(value).__qualname__
