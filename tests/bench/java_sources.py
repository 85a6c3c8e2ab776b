"""Cases of Java's own sources beside Java Connect: Debezium's PostgreSQL connector, and MirrorMaker's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

from bench.ground import START_S, Ground, Metrics, end_offsets, made_topic, running, stream
from kconnect.files.folders import cache_folder
from kconnect.java.plugins.install import install
from kit.debezium import debezium_plugin_path
from kit.postgres import logical_postgres
from kit.topics import create_topic, delete_topic, produce_lines
from kit.waiting import eventually

__all__ = ["java_debezium_snapshot", "java_debezium_stream", "java_mirror"]

_MIRRORED_OF_LINES = 10
# A row is a document of 900 bytes once Debezium has described it, and comes at a hundredth of a line's rate
_ROWS_OF_LINES = 30
# Both sides take 1,700 rows a second and more on two busy cores, and 15 s to the first one
_SLOWEST_ROWS_PER_S = 400
_CHANGES, _AT_ONCE = 20_000, 100
_CHANGE = "insert into customers select n, 'user', 1.5, 'DE', now() from generate_series(%s::bigint, %s) as n"
_MIRRORED_BYTES = 1024
_MIRROR = "org.apache.kafka:connect-mirror:4.3.0"
_TABLE = """
create table customers (id bigint primary key, name text, amount float8, country text, at timestamp);
insert into customers select n, 'user-' || n % 99991, n % 977 + 0.25::float8, 'DE',
timestamp '2026-11-23' + n * interval '1 ms' from generate_series(1::bigint, {rows}) as n
"""


def java_debezium_snapshot(side: str, ground: Ground) -> Metrics:
    """Debezium's snapshot of a PostgreSQL table of five columns, as JSON with schemas; not slower than Java.

    CPU and memory are the worker's, without the database's. A row for every thirty lines.
    """
    rows = max(1000, ground.lines // _ROWS_OF_LINES)
    name = ground.next_name(side, "debezium-snapshot")
    with _debezium(ground, name, rows) as (port, _), end_offsets(ground.bootstrap, _topic(name)) as progress:
        connector = _connector(name, port, "initial_only")
        with running(side, ground, name, connector, plugins=debezium_plugin_path()) as (worker, began):
            return stream(worker, began, ground, progress, rows, _deadline_s(rows))


def java_debezium_stream(side: str, ground: Ground) -> Metrics:
    """20,000 changes that Debezium follows in PostgreSQL, in transactions of 100, as JSON with schemas; not slower."""
    name = ground.next_name(side, "debezium-stream")
    with _debezium(ground, name, 1) as (port, uri), end_offsets(ground.bootstrap, _topic(name)) as progress:
        connector = _connector(name, port, "no_data")
        with running(side, ground, name, connector, plugins=debezium_plugin_path()) as (worker, began):
            with psycopg.connect(uri, autocommit=True) as database, ThreadPoolExecutor(1) as pool:
                slots = "select count(*) from pg_replication_slots where active"
                eventually(lambda: database.execute(slots).fetchone() == (1,), 60, "Debezium follows the database")
                # While they are followed: what came before the first sample would be in no metric
                changes = pool.submit(_change, database)
                metrics = stream(worker, began, ground, progress, _CHANGES, _deadline_s(_CHANGES))
                changes.result()
            return metrics


def _change(database: psycopg.Connection[Any]) -> None:
    for first in range(2, _CHANGES, _AT_ONCE):
        database.execute(_CHANGE, (first, first + _AT_ONCE - 1))


def _deadline_s(rows: int) -> float:
    return START_S + rows / _SLOWEST_ROWS_PER_S


def java_mirror(side: str, ground: Ground) -> Metrics:
    """MirrorMaker's source from one topic to another of the same broker, 1 KB records; bar: 1.5 times Java's rate."""
    count = max(1000, ground.lines // _MIRRORED_OF_LINES)
    source = f"mirrored-{ground.lines}"
    _fill(ground, source, count)
    with made_topic(ground, side, "mirror") as name:
        target = f"{name}.{source}"
        create_topic(ground.bootstrap, target)
        connector = {
            "name": name,
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "1",
            "source.cluster.alias": name,
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": ground.bootstrap,
            "target.cluster.bootstrap.servers": ground.bootstrap,
            "topics": source,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "emit.heartbeats.enabled": "false",
            "sync.topic.acls.enabled": "false",
            **{
                f"{kind}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"
                for kind in ("key", "value")
            },
        }
        with (
            end_offsets(ground.bootstrap, target) as progress,
            running(side, ground, name, connector, plugins=_mirror_plugin_path()) as (worker, began),
        ):
            metrics = stream(worker, began, ground, progress, count)
        delete_topic(ground.bootstrap, target)
        return metrics


def _mirror_plugin_path() -> Path:
    path = cache_folder() / "bench-plugins"
    path.mkdir(parents=True, exist_ok=True)
    install(_MIRROR, path)
    return path


def _fill(ground: Ground, topic: str, count: int) -> None:
    if not ground.has_mirrored:
        create_topic(ground.bootstrap, topic)
        line = b"x" * (_MIRRORED_BYTES - 10)
        produce_lines(ground.bootstrap, topic, (b"%010d" % number + line for number in range(count)))
        ground.has_mirrored = True


def _topic(name: str) -> str:
    return f"{name}.public.customers"


def _connector(name: str, port: int, snapshot: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "topic.prefix": name,
        "table.include.list": "public.customers",
        "snapshot.mode": snapshot,
        **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
    }


@contextlib.contextmanager
def _debezium(ground: Ground, name: str, rows: int) -> Iterator[tuple[int, str]]:
    """A server with the table: its port and its address; and the topic."""
    create_topic(ground.bootstrap, _topic(name))
    try:
        with logical_postgres() as (uri, port):
            with psycopg.connect(uri, autocommit=True) as connection:
                connection.execute(_TABLE.format(rows=rows))
            yield port, uri
    finally:
        delete_topic(ground.bootstrap, _topic(name))
