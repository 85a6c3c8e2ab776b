"""SqlSink while PostgreSQL is read-only, refuses rights, lacks a table or fails over: no record is blamed or lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kconnect.api import ConnectError, DataError, RetriableError
from kconnect.builtin.connectors.sql.sql_errors import POSTGRESQL, blame, code_of
from kconnect.testing import ManualClock, SinkHarness
from kit.postgres import Database, Door, database, socket_of
from kit.postgres_standby import standby
from kit.sql_rows import is_as_its_cause
from kit.waiting import eventually

UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    """Of this file alone: it is made read-only."""
    with database() as running:
        yield running


@pytest.fixture
def table(server: Database, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table of the test's own, and a user `writer` who may write to it."""
    name = request.node.name.translate(str.maketrans("[]-", "___"))[5:50].lower()
    run(
        server,
        f'CREATE TABLE "{name}" (id bigint PRIMARY KEY, n integer)',
        "DO $$ BEGIN CREATE ROLE writer LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f'GRANT SELECT, INSERT, UPDATE ON "{name}" TO writer',
    )
    yield name
    run(server, f'DROP TABLE "{name}" CASCADE')


def run(server: Database, *statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.uri, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def sink_into(server: Database, table: str, **more: str) -> SinkHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    url = server.uri.replace("postgresql://postgres:@", "postgresql://writer@")
    config = {"topics": table, "connection.url": url, "errors.tolerance": "all", "max.retries": "2", **settings}
    return SinkHarness("SqlSink", config, clock=ManualClock())


READ_ONLY = "ALTER ROLE writer SET default_transaction_read_only = {}"
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'"
STATES: dict[str, tuple[str, str, str, str]] = {
    # what is done, what repairs it, what is said, what the hint says
    "read_only": (READ_ONLY.format("on"), READ_ONLY.format("off"), "read-only transaction", "targetServerType=primary"),
    "no_right": ("REVOKE INSERT ON {} FROM writer", "GRANT INSERT ON {} TO writer", "permission denied", "Grant"),
    "no_table": ("ALTER TABLE {} RENAME TO away", "ALTER TABLE away RENAME TO {}", "does not exist", "auto.create"),
    "no_column": (
        "ALTER TABLE {} RENAME n TO m",
        "ALTER TABLE {} RENAME m TO n",
        "A table has changed.*column .n. of relation .* does not exist",
        "",
    ),
    "no_login": ("ALTER ROLE writer NOLOGIN", "ALTER ROLE writer LOGIN", "is not permitted to log in", ""),
}


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("state", STATES)
def test_a_state_blames_no_record_and_loses_none(server: Database, table: str, state: str, mode: str) -> None:
    spoil, repair, said, advice = (text.replace("{}", f'"{table}"') for text in STATES[state])
    with sink_into(server, table, **(UPSERT if mode == "upsert" else {})) as sink:
        sink.put({"id": 1, "n": 1})
        sink.commit()
        run(server, spoil, END)
        try:
            errors = [failed(lambda number=number: sink.put({"id": number, "n": number})) for number in range(2, 8)]
            assert any(re.search(said, str(error), re.DOTALL) for error in errors)
            last = errors[-1]
            assert isinstance(last, ConnectError)
            assert not isinstance(last, RetriableError | DataError)
            assert advice in (last.hint or "")
            assert any(advice in (error.hint or "") for error in errors if isinstance(error, RetriableError))
            assert not sink.errant
            sink.commit()
            assert {*sink.committed.values()} == {1}
        finally:
            run(server, repair)
        assert sink.deliver() == 6
        assert not sink.errant
    assert run(server, f'SELECT id, n FROM "{table}" ORDER BY id') == [(i, i) for i in range(1, 8)]


def failed(call: Callable[[], object]) -> Exception:
    """What a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any is reported
        call()
    return caught.value


def test_a_failover_to_a_standby_and_back_costs_no_record(server: Database, table: str) -> None:
    """The address leads to another server, which follows the first and can only be read from."""
    with standby(server.uri) as behind, Door(socket_of(server.uri)) as door:
        url = f"jdbc:postgresql://127.0.0.1:{door.port}/postgres?user=writer"
        with sink_into(server, table, connection_url=url, max_retries="100") as sink:
            sink.put(*({"id": number, "n": number} for number in range(100)))
            door.path = behind
            run(server, END)
            for number in range(100, 110):
                with pytest.raises(RetriableError, match=r"terminat|closed|read-only transaction"):
                    sink.put({"id": number, "n": number})
            with pytest.raises(RetriableError, match="read-only transaction"):
                sink.deliver()
            assert not sink.errant
            door.path = socket_of(server.uri)
            with psycopg.connect(f"host={behind.rpartition('/')[0]} user=postgres dbname=postgres") as reader:
                eventually(
                    lambda: reader.execute(f'SELECT count(*) FROM "{table}"').fetchall() == [(100,)],
                    why="the standby has what was written",
                )
            assert sink.deliver() == 10
            assert not sink.errant
    found = run(server, f'SELECT count(*), count(DISTINCT id), sum(n) FROM "{table}"')
    assert found == [(110, 110, sum(range(110)))]


def test_each_state_of_postgresql_is_what_the_table_says(server: Database, table: str) -> None:
    """The server itself raises it, for a row of its own among good ones."""
    run(
        server,
        f'ALTER TABLE "{table}" ADD state text',
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.state <> '' THEN "
        "RAISE EXCEPTION 'said by the server' USING ERRCODE = NEW.state; END IF; RETURN NEW; END $$",
        f'CREATE TRIGGER refuse BEFORE INSERT ON "{table}" FOR EACH ROW EXECUTE FUNCTION refuse()',
    )
    wrong = []
    for code, cause in POSTGRESQL.items():
        run(server, f'DELETE FROM "{table}"')
        with sink_into(server, table) as sink:
            records = ({"id": 1, "state": ""}, {"id": 2, "state": code.ljust(5, "0")}, {"id": 3, "state": ""})
            error = failed(lambda: sink.put(*records)) if not cause.is_of_record else sink.put(*records)  # noqa: B023
            blamed = [item.record.kafka_offset for item in sink.errant]
        there = [id for (id,) in run(server, f'SELECT id FROM "{table}" ORDER BY id')]
        if not is_as_its_cause(cause, error, blamed, there):
            wrong.append((code, cause, error, blamed, there))
    assert not wrong


NATURAL: dict[str, tuple[str, ...]] = {
    "22003": ("INSERT INTO odd (n) VALUES (99999999999)",),
    "22P02": ("INSERT INTO odd (n) VALUES ('x')",),
    "23505": ("INSERT INTO odd (id) VALUES (1)", "INSERT INTO odd (id) VALUES (1)"),
    "23502": ("INSERT INTO odd (must) VALUES (NULL)",),
    "23514": ("INSERT INTO odd (n) VALUES (-1)",),
    "44000": ("INSERT INTO odd_small (n) VALUES (5000)",),
    "428C9": ("INSERT INTO odd (twice) VALUES (1)",),
    "42703": ("INSERT INTO odd (nothing) VALUES (1)",),
    "42804": ("INSERT INTO odd (n) VALUES (true)",),
    "42701": ("INSERT INTO odd (n, n) VALUES (1, 1)",),
    "54000": ("INSERT INTO odd (name) SELECT string_agg(md5(i::text), '') FROM generate_series(1, 2000) i",),
    "42P10": ("INSERT INTO odd (n) VALUES (1) ON CONFLICT (n) DO NOTHING",),
    "55P03": ("SET lock_timeout = 1", "INSERT INTO locked VALUES (1)"),
    "57014": ("SET statement_timeout = 1", "SELECT pg_sleep(1)"),
    "0A000": ("INSERT INTO a.b.c VALUES (1)",),
    "3F000": ("CREATE TABLE none.t (id int)",),
    "42601": ("INSERT INTO odd VALUES",),
    "26000": ("EXECUTE nobody",),
    "42P05": ("PREPARE twice AS SELECT 1", "PREPARE twice AS SELECT 1"),
}


def test_what_the_server_says_by_itself_is_what_the_table_takes_it_for(server: Database) -> None:
    run(
        server,
        "CREATE TABLE IF NOT EXISTS odd (id int UNIQUE, n int CHECK (n > 0), must int NOT NULL DEFAULT 1, "
        "name text UNIQUE, twice int GENERATED ALWAYS AS (n * 2) STORED)",
        "CREATE OR REPLACE VIEW odd_small AS SELECT * FROM odd WHERE n < 1000 WITH CHECK OPTION",
        "CREATE TABLE IF NOT EXISTS locked (id int)",
    )
    with psycopg.connect(server.uri) as holder:
        holder.execute("LOCK TABLE locked")
        for state, statements in NATURAL.items():
            with psycopg.connect(server.uri) as connection:
                for statement in statements[:-1]:
                    connection.execute(statement)
                error = failed(lambda: connection.execute(statements[-1]))  # noqa: B023 - called here
            assert code_of("postgresql", error) == state
            assert blame("postgresql", error) is (POSTGRESQL.get(state) or POSTGRESQL[state[:2]]), state


def test_a_constraint_that_waits_for_the_commit_blames_the_record_that_breaks_it(server: Database, table: str) -> None:
    run(
        server,
        f'CREATE TABLE "{table}_of" (id bigint PRIMARY KEY)',
        f'INSERT INTO "{table}_of" VALUES (1), (3)',
        f'ALTER TABLE "{table}" ADD FOREIGN KEY (n) REFERENCES "{table}_of" DEFERRABLE INITIALLY DEFERRED',
    )
    with sink_into(server, table) as sink:
        sink.put({"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 3})
        assert [item.record.kafka_offset for item in sink.errant] == [1]
    assert run(server, f'SELECT id FROM "{table}" ORDER BY id') == [(1,), (3,)]
