"""What a source's poll gives, through its transformations and converters, as parallel columns.

Like the worker's path to Kafka (runtime/pipeline/source.py), except that a part without a converter keeps its type.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigDef, ConnectRecord, Converter, RecordBatch, Schema, SchemaAndValue
from kconnect.errors import ConnectError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.client_config import producer_config
from kconnect.runtime.config.connector_config import SourceConnectorConfig
from kconnect.runtime.kafka import DeliveryFailure, KafkaHeaders, KafkaRecord, RecordProducer
from kconnect.runtime.kafka.byte_column import ByteColumn
from kconnect.runtime.pipeline.build_stages import source_stages
from kconnect.runtime.pipeline.plugin_parts import parse_config
from kconnect.runtime.pipeline.polled_lists import PolledLists
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters
from kconnect.runtime.plugins import PluginRegistry
from kconnect.spark.no_host import ports_without_host

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# offset.flush.timeout.ms of a worker, by its default
_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Part:
    """The keys or values of some rows: an Arrow column, or a list of Connect values, None if all are null.

    `is_bytes`: a converter made them. `schema`: Connect's schema of all of them, None for schemaless values.
    """

    data: pa.Array | Sequence[Any] | None
    schema: Schema | None = None
    is_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of one key schema and one value schema. Lists run in parallel; a single value stands for all rows."""

    length: int
    topic: str | Sequence[str]
    partition: int | Sequence[int | None] | None
    timestamp: pa.Array | int | Sequence[int | None] | None
    headers: Sequence[KafkaHeaders | None] | None
    key: Part
    value: Part


