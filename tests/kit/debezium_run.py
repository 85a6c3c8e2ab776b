"""A database whose changes go through Debezium into a topic and on into a second database, while things die."""

from __future__ import annotations

import random
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.changed_rows import ChangedRows
from kit.debezium import debezium_plugin_path, jdbc_plugin_path, postgres_source
from kit.distributed_worker import Distributed
from kit.pace import ample_s
from kit.postgres import Database
from kit.processes import below, named
from kit.topics import create_topic, end_offset
from kit.waiting import eventually

__all__ = ["COPY", "DebeziumRun"]

COPY = "copy"
"""The second database."""
_RESTARTS = {"errors.restart.max": "1000", "errors.restart.backoff.ms": "200", "errors.restart.backoff.max.ms": "1000"}
_FLAT = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite-with-tombstone",
    "transforms.unwrap.add.fields": "op",
}


class DebeziumRun:
    """A worker with a source of the table `rows` and a sink into the second database. A context manager."""

    def __init__(self, folder: Path, broker: DevBroker, database: Database, port: int, seed: int) -> None:
        self.database, self._chance = database, random.Random(seed)
        self._port = port
        self._bootstrap = broker.bootstrap
        self.prefix = f"dbz{uuid.uuid4().hex[:8]}"
        self.topic = f"{self.prefix}.public.rows"
        create_topic(broker.bootstrap, self.topic)
        with psycopg.connect(database.uri, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {COPY}")
        settings = {
            "plugin.path": f"{debezium_plugin_path()},{jdbc_plugin_path()}",
            "kconnect.slots": "1",
            "spark.master": "local[1]",
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
        }
        self.worker = Distributed(folder, broker.bootstrap, self.prefix, settings)
        self.kills: dict[str, int] = {}

    def __enter__(self) -> DebeziumRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.__exit__(None, None, None)

    def start(self) -> None:
        """Start the worker and its connectors, and wait until the source follows the database."""
        self.worker.start()
        slot = {
            "slot.name": self.prefix,
            "publication.name": self.prefix,
            "publication.autocreate.mode": "filtered",
            "retriable.restart.connector.wait.ms": "500",
        }
        source = postgres_source(self._port, self.prefix, "public.rows", **_FLAT, **_RESTARTS, **slot)
        with self.worker.client() as client:
            client.create_connector("source", source)
            client.create_connector("sink", self._sink())
        for name in ("source", "sink"):
            self.worker.await_task(name, RunState.RUNNING, 60)
        eventually(self._follows, 60, "the replication slot is in use")
        eventually(self._has_offset, 60, "the snapshot is over")

    def is_monitored(self) -> bool:
        """Whether /metrics has what Debezium's users alert on."""
        labels = f'connector="source",task="0",plugin="postgres",context="streaming",name="{self.prefix}"'
        with urllib.request.urlopen(f"{self.worker.url}/metrics", timeout=ample_s(10)) as answer:
            return f"debezium_metrics_MilliSecondsBehindSource{{{labels}}} " in str(answer.read(), "utf-8")

    def _has_offset(self) -> bool:
        with self.worker.client() as client:
            return any(one.offset for one in client.connector_offsets("source"))

    def _sink(self) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            "topics": self.topic,
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._port}/{COPY}",
            "connection.username": "postgres",
            "connection.password": "unused",
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            # A deletion between two upserts is a transaction of its own, unless the last change of a key is enough
            "use.reduction.buffer": "true",
            "batch.size": "2000",
            "consumer.override.max.poll.records": "2000",
            "collection.name.format": "rows",
            **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
            **_RESTARTS,
        }

    def _follows(self) -> bool:
        with psycopg.connect(self.database.uri, autocommit=True) as db:
            return bool(db.execute("SELECT 1 FROM pg_replication_slots WHERE active").fetchone())

    def kill(self, what: str) -> None:
        """SIGKILL to the slot, its JVM, the worker or the database; the last two are started again."""
        self.kills[what] = self.kills.get(what, 0) + 1
        if what == "worker":
            self.worker.kill()
            self.worker.start(running=False)
        elif what == "database":
            self.database.kill()
            self.database.start()
        elif what == "jvm":
            _kill(eventually(self.jvms, 60, "the slot has a JVM")[0])
        else:
            _kill(eventually(self.worker.slots, 60, "the worker has a slot")[0])

    def written(self) -> int:
        """How many records are in the topic, tombstones among them."""
        return end_offset(self._bootstrap, self.topic)

    def await_flow(self, records: int) -> None:
        """Wait until so many more records are in the topic: what is killed then is killed in mid-stream."""
        wanted = self.written() + records
        eventually(lambda: self.written() >= wanted, 300, f"{records} more records are in the topic")

    def jvms(self) -> list[psutil.Process]:
        return [jvm for slot in self.worker.slots() for jvm in named(below(slot, deep=False), "java")]

    def await_equal(self, rows: ChangedRows, within_s: float) -> None:
        """Wait until both databases have the same rows."""

        def equal() -> bool:
            wanted = rows.rows()
            try:
                copied = rows.rows(COPY)
            except psycopg.errors.UndefinedTable as err:
                raise AssertionError("the sink has made no table yet") from err
            differing = set(wanted) ^ set(copied)
            assert not differing, (
                f"{len(wanted)} rows, {len(copied)} in the copy: {sorted(differing)[:4]}"
                f"\n{self.worker.log_text()[-3000:]}"
            )
            return True

        eventually(equal, within_s, "both databases are equal", pause_s=0.3)


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):  # it has just ended by itself
        process.kill()
