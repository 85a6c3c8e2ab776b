"""Flows of our connectors on one real worker, whose slot is killed (-9) on the way, and databases and servers with it.

Each test has connectors of its own; what it leaves on the worker fails it.
"""

from __future__ import annotations

import json
import shlex
import sqlite3
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from kconnect.java.devbroker import DevBroker
from kconnect.model import ConnectorOffset, RunState
from kit.distributed_worker import Distributed
from kit.pace import ample_s
from kit.places import KIT
from kit.postgres import Database, database
from kit.s3 import S3Server, s3_server
from kit.shop_service import Shop
from kit.topics import committed_values, create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.java, pytest.mark.timeout(240)]

COUNTED, TAPPED = 3_000, 1_500
OBJECTS, OBJECT_ROWS = 30, 2_000
# Enough that the slot, killed behind 2,000 rows, and the database, behind 2,000 more, go in mid table
ROWS = 15_000
INSERTED = 20_000
FUNCTIONS = """
import time

def count(offset, upto: int):
    for number in range(-1 if offset is None else offset, upto - 1):
        time.sleep(0.001)
        yield number + 1, number + 1

def keep(record, file):
    with open(file, "a") as kept:
        kept.write(f"{record.value}\\n")
"""
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


@pytest.fixture(scope="module")
def worker(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distributed]:
    """One worker with exactly-once support and one slot, for all tests."""
    folder = tmp_path_factory.mktemp("flows")
    (folder / "plugins").mkdir()
    (folder / "plugins" / "killed_functions.py").write_text(FUNCTIONS)
    settings = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "300", "kconnect.slots": "1"}
    settings["plugin.path"] = str(folder / "plugins")
    with Distributed(folder / "worker", broker.bootstrap, f"flows-{uuid.uuid4().hex[:6]}", settings) as made:
        yield made.start()
        assert made.stop() == 143


@pytest.fixture(autouse=True)
def _worker_is_left_clean(worker: Distributed) -> Iterator[None]:
    yield
    worker.assert_no_connectors()


def kill_slots(worker: Distributed) -> None:
    for slot in worker.slots():
        slot.kill()