class KeepsType(Converter):
    """Stands where a config names no converter: it makes no bytes, and the column keeps its type."""

    ignores_headers = True

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """There are no settings."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Any = None) -> None:
        return None

    def from_connect_batch(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        return pa.nulls(len(column), pa.binary())

    def to_connect_data(self, topic: str, value: bytes | None, headers: Any = None) -> SchemaAndValue:
        return SchemaAndValue(None, None)

    def to_connect_batch(self, topic: str, column: pa.Array) -> tuple[None, None]:
        return None, None


class SourceChain:
    """Transformations, converters and tolerance of one source task. Threads: the one that calls `rows`.

    Errors: StageError for a record that fails and is not tolerated.
    """

    def __init__(self, control: TaskControl, plugins: PluginRegistry) -> None:
        """`control`: of the task; its stop ends the waits between retries."""
        config = parse_config(SourceConnectorConfig, control.spec.connector_config, plugins)
        stages = source_stages(control, ports_without_host(plugins))
        self.metrics = control.monitor.of_task
        self.give_up = stages.give_up
        self.retry_delay_most_s = stages.tolerance.settings.retry_delay_max_ms / 1000
        self._transforms, self._converters = stages.transforms, stages.converters
        self._letters = None if stages.dead_letters is None else LetterSender(stages.dead_letters, control)
        self._lists = PolledLists(self._transforms)
        self._has_key, self._has_value = config.key_converter is not None, config.value_converter is not None

    def start(self) -> None:
        """Create the topic of dead letters, where it is missing. Errors: ConnectError."""
        if self._letters is not None:
            self._letters.start()

    def send_letters(self) -> None:
        """Have the dead letters so far in Kafka. Errors: ConnectError, TimedOutError when they are not."""
        if self._letters is not None:
            self._letters.send()

    def rows(self, polled: RecordBatch | Sequence[ConnectRecord]) -> Iterator[Rows]:
        """The rows that are left of one poll, in order, in runs of equal schemas.

        Its dead letters are in Kafka once the last of them was taken.
        """
        columns = polled if isinstance(polled, RecordBatch) else self._lists.columns_of(polled)
        kept: Any  # RecordBatch, list of records, or None
        if isinstance(columns, RecordBatch):
            kept = self._transforms.apply_batch(columns) if len(self._transforms) else columns
        else:
            kept = self._transforms.apply_records(columns)
        if isinstance(kept, RecordBatch):
            yield self._of_batch(kept)
        elif kept:
            for run in _runs(kept):
                yield from self._of_records(run)
        self.send_letters()

    def close(self) -> None:
        with contextlib.ExitStack() as parts:
            if self._letters is not None:
                parts.callback(self._letters.close)
            parts.callback(self._converters.close)
            parts.callback(self._transforms.close)

    def _of_batch(self, batch: RecordBatch) -> Rows:
        if not (self._has_key or self._has_value or batch.headers):
            key, value = Part(batch.key, batch.key_schema), Part(batch.value, batch.value_schema)
            return Rows(len(batch), batch.topic, batch.kafka_partition, batch.timestamp, None, key, value)
        made = self._converters.to_kafka_batch(batch)
        kept = batch if made.rows is None else batch.filter(_mask(made.rows, len(batch)))
        key = _bytes(made.keys) if self._has_key else Part(kept.key, kept.key_schema)
        value = _bytes(made.values) if self._has_value else Part(kept.value, kept.value_schema)
        return Rows(len(kept), kept.topic, kept.kafka_partition, kept.timestamp, made.headers, key, value)

    def _of_records(self, records: Sequence[ConnectRecord]) -> Iterator[Rows]:
        made: Sequence[KafkaRecord | None] | None = None
        if self._has_key or self._has_value or any(record.has_headers for record in records):
            made = self._converters.to_kafka_records(records)
            records = [record for record, one in zip(records, made, strict=True) if one is not None]
            made = [one for one in made if one is not None]
        if not records:
            return
        first = records[0]
        key = Part([record.key for record in records], first.key_schema)
        value = Part([record.value for record in records], first.value_schema)
        if made is not None and self._has_key:
            key = Part([one.key for one in made], is_bytes=True)  # type: ignore[union-attr]  # no None is left
        if made is not None and self._has_value:
            value = Part([one.value for one in made], is_bytes=True)  # type: ignore[union-attr]
        yield Rows(
            len(records),
            [record.topic for record in records],
            [record.kafka_partition for record in records],
            [record.timestamp for record in records],
            None if made is None else [one.headers for one in made],  # type: ignore[union-attr]
            key,
            value,
        )


def _bytes(made: Sequence[bytes | None] | None) -> Part:
    """What a converter made, as a column if it made one."""
    data = made.column if isinstance(made, ByteColumn) else None if made is None else list(made)
    return Part(data, is_bytes=True)


def _runs(records: Sequence[ConnectRecord]) -> Iterator[Sequence[ConnectRecord]]:
    """The records in runs of equal schemas: sources give long ones, often a single."""
    start = 0
    for index in range(1, len(records) + 1):
        if index == len(records) or not _is_alike(records[start], records[index]):
            yield records[start:index] if start or index < len(records) else records
            start = index


def _is_alike(one: ConnectRecord, other: ConnectRecord) -> bool:
    return _is_same(one.key_schema, other.key_schema) and _is_same(one.value_schema, other.value_schema)


def _is_same(one: Schema | None, other: Schema | None) -> bool:
    return one is other or one == other


def _mask(rows: Sequence[int], length: int) -> pa.BooleanArray:
    import pyarrow as pa

    kept: Final = set(rows)
    return pa.array([index in kept for index in range(length)], pa.bool_())


class LetterSender:
    """Sends what SourceDeadLetters made. Threads: the task's. Lifecycle: constructed -> start -> send()* -> close."""

    def __init__(self, letters: SourceDeadLetters, control: TaskControl) -> None:
        spec = control.spec
        settings, warnings = producer_config(
            spec.worker_config, spec.connector_config, client_id=f"connector-dlq-producer-{spec.id}", keeps_order=False
        )
        for warning in warnings:
            log.warning("%s", warning)
        self._letters, self._control, self._settings = letters, control, settings
        self._producer: RecordProducer | None = None
        self._refused: ConnectError | None = None

    def start(self) -> None:
        """Create the topic, where it is missing. Errors: ConnectError."""
        self._letters.start()

    def send(self) -> None:
        """Send what was reported since the last call, and wait until Kafka has it.

        Errors: ConnectError for a dead letter that Kafka rejects; TimedOutError.
        """
        waiting = self._letters.take()
        if not waiting:
            return
        if self._producer is None:
            self._producer = RecordProducer(self._settings, f"the dead letters of {self._control.spec.id}")
        delivery = self._producer.delivery(lambda is_acked: None, self._is_tolerated)
        for one in waiting:
            self._producer.send(one, delivery, lambda: self._control.is_stopping)
        delivery.complete()
        del delivery
        is_flushed = self._producer.flush(_WITHIN_S, lambda: self._refused is not None)
        if self._refused is not None:
            raise self._refused
        if not is_flushed:
            raise TimedOutError(
                f"{pluralize(len(waiting), 'dead letter')} not acknowledged by topic {self._letters.topic!r} within "
                f"{_WITHIN_S:g} s"
            )

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    def _is_tolerated(self, failure: DeliveryFailure) -> bool:
        self._letters.refused(failure)
        self._refused = self._refused or failure.error
        return False
