"""Samples of a worker's `/metrics`, Prometheus' text format, of the metrics that are asked for.

A worker with a thousand tasks answers with a hundred thousand lines: one regular expression picks the lines that are
wanted, and the rest is never taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One line: `kafka_connect_x{connector="orders",task="0"} 12`."""

    name: str
    labels: dict[str, str]
    value: float


def samples_of(text: str, names: Collection[str]) -> Iterator[Sample]:
    """The samples with these names, in the text's order. Values that are not numbers are left out."""
    wanted = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    for found in re.finditer(rf"^({wanted})(?:\{{(.*)\}})? (\S+)", text, re.MULTILINE):
        name, labels, value = found.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        yield Sample(name, {key: _plain(text) for key, text in _LABEL.findall(labels or "")}, number)


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
