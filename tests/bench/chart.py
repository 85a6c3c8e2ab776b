"""The README's chart of speed, for light and for dark pages, drawn from the table of docs/benchmarks.md.

python tests/bench/chart.py   writes docs/images/speed-light.svg and speed-dark.svg
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

__all__ = ["CHARTS", "Bar", "bars_of", "drawn"]

_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_PAGE: Final = _ROOT / "docs" / "benchmarks.md"
# case of the bench -> what a reader calls it
_CASES: Final[Mapping[str, str]] = {
    "file-to-topic": "file to topic",
    "topic-to-file": "topic to file",
    "json-schemas": "JSON with schema, three steps",
    "json-schemaless": "JSON without schema, three steps",
}
# Text, faint text, Java's bar, ours
_COLOURS: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "light": ("#1f2328", "#59636e", "#b7bec7", "#d9541e"),
    "dark": ("#f0f6fc", "#9198a1", "#4c5561", "#ff7a45"),
}
_WIDTH: Final = 840
_LEFT: Final = 250
_LONGEST: Final = 400
_ROW: Final = 58


@dataclass(frozen=True, slots=True)
class Bar:
    """A kind of work: records a second of Java Connect and of kconnect."""

    title: str
    java: float
    ours: float


def bars_of(page: str) -> list[Bar]:
    """The cases of the chart, in its order, from the Markdown of docs/benchmarks.md.

    Errors: KeyError for a case that the page does not have.
    """
    rates = {case: (java, ours) for case, java, ours in _rates(page)}
    return [Bar(title, *rates[case]) for case, title in _CASES.items()]


def drawn(bars: list[Bar], colours: tuple[str, str, str, str]) -> str:
    """The chart as SVG: two bars a kind of work, with their numbers and how many times as fast ours is."""
    text, faint, java, ours = colours
    longest = max(max(bar.java, bar.ours) for bar in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_ROW * len(bars) + 40}" '
        f'viewBox="0 0 {_WIDTH} {_ROW * len(bars) + 40}" font-family="system-ui, sans-serif" font-size="14">',
        f'<text x="{_LEFT}" y="16" fill="{faint}">records a second, two cores: </text>',
        f'<rect x="{_LEFT + 208}" y="6" width="11" height="11" fill="{java}"/>',
        f'<text x="{_LEFT + 225}" y="16" fill="{faint}">Java Connect</text>',
        f'<rect x="{_LEFT + 330}" y="6" width="11" height="11" fill="{ours}"/>',
        f'<text x="{_LEFT + 347}" y="16" fill="{faint}">kconnect</text>',
    ]
    for row, bar in enumerate(bars):
        top = 34 + row * _ROW
        beside = f'x="{_LEFT - 14}" y="{top + 24}" text-anchor="end"'
        parts.append(f'<text {beside} fill="{text}">{escape(bar.title)}</text>')
        for place, (rate, colour) in enumerate(((bar.java, java), (bar.ours, ours))):
            width = max(2, round(_LONGEST * rate / longest))
            above = top + place * 20
            message = f"{rate / 1e6:.2f} M" + (f"  ({bar.ours / bar.java:.1f} x)" if place else "")
            parts.append(f'<rect x="{_LEFT}" y="{above}" width="{width}" height="16" fill="{colour}"/>')
            parts.append(f'<text x="{_LEFT + width + 8}" y="{above + 13}" fill="{text}">{message}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rates(page: str) -> Iterator[tuple[str, float, float]]:
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[1].startswith("records/s (") and "-" not in (cells[2], cells[3]):
            yield cells[0], _number(cells[2]), _number(cells[3])


def _number(cell: str) -> float:
    """The median of a cell such as `1,645,108 (1,619,421 - 1,670,795)`."""
    return float(cell.partition(" ")[0].replace(",", ""))


CHARTS: Final = {_ROOT / "docs" / "images" / f"speed-{name}.svg": colours for name, colours in _COLOURS.items()}
"""Each file of the chart, and its colours."""


if __name__ == "__main__":
    for file, colours in CHARTS.items():
        file.write_text(drawn(bars_of(_PAGE.read_text("utf-8")), colours), "utf-8")
