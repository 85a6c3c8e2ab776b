"""Labels of connectors: `kconnect.labels=team=x,env=prod` in a config, and selectors over them. Pure.

Java's workers keep the setting as they keep any unknown one, so labels work on their clusters too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kconnect.errors import ConfigError

LABELS: Final = "kconnect.labels"

Labels: TypeAlias = Mapping[str, str]
"""Shape: key -> value, which may be empty."""

_KEY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._/:@-]*[A-Za-z0-9])?)?")
_SELECTORS: Final = "For example: team=x, team!=x, team, or team=x,env=prod"
_RULE: Final = "letters, digits and . _ - / inside, values also : and @"


def parse_labels(text: str) -> dict[str, str]:
    """The labels that a setting says. Errors: ConfigError for what is not key=value pairs with commas between them."""
    labels: dict[str, str] = {}
    for pair in text.split(",") if text.strip() else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise ConfigError(
                f"{pair.strip() or 'an empty pair'} is not key=value", hint="For example: team=x,env=prod"
            )
        _require_key(key)
        _require_value(value)
        if key in labels:
            raise ConfigError(f"the label {key} is given twice", hint="A label has one value.")
        labels[key] = value
    return labels


def labels_of(config: Mapping[str, str | None]) -> dict[str, str] | None:
    """The labels of a connector; None if they cannot be read, as a worker of Java's accepts anything."""
    try:
        return parse_labels(config.get(LABELS) or "")
    except ConfigError:
        return None


def labels_text(labels: Labels) -> str:
    """Writes them as the setting has them, by key."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Chooses connectors by their labels: every requirement has to hold."""

    text: str
    requirements: tuple[Requirement, ...]

    @classmethod
    def parse(cls, texts: Sequence[str]) -> LabelSelector:
        """`team=x`, `team!=x`, `team` (there is such a label), `!team` (there is none); comma means and, so do several.

        Errors: ConfigError for anything else, and for an empty selector, which would match every connector.
        """
        parts = [part.strip() for text in texts for part in text.split(",")]
        return cls(",".join(parts), tuple(_requirement(part) for part in parts))

    @property
    def is_positive(self) -> bool:
        """Whether it asks for a label that is there: otherwise it matches connectors that have no labels at all."""
        return any(not requirement.is_negative for requirement in self.requirements)

    def matches(self, labels: Labels | None) -> bool:
        """Whether a connector with these labels is meant. None, labels that cannot be read: it never is."""
        return labels is not None and all(requirement.holds(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a selector. `value` None: any value."""

    key: str
    value: str | None
    is_negative: bool

    def holds(self, labels: Labels) -> bool:
        has = self.key in labels if self.value is None else labels.get(self.key) == self.value
        return has is not self.is_negative


def _requirement(text: str) -> Requirement:
    key, value, is_negative = text, None, False
    if "=" in text:
        key, _, value = text.partition("=")
        value = value.removeprefix("=")  # == is =, as in Kubernetes
        if key.endswith("!"):
            key, is_negative = key.removesuffix("!"), True
        value = value.strip()
        _require_value(value)
    elif text.startswith("!"):
        key, is_negative = text.removeprefix("!"), True
    if not key.strip():
        raise ConfigError(
            f"{text or 'an empty selector'} names no label",
            hint=_SELECTORS,
        )
    if not _KEY.fullmatch(key.strip()):
        raise ConfigError(f"{text} is not a selector", hint=_SELECTORS)
    return Requirement(key.strip(), value, is_negative)


def _require_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ConfigError(f"{key or 'an empty text'} is not the key of a label", hint=f"A key has {_RULE}.")


def _require_value(value: str) -> None:
    if not _VALUE.fullmatch(value):
        raise ConfigError(f"{value} is not the value of a label", hint=f"A value has {_RULE}.")
