"""Ten topics of JSON without schema as producers write them: members that are missing, null, or of two kinds; lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["TOPICS", "texts"]


def texts(topic: str, count: int) -> list[bytes]:
    """The first records of a topic: the same ones each time."""
    make = TOPICS[topic]
    return [json.dumps(make(number), separators=(",", ":"), ensure_ascii=False).encode() for number in range(count)]


def _clicks(n: int) -> dict[str, Any]:
    """A web shop's pages: the referrer is left out at times."""
    made = {"ts": 1_790_000_000_000 + n, "session": f"s-{n % 9973:06d}", "path": f"/p/{n % 977}", "ms": n % 1500}
    return made | ({"referrer": "https://example.org/"} if n % 3 else {})


def _orders(n: int) -> dict[str, Any]:
    """Nested, with a list of objects; the note is null at times."""
    lines = [{"sku": f"A{(n + k) % 499}", "qty": 1 + k, "price": (n % 400) / 4 + 0.25} for k in range(1 + n % 3)]
    to = {"city": "Köln" if n % 2 else "Paris", "zip": f"{n % 99999:05d}", "geo": {"lat": 50.9 + n % 7 / 9, "lon": 6.9}}
    return {"id": n, "customer": {"id": n % 5003, "vip": n % 10 == 0}, "lines": lines, "to": to, "note": None}


def _sensors(n: int) -> dict[str, Any]:
    """As JavaScript writes numbers: 21 beside 21.5."""
    return {
        "device": f"d{n % 211}",
        "at": 1_790_000_000 + n,
        "temp": _half(n),
        "ok": n % 50 != 0,
    }


def _half(n: int) -> float:
    return n % 80 / 2 if n % 2 else n % 40


def _python_sensors(n: int) -> dict[str, Any]:
    """As Python writes them: 21 where the driver gave a whole number, 21.0 where it calculated."""
    value: float = n % 40 if n % 3 == 0 else (n % 40) / 1.0 if n % 3 == 1 else n % 40 + 0.1
    return {"device": f"d{n % 211}", "at": 1_790_000_000 + n, "value": value, "unit": "C"}


def _prices(n: int) -> dict[str, Any]:
    """Two producers: one sends the price as a text."""
    price: Any = f"{n % 900}.99" if n % 8 == 0 else n % 900 + 0.99
    return {"sku": f"A{n % 499}", "price": price, "currency": "EUR", "stock": n % 70}


def _customers(n: int) -> dict[str, Any]:
    """Members that are null here and left out there."""
    made: dict[str, Any] = {
        "id": n,
        "name": f"customer {n % 5003}",
        "email": None if n % 5 == 0 else f"c{n}@example.org",
    }
    if n % 4:
        made["phone"] = None if n % 7 == 0 else f"+49 {n % 99999}"
    return made | {"tags": ["new", "eu"][: n % 3]}


def _changes(n: int) -> dict[str, Any]:
    """Changes of a table in Debezium's form, without schema: before or after is null."""
    row = {"id": n % 5003, "name": f"customer {n % 5003}", "balance": n % 1000 / 8, "active": n % 2 == 0}
    op = "cud"[n % 3]
    return {
        "before": None if op == "c" else row,
        "after": None if op == "d" else {**row, "name": "changed"},
        "source": {"db": "shop", "table": "customers", "lsn": 24_000_000 + n, "snapshot": "false"},
        "op": op,
        "ts_ms": 1_790_000_000_000 + n,
    }


def _logs(n: int) -> dict[str, Any]:
    """Log lines: the order of members differs by program, and the context has what each has to say."""
    made: dict[str, Any] = {
        "level": "INFO" if n % 5 else "ERROR",
        "msg": f"request {n} done",
        "ts": 1_790_000_000 + n / 8,
    }
    made["ctx"] = [{"user": n % 977}, {"path": "/x", "status": 200}, {"error": "timeout", "retry": True}][n % 3]
    return made if n % 2 else dict(reversed(made.items()))


def _events(n: int) -> dict[str, Any]:
    """Events of several kinds in one topic, each with a payload of its own."""
    payload: dict[str, Any] = [
        {"ref": "main", "commits": [{"sha": f"{n:040x}", "author": "a"}] * (n % 3)},
        {"action": "opened", "number": n % 999, "labels": []},
        {"action": "closed", "number": n % 999, "labels": ["bug"], "by": {"login": f"u{n % 61}"}},
    ][n % 3]
    return {"type": ["push", "issue", "issue"][n % 3], "id": str(40_000_000 + n), "payload": payload}


def _counters(n: int) -> dict[str, Any]:
    """Names that are data: a count for each country, and numbers that 64 bits do not hold."""
    made: dict[str, Any] = {"at": n, "total": 2**64 + n if n % 100 == 0 else n}
    return made | {"by": {f"{'ABCDEFGH'[n % 8]}{'KLMNOPQR'[(n // 8) % 8]}": n, "ZZ": 1}}


TOPICS: dict[str, Callable[[int], dict[str, Any]]] = {
    "clicks": _clicks,
    "orders": _orders,
    "sensors": _sensors,
    "python-sensors": _python_sensors,
    "prices": _prices,
    "customers": _customers,
    "changes": _changes,
    "logs": _logs,
    "events": _events,
    "counters": _counters,
}
