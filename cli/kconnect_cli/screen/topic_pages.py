"""What the internal topics hold, as people see it: tables, pages, lines of raw records."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.logs.traces import root_cause
from kconnect.logs.wording import pluralize
from kconnect_cli.screen.output import Column, Format, Row, fitted, table_text, write_object, write_text

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
    names = [safe(topic["name"]) for topic in topics]
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > _LONGEST_TOPICS:
            break
        shown.append(name)
    more = f" +{len(names) - len(shown)}" if len(shown) < len(names) else ""
    return ", ".join(shown) + more


def _ago(seconds: float | None) -> str:
    if seconds is None or seconds < 0:
        return ""
    for length_s, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length_s:
            return f", {seconds // length_s:.0f} {unit} ago"
    return f", {pluralize(round(seconds), 'second')} ago"
