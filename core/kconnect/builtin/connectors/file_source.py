"""FileStreamSource: the lines of a file, or of standard input, as records.

The task reads a large chunk, splits it into lines in native code and hands the whole chunk on as one RecordBatch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectError,
    DataError,
    ExactlyOnceSupport,
    PresentTime,
    RecordBatch,
    Schema,
    SourceConnector,
    SourceTask,
)
from kconnect.builtin.connectors.file_tail import FileTail, StreamTail, Tail
from kconnect.builtin.connectors.inotify import FileWatch, watch_file
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

FILE_CONFIG = "file"
TOPIC_CONFIG = "topic"
BATCH_SIZE_CONFIG = "batch.size"
FILENAME_FIELD = "filename"
POSITION_FIELD = "position"

CONFIG = (
    ConfigDef()
    .define(
        FILE_CONFIG,
        ConfigDef.Type.STRING,
        None,
        None,
        ConfigDef.Importance.HIGH,
        "File to read; standard input when it is not set.",
    )
    .define(
        TOPIC_CONFIG,
        ConfigDef.Type.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        ConfigDef.Importance.HIGH,
        "Topic the lines go to.",
    )
    .define(
        BATCH_SIZE_CONFIG,
        ConfigDef.Type.INT,
        2000,
        None,
        ConfigDef.Importance.LOW,
        "Most records that one poll gives. While it is not set, a poll gives the lines of one chunk of 1 MiB.",
    )
)

# First and longest wait of a poll that found nothing. 2 ms keeps the latency of an active file low. An idle poll costs
# 4 us of CPU (measured), so at 100 ms the wake-up of the thread dominates.
IDLE_FIRST_S = 0.002
IDLE_LAST_S = 0.1
# The longest wait if the system reports changes, but not those made by other machines over a network.
IDLE_WATCHED_S = 0.5
# The longest if it reports all: fruitless reads are most of the cost of an idle source.
IDLE_LOCAL_S = 5.0


class FileStreamSourceConnector(SourceConnector):
    """Reads one file, in one task. Source: o.a.k.connect.file.FileStreamSourceConnector (Kafka 4.3)."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self._props = props
        log.info("Starting file source connector reading from %s", config[FILE_CONFIG] or "standard input")

    def task_class(self) -> type[SourceTask]:
        return FileStreamSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One config regardless of `max_tasks`: a file is one stream."""
        return [dict(self._props)]

    def stop(self) -> None:
        """Nothing runs besides the task."""

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported for a file; not for standard input, which has no position."""
        if CONFIG.parse(config)[FILE_CONFIG]:
            return ExactlyOnceSupport.SUPPORTED
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse impossible offsets; resets (None) are always valid, so that garbage can be cleaned up."""
        if not CONFIG.parse(config)[FILE_CONFIG]:
            raise ConfigError(
                f"Offsets cannot be modified if the '{FILE_CONFIG}' configuration is unspecified. "
                "This is because stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is not None:
                _check_offset(partition, offset)
        return True


def _check_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any]) -> None:
    if POSITION_FIELD not in offset:
        raise DataError(f"Offset objects should either be null or contain the key '{POSITION_FIELD}'")
    position = offset[POSITION_FIELD]
    if not isinstance(position, int) or isinstance(position, bool):
        raise DataError(f"The value for the '{POSITION_FIELD}' key in the offset is expected to be a Long value")
    if position < 0:
        raise DataError(f"The value for the '{POSITION_FIELD}' key in the offset should be a non-negative value")
    if partition is None:
        raise DataError("Partition objects cannot be null")
    if FILENAME_FIELD not in partition:
        raise DataError(f"Partition objects should contain the key '{FILENAME_FIELD}'")


class FileStreamSourceTask(SourceTask):
    r"""Follows a file as `tail -F` does and gives its lines as batches of strings.

    Source: o.a.k.connect.file.FileStreamSourceTask (Kafka 4.3): lines end with \n, \r\n or \r, the last line waits for
    its end, bytes that are no UTF-8 become U+FFFD, the offset is {"position": bytes} of the partition {"filename": text
    of the setting}.
    Differs: Java counts characters where it stores a position, so that after a restart it reads the wrong place of a
    file that is not ASCII; we count bytes. Java stalls silently after a rotation, a truncation or with an offset past
    the end; we continue at the start of the file with a warning. Java takes the time of a line as it reads it; we take
    it when a transformation asks for it, else when Kafka's client takes the line, milliseconds later. Java returns at
    most 2000 records a poll; we do if `batch.size` is set, else the chunk decides: lines of 100 B to JSON cost 0.16 us
    each in chunks of 1 MiB, 0.21 us in batches of 2000, 0.48 us in batches of 500 (tests/bench/micro_stages.py).
    """

    def __init__(self, stdin_fd: int = 0) -> None:
        self._stdin_fd = stdin_fd
        self._tail: Tail | None = None
        self._ready: RecordBatch | None = None
        self._idle_s = IDLE_FIRST_S
        self._watch: FileWatch | None = None

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self._topic: str = config[TOPIC_CONFIG]
        self._file: str | None = config[FILE_CONFIG] or None
        self._max_records: int | None = config[BATCH_SIZE_CONFIG] if BATCH_SIZE_CONFIG in props else None
        self._partition = {FILENAME_FIELD: self._file}
        if self._max_records is not None and self._max_records < 1:
            self._max_records = 1  # Java checks the size after adding a record
        self._tail = StreamTail(self._stdin_fd) if self._file is None else None

    def poll(self) -> RecordBatch | None:
        """The next lines, or None after waiting if there are none.

        The wait ends when the file changes; if the system does not report that, it grows from 2 to 100 ms.
        """
        batch = self._ready or self._read()
        if batch is None:
            self._await_lines()
            return None
        self._idle_s = IDLE_FIRST_S
        self._ready = None
        limit = self._max_records
        if limit is not None and len(batch) > limit:
            self._ready = batch.slice(limit, len(batch) - limit)
            batch = batch.slice(0, limit)
        return batch

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _await_lines(self) -> None:
        if self._watch is None and self._file is not None:
            self._watch = watch_file(self._file, self.context.wake)
            if self._watch is not None:
                return  # changes since the last read are not reported anymore: read once more
        self.context.wait(self._idle_s)
        self._idle_s = min(self._idle_s * 2, self._longest_wait_s())

    def _longest_wait_s(self) -> float:
        if self._watch is None:
            return IDLE_LAST_S
        return IDLE_LOCAL_S if self._watch.hears_all else IDLE_WATCHED_S

    def _read(self) -> RecordBatch | None:
        tail = self._tail
        if tail is None:
            assert self._file is not None
            tail = self._tail = FileTail(self._file, self._committed_position())
        lines = tail.read_lines()
        if lines is None:
            return None
        return RecordBatch(
            topic=self._topic,
            value_schema=Schema.STRING_SCHEMA,
            value=lines.text,
            timestamp=PresentTime(),
            source_partition=self._partition,
            source_offsets={POSITION_FIELD: lines.positions},
        )

    def _committed_position(self) -> int:
        offset = self.context.offset_storage_reader().offset(self._partition)
        position = None if offset is None else offset.get(POSITION_FIELD)
        if position is None:
            return 0
        if not isinstance(position, int) or isinstance(position, bool):
            raise ConnectError(
                "Offset position is the incorrect type",
                hint=f'The committed offset of {self._file} is {offset}; reset it, or set {{"position": <bytes>}}.',
            )
        return position
