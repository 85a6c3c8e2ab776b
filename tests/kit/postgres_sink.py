"""SqlSink into a PostgreSQL server, through the harness."""

from __future__ import annotations

from typing import Any

import psycopg

from kconnect.testing import ManualClock, MemoryLog, SinkHarness

__all__ = ["rows", "sink_into"]


def sink_into(
    server: str, topic: str, clock: ManualClock | None = None, log: MemoryLog | None = None, **more: str
) -> SinkHarness:
    """A sink that makes its tables. Keywords with `_` become keys with `.`."""
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"topics": topic, "connection.driver": "psycopg", "connection.url": server, **settings}
    return SinkHarness("SqlSink", {"auto.create": "true", **config}, log=log, clock=clock or ManualClock())


def rows(server: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server) as connection:
        return connection.execute(query).fetchall()
