"""Records, dead letters and internal topics as people see them: tables, pages, lines of raw records.

Records are a line each for people, JSON for programs, bytes for pipes, written as they come. Dead letters are a table
of their kinds, and a page for each with what a replay would change.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kconnect.logs.traces import root_cause
from kconnect.logs.wording import pluralize
from kconnect_cli.screen.output import (
    Column,
    Format,
    Row,
    fitted,
    json_cell,
    painted,
    some_names,
    table_text,
    write_object,
    write_text,
)

if TYPE_CHECKING:
    from kconnect.admin.records.decoding import Decoded, ShownRecord

_CONFIG = (
    Column("NAME", lambda row: safe(row["name"])),
    Column("TYPE", lambda row: row["type"]),
    Column("CLASS", lambda row: _short_class(row["class"])),
    Column("STATE", lambda row: row["target_state"]),
    Column("TASKS", lambda row: str(row["tasks"])),
    Column("OFFSET", lambda row: _offset(row["records"]["config"])),
    Column("NOTE", lambda row: _note(row)),
)
_STATUS = (
    Column("NAME", lambda row: safe(row["name"])),
    Column("TASK", lambda row: "" if row["id"] is None else str(row["id"])),
    Column("STATE", lambda row: row["state"]),
    Column("WORKER", lambda row: safe(row["worker_id"])),
    Column("GEN", lambda row: str(row["generation"])),
    Column("TOPICS", lambda row: _topics(row["topics"])),
    Column("WHY", lambda row: safe(root_cause(row.get("trace")))),
)
_LONGEST_TOPICS = 24
RAW_HEAD = f"{'PLACE':<10} {'TIME':<24} {'SIZE':>7}  KEY  VALUE\n"


def config_table(document: Mapping[str, Any]) -> str:
    """All connectors, and what is the cluster's below."""
    rows = sorted(document["connectors"], key=lambda row: str(row["name"]))
    text = table_text(_CONFIG, rows)
    below = []
    if key := document.get("session_key"):
        below.append(f"session key: {key['algorithm']}, made {key['created']}{_ago(key.get('age_s'))}")
    below += [f"logger {safe(logger['name'])}: {logger['level']}" for logger in document.get("loggers", ())]
    return text + (fitted("\n" + "\n".join(below) + "\n") if below else "")


def config_page(row: Row) -> str:
    """One connector: its config, its tasks' configs, where they were written."""
    note = _note(row)
    head = f"{safe(row['name'])}  {row['type']}  {row['target_state']}" + (f"  {note}" if note else "")
    lines = [head, f"config{_place(row['records']['config'])}", *_settings(row["config"])]
    if place := _place(row["records"]["target_state"]):
        lines.append(f"target state{place}")
    for number, config in enumerate(row["task_configs"]):
        lines += [f"task {number}", *_settings(config)]
    if not row["task_configs"]:
        lines.append("tasks: none")
    return "\n".join(lines) + "\n"


def status_table(document: Sequence[Mapping[str, Any]]) -> str:
    """A row for each connector and each task; one that has no status itself has a dash."""
    rows = []
    none = {"state": "-", "worker_id": "-", "generation": "-"}
    for found in document:
        rows.append({"name": found["name"], "id": None, "topics": found["topics"], **(found["connector"] or none)})
        rows += [{"name": found["name"], "topics": (), **task} for task in found["tasks"]]
    return table_text(_STATUS, rows)


def raw_line(record: Row) -> str:
    """A record on one line; control characters are escaped, as it may come from anywhere."""
    place = f"{record['partition']}:{record['offset']}"
    key, value = _text(record["key"], "(no key)"), _text(record["value"], "(tombstone)")
    return f"{place:<10} {record['timestamp'] or '-':<24} {record['size']:>7}  {key}  {value}\n"


def write_line(row: Row, form: Format, text: str) -> None:
    """One of many, as it comes: a JSON object on one line, an item of a YAML list, a key, or the text."""
    if form is Format.JSON:
        write_text(json.dumps(row, ensure_ascii=False) + "\n")
    elif form is Format.YAML:
        write_object([dict(row)], Format.YAML)
    elif form is Format.NAME:
        write_text(_text(row["key"], "") + "\n")
    else:
        write_text(text)


