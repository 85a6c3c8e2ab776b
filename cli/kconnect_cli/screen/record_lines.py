"""Records on the screen: one line each for people, JSON for programs, bytes for pipes. Written as they come."""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kconnect_cli.screen.output import json_cell, painted, write_text
from kconnect_cli.screen.topic_pages import safe

if TYPE_CHECKING:
    from kconnect.admin.records.decoding import Decoded, ShownRecord


class RecordFormat(StrEnum):
    """How records are written; table is for people and may change, the others are stable."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    RAW = "raw"


_KEY_COLUMNS, _MOST_KEY = 12, 40
_PLACE_COLUMNS, _TIME_COLUMNS = 12, 24
# Of a value that nobody cuts at the edge of a terminal
_MOST_CELL = 2_000
_MOST_HEX_BYTES = 32
# In JSON these are escaped for terminals: all of Unicode's control characters but the end of a line
_CONTROLS = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class RecordWriter:
    """Writes records one by one; `end()` completes what was begun, also after Ctrl-C.

    On a terminal what would move its cursor or colour it is escaped, and lines of tables are cut at its edge.
    """

    def __init__(self, form: RecordFormat, *, with_headers: bool = False) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._columns = shutil.get_terminal_size().columns if self._is_terminal else None
        self._with_headers = with_headers
        self._count = 0
        self._form = form
        self._write: Callable[[ShownRecord], None] = {
            RecordFormat.TABLE: self._table,
            RecordFormat.JSON: self._json,
            RecordFormat.JSONL: self._line,
            RecordFormat.RAW: self._raw,
        }[form]

    @property
    def wants_raw(self) -> bool:
        """Whether it writes the bytes of values."""
        return self._form is RecordFormat.RAW

    @property
    def count(self) -> int:
        """How many were written."""
        return self._count

    def write(self, record: ShownRecord) -> None:
        self._write(record)
        self._count += 1

    def flush(self) -> None:
        sys.stdout.flush()

    def end(self) -> None:
        """The end of a JSON list, which is one without records too."""
        if self._form is RecordFormat.JSON:
            write_text("\n]\n" if self._count else "[]\n")

    def _table(self, record: ShownRecord) -> None:
        if not self._count:
            head = f"{'PLACE':<{_PLACE_COLUMNS}} {'TIME':<{_TIME_COLUMNS}} {'KEY':<{_KEY_COLUMNS}} VALUE"
            write_text(painted(head, bold=True) + "\n")
        body = record.to_json()
        place = f"{body['partition']}:{body['offset']}"
        key = _cut(cell(record.key), _MOST_KEY)
        lead = f"{place:<{_PLACE_COLUMNS}} {body['timestamp'] or '-':<{_TIME_COLUMNS}} {key:<{_KEY_COLUMNS}} "
        write_text(self._at_edge(lead + cell(record.value)) + "\n")
        for problem in body.get("errors", ()):
            write_text(painted(f"    {safe(problem)}", "red") + "\n")
        if self._with_headers:
            for name, value in record.headers:
                write_text(self._at_edge(f"    {safe(name)}: {cell(value)}") + "\n")

    def _at_edge(self, line: str) -> str:
        return line if self._columns is None else _cut_to_columns(line, self._columns)

    def _json(self, record: ShownRecord) -> None:
        text = self._json_text(record.to_json(), indent=2)
        write_text(("," if self._count else "[") + "\n  " + text.replace("\n", "\n  "))

    def _line(self, record: ShownRecord) -> None:
        write_text(self._json_text(record.to_json()) + "\n")

    def _json_text(self, body: Mapping[str, Any], indent: int | None = None) -> str:
        text = json.dumps(body, indent=indent, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:  # halves of surrogate pairs
            text = json.dumps(body, indent=indent)
        return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if self._is_terminal else text

    def _raw(self, record: ShownRecord) -> None:
        value = record.raw_value or b""
        if self._is_terminal:
            write_text(safe(value.decode(errors="backslashreplace")) + "\n")
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(value + b"\n")


def cell(decoded: Decoded) -> str:
    """A key or a value on one line, without anything that a terminal would obey."""
    value = decoded.value
    if value is None:
        return "-"
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        more = f".. ({len(data):,} bytes)" if len(data) > _MOST_HEX_BYTES else ""
        return f"0x{data[:_MOST_HEX_BYTES].hex()}{more}"
    plain = decoded.plain
    if isinstance(plain, str):
        return _cut(safe(plain[: 2 * _MOST_CELL]), _MOST_CELL)
    text = (
        json_cell(plain)
        if not isinstance(plain, dict)
        else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    )
    return _cut(safe(text[: 2 * _MOST_CELL]), _MOST_CELL)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 2] + ".."


def _cut_to_columns(line: str, columns: int) -> str:
    """Cut at the terminal's edge: characters of East Asia take two columns."""
    if len(line) <= columns and line.isascii():
        return line
    width = 0
    for index, char in enumerate(line):
        width += 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if width > columns:
            return line[: max(0, index - 2)] + ".."
    return line
