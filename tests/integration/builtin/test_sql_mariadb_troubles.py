"""A real MariaDB that is killed, locked, refuses or is asked wrongly: `make mariadb`, which installs it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kconnect.api import ConfigError, ConnectError, RetriableError
from kconnect.builtin.connectors.sql.sql_connection import engine_of
from kconnect.builtin.connectors.sql.sql_errors import MYSQL
from kconnect.builtin.connectors.sql.sql_source_config import CONFIG, settings_of
from kit.mariadb import MariaDb, mariadb, sink_into, source_of
from kit.sql_rows import is_as_its_cause
from kit.waiting import eventually

BOTH = {"mode": "timestamp+incrementing", "timestamp_column_name": "at", "incrementing_column_name": "id"}
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "true"}
ONCE = {"delivery_guarantee": "exactly_once"}


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MariaDb]:
    """A maria of the test's own, as it is killed."""
    with mariadb(tmp_path) as running:
        yield running


def test_a_killed_server_is_waited_for_and_each_row_comes_and_goes_once(mortal: MariaDb) -> None:
    maria, schema = mortal, mortal.make_schema("shop")
    maria.run(
        "CREATE TABLE big (id bigint PRIMARY KEY, at timestamp NOT NULL DEFAULT now(), note text)",
        "INSERT INTO big (id, at, note) SELECT seq, '2026-01-01', repeat('x', 200) FROM seq_1_to_30000",
        schema=schema,
    )
    found: list[int] = []
    with source_of(maria, schema, **BOTH, batch_max_rows="500", connection_backoff_ms="100") as source:
        found += [record.value["id"] for record in source.poll(2000)]
        maria.kill()
        for _ in range(10):
            found += [record.value["id"] for record in source.poll_once()]
        maria.start()

        def is_whole() -> bool:
            found.extend(record.value["id"] for record in source.poll_once())
            return len(found) >= 30000

        eventually(is_whole, 60, "all rows are there", pause_s=0)
    assert found == list(range(1, 30001))
    with sink_into(maria, schema, "back", **UPSERT) as sink:
        sink.put({"id": 1})
        maria.kill()
        with pytest.raises(RetriableError, match="away or busy"):
            sink.put({"id": 2})
        maria.start()
        assert sink.deliver() == 1
    assert maria.run("SELECT id FROM back ORDER BY 1", schema=schema) == [(1,), (2,)]


def test_a_lock_that_another_holds_is_tried_again(maria: MariaDb, schema: str) -> None:
    maria.run("SET GLOBAL innodb_lock_wait_timeout = 1")
    maria.run("CREATE TABLE held (id bigint PRIMARY KEY, n bigint)", "INSERT INTO held VALUES (1, 1)", schema=schema)
    release, held = threading.Event(), threading.Event()

    def hold() -> None:
        connection = maria._connection(schema)
        connection.begin()
        connection.cursor().execute("UPDATE held SET n = 2 WHERE id = 1")
        held.set()
        release.wait(30)
        connection.commit()
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    try:
        with sink_into(maria, schema, "held", **UPSERT) as sink:
            with pytest.raises(RetriableError, match="away or busy"):
                sink.put({"id": 1, "n": 3})
            release.set()
            holder.join(10)
            assert sink.deliver() == 1
    finally:
        release.set()
        holder.join(10)
        maria.run("SET GLOBAL innodb_lock_wait_timeout = 50")
    assert maria.run("SELECT * FROM held", schema=schema) == [(1, 3)]


def test_a_long_statement_ends_in_the_database_when_the_task_stops(maria: MariaDb, schema: str) -> None:
    sleeping = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'SELECT sleep(%'"
    with source_of(maria, schema, mode="bulk", query="SELECT sleep(600) AS s", topic_prefix="q") as source:
        eventually(lambda: source.poll_once() == [] and maria.run(sleeping) == [(1,)], 10, "it runs")
    eventually(lambda: maria.run(sleeping) == [(0,)], 10, "it has ended")


def test_a_statement_may_take_longer_than_a_login(maria: MariaDb, schema: str) -> None:
    engine = engine_of(settings_of(CONFIG, {**maria.settings(schema), "mode": "bulk"}), connect_s=1)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT sleep(2)").scalar() == 0


def test_wrong_passwords_queries_and_values_are_reported_and_no_secret_is(maria: MariaDb, schema: str) -> None:
    with pytest.raises(ConfigError, match="Access denied") as refused:
        source_of(maria, schema, mode="bulk", connection_password="wrong-s3cret").start()
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigError, match="Unknown column 'nonsense'"):
        source_of(maria, schema, mode="bulk", query="SELECT nonsense FROM dual", topic_prefix="q").start()
    maria.run("SET sql_mode = ''", "CREATE TABLE odd (v date)", "INSERT INTO odd VALUES ('0000-00-00')", schema=schema)
    with source_of(maria, schema, mode="bulk") as source, pytest.raises(ConnectError, match="Column v"):
        source.poll(1)


