"""TableSink on a real broker: how soon a row is readable, the group behind the table, offsets moved with no worker."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kconnect.builtin.connectors.tables.open_table import open_table
from kconnect.builtin.connectors.tables.table_config import TableConfig
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TargetState
from kconnect.model import TopicPartition as At
from kit.direct_commands import DirectCommands
from kit.pace import now
from kit.pipeline_host import PipelineHost
from kit.tables import read_table, table_settings
from kit.topics import topic_for
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

JSON = {
    "value_converter": "org.apache.kafka.connect.json.JsonConverter",
    "value_converter_schemas_enable": "false",
}
_FLUSH_MS = 200


@pytest.fixture
def produce(broker: DevBroker, topic: str):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})

    def produce(*ids: int) -> None:
        for number in ids:
            producer.produce(topic, json.dumps({"id": number}))
        assert producer.flush(20) == 0

    return produce


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 2})
    try:
        return consumer.committed([TopicPartition(topic, 0)], timeout=20)[0].offset
    finally:
        consumer.close()


def test_a_row_is_readable_flush_ms_after_its_record_and_the_group_follows(
    broker: DevBroker, topic: str, tmp_path: Path, produce, request: pytest.FixtureRequest
) -> None:
    settings = table_settings("parquet", tmp_path, name=topic_for(request))
    folder, name = tmp_path / "table", settings["name"]

    def files() -> int:
        return sum(1 for _ in folder.glob("*.parquet"))

    with PipelineHost(broker.bootstrap) as host:
        more = {key: value for key, value in settings.items() if key != "name"}
        spec = host.start_sink(name, "TableSink", topics=topic, flush_ms=str(_FLUSH_MS), **more, **JSON)
        host.await_state(spec, RunState.RUNNING)
        produce(0)
        eventually(lambda: files() == 1, 20, "the first row is there")
        took, waited = [], []
        for number in range(1, 8):
            began, really = now(), time.monotonic()
            produce(number)
            eventually(lambda seen=number: files() > seen, 10, "the row is there", pause_s=0.002)
            took.append((now() - began) * 1000)
            waited.append((time.monotonic() - really) * 1000)
        assert statistics.median(took) <= _FLUSH_MS + 50, waited
        assert min(waited) >= _FLUSH_MS, "it waits for more"
        eventually(lambda: committed(broker.bootstrap, f"connect-{name}", topic) == 8, 10, "the group follows")
    assert sorted(read_table(settings).column("id").to_pylist()) == list(range(8))


@pytest.fixture
def cluster(broker: DevBroker, tmp_path: Path) -> Iterator[WrittenCluster]:
    with WrittenCluster(broker.bootstrap, tmp_path) as running:
        yield running


def test_offsets_moved_on_the_topics_without_a_worker_are_where_the_table_goes_on(
    broker: DevBroker, cluster: WrittenCluster, tmp_path: Path, topic: str, produce, request, monkeypatch, capsys
) -> None:
    settings = table_settings("delta", tmp_path, name=topic_for(request))
    name, at = settings["name"], At(topic, 0)
    config = {"connector.class": "TableSink", "topics": topic, "flush.ms": "0", **settings}
    produce(0, 1, 2, 3)
    given = {key.replace(".", "_"): value for key, value in config.items() if key not in ("name", "connector.class")}

    def run(rows: int) -> None:
        with PipelineHost(broker.bootstrap) as host:
            host.start_sink(name, "TableSink", **given, **JSON)
            eventually(lambda: read_table(settings).num_rows >= rows, 20, f"{rows} rows")

    run(4)
    assert committed(broker.bootstrap, f"connect-{name}", topic) == 4, "the end of the task commits"
    cluster.add_connector(name, config, target=TargetState.STOPPED, state=RunState.STOPPED)
    connect = DirectCommands(cluster, monkeypatch, capsys, tmp_path)
    place = {"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 2}}
    connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=json.dumps({"offsets": [place]}))
    table = open_table(TableConfig.parse(config), topic)
    assert table.offsets([at]) == {at: 2}
    run(6)
    connect("offsets", "reset", name, "--direct", "--yes")
    assert table.offsets([at]) == {}
    table.close()
    run(10)
    assert sorted(read_table(settings).column("id").to_pylist()) == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3]
