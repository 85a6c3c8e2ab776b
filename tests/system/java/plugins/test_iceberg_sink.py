"""Apache Iceberg's own sink, which looks behind the API: into the worker's file and at the consumer of its task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.distributed_worker import Distributed
from kit.group_offsets import sink_offsets
from kit.third_party import third_party_path
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark]

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_FIELDS = [{"field": "id", "type": "int64"}, {"field": "name", "type": "string", "optional": True}]


@pytest.mark.timeout(300)
def test_icebergs_sink_writes_each_row_once_though_its_slot_is_killed(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=3)
    create_topic(broker.bootstrap, f"{topic}-control")
    settings = {
        "plugin.path": str(third_party_path("iceberg-kafka-connect")),
        "kconnect.slots": "1",
        "spark.master": "local[1]",
    }
    with Distributed(tmp_path, broker.bootstrap, f"{topic}-workers", settings) as worker:
        worker.start()
        with worker.client() as client:
            client.create_connector("ice", _sink(topic, tmp_path))
        worker.await_task("ice", RunState.RUNNING, 60)
        _produce(broker, topic, range(300))
        eventually(lambda: _rows(tmp_path) == list(range(300)), 90, "the rows are committed", pause_s=0.5)
        _produce(broker, topic, range(300, 600))
        (slot,) = worker.slots()
        slot.kill()
        _produce(broker, topic, range(600, 900))
        eventually(lambda: _rows(tmp_path) == list(range(900)), 120, "each row is there once", pause_s=0.5)
        # Iceberg commits the offsets with its own producer, as the member of the group that the task is
        eventually(lambda: sum(sink_offsets(broker.bootstrap, "ice").values()) == 900, 30, "offsets are committed")
        assert "must set either bootstrap.servers" not in worker.log_text()
        worker.stop()


def _sink(topic: str, folder: Path) -> dict[str, str]:
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": topic,
        "value.converter": _JSON,
        "value.converter.schemas.enable": "true",
        "iceberg.tables": "db.ev",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog": "cat",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": str(folder / "wh"),
        "iceberg.control.topic": f"{topic}-control",
        "iceberg.control.commit.interval-ms": "2000",
        "iceberg.control.commit.timeout-ms": "2000",
        "iceberg.kafka.auto.offset.reset": "earliest",
        "consumer.override.auto.offset.reset": "earliest",
        "iceberg.kafka.session.timeout.ms": "6000",  # so long the broker believes in what was killed
        "consumer.override.session.timeout.ms": "6000",
    }


def _produce(broker: DevBroker, topic: str, ids: Sequence[int]) -> None:
    schema = {"type": "struct", "fields": _FIELDS, "optional": False}
    rows = [{"schema": schema, "payload": {"id": number, "name": f"name {number}"}} for number in ids]
    produce_lines(broker.bootstrap, topic, [json.dumps(row) for row in rows])


def _rows(folder: Path) -> list[int]:
    """The ids in the table, as pyiceberg reads it; none before its first commit."""
    metadata = folder / "wh" / "db" / "ev" / "metadata"
    hint = metadata / "version-hint.text"
    if not hint.is_file():
        return []
    table = StaticTable.from_metadata(str(metadata / f"v{hint.read_text().strip()}.metadata.json"))
    if table.current_snapshot() is None:
        return []
    ids: list[int] = table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    return sorted(ids)
