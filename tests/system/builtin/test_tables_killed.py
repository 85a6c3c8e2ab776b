"""Each record is in the tables once, or the last of its key, although slots, worker and broker are killed meanwhile."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.spark_cluster import SparkCluster
from kit.table_kills import Numbers, TableRun
from kit.topics import create_topic, topic_for
from kit.waiting import stays

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_PARTS = ("slot", "slot", "executor", "worker", "broker")


@pytest.mark.timeout(240)
def test_a_killed_slot_and_a_killed_worker_neither_lose_nor_double_a_record(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count, topic = 20_000, topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=2)
    with TableRun(tmp_path, broker, topic, seed=1) as run, Numbers(broker.bootstrap, topic, count, 2_500) as numbers:
        run.await_rows(1_000, 60)
        run.kill("slot")
        run.await_rows(4_000, 60)
        run.kill("worker")
        run.await_rows(min(run.rows("parquet") + 500, count), 60)
        run.kill("slot")
        numbers.await_end(60)
        run.await_rows(count, 90)
        run.worker.stop()
        run.assert_each_once(count)


def a_million_records_are_there_once_after_kills_every_few_seconds(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest, seed: int
) -> None:
    count, chance = int(os.environ.get("KCONNECT_TABLES_RECORDS", "1000000")), random.Random(seed)
    topic, bootstrap = topic_for(request), own_broker.bootstrap
    create_topic(bootstrap, topic, partitions=2)
    with (
        SparkCluster(tmp_path / "cluster", workers=1, cores=2) as cluster,
        TableRun(tmp_path, own_broker, topic, seed, cluster) as run,
        Numbers(bootstrap, topic, count, int(os.environ.get("KCONNECT_TABLES_RATE", "8000"))) as numbers,
    ):
        # Each kill has its share of the records, so that none comes when all is done
        kills = max(2 * len(_PARTS), count // 40_000)
        for turn in range(kills):
            if not turn % len(_PARTS):
                order = chance.sample(_PARTS, len(_PARTS))
            numbers.released = count * (turn + 1) // kills
            stays(lambda: True, chance.uniform(2, 6), "the worker is left alone")
            run.kill(order[turn % len(_PARTS)])
        numbers.await_end(300)
        run.await_rows(count, 300)
        run.await_last_changes(count, 300)
        run.worker.stop()
        run.assert_each_once(count)
    message = f"seed {seed}: {count} records once in each table; killed: {run.kills}"
    request.config.get_terminal_writer().line(message)


if os.environ.get("KCONNECT_TABLES") == "long":  # `make tables`: minutes for each seed
    test_a_million = pytest.mark.timeout(1_800)(
        pytest.mark.parametrize(
            "seed", [int(seed) for seed in os.environ.get("KCONNECT_TABLES_SEEDS", "1 2 3").split()]
        )(a_million_records_are_there_once_after_kills_every_few_seconds)
    )
