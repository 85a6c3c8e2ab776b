"""SQLite files: changed, looked at, and read by SqlSource through the harness."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from kconnect.testing import SourceHarness

__all__ = ["BOTH", "IDS", "add", "change", "nothing_more", "rows_of", "source_of", "values_of"]

IDS = {"mode": "incrementing"}
BOTH = {"mode": "timestamp+incrementing", "timestamp_column_name": "at", "incrementing_column_name": "id"}


def change(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")  # these files need not outlive a power cut
        for statement in statements:
            connection.execute(statement)


def rows_of(file: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def source_of(file: Path, *, offsets: Any = (), tasks: int = 1, **more: str) -> SourceHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"connection.url": f"jdbc:sqlite:{file}", "topic.prefix": "shop-", "poll.interval.ms": "1"}
    return SourceHarness("SqlSource", {**config, **settings, "tasks.max": str(tasks)}, offsets=offsets)


def values_of(record: Any) -> list[Any]:
    return [record.value[field.name] for field in record.value_schema.fields]


def add(file: Path, *names: str, second: int = 1) -> None:
    for name in names:
        change(file, f"INSERT INTO orders (name, at) VALUES ('{name}', '2026-01-02 03:04:{second:02d}')")


def nothing_more(source: SourceHarness) -> bool:
    """Whether four rounds give nothing."""
    return not [record for _ in range(12) for record in source.poll_once()]
