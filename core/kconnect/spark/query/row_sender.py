"""RowSender: rows of one Spark task into Kafka, in an executor's process: transformations, converters, producer."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import RecordBatch, Schema
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.foreign_schemas import schema_of_arrow
from kconnect.errors import ConnectError, FencedError, TimedOutError
from kconnect.model import TaskSpec, TopicPartition
from kconnect.runtime.config.client_config import consumer_config, producer_config
from kconnect.runtime.config.exactly_once_settings import exactly_once_producer
from kconnect.runtime.kafka import (
    BulkProducer,
    CommittedOffset,
    DeliveryFailure,
    KafkaBatch,
    KafkaRecord,
    MarkedProducer,
    RecordProducer,
)
from kconnect.runtime.pipeline.build import source_topics
from kconnect.runtime.pipeline.build_stages import source_stages
from kconnect.runtime.pipeline.lifecycle import resolved_spec
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.spark.no_host import ports_without_host
from kconnect.spark.query.tallies import TallySender
from kconnect.spark.query.topic_reader import registry_of
from kconnect.spark.slot_spec import TallyAddress

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOrder:
    """All that the sending processes need. Plain values: it is pickled."""

    key: str
    """Names this start of the query, as in TopicOrder."""
    spec: Mapping[str, Any]
    plugin_path: str | None
    plugins: tuple[str, ...] = ()
    topic: str
    key_columns: tuple[str, ...]
    value_column: str | None
    is_exactly_once: bool
    query_id: str
    batch: int
    writer: str
    """Which RowSender has sent the batch before: only that one may go on with its producer. Empty: none has."""
    planned: str
    """What the batch consists of, as text: a batch of the same number and another text is another one."""
    tally: TallyAddress | None = None
    """Where to say what failed in records."""


def sender(order: SendOrder) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: sends the rows of each Spark task, and gives in one row their number and who has sent them."""
    given = {each.name: getattr(order, each.name) for each in fields(order)}

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        own = SendOrder(**given)
        found = RowSender.of_order(own, part)
        count = found.send(own, part, batches)
        yield pa.record_batch([pa.array([count], pa.int64()), pa.array([found.id])], names=["rows", "writer"])

    return run


