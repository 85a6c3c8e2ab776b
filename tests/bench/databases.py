"""Cases of databases: tables of PostgreSQL into topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bench.ground import Ground, Metrics, end_offsets, made_topic, running, stream
from kit.postgres import postgres

__all__ = ["sql_bulk", "sql_source"]

_TABLE = """
create table {name} as select n as id, 'user-' || n % 99991 as "user", n % 977 + 0.25::float8 as amount,
'DE' as country, timestamp '2026-11-23' + n * interval '1 ms' as at from generate_series(1::bigint, {rows}) as n;
alter table {name} add primary key (id)
"""


def sql_source(side: str, ground: Ground) -> Metrics:
    """A table of PostgreSQL of five columns into a topic, as JSON without schemas; bar: 100,000 rows/s.

    CPU and memory are the worker's, without the database's.
    """
    return _read(side, ground, "sql-source", {"mode": "incrementing", "incrementing.column.name": "id"})


def sql_bulk(side: str, ground: Ground) -> Metrics:
    """The same with mode=bulk: the whole table in one round, with no order and no offsets."""
    return _read(side, ground, "sql-bulk", {"mode": "bulk", "poll.interval.ms": "86400000"})


def _read(side: str, ground: Ground, case: str, mode: dict[str, str]) -> Metrics:
    with (
        made_topic(ground, side, case) as topic,
        end_offsets(ground.bootstrap, topic) as progress,
        _database(topic, ground.lines) as uri,
    ):
        connector = {
            "name": topic,
            "connector.class": "SqlSource",
            "tasks.max": "1",
            "connection.url": uri,
            "query": f'select * from "{topic}"',
            **mode,
            "topic.prefix": topic,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        with running(side, ground, topic, connector) as (worker, began):
            return stream(worker, began, ground, progress)


@contextlib.contextmanager
def _database(table: str, rows: int) -> Iterator[str]:
    """A server with the table."""
    import psycopg

    with postgres() as uri:
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(_TABLE.format(name=f'"{table}"', rows=rows))
            connection.execute("vacuum analyze")
        yield uri
