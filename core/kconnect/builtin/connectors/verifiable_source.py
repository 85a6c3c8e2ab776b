"""VerifiableSource: sequence numbers at a set rate, from which a reader can tell losses and duplicates."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import (
    ConfigDef,
    DataError,
    ExactlyOnceSupport,
    RecordMetadata,
    Schema,
    SchemaBuilder,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Struct,
)
from kconnect.builtin.connectors.numbered_tasks import numbered_configs, task_number
from kconnect.builtin.connectors.verifiable_lines import LineWriter
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

TOPIC_CONFIG = "topic"
THROUGHPUT_CONFIG = "throughput"
COMPLETE_RECORD_DATA_CONFIG = "complete.record.data"
FILE_CONFIG = "file"

_T, _I = ConfigDef.Type, ConfigDef.Importance
CONFIG = (
    ConfigDef()
    .define(
        TOPIC_CONFIG,
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Topic the numbers go to.",
    )
    .define(
        THROUGHPUT_CONFIG,
        _T.LONG,
        ConfigDef.NO_DEFAULT,
        None,
        _I.HIGH,
        "Records a second of each task; 0 for none, less than 0 for as many as go.",
    )
    .define(
        COMPLETE_RECORD_DATA_CONFIG,
        _T.BOOLEAN,
        False,
        None,
        _I.LOW,
        "Whether a value is a struct of name, task, topic, time_ms and seqno, not the number alone.",
    )
    .define(
        FILE_CONFIG,
        _T.STRING,
        None,
        None,
        _I.LOW,
        "File that gets a line of JSON for each record sent, and for each that Kafka has; standard output when it is "
        "not set.",
    )
)

_VALUE_SCHEMA = (
    SchemaBuilder.struct()
    .field("name", Schema.STRING_SCHEMA)
    .field("task", Schema.INT32_SCHEMA)
    .field("topic", Schema.STRING_SCHEMA)
    .field("time_ms", Schema.INT64_SCHEMA)
    .field("seqno", Schema.INT64_SCHEMA)
    .build()
)
# The most records per poll: after a long pause a poll would otherwise return the whole backlog
_MOST_RECORDS = 500
# The longest wait of a poll without records; a stop ends it
_IDLE_S = 0.5


class VerifiableSourceConnector(SourceConnector):
    """Has as many tasks as requested, each with its own sequence.

    Source: o.a.k.connect.tools.VerifiableSourceConnector (Kafka 4.3).
    Differs: Java declares no settings, so errors only show when tasks start; we do, and refuse them at once. Java does
    not declare support for exactly-once or altered offsets; we support both.
    """

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        CONFIG.parse(props)
        self._props = props

    def task_class(self) -> type[SourceTask]:
        return VerifiableSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return numbered_configs(self._props, max_tasks)

    def stop(self) -> None:
        """Nothing runs besides the tasks."""

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Accept any number that was or could be sent; resets (None) are always valid."""
        for partition, offset in offsets:
            if offset is not None:
                _seqno_of(offset)
                if "id" not in (partition or {}):
                    raise DataError("Partition objects should contain the key 'id'")
        return True


class VerifiableSourceTask(SourceTask):
    """Sends 0, 1, 2 .. with the task's number as key; continues after the offset {"seqno": n} of {"id": task}.

    Source: o.a.k.connect.tools.VerifiableSourceTask (Kafka 4.3): names of settings, records, offsets and lines.
    Differs: a poll returns all records that are due, at most 500, Java's just one; so a transaction per poll is larger.
    Lines go to `file` if that is set. The keys of a line are in another order.
    """

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self._name, self._topic = props.get("name", ""), config[TOPIC_CONFIG]
        self._id = task_number(props, "VerifiableSourceTask")
        self._rate: int = config[THROUGHPUT_CONFIG]
        self._is_complete: bool = config[COMPLETE_RECORD_DATA_CONFIG]
        self._partition = {"id": self._id}
        offset = self.context.offset_storage_reader().offset(self._partition)
        self._first = self._next = 0 if offset is None else _seqno_of(offset) + 1
        self._lines = LineWriter(config[FILE_CONFIG])
        self._began = time.monotonic()
        log.info(
            "Started VerifiableSourceTask %s-%d producing to topic %s resuming from seqno %d",
            self._name,
            self._id,
            self._topic,
            self._first,
        )

    def poll(self) -> list[SourceRecord] | None:
        """The records that are due, or None after waiting for them."""
        due = self._due()
        if not due:
            self.context.wait(self._idle_s())
            return None
        now_ms = time.time_ns() // 1_000_000
        numbers = range(self._next, self._next + min(due, _MOST_RECORDS))
        self._lines.write([self._row(number, now_ms) for number in numbers])
        self._next = numbers.stop
        return [self._record(number, now_ms) for number in numbers]

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Write a line: Kafka has the record."""
        offset = record.source_offset or {}
        self._lines.write([{**self._row(offset["seqno"], time.time_ns() // 1_000_000), "committed": True}])

    def stop(self) -> None:
        if hasattr(self, "_lines"):
            self._lines.close()
            log.info("VerifiableSourceTask %s-%d stops before seqno %d", self._name, self._id, self._next)

    def _due(self) -> int:
        if self._rate < 0:
            return _MOST_RECORDS
        return int((time.monotonic() - self._began) * self._rate) - (self._next - self._first)

    def _idle_s(self) -> float:
        """Seconds until the next record is due."""
        if self._rate == 0:
            return _IDLE_S
        due_at = self._began + (self._next - self._first + 1) / self._rate
        return min(_IDLE_S, max(0.001, due_at - time.monotonic()))

    def _row(self, seqno: int, now_ms: int) -> dict[str, Any]:
        return {"name": self._name, "task": self._id, "topic": self._topic, "time_ms": now_ms, "seqno": seqno}

    def _record(self, seqno: int, now_ms: int) -> SourceRecord:
        value: Any = Struct(_VALUE_SCHEMA, self._row(seqno, now_ms)) if self._is_complete else seqno
        return SourceRecord(
            self._partition,
            {"seqno": seqno},
            self._topic,
            key_schema=Schema.INT32_SCHEMA,
            key=self._id,
            value_schema=_VALUE_SCHEMA if self._is_complete else Schema.INT64_SCHEMA,
            value=value,
        )


def _seqno_of(offset: Mapping[str, Any]) -> int:
    seqno = offset.get("seqno")
    if not isinstance(seqno, int) or isinstance(seqno, bool):
        raise DataError(f"An offset of VerifiableSource is {{'seqno': number}}, not {dict(offset)}")
    return seqno