class RowSender:
    """The data path of a source behind its task. Threads: one. Kept for the next batch by the process that made it.

    Errors: StageError for a record that fails the task; FencedError; ConnectError.
    """

    _kept: ClassVar[RowSender | None] = None

    def __init__(self, order: SendOrder, part: int) -> None:
        plugins = registry_of(order.plugin_path, order.plugins)
        spec = resolved_spec(TaskSpec.from_json(order.spec), plugins)
        self.key = (order.key, part if order.is_exactly_once else 0)
        self.id = uuid.uuid4().hex
        ports = ports_without_host(plugins)
        self._control = TaskControl(spec, ports)
        self._stages = source_stages(self._control, ports)
        if self._stages.dead_letters is not None:
            self._stages.dead_letters.start()
        self._tally = TallySender(self._control, order.tally)
        self._producer = _producer(spec, order, part)
        self._topics = source_topics(self._control, self._producer)
        self._schemas: dict[pa.Schema, tuple[Schema | None, Schema]] = {}
        self._refused: ConnectError | None = None
        self._is_claimed = False

    @classmethod
    def of_order(cls, order: SendOrder, part: int) -> RowSender:
        """The one this process has kept if it suits; else a new one in its place.

        Spark runs batches in any of its processes: a producer that another one's has fenced off meanwhile is of no use.
        """
        kept, key = cls._kept, (order.key, part if order.is_exactly_once else 0)
        is_fenced = kept is not None and order.is_exactly_once and kept.id != order.writer
        if kept is None or kept.key != key or is_fenced:
            if kept is not None:
                kept.close()
            kept = cls._kept = cls(order, part)
        return kept

    def send(self, order: SendOrder, part: int, batches: Iterable[pa.RecordBatch]) -> int:
        """Send all, and wait until Kafka has them. Gives the number of rows; 0 for a batch that Kafka has already."""
        try:
            if isinstance(self._producer, MarkedProducer):
                return self._send_once(self._producer, order, part, batches)
            count = self._send_all(order, batches)
            self._await_acks()
        except BaseException:
            type(self)._kept = None  # with what it has half sent
            self.close()
            raise
        finally:
            self._tally.send()
        return count

    def close(self) -> None:
        self._producer.close()
        self._topics.close()
        self._stages.close()

    def _send_once(
        self, producer: MarkedProducer, order: SendOrder, part: int, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """In one transaction with a mark. The mark is looked at after this producer has fenced off all earlier ones."""
        at = TopicPartition(order.topic, part)
        if not self._is_claimed:  # once: a producer that claims later fences this one off
            producer.claim(_TIMEOUT_S, lambda: False)
            self._is_claimed = True
        said = producer.mark_of(at, _TIMEOUT_S)
        mark = _Mark(order.query_id, hashlib.sha256(order.planned.encode()).hexdigest()[:16])
        earlier = None if said is None else _Mark.parse(said.metadata)
        if said is not None and earlier is not None and earlier.id == mark.id and said.offset >= order.batch:
            if said.offset == order.batch and earlier.digest == mark.digest:
                log.info("Batch %d is in topic %s already", order.batch, order.topic)
                return 0
            raise FencedError(
                f"Another worker has written batch {said.offset} of this query; this one was at batch {order.batch}"
            )
        producer.begin()
        count = self._send_all(order, batches)
        self._await_acks()
        if not producer.mark(at, CommittedOffset(order.batch, mark.text()), lambda: False):
            raise TimedOutError("The mark of a batch could not be written")
        producer.commit(lambda: False)
        producer.await_mark(at, lambda: False)  # before the offsets topic says that the batch is done
        return count

    def _send_all(self, order: SendOrder, batches: Iterable[pa.RecordBatch]) -> int:
        count = 0
        for rows in batches:
            if rows.num_rows:
                count += rows.num_rows
                self._send_rows(self._records(order, rows))
        return count

    def _records(self, order: SendOrder, rows: pa.RecordBatch) -> RecordBatch:
        """The rows as a batch of a source."""
        schemas = self._schemas.get(rows.schema)
        if schemas is None:
            schemas = self._schemas[rows.schema] = _schemas_of(order, rows.schema)
        key_schema, value_schema = schemas
        value = rows.column(order.value_column) if order.value_column else _struct(rows, rows.schema.names)
        key = None if key_schema is None else _key(rows, order.key_columns)
        name = self._control.spec.id.connector
        return RecordBatch(
            order.topic,
            value=fitted(value, value_schema),
            value_schema=value_schema,
            key=None if key is None or key_schema is None else fitted(key, key_schema),
            key_schema=key_schema,
            source_partition={"query": name, "source": 0},
            source_offsets={"batch": pa.array([order.batch] * rows.num_rows, pa.int64())},
        )

    def _send_rows(self, batch: RecordBatch) -> None:
        kept = self._stages.transforms.apply_batch(batch)
        if kept is None:
            return self._send_payload([])
        if isinstance(kept, RecordBatch):
            return self._send_payload(self._stages.converters.to_kafka_batch(kept))
        return self._send_payload(self._stages.converters.to_kafka_list(kept))

    def _send_payload(self, payload: KafkaBatch | list[KafkaRecord | None]) -> None:
        producer, letters = self._producer, self._stages.dead_letters
        delivery = producer.delivery(lambda is_acked: None, self._note_refused)
        if isinstance(payload, KafkaBatch):
            self._topics.ensure((payload.topic,))
            producer.send_batch(payload, delivery, self._gives_up)
        else:
            records = [record for record in payload if record is not None]
            self._topics.ensure({record.topic for record in records})
            for record in records:
                producer.send(record, delivery, self._gives_up)
        for letter in letters.take() if letters is not None else ():
            producer.send(letter, delivery, self._gives_up)
        delivery.complete()
        if self._refused is not None:
            raise self._refused

    def _note_refused(self, failure: DeliveryFailure) -> bool:
        self._refused = self._refused or failure.error
        return False

    def _gives_up(self) -> bool:
        return self._refused is not None

    def _await_acks(self) -> None:
        is_flushed = self._producer.flush(_TIMEOUT_S, self._gives_up)
        if self._refused is not None:
            raise self._refused
        if not is_flushed:
            why = f": {self._producer.last_error}" if self._producer.last_error else ""
            raise TimedOutError(f"Kafka did not acknowledge a batch within {_TIMEOUT_S:g} s{why}")


def last_batch(spec: TaskSpec, topic: str, give_up: Callable[[], bool]) -> tuple[str, int] | None:
    """What the topic has, after all earlier senders were fenced off: the id of a query, the number of its last batch.

    None for nothing yet, or if `give_up` ended the wait. `spec` with its references resolved. Errors: ConnectError.
    """
    producer = _marked_producer(spec, 0)
    try:
        if not producer.claim(_TIMEOUT_S, give_up):
            return None
        said = producer.mark_of(TopicPartition(topic, 0), _TIMEOUT_S)
    finally:
        producer.close()
    mark = None if said is None else _Mark.parse(said.metadata)
    return None if said is None or mark is None else (mark.id, said.offset)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The text beside the offset that says which batch was written last."""

    id: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> _Mark | None:
        """Returns None if no query has written it."""
        try:
            body = json.loads(text)["kconnect"]
            return cls(str(body["id"]), str(body["of"]))
        except (ValueError, TypeError, KeyError):
            return None

    def text(self) -> str:
        return json.dumps({"kconnect": {"id": self.id, "of": self.digest}})


def _producer(spec: TaskSpec, order: SendOrder, part: int) -> RecordProducer:
    if order.is_exactly_once:
        return _marked_producer(spec, part)
    settings, _ = producer_config(spec.worker_config, spec.connector_config, client_id=f"connector-producer-{spec.id}")
    return BulkProducer(settings, str(spec.id))


def _marked_producer(spec: TaskSpec, part: int) -> MarkedProducer:
    """Its transactional id is that of any source's task: what fences those off, fences this off."""
    name = spec.id.connector
    settings, _ = exactly_once_producer(spec.worker_config, spec.connector_config, name=name, task=part)
    marks, _ = consumer_config(
        spec.worker_config, {}, client_id=f"connector-marks-{spec.id}", group_id=f"connect-{name}"
    )
    return MarkedProducer(settings, marks, str(spec.id))


def _schemas_of(order: SendOrder, schema: pa.Schema) -> tuple[Schema | None, Schema]:
    """The schemas of the key, None without one, and of the value."""
    if order.value_column:
        value = schema_of_arrow(schema.field(order.value_column).type, order.value_column)
    else:
        value = schema_of_arrow(pa.struct(list(schema)), "value")
    if not order.key_columns:
        return None, value
    if len(order.key_columns) == 1:
        return schema_of_arrow(schema.field(order.key_columns[0]).type, order.key_columns[0]), value
    return schema_of_arrow(pa.struct([schema.field(name) for name in order.key_columns]), "key"), value


def _key(rows: pa.RecordBatch, columns: tuple[str, ...]) -> pa.Array:
    return rows.column(columns[0]) if len(columns) == 1 else _struct(rows, columns)


def _struct(rows: pa.RecordBatch, names: Iterable[str]) -> pa.Array:
    names = list(names)
    return pa.StructArray.from_arrays(
        [rows.column(name) for name in names], fields=[rows.schema.field(name) for name in names]
    )


def fitted(column: pa.Array, schema: Schema) -> pa.Array:
    """The column as one of the schema; parts of a millisecond are cut off."""
    wanted = arrow_type(schema)
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(column.type):
        column = pc.floor_temporal(column, unit="millisecond")
    return column.cast(wanted, safe=False)
