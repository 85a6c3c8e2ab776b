"""SqlSource from sqlite files, through the harness: modes, offsets, tables, refusals."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigError, ConnectError, DataError, ExactlyOnceSupport
from kconnect.builtin.connectors.sql import sql_source
from kconnect.builtin.connectors.sql.sql_source import SqlSourceConnector
from kit.sqlite_files import BOTH, IDS, add, change, nothing_more, source_of, values_of
from kit.waiting import eventually

TIMES = {"mode": "timestamp", "timestamp_column_name": "at"}
PARTITION = {"protocol": "1", "table": "orders"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "shop.db"
    change(made, "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, at TIMESTAMP NOT NULL)")
    return made


def names(records: Any) -> list[str]:
    return [record.value["name"] for record in records]


def test_new_rows_are_found_by_their_id_and_a_restart_goes_on_behind_the_last(file: Path) -> None:
    add(file, "a", "b", "c")
    with source_of(file, **IDS, batch_max_rows="2") as source:
        records = source.poll(3)
        assert names(records) == ["a", "b", "c"]
        assert {record.topic for record in records} == {"shop-orders"}
        assert [record.source_offset for record in records] == [{"incrementing": number} for number in (1, 2, 3)]
        source.commit()
        assert source.offset(**PARTITION) == {"incrementing": 3}
        add(file, "d")
        assert names(source.poll(1)) == ["d"]
        source.crash()
        source.start()
        assert names(source.poll(1)) == ["d"]
        assert nothing_more(source)


def test_tables_are_named_in_upper_or_lower_case_as_sqlite_has_one_of_a_name(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(file, "CREATE TABLE secrets (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO secrets VALUES (1, 'x')")
    add(file, "a")
    for setting, name in (
        ("table_whitelist", "ORDERS"),
        ("table_blacklist", "Secrets"),
        ("table_include_list", "Ord.*"),
    ):
        with source_of(file, **IDS, **{setting: name}) as source:
            assert names(source.poll(1)) == ["a"]
            assert nothing_more(source)
    assert "does not exist (yet)" not in caplog.text


def test_changed_rows_are_found_by_their_time(file: Path) -> None:
    add(file, "a", "b")
    with source_of(file, **TIMES) as source:
        assert names(source.poll(2)) == ["a", "b"]
        source.commit()
        assert source.offset(**PARTITION) == {"timestamp": 1767323041000, "timestamp_nanos": 0}
        change(file, "UPDATE orders SET name = 'A', at = '2026-01-02T03:04:01.500' WHERE id = 1")
        assert names(source.poll(1)) == ["A"]
        source.stop()
        source.start()
        assert nothing_more(source)


@pytest.mark.parametrize("rows_of_a_batch", ["1", "2", "3", "100"])
def test_rows_of_one_time_come_once_however_they_fall_into_batches(file: Path, rows_of_a_batch: str) -> None:
    for second, name in ((1, "a"), (2, "b"), (2, "c"), (2, "d"), (3, "e"), (3, "f")):
        add(file, name, second=second)
    with source_of(file, **TIMES, batch_max_rows=rows_of_a_batch) as source:
        records = source.poll(6)
        assert names(records) == list("abcdef")
        assert nothing_more(source)
    for count, record in enumerate(records, start=1):
        offset = record.source_offset
        with source_of(file, **TIMES, offsets=[(PARTITION, offset)]) as source:
            left = names(record for _ in range(12) for record in source.poll_once())
            assert "".join(left).endswith("abcdef"[count:]), "nothing is left out"


def test_by_time_and_id_rows_of_one_time_go_on_behind_the_last_id(file: Path) -> None:
    add(file, "a", "b", "c")
    with source_of(file, **BOTH, batch_max_rows="2") as source:
        records = source.poll(3)
        assert names(records) == ["a", "b", "c"]
        second = records[1].source_offset
    assert second == {"incrementing": 2, "timestamp": 1767323041000, "timestamp_nanos": 0}
    with source_of(file, **BOTH, offsets=[(PARTITION, second)]) as source:
        assert names(source.poll(1)) == ["c"]
        add(file, "d")  # the same time, a greater id
        assert names(source.poll(1)) == ["d"]
        assert nothing_more(source)


def test_bulk_gives_everything_at_each_round_and_keeps_no_offset(file: Path) -> None:
    add(file, "a", "b")
    with source_of(file, mode="bulk") as source:
        assert names(source.poll(4)) == ["a", "b", "a", "b"]
        assert source.commit() == []
        assert source.offsets == []


def test_a_query_is_read_with_the_modes_clause_at_its_end(file: Path) -> None:
    add(file, "a", "b%c")
    query = "SELECT id, name, id * 1.5 AS half, ':x 10%' AS odd FROM orders;"
    with source_of(file, mode="incrementing", query=query, incrementing_column_name="id") as source:
        records = source.poll(2)
        assert [values_of(record) for record in records] == [
            [1, "a", 1.5, ":x 10%"],
            [2, "b%c", 3.0, ":x 10%"],
        ]
        assert records[0].topic == "shop-"
        source.commit()
        assert source.offset(query="query") == {"incrementing": 2}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, name FROM orders WHERE name <> 'x' -- these",
        "SELECT max(id) AS id, name FROM orders GROUP BY name ORDER BY 2 LIMIT 9",
        "SELECT id, name FROM orders WHERE id < 2 UNION ALL SELECT id, name FROM orders WHERE id > 1",
        "WITH all_of AS (SELECT * FROM orders) SELECT id, name FROM all_of",
        "SELECT 5 + o.id AS id, name FROM orders AS o",
    ],
)
def test_a_query_of_any_form_is_read_once(file: Path, query: str) -> None:
    add(file, "a", "b")
    with source_of(file, mode="incrementing", query=query, incrementing_column_name="id") as source:
        assert names(source.poll(2)) == ["a", "b"]
        assert nothing_more(source)
        add(file, "c")
        assert names(source.poll(1)) == ["c"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
def test_rows_of_a_day_are_read_once_whatever_the_zone_of_the_database_is(file: Path, zone: str) -> None:
    change(file, "CREATE TABLE days (id INTEGER PRIMARY KEY, day DATE NOT NULL)")
    change(file, "INSERT INTO days (day) VALUES ('2026-01-01'), ('2026-01-02')")
    settings = {**BOTH, "timestamp_column_name": "day", "table_whitelist": "days", "db_timezone": zone}
    with source_of(file, **settings) as source:
        assert [record.value["id"] for record in source.poll(2)] == [1, 2]
        assert nothing_more(source)
        change(file, "INSERT INTO days (day) VALUES ('2026-01-02')")
        assert [record.value["id"] for record in source.poll(1)] == [3]


def test_a_query_with_two_columns_of_one_name_fails_with_that_name(file: Path) -> None:
    add(file, "a")
    query = "SELECT a.id, b.id FROM orders a, orders b"
    with (
        source_of(file, mode="bulk", query=query) as source,
        pytest.raises(DataError, match="several columns named id: name them with AS"),
    ):
        source.poll(1)


def test_tables_are_dealt_to_tasks_and_one_that_is_new_is_read_too(file: Path) -> None:
    add(file, "a")
    change(file, "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO people (name) VALUES ('p')")
    with source_of(file, **IDS, tasks=2, table_poll_interval_ms="20") as source:
        assert sorted(names(source.poll(2))) == ["a", "p"]
        assert [task.config["tables"] for task in source._tasks] == ['"orders"', '"people"']
        change(
            file, "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO things (name) VALUES ('t')"
        )
        assert "t" in names(source.poll(1))
        assert [task.config["tables"] for task in source._tasks] == ['"orders","people"', '"things"']


def test_a_column_that_is_added_while_it_runs_is_in_the_next_records(file: Path) -> None:
    add(file, "a")
    with source_of(file, **IDS) as source:
        assert [field.name for field in source.poll(1)[0].value_schema.fields] == ["id", "name", "at"]
        change(file, "ALTER TABLE orders ADD COLUMN price REAL")
        add(file, "b")
        (record,) = source.poll(1)
        assert record.value["price"] is None
        assert [field.name for field in record.value_schema.fields] == ["id", "name", "at", "price"]


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"mode": "timestamp", "timestamp_column_name": "seen"}, "columns seen for mode=timestamp may all be null"),
        ({"mode": "incrementing", "incrementing_column_name": "n"}, "column n for mode=incrementing may be null"),
        ({"mode": "incrementing", "incrementing_column_name": "no"}, "has no column named no; it has n, seen"),
        ({"mode": "incrementing"}, "has no column that the database counts up"),
    ],
)
def test_a_table_that_does_not_suit_the_mode_fails_the_task_with_what_to_change(
    file: Path, settings: dict[str, str], reported: str
) -> None:
    change(file, "CREATE TABLE loose (n INTEGER, seen TIMESTAMP)")
    with source_of(file, table_whitelist="loose", **settings) as source, pytest.raises(ConnectError, match=reported):
        source.poll(1)


def test_rows_without_a_value_to_go_by_are_left_out_where_that_is_allowed(file: Path) -> None:
    change(file, "CREATE TABLE loose (n INTEGER, seen TIMESTAMP, name TEXT)")
    change(file, "INSERT INTO loose VALUES (NULL, NULL, 'x'), (5, '2026-01-01', 'y')")
    for mode in ({"mode": "incrementing", "incrementing_column_name": "N"}, {**TIMES, "timestamp_column_name": "Seen"}):
        with source_of(file, table_whitelist="loose", validate_non_null="false", **mode) as source:
            assert names(source.poll(1)) == ["y"]
            assert nothing_more(source)
    change(file, "INSERT INTO loose VALUES (NULL, '2026-01-02', 'z')")
    both = {"mode": "timestamp+incrementing", "timestamp_column_name": "seen", "incrementing_column_name": "n"}
    with (
        source_of(file, table_whitelist="loose", validate_non_null="false", **both) as source,
        pytest.raises(DataError, match="Column n of loose is null in 1 row"),
    ):
        source.poll(2)


def test_a_table_that_cannot_be_read_stops_no_other_and_is_read_once_it_can_be(
    file: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_source, "_ASIDE_S", 0.01)
    change(file, "CREATE TABLE loose (id INTEGER, name TEXT)", "INSERT INTO loose VALUES (NULL, 'late')")
    add(file, "a")
    mode = {**IDS, "incrementing_column_name": "id", "validate_non_null": "true"}
    with source_of(file, **mode) as source:
        assert names(source.poll(1)) == ["a"]
        add(file, "b")
        assert names(source.poll(1)) == ["b"]
        reported = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert len(reported) == 1
        assert "loose until this is repaired" in reported[0]
        assert "its column id for mode=incrementing may be null" in reported[0]
        change(file, "DROP TABLE loose", "CREATE TABLE loose (id INTEGER PRIMARY KEY, name TEXT)")
        change(file, "INSERT INTO loose VALUES (1, 'late')")
        assert names(source.poll(1)) == ["late"]
        change(file, "DROP TABLE loose", "DROP TABLE orders")
        with pytest.raises(ConnectError, match="cannot be read: NoSuchTableError"):
            source.poll(1)


def test_without_an_offset_reading_begins_where_timestamp_initial_says(file: Path) -> None:
    add(file, "a", second=1)
    add(file, "b", second=3)
    with source_of(file, **TIMES, timestamp_initial="1767323042000") as source:
        assert names(source.poll(1)) == ["b"]
    with source_of(file, **TIMES, timestamp_initial="-1") as source:
        assert nothing_more(source)
        change(file, "INSERT INTO orders (name, at) VALUES ('now', strftime('%Y-%m-%d %H:%M:%f', 'now'))")
        assert names(source.poll(1)) == ["now"]


def test_an_offset_that_is_ahead_of_the_database_is_said_once(file: Path, caplog: Any) -> None:
    add(file, "a")
    ahead = [(PARTITION, {"timestamp": 4_102_444_800_000, "timestamp_nanos": 0})]
    with source_of(file, offsets=ahead, **TIMES) as source:
        assert nothing_more(source)
    (reported,) = [text for text in caplog.messages if "ahead of the database's clock" in text]
    assert reported.startswith("The offset of orders is ")


def test_young_rows_wait_for_the_delay(file: Path) -> None:
    change(file, "INSERT INTO orders (name, at) VALUES ('now', strftime('%Y-%m-%d %H:%M:%f', 'now'))")
    with source_of(file, **TIMES, timestamp_delay_interval_ms="3600000") as source:
        assert nothing_more(source)


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"mode": "often"}, "mode"),
        ({"mode": "timestamp"}, "needs timestamp.column.name"),
        ({"mode": "bulk", "query": "SELECT 1", "table_whitelist": "orders"}, "leave out table.whitelist"),
        ({"mode": "incrementing", "query": "SELECT 1"}, "needs incrementing.column.name"),
        ({"mode": "bulk", "query": "SELECT 1", "topic_prefix": ""}, "topic's whole name"),
        ({"mode": "bulk", "table_whitelist": "a", "table_blacklist": "b"}, "not both"),
        ({"mode": "bulk", "table_include_list": "a", "table_blacklist": "b"}, "not both"),
        ({"mode": "bulk", "table_exclude_list": "a"}, "set that too"),
        ({"mode": "bulk", "table_include_list": "("}, "regular expressions"),
        ({"mode": "bulk", "table_types": "SYNONYM"}, "It must be table or view or"),
        ({"mode": "bulk", "topic_prefix": "a b"}, "letters, digits"),
        ({"mode": "bulk", "db_timezone": "Mars/Base"}, "time zone"),
        ({"mode": "bulk", "numeric_mapping": "all"}, "best_fit"),
        ({"mode": "bulk", "jdbc_credentials_provider_class": "x.Y"}, "class of Java"),
        ({"mode": "bulk", "connection_url": "jdbc:derby:x"}, "not translated"),
        ({"mode": "bulk", "connection_url": "jdbc:sqlite:/no/such/folder/x.db"}, "refuses the connection"),
        ({"mode": "bulk", "query": "SELECT * FROM nowhere"}, "no such table: nowhere"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_starts(
    file: Path, settings: dict[str, str], reported: str
) -> None:
    with pytest.raises(ConfigError, match=reported):
        source_of(file, **settings).start()


def test_a_table_whose_topic_no_topic_can_be_is_refused_unless_it_is_renamed(tmp_path: Path) -> None:
    made = tmp_path / "odd.db"
    change(made, 'CREATE TABLE "Mixed Case" (id INTEGER PRIMARY KEY, name TEXT)')
    config = {"connection.url": f"sqlite:///{made}", "mode": "bulk", "topic.prefix": "db-"}
    refused = messages_of(config)
    assert "table.include.list: 'db-Mixed Case' cannot be the name of a topic: ' '" in refused
    assert "transforms.rename.regex=db-Mixed Case, transforms.rename.replacement=db-Mixed-Case" in refused
    assert messages_of({**config, "transforms": "rename"}) == ""


def messages_of(config: dict[str, str]) -> str:
    return "\n".join(
        line for value in SqlSourceConnector().validate(config).config_values for line in value.error_messages
    )


def test_without_sqlalchemy_the_settings_are_refused_with_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ConfigError, match=r"SQLAlchemy is not installed\. Install it, .*: pip install sqlalchemy\."):
        source_of(file, mode="bulk").start()


def test_a_file_that_does_not_exist_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unable to open database file"):
        source_of(tmp_path / "typo %.db", mode="bulk").start()
    assert not list(tmp_path.iterdir())


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / "a b%20#c.db"
    change(odd, "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO orders (name) VALUES ('a')")
    with source_of(odd, **IDS) as source:
        assert names(source.poll(1)) == ["a"]


def test_a_batch_has_no_more_rows_than_the_setting_says(file: Path) -> None:
    add(file, *"abcde")
    with source_of(file, **IDS, batch_max_rows="2") as source:
        found = [len(records) for _ in range(30) if (records := source.poll_once())]
    assert found == [2, 2, 1]


def test_a_masked_query_is_in_no_message(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        source_of(file, mode="bulk", query_masked="SELECT secret FROM nowhere").start()
    assert "The database refuses the query: OperationalError" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_database_that_is_busy_is_waited_for_and_given_up_where_the_settings_say(file: Path) -> None:
    add(file, "a")
    url = f"sqlite:///{file}?timeout=0"
    with source_of(file, **IDS, connection_url=url, connection_attempts="3", connection_backoff_ms="20") as source:
        assert names(source.poll(1)) == ["a"]
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(ConnectError, match=r"has been away for .* \(3 attempts\).*locked"):
                eventually(source.poll_once, 10, "it fails")


def test_a_task_that_waits_for_its_database_stops_at_once(file: Path) -> None:
    """The statement would run for minutes."""
    endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT max(id) AS id FROM n"
    with source_of(file, mode="bulk", query=endless) as source:
        assert source.poll_once() == []


def test_offsets_are_checked_when_they_are_altered_and_found_for_a_time() -> None:
    connector = SqlSourceConnector()
    assert connector.alter_offsets({}, [(PARTITION, {"incrementing": 1}), ({"query": "query"}, None)])
    for partition, offset in (({"file": "x"}, None), (PARTITION, {"line": 1})):
        with pytest.raises(DataError):
            connector.alter_offsets({}, [(partition, offset)])
    pairs = [(PARTITION, {"incrementing": 4, "timestamp": 5000, "timestamp_nanos": 0})]
    assert connector.offsets_at({"mode": "timestamp"}, pairs, 2000) == [
        (PARTITION, {"incrementing": 4, "timestamp": 1999, "timestamp_nanos": 999_999_000})
    ]
    with pytest.raises(DataError, match="keeps no times"):
        connector.offsets_at({"mode": "incrementing"}, pairs, 2000)
    assert connector.exactly_once_support({"mode": "incrementing"}) is ExactlyOnceSupport.SUPPORTED
    assert connector.exactly_once_support({"mode": "bulk"}) is ExactlyOnceSupport.UNSUPPORTED
