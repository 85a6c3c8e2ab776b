"""One source task in a harness, and what its poll gave on the way to Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import ConnectRecord, RecordBatch, SourceRecord, SourceTask
from kconnect.clock import Pauses
from kconnect.errors import ConnectError
from kconnect.model import ConnectorOffset
from kconnect.runtime.kafka import KafkaBatch, KafkaRecord
from kconnect.runtime.pipeline.inflight import InFlight
from kconnect.runtime.pipeline.offset_updates import updates_offsets
from kconnect.runtime.pipeline.task_hooks import wants_each_record
from kconnect.testing.connector_run import TaskStages


class SourceTaskRun:
    """One task and what belongs to it."""

    def __init__(self, task: SourceTask, config: Mapping[str, str], stages: TaskStages, pauses: Pauses) -> None:
        self.task = task
        self.config = config
        self.stages = stages
        self.pauses = pauses
        """Paces a poll() that fails."""
        self.inflight = InFlight()
        self.uncommitted: dict[frozenset[tuple[str, Any]], ConnectorOffset] = {}
        self.reports_each = wants_each_record(task)
        self.updates_offsets = updates_offsets(type(task))
        self.is_whole = True
        """Whether everything that was polled is in the log."""


def checked_records(polled: Any, task_class: type) -> list[SourceRecord]:
    """The records of what poll() gave. Errors: ConnectError when they are something else."""
    if isinstance(polled, RecordBatch):
        return polled.to_records()  # type: ignore[return-value]  # a source's batch gives source records
    wrong = None if isinstance(polled, list) else polled
    if wrong is None:
        wrong = next((record for record in polled if not isinstance(record, SourceRecord)), None)
    if wrong is not None:
        raise ConnectError(
            f"{task_class.__name__}.poll() gave {type(wrong).__name__}",
            hint="Return a list of SourceRecord, a RecordBatch, or None.",
        )
    return list(polled)


def positions(records: Sequence[SourceRecord]) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    return [
        (record.source_partition, record.source_offset) for record in records if record.source_partition is not None
    ]


def batch_to_kafka(stages: TaskStages, batch: RecordBatch) -> list[KafkaRecord]:
    """The way of columns, as the worker takes it."""
    kept: RecordBatch | list[ConnectRecord] | None = stages.transforms.apply_batch(batch)
    if kept is None:
        return []
    if not isinstance(kept, RecordBatch):
        return [record for record in stages.converters.to_kafka_records(kept) if record is not None]
    return _rows(stages.converters.to_kafka_batch(kept))


def _rows(batch: KafkaBatch) -> list[KafkaRecord]:
    times = batch.timestamps
    return [
        KafkaRecord(
            batch.topic,
            batch.partition,
            None if batch.keys is None else batch.keys[index],
            value,
            times if times is None or isinstance(times, int) else times[index],
            None if batch.headers is None else batch.headers[index],
        )
        for index, value in enumerate(batch.values)
    ]
