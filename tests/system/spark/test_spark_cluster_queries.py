"""Queries on a real Spark standalone cluster: they read, write and send on its executors, and go on when these die."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.source_kills import assert_each_once, ids_in, write_rows
from kit.spark_cluster import SparkCluster
from kit.standalone import Standalone
from kit.topics import committed_values, create_topic, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1200)]

_START_S = 450


def queries_run_on_executors_and_go_on_when_one_is_killed(broker: DevBroker, topic: str, tmp_path: Path) -> None:
    into, out = f"{topic}-in", f"{topic}-out"
    for name in (into, out):
        create_topic(broker.bootstrap, name)
    (tmp_path / "in").mkdir()
    query = {"spark.trigger.ms": "100", "spark.format": "parquet"}
    lake = {"connector.class": "SparkSink", "topics": into, "spark.options.path": str(tmp_path / "table"), **query}
    files = {"connector.class": "SparkSource", "topic": out, "spark.options.path": str(tmp_path / "in"), **query}
    files |= {"spark.schema": "id bigint", "delivery.guarantee": "exactly_once"}
    with SparkCluster(tmp_path / "cluster", workers=2) as cluster:
        settings = {
            **cluster.settings(spark_executor_cores="1", kconnect_query_cores="1"),
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        with Standalone(tmp_path, broker.bootstrap, {"lake": lake, "files": files}, settings) as worker:
            worker.start(_START_S)
            count = 0
            for victim in (None, 0, 1):
                if victim is not None:
                    executors = eventually(lambda: _two(cluster), _START_S, "two executors")
                    executors[victim].kill()
                produce_lines(broker.bootstrap, into, [f'{{"id": {n}}}' for n in range(count, count + 1000)])
                write_rows(tmp_path / "in", count, 1000)
                count += 1000
                wanted = set(range(count))
                eventually(lambda wanted=wanted: set(ids_in(tmp_path / "table")) == wanted, _START_S, "written")
                eventually(
                    lambda count=count: len(committed_values(broker.bootstrap, out)) >= count, _START_S, "all are sent"
                )
                assert_each_once(broker, out, count)
            for name in ("lake", "files"):
                worker.await_task(name, RunState.RUNNING, _START_S)
            with worker.client() as client:
                slots = client.slots()
            assert [slot["slot"] for slot in slots] == [0, None], "the other core is for queries"
            assert worker.stop() == 143


def _two(cluster: SparkCluster) -> list[object]:
    found = cluster.executors()
    assert len(found) == 2, found
    return found


if os.environ.get("KCONNECT_QUERIES") == "long":  # `make queries`: a cluster and its executors take their time
    test_queries_run_on_executors = queries_run_on_executors_and_go_on_when_one_is_killed
