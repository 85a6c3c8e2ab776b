"""Three sinks with tables of one shape through PgBouncer, while slots, pooler and sessions die: each row in its own."""

from __future__ import annotations

import json
import os
import random
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.distributed_worker import Distributed
from kit.pgbouncer import PgBouncer, pgbouncer
from kit.topics import create_topic, end_offset
from kit.waiting import eventually, stays

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_KILLS = ("slot", "sessions", "pooler")
_NAMES = "abc"


@pytest.fixture(scope="module")
def worker(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distributed]:
    """Of one slot, which the three sinks share."""
    folder = tmp_path_factory.mktemp("pooled")
    settings = {"offset.flush.interval.ms": "500", "kconnect.slots": "1"}
    with Distributed(folder / "worker", broker.bootstrap, f"pooled-{uuid.uuid4().hex[:6]}", settings) as made:
        yield made.start()
        assert made.stop() == 143


def rows(server: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def each_row_is_once_in_its_own_table(
    broker: DevBroker, worker: Distributed, server: str, each: int, seed: int
) -> list[str]:
    """Records of three topics, `each` in a topic; gives what was killed."""
    with (
        tempfile.TemporaryDirectory(prefix="kconnect-test-pooler-", dir="/tmp") as folder,
        pgbouncer(Path(folder), server) as pooler,
    ):
        return _through(pooler, broker, worker, server, each, seed)


def _through(pooler: PgBouncer, broker: DevBroker, worker: Distributed, server: str, each: int, seed: int) -> list[str]:
    chance, killed, prefix = random.Random(seed), [], f"pooled.{uuid.uuid4().hex[:8]}"
    topics = {name: f"{prefix}.{name}" for name in _NAMES}
    letters = f"{prefix}-letters"
    for topic in (*topics.values(), letters):
        create_topic(broker.bootstrap, topic)
    config = {
        "connector.class": "SqlSink",
        "connection.url": f"{pooler.url}&prepareThreshold=0",
        "table.name.format": '"${topic}"',
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "retry.backoff.ms": "100",
        "max.retries": "1000",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    with worker.client() as client:
        for topic in topics.values():
            rows(server, f'CREATE TABLE "{topic}" (id bigint PRIMARY KEY, src text)')
            client.create_connector(topic, {**config, "topics": topic})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 10**7})
    turns = max(2 * len(_KILLS), each // 15_000)
    for turn in range(turns):
        for name, topic in topics.items():
            for number in range(each * turn // turns, each * (turn + 1) // turns):
                producer.produce(topic, json.dumps({"id": number, "src": name}))
            producer.flush()
        stays(lambda: True, chance.uniform(0.5, 2), "the sinks write")
        kind = _KILLS[turn % len(_KILLS)]
        killed.append(kind)
        if kind == "slot":
            for slot in worker.slots():
                slot.kill()
        elif kind == "sessions":
            rows(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        else:
            pooler.kill()
            pooler.start()

    def all_there() -> bool:
        counts = {name: rows(server, f'SELECT count(*) FROM "{topic}"') for name, topic in topics.items()}
        assert counts == {name: [(each,)] for name in _NAMES}, f"{counts}; {worker.log_text()[-2000:]}"
        return True

    eventually(all_there, 120 + each / 500, "all rows are there", pause_s=0.5)
    for name, topic in topics.items():
        found = rows(server, f'SELECT src, count(*), count(DISTINCT id), min(id), max(id) FROM "{topic}" GROUP BY src')
        assert found == [(name, each, each, 0, each - 1)]
        worker.await_task(topic, RunState.RUNNING)
    assert end_offset(broker.bootstrap, letters) == 0
    with worker.client() as client:
        for topic in topics.values():
            client.delete_connector(topic)
    return killed


@pytest.mark.timeout(300)
def test_each_row_is_once_in_the_table_of_its_topic_although_slot_pooler_and_sessions_die(
    broker: DevBroker, worker: Distributed, postgres_uri: str
) -> None:
    each_row_is_once_in_its_own_table(broker, worker, postgres_uri, 6_000, seed=1)


if os.environ.get("KCONNECT_POOLED") == "long":  # `make pooled`: minutes for each seed

    @pytest.mark.timeout(1_800)
    @pytest.mark.parametrize("seed", [int(seed) for seed in os.environ.get("KCONNECT_POOLED_SEEDS", "1 2").split()])
    def test_a_million_rows_are_once_in_the_tables_of_their_topics(
        broker: DevBroker, worker: Distributed, postgres_uri: str, request: pytest.FixtureRequest, seed: int
    ) -> None:
        each = int(os.environ.get("KCONNECT_POOLED_RECORDS", "1000000")) // len(_NAMES)
        killed = each_row_is_once_in_its_own_table(broker, worker, postgres_uri, each, seed)
        message = f"seed {seed}: {each} rows once in each of {len(_NAMES)} tables; killed: {killed}"
        request.config.get_terminal_writer().line(message)
