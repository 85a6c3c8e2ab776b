"""The trail that a worker's settings ask for, and where its records go: a file, or a topic."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.worker_config import WorkerConfig
from kconnect.runtime.rest.audit.trail import AuditTrail, Sink

if TYPE_CHECKING:
    from kconnect.runtime.kafka.log_sender import LogSender

_OWNER_ONLY: Final = 0o600
# A broker that is there answers in milliseconds; the line is sent again afterwards
_ACKNOWLEDGED_S: Final = 10.0
_STOP_S: Final = 2.0


def audit_trail(config: WorkerConfig) -> AuditTrail | None:
    """Not started; None without an audit log. Errors: ConfigError."""
    own, sinks = config.kconnect, list[Sink]()
    if own.audit_log_file:
        try:
            sinks.append(FileSink(Path(own.audit_log_file), own.audit_log_max_bytes, own.audit_log_max_files))
        except ConnectError as err:
            raise ConfigError.invalid("kconnect.audit.log.file", own.audit_log_file, str(err)) from err
    if own.audit_log_topic:
        props = config.originals
        sinks.append(TopicSink(own.audit_log_topic, lambda: internal_clients(props, client_id="audit-log").producer))
    if not sinks and own.audit_log_required:
        raise ConfigError.invalid(
            "kconnect.audit.log.required",
            "true",
            "there is neither kconnect.audit.log.file nor kconnect.audit.log.topic",
        )
    return AuditTrail(sinks, is_required=own.audit_log_required) if sinks else None


class FileSink:
    """Implements Sink. A file that was moved away by somebody else is made again."""

    def __init__(self, path: Path, max_bytes: int, kept: int) -> None:
        """Errors: ConnectError if it cannot be opened: a worker without its audit log must not start."""
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._file: int | None = None
        self._open()

    @property
    def where(self) -> str:
        return f"The audit log {self._path} (kconnect.audit.log.file)"

    def write(self, line: bytes) -> None:
        try:
            file = self._open()
            size = os.fstat(file).st_size
            if size and size + len(line) > self._max_bytes:
                self._rotate()
                file, size = self._open(), 0
            self._append(file, size, line)
        except OSError as err:
            self.close()
            raise ConnectError(os.strerror(err.errno) if err.errno else str(err)) from err

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        """The open file, or a new one if it is no longer where it was."""
        try:
            if self._file is not None:
                found, now = os.fstat(self._file), self._path.stat()
                if (found.st_ino, found.st_dev) == (now.st_ino, now.st_dev):
                    return self._file
        except FileNotFoundError:
            pass
        self.close()
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
            os.fchmod(self._file, _OWNER_ONLY)
        except OSError as err:
            raise ConnectError(f"{self._path} cannot be opened: {os.strerror(err.errno or 0)}") from err
        return self._file

    def _append(self, file: int, size: int, line: bytes) -> None:
        """All of the line or nothing of it: on a full disk a part of it may have been written."""
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            os.ftruncate(file, size)
            raise

    def _rotate(self) -> None:
        self.close()
        for number in range(self._kept, 0, -1):
            older = self._path if number == 1 else self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        if self._kept == 0:
            self._path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class TopicSink:
    """Implements Sink. The topic must exist, unless the brokers create topics by themselves."""

    def __init__(self, topic: str, settings: Callable[[], Mapping[str, Any]]) -> None:
        """`settings`: librdkafka's, of a producer."""
        self._topic = topic
        self._settings = settings
        self._sender: LogSender | None = None

    @property
    def where(self) -> str:
        return f"The audit log in topic {self._topic} (kconnect.audit.log.topic)"

    def write(self, line: bytes) -> None:
        """A line that is not acknowledged in time is sent again, and may then be there twice (same `request_id`)."""
        sender = self._started()
        connector = json.loads(line)["connector"] or ""
        try:
            sender.send(connector.encode(), line.rstrip(b"\n")).result(_ACKNOWLEDGED_S)
        except FutureTimeoutError:
            self.close()
            raise ConnectError(f"no broker acknowledged it within {_ACKNOWLEDGED_S:g} s") from None

    def close(self) -> None:
        if self._sender is not None:
            sender, self._sender = self._sender, None
            sender.stop(_STOP_S)

    def _started(self) -> LogSender:
        if self._sender is None:
            from kconnect.runtime.kafka.log_sender import LogSender

            self._sender = LogSender(self._topic, self._settings(), is_idempotent=False)
            self._sender.start()
        return self._sender
