"""Lines of workers' logs as text: as the workers write them, with the worker in front where there are several."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kconnect_cli.screen.output import painted

_COLOURS = {"WARN": "yellow", "ERROR": "red", "FATAL": "red", "DEBUG": "bright_black", "TRACE": "bright_black"}


def log_text(line: Mapping[str, Any], *, with_worker: bool, colours: bool | None = None) -> str:
    """`[2026-01-31 12:00:00,123] WARN [orders|task-0] message (logger)`, with an end of line.

    `colours`: by default as stdout has them.
    """
    when = datetime.fromtimestamp(line["time_ms"] / 1000).astimezone()
    stamp = f"[{when:%Y-%m-%d %H:%M:%S},{line['time_ms'] % 1000:03d}]"
    lead, _, rest = str(line["text"]).partition("\n")
    worker = f"{line['worker']} " if with_worker else ""
    level = painted(line["level"], _COLOURS.get(line["level"]), on=colours)
    return f"{worker}{stamp} {level} {_context(line)}{lead} ({line['logger']})\n" + (f"{rest}\n" if rest else "")


def _context(line: Mapping[str, Any]) -> str:
    if line["connector"] is None:
        return ""
    task = [] if line["task"] is None else [f"task-{line['task']}"]
    stage = [] if line["stage"] is None else [line["stage"]]
    return f"[{'|'.join([line['connector'], *(task + stage or ['worker'])])}] "
