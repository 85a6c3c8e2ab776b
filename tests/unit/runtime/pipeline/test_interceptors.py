"""Interceptors of producers and consumers: what they see and change, and that none can hurt a record."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kconnect.api import (
    ConsumerInterceptor,
    ConsumerRecord,
    OffsetAndMetadata,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
)
from kconnect.errors import ConfigError, ConnectError
from kconnect.model import TaskId, TopicPartition
from kconnect.runtime.config.client_config import InterceptorSettings, consumer_interceptors, producer_interceptors
from kconnect.runtime.kafka import Delivery, KafkaBatch, KafkaRecord, RecordDelivery, WrittenRecord
from kconnect.runtime.pipeline.interceptors import (
    InterceptedConsumer,
    InterceptedProducer,
    Interceptors,
    make_interceptors,
)
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.runtime.plugins import PluginRegistry
from kit.memory_consumer import MemoryConsumer, MemoryPartitions
from kit.memory_producer import MemoryProducer

PLUGINS = PluginRegistry.load()
PLACE = TopicPartition("t", 0)
WORKER = {"bootstrap.servers": "b:9092", "producer.interceptor.classes": "a:A, b.B", "producer.linger.ms": "5"}


def stage(name: str) -> AbstractContextManager[None]:
    return nullcontext()


class Stamp(ProducerInterceptor):
    """Adds a header to each record and notes what it is reported."""

    def __init__(self) -> None:
        self.configs: Mapping[str, str] = {}
        self.reported: list[tuple[RecordMetadata, Exception | None, Any]] = []
        self.is_closed = False

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.append(("seen", self.configs.get("client.id", "").encode()))
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        self.reported.append((metadata, error, headers))

    def close(self) -> None:
        self.is_closed = True


class Shout(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return replace(record, value=(record.value or b"").upper())


class Broken(ProducerInterceptor):
    """Changes the record, then raises; every other method raises too."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.append(("half", None))
        record.value = None
        raise RuntimeError("on purpose")

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        raise RuntimeError("on purpose")

    def close(self) -> None:
        raise RuntimeError("on purpose")


