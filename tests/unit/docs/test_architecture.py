"""docs/architecture.md is the map of the code: every room is on it, and every file and name on it exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from kit.places import ROOT

_CORE = ROOT / "core" / "kconnect"
_PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
_ROWS = re.findall(r"^\| `.*$", _PAGE, re.MULTILINE)
# A numbered or listed line: files first, then the names that are in one of them
_LINES = [line for line in _PAGE.splitlines() if re.match(r"(\d+\.|-) ", line)]


def file_of(name: str) -> Path | None:
    return next((path for base in (ROOT, _CORE) if (path := base / name).exists()), None)


def names_in(path: Path) -> set[str]:
    """Functions, classes, and methods as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def test_every_room_is_on_the_map_and_no_other() -> None:
    floors = {path.parent for path in _CORE.glob("*/__init__.py")}
    several = [_CORE / floor for floor in ("admin", "runtime", "java")]
    rooms = {path.parent for floor in several for path in floor.glob("*/__init__.py")}
    named = {_CORE / name for row in _ROWS for name in re.findall(r"`([\w/]+)/`", row.split("|")[1])}
    assert named - {_CORE / "worker/mirror", _CORE / "builtin/schema_registry"} == floors | rooms


def test_every_room_of_the_herder_and_of_direct_is_on_the_map() -> None:
    for room in ("runtime/herder", "admin/direct"):
        (row,) = [row for row in _ROWS if row.startswith(f"| `{room}/`")]
        inside = {path.parent.name for path in (_CORE / room).glob("*/__init__.py")}
        assert set(re.findall(r"`(\w+)/`", row.split("|")[2])) == inside


def test_every_file_on_the_map_exists() -> None:
    """In the table of rooms a file is named as from its room."""
    prose = "\n".join(line for line in _PAGE.splitlines() if line not in _ROWS)
    files = set(re.findall(r"`([\w/]+\.py)`", prose))
    for row in _ROWS:
        rooms = re.findall(r"`([\w/]+/)`", row.split("|")[1]) or [""]
        files |= {rooms[0] + name for name in re.findall(r"`([\w/]+\.py)`", row)}
    assert len(files) > 30
    assert [name for name in sorted(files) if file_of(name) is None] == []


def test_every_name_on_the_way_of_a_record_and_of_a_request_is_in_a_file_of_its_line() -> None:
    missing = []
    count = 0
    for line in _LINES:
        files = [path for name in re.findall(r"`([\w/]+\.py)`", line) if (path := file_of(name))]
        if not re.match(r"\d+\.", line) or not files:
            continue
        known = set().union(*(names_in(path) for path in files))
        for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?|[a-z_]+)`", line):
            count += 1
            if name not in known and name not in {"AskStop", "put", "flush"}:
                missing.append(f"{name}: {line[:60]}")
    assert missing == []
    assert count > 20
