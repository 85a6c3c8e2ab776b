"""SparkSink writes Delta and Iceberg tables exactly once, although all that it runs in is killed, or frozen.

`make queries-tables`, in environments with the versions of Spark that the jars of these formats run on: the installed
one has none.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.distributed_worker import Distributed
from kit.freezing import freeze, wake
from kit.query_kills import JSON, Changes, QueryRun
from kit.query_tables import read_query_table, sink_settings, spark_settings, table_formats
from kit.table_kills import Numbers
from kit.topics import create_topic, topic_for
from kit.waiting import eventually, stays

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(3_600)]

BATCH = os.environ.get("KCONNECT_TABLES_BATCH", "25000")


def kills_of(count: int) -> int:
    """How many: each part twice, at least, and one for so many records of a long run."""
    return int(os.environ.get("KCONNECT_TABLES_KILLS", max(12, count // 40_000)))


def each_once(table: pa.Table, count: int) -> str:
    """Empty if each of the numbers from 0 to `count` is there once; else what is wrong."""
    if not table.num_rows:
        return "no rows"
    ids = table.column("id")
    found = (len(ids), pc.count_distinct(ids).as_py(), pc.min(ids).as_py(), pc.max(ids).as_py())
    wanted = (count, count, 0, count - 1)
    return "" if found == wanted else f"{found} rows, different ones, first, last; wanted {wanted}"


def a_million_records_are_there_once(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest, seed: int
) -> None:
    count = int(os.environ.get("KCONNECT_TABLES_RECORDS", "1000000"))
    topic, bootstrap = topic_for(request), own_broker.bootstrap
    create_topic(bootstrap, topic, partitions=2)
    with (
        QueryRun(tmp_path, own_broker, topic, seed, spark_max_records=BATCH) as run,
        Numbers(bootstrap, topic, count, int(os.environ.get("KCONNECT_TABLES_RATE", "8000"))) as numbers,
    ):
        run.kill_all_along(numbers, count, kills_of(count))
        numbers.await_end(600)
        run.await_all(lambda table: table.num_rows >= count, 600)
        run.worker.stop(120)
        for kind in run.formats:
            assert each_once(run.read(kind), count) == "", kind
    tell(request, f"seed {seed}: {count} records once in {run.formats}; killed: {run.kills}")


def the_last_change_of_each_key_is_there(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest, seed: int
) -> None:
    count = max(int(os.environ.get("KCONNECT_TABLES_RECORDS", "1000000")) // 10, 1_000)
    topic, bootstrap = topic_for(request), own_broker.bootstrap
    create_topic(bootstrap, topic, partitions=2)
    settings = {"spark_mode": "merge", "merge_keys": "id", "spark_schema": "id bigint, number bigint"}
    settings["spark_max_records"] = "5000"
    with (
        QueryRun(tmp_path, own_broker, topic, seed, **settings) as run,
        Changes(bootstrap, topic, count, 1_000, seed) as changes,
    ):
        run.kill_all_along(changes, count, kills_of(count))
        changes.await_end(600)
        wanted = changes.rows()
        run.await_all(lambda table: as_rows(table) == wanted, 600)
        run.worker.stop(120)
    tell(request, f"seed {seed}: {count} changes merged into {len(wanted)} rows; killed: {run.kills}")


def as_rows(table: pa.Table) -> dict[int, int]:
    """Key and number of each row. Errors: AssertionError for a key that is there twice."""
    if not table.num_rows:
        return {}
    found = dict(zip(table["id"].to_pylist(), table["number"].to_pylist(), strict=True))
    assert len(found) == table.num_rows, f"{table.num_rows} rows, {len(found)} keys"
    return found


def a_frozen_worker_writes_no_more_when_it_wakes(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest, kind: str, mode: str
) -> None:
    """Frozen again and again, at whatever moment of a batch: the other takes over, both run on."""
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=2)
    with Pair(tmp_path, broker, topic, kind, mode) as pair:
        for turn in range(int(os.environ.get("KCONNECT_TABLES_TURNS", "4"))):
            pair.freeze_and_wake(turn)
        pair.assert_right()


class Pair:
    """Two workers of a group, with one SparkSink; records that never end."""

    def __init__(self, folder: Path, broker: DevBroker, topic: str, kind: str, mode: str) -> None:
        self._folder, self._kind, self._mode = folder, kind, mode
        settings = {
            **JSON,
            **spark_settings(folder),
            "kconnect.slots": "1",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
        }
        group = f"{topic}-group"
        self._workers = [Distributed(folder / name, broker.bootstrap, group, settings) for name in ("a", "b")]
        more = {"spark_mode": "merge", "merge_keys": "id"} if mode == "merge" else {}
        self._config = {"name": topic, "topics": topic, **sink_settings(kind, folder, "t", **more)}
        schema = "id bigint, number bigint" if mode == "merge" else "id bigint, name string, price double"
        self._config["spark.schema"] = schema
        self._numbers = Numbers(broker.bootstrap, topic, 10_000_000, 2_000)
        self._changes = Changes(broker.bootstrap, topic, 10_000_000, 500, 1)
        self._feed: Numbers | Changes = self._changes if mode == "merge" else self._numbers

    def __enter__(self) -> Pair:
        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda worker: worker.start(600.0), self._workers))
            with self._workers[0].client() as client:
                client.create_connector(self._config["name"], self._config)
            self._feed.__enter__()
            eventually(self.rows, 240, "the first rows")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        if self._feed._thread.ident is not None:  # it was started
            self._feed.__exit__()
        for worker in self._workers:
            wake(_family(worker))
            worker.__exit__(None, None, None)

    def rows(self) -> int:
        return read_query_table(self._kind, self._folder, "t").num_rows

    def newest(self) -> int:
        """A number that grows with what is written."""
        table, column = read_query_table(self._kind, self._folder, "t"), "number" if self._mode == "merge" else "id"
        return int(pc.max(table[column]).as_py() or 0) if table.num_rows else 0

    def freeze_and_wake(self, turn: int) -> None:
        victim = self._owner()
        stays(lambda: True, 0.37 * (turn + 1), "it writes")
        family = _family(victim)
        freeze(family)
        before = self.newest()
        eventually(lambda: self.newest() > before, 240, "the other worker goes on", pause_s=0.3)
        wake(family)
        before = self.newest()
        eventually(lambda: self.newest() > before, 240, "it still does", pause_s=0.3)
        self._owner()  # all is well again

    def _owner(self) -> Distributed:
        """The worker that has the query."""

        def found() -> Distributed:
            with self._workers[0].client() as client:
                status = client.connector_status(self._config["name"])
            assert status.tasks, "it has a task"
            assert status.tasks[0].state == RunState.RUNNING, status
            return next(each for each in self._workers if status.tasks[0].worker_id.endswith(f":{each.port}"))

        return eventually(found, 120, "a worker has the query")

    def assert_right(self) -> None:
        """All that was produced is there, and nothing twice."""
        feed = self._feed
        feed._stop.set()
        feed._thread.join(10)
        eventually(lambda: feed._producer.flush(1) == 0, 60, "all are acknowledged")
        if self._mode == "merge":
            wanted = self._changes.rows()
            eventually(lambda: as_rows(read_query_table(self._kind, self._folder, "t")) == wanted, 240, "all is there")
            stays(lambda: as_rows(read_query_table(self._kind, self._folder, "t")) == wanted, 10, "and it remains")
        else:
            count = self._numbers.produced
            eventually(lambda: self.rows() >= count, 240, "all is there", pause_s=0.5)
            stays(lambda: each_once(read_query_table(self._kind, self._folder, "t"), count) == "", 10, "each is once")


def _family(worker: Distributed) -> list[psutil.Process]:
    if worker.process is None or worker.process.poll() is not None:
        return []
    return [psutil.Process(worker.pid), *worker.descendants()]


def tell(request: pytest.FixtureRequest, text: str) -> None:
    request.config.get_terminal_writer().line(f"Spark {pyspark.__version__}: {text}")


if os.environ.get("KCONNECT_QUERIES_TABLES") == "long":  # `make queries-tables`
    _seeds = pytest.mark.parametrize("seed", [int(seed) for seed in os.environ["KCONNECT_TABLES_SEEDS"].split()])
    test_a_million = _seeds(a_million_records_are_there_once)
    test_merge = _seeds(the_last_change_of_each_key_is_there)
    test_frozen = pytest.mark.parametrize("mode", ["append", "merge"])(
        pytest.mark.parametrize("kind", table_formats())(a_frozen_worker_writes_no_more_when_it_wakes)
    )
