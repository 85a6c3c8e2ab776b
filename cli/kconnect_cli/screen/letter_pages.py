"""Dead letters for the eye: the table of their kinds, a page for each, what a replay would change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect_cli.screen.output import Column, json_cell

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
                lines.append(f"    {name}: {_cut(old)}")
            else:
                lines += [f"  - {name}: {_cut(old)}", f"  + {name}: {_cut(new)}"]
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
    return f"  {title:<11} {_cut(printable(' '.join(text.split())))}"


def printable(text: str) -> str:
    """Without control characters: messages quote what is in records, and a terminal would obey it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _short(value: Any) -> str:
    return _cut(json_cell(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}.. ({len(text):,} characters)"


def _second(moment: str | None) -> str:
    return "" if moment is None else moment[:19].replace("T", " ")
