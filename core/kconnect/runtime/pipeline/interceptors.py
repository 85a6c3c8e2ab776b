"""Interceptors of a task's producer or consumer: made from the settings of the client, called in order.

Without any a client is used directly, so they cost nothing then; with some it is wrapped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kconnect.api import (
    ConsumerInterceptor,
    ConsumerRecord,
    OffsetAndMetadata,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
)
from kconnect.errors import ConfigError, ConnectError
from kconnect.logs.repeats import RepeatedMessages
from kconnect.model import TopicPartition
from kconnect.runtime.config.client_config import INTERCEPTORS, InterceptorSettings
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import (
    AnyDelivery,
    Behind,
    ConsumedRun,
    Delivery,
    DeliveryFailure,
    KafkaBatch,
    KafkaRecord,
    RebalanceListener,
    ReportedDelivery,
    WrittenRecord,
)
from kconnect.runtime.kafka.consumed_records import records_of, runs_of
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.runtime.pipeline.sink_consumer import SinkConsumer
from kconnect.runtime.pipeline.unit_producer import UnitProducer

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)

I = TypeVar("I", ProducerInterceptor, ConsumerInterceptor)  # noqa: E741  # the kind of interceptor
V = TypeVar("V")


class Interceptors(Generic[I]):
    """The interceptors of one client, in order. What one raises is logged and otherwise ignored.

    Threads: those of the calls. Source: ProducerInterceptors, ConsumerInterceptors (Kafka 4.3).
    """

    def __init__(self, chain: Sequence[I], in_stage: Callable[[str], AbstractContextManager[None]]) -> None:
        self._chain: Sequence[I] = chain
        self._in_stage = in_stage
        self._repeats = RepeatedMessages(log)

    def __len__(self) -> int:
        return len(self._chain)

    def passed(self, method: str, value: V, copied: Callable[[V], V], checked: Callable[[Any], V]) -> V:
        """The value after each interceptor's `method`, which gets a copy of it; `checked` refuses a wrong result."""
        for interceptor in self._chain:
            try:
                value = checked(getattr(interceptor, method)(copied(value)))
            except Exception as error:  # the plugin's; Java logs it and goes on
                self._log(interceptor, method, error, "what it was given goes on unchanged")
        return value

    def tell(self, method: str, *args: object) -> None:
        """Call `method` of each."""
        for interceptor in self._chain:
            try:
                getattr(interceptor, method)(*args)
            except Exception as error:  # the plugin's; Java logs it and goes on
                self._log(interceptor, method, error, "the task continues")

    def _log(self, interceptor: I, method: str, error: Exception, outcome: str) -> None:
        """At growing intervals: it may fail for every record."""
        call = f"{type(interceptor).__name__}.{method}()"
        if self._repeats.is_due(f"{call}: {error!r}"):
            with self._in_stage("interceptors"):
                log.error("%s failed; %s", call, outcome, exc_info=error)


def make_interceptors(
    kind: type[I],
    settings: InterceptorSettings,
    plugins: PluginRegistry,
    in_stage: Callable[[str], AbstractContextManager[None]],
    monitor: PluginMonitor,
) -> Interceptors[I]:
    """The configured interceptors of a client. One that is no Python class is left out with a warning, as a Java class
    cannot run here.

    Errors: ConfigError for a class of another kind; what its constructor or configure() raises.
    """
    chain: list[I] = []
    for name in settings.names:
        try:
            found = plugins.python_class(name, kind)
        except ConfigError as error:
            raise ConfigError(f"{settings.key}: {error}", hint=error.hint) from error
        if found is None:
            log.warning(
                "%s: %s has no effect: it is not a Python class that can be imported, and a Java class cannot run here",
                settings.key,
                name,
            )
            continue
        with plugin_call(found, "__init__"):
            chain.append(found())
        with plugin_call(found, "configure"):
            chain[-1].configure(settings.configs)
        monitor.attach_to_client(chain[-1], settings.configs["client.id"], INTERCEPTORS)
    return Interceptors(chain, in_stage)