class Forgetful(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return None  # type: ignore[return-value]


class Untyped(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return replace(record, value="text")  # type: ignore[arg-type]


def never() -> bool:
    return False


def test_interceptors_of_a_producer_change_records_in_order_and_are_reported_of_each_end() -> None:
    stamp, kafka, ended = Stamp(), MemoryProducer(), list[bool]()
    producer = InterceptedProducer(kafka, Interceptors([Shout(), stamp], stage))
    delivery = producer.delivery(ended.append)
    batch = KafkaBatch("t", None, [b"k", None], [b"a", None], [7, 8], [[("h", b"1")], None])

    assert producer.send_batch(batch, delivery, never)
    delivery.complete()
    del delivery
    kafka.refuse(1)
    assert producer.flush(1)

    assert kafka.log == [("t", b"k", b"A")]
    assert ended == [False], "the end of the unit is reported as without interceptors"
    (_, refusal, headers), written = stamp.reported
    assert headers == (("seen", b""),)
    assert isinstance(refusal, ConnectError)
    assert "could not be written to topic 't'" in str(refusal)
    assert written == (RecordMetadata("t", 0, 0, 0), None, (("h", b"1"), ("seen", b"")))


@pytest.mark.parametrize("bad", [Broken(), Forgetful(), Untyped()])
def test_a_failing_interceptor_is_logged_and_the_record_goes_on_as_it_was(
    bad: ProducerInterceptor, caplog: pytest.LogCaptureFixture
) -> None:
    stamp, kafka = Stamp(), MemoryProducer()
    producer = InterceptedProducer(kafka, Interceptors([bad, stamp], stage))
    written: list[WrittenRecord | None] = []
    delivery = RecordDelivery(producer.delivery(lambda is_acked: None), written.append)

    for _ in range(3):
        assert producer.send(KafkaRecord("t", 0, b"k", b"v"), delivery, never)
    assert producer.flush(1)
    producer.close()
    producer.close()

    assert kafka.log == [("t", b"k", b"v")] * 3
    assert [place.offset for place in written if place is not None] == [0, 1, 2]
    assert [headers for _, _, headers in stamp.reported] == [(("seen", b""),)] * 3
    assert stamp.is_closed
    sends = [line for line in caplog.messages if "on_send" in line]
    assert sends == [f"{type(bad).__name__}.on_send() failed; what it was given goes on unchanged"], "reported once"


def test_a_record_that_is_purged_is_reported_with_an_error() -> None:
    stamp, kafka = Stamp(), MemoryProducer()
    producer = InterceptedProducer(kafka, Interceptors([stamp], stage))
    delivery: Delivery = producer.delivery(lambda is_acked: None)
    assert producer.send(KafkaRecord("t", value=b"v"), delivery, never)

    kafka.refuse(0, KafkaError._PURGE_QUEUE)

    ((metadata, error, _),) = stamp.reported
    assert metadata.offset == -1
    assert isinstance(error, ConnectError)


class Odd(ConsumerInterceptor):
    """Leaves out records with an even offset and marks the others."""

    def __init__(self) -> None:
        self.committed: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
        self.closed = 0

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        return [replace(record, key=b"odd", headers=[("n", b"1")]) for record in records if record.offset % 2]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.append(offsets)

    def close(self) -> None:
        self.closed += 1


class Listener:
    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    def to_pause(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        return ()

    def revoked(self, partitions: Sequence[TopicPartition]) -> None: ...

    def lost(self, partitions: Sequence[TopicPartition]) -> None: ...


def consumer_of(*chain: ConsumerInterceptor) -> tuple[InterceptedConsumer, MemoryConsumer]:
    inner = MemoryConsumer(MemoryPartitions({PLACE: [b"0", b"1", b"2", b"3", b"4"]}), lambda: None)
    made = InterceptedConsumer(inner, Interceptors(chain, stage))
    made.subscribe(["t"], Listener())
    inner.assign(PLACE)
    return made, inner


def test_a_consumer_gives_what_its_interceptors_return() -> None:
    consumer, _ = consumer_of(Odd())

    (run,) = consumer.fetch(10, 0)

    assert (run.topic, run.partition, run.offsets, run.next_offset) == ("t", 0, [1, 3], 4)
    assert run.keys == [b"odd", b"odd"]
    assert run.values == [b"1", b"3"]
    assert run.headers == [[("n", b"1")]] * 2
    assert (run.timestamp_kind, run.timestamps) == (1, [0, 0])
    assert consumer.fetch(10, 0) == []


class Raising(ConsumerInterceptor):
    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        for record in records:
            record.headers.append(("half", b""))
        raise RuntimeError("on purpose")


class Backwards(ConsumerInterceptor):
    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        return records[::-1]


class Elsewhere(ConsumerInterceptor):
    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        return [replace(record, partition=9) for record in records]


class Nothing(ConsumerInterceptor):
    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize("bad", [Raising(), Backwards(), Elsewhere(), Nothing()])
def test_records_are_consumed_as_they_came_past_a_failing_interceptor(
    bad: ConsumerInterceptor, caplog: pytest.LogCaptureFixture
) -> None:
    consumer, _ = consumer_of(bad)

    runs = consumer.fetch(10, 0)

    assert [offset for run in runs for offset in run.offsets] == [0, 1, 2, 3, 4]
    assert all(run.headers is None for run in runs)
    assert f"{type(bad).__name__}.on_consume() failed; what it was given goes on unchanged" in caplog.messages


def test_only_commits_that_went_well_are_reported() -> None:
    odd = Odd()
    consumer, inner = consumer_of(odd)
    answers: list[ConnectError | None] = []

    consumer.commit({PLACE: 1}, 1)
    consumer.commit_async({PLACE: 2}, answers.append)
    inner.answer()
    inner.commit_mode = "refused"
    consumer.commit_async({PLACE: 3}, answers.append)
    inner.answer()
    with pytest.raises(ConnectError):
        consumer.commit({PLACE: 4}, 1)
    consumer.close()
    consumer.close()

    assert odd.committed == [{PLACE: (1, "")}, {PLACE: (2, "")}]
    assert [error is None for error in answers] == [True, False]
    assert odd.closed == 1


# --- settings ---


def test_interceptors_get_the_settings_of_their_client_in_javas_names() -> None:
    found = producer_interceptors(WORKER, {}, client_id="p-0")
    overridden = producer_interceptors(
        WORKER, {"producer.override.interceptor.classes": "c.C", "producer.override.x": "y"}, client_id="p-0"
    )
    none = consumer_interceptors(WORKER, {}, client_id="c-0", group_id="g")

    assert (found.key, found.names) == ("producer.interceptor.classes", ["a:A", "b.B"])
    assert (found.configs["client.id"], found.configs["linger.ms"], found.configs["acks"]) == ("p-0", "5", "all")
    assert (overridden.key, overridden.names) == ("producer.override.interceptor.classes", ["c.C"])
    assert overridden.configs["x"] == "y"
    assert (none.names, none.configs["group.id"]) == ([], "g")


def made(name: str, **configs: str) -> Interceptors[ProducerInterceptor]:
    settings = InterceptorSettings([name], "producer.interceptor.classes", {"client.id": "p", **configs})
    return make_interceptors(ProducerInterceptor, settings, PLUGINS, stage, PluginMonitor(TaskId("c", 0)))  # type: ignore[type-abstract]


def test_interceptors_are_found_by_their_python_name_and_configured() -> None:
    chain = made(f"{__name__}:Stamp", **{"client.id": "p-0"})

    sent = chain.passed("on_send", ProducerRecord("t", None, None, b"v"), lambda given: given, lambda result: result)

    assert sent.headers == [("seen", b"p-0")]


def test_a_java_interceptor_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        chain = made("io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor")

    assert not chain
    assert caplog.messages == [
        "producer.interceptor.classes: io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor has "
        "no effect: it is not a Python class that can be imported, and a Java class cannot run here"
    ]


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"producer\.interceptor\.classes: .*:Odd is not a ProducerInterceptor"):
        made(f"{__name__}:Odd")
