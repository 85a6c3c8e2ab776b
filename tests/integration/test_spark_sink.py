"""SparkSink in a real worker: topics into tables of Spark, through kills, stops, altered offsets and bad settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import ConnectorOffset
from kit.standalone import Standalone
from kit.topics import create_topic, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]

JSON = {
    "kconnect.slots": "1",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def send(broker: DevBroker, topic: str, ids: Iterable[int], **more: Any) -> None:
    produce_lines(broker.bootstrap, topic, [json.dumps({"id": number, "name": f"n{number}"} | more) for number in ids])


def ids_in(folder: Path) -> list[int]:
    """All of them, in order: a reader that knows nothing of us."""
    files = [file for file in folder.glob("*.parquet") if file.stat().st_size]
    return sorted(number for file in files for number in pq.read_table(file)["id"].to_pylist())


def sink(topic: str, folder: Path, **more: str) -> dict[str, str]:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    return {
        "connector.class": "SparkSink",
        "topics": topic,
        "spark.format": "parquet",
        "spark.options.path": str(folder),
        "spark.trigger.ms": "100",
        **settings,
    }


def test_a_query_goes_on_after_a_killed_worker_and_where_altered_offsets_say(
    broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    topic = f"{topic}-2"
    create_topic(broker.bootstrap, topic, partitions=2)
    send(broker, topic, range(1000))
    table = tmp_path / "table"
    worker = Standalone(tmp_path, broker.bootstrap, {"lake": sink(topic, table)}, JSON)
    with worker:
        worker.start()
        eventually(lambda: ids_in(table) == list(range(1000)), 60, "the first records are in the table")
        eventually(lambda: _lag(worker) == 0, 10, "the group follows")
        worker.kill()

        send(broker, topic, range(1000, 1500))
        worker.start()
        eventually(lambda: ids_in(table) == list(range(1500)), 60, "the others follow, and none twice")

        with worker.client() as client:
            client.stop_connector("lake")
            offsets = client.connector_offsets("lake")
            client.alter_connector_offsets(
                "lake",
                [
                    ConnectorOffset(item.partition, {"kafka_offset": item.offset["kafka_offset"] - 10})
                    for item in offsets
                    if item.offset
                ],
            )
            client.resume_connector("lake")
        eventually(lambda: len(ids_in(table)) == 1520, 30, "ten records of each partition are written again")
        assert worker.stop() == 143


def _lag(worker: Standalone) -> int | None:
    with worker.client() as client:
        lag = client.offsets_and_lag("lake")[1]
    return None if lag is None else lag.total