class InterceptedProducer:
    """Implements UnitProducer over another one, which must report each record. Threads: as that one.

    Source: KafkaProducer.send, doSend and AppendCallbacks (Kafka 4.3).
    """

    def __init__(self, producer: UnitProducer, interceptors: Interceptors[ProducerInterceptor]) -> None:
        self._producer = producer
        self._interceptors = interceptors
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._producer)

    @property
    def last_error(self) -> str | None:
        return self._producer.last_error

    def delivery(
        self, on_end: Callable[[bool], None], on_failure: Callable[[DeliveryFailure], bool] = lambda failure: False
    ) -> Delivery:
        return self._producer.delivery(on_end, on_failure)

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool:
        return all(self.send(one, delivery, give_up) and not delivery.has_failed for one in records.records())

    def send(self, record: KafkaRecord, delivery: AnyDelivery, give_up: Callable[[], bool]) -> bool:
        given = ProducerRecord(
            record.topic, record.partition, record.key, record.value, record.timestamp, list(record.headers or ())
        )
        passed = self._interceptors.passed("on_send", given, _copied_record, _checked_record)
        reported = ReportedDelivery(delivery, partial(self._ended, tuple(passed.headers)))
        sent = KafkaRecord(
            passed.topic, passed.partition, passed.key, passed.value, passed.timestamp, passed.headers or None
        )
        return self._producer.send(sent, reported, give_up)

    def serve(self, timeout_s: float = 0) -> None:
        self._producer.serve(timeout_s)

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        return self._producer.flush(timeout_s, give_up)

    def abandon(self) -> None:
        self._producer.abandon()

    def close(self) -> None:
        """Close the producer, then the interceptors, which have been informed of all records by then. Idempotent."""
        self._producer.close()
        if not self._is_closed:
            self._is_closed = True
            self._interceptors.tell("close")

    def _ended(
        self, headers: tuple[tuple[str, bytes | None], ...], place: WrittenRecord, error: ConnectError | None
    ) -> None:
        metadata = RecordMetadata(place.topic, place.partition, place.offset, place.timestamp)
        self._interceptors.tell("on_acknowledgement", metadata, error, headers)


def _copied_record(record: ProducerRecord) -> ProducerRecord:
    """So that an interceptor which fails half-way has changed nothing."""
    return replace(record, headers=list(record.headers))


def _checked_record(result: Any) -> ProducerRecord:  # whatever a plugin returns
    if not isinstance(result, ProducerRecord):
        raise TypeError(f"on_send() returned {type(result).__name__} instead of a ProducerRecord")
    for part in ("key", "value"):
        if not isinstance(getattr(result, part), bytes | None):
            raise TypeError(f"on_send() returned a record whose {part} is {type(getattr(result, part)).__name__}")
    return result


class InterceptedConsumer:
    """Implements SinkConsumer over another one. Threads: the task's.

    Source: ClassicKafkaConsumer.poll, ConsumerCoordinator.commitOffsetsAsync and commitOffsetsSync (Kafka 4.3).
    """

    def __init__(self, consumer: SinkConsumer[ConsumedRun], interceptors: Interceptors[ConsumerInterceptor]) -> None:
        self._consumer = consumer
        self._interceptors = interceptors
        self._is_closed = False

    @property
    def assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment

    def subscribe(self, topics: Sequence[str] | TopicPattern, listener: RebalanceListener) -> None:
        self._consumer.subscribe(topics, listener)

    def fetch(self, max_records: int, timeout_s: float) -> Sequence[ConsumedRun]:
        runs = self._consumer.fetch(max_records, timeout_s)
        if not runs:
            return runs
        fetched: Sequence[ConsumerRecord] = [record for run in runs for record in records_of(run)]
        places = {(run.topic, run.partition) for run in runs}
        return runs_of(self._interceptors.passed("on_consume", fetched, _copied, partial(_checked, places)))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer.resume(partitions)

    def behind(self, positions: Mapping[TopicPartition, int]) -> Behind:
        return self._consumer.behind(positions)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._consumer.commit(offsets, timeout_s)
        self._committed(offsets)

    def commit_async(self, offsets: Mapping[TopicPartition, int], done: Callable[[ConnectError | None], None]) -> None:
        def answered(error: ConnectError | None) -> None:
            if error is None:
                self._committed(offsets)
            done(error)

        self._consumer.commit_async(offsets, answered)

    def close(self) -> None:
        """Leave the group, which may commit once more; then close the interceptors. Idempotent."""
        self._consumer.close()
        if not self._is_closed:
            self._is_closed = True
            self._interceptors.tell("close")

    def _committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        committed = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        self._interceptors.tell("on_commit", committed)


def _copied(records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    """So that an interceptor which fails half-way has changed nothing."""
    return [replace(record, headers=list(record.headers)) for record in records]


def _checked(places: Collection[tuple[str, int]], result: Any) -> Sequence[ConsumerRecord]:  # whatever a plugin returns
    """The result, unless it would confuse the task's offsets."""
    records = list(result)
    last = dict.fromkeys(places, -1)
    for record in records:
        if not isinstance(record, ConsumerRecord):
            raise TypeError(f"on_consume() returned {type(record).__name__} instead of a ConsumerRecord")
        place = (record.topic, record.partition)
        if record.offset <= last.get(place, record.offset):
            raise ValueError(
                f"on_consume() returned {record.topic}-{record.partition}@{record.offset}, which was not fetched or is "
                "out of order"
            )
        last[place] = record.offset
    return records
