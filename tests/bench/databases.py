"""Cases of databases: tables of PostgreSQL into topics, and a topic into a table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from bench.ground import START_S, Ground, Metrics, end_offsets, made_topic, running, stream
from bench.tables import row
from kit.debezium import jdbc_plugin_path
from kit.postgres import logical_postgres, postgres
from kit.topics import create_topic, produce_lines

__all__ = ["sql_bulk", "sql_sink", "sql_source"]

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


def sql_sink(side: str, ground: Ground) -> Metrics:
    """JSON with schema of five fields into a table of PostgreSQL by upserts; Java has Debezium's JDBC sink.

    CPU and memory are the worker's, without the database's.
    """
    topic = "bench-sql-rows"
    if not ground.has_sql_rows:
        create_topic(ground.bootstrap, topic)
        produce_lines(ground.bootstrap, topic, (_ENVELOPE % row(number) for number in range(ground.lines)))
        ground.has_sql_rows = True
    name = ground.next_name(side, "sql-sink")
    with logical_postgres() as (uri, port), _last_id(uri, name) as progress:
        connector = {
            "name": name,
            "topics": topic,
            "tasks.max": "1",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "true",
            "insert.mode": "upsert",
            **_SINKS[side](name, port),
        }
        plugins = jdbc_plugin_path() if side == "java" else None
        with running(side, ground, name, connector, plugins=plugins) as (worker, began):
            return stream(worker, began, ground, progress, deadline_s=START_S + ground.lines / _SLOWEST_PER_S)


# Debezium's sink on a busy machine
_SLOWEST_PER_S = 500
_ENVELOPE = (
    b'{"schema":{"type":"struct","optional":false,"fields":[{"field":"id","type":"int64","optional":false},'
    b'{"field":"user","type":"string","optional":false},{"field":"amount","type":"double","optional":false},'
    b'{"field":"country","type":"string","optional":false},{"field":"ts","type":"int64","optional":false}]},'
    b'"payload":%s}'
)


def _of_java(table: str, port: int) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
        "connection.username": "postgres",
        "connection.password": "unused",
        "primary.key.mode": "record_value",
        "primary.key.fields": "id",
        "schema.evolution": "basic",
        "quote.identifiers": "true",  # user is a word of SQL
        "collection.name.format": table,
    }


def _of_ours(table: str, port: int) -> dict[str, str]:
    return {
        "connector.class": "SqlSink",
        "connection.url": f"postgresql://postgres@127.0.0.1:{port}/postgres",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "table.name.format": table,
    }


_SINKS = {"java": _of_java, "ours": _of_ours}


@contextlib.contextmanager
def _last_id(uri: str, table: str) -> Iterator[Callable[[], int]]:
    """How many rows there are: they come in the order of their ids, of which the first is 0."""
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:

        def count() -> int:
            if connection.execute("SELECT to_regclass(%s)", (f'"{table}"',)).fetchall() == [(None,)]:
                return 0
            ((last,),) = connection.execute(f'SELECT max(id) FROM "{table}"').fetchall()
            return 0 if last is None else int(last) + 1

        yield count


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
