"""Debezium's PostgreSQL connector, unmodified, in a real worker: snapshot, changes, and what is killed meanwhile."""

from __future__ import annotations

import json
import signal

import psutil
import psycopg
import pytest

from kconnect.devbroker import DevBroker
from kit.debezium import debezium_plugin_path
from kit.postgres import logical_postgres
from kit.standalone import Standalone
from kit.topics import consume, create_topic, end_offset
from kit.waiting import eventually

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_ROWS = 400


def jvm_of_slots(worker: Standalone) -> psutil.Process:
    (found,) = (child for slot in worker.slots() for child in slot.children() if "java" in child.name())
    return found


def last_by_key(bootstrap: str, topic: str) -> dict[int, str]:
    """What a reader that goes by keys has in the end."""
    found: dict[int, str] = {}
    for message in consume(bootstrap, topic, end_offset(bootstrap, topic)):
        key = json.loads(message.key() or b"{}")["id"]
        row = json.loads(message.value() or b"null")
        if row is None:
            found.pop(key, None)
        else:
            found[key] = row["name"]
    return found


@pytest.mark.timeout(240)
def test_debezium_streams_a_database_while_jvm_and_worker_are_killed(
    broker: DevBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = "shop.public.customers"
    create_topic(broker.bootstrap, topic)
    folder = tmp_path_factory.mktemp("dbz")
    with logical_postgres(tmp_path_factory.mktemp("pg")) as (uri, port), psycopg.connect(uri, autocommit=True) as db:
        db.execute("CREATE TABLE customers (id int PRIMARY KEY, name text)")
        db.execute(f"INSERT INTO customers SELECT n, 'name ' || n FROM generate_series(1, {_ROWS}) n")
        connector = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(port),
            "database.user": "postgres",
            "database.password": "unused",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "topic.prefix": "shop",
            "table.include.list": "public.customers",
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "errors.restart.backoff.ms": "200",
            **{f"{kind}.converter": _JSON for kind in ("key", "value")},
            **{f"{kind}.converter.schemas.enable": "false" for kind in ("key", "value")},
        }
        settings = {"plugin.path": str(debezium_plugin_path()), "kconnect.slots": "1", "spark.master": "local[1]"}
        with Standalone(folder, broker.bootstrap, {"shop": connector}, settings) as worker:
            worker.start()
            rows = {n: f"name {n}" for n in range(1, _ROWS + 1)}
            eventually(lambda: last_by_key(broker.bootstrap, topic) == rows, 60, "the snapshot is there")

            db.execute("UPDATE customers SET name = upper(name) WHERE id <= 100")
            jvm = jvm_of_slots(worker)
            jvm.send_signal(signal.SIGKILL)
            jvm.wait(10)
            db.execute("DELETE FROM customers WHERE id > 350")
            rows = {n: f"NAME {n}" if n <= 100 else f"name {n}" for n in range(1, 351)}
            eventually(lambda: last_by_key(broker.bootstrap, topic) == rows, 60, "the changes are there")

            worker.kill()
            db.execute("INSERT INTO customers VALUES (1000, 'while the worker was away')")
            worker.start()
            rows[1000] = "while the worker was away"
            eventually(lambda: last_by_key(broker.bootstrap, topic) == rows, 60, "it goes on from its offset")
            with worker.client() as client:
                offsets = client.connector_offsets("shop")
            assert offsets[0].partition == {"server": "shop"}
            assert "lsn" in (offsets[0].offset or {})
            worker.stop()
