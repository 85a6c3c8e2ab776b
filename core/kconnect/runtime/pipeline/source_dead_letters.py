"""The dead letter queue of a source: records that no transformation or converter could handle, as JSON with schema."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConnectHeaders, ConnectRecord
from kconnect.errors import ConnectError
from kconnect.runtime.kafka import DeliveryFailure, KafkaAdmin, KafkaRecord
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.dead_letter import context_headers, ensure_topic
from kconnect.runtime.pipeline.stages import Stage, StageError

if TYPE_CHECKING:
    from kconnect.runtime.config.connector_config import DeadLetterSettings
    from kconnect.runtime.pipeline.ports import TaskControl
    from kconnect.runtime.plugins import PluginRegistry

SOURCE_HEADER: Final = "__connect.source"
"""The header that every dead letter of a source has: JSON, see `source_note`."""
LETTER_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
# What of a record is written as text where JSON has no form for it; such a dead letter can be read and not replayed
_PARTS: Final = ("key", "value", "headers")


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a record was to go. Implements dead_letter.Place."""

    topic: str
    kafka_partition: int | None
    kafka_offset: int | None = None


class SourceDeadLetters:
    """Makes a dead letter of each record that was given up. Implements ErrorReporter.

    A dead letter goes with the unit of the poll that its record came from (UnitSender): the offset behind the record is
    committed once the dead letter is acknowledged, or in the same transaction. Key, value and headers are JSON with
    schema of the record as the failed stage got it, whatever the connector's converters are; `__connect.source` says
    what the bytes cannot: where the record was to go, where it came from, how far it had got.
    Lifecycle: constructed -> start() creates a missing topic -> ( report()* -> take() )*. Threads: the task's, except
    for refused(). Errors: a dead letter that Kafka rejects fails the task, so that nothing is lost.
    Differs: Java's sources have no dead letter queue; it ignores these settings.
    """

    def __init__(
        self,
        settings: DeadLetterSettings,
        control: TaskControl,
        converters: Converters,
        open_admin: Callable[[], KafkaAdmin],
        java_name: Callable[[type], str],
    ) -> None:
        self.topic = settings.topic
        self.requests = 0
        self.failures = 0
        self._settings = settings
        self._control = control
        self._converters = converters
        self._open_admin = open_admin
        self._java_name = java_name
        self._waiting: list[KafkaRecord] = []
        self._lock = threading.Lock()  # guards `failures`

    def start(self) -> None:
        """Make sure the topic exists. Errors: ConnectError when it does not exist and cannot be created."""
        with self._open_admin() as admin:
            ensure_topic(admin, self._settings, lambda: self._control.is_stopping)

    def report(self, failure: StageError, attempts: int) -> None:
        """Keep the dead letter for the unit that is sent next."""
        record: ConnectRecord = failure.record
        made, lossy = _bytes_of(record, self._converters)
        note = source_note(failure, self._control.spec.id.connector, lossy)
        headers = [*(made.headers or ()), (SOURCE_HEADER, json.dumps(note, default=repr).encode())]
        if self._settings.context_headers:
            target = _Target(record.topic, record.kafka_partition)
            headers += context_headers(target, failure, self._control.spec.id, self._java_name)
        self.requests += 1
        timestamp = record.timestamp if record.timestamp is not None and record.timestamp >= 0 else None
        self._waiting.append(KafkaRecord(self.topic, None, made.key, made.value, timestamp, headers))

    def take(self) -> list[KafkaRecord]:
        """The dead letters since the last call."""
        taken, self._waiting = self._waiting, []
        return taken

    def refused(self, failure: DeliveryFailure) -> None:
        """Kafka rejected a dead letter. Threads: any."""
        with self._lock:
            self.failures += 1
        failure.error.hint = failure.error.hint or (
            f"Check {self.topic} and its max.message.bytes; no offset past the record is committed."
        )


def source_note(failure: StageError, connector: str, lossy: list[str]) -> Mapping[str, Any]:
    """What a dead letter says of its record beside key, value and headers, as plain JSON.

    `stepsDone`: the transformations that it had passed; None: all, as a converter failed. `lossy`: the parts that are
    text because JSON has no form for them.
    """
    record = failure.record
    return {
        "connector": connector,
        "topic": record.topic,
        "partition": record.kafka_partition,
        "timestamp": record.timestamp,
        "stage": failure.stage.value,
        "stepsDone": failure.steps_done if failure.stage is Stage.TRANSFORMATION else None,
        "sourcePartition": getattr(record, "source_partition", None),
        "sourceOffset": getattr(record, "source_offset", None),
        "lossy": lossy,
    }


def make_letter_converters(plugins: PluginRegistry) -> Converters:
    """The converters that dead letters of sources are written, and read again, with: JSON with schemas."""
    settings = {"schemas.enable": "true"}
    key, value = plugins.converter(LETTER_CONVERTER)(), plugins.converter(LETTER_CONVERTER)()
    header = plugins.header_converter(LETTER_CONVERTER)()
    key.configure(settings, is_key=True)
    value.configure(settings, is_key=False)
    header.configure({**settings, "converter.type": "header"})
    return Converters(key, value, header)


def _bytes_of(record: ConnectRecord, converters: Converters) -> tuple[KafkaRecord, list[str]]:
    """The record as JSON with schema, and the names of the parts that could only be written as text."""
    try:
        return _made(record, converters), []
    except StageError:
        lossy: list[str] = []
    for part in _PARTS:  # the schema may be what is wrong: the value alone, then its text
        if _is_writable(record, part, converters):
            continue
        lossy.append(part)
        record = _with_text(record, part)
    return _made(record, converters), lossy


def _made(record: ConnectRecord, converters: Converters) -> KafkaRecord:
    made = converters.to_kafka_record(record)
    if made is None:
        raise ConnectError("Converters without a policy drop nothing")
    return made


def _is_writable(record: ConnectRecord, part: str, converters: Converters) -> bool:
    kept = {"key": record.key, "value": record.value}
    schemas = {"key": record.key_schema, "value": record.value_schema}
    alone = record.new_record(
        key_schema=schemas["key"] if part == "key" else None,
        key=kept["key"] if part == "key" else None,
        value_schema=schemas["value"] if part == "value" else None,
        value=kept["value"] if part == "value" else None,
        headers=record.headers if part == "headers" else ConnectHeaders(),
    )
    try:
        _made(alone, converters)
    except StageError:
        return False
    return True


def _with_text(record: ConnectRecord, part: str) -> ConnectRecord:
    if part == "key":
        return record.new_record(key_schema=None, key=repr(record.key))
    if part == "value":
        return record.new_record(value_schema=None, value=repr(record.value))
    headers = ConnectHeaders()
    for header in record.headers:
        headers.add(header.key, repr(header.value), None)
    return record.new_record(headers=headers)
