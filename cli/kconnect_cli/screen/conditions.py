"""The condition of a task, in words: what the WHY of a screen says, and the fields of `-o json`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kconnect.model import TaskCondition


HEALTHY = "healthy"
_COUNTED = {"retrying": ("failed attempt", "failed attempts"), "not committing": ("failed commit", "failed commits")}


def condition_name(condition: Mapping[str, Any] | None) -> str:
    """The word; empty where it is not known, such as of Java's workers."""
    return "" if condition is None else str(condition["name"])


def is_sick(condition: Mapping[str, Any] | None) -> bool:
    return condition_name(condition) not in ("", HEALTHY)


def condition_why(condition: Mapping[str, Any] | TaskCondition | None, now_s: float | None = None) -> str:
    """`for 34 s, 12 failed attempts: OrdersTask.poll() raised ..`; nothing of a healthy one."""
    if condition is None:
        return ""
    body = condition if not hasattr(condition, "to_json") else condition.to_json()
    if not is_sick(body):
        return ""
    lasted_s = max((time.time() if now_s is None else now_s) - body["since_ms"] / 1000, 0.0)
    counted = ""
    if body["count"] and (words := _COUNTED.get(body["name"])):
        counted = f", {body['count']:,} {words[body['count'] != 1]}"
    return f"for {_length(lasted_s)}{counted}: {body.get('cause', '')}"


def _length(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
