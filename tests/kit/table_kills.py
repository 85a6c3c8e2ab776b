"""Records stream into tables, appended and merged, through one worker; slots, executor, itself and the broker die."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow.compute as pc
from confluent_kafka import Producer

from kconnect.java.devbroker import DevBroker
from kit.spark_cluster import SparkCluster
from kit.standalone import Standalone
from kit.tables import FORMATS, read_table, table_settings
from kit.waiting import eventually

__all__ = ["UPSERTS", "Numbers", "TableRun"]

_PARTITIONS = 2
# A worker or an executor and its slots, beside all else that this machine does
_BACK_S = 240.0
# Even, so that all changes of a name are in one partition, in their order
_NAMES = 98
UPSERTS = {f"{kind}-upsert": kind for kind in ("delta", "iceberg")}
"""Tables that keep the last record of each name."""
_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class Numbers:
    """Produces so many numbered records at a rate, each acknowledged, whatever happens to the broker."""

    def __init__(self, bootstrap: str, topic: str, count: int, rate: int) -> None:
        self._topic, self._count, self._rate = topic, count, rate
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
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-numbers")

    def _run(self) -> None:
        began = time.monotonic()
        while self.produced < self._count and not self._stop.wait(0.01):
            due = min(self._count, self.released, int((time.monotonic() - began) * self._rate))
            for number in range(self.produced, due):
                value = json.dumps({"id": number, "name": f"name {number % _NAMES}", "price": number / 4})
                self._producer.produce(self._topic, value, partition=number % _PARTITIONS)
            self.produced = due
            self._producer.poll(0)

    def __enter__(self) -> Numbers:
        self._thread.start()
        return self

    def newest(self) -> int:
        """How many rows a table has that has all that is released."""
        return self.released

    def await_end(self, within_s: float) -> None:
        self.released = self._count
        eventually(lambda: self.produced >= self._count, within_s, "all are produced", pause_s=0.2)
        eventually(lambda: self._producer.flush(1) == 0, within_s, "all are acknowledged")

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._producer.purge()


class TableRun:
    """A worker with a TableSink for each format; on a cluster of Spark also one for each that can upsert.

    A context manager.
    """

    def __init__(
        self, folder: Path, broker: DevBroker, topic: str, seed: int, cluster: SparkCluster | None = None
    ) -> None:
        self.broker, self._chance, self._cluster = broker, random.Random(seed), cluster
        self.settings: dict[str, dict[str, str]] = {}
        connectors = {}
        for kind in FORMATS if cluster is None else (*FORMATS, *UPSERTS):
            name = f"{topic}-{kind}"
            place = folder / kind
            place.mkdir()
            self.settings[kind] = table_settings(UPSERTS.get(kind, kind), place, name)
            if kind in UPSERTS:
                self.settings[kind] |= {"write.mode": "upsert", "merge.keys": "name", "flush.ms": "700"}
            connectors[name] = {
                "connector.class": "TableSink",
                "tasks.max": str(_PARTITIONS),
                "topics": topic,
                "flush.ms": "100",
                **{key: value for key, value in self.settings[kind].items() if key != "name"},
            }
        settings = {**_JSON, "kconnect.slots": "2"}
        if cluster is not None:
            settings |= {"spark.master": cluster.url, "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
        self.worker = Standalone(folder, broker.bootstrap, connectors, settings)
        self.kills: dict[str, int] = {}

    def __enter__(self) -> TableRun:
        self.worker.start(60.0 if self._cluster is None else _BACK_S)
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.__exit__(None, None, None)

    def kill(self, what: str) -> None:
        """SIGKILL to a slot or an executor that chance picks, or to the worker or the broker, which start again."""
        self.kills[what] = self.kills.get(what, 0) + 1
        if what == "worker":
            self.worker.kill()
            self.worker.start(_BACK_S, running=False)
        elif what == "broker":
            self.broker.kill()
            self.broker.start()
        else:
            found = eventually(lambda: self._parts(what), _BACK_S, f"there is a {what}")
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                self._chance.choice(found).kill()

    def _parts(self, what: str) -> list[psutil.Process]:
        if self._cluster is None:
            return self.worker.slots()
        if what == "executor":
            return self._cluster.executors()
        with self.worker.client() as client:
            pids = [slot["pid"] for slot in client.slots() if slot["attached"] and slot["pid"] != self.worker.pid]
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]

    def rows(self, kind: str) -> int:
        return read_table(self.settings[kind]).num_rows

    def await_rows(self, least: int, within_s: float) -> None:
        """Wait until each table has so many rows."""
        for kind in FORMATS:
            eventually(lambda kind=kind: self._has(kind, least), within_s, f"{kind} has {least} rows", pause_s=0.3)

    def _has(self, kind: str, least: int) -> bool:
        rows = self.rows(kind)
        assert rows >= least, f"{kind} has {rows} rows; {self.worker.log_text()[-3000:]}"
        return True

    def await_last_changes(self, count: int, within_s: float) -> None:
        """Wait until each table of upserts has the last record of each name, and nothing else."""
        wanted = sorted(range(count - _NAMES, count))
        for kind in UPSERTS:

            def is_there(kind: str = kind) -> bool:
                found = sorted(row["id"] for row in read_table(self.settings[kind]).to_pylist())
                assert found == wanted, f"{kind}: {len(found)} rows, {found[:3]}..{found[-3:]}"
                return True

            eventually(is_there, within_s, f"{kind} has the last changes", pause_s=0.3)

    def assert_each_once(self, count: int) -> None:
        """Each record is in each table once. Errors: AssertionError that says what is missing or doubled."""
        for kind in FORMATS:
            ids = read_table(self.settings[kind]).column("id")
            unique = pc.count_distinct(ids).as_py()
            assert (len(ids), unique) == (count, count), (
                f"{kind}: {len(ids)} rows, {unique} different records of {count}\n{self.worker.log_text()[-6000:]}"
            )
            assert (pc.min(ids).as_py(), pc.max(ids).as_py()) == (0, count - 1)
