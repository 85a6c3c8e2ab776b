"""InterceptedConsumer: a consumer whose records and commits its interceptors see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kconnect.api import ConsumerInterceptor, ConsumerRecord, OffsetAndMetadata
from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import Behind, ConsumedRun, RebalanceListener
from kconnect.runtime.kafka.consumed_records import records_of, runs_of
from kconnect.runtime.pipeline.interceptors import Interceptors
from kconnect.runtime.pipeline.sink_consumer import SinkConsumer


class InterceptedConsumer:
    """Implements SinkConsumer over another one. Threads: the task's.

    Source: ClassicKafkaConsumer.poll, ConsumerCoordinator.commitOffsetsAsync and commitOffsetsSync (Kafka 4.3).
    """

    def __init__(self, consumer: SinkConsumer, interceptors: Interceptors[ConsumerInterceptor]) -> None:
        self._consumer = consumer
        self._interceptors = interceptors
        self._is_closed = False

    @property
    def assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment

    def subscribe(self, topics: Sequence[str] | TopicPattern, listener: RebalanceListener) -> None:
        self._consumer.subscribe(topics, listener)

    def fetch(self, max_records: int, timeout_s: float) -> list[ConsumedRun]:
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
