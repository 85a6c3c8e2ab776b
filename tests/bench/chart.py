"""Charts of speed and of scale, for light and for dark pages, drawn from the tables of docs/benchmarks.md.

The tables are what the bench prints of its JSON, which compare.py prints again.

python tests/bench/chart.py   writes docs/images/speed-light.svg, speed-dark.svg, scale-light.svg and scale-dark.svg
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

__all__ = ["Bar", "Panel", "bars_of", "charts", "drawn_bars", "drawn_panels", "panels_of"]

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
_LEFT: Final = 280
_LONGEST: Final = 400
_ROW: Final = 58
# What is plotted by the number of idle connectors, as the table names it -> what a reader calls it
_GROWTH: Final[Mapping[str, str]] = {
    "memory (PSS) MB": "memory, MB",
    "CPU, % of a core": "CPU, % of a core",
    "list with statuses and configs, ms": "list with states, ms",
}
_Points = list[tuple[int, float]]
_PANEL: Final = 240
_PLOT: Final = 150


@dataclass(frozen=True, slots=True)
class Bar:
    """A kind of work: records a second of Java Connect and of kconnect."""

    title: str
    java: float
    ours: float


@dataclass(frozen=True, slots=True)
class Panel:
    """How a metric grows: (number of connectors, value) of Java Connect and of kconnect, the fewest first."""

    title: str
    java: tuple[tuple[int, float], ...]
    ours: tuple[tuple[int, float], ...]


def bars_of(page: str) -> list[Bar]:
    """The cases of the chart, in its order, from the Markdown of docs/benchmarks.md.

    Errors: KeyError for a case that the page does not have.
    """
    rates = {case: (java, ours) for case, java, ours in _rates(page)}
    return [Bar(title, *rates[case]) for case, title in _CASES.items()]


def panels_of(page: str) -> list[Panel]:
    """What idle connectors cost, from the same page. Errors: ValueError for a metric that the page does not have."""
    points: dict[str, tuple[_Points, _Points]] = {metric: ([], []) for metric in _GROWTH}
    for case, metric, *sides in _cells(page):
        count = case.removeprefix("scale-idle-")
        if count.isdigit() and metric in points:
            for side, cell in zip(points[metric], sides, strict=True):
                if cell != "-":
                    side.append((int(count), _number(cell)))
    if missing := [metric for metric, (java, ours) in points.items() if not java or not ours]:
        raise ValueError(f"The page has no scale-idle rows with {', '.join(missing)}")
    return [Panel(_GROWTH[metric], tuple(java), tuple(ours)) for metric, (java, ours) in points.items()]


def drawn_panels(panels: Sequence[Panel], colours: tuple[str, str, str, str]) -> str:
    """The panels side by side as SVG: connectors to the right, in powers of ten, the metric upwards from 0."""
    text, faint, java, ours = colours
    width, height = 40 + len(panels) * (_PANEL + 40), _PLOT + 90
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect x="40" y="6" width="11" height="11" fill="{java}"/>',
        f'<text x="57" y="16" fill="{faint}">Java Connect</text>',
        f'<rect x="162" y="6" width="11" height="11" fill="{ours}"/>',
        f'<text x="179" y="16" fill="{faint}">kconnect, by the number of idle connectors</text>',
    ]
    for number, panel in enumerate(panels):
        left, top = 40 + number * (_PANEL + 40), 56
        counts = [count for count, _ in panel.ours]
        most = max(value for _, value in (*panel.java, *panel.ours))
        across = _scale(math.log(counts[0]), math.log(counts[-1]), _PANEL - 40)
        parts.append(f'<text x="{left}" y="{top - 14}" fill="{text}">{escape(panel.title)}</text>')
        parts.append(f'<path d="M{left} {top + _PLOT}h{_PANEL}" stroke="{faint}" stroke-width="1"/>')
        for count in counts:
            at = f'x="{left + across(math.log(count)):.0f}" y="{top + _PLOT + 18}" text-anchor="middle"'
            parts.append(f'<text {at} fill="{faint}">{count:,}</text>')
        for points, colour in ((panel.java, java), (panel.ours, ours)):
            places = [(left + across(math.log(count)), top + _PLOT * (1 - value / most)) for count, value in points]
            line = " ".join(f"{x:.0f},{y:.0f}" for x, y in places)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
            parts += (f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3.5" fill="{colour}"/>' for x, y in places)
            (x, y), (_, value) = places[-1], points[-1]
            parts.append(
                f'<text x="{x + 8:.0f}" y="{y + (4 if colour is ours else -8):.0f}" fill="{text}">{value:,.4g}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _scale(least: float, most: float, length: float) -> Callable[[float], float]:
    return lambda value: length * (value - least) / (most - least)


def drawn_bars(bars: list[Bar], colours: tuple[str, str, str, str]) -> str:
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
    for case, metric, java, ours in _cells(page):
        if metric.startswith("records/s (") and "-" not in (java, ours):
            yield case, _number(java), _number(ours)


def _cells(page: str) -> Iterator[tuple[str, str, str, str]]:
    """Case, metric, Java's cell and ours, of each row that the bench has printed."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5:
            case, metric, java, ours, _ratio = cells
            yield case, metric, java, ours


def _number(cell: str) -> float:
    """The median of a cell such as `1,645,108 (1,619,421 - 1,670,795)`."""
    return float(cell.partition(" ")[0].replace(",", ""))


def charts(page: str) -> dict[Path, str]:
    """Each file of the charts, and what is in it."""
    bars, panels = bars_of(page), panels_of(page)
    images = _ROOT / "docs" / "images"
    made = {}
    for name, colours in _COLOURS.items():
        made[images / f"speed-{name}.svg"] = drawn_bars(bars, colours)
        made[images / f"scale-{name}.svg"] = drawn_panels(panels, colours)
    return made


if __name__ == "__main__":
    for file, drawn in charts(_PAGE.read_text("utf-8")).items():
        file.write_text(drawn, "utf-8")
