"""The source that docs/write-a-connector.md shows; test_pages runs it."""

from __future__ import annotations

from typing import Any

from kconnect.api import (
    ClientType,
    ConnectorClientConfigRequest,
    ConnectorType,
    ConsumerRecord,
    ProducerRecord,
    SinkRecord,
)
from kconnect.builtin.connectors.file_sink import FileStreamSinkConnector
from kconnect.model import TargetState
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.rest.extensions import ClusterState
from kit.documents import blocks_of
from kit.memory_herder import MemoryHerder
from kit.places import ROOT


def test_the_whole_source_is_shorter_than_forty_lines() -> None:
    guide = next(block.text for block in blocks_of(ROOT / "docs/write-a-connector.md") if block.language == "python")
    code = [line for line in guide.splitlines() if line.strip() and not line.startswith("#")]
    assert 20 < len(code) < 40


def test_the_transformation_with_a_metric_works() -> None:
    names = _shown("counting.py")
    registry, counting = PluginMetricsRegistry(), names["CountNulls"]()
    counting.with_plugin_metrics(registry.of_plugin(transformation="count"))
    for value in ("a", None):
        assert counting.apply(SinkRecord("t", 0, None, None, None, value, 7)).value == value
    assert [(value.name, value.value) for value in registry.values()] == [("nulls-total", 1)]


def test_the_plugins_of_a_worker_that_are_shown_work() -> None:
    names = _shown("worker_rules.py")
    for given, refused in (({"acks": "1"}, []), ({"bootstrap.servers": "b:1"}, ["bootstrap.servers"])):
        request = ConnectorClientConfigRequest(
            "c", ConnectorType.SINK, FileStreamSinkConnector, given, ClientType.CONSUMER
        )
        assert [value.name for value in names["NoOtherBrokers"]().validate(request) if value.error_messages] == refused
    herder = MemoryHerder()
    herder.put_connector("c", {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}, replace=False)
    paused = names["Paused"]()
    paused.cluster = ClusterState(herder)
    assert paused.paused(None).body == []
    herder.set_target_state("c", TargetState.PAUSED)
    assert paused.paused(None).body == ["c"]


def test_the_interceptors_that_are_shown_work() -> None:
    names = _shown("tracing.py")
    stamped = names["SentAt"]().on_send(ProducerRecord("t", None, None, b"v"))
    assert [name for name, _ in stamped.headers] == ["sent-at"]
    records = [ConsumerRecord("t", 0, offset, None, value) for offset, value in enumerate((b"", b"v", None))]
    assert [record.offset for record in names["WithoutEmpty"]().on_consume(records)] == [1]


def _shown(file: str) -> dict[str, Any]:
    """What the block of this file defines."""
    (shown,) = (block.text for block in blocks_of(ROOT / "docs/write-a-connector.md") if f"# {file}" in block.text)
    names: dict[str, Any] = {}
    exec(shown, names)  # our own page
    return names