def test_functions_and_a_tap_go_on_behind_what_was_committed(
    broker: DevBroker, worker: Distributed, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, f"{topic}.numbers")
    kept = tmp_path / "kept.txt"
    source = {"connector.class": "PythonSource", "function": "killed_functions:count", "topic": topic, **JSON}
    sink = {"connector.class": "PythonSink", "function": "killed_functions:keep", "topics": topic, **JSON}
    program = KIT / "taps/numbers_tap.py"
    tap = {"connector.class": "SingerSource", "singer.command": shlex.join([sys.executable, str(program)]), **JSON}
    gate = tmp_path / "gate"  # so that it is not through before it is killed
    paced = {"upto": TAPPED, "pace_s": 0.002, "gate": str(gate), "gate_at": TAPPED // 2}
    tap |= {"singer.config": json.dumps(paced), "topic.prefix": f"{topic}."}
    with worker.client() as client:
        client.create_connector("count", {**source, "function.args.upto": str(COUNTED)})
        client.create_connector("keep", {**sink, "function.args.file": str(kept)})
        client.create_connector("tap", {**tap, "key.converter": JSON["value.converter"]})

    def tapped() -> list[int]:
        return [json.loads(value)["n"] for value in committed_values(broker.bootstrap, f"{topic}.numbers")]

    eventually(lambda: kept.exists() and len(tapped()) >= 300, 60, f"all go; {worker.log_text()[-3000:]}")
    taps = worker.running(str(program))
    assert taps
    kill_slots(worker)
    worker.assert_gone(taps, 10)
    gate.touch()
    counted = [str(number).encode() for number in range(COUNTED)]
    eventually(lambda: len(committed_values(broker.bootstrap, topic)) >= COUNTED, 60, worker.log_text()[-3000:])
    assert committed_values(broker.bootstrap, topic) == counted, "each once: it has offsets"
    eventually(lambda: len(set(tapped())) > TAPPED, 60, worker.log_text()[-3000:])
    assert list(dict.fromkeys(tapped())) == list(range(TAPPED + 1)), "at least once, in order"
    eventually(lambda: {int(line) for line in kept.read_text().split()} == set(range(COUNTED)), 30, "all are kept")
    with worker.client() as client:
        for name in ("count", "keep", "tap"):
            client.delete_connector(name)


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[S3Server]:
    """A server of the test's own, as it is killed."""
    with s3_server(tmp_path / "s3") as made:
        yield made


def written(objects: S3Server) -> Counter[int]:
    """How often each row is in the sink's objects."""
    found: Counter[int] = Counter()
    for key in objects.keys("rows-out"):
        if not key.endswith(".jsonl"):
            continue  # S3Proxy lists what is being written, too
        found.update(json.loads(line)["n"] for line in objects.get("rows-out", key).splitlines())
    return found


def test_each_row_is_in_the_topic_and_in_the_objects_once(
    broker: DevBroker, objects: S3Server, worker: Distributed, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    objects.make_bucket("rows-in")
    objects.make_bucket("rows-out")
    numbers = iter(range(OBJECTS * OBJECT_ROWS))

    def put(numbered: range) -> None:
        for number in numbered:
            lines = [json.dumps({"n": next(numbers), "pad": "x" * 60}) for _ in range(OBJECT_ROWS)]
            if number == 3:
                lines.insert(OBJECT_ROWS // 2, "this is no JSON")
            objects.put("rows-in", f"rows/{number:03}.jsonl", "\n".join(lines).encode())

    put(range(OBJECTS // 3))
    source = {
        "connector.class": "ObjectSource",
        "object.url": "s3://rows-in/rows",
        "topic": topic,
        "object.after": "move",
    }
    source |= {"object.move.url": "s3://rows-in/done", "poll.interval.ms": "200", **JSON, **objects.settings}
    letters = f"{topic}-letters"
    source |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    source |= {"errors.deadletterqueue.topic.replication.factor": "1"}
    sink = {"connector.class": "ObjectSink", "object.url": "s3://rows-out", "topics": topic, **JSON, **objects.settings}
    sink |= {"flush.rows": "3000", "flush.ms": "500", "consumer.override.isolation.level": "read_committed"}
    with worker.client() as client:
        client.create_connector("objects-in", source)
        client.create_connector("objects-out", sink)
    eventually(lambda: len(objects.keys("rows-out")) >= 3, 60, f"the sink writes; {worker.log_text()[-3000:]}")
    kill_slots(worker)
    before = len(objects.keys("rows-out"))
    put(range(OBJECTS // 3, OBJECTS))  # not earlier: else all might be written before
    eventually(lambda: len(objects.keys("rows-out")) > before, 60, f"it goes on; {worker.log_text()[-3000:]}")
    reported = len(worker.log_text())
    objects.kill()

    def is_noticed() -> bool:
        lines = worker.log_text()[reported:]
        return "is being retried" in lines or "Cannot " in lines

    eventually(is_noticed, 30, "they notice")
    objects.start()
    wanted = Counter(range(OBJECTS * OBJECT_ROWS))
    eventually(lambda: sum(written(objects).values()) >= len(wanted), 90, worker.log_text()[-3000:], pause_s=0.5)
    assert written(objects) == wanted
    assert Counter(json.loads(value)["n"] for value in committed_values(broker.bootstrap, topic)) == wanted
    [letter] = committed_values(broker.bootstrap, letters)
    assert json.loads(letter)["payload"] == "this is no JSON"

    def all_moved() -> bool:
        left = objects.keys("rows-in", "rows/")
        # As above: and what was written when it was killed stays
        done = [key for key in objects.keys("rows-in", "done/") if key.endswith(".jsonl")]
        assert not left, f"not moved: {left}; {worker.log_text()[-3000:]}"
        assert len(done) == OBJECTS, f"moved: {done}; {worker.log_text()[-3000:]}"
        return True

    eventually(all_moved, 30, "all are moved")
    assert "test-secret-of-s3" not in worker.log_text()
    with worker.client() as client:
        client.delete_connector("objects-in")
        client.delete_connector("objects-out")


@pytest.fixture
def shop_database() -> Iterator[Database]:
    with database() as running:
        with psycopg.connect(running.uri, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL, price numeric(10,2), "
                "at timestamptz(3) NOT NULL)"
            )
        yield running


def insert_orders(database: Database, first: int, last: int) -> None:
    with psycopg.connect(database.uri, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO orders (item, price, at) SELECT 'item ' || n, n % 1000 / 100.0, "
            f"timestamptz '2026-01-01' + n / 10 * interval '1 ms' FROM generate_series({first}, {last}) n"
        )


def test_each_row_comes_once_although_its_slot_is_killed_and_its_database_restarts(
    broker: DevBroker, topic: str, worker: Distributed, shop_database: Database
) -> None:
    source = {
        "name": "orders-source",
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": shop_database.uri,
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "at",
        "incrementing.column.name": "id",
        "query": "SELECT * FROM orders",
        "topic.prefix": topic,
        "batch.max.rows": "100",
        "poll.interval.ms": "100",
        "connection.backoff.ms": "200",
        "value.converter": JSON["value.converter"],
    }
    sink = {
        "name": "orders-sink",
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": topic,
        "connection.url": shop_database.uri,
        "table.name.format": "copy",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "retry.backoff.ms": "200",
        "max.retries": "100",
        "value.converter": JSON["value.converter"],
    }
    # A third is there before each of the two breaks, and one comes behind them: none is the last, however fast it reads
    third = ROWS // 3
    insert_orders(shop_database, 1, third)
    with worker.client() as client:
        client.put_connector_config("orders-source", source)
    worker.await_task("orders-source", RunState.RUNNING)
    eventually(lambda: len(committed_values(broker.bootstrap, topic)) > 2_000, 30, "rows arrive")
    kill_slots(worker)
    before = len(committed_values(broker.bootstrap, topic))
    insert_orders(shop_database, third + 1, 2 * third)
    eventually(lambda: len(committed_values(broker.bootstrap, topic)) > before + 2_000, 60, "it goes on")
    shop_database.stop()
    shop_database.start()
    insert_orders(shop_database, 2 * third + 1, ROWS)
    eventually(lambda: len(committed_values(broker.bootstrap, topic)) >= ROWS, 60, "all rows are there")
    ids = [json.loads(value)["payload"]["id"] for value in committed_values(broker.bootstrap, topic)]
    assert ids == list(range(1, ROWS + 1))

    with worker.client() as client:
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
        with psycopg.connect(shop_database.uri) as connection:
            if connection.execute("SELECT to_regclass('copy')").fetchone() == (None,):
                return False
            return connection.execute(differing).fetchone() == (0,)

    eventually(is_copied, 60, "the tables are equal")
    with worker.client() as client:
        for name in ("orders-source", "orders-sink"):
            client.delete_connector(name)


def test_plain_inserts_are_there_once_although_slot_and_database_are_killed_and_offsets_can_be_altered(
    broker: DevBroker, topic: str, worker: Distributed, shop_database: Database
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for number in range(INSERTED):
        producer.produce(topic, json.dumps({"id": number}))
        if not number % 1000:
            producer.flush()
    producer.flush()
    config = {
        "name": "inserts",
        "connector.class": "SqlSink",
        "topics": topic,
        "connection.url": shop_database.uri,
        "table.name.format": "inserted",
        "delivery.guarantee": "exactly_once",
        "offsets.table": "public.own_offsets",
        "auto.create": "true",
        "retry.backoff.ms": "200",
        "max.retries": "100",
        "consumer.override.max.poll.records": "100",
        **JSON,
    }

    def found() -> tuple[int, int]:
        with psycopg.connect(shop_database.uri) as connection:
            if connection.execute("SELECT to_regclass('inserted')").fetchone() == (None,):
                return 0, 0
            return connection.execute("SELECT count(*), count(DISTINCT id) FROM inserted").fetchone() or (0, 0)

    def offsets_of_table() -> list[tuple[Any, ...]]:
        with psycopg.connect(shop_database.uri) as connection:
            return connection.execute("SELECT * FROM own_offsets").fetchall()

    with worker.client() as client:
        client.put_connector_config("inserts", config)
        eventually(lambda: found()[0] >= 2_000, 60, "rows arrive", pause_s=0.02)
        kill_slots(worker)
        before = found()[0]
        eventually(lambda: found()[0] >= before + 2_000, 60, "it goes on", pause_s=0.02)
        shop_database.kill()
        shop_database.start()
        eventually(lambda: found()[1] == INSERTED, 60, "all rows are there")
        assert found() == (INSERTED, INSERTED)
        assert offsets_of_table() == [("inserts", topic, 0, INSERTED)]
        client.stop_connector("inserts")
        eventually(lambda: not client.connector_status("inserts").tasks, 30, "it has stopped")
        place = ConnectorOffset({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": INSERTED})
        assert client.connector_offsets("inserts") == [place]
        client.alter_connector_offsets("inserts", [replace(place, offset={"kafka_offset": INSERTED - 5})])
        client.resume_connector("inserts")
        eventually(lambda: found() == (INSERTED + 5, INSERTED), 60, "the last five came again")
        client.stop_connector("inserts")
        eventually(lambda: not client.connector_status("inserts").tasks, 30, "it has stopped")
        client.reset_connector_offsets("inserts")
        assert offsets_of_table() == []
        client.delete_connector("inserts")


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as made:
        for version, (order, item) in enumerate([(7, "tea"), (8, "crème brûlée"), (9, "cake")], start=1):
            made.put(order, version, item)
        yield made


def rows(file: Path) -> list[tuple[int, int, str]]:
    connection = sqlite3.connect(file, timeout=ample_s(5))  # the sink may hold the lock
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE name = 'orders'").fetchall()
        return connection.execute("SELECT id, version, item FROM orders ORDER BY id").fetchall() if found else []
    finally:
        connection.close()


def test_what_a_service_tells_stands_in_a_table_as_it_is_now_and_a_killed_slot_goes_on_at_the_kept_cursor(
    worker: Distributed, shop: Shop, topic: str, tmp_path: Path
) -> None:
    source, sink, file = f"{topic}-in", f"{topic}-out", tmp_path / "shop.db"
    plain = {"key.converter": "JsonConverter", "key.converter.schemas.enable": "false", **JSON}
    connectors = {
        source: {
            "connector.class": "HttpJsonSource",
            "url": shop.url,
            "topic": topic,
            "items.pointer": "/orders",
            "key.field": "id",
            "cursor.field": "version",
            "cursor.param": "since",
            "poll.interval.ms": "200",
            **plain,
        },
        sink: {
            "connector.class": "SqlSink",
            "topics": topic,
            "connection.driver": "sqlite3",
            "connection.url": str(file),
            "table.name.format": "orders",
            "auto.create": "true",
            "insert.mode": "upsert",
            "pk.mode": "record_value",
            "pk.fields": "id",
            **plain,
        },
    }
    with worker.client() as client:
        for name, config in connectors.items():
            client.create_connector(name, config)
    expected = [(7, 1, "tea"), (8, 2, "crème brûlée"), (9, 3, "cake")]
    eventually(lambda: rows(file) == expected, 30, "the three orders are rows")
    shop.put(8, 4, "coffee")
    shop.put(10, 5, "milk")
    expected = [(7, 1, "tea"), (8, 4, "coffee"), (9, 3, "cake"), (10, 5, "milk")]
    eventually(lambda: rows(file) == expected, 30, "the changed order and the new one are there")
    eventually(lambda: shop.asked()[-1:] == [5], 30, "the source asks for what came after the last order")
    with worker.client() as client:
        eventually(
            lambda: (
                [(entry.partition, (entry.offset or {}).get("cursor")) for entry in client.connector_offsets(source)]
                == [({"url": shop.url}, 5)]
            ),
            30,
            "the cursor is committed",
        )
    before = len(shop.asked())
    kill_slots(worker)
    eventually(lambda: len(shop.asked()) > before + 1, 60, "the source asks again, from another slot")
    assert set(shop.asked()[before:]) == {5}
    shop.put(7, 6, "tea, no sugar")
    eventually(lambda: (7, 6, "tea, no sugar") in rows(file), 60, "the next change arrives")
    assert len(rows(file)) == 4
    for name in (source, sink):
        assert worker.await_task(name, RunState.RUNNING) == ""
    with worker.client() as client:
        for name in (source, sink):
            client.delete_connector(name)
