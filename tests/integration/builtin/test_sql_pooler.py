"""SqlSink and SqlSource through a real PgBouncer that pools transactions: no row in another's table, none blamed."""

from __future__ import annotations

import datetime
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kconnect.api import RetriableError, SchemaBuilder, Struct
from kconnect.api.logical import Timestamp
from kconnect.builtin.connectors.sql import sql_session
from kconnect.testing import ManualClock, SinkHarness, SourceHarness
from kit.pgbouncer import PgBouncer, pgbouncer

NAMES = "abc"


@pytest.fixture(scope="module")
def pooler(postgres_uri: str) -> Iterator[PgBouncer]:
    """Two sessions for all clients, each of whom meets the statements of the others there."""
    with (
        tempfile.TemporaryDirectory(prefix="kconnect-test-pooler-", dir="/tmp") as folder,
        pgbouncer(Path(folder), postgres_uri) as running,
    ):
        yield running


def rows(server: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def sink_into(url: str, topic: str, **more: str) -> SinkHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"topics": topic, "connection.url": url, "errors.tolerance": "all", "auto.create": "true", **settings}
    return SinkHarness("SqlSink", config, clock=ManualClock())


def run_all(*jobs: Any) -> None:
    """Run them at once; the error of any is raised."""
    errors: list[BaseException] = []

    def guarded(job: Any) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,), name="test-pooled") for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize(
    "more", ["", "&prepareThreshold=0", "&prepareThreshold=1", "&preferQueryMode=simple", "psycopg"]
)
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_each_row_is_in_the_table_of_its_topic(pooler: PgBouncer, postgres_uri: str, more: str, mode: str) -> None:
    """Tables of one shape: what is prepared for one could be run for another."""
    settings = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"} if mode == "upsert" else {}
    url = pooler.url + more
    if more == "psycopg":
        settings["connection_driver"], url = more, pooler.address
    sinks = {name: sink_into(url, f"pooled_{name}", **settings) for name in NAMES}
    rows(postgres_uri, "".join(f"DROP TABLE IF EXISTS pooled_{name};" for name in NAMES))

    def feed(name: str) -> None:
        with sinks[name] as sink:
            for start in range(0, 180, 3):
                sink.put(*({"src": name, "id": number} for number in range(start, start + 3)))
            assert not sink.errant

    run_all(*(lambda name=name: feed(name) for name in NAMES))
    for name in NAMES:
        found = rows(postgres_uri, f"SELECT src, count(*), count(DISTINCT id) FROM pooled_{name} GROUP BY src")
        assert found == [(name, 180, 180)]


def test_what_a_transaction_needs_is_not_left_to_the_next_client(pooler: PgBouncer, postgres_uri: str) -> None:
    """The time zone and the schema hold for this sink alone, although the pooler drops the startup's options."""
    rows(postgres_uri, "CREATE SCHEMA IF NOT EXISTS aside")
    rows(postgres_uri, "DROP TABLE IF EXISTS aside.here, public.here, there")
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    schema = SchemaBuilder.struct().field("at", Timestamp.SCHEMA).build()
    rows(postgres_uri, "CREATE TABLE aside.here (at timestamp)")
    rows(postgres_uri, "CREATE TABLE there (at timestamp)")
    aside = sink_into(pooler.url + "&currentSchema=aside", "here", db_timezone="America/New_York", auto_create="false")
    plain = sink_into(pooler.url, "there")
    with aside, plain:
        for _ in range(6):
            for sink in (aside, plain):
                sink.put(Struct(schema, {"at": at}), schema=schema)
        assert not aside.errant
        assert not plain.errant
    assert rows(postgres_uri, "SELECT DISTINCT at::text FROM aside.here") == [("2026-01-01 22:04:05",)]
    assert rows(postgres_uri, "SELECT DISTINCT at::text FROM there") == [("2026-01-02 03:04:05",)]


def test_a_source_reads_its_tables_beside_other_sources(pooler: PgBouncer, postgres_uri: str) -> None:
    rows(postgres_uri, "CREATE SCHEMA IF NOT EXISTS read")
    for name in NAMES:
        rows(postgres_uri, f"DROP TABLE IF EXISTS read.{name}")
        rows(postgres_uri, f"CREATE TABLE read.{name} AS SELECT i AS id, '{name}' AS src FROM generate_series(1, 60) i")

    def read(name: str) -> None:
        """Each round asks anew: statements of one text, which a driver would prepare."""
        settings = {"mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": f"read-{name}"}
        query = f"SELECT * FROM (SELECT id, src FROM {name}) AS all_of_it"
        config = {**settings, "query": query, "poll.interval.ms": "1", "batch.max.rows": "10"}
        url = f"{pooler.url}&currentSchema=read"
        with SourceHarness("SqlSource", {"connection.url": url, **config}) as source:
            found = source.poll(60)
            for number in range(61, 81):
                rows(postgres_uri, f"INSERT INTO read.{name} VALUES ({number}, '{name}')")
                found += source.poll(1)
        assert [(record.value["id"], record.value["src"]) for record in found] == [(i, name) for i in range(1, 81)]

    run_all(*(lambda name=name: read(name) for name in NAMES))


def test_a_pooler_that_does_not_look_like_one_is_noticed_by_what_it_refuses(
    pooler: PgBouncer, postgres_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client has prepared statements of these names: no record's fault, and none is prepared any more."""
    rows(postgres_uri, "DROP TABLE IF EXISTS unlike")
    monkeypatch.setattr(sql_session, "_is_own", lambda connection: True)
    others = [psycopg.connect(pooler.address, prepare_threshold=None) for _ in range(2)]
    for other in others:  # each holds one of the two sessions
        for number in range(3):
            other.execute(f"PREPARE _pg3_{number} AS SELECT 1")
    for other in others:
        other.commit()
    with sink_into(pooler.url, "unlike") as sink:
        with pytest.raises(RetriableError, match="prepared statement"):
            sink.put({"id": 1}, {"id": 2})
        assert sink.deliver() == 2
        assert not sink.errant
    for other in others:
        other.execute("SELECT pg_backend_pid()")
    for other in others:
        other.execute("DEALLOCATE ALL")
        other.commit()
        other.close()
    assert rows(postgres_uri, "SELECT id FROM unlike ORDER BY id") == [(1,), (2,)]
