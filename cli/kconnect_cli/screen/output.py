"""Rows -> table, JSON, YAML or names on stdout. stdout is data: nothing else is ever written there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO, TypeAlias

if TYPE_CHECKING:
    from rich.text import Text


Row: TypeAlias = Mapping[str, Any]

# Blanks between columns, and where a terminal is too narrow for them
_GAP, _NARROW_GAP = 3, 2


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


def make_streams_usable() -> None:
    """Before anything is opened or written: no stream is missing, and stdout takes every text.

    Of one that the caller closed (`>&-`) the next file or socket would get the number, and its bytes what was meant
    for people. Signs that the encoding of stdout does not have (LC_ALL=C, Latin-1) are written as in JSON.
    """
    import codecs
    import os

    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):  # a write to the second must fail
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # it gets the least number that is free
    # What Python found closed as it began is None
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 # it lives as long as the process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    codecs.register_error("as in JSON", _as_in_json)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="as in JSON")


def _as_in_json(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{signs[at : at + 2].hex()}" for at in range(0, len(signs), 2)), error.end


def write_rows(rows: Sequence[Row], columns: Sequence[Column], form: Format, name: str = "name") -> None:
    """A listing: a JSON array, YAML list, one name a line, or a table."""
    if form is Format.NAME:
        write_text("".join(f"{row[name]}\n" for row in rows))
    elif form is Format.TABLE:
        write_text(table_text(columns, rows))
    else:
        write_object([dict(row) for row in rows], form)


def table_text(columns: Sequence[Column], rows: Sequence[Row], *, wrap: bool = True, margin: int = 0) -> str:
    """The table that people see: in colours on a terminal. Without `wrap` the last column is cut at its edge.

    `margin`: how far the caller moves its lines to the right.
    """
    titles, cells = [column.title for column in columns], [[column.text(row) for column in columns] for row in rows]
    return _rich_table(titles, cells, wrap, margin) if sys.stdout.isatty() else plain_table(titles, cells)


def fitted(text: str, stream: TextIO | None = None) -> str:
    """Text whose lines are broken between words where the stream is a narrower terminal, by default stdout.

    A word that is longer than a line stays whole, to be copied. Colours are kept.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return text
    text = harmless(text)
    import os

    given = os.environ.get("COLUMNS", "")
    width = int(given) if given.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    if not width:  # the terminal does not say
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


