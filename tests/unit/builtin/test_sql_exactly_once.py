"""SqlSink with delivery.guarantee=exactly_once, into sqlite: offsets in the database, two owners, crashes, refusals."""

from __future__ import annotations

import itertools
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConnectError, RetriableError, SinkRecord, TopicPartition
from kconnect.builtin.connectors.sql.sql_offsets import ranges_of
from kconnect.builtin.connectors.sql.sql_sink import SqlSinkConnector
from kconnect.testing import ManualClock, MemoryLog, SinkHarness
from kit.sqlite_files import change, rows_of

PLACE = TopicPartition("t", 0)


def settings(file: Path, **more: str) -> dict[str, str]:
    names = {key.replace("_", "."): value for key, value in more.items()}
    once = {"delivery.guarantee": "exactly_once", "auto.create": "true", "name": "copy", "topics": "t"}
    return {"connection.url": f"jdbc:sqlite:{file}", **once, **names}


def sink_of(file: Path, log: MemoryLog | None = None, **more: str) -> SinkHarness:
    return SinkHarness("SqlSink", settings(file, **more), log=log, clock=ManualClock())


def ids(file: Path) -> list[int]:
    return [row[0] for row in rows_of(file, "SELECT id FROM t ORDER BY id")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def test_what_was_written_and_not_committed_to_kafka_does_not_come_again(file: Path) -> None:
    with sink_of(file) as sink:
        sink.put({"id": 0}, {"id": 1})
        sink.crash()
        sink.start()
        sink.deliver()
        sink.put({"id": 2})
        assert sink.commit() == {PLACE: 3}
    assert ids(file) == [0, 1, 2]
    assert rows_of(file, "SELECT * FROM kconnect_offsets") == [("copy", "t", 0, 3)]


def test_the_group_follows_the_table_at_once(file: Path) -> None:
    with sink_of(file) as sink:
        sink.put({"id": 0}, {"id": 1})
        sink.crash()
        assert sink.committed == {}
        sink.start()
        assert sink.commit() == {PLACE: 2}


@pytest.mark.parametrize("seed", range(6))
def test_each_record_is_there_once_whoever_writes_it(file: Path, seed: int) -> None:
    """Two tasks that both take the partition for theirs, in any order of puts, crashes and starts."""
    chance, log, number = random.Random(seed), MemoryLog(), itertools.count()
    owners = [sink_of(file, log).start() for _ in range(2)]
    for _ in range(40):
        owner = chance.choice(owners)
        match chance.choice(["put", "put", "deliver", "crash", "stop", "commit"]):
            case "put":
                owner.put(*[{"id": next(number)} for _ in range(chance.randrange(1, 4))])
            case "deliver":
                owner.deliver()
            case "crash":
                owner.crash()
                owner.start()
            case "stop":
                owner.stop()
                owner.start()
            case "commit":
                owner.commit()
    for owner in owners:
        owner.deliver()
        owner.stop()
    with sink_of(file, log) as last:
        last.deliver()
    assert ids(file) == list(range(next(number)))


def test_a_commit_of_a_task_that_lost_its_partition_is_refused(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    with sink_of(file, log) as cut_off, sink_of(file, log) as owner:
        owner.put({"id": 0}, {"id": 1})
        cut_off.put({"id": 2})
        assert "nothing of this put was written, and t-0 from offset 2 is read on" in caplog.text
        assert ids(file) == [0, 1]
        cut_off.deliver()
        owner.deliver()
    assert ids(file) == [0, 1, 2]


def test_a_commit_whose_answer_was_lost_is_not_made_twice(file: Path) -> None:
    class Lost:
        """A connection that commits, and then is lost."""

        def __init__(self, inner: Any) -> None:
            self._inner, self.losses = inner, 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def commit(self) -> None:
            self._inner.commit()
            if self.losses:
                self.losses -= 1
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorname = "SQLITE_IOERR"
                raise error

    with sink_of(file) as sink:
        sink.put({"id": 0})
        task = sink.task
        task._writer._connection = Lost(task._writer._connection)
        with pytest.raises(RetriableError, match="away or busy"):
            sink.put({"id": 1})
        assert sink.deliver() == 1
        sink.put({"id": 2})
    assert ids(file) == [0, 1, 2]
    assert rows_of(file, "SELECT next_offset FROM kconnect_offsets") == [(3,)]


def test_refused_records_are_reported_before_their_offsets_are_committed(file: Path) -> None:
    change(file, "CREATE TABLE t (id INTEGER, n INTEGER CHECK (n > 0))")
    with sink_of(file, errors_tolerance="all") as sink:
        sink.put({"id": 0, "n": 1}, {"id": 1, "n": 0}, "no columns", {"id": 3, "n": 1})
        assert sorted(item.record.kafka_offset for item in sink.errant) == [1, 2]
        assert rows_of(file, "SELECT next_offset FROM kconnect_offsets") == [(4,)]
        sink.put("no columns either")
        assert rows_of(file, "SELECT next_offset FROM kconnect_offsets") == [(5,)], "a put without rows moves on, too"
    assert ids(file) == [0, 3]


def test_offsets_that_are_altered_or_reset_are_gone_on_from(file: Path) -> None:
    log = MemoryLog()
    with sink_of(file, log) as sink:
        sink.put(*({"id": number} for number in range(5)))
    connector = SqlSinkConnector()
    assert connector.alter_offsets(settings(file), {PLACE: 3, TopicPartition("t", 7): 1})
    assert rows_of(file, "SELECT kafka_partition, next_offset FROM kconnect_offsets") == [(0, 3)]
    with sink_of(file, log) as sink:
        assert sink.deliver() == 2
    assert ids(file) == [0, 1, 2, 3, 3, 4, 4]
    connector.alter_offsets(settings(file), {PLACE: None})
    assert rows_of(file, "SELECT * FROM kconnect_offsets") == []
    change(file, "DELETE FROM t")
    with sink_of(file, log) as sink:
        assert sink.deliver() == 5
    assert ids(file) == [0, 1, 2, 3, 4]


def test_an_offset_that_is_reset_under_a_running_task_fails_it(file: Path) -> None:
    with sink_of(file) as sink:
        sink.put({"id": 0})
        change(file, "DELETE FROM kconnect_offsets")
        with pytest.raises(ConnectError, match="t-0 was reset while this task ran"):
            sink.put({"id": 1})


def test_a_topic_that_was_made_again_is_reported(file: Path) -> None:
    with sink_of(file) as sink:
        sink.put({"id": 0}, {"id": 1})
    with sink_of(file, MemoryLog()) as sink, pytest.raises(ConnectError, match="begins again at offset 0") as reported:
        sink.task.put([SinkRecord("t", 0, None, None, None, {"id": 5}, 0)])
    assert "offsets reset" in (reported.value.hint or "")


def test_a_database_that_is_away_at_the_start_is_asked_at_the_first_put(file: Path) -> None:
    without_wait = {"connection_driver": "sqlite3", "connection_url": str(file), "connection_arg_timeout": "0"}
    with sink_of(file, **without_wait) as sink:
        sink.put({"id": 0}, {"id": 1})
        sink.crash()
        with closing(sqlite3.connect(file)) as busy:
            busy.execute("BEGIN EXCLUSIVE")
            sink.start()
            busy.rollback()
        sink.deliver()
        sink.put({"id": 2})
        sink.deliver()
    assert ids(file) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["upsert", "update", "insert"])
def test_every_mode_is_exact_and_the_tables_name_is_that_of_the_setting(file: Path, mode: str) -> None:
    change(file, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    change(file, "INSERT INTO t VALUES (1, 0)")
    keys = {"pk_mode": "record_value", "pk_fields": "id"}
    with sink_of(file, insert_mode=mode, offsets_table="own %s offsets", **keys) as sink:
        sink.put({"id": 1 if mode != "insert" else 2, "n": 5})
        sink.crash()
        sink.start()
        sink.deliver()
    assert rows_of(file, 'SELECT next_offset FROM "own %s offsets"') == [(1,)]
    assert (2 if mode == "insert" else 1, 5) in rows_of(file, "SELECT * FROM t")


def test_two_connectors_share_the_table_of_offsets(file: Path) -> None:
    for name in ("one", "two"):
        with sink_of(file, name=name) as sink:
            sink.put({"id": 0})
    assert ids(file) == [0, 0]
    assert rows_of(file, "SELECT connector, next_offset FROM kconnect_offsets ORDER BY 1") == [("one", 1), ("two", 1)]


def test_the_offsets_of_records_are_found_however_partitions_alternate() -> None:
    def record(partition: int, offset: int, topic: str = "t") -> SinkRecord:
        return SinkRecord(topic, partition, None, None, None, {}, offset)

    mixed = [record(0, 5), record(0, 7), record(1, 0), record(0, 8), record(1, 1, "u"), record(1, 3)]
    wanted = {PLACE: (5, 9), TopicPartition("t", 1): (0, 4), TopicPartition("u", 1): (1, 2)}
    assert ranges_of(mixed) == wanted
    assert ranges_of([]) == {}
