"""Table to topic to table in one real worker: a slot killed and the database restarted on the way, each row once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState
from kit.distributed_worker import Distributed
from kit.postgres import Database, database
from kit.topics import committed_values
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(180)]

# Enough that the slot, killed behind 2,000 rows, and the database, behind 2,000 more, go in mid table
ROWS = 15_000
CONVERTER = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}


@pytest.fixture
def server() -> Iterator[Database]:
    with database() as running:
        with psycopg.connect(running.uri, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL, price numeric(10,2), "
                "at timestamptz(3) NOT NULL)"
            )
            connection.execute(
                "INSERT INTO orders (item, price, at) SELECT 'item ' || n, n % 1000 / 100.0, "
                f"timestamptz '2026-01-01' + n / 10 * interval '1 ms' FROM generate_series(1, {ROWS}) n"
            )
        yield running


def test_each_row_comes_once_although_its_slot_is_killed_and_its_database_restarts(
    broker: DevBroker, topic: str, server: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = {
        "name": "orders-source",
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": server.uri,
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "at",
        "incrementing.column.name": "id",
        "query": "SELECT * FROM orders",
        "topic.prefix": topic,
        "batch.max.rows": "100",
        "poll.interval.ms": "100",
        "connection.backoff.ms": "200",
        **CONVERTER,
    }
    sink = {
        "name": "orders-sink",
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": topic,
        "connection.url": server.uri,
        "table.name.format": "copy",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "retry.backoff.ms": "200",
        "max.retries": "100",
        **CONVERTER,
    }
    worker = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "200"}
    group = f"sql-{topic[-6:]}"
    with Distributed(tmp_path_factory.mktemp("sql-worker"), broker.bootstrap, group, worker).start() as running:
        with running.client() as client:
            client.put_connector_config("orders-source", source)
        running.await_task("orders-source", RunState.RUNNING)
        eventually(lambda: len(committed_values(broker.bootstrap, topic)) > 2_000, 30, "rows arrive")
        with running.client() as client:
            (pid,) = {s["pid"] for s in client.slots() if "orders-source" in {t["connector"] for t in s["tasks"]}}
        os.kill(pid, signal.SIGKILL)
        before = len(committed_values(broker.bootstrap, topic))
        assert before < ROWS, "it is killed in mid table"
        eventually(lambda: len(committed_values(broker.bootstrap, topic)) > before + 2_000, 60, "it goes on")
        server.stop()
        in_mid = len(committed_values(broker.bootstrap, topic))
        assert in_mid < ROWS, "it restarts in mid table"
        server.start()
        eventually(lambda: len(committed_values(broker.bootstrap, topic)) >= ROWS, 60, "all rows are there")
        ids = [json.loads(value)["payload"]["id"] for value in committed_values(broker.bootstrap, topic)]
        assert ids == list(range(1, ROWS + 1))

        with running.client() as client:
            client.put_connector_config("orders-sink", sink)
            (offset,) = client.connector_offsets("orders-source")
        assert offset.partition == {"query": "query"}
        assert offset.offset is not None
        assert offset.offset["incrementing"] == ROWS
        differing = (
            "SELECT count(*) FROM orders FULL JOIN copy USING (id, item, price, at) "
            "WHERE orders.id IS NULL OR copy.id IS NULL"
        )

        def is_copied() -> bool:
            with psycopg.connect(server.uri) as connection:
                if connection.execute("SELECT to_regclass('copy')").fetchone() == (None,):
                    return False
                return connection.execute(differing).fetchone() == (0,)

        eventually(is_copied, 60, "the tables are equal")
        assert running.stop() == 143
