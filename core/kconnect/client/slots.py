"""What a slot of `/admin/slots` is for, as screens say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def whose(slot: Mapping[str, Any]) -> str:
    """The connector whose own it is, `shared`, or `shared, 2..8` where their number follows the load.

    `-` for the driver, and for a slot whose connector the caller may not see.
    """
    if slot.get("connector"):
        return str(slot["connector"])
    if slot.get("slot") is None:
        return "-"
    found = bounds([slot])
    return f"shared, {found}" if found else "shared"


def bounds(slots: Iterable[Mapping[str, Any]]) -> str:
    """Between which numbers the shared ones of a worker are, as `2..8`; empty where their number is fixed."""
    for slot in slots:
        least, most = slot.get("shared_least"), slot.get("shared_most")
        if least is not None and least != most:
            return f"{least}..{most}"
    return ""
