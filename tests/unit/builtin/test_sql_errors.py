"""What an error of a database is about: of each code of SQLite as it says it, of drivers' errors without a code."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConnectError, DataError, RetriableError
from kconnect.builtin.connectors.sql.sql_errors import MYSQL, POSTGRESQL, SQLITE, Cause, blame, code_of
from kconnect.testing import ManualClock, SinkHarness


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with a table that several things may be wrong with."""
    path = tmp_path / "t.db"
    run(path, "CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER CHECK (n > 0))")
    return path


def run(file: Path, *statements: str) -> list[Any]:
    connection = sqlite3.connect(file, isolation_level=None)
    found = [connection.execute(statement).fetchall() for statement in statements]
    connection.close()
    return found[-1]


def sink_into(file: Path, **more: str) -> SinkHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"topics": "orders", "connection.driver": "sqlite3", "connection.url": str(file), **settings}
    key = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id", "connection.arg.timeout": "0"}
    return SinkHarness("SqlSink", {"errors.tolerance": "all", **key, **config}, clock=ManualClock())


def held(file: Path) -> Callable[[], None]:
    """Another connection is in the midst of a transaction; gives what ends it."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def broken(file: Path) -> Callable[[], None]:
    data = file.read_bytes()
    file.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
    return lambda: file.write_bytes(data) and None  # type: ignore[func-returns-value]


def no_database(file: Path) -> Callable[[], None]:
    data = file.read_bytes()
    file.write_bytes(b"this is no database" * 100)
    return lambda: file.write_bytes(data) and None  # type: ignore[func-returns-value]


def no_table(file: Path) -> Callable[[], None]:
    run(file, "ALTER TABLE orders RENAME TO away")
    return lambda: run(file, "ALTER TABLE away RENAME TO orders") and None


def no_folder(file: Path) -> Callable[[], None]:
    file.parent.rename(file.parent.with_name("away"))
    return lambda: file.parent.with_name("away").rename(file.parent) and None  # type: ignore[func-returns-value]


STATES = {
    "locked": held,
    "malformed": broken,
    "no such table": no_table,
    "unable to open": no_folder,
}


@pytest.mark.parametrize("said", STATES)
def test_the_state_of_a_file_blames_no_record_and_costs_none(file: Path, said: str) -> None:
    """It is waited for, then the task fails; put again behind it, each record is there."""
    with sink_into(file, max_retries="1") as sink:
        repair = STATES[said](file)
        with pytest.raises(RetriableError, match=said):
            sink.put({"id": 1, "n": 1}, {"id": 2, "n": 2})
        with pytest.raises(ConnectError, match=rf"2 times in a row \(max\.retries=1\): .*{said}"):
            sink.deliver()
        assert not sink.errant
        assert {*sink.commit().values()} == {0}
        repair()
        assert sink.deliver() == 2
    assert run(file, "SELECT id FROM orders ORDER BY id") == [(1,), (2,)]


def test_a_file_that_is_no_database_fails_at_once(file: Path) -> None:
    with sink_into(file) as sink:
        repair = no_database(file)
        with pytest.raises(
            ConnectError, match="refuses the connector: DatabaseError: file is not a database"
        ) as caught:
            sink.put({"id": 1, "n": 1})
        assert not isinstance(caught.value, RetriableError)
        assert not sink.errant
        repair()


def test_what_a_record_has_wrong_is_that_records_error(file: Path) -> None:
    good = {"id": 1, "n": 1}
    with sink_into(file) as sink:
        sink.put(
            good,
            {"id": 2, "n": -1},
            {"id": "x", "n": 1},
            {"id": 3, "m": 1},
            {"id": 4, "n": (1 << 70) + 1},
            {"id": 5, "n\0": 1},
        )
        reported = {item.record.kafka_offset: str(item.error) for item in sink.errant}
    for offset, words in (
        (1, "CHECK constraint failed"),
        (2, "Column id is INTEGER, and would change the value 'x'"),
        (3, "no column named m"),
        (4, "Column n is "),
        (5, r"cannot be the name of a table or column"),
    ):
        assert words in reported.pop(offset)
    assert not reported
    assert run(file, "SELECT id FROM orders") == [(1,)]


def test_a_column_that_went_away_blames_the_table(file: Path) -> None:
    with sink_into(file) as sink:
        sink.put({"id": 1, "n": 1})
        run(file, "ALTER TABLE orders RENAME COLUMN n TO m")
        with pytest.raises(RetriableError, match=r"A table has changed.*has no column named n"):
            sink.put({"id": 2, "n": 2})
        run(file, "ALTER TABLE orders RENAME COLUMN m TO n")
        sink.deliver()
        assert not sink.errant
    assert run(file, "SELECT id, n FROM orders") == [(1, 1), (2, 2)]


def test_a_table_that_never_had_the_column_blames_one_record_but_not_all_of_many(file: Path) -> None:
    with sink_into(file) as sink:
        sink.put({"id": 1, "m": 1})
        assert len(sink.errant) == 1
        with pytest.raises(RetriableError, match="has no column named k"):
            sink.put({"id": 2, "k": 1}, {"id": 3, "k": 1})
        assert len(sink.errant) == 1


def test_an_upsert_without_a_key_in_the_table_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "t.db"
    run(file, "CREATE TABLE orders (id INTEGER, n INTEGER)")
    with sink_into(file) as sink:
        with pytest.raises(ConnectError, match="refuses the connector") as caught:
            sink.put({"id": 1, "n": 1})
        assert "unique constraint on just the columns of pk.fields" in (caught.value.hint or "")
        assert not sink.errant


def test_a_file_that_may_not_be_written_to_is_a_state(file: Path) -> None:
    run(file, "PRAGMA journal_mode=DELETE")
    url = f"file:{file}?mode=ro"
    with sink_into(file, connection_url=url, connection_arg_uri="true") as sink:
        with pytest.raises(RetriableError, match="readonly"):
            sink.put({"id": 1, "n": 1})
        assert not sink.errant


def said_by_sqlite(file: Path) -> Iterator[sqlite3.Error]:
    """An error of each code in the table, but IOERR, which needs a broken disk."""

    def failing(path: str, *statements: str, setup: Callable[[sqlite3.Connection], object] = id) -> sqlite3.Error:
        """What the last of the statements, or the connection itself, is reported."""
        try:
            opened = sqlite3.connect(path, isolation_level=None, timeout=0, uri=True)
            with contextlib.closing(opened) as connection:
                setup(connection)
                for statement in statements:
                    connection.execute(statement)
        except sqlite3.Error as error:
            return error
        raise AssertionError(f"{statements} went well")

    insert = "INSERT INTO orders VALUES ({}, 1)"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield failing(str(file), insert.format(1))
    shared = f"file:{file}?cache=shared"
    with contextlib.closing(sqlite3.connect(shared, isolation_level=None, uri=True)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute(insert.format(7))
        yield failing(shared, "SELECT * FROM orders")
    yield failing(f"file:{file}?mode=ro", insert.format(1))
    yield failing(f"{file}", insert.format(1), setup=lambda one: one.set_progress_handler(lambda: 1, 1))
    grow = "CREATE TABLE big AS SELECT zeroblob(1000000)"
    yield failing(f"{file}", "PRAGMA max_page_count=3", grow)
    yield failing(f"{file.parent}/none/t.db", insert.format(1))
    too_big = "INSERT INTO orders VALUES (1, zeroblob(1000))"
    yield failing(f"{file}", too_big, setup=lambda one: one.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100))
    yield failing(f"{file}", "INSERT INTO orders VALUES (1, -1)")
    yield failing(f"{file}", insert.format("'x'"))
    repair = broken(file)
    yield failing(f"{file}", "SELECT * FROM orders")
    repair()
    repair = no_database(file)
    yield failing(f"{file}", "SELECT * FROM orders")
    repair()


def test_each_code_of_sqlite_is_one_that_it_gives(file: Path) -> None:
    seen = {}
    for error in said_by_sqlite(file):
        code = error.sqlite_errorcode & 0xFF
        seen[code] = blame("sqlite", error)
    assert seen == {code: cause for code, cause in SQLITE.items() if code != sqlite3.SQLITE_IOERR}


class OperationalError(Exception):
    """As drivers name it."""


class ProgrammingError(Exception):
    """As drivers name it."""


class LateError(OperationalError):
    """A driver's own kind."""


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "sqlite", "other"])
def test_errors_without_a_code_are_reported_by_their_class(kind: str) -> None:
    refused = 'connection failed: FATAL:  password authentication failed for user "ann"'
    for error, cause in (
        (OperationalError(refused), Cause.REFUSED),
        (OperationalError("server does not support SSL, but SSL was required"), Cause.REFUSED),
        (LateError("connection refused"), Cause.AWAY),
        (ConnectionResetError("reset"), Cause.AWAY),
        (ProgrammingError("cannot adapt type 'set'"), Cause.RECORD),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), Cause.RECORD),
        (OverflowError("too large"), Cause.RECORD),
        (DataError("of ours"), Cause.SHAPE),
        (Exception("anything"), Cause.STATE),
    ):
        assert blame(kind, error) is cause, error


