"""Entries of a herder's trace as lines: what happened, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kconnect.logs.wording import pluralize
from kconnect_cli.screen.output import Column

# A line is for the eye: all of it is in JSON
_LONGEST_VALUE = 60


def trace_line(entry: Mapping[str, Any]) -> str:
    """One entry as `--follow` prints it."""
    return "  ".join(column.text(entry) for column in TRACE_COLUMNS) + "\n"


def step_text(value: Mapping[str, Any]) -> str:
    """An event or instruction: `StartWork work=1 connector, 2 tasks`, `Asked id=3 request=AskStop orders`."""
    return " ".join([value["type"], *_fields(value)])


def _fields(value: Mapping[str, Any]) -> list[str]:
    shown = [(name, _shown(each)) for name, each in value.items() if name != "type"]
    return [f"{name}={text}" for name, text in shown if text]


def _shown(value: Any) -> str:
    """Empty for what a line has no room for."""
    match value:
        case None | "":
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"
        case {"enum": _, "name": name}:
            return str(name)
        case {"error": kind, "message": message}:
            return f"{kind}: {_shown(message)}"
        case {"type": "ClusterSnapshot", "offset": offset}:
            return f"@{offset}"
        case {"type": "TaskId", "connector": connector, "task": task}:
            return f"{connector}-{task}"
        case {"type": "Work", "connectors": {"tuple": connectors}, "tasks": {"tuple": tasks}}:
            return f"({pluralize(len(connectors), 'connector')}, {pluralize(len(tasks), 'task')})"
        case {"type": "Assignment", "work": work, "revoked": revoked}:
            return f"{_shown(work)} revoked {_shown(revoked)}"
        case {"tuple": [[*_], *_] | [{"tuple": _}, *_] as pairs}:
            return pluralize(len(pairs), "change")
        case {"type": kind}:
            return " ".join([str(kind), *(text for text in map(_shown, list(value.values())[1:]) if text)])
        case _:
            return ""


def _when(entry: Mapping[str, Any]) -> str:
    now_ms = entry["event"].get("now_ms", entry["now_ms"])
    return datetime.fromtimestamp(now_ms / 1000).astimezone().isoformat(" ", "milliseconds") if now_ms else "-"


def _decided(entry: Mapping[str, Any]) -> str:
    if "error" in entry:
        return f"raised {entry['error']}"
    return "; ".join(step_text(each) for each in entry["instructions"]) or "-"


TRACE_COLUMNS = (
    Column("NUMBER", lambda entry: str(entry["number"])),
    Column("TIME", _when),
    Column("EVENT", lambda entry: step_text(entry["event"])),
    Column("INSTRUCTIONS", _decided),
)
