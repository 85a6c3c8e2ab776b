"""Texts of errors: a failed record in Java's words (class, stage, place, trace); an exception in one line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from kconnect.api import SinkRecord
from kconnect.errors import (
    ConfigError,
    ConnectError,
    DataError,
    RetriableError,
    SchemaBuilderError,
    SchemaProjectorError,
)
from kconnect.logs.redaction import redact
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.stages import Stage, StageError

_ERRORS = "org.apache.kafka.connect.errors."
_JAVA_ERRORS: dict[type, str] = {
    ConnectError: _ERRORS + "ConnectException",
    RetriableError: _ERRORS + "RetriableException",
    DataError: _ERRORS + "DataException",
    SchemaBuilderError: _ERRORS + "SchemaBuilderException",
    SchemaProjectorError: _ERRORS + "SchemaProjectorException",
    ConfigError: "org.apache.kafka.common.config.ConfigException",
}
_LONGEST_LINE = 500
_SINK_TASK = "org.apache.kafka.connect.sink.SinkTask"


def class_name(failure: StageError, java_name: Callable[[type], str]) -> str:
    """The class that failed: Java's name for classes we ship; for put() the one name Java uses for all tasks."""
    return _SINK_TASK if failure.stage is Stage.TASK_PUT else java_name(failure.plugin)


def exception_name(error: BaseException) -> str:
    """Java's name for an error that mirrors one of Java's or was thrown in Java, else Python's qualified name."""
    kind = type(error)
    thrown = str(getattr(error, "java_class", ""))
    if thrown:
        return thrown
    if kind in _JAVA_ERRORS:
        return _JAVA_ERRORS[kind]
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def exception_message(error: BaseException) -> str | None:
    """Its message without secrets; of what was thrown in Java that of Java, which may have none."""
    message = getattr(error, "java_message", None) if getattr(error, "java_class", "") else str(error)
    return redact(str(message)) if message else None


def exception_trace(error: BaseException) -> str:
    """Java's stack trace of what was thrown there; else its first line, class and message, then Python's traceback.

    It is without secrets.
    """
    if thrown := str(getattr(error, "java_trace", "")):
        return redact(thrown)
    message = exception_message(error)
    head = f"{exception_name(error)}: {message}" if message else exception_name(error)
    return redact(f"{head}\n" + "".join(traceback.format_exception(error)))


def log_text(
    task_id: object,
    failure: StageError,
    java_name: Callable[[type], str],
    original: FetchedRecord | None,
    *,
    include_messages: bool,
) -> str:
    """The line errors.log.enable asks for, in Java's words. Source: o.a.k.connect.runtime.errors.LogReporter."""
    where = _record_text(original if original is not None else failure.record) if include_messages else ""
    stage, name = failure.stage.value, class_name(failure, java_name)
    return f"Error encountered in task {task_id}. Executing stage '{stage}' with class '{name}'{where}."


def _record_text(record: Any) -> str:
    """The coordinates of a consumed record, without its contents; a source record as a whole."""
    if isinstance(record, FetchedRecord):
        topic, partition, offset = record.topic, record.kafka_partition, record.kafka_offset
    elif isinstance(record, SinkRecord):
        topic, partition = record.original_topic, record.original_kafka_partition
        offset = record.original_kafka_offset
    else:
        return f", where source record is = {record}"
    time = ""
    if record.timestamp is not None and record.timestamp_type.name != "NO_TIMESTAMP_TYPE":
        time = f", timestamp={record.timestamp}, timestampType={record.timestamp_type}"
    return f", where consumed record is {{topic='{topic}', partition={partition}, offset={offset}{time}}}"


def one_line(text: str) -> str:
    """A text as one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} .."


def cause_of(error: BaseException) -> str:
    """An error as one line: type, message, and the root cause unless the message has it already."""
    text = f"{type(error).__name__}: {error}"
    root = error
    while (earlier := root.__cause__) is not None:
        root = earlier
    if root is not error and str(root) not in text:
        text += f" (root cause: {type(root).__name__}: {root})"
    return one_line(text)
