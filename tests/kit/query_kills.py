"""SparkSinks write tables of Delta and Iceberg, while all that they run in is killed: workers, executors, readers, ..

On a Spark standalone cluster, whose executors can be killed apart from the worker.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from kconnect.java.devbroker import DevBroker
from kit.processes import below, command, named
from kit.query_tables import count_query_rows, read_query_table, sink_settings, spark_settings, table_formats
from kit.spark_cluster import SparkCluster
from kit.standalone import Standalone
from kit.table_kills import Numbers
from kit.waiting import eventually, stays

__all__ = ["JSON", "Changes", "QueryRun"]

JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
# A worker, its session and the first batch, beside all else that this machine does
_BACK_S = 240.0


class QueryRun:
    """A worker with a SparkSink for each format, on the executors of a cluster. A context manager."""

    def __init__(self, folder: Path, broker: DevBroker, topic: str, seed: int, **more: str) -> None:
        """Keywords, with `_` for `.`, are settings of the connectors."""
        self._folder, self.broker, self._chance = folder, broker, random.Random(seed)
        self.formats = table_formats()
        self.kills: dict[str, int] = {}
        self._merges = more.get("spark_mode") == "merge"
        self._cluster = SparkCluster(folder / "cluster", workers=1, cores=3)
        self._connectors = {
            f"{topic}-{kind}": {"topics": topic, **sink_settings(kind, folder, "t", **more)} for kind in self.formats
        }
        self.worker: Standalone

    def __enter__(self) -> QueryRun:
        self._cluster.__enter__()
        settings = {
            **JSON,
            **spark_settings(self._folder),
            "spark.master": self._cluster.url,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "1g",
            "kconnect.slots": "1",
            "kconnect.query.cores": "2",
        }
        self.worker = Standalone(self._folder, self.broker.bootstrap, self._connectors, settings)
        try:
            self.worker.start(600.0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self.worker.__exit__(None, None, None)
        finally:
            self._cluster.stop()

    def _kill(self, what: str) -> None:
        """SIGKILL to a part; worker and broker are started again, the rest has to come back by itself."""
        if what == "worker":
            self._tell(what, self.worker.pid)
            self.worker.kill()
            self.worker.start(_BACK_S, running=False)
        elif what == "broker":
            self.broker.kill()
            self.broker.start()
        else:
            found = eventually(PARTS[what].__get__(self), _BACK_S, f"there is a {what}", pause_s=0.1)
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                victim = self._chance.choice(found)
                self._tell(what, victim.pid)
                victim.kill()
        self.kills[what] = self.kills.get(what, 0) + 1

    def _tell(self, what: str, pid: int) -> None:
        """A line of each kill, beside the worker's log."""
        with (self._folder / "kills.log").open("a") as file:
            file.write(f"{datetime.now(UTC):%H:%M:%S.%f} {what} {pid}\n")

    def kill_all_along(self, feed: Numbers | Changes, count: int, kills: int) -> None:
        """Kill part after part in turns, each turn in an order of its own; now and then in the midst of a batch.

        Each kill has its share of the records, so that none comes when all is done.
        """
        feed.released = 0
        for turn in range(kills):
            if not turn % len(_ALL):
                order = self._chance.sample(_ALL, len(_ALL))
            feed.released = count * (turn + 1) // kills
            if self._chance.random() < 0.7:
                self._await_rows(feed, self._chance.choice(self.formats))
            stays(lambda: True, self._chance.uniform(0.0, 4.0), "it is left alone")
            self._kill(order[turn % len(_ALL)])

    def _await_rows(self, feed: Numbers | Changes, kind: str) -> None:
        """Wait until a table has more than it has now, or all that there is."""
        before = self._newest(kind)

        def came() -> bool:
            now = self._newest(kind)
            return now != before or now >= feed.newest()

        eventually(came, _BACK_S, f"rows come to {kind}", pause_s=0.2)

    def _newest(self, kind: str) -> int:
        """How many rows a table has, or its last change. Errors: RuntimeError if the worker has ended by itself."""
        process = self.worker.process
        if process is not None and (code := process.poll()) is not None:
            raise RuntimeError(f"the worker ended with {code}\n{self.worker.log_text()[-4000:]}")
        if not self._merges:
            return count_query_rows(kind, self._folder, "t")
        table = self.read(kind)
        return int(pc.max(table["number"]).as_py()) if table.num_rows else 0

    def read(self, kind: str) -> pa.Table:
        return read_query_table(kind, self._folder, "t")

    def await_all(self, is_done: Callable[[pa.Table], bool], within_s: float) -> None:
        """Wait until each table is as it is to be; fails with what it is, and the log."""
        for kind in self.formats:

            def seen(kind: str = kind) -> bool:
                table = self.read(kind)
                assert is_done(table), f"{kind}: {table.num_rows} rows; {self.worker.log_text()[-3000:]}"
                return True

            eventually(seen, within_s, f"{kind} is complete", pause_s=1.0)

    def _slots(self) -> list[psutil.Process]:
        with self.worker.client() as client:
            pids = [slot["pid"] for slot in client.slots() if slot["attached"] and slot["pid"] != self.worker.pid]
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]

    def _executors(self) -> list[psutil.Process]:
        return self._cluster.executors()

    def _readers(self) -> list[psutil.Process]:
        """Python processes in which executors read topics: children of their daemons that are no slots."""
        slots = {each.pid for each in self._slots()}
        found = []
        for executor in self._cluster.executors():
            for daemon in _pythons(executor):
                found += [each for each in _pythons(daemon) if each.pid not in slots]
        return found

    def _planners(self) -> list[psutil.Process]:
        """The Python processes beside the driver's JVM that plan batches."""
        return [each for each in self.worker.descendants() if _says(each, "streaming_source_runner", "preload")]


