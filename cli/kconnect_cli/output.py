"""Rows -> table, JSON, YAML or names on stdout. stdout is data: nothing else is ever written there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Column",
    "Format",
    "Row",
    "plain_table",
    "state_counts",
    "table_text",
    "write_object",
    "write_rows",
    "write_text",
]

Row: TypeAlias = Mapping[str, Any]


class Format(StrEnum):
    """How data is written; table is for people and may change, the others are stable."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Column(NamedTuple):
    """One column of a table."""

    title: str
    text: Callable[[Row], str]


def write_rows(rows: Sequence[Row], columns: Sequence[Column], form: Format, name: str = "name") -> None:
    """A listing: a JSON array, YAML list, one name a line, or a table."""
    if form is Format.NAME:
        write_text("".join(f"{row[name]}\n" for row in rows))
    elif form is Format.TABLE:
        write_text(table_text(columns, rows))
    else:
        write_object([dict(row) for row in rows], form)


def table_text(columns: Sequence[Column], rows: Sequence[Row], *, wrap: bool = True) -> str:
    """The table that people see: in colours on a terminal. Without `wrap` the last column is cut at its edge."""
    titles, cells = [column.title for column in columns], [[column.text(row) for column in columns] for row in rows]
    return _rich_table(titles, cells, wrap) if sys.stdout.isatty() else plain_table(titles, cells)


def write_object(value: object, form: Format) -> None:
    """One value as JSON or YAML."""
    if form is Format.YAML:
        import yaml

        write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    else:
        import orjson

        write_text(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def write_text(text: str) -> None:
    sys.stdout.write(text)


def state_counts(states: Sequence[str]) -> str:
    """`2 RUNNING, 1 FAILED`, or a dash for none."""
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "-"


def plain_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with blanks, as `awk` and eyes like it."""
    lines = [list(titles), *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(titles))]
    return "".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


STATE_STYLES = {
    "RUNNING": "green",
    "FAILED": "bold red",
    "PAUSED": "yellow",
    "STOPPED": "yellow",
    "UNASSIGNED": "magenta",
}


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]], wrap: bool) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0), expand=not wrap)
    for title in titles[:-1]:
        table.add_column(title, no_wrap=not wrap)
    table.add_column(titles[-1], no_wrap=not wrap, overflow="fold" if wrap else "ellipsis", ratio=None if wrap else 1)
    for row in rows:
        cells = [Text(_one_line(cell), overflow="fold" if wrap else "ellipsis") for cell in row]
        for cell in cells:
            for state, style in STATE_STYLES.items():
                cell.highlight_words([state], style)
        table.add_row(*cells)
    console = Console(file=sys.stdout)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _one_line(cell: str) -> str:
    return cell.replace("\n", " ")
