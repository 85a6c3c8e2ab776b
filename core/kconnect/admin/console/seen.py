"""What a page was made from, as its form carries it: what somebody else changes meanwhile is noticed, and shown.

Tags say whether something has changed: a worker's ETag, which goes back as If-Match, or a fingerprint of ours where
nobody gives one (Java's workers, the topics). What was shown says what has. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from kconnect.client.masks import masked, unmasked
from kconnect.client.offset_history import offset_text
from kconnect.errors import BadRequestError
from kconnect.logs.redaction import HIDDEN
from kconnect.model import ConnectorOffset, offsets_from_json, offsets_to_json


@dataclass(frozen=True, slots=True)
class SeenConfig:
    """A connector's config at one time. `shown`: without secrets, so that a form may have it."""

    tag: str
    shown: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, config: Mapping[str, str], tag: str, passwords: Iterable[str]) -> Self:
        return cls(tag, masked(config, frozenset(passwords)))

    @classmethod
    def of_form(cls, field: Callable[[str], str]) -> Self:
        """`field`: gives a field of the form by its name. Errors: BadRequestError."""
        shown = _json(field("base"))
        if not field("based") or not isinstance(shown, dict):
            raise BadRequestError(_NOT_OF_A_PAGE)
        return cls(field("based"), {str(key): str(value) for key, value in shown.items()})

    @property
    def fields(self) -> dict[str, str]:
        """Gives the fields of a form, by their names."""
        return {"based": self.tag, "base": json.dumps(dict(self.shown), ensure_ascii=False)}

    def changed_to(self, now: Self) -> list[tuple[str, str | None, str | None]]:
        """Key, value then and now, of each setting that differs; a secret that became another one cannot be
        recognized.
        """
        keys = sorted(self.shown.keys() | now.shown.keys())
        pairs = [(key, self.shown.get(key), now.shown.get(key)) for key in keys]
        return [each for each in pairs if each[1] != each[2]]


@dataclass(frozen=True, slots=True)
class SeenOffsets:
    """A connector's offsets at one time."""

    tag: str
    offsets: Sequence[ConnectorOffset]

    @classmethod
    def of_form(cls, field: Callable[[str], str]) -> Self:
        """Works as that of SeenConfig."""
        shown = _json(field("base"))
        if not field("based") or not isinstance(shown, dict):
            raise BadRequestError(_NOT_OF_A_PAGE)
        return cls(field("based"), offsets_from_json(shown))

    @property
    def fields(self) -> dict[str, str]:
        return {"based": self.tag, "base": json.dumps(offsets_to_json(self.offsets), ensure_ascii=False)}

    def changed_to(self, now: Self) -> list[tuple[str, str, str]]:
        """Partition, offset then and now, of each that differs."""
        old, new = (
            {offset_text(item.partition): offset_text(item.offset) for item in each} for each in self._both(now)
        )
        pairs = [(key, old.get(key, "-"), new.get(key, "-")) for key in sorted(old.keys() | new.keys())]
        return [each for each in pairs if each[1] != each[2]]

    def _both(self, now: Self) -> tuple[Sequence[ConnectorOffset], Sequence[ConnectorOffset]]:
        return self.offsets, now.offsets


@dataclass(frozen=True, slots=True)
class Merged:
    """What a reader typed, on top of what has changed meanwhile. `both`: settings that both have changed."""

    config: Mapping[str, str] = field(repr=False)
    both: tuple[str, ...] = ()


def merged(base: SeenConfig, typed: Mapping[str, str], live: Mapping[str, str], now: SeenConfig) -> Merged:
    """A form that began as `base`, on the config of now: what the form does not change stays as it is now.

    `typed`: the form's settings, with masks for secrets it does not change. `live`, `now`: the config in force.
    Errors: BadRequestError for a mask without a secret behind it.
    """
    found, both = {}, []
    for key in [*live, *(key for key in typed if key not in live)]:
        old, new, current = base.shown.get(key), typed.get(key), now.shown.get(key)
        if new == old:
            value = live.get(key)
        else:
            value = live.get(key, HIDDEN) if new == HIDDEN else new
            if current not in (old, new):
                both.append(key)
        if value is not None:
            found[key] = value
    return Merged(unmasked(found, {}, found.get("name", "the connector")), tuple(both))


_NOT_OF_A_PAGE = "The form does not say what it was made from: open the page again"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
