"""Patterns of SimpleDateFormat in settings: refused by validate, not at the first record."""

from __future__ import annotations

from typing import Any

from kconnect.api import ConfigError
from kconnect.api.config_parse import java_trim
from kconnect.api.config_validators import LambdaValidator
from kconnect.java.compat.simple_date_format import DatePattern


def pattern_validator() -> LambdaValidator:
    """Takes what SimpleDateFormat takes, and texts of nothing but spaces."""
    return LambdaValidator.with_(_check, "a pattern of java.text.SimpleDateFormat")


def _check(name: str, pattern: Any) -> None:
    if pattern is None or not java_trim(pattern):
        return
    try:
        DatePattern(pattern)
    except ValueError as error:
        raise ConfigError.invalid(name, pattern, f"{error}; it must be a pattern of SimpleDateFormat") from error
