"""The drawing of docs/architecture.md, for light and for dark pages: boxes and arrows as SVG.

python -m kit.architecture_drawing   writes docs/images/architecture-light.svg and architecture-dark.svg
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from kit.places import DOCS

__all__ = ["COLOURS", "drawn", "path_of"]

# Text, faint text, lines, a process, a part of it, what is emphasized
COLOURS: Final[Mapping[str, tuple[str, str, str, str, str, str]]] = {
    "light": ("#1f2328", "#59636e", "#8c959f", "#f6f8fa", "#ffffff", "#d9541e"),
    "dark": ("#f0f6fc", "#9198a1", "#656c76", "#151b23", "#0d1117", "#ff7a45"),
}
_SIZE: Final = (840, 610)
# Processes: x, y, width, height, title
_PROCESSES: Final = (
    (20, 10, 300, 52, "connect: commands, web console"),
    (480, 10, 340, 52, "other workers, kconnect's or Java's"),
    (20, 120, 800, 136, "worker: one process, the Spark driver"),
    (20, 330, 660, 170, "slot: one long-running Spark task = one Python process"),
    (20, 552, 800, 46, "Kafka"),
)
# Parts: x, y, width, title, what it does
_PARTS: Final = (
    (40, 160, 110, "rest", "HTTP"),
    (184, 160, 130, "herder", "who runs what"),
    (348, 160, 130, "launcher", "places tasks"),
    (512, 160, 130, "slot pool", "a Spark job a slot"),
    (676, 160, 124, "storage", "topics, or a file"),
)
_STEPS: Final = (
    (374, "source", ("poll", "transforms", "converters", "produce")),
    (436, "sink", ("put", "transforms", "converters", "consume")),
)
# Arrows: path, label, x and y of the label, whether both ends have a head
_ARROWS: Final = (
    ("M95 62 V160", "REST", 104, 98, False),
    ("M560 62 V98 H249 V160", "group protocol, REST", 336, 92, True),
    ("M150 190 H184", "", 0, 0, False),
    ("M314 190 H348", "", 0, 0, False),
    ("M478 190 H512", "", 0, 0, False),
    ("M577 220 V330", "control link: start, stop, pause; status, offsets", 292, 296, True),
    ("M738 220 V552", "config, status, offsets", 600, 296, True),
    ("M612 391 H650 V552", "", 0, 0, False),
    ("M634 552 V453 H612", "", 0, 0, False),
)
_HEAD: Final = "M0 0 L8 4 L0 8 z"


def drawn(colours: tuple[str, str, str, str, str, str]) -> str:
    """The drawing as SVG."""
    text, faint, line, process, part, strong = colours
    width, height = _SIZE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="14">',
        f'<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto-start-reverse">'
        f'<path d="{_HEAD}" fill="{line}"/></marker></defs>',
    ]
    for x, y, wide, high, title in _PROCESSES:
        parts.append(_box(x, y, wide, high, process, line))
        # The worker's is below: arrows come from above
        foot = y + (high // 2 + 5 if high < 60 else 24 if y > 300 else high - 13)
        parts.append(_text(x + 20, foot, title, text, weight=600))
    for x, y, wide, title, does in _PARTS:
        parts += [_box(x, y, wide, 60, part, line), _text(x + 12, y + 25, title, strong, weight=600)]
        parts.append(_text(x + 12, y + 45, does, faint, size=12))
    for y, task, steps in _STEPS:
        parts.append(_text(40, y + 22, task, strong, weight=600))
        for place, step in enumerate(steps):
            x = 110 + place * 132
            parts += [_box(x, y, 106, 34, part, line), _text(x + 53, y + 22, step, text, anchor="middle")]
            if place:  # a sink's records come from the right
                ends = (x - 26, x) if task == "source" else (x, x - 26)
                parts.append(_arrow(f"M{ends[0]} {y + 17} H{ends[1]}", line))
    note = "a thread for each task; records go to and from Kafka here, never over the link"
    parts.append(_text(110, 490, note, faint, size=12))
    for path, label, x, y, is_both in _ARROWS:
        parts.append(_arrow(path, line, is_both=is_both))
        if label:
            parts.append(_text(x, y, label, faint, size=12))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(x: int, y: int, wide: int, high: int, fill: str, line: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="6" fill="{fill}" stroke="{line}"/>'


def _text(x: int, y: int, text: str, fill: str, *, size: int = 14, weight: int = 400, anchor: str = "start") -> str:
    form = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}" fill="{fill}" {form}>{escape(text)}</text>'


def _arrow(path: str, line: str, *, is_both: bool = False) -> str:
    start = ' marker-start="url(#head)"' if is_both else ""
    return f'<path d="{path}" fill="none" stroke="{line}" stroke-width="1.5"{start} marker-end="url(#head)"/>'


def path_of(page: str) -> str:
    """The file of the drawing for `light` or `dark` pages, below docs/."""
    return f"images/architecture-{page}.svg"


if __name__ == "__main__":
    for page, colours in COLOURS.items():
        (DOCS / path_of(page)).write_text(drawn(colours), "utf-8")