def safe(text: str) -> str:
    """Text of a topic, on a terminal: without characters that would move its cursor or colour it."""
    if text.isprintable():
        return text
    return "".join(char if unicodedata.category(char)[0] != "C" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _text(shown: object, absent: str) -> str:
    if shown is None:
        return absent
    return f"base64:{shown['base64']}" if isinstance(shown, Mapping) else safe(str(shown))


def _short_class(name: str | None) -> str:
    return safe((name or "-").rpartition(".")[2])


def _settings(config: Mapping[str, str | None]) -> list[str]:
    return [f"  {safe(key)} = {safe(str(value))}" for key, value in sorted(config.items())]


def _offset(place: Mapping[str, Any] | None) -> str:
    return "-" if place is None else str(place["offset"])


def _place(place: Mapping[str, Any] | None) -> str:
    return "" if place is None else f", offset {place['offset']}, {place['timestamp'] or 'no time'}"


def _note(row: Row) -> str:
    notes = []
    if row["inconsistent"]:
        notes.append("inconsistent: configs of tasks are missing")
    if row["lost_tasks"]:
        notes.append("may have lost its tasks to compaction")
    if row["task_count_record"] is not None:
        notes.append(f"{pluralize(row['task_count_record'], 'producer')} recorded for fencing")
    return "; ".join(notes)


def _topics(topics: Sequence[Mapping[str, Any]]) -> str:
    """The first ones, as far as there is room, and how many more."""
    return some_names([safe(topic["name"]) for topic in topics], _LONGEST_TOPICS) if topics else ""


def _ago(seconds: float | None) -> str:
    if seconds is None or seconds < 0:
        return ""
    for length_s, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length_s:
            return f", {seconds // length_s:.0f} {unit} ago"
    return f", {pluralize(round(seconds), 'second')} ago"


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


_MOST_SHOWN = 500

GROUP_COLUMNS = (
    Column("STAGE", lambda row: row["stage"] or "?"),
    Column("EXCEPTION", lambda row: (row["exception"] or "?").rpartition(".")[2]),
    Column("TOPIC", lambda row: row["topic"] or "?"),
    Column("COUNT", lambda row: str(row["count"])),
    Column("REPLAYED", lambda row: str(row["replayed"])),
    Column("FIRST", lambda row: _second(row["first"])),
    Column("LAST", lambda row: _second(row["last"])),
    Column("CAUSE OF THE LAST", lambda row: printable(" ".join((row["root_cause"] or "").split()))),
)


def letter_page(view: Mapping[str, Any], *, with_trace: bool) -> str:
    """One dead letter, the cause first."""
    head = view["letter"] + (f"  {view['time']}" if view["time"] else "")
    lines = [head]
    if view["root_cause"]:
        lines.append(_line("cause", view["root_cause"]))
    if view["exception"] and view["root_cause"] != _said(view):
        lines.append(_line("failed with", _said(view)))
    where = view["stage"] or "unknown: the dead letter has no context headers"
    lines.append(_line("in", f"{where} of {view['class']}" if view["class"] else where))
    if (origin := _origin(view)) is not None:
        lines.append(_line("from", origin))
    for part in ("key", "value"):
        lines.append(_line(part, f"{_short(view[part])}  ({view['decoded'][part]})"))
    lines += [_line("header", f"{each['key']} = {_short(each['value'])}") for each in view["headers"]]
    if view["replays"]:
        lines.append(_line("replays", f"{view['replays']} before it failed again"))
    if view["replayed"]:
        mark = view["replayed"]
        lines.append(_line("replayed", f"{mark['time']}, {mark['state']} to {mark['target']}"))
    lines += [_line("problem", each) for each in view.get("problems", []) if not _is_reported(view, each)]
    if with_trace and view["trace"]:
        lines += ["", *(f"    {printable(line)}" for line in view["trace"].splitlines())]
    return "\n".join(lines) + "\n"


def prepared_page(view: Mapping[str, Any]) -> str:
    """What a dry run says of one dead letter: what changes, line by line."""
    before, after = view["before"], view["after"]
    lines = [f"{view['letter']}: {view['outcome']}" + (f" ({view['why']})" if view.get("why") else "")]
    if after is not None:
        for name in before:
            old, new = json_cell(before[name]), json_cell(after[name])
            if old == new:
                lines.append(f"    {name}: {_shortened(old)}")
            else:
                lines += [f"  - {name}: {_shortened(old)}", f"  + {name}: {_shortened(new)}"]
    return "\n".join(lines) + "\n"


def _origin(view: Mapping[str, Any]) -> str | None:
    origin, source = view["origin"], view.get("source")
    if origin["topic"] is None:
        return None
    text = str(origin["topic"])
    if source is not None:
        return f"{json_cell(source['partition'])} {json_cell(source['offset'])}, for topic {text}"
    text += "" if origin["partition"] is None else f"-{origin['partition']}"
    text += "" if origin["offset"] is None else f"@{origin['offset']}"
    return text + ("" if view["task"] is None else f", task {view['task']}")


def _is_reported(view: Mapping[str, Any], problem: str) -> bool:
    """That a converter cannot read what it failed on is no news."""
    return "CONVERTER" in (view["stage"] or "") and " cannot read it" in problem


def _said(view: Mapping[str, Any]) -> str:
    message = (view["message"] or "").strip().rstrip(":")
    return f"{view['exception']}: {message}" if message else str(view["exception"])


def _line(title: str, text: str) -> str:
    return f"  {title:<11} {_shortened(printable(' '.join(text.split())))}"


def printable(text: str) -> str:
    """Without control characters: messages quote what is in records, and a terminal would obey it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _short(value: Any) -> str:
    return _shortened(json_cell(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}.. ({len(text):,} characters)"


def _second(moment: str | None) -> str:
    return "" if moment is None else moment[:19].replace("T", " ")