# All but ends of lines, tabs and colours: names and messages come from others, and a terminal obeys what is in them
_CONTROL = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """Text whose control characters are shown as their numbers, and not obeyed."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


_PAINT = re.compile(r"\x1b\[[0-9;]*m")
_LEAD = re.compile(r"(?:\x1b\[[0-9;]*m| )*")


def _broken(line: str, width: int) -> Iterator[str]:
    if len(_PAINT.sub("", line)) <= width:
        yield line
        return
    lead = _LEAD.match(line)[0]  # type: ignore[index]  # any text matches
    margin = lead.count(" ")
    below = " " * (margin + 2 if margin else 0)
    part, has_words = lead, False
    for word in line[len(lead) :].split(" "):
        longer = f"{part} {word}" if has_words else f"{part}{word}"
        if has_words and len(_PAINT.sub("", longer)) > width:
            yield part.rstrip(" ")
            part, has_words = f"{below}{word}", True
        else:
            part, has_words = longer, True
    yield part


def write_object(value: object, form: Format) -> None:
    """One value as JSON or YAML."""
    if form is Format.YAML:
        import yaml

        write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    else:
        write_text(json_text(value) + "\n")


def json_text(value: object) -> str:
    """JSON for people and programs, without an end of line."""
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # what Java wrote may hold halves of surrogate pairs, and numbers of more than 64 bits
        import json

        return json.dumps(value, indent=2)


def json_cell(value: object) -> str:
    """JSON for a cell of a table, with sorted keys, so that equal values read the same; a dash for none."""
    if value is None:
        return "-"
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # as above
        import json

        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def write_text(text: str) -> None:
    sys.stdout.write(text)


def is_coloured(stream: TextIO) -> bool:
    """Whether text for it is painted: on a terminal, unless NO_COLOR is set."""
    import os

    return stream.isatty() and "NO_COLOR" not in os.environ


def painted(text: str, colour: str | None = None, *, bold: bool = False, on: bool | None = None) -> str:
    """Text in colour if `on`; by default as it is for stdout."""
    import typer

    is_plain = not (is_coloured(sys.stdout) if on is None else on)
    return text if is_plain else typer.style(text, fg=colour, bold=bold or None)


def painter(stream: TextIO) -> Callable[[str, str], str]:
    """Paints a text in a colour, if the stream shows colours."""
    on = is_coloured(stream)
    return lambda text, colour: painted(text, colour, on=on)


# Of names in a cell: as much as the other columns leave of a wide terminal
_NAMES_WIDTH = 60


def some_names(names: Sequence[str], width: int = _NAMES_WIDTH) -> str:
    """The first names, as far as there is room, and how many more; a dash for none. JSON has all of them."""
    shown, length = 0, 0
    for name in names:
        length += len(name) + 2
        if shown and length - 2 > width:
            break
        shown += 1
    left = len(names) - shown
    return (", ".join(names[:shown]) + (f" and {left} more" if left else "")) or "-"


def state_counts(states: Sequence[str]) -> str:
    """`2 RUNNING, 1 FAILED`, or a dash for none."""
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "-"


def plain_table(titles: Sequence[str], rows: Sequence[Sequence[str]], gap: int = _GAP) -> str:
    """Columns aligned with blanks, as `awk` and eyes like it."""
    lines = [list(titles), *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(titles))]
    return "".join(
        (" " * gap).join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


STATE_STYLES = {
    "RUNNING": "green",
    "FAILED": "bold red",
    "PAUSED": "yellow",
    "STOPPED": "yellow",
    "UNASSIGNED": "magenta",
}


# Below this a last column of sentences is a thread of single words; it goes below its row then
_LEAST_LAST_COLUMN = 24


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]], wrap: bool, margin: int) -> str:
    """A table as wide as the terminal. With `wrap` cells but the last are never cut: they are names, to be copied."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout)
    width = console.width - margin
    rows = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(len(line[index]) for line in (titles, *rows)) for index in range(len(titles))]
    gap = _GAP if sum(widths) + _GAP * (len(widths) - 1) <= width else _NARROW_GAP
    left = width - sum(widths[:-1]) - gap * (len(widths) - 1)
    longest_word = max((len(word) for line in rows for word in line[-1].split(" ")), default=0)
    if wrap and widths[-1] > left and (left < _LEAST_LAST_COLUMN or longest_word > left):
        lines = _in_several_lines(titles, rows, widths, width)
        with console.capture() as captured:
            console.print(*lines, sep="\n", soft_wrap=True)
        return captured.get()
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0), expand=not wrap)
    for title in titles[:-1]:
        table.add_column(title, no_wrap=True)
    table.add_column(titles[-1], no_wrap=not wrap, overflow="fold" if wrap else "ellipsis", ratio=None if wrap else 1)
    for row in rows:
        table.add_row(*(_coloured(cell, "fold" if wrap else "ellipsis") for cell in row))
    with console.capture() as captured:
        console.print(table, width=width)
    return captured.get()


# Where the further lines of a row begin
_BELOW = "    "


def _in_several_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], width: int
) -> list[Text]:
    """For a narrow terminal: each row on several lines, all alike and of whole cells, its last sentences below."""
    from textwrap import wrap

    from rich.text import Text

    lines: list[list[int]] = [[]]
    used = 0
    for index, cell in enumerate(widths):
        if lines[-1] and used + _NARROW_GAP + cell > width:
            lines.append([])
            used = len(_BELOW)
        used += cell + (_NARROW_GAP if lines[-1] else 0)
        lines[-1].append(index)
    last = len(titles) - 1
    has_sentences = lines[-1] == [last] and len(_BELOW) + widths[last] > width

    def texts(cells: Sequence[str]) -> Iterator[str]:
        for number, line in enumerate(lines):
            margin = _BELOW if number else ""
            text = (" " * _NARROW_GAP).join(cells[index].ljust(widths[index]) for index in line).rstrip()
            if number and not text.strip("- "):
                continue
            if len(line) > 1:
                yield f"{margin}{text}"
            else:
                yield from wrap(
                    text,
                    width,
                    initial_indent=margin,
                    subsequent_indent=_BELOW,
                    break_long_words=False,
                    break_on_hyphens=False,
                )

    heads = [*titles[:last], "" if has_sentences else titles[last]]
    return [
        *(Text(text, style="bold") for text in texts(heads)),
        *(_coloured(text, "fold") for row in rows for text in texts(row)),
    ]


def _coloured(text: str, overflow: Literal["fold", "ellipsis"]) -> Text:
    from rich.text import Text

    cell = Text(text, overflow=overflow)
    for state, style in STATE_STYLES.items():
        cell.highlight_words([state], style)
    return cell


def _one_line(cell: str) -> str:
    return harmless(cell).replace("\n", " ").replace("\t", " ")
