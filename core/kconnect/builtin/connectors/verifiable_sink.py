"""VerifiableSink: writes a JSON line for each record put and another when it is flushed, for tests to count."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from kconnect.api import ConfigDef, SinkConnector, SinkRecord, SinkTask, Struct, TopicPartition
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.numbered_tasks import numbered_configs, task_number
from kconnect.builtin.connectors.verifiable_lines import LineWriter
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

FILE_CONFIG = "file"

CONFIG = ConfigDef().define(
    FILE_CONFIG,
    ConfigDef.Type.STRING,
    None,
    None,
    ConfigDef.Importance.LOW,
    "File that gets a line of JSON for each record put, and for each flushed; standard output when it is not set.",
)


class VerifiableSinkConnector(SinkConnector):
    """Has as many tasks as requested. Source: o.a.k.connect.tools.VerifiableSinkConnector (Kafka 4.3)."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        CONFIG.parse(props)
        self._props = props

    def task_class(self) -> type[SinkTask]:
        return VerifiableSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return numbered_configs(self._props, max_tasks)

    def stop(self) -> None:
        """Nothing runs besides the tasks."""

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[Any, int | None]) -> bool:
        """Any offset is valid: written lines stay."""
        return True


class VerifiableSinkTask(SinkTask):
    """Writes the lines of a put before it returns; each put or flush is one write.

    Source: o.a.k.connect.tools.VerifiableSinkTask (Kafka 4.3): names of settings, lines, and when they are written.
    Differs: lines go to `file` if that is set; a struct is written as an object, which Java cannot write; the keys of a
    line are in another order.
    """

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        file = CONFIG.parse(props)[FILE_CONFIG]
        self._name = props.get("name", "")
        self._id = task_number(props, "VerifiableSinkTask")
        self._unflushed: dict[TopicPartition, list[dict[str, Any]]] = {}
        self._count = 0
        self._lines = LineWriter(file)
        log.info("Started VerifiableSinkTask %s-%d", self._name, self._id)

    def put(self, records: list[SinkRecord]) -> None:
        if not records:
            return
        now_ms = time.time_ns() // 1_000_000
        rows = [(record, self._row(record, now_ms)) for record in records]
        self._lines.write([row for _, row in rows])
        self._count += len(rows)
        for record, row in rows:
            partition = TopicPartition(record.topic, record.kafka_partition or 0)
            self._unflushed.setdefault(partition, []).append(row)

    def flush(self, current_offsets: Mapping[TopicPartition, int]) -> None:
        """Write a flushed line for each record put since the last flush."""
        now_ms = time.time_ns() // 1_000_000
        flushed = [row for partition in current_offsets for row in self._unflushed.pop(partition, ())]
        self._lines.write([{**row, "time_ms": now_ms, "flushed": True} for row in flushed])

    def stop(self) -> None:
        if hasattr(self, "_lines"):
            self._lines.close()
            log.info("VerifiableSinkTask %s-%d stops after %s", self._name, self._id, pluralize(self._count, "record"))

    def _row(self, record: SinkRecord, now_ms: int) -> dict[str, Any]:
        return {
            "name": self._name,
            "task": _plain(record.key),  # of VerifiableSource
            "sinkTask": self._id,
            "topic": record.topic,
            "time_ms": now_ms,
            "seqno": _plain(record.value),
            "offset": record.kafka_offset,
        }


def _plain(value: Any) -> Any:  # whatever a converter gave
    return (
        {field.name: _plain(value[field.name]) for field in value.schema.fields} if isinstance(value, Struct) else value
    )