def failed(call: Callable[[], object]) -> Exception:
    """What a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any is reported
        call()
    return caught.value


def test_each_number_of_mariadb_is_what_the_table_says(maria: MariaDb, schema: str) -> None:
    """The server itself raises it, for a row of its own among good ones."""
    cases = "".join(
        f"WHEN {number} THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'said'; "
        for number in MYSQL
    )
    maria.run(
        "CREATE TABLE t (id int PRIMARY KEY, number int)",
        f"CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW CASE NEW.number {cases} ELSE BEGIN END; END CASE",
        schema=schema,
    )
    wrong = []
    for number, cause in MYSQL.items():
        maria.run("DELETE FROM t", schema=schema)
        with sink_into(maria, schema, "t", auto_create="false", errors_tolerance="all") as sink:
            records = ({"id": 1, "number": 0}, {"id": 2, "number": number}, {"id": 3, "number": 0})
            error = failed(lambda: sink.put(*records)) if not cause.is_of_record else sink.put(*records)  # noqa: B023
            blamed = [item.record.kafka_offset for item in sink.errant]
        there = [row[0] for row in maria.run("SELECT id FROM t ORDER BY id", schema=schema)]
        if not is_as_its_cause(cause, error, blamed, there):
            wrong.append((number, cause, error, blamed, there))
    assert not wrong


STATES = {
    "no_right": ("REVOKE INSERT ON `{}`.* FROM {user}", "GRANT INSERT ON `{}`.* TO {user}", "1142"),
    "no_table": ("RENAME TABLE t TO away", "RENAME TABLE away TO t", "1146"),
    "read_only": ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "1290"),
    "no_column": (
        "ALTER TABLE t RENAME COLUMN n TO m",
        "ALTER TABLE t RENAME COLUMN m TO n",
        "table has changed.*1054",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_a_state_blames_no_record_and_loses_none(maria: MariaDb, schema: str, state: str) -> None:
    user = "'connect'@'127.0.0.1'"
    spoil, repair, said = (text.replace("{}", schema).replace("{user}", user) for text in STATES[state])
    maria.run("CREATE TABLE t (id int PRIMARY KEY, n int)", schema=schema)
    more = {"auto_create": "false", "errors_tolerance": "all", "max_retries": "2"}
    with sink_into(maria, schema, "t", **more, **UPSERT) as sink:
        sink.put({"id": 1, "n": 1})
        maria.run(spoil, "KILL USER connect", schema=schema)  # rights are those of when the session began
        try:
            errors = [failed(lambda number=number: sink.put({"id": number, "n": number})) for number in range(2, 6)]
            assert any(re.search(said, str(error)) for error in errors), errors
            assert [isinstance(error, RetriableError) for error in errors] == [True, True, False, False]
            assert not sink.errant
        finally:
            maria.run(repair, schema=schema)
        assert sink.deliver() == 4
        assert not sink.errant
    assert maria.run("SELECT id, n FROM t ORDER BY id", schema=schema) == [(i, i) for i in range(1, 6)]


@pytest.mark.parametrize(
    "more", ["useSSL=true&requireSSL=true&verifyServerCertificate=false", "sslMode=REQUIRED", "sslMode=VERIFY_IDENTITY"]
)
def test_tls_that_is_demanded_is_tls_or_an_error(maria: MariaDb, schema: str, more: str) -> None:
    """The server has none, which validation finds."""
    url = maria.settings(schema)["connection.url"].replace("jdbc:mariadb", "jdbc:mysql") + f"?{more}"
    sink = sink_into(maria, schema, "t", connection_url=url, errors_tolerance="all")
    with pytest.raises(ConnectError, match="SSL"), sink:
        sink.put({"id": 1})
    assert not sink.errant


def test_parameters_of_the_url_and_quoted_names(maria: MariaDb, schema: str) -> None:
    url = maria.settings(schema)["connection.url"] + "?sessionVariables=sql_mode='ANSI,STRICT_ALL_TABLES'&useSsl=false"
    more = {"connection_url": url, "table_name_format": "`${topic}`"}
    with sink_into(maria, schema, "z.8", **more, **UPSERT) as sink:
        sink.put({"id": 1, "n": "a"})
        sink.put({"id": 1, "n": "b"})
    assert maria.run("SELECT id, n FROM `z.8`", schema=schema) == [(1, "b")]


def test_a_row_that_is_more_than_the_server_takes_is_refused_and_its_neighbours_are_written(
    maria: MariaDb, schema: str
) -> None:
    """The server would end the connection, as if it were away."""
    [(usual,)] = maria.run("SELECT @@global.max_allowed_packet")
    maria.run("SET GLOBAL max_allowed_packet = 65536")
    try:
        with sink_into(maria, schema, "t", errors_tolerance="all", **UPSERT) as sink:
            sink.put({"id": 0, "v": "x"})
            sink.put({"id": 1, "v": "x" * 60_000}, {"id": 2, "v": "ä" * 40_000}, {"id": 3, "v": "'" * 30_000})
            sink.put(*({"id": number, "v": "x" * 500} for number in range(4, 1000)))  # more in all than it takes
            sink.put({"id": 1000, "v": "x" * 65_536})
            assert [item.record.kafka_offset for item in sink.errant] == [2, 1000]
            error = sink.errant[0].error
            assert re.search(r"a statement of 80\d\d\d bytes, and the server takes 65534", str(error))
            assert "max_allowed_packet of the server" in str(getattr(error, "hint", ""))
    finally:
        maria.run(f"SET GLOBAL max_allowed_packet = {usual}")
    there = maria.run("SELECT id, length(v) FROM t WHERE id < 4 ORDER BY id", schema=schema)
    assert there == [(0, 1), (1, 60_000), (3, 30_000)]
    assert maria.run("SELECT count(*), sum(length(v)) FROM t WHERE id >= 4", schema=schema) == [(996, 498_000)]


def test_a_tombstone_before_the_first_row_deletes_nothing(maria: MariaDb, schema: str) -> None:
    more = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    with sink_into(maria, schema, "t", delivery_guarantee="exactly_once", **more) as sink:
        sink.put(None, key=7)
        sink.put(None, {"n": 1}, key=8)
        assert not sink.errant
    assert maria.run("SELECT id, n FROM t", schema=schema) == [(8, 1)]