PARTS: Mapping[str, Callable[[QueryRun], list[psutil.Process]]] = {
    "slot": QueryRun._slots,
    "executor": QueryRun._executors,
    "reader": QueryRun._readers,
    "planner": QueryRun._planners,
}

_ALL = ("worker", "broker", *PARTS)


def _pythons(process: psutil.Process) -> list[psutil.Process]:
    return named(below(process, deep=False), "python")


def _says(process: psutil.Process, *words: str) -> bool:
    return any(word in " ".join(command(process)) for word in words)


class Changes:
    """Produces changes of rows by key, every ninth a tombstone, at a rate; knows what the table must be then."""

    def __init__(self, bootstrap: str, topic: str, count: int, rate: int, seed: int) -> None:
        self._topic, self._count, self._rate = topic, count, rate
        self._chance = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                # All of a run: a broker may be away for longer than the usual 100,000 last
                "queue.buffering.max.messages": 2_000_000,
                "message.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        self.produced = 0
        self.released = count
        """Not more than these are produced, until there are more."""
        self.last: dict[int, int | None] = {}
        """The number of the last change of each key; None for a tombstone."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-changes")

    def _run(self) -> None:
        while self.produced < self._count and not self._stop.wait(0.1):
            for _ in range(min(self._rate // 10, self.released - self.produced)):
                key, number = self._chance.randrange(2_000), self.produced
                value = None if number % 9 == 8 else json.dumps({"id": key, "number": number})
                self._producer.produce(self._topic, value, str(key), partition=key % 2)
                self.last[key] = None if value is None else number
                self.produced += 1
            self._producer.poll(0)

    @property
    def is_produced(self) -> bool:
        return self.produced >= self._count

    def newest(self) -> int:
        """The number of the last released change that leaves a row."""
        last = self.released - 1
        return last - 1 if last % 9 == 8 else last

    def rows(self) -> dict[int, int]:
        """What the table is after all of them: key and number of each row."""
        return {key: number for key, number in self.last.items() if number is not None}

    def __enter__(self) -> Changes:
        self._thread.start()
        return self

    def await_end(self, within_s: float) -> None:
        self.released = self._count
        eventually(lambda: self.is_produced, within_s, "all are produced", pause_s=0.2)
        eventually(lambda: self._producer.flush(1) == 0, within_s, "all are acknowledged")

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._producer.purge()
