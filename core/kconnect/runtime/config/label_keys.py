"""The setting with a connector's labels.

Differs: Java's workers keep it as any unknown setting, and refuse nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kconnect.api.config_key import Importance
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.runtime.config.key_table import define_rows
from kconnect.runtime.config.labels import LABELS, parse_labels


def label_problems(config: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """What is wrong with a connector's labels: pairs of key and message."""
    value = config.get(LABELS)
    try:
        LABEL_CONFIG.parse({LABELS: value} if isinstance(value, str) else {})
    except ConfigError as error:
        return [(LABELS, str(error))]
    return []


def _check(name: str, value: Any) -> None:  # what the type parses to
    try:
        parse_labels(value or "")
    except ConfigError as error:
        raise ConfigError.invalid(name, value, f"{error}. {error.hint}") from error


LABEL_CONFIG: Final = define_rows(
    None,
    (
        (
            LABELS,
            ConfigDef.Type.STRING,
            "",
            ConfigDef.LambdaValidator(_check, "key=value pairs with commas between them"),
            Importance.LOW,
            "Labels by which commands select connectors (`-l team=x`): plain text, no references.",
        ),
    ),
)
"""Ours alone, so it is not in the answers of validate, which are Java's."""
