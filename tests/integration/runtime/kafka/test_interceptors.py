"""Interceptors written in Python, on the way of records to a real broker and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from kconnect.api import (
    ConsumerInterceptor,
    ConsumerRecord,
    Monitorable,
    OffsetAndMetadata,
    PluginMetrics,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    Stat,
)
from kconnect.java.devbroker import DevBroker
from kconnect.model import TopicPartition
from kconnect.runtime.metrics.plugin_values import PluginValue
from kit.pipeline_host import FILE_SOURCE, SINK, Behaviour, PipelineHost
from kit.topics import consume, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker


class Stamp(ProducerInterceptor, Monitorable):
    """Adds the id of its client to each record."""

    acknowledged: ClassVar[list[tuple[str, int]]] = []

    def configure(self, configs: Mapping[str, str]) -> None:
        self._client_id = configs["client.id"].encode()

    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        self._sent = metrics.add_sensor("sent")
        self._sent.add(metrics.metric_name("sent-total", "Records stamped."), Stat.COUNT)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self._sent.record()
        record.headers.append(("sent-by", self._client_id))
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        assert error is None
        self.acknowledged.append((metadata.topic, metadata.offset))


class Upper(ConsumerInterceptor):
    """Leaves out the line that is to be left out."""

    committed: ClassVar[dict[TopicPartition, OffsetAndMetadata]] = {}

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        kept = [record for record in records if record.value != b"secret"]
        return [replace(record, value=(record.value or b"").upper()) for record in kept]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.update(offsets)


def test_interceptors_see_and_change_records_on_both_ways(
    broker: DevBroker, topic: str, tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    Behaviour.reset()
    taken: list[Any] = []
    Behaviour.put = lambda task, records: taken.extend(record.value for record in records)
    file, name = tmp_path / "in.txt", topic_for(request)
    file.write_text("one\nsecret\ntwo\n")
    override = {"producer_override_interceptor_classes": f"{__name__}:Stamp"}
    with PipelineHost(broker.bootstrap, consumer_interceptor_classes=f"com.example.Java, {__name__}:Upper") as host:
        source = host.start_source(name, FILE_SOURCE, file=str(file), topic=topic, **override)
        host.start_sink(f"{name}-sink", SINK, topics=topic)
        eventually(lambda: len(taken) == 2, 20, "two records put")
        counted = host.host.counters()[source.id].plugins
        # The first commit may be of fewer: how many records are put before it is chance
        eventually(lambda: Upper.committed == {TopicPartition(topic, 0): (3, "")}, 10, "offsets committed")

    assert taken == ["ONE", "TWO"]
    tags = {"client-id": f"connector-producer-{name}-0", "config": "interceptor.classes", "class": "Stamp"}
    assert counted == (PluginValue("sent-total", "Records stamped.", tuple(tags.items()), 3),)
    assert Upper.committed == {TopicPartition(topic, 0): (3, "")}
    assert Stamp.acknowledged == [(topic, 0), (topic, 1), (topic, 2)]
    sent = [message.headers() for message in consume(broker.bootstrap, topic, 3)]
    assert sent == [[("sent-by", f"connector-producer-{name}-0".encode())]] * 3
