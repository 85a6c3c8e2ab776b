"""SqlSource and a PostgreSQL that refuses, restarts or stays away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigError, ConnectError
from kit.postgres import Database, database
from kit.postgres_source import BOTH, fresh_schema, run, source_of
from kit.waiting import eventually


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    """Of this file alone: one test restarts it, and one needs a user with a password."""
    with database() as running:
        yield running


@pytest.fixture
def schema(server: Database, request: pytest.FixtureRequest) -> str:
    return fresh_schema(server.uri, request)


def test_a_query_that_is_wrong_is_refused_with_the_place_of_the_mistake(server: Database, schema: str) -> None:
    query = "SELECT oid,\n  nonsense FROM pg_class"
    with pytest.raises(ConfigError) as caught:
        source_of(server.uri, schema, mode="bulk", query=query, topic_prefix="q", schema_pattern=schema).start()
    assert 'column "nonsense" does not exist' in str(caught.value)
    assert "(line 2, column 3 of the query)" in str(caught.value)


def test_a_table_that_may_not_be_read_fails_the_task_and_says_so(server: Database, schema: str) -> None:
    run(
        server.uri,
        "CREATE TABLE closed (id serial PRIMARY KEY)",
        "CREATE ROLE reader LOGIN PASSWORD 'right-s3cret'",
        f'GRANT USAGE ON SCHEMA "{schema}" TO reader',
        schema=schema,
    )
    with (
        source_of(
            server.uri, schema, mode="bulk", connection_user="reader", connection_password="right-s3cret"
        ) as source,
        pytest.raises(ConnectError, match=rf"postgres\.{schema}\.closed cannot be read: .*permission denied") as caught,
    ):
        source.poll(1)
    assert "s3cret" not in repr(caught.value)


def test_a_wrong_password_is_refused_and_never_shown(server: Database, schema: str, caplog: Any) -> None:
    rules = Path(run(server.uri, "SHOW hba_file")[0][0])
    given = rules.read_text()
    rules.write_text("local all guarded scram-sha-256\n" + given)
    run(server.uri, "CREATE ROLE guarded LOGIN PASSWORD 'right-s3cret'", "SELECT pg_reload_conf()")
    try:
        wrong = {"mode": "bulk", "connection_user": "guarded", "connection_password": "wrong-s3cret"}

        asks = (
            "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256' AND 'guarded' = ANY(user_name)"
        )
        eventually(lambda: run(server.uri, asks)[0][0] == 1, 10, "the server has read the file")
        with pytest.raises(ConfigError, match="password authentication failed") as refused:
            source_of(server.uri, schema, **wrong).start()
        assert "s3cret" not in str(refused.value)
        source_of(server.uri, schema, **{**wrong, "connection_password": "right-s3cret"}).start().crash()
        assert "s3cret" not in caplog.text
    finally:
        rules.write_text(given)
        run(server.uri, "SELECT pg_reload_conf()")


def test_a_long_statement_is_cancelled_in_the_database_when_the_task_stops(server: Database, schema: str) -> None:
    with source_of(server.uri, schema, mode="bulk", query="SELECT pg_sleep(600)", topic_prefix="q") as source:
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        eventually(lambda: source.poll_once() == [] and run(server.uri, sleeping)[0][0] == 1, 10, "it runs")
    eventually(lambda: run(server.uri, sleeping)[0][0] == 0, 5, "it is cancelled")


def test_a_server_that_restarts_in_mid_table_is_waited_for_and_each_row_comes_once(
    server: Database, schema: str
) -> None:
    run(
        server.uri,
        "CREATE TABLE big (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), note text)",
        "INSERT INTO big (note) SELECT repeat('x', 200) FROM generate_series(1, 30000)",
        schema=schema,
    )
    found: list[int] = []
    with source_of(server.uri, schema, **BOTH, batch_max_rows="500", connection_backoff_ms="100") as source:
        found += [record.value["id"] for record in source.poll(2000)]
        server.stop()
        for _ in range(10):
            found += [record.value["id"] for record in source.poll_once()]
        server.start()

        def is_whole() -> bool:
            found.extend(record.value["id"] for record in source.poll_once())
            return len(found) >= 30000

        eventually(is_whole, 20, "all rows are there", pause_s=0)
        assert found == list(range(1, 30001))


def test_a_server_that_stays_away_fails_the_task_when_the_setting_says(server: Database, schema: str) -> None:
    run(server.uri, "CREATE TABLE t (id serial PRIMARY KEY)", schema=schema)
    with source_of(server.uri, schema, mode="bulk", retry_timeout_ms="300") as source:
        source.poll_once()
        server.stop()
        try:
            with pytest.raises(ConnectError) as away:
                eventually(source.poll_once, 10, "it fails", pause_s=0)
            reported = re.search(r"has been away for (\d+\.\d) s \(retry\.timeout\.ms=300\)", str(away.value))
            assert reported is not None, away.value
            assert float(reported[1]) >= 0.3
        finally:
            server.start()