def test_codes_are_found_where_drivers_have_them() -> None:
    class StateError(Exception):
        sqlstate = "22003"

    class CodeError(Exception):
        pgcode = "22003"

    class NumberError(Exception):
        errno = 1062

    given = [StateError(), CodeError(), Exception({"C": "22003", "M": "out of range"})]
    assert [code_of("postgresql", error) for error in given] == ["22003"] * 3
    assert [code_of("mysql", error) for error in (NumberError("Duplicate"), Exception(1062, "Duplicate"))] == [
        1062,
        1062,
    ]
    assert code_of("mysql", Exception("nan can not be used with MySQL")) is None
    assert {blame("postgresql", error) for error in given} == {Cause.RECORD}


def test_a_value_that_names_a_table_or_has_a_syntax_is_to_blame_for_it() -> None:
    """As regclass and tsvector do: PostgreSQL says that it was in a parameter."""

    def error(state: str, where: str) -> Exception:
        return RuntimeError({"C": state, "W": where})  # as pg8000 has it

    for state in ("42601", "42P01", "0A000"):
        assert blame("postgresql", error(state, "unnamed portal parameter $2 = '...'")) is Cause.RECORD
        assert blame("postgresql", error(state, "")) in (Cause.REFUSED, Cause.STATE)
    assert blame("postgresql", error("57014", "unnamed portal parameter $2")) is Cause.AWAY


