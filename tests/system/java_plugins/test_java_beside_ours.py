"""Java's connectors beside parts of ours in one worker: SQL, Avro, tables, offsets by command, moved records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.devbroker import DevBroker
from kconnect.devbroker.dev_registry import DevRegistry
from kconnect.model import RunState
from kit.cli import CliResult, cli_run
from kit.java_plugin_folder import java_plugin_folder
from kit.standalone import Standalone
from kit.tables import read_table, table_settings
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(180)]

_TRANSFORMS = "org.apache.kafka.connect.transforms"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[Standalone]:
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    settings = {
        "plugin.path": str(plugins),
        "plugin.discovery": "service_load",
        "kconnect.slots": "1",
        "spark.master": "local[1]",
    }
    with Standalone(tmp_path_factory.mktemp("worker"), broker.bootstrap, {}, settings) as made:
        made.start()
        yield made
        made.stop()


@pytest.fixture
def topic(broker: DevBroker, request: pytest.FixtureRequest) -> str:
    found = topic_for(request)
    create_topic(broker.bootstrap, found, partitions=2)
    return found


def create(worker: Standalone, name: str, config: dict[str, str]) -> None:
    with worker.client() as client:
        client.create_connector(name, config)
    worker.await_task(name, RunState.RUNNING)


def delete(worker: Standalone, *names: str) -> None:
    with worker.client() as client:
        for name in names:
            client.delete_connector(name)


def test_a_java_source_goes_through_our_sql_and_avro_into_a_table(
    worker: Standalone, registry: DevRegistry, topic: str, tmp_path: Path
) -> None:
    avro = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry.url,
    }
    source = {
        "connector.class": "kit.TestPlugins$Numbers",
        "topic": topic,
        "count": "300",
        **avro,
        "transforms": "hoist,sql",
        "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
        "transforms.hoist.field": "text",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT upper(text) AS text, length(text) AS size FROM records "
        "WHERE text NOT LIKE '%7'",
    }
    name = f"{topic}-table"
    table = table_settings("parquet", tmp_path, name)
    create(worker, f"{topic}-in", source)
    create(worker, name, {"connector.class": "TableSink", "topics": topic, "flush.ms": "200", **avro, **table})
    wanted = sorted((f"NUMBER {n}", len(f"number {n}")) for n in range(300) if n % 10 != 7)

    def rows() -> list[tuple[Any, Any]]:
        return sorted((row["text"], row["size"]) for row in read_table(table).to_pylist())

    def are_all_there() -> bool:
        assert rows() == wanted, f"{len(rows())} rows\n{worker.log_text()[-2000:]}"
        return True

    eventually(are_all_there, 40, "the table has all rows")
    delete(worker, f"{topic}-in", name)


@pytest.mark.parametrize("chain", ["java", "mixed"])
def test_a_java_sink_knows_where_a_record_came_from_whatever_topic_it_was_sent_to(
    worker: Standalone, broker: DevBroker, topic: str, tmp_path: Path, chain: str
) -> None:
    for partition in (0, 1):
        lines = [f"{partition}-{n}" for n in range(100)]
        produce_lines(broker.bootstrap, topic, lines, partition=partition)
    journal = tmp_path / "journal"
    steps = ["route", "cut"] if chain == "java" else ["route", "hoist", "sql", "text", "cut"]
    sink = {
        "connector.class": "kit.Faulty$Sink",
        "topics": topic,
        "journal": str(journal),
        "transforms": ",".join(steps),
        "transforms.route.type": f"{_TRANSFORMS}.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "elsewhere",
        "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
        "transforms.hoist.field": "text",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT text FROM records WHERE text NOT LIKE '%5'",
        "transforms.text.type": f"{_TRANSFORMS}.ExtractField$Value",
        "transforms.text.field": "text",
        # The topic changes once more, by the time
        "transforms.cut.type": f"{_TRANSFORMS}.TimestampRouter",
        "transforms.cut.topic.format": "${topic}-${timestamp}",
        "transforms.cut.timestamp.format": "'later'",
    }
    create(worker, f"{topic}-out", {key: text for key, text in sink.items() if is_of(steps, key)})
    kept = [n for n in range(100) if chain == "java" or n % 10 != 5]
    # Value; topic, partition and offset as they are now; and as they were
    wanted = [f"{part}-{n} elsewhere-later {part} {n} {topic} {part} {n}" for part in (0, 1) for n in kept]

    def are_all_there() -> bool:
        found = sorted(journal.read_text().splitlines()) if journal.exists() else []
        assert found == sorted(wanted), f"{found[:5]}"
        return True

    eventually(are_all_there, 40, "the sink has all records")
    delete(worker, f"{topic}-out")


def is_of(steps: list[str], key: str) -> bool:
    return not key.startswith("transforms.") or key.split(".")[1] in steps


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_offsets_are_altered_and_reset_by_command_if_the_java_connector_agrees(
    worker: Standalone, broker: DevBroker, topic: str, tmp_path: Path, home: Path, kind: str
) -> None:
    name, journal = f"{topic}-{kind}", tmp_path / "journal"
    if kind == "source":
        config = {"connector.class": "kit.Faulty$Source", "topic": topic}
        partition, good, bad = {"of": "numbers"}, {"next": 5_000}, {"next": -1}
        says = "Numbers begin at 0, not at -1"
    else:
        produce_lines(broker.bootstrap, topic, [f"line {n}" for n in range(10)], partition=0)
        config = {"connector.class": "kit.Faulty$Sink", "topics": topic, "journal": str(journal)}
        partition, good, bad = {"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 7}, {"kafka_offset": 1}
        says = "The first record belongs to the second"

    def connect(*args: str, expect: int = 0, stdin: str | None = None) -> CliResult:
        return cli_run("offsets", *args, "--url", worker.url, home=home, expect=expect, stdin=stdin)

    def offsets() -> list[Any]:
        with worker.client() as client:
            return [dict(one.offset or {}) for one in client.connector_offsets(name) if one.partition == partition]

    def altered(offset: dict[str, int], expect: int) -> CliResult:
        told = {"name": name, "offsets": [{"partition": partition, "offset": offset}]}
        return connect("alter", name, "-f", "-", "--yes", stdin=json.dumps(told), expect=expect)

    create(worker, name, config)
    eventually(lambda: bool(offsets() and max(offsets()[0].values()) >= 10), 40, "an offset is committed")
    with worker.client() as client:
        client.stop_connector(name)
        eventually(lambda: not client.connector_status(name).tasks, 20, "it has stopped")
    before = offsets()
    assert says in altered(bad, 1).stderr
    assert offsets() == before
    altered(good, 0)
    assert offsets() == [good]
    connect("reset", name, "--yes")
    assert not [found for found in offsets() if found]
    delete(worker, name)
