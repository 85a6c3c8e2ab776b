"""What a comparison gave: a row for each case, a cell for each thing that was compared, and each difference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["COLUMNS", "Row", "table_text", "write_table"]

COLUMNS: Final = ("settings", "records", "offsets", "statuses", "errors", "metrics")
_BEGIN: Final = "<!-- parity -->"
_END: Final = "<!-- /parity -->"
_NOT_SEEN: Final = "-"
_LONGEST: Final = 400


@dataclass(slots=True)
class Row:
    """One case: the plugin, what was run of it, and for each column what both sides gave."""

    case: str
    plugin: str
    run: str
    cells: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def compare(self, column: str, java: Any, ours: Any, counted: str = "") -> None:
        """Both sides' of a column; may be called again for more. `counted`: what there are so many of."""
        assert column in COLUMNS, column
        found = _differences(java, ours)
        size = len(java) if isinstance(java, Sized) and not isinstance(java, str) else 1
        before = self.cells.get(column, "")
        differ = len({one.partition(" > ")[0].partition(":")[0].partition("[")[0] for one in found})
        cell = f"{size} {counted}".strip() + (" equal" if not found else f", {differ} differ")
        self.cells[column] = f"{before}; {cell}" if before else cell
        self.differences += [f"{column}{f' ({counted})' if counted else ''}: {one}" for one in found]

    def say(self, column: str, text: str) -> None:
        """What cannot be compared, and why."""
        self.cells[column] = text

    @property
    def line(self) -> str:
        cells = [self.cells.get(column, _NOT_SEEN) for column in COLUMNS]
        return "| " + " | ".join([self.case, self.plugin, self.run, *cells]) + " |"


def table_text(lines: Sequence[str]) -> str:
    """The table for docs/java-plugins.md."""
    head = ("what", "plugin", "what was run", *COLUMNS)
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]) + "\n"


def write_table(page: Path, rows: Sequence[Row]) -> None:
    """Put it where the page has its place for it; rows of what was not run now stay."""
    text = page.read_text("utf-8")
    before, _, rest = text.partition(_BEGIN)
    there, _, after = rest.partition(_END)
    lines = {line.split(" | ")[0]: line for line in there.splitlines()[3:]}
    lines |= {row.line.split(" | ")[0]: row.line for row in rows}
    page.write_text(f"{before}{_BEGIN}\n{table_text(list(lines.values()))}{_END}{after}", "utf-8")


def _differences(java: Any, ours: Any, where: str = "") -> list[str]:
    """Each place where two values differ; in mappings as deep as they go."""
    if java == ours:
        return []
    if isinstance(java, Mapping) and isinstance(ours, Mapping):
        keys = dict.fromkeys([*java, *ours])
        return [
            one
            for key in keys
            for one in _differences(java.get(key), ours.get(key), f"{where} > {key}" if where else str(key))
        ]
    if isinstance(java, list) and isinstance(ours, list) and len(java) == len(ours):
        pairs = enumerate(zip(java, ours, strict=True))
        return [found for at, (one, other) in pairs for found in _differences(one, other, f"{where}[{at}]")]
    return [f"{where}: Java {_shown(java)}, here {_shown(ours)}"]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}.."