def test_what_no_table_names_is_the_state_of_the_database() -> None:
    class StateError(Exception):
        sqlstate = "99999"

    assert blame("postgresql", StateError()) is Cause.STATE
    assert blame("mysql", Exception(9999, "?")) is Cause.STATE
    assert {*MYSQL.values()} == {*POSTGRESQL.values()} == {*Cause}


@pytest.mark.parametrize(
    ("value", "more"),
    [
        ({"n": "no number"}, {}),
        ({"n": 1, "N": 2}, {}),
        ({"x": 1}, {"auto_evolve": "true", "schema_contract": "freeze"}),
    ],
)
def test_a_value_that_all_first_records_have_is_refused_as_theirs(
    file: Path, value: dict[str, Any], more: dict[str, str]
) -> None:
    """The table has not changed: what is refused for itself is a dead letter, as it is when it comes alone."""
    with sink_into(file, **more) as sink:
        sink.put({"id": 1, **value}, {"id": 2, **value})
        assert [letter.record.kafka_offset for letter in sink.errant] == [0, 1]
        sink.put({"id": 3, "n": 4})
    assert run(file, "SELECT id, n FROM orders") == [(3, 4)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_tombstones_before_the_first_row_delete_nothing_where_the_table_is_made_by_the_sink(
    file: Path, guarantee: str
) -> None:
    """A compacted topic may begin with them."""
    settings = {"pk_mode": "record_key", "delete_enabled": "true", "table_name_format": "made", "max_retries": "0"}
    settings |= {"delivery_guarantee": guarantee, "name": "s"}
    with sink_into(file, **settings, auto_create="true") as sink:
        sink.put(None, None, key=7)
        sink.put(None, {"n": 1}, key=8)
        sink.put(None, key=7)
        sink.put({"n": 2}, key=9)
        sink.put(None, key=9)
        assert not sink.errant
    assert run(file, "SELECT id, n FROM made") == [(8, 1)]
    run(file, "DROP TABLE made")
    other = {**settings, "name": "other"}
    with sink_into(file, **other) as sink, pytest.raises(ConnectError, match="no such table: made"):
        sink.put(None, key=7)
