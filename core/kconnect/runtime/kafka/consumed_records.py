"""Fetched runs as the records that interceptors see, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from confluent_kafka import Message

from kconnect.api import ConsumerRecord, TimestampType
from kconnect.runtime.kafka.consumed_run import ConsumedRun
from kconnect.runtime.kafka.partition_reader import Form

TIMESTAMP_TYPES: Final = (
    TimestampType.NO_TIMESTAMP_TYPE,
    TimestampType.CREATE_TIME,
    TimestampType.LOG_APPEND_TIME,
)
"""By the client's number of each."""


def _record(topic: str, partition: int, offset: int, message: Message) -> ConsumerRecord:
    kind, timestamp = message.timestamp()
    key: Any = message.key()  # bytes: there is no deserializer
    value: Any = message.value()
    headers: Any = message.headers()  # the binding's type has str beside bytes
    time_type = TIMESTAMP_TYPES[kind]
    return ConsumerRecord(
        topic, partition, offset, key, value, timestamp if kind else None, time_type, list(headers or ())
    )


RECORDS: Final = Form(
    _record,
    # A few records are wanted, soon: what is fetched ahead of them is wasted
    {"queued.min.messages": 2_000, "queued.max.messages.kbytes": 16_384},
    looks_for_brokers=True,
)
"""Whole records, headers included, of a PartitionReader."""


def records_of(run: ConsumedRun) -> Iterator[ConsumerRecord]:
    """The records of a run, each with a list of headers of its own."""
    kind = run.timestamp_kind
    for index, offset in enumerate(run.offsets):
        yield ConsumerRecord(
            run.topic,
            run.partition,
            offset,
            None if run.keys is None else run.keys[index],
            run.values[index],
            run.timestamps[index] if kind else None,
            TIMESTAMP_TYPES[kind],
            list((None if run.headers is None else run.headers[index]) or ()),
        )


def runs_of(records: Sequence[ConsumerRecord]) -> list[ConsumedRun]:
    """Runs of neighbours of the same partition."""
    return [
        ConsumedRun(topic, partition, [_message(record) for record in run])
        for (topic, partition), run in groupby(records, lambda record: (record.topic, record.partition))
    ]


def _message(record: ConsumerRecord) -> Message:
    headers: Any = record.headers or None  # the binding's type has str beside bytes, and lists are invariant
    return Message(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=headers,
        timestamp=(TIMESTAMP_TYPES.index(record.timestamp_type), record.timestamp or 0),
    )
