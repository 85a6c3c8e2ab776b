"""Which connectors of the overview are shown, by words, health and labels; and chips that change it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from kconnect.admin.console.connector_rows import ConnectorRow
from kconnect.runtime.config.labels import LabelSelector

# Chips of labels; a cluster with more kinds of them is searched by typing
_MOST_CHIPS: Final = 24


@dataclass(frozen=True, slots=True)
class Filter:
    """Which connectors are shown: a part of name, reason, type or label; the health; and a selector of labels."""

    text: str = ""
    health: str = ""
    labels: LabelSelector | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Filter:
        """`given`: fields of a query or a form. Errors: ConfigError for a selector that is none."""
        selector = given.get("label", "").strip()
        labels = LabelSelector.parse([selector]) if selector else None
        return cls(given.get("q", "").strip(), given.get("state", ""), labels)

    @property
    def given(self) -> dict[str, str]:
        """The fields it was made of, those that are set."""
        found = {"q": self.text, "state": self.health, "label": "" if self.labels is None else self.labels.text}
        return {key: value for key, value in found.items() if value}

    def url(self, **changed: str) -> str:
        """Gives the page with this filter, and other values for some of its fields."""
        given = {key: value for key, value in {**self.given, **changed}.items() if value}
        return f"/ui?{urlencode(given)}" if given else "/ui"

    def admits(self, row: ConnectorRow) -> bool:
        if self.health and row.health != self.health:
            return False
        if self.labels is not None and not self.labels.matches(None if row.labels is None else dict(row.labels)):
            return False
        words = self.text.casefold().split()
        labels = " ".join(f"{key}={value}" for key, value in row.labels or ())
        place = f"{row.name} {row.type} {row.why} {labels}".casefold()
        return all(word in place for word in words)


@dataclass(frozen=True, slots=True)
class LabelChip:
    """A label that some connectors have, as a filter. `url`: the page with it, or without it while it is chosen."""

    text: str
    count: int
    is_chosen: bool
    url: str


def label_chips(rows: Iterable[ConnectorRow], wanted: Filter) -> tuple[list[LabelChip], int]:
    """Gives those that are chosen and those that most connectors have, by name; and how many others there are."""
    counts = Counter(f"{key}={value}" for row in rows for key, value in row.labels or ())
    chosen = [] if wanted.labels is None else wanted.labels.text.split(",")
    shown = sorted({*chosen, *(text for text, _ in counts.most_common(_MOST_CHIPS))})
    chips = []
    for text in shown:
        key = text.partition("=")[0]
        # A connector has one value of a key: another one takes its place
        others = [part for part in chosen if part != text and part.partition("=")[0] != key]
        after = [part for part in chosen if part != text] if text in chosen else [*others, text]
        chips.append(LabelChip(text, counts[text], text in chosen, wanted.url(label=",".join(after))))
    return chips, len(counts.keys() - set(shown))
