"""AuditTrail: lines on their way from requests to a file or topic, by a thread of its own.

States: new -> started -> stopped. A sink that fails is tried again with the same line, once a second; meanwhile lines
wait in a bounded queue. `is_required`: requests that change something are refused as long as lines cannot be written,
so that at most the queue is ever lost. Otherwise the queue overflows, and what is lost is counted.

`audit_trail` is the one that a worker's settings ask for: its records go to a file, or to a topic.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from kconnect.errors import ConfigError, ConnectError
from kconnect.files.folders import refuse_unwritable
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.live_settings import live_clients
from kconnect.runtime.config.worker_config import WorkerConfig
from kconnect.runtime.herder.health.reasons import Reason

if TYPE_CHECKING:
    from kconnect.runtime.kafka.log_sender import LogSender


log = logging.getLogger(__name__)

# Lines of some 1 kB: a minute of 16 changes a second, within a megabyte
_MOST_LINES: Final = 1000
_RETRY_S: Final = 1.0


class Sink(Protocol):
    """Where lines go. Called on the trail's thread only."""

    @property
    def where(self) -> str:
        """Its name, with the setting, for messages."""
        ...

    def write(self, line: bytes) -> None:
        """Errors: ConnectError; then nothing of the line is there, or all of it."""
        ...

    def close(self) -> None: ...


class AuditTrail:
    """Threads: `record` and the rest from any; the sink is used by its own thread alone."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        is_required: bool = False,
        most_lines: int = _MOST_LINES,
        closes_idle: bool = False,
    ) -> None:
        """`closes_idle`: the sinks, which open by themselves, are closed whenever nothing waits."""
        self.is_required = is_required
        self._closes_idle = closes_idle
        self._sinks = tuple(sinks)
        self._most_lines = most_lines
        self._changed = threading.Condition()  # guards the fields below
        self._lines: deque[Callable[[], bytes]] = deque()
        self._is_stopping = False
        self._problem: str | None = None
        self._since_ms = 0
        self.written = 0
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def record(self, line: Callable[[], bytes]) -> None:
        """Take a line, rendered later; never waits. One that finds the queue full is lost, logged and counted."""
        with self._changed:
            if len(self._lines) >= self._most_lines:
                self.lost += 1
                is_first = self.lost == 1
            else:
                self._lines.append(line)
                self._changed.notify()
                return
        log.log(logging.ERROR if is_first else logging.DEBUG, "A line of the audit log is lost: %s", self._problem)

    @property
    def problem(self) -> str | None:
        """Why lines cannot be written now; None if they can."""
        return self._problem

    @property
    def refuses_changes(self) -> bool:
        """Whether nothing may be changed, since it could not be written down."""
        with self._changed:
            is_full = len(self._lines) >= self._most_lines
        return self.is_required and (self._problem is not None or is_full)

    def reasons(self) -> Sequence[Reason]:
        """For `/health`: a worker that must write down changes and cannot is not healthy."""
        problem = self._problem
        if problem is None or not self.is_required:
            return ()
        return (Reason(f"Changes are refused, as they cannot be written to the audit log: {problem}", self._since_ms),)

    def stop(self, timeout_s: float = 2.0) -> None:
        """Write what waits, as far as that goes. Idempotent."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if self._lines:
            log.error(
                "The audit log has lost %s: %s", pluralize(len(self._lines), "line"), self._problem or "it is too slow"
            )
        for sink in self._sinks:
            sink.close()

    def _run(self) -> None:
        """The thread's top."""
        while (render := self._next()) is not None:
            line = _rendered(render)
            for sink in self._sinks:
                while not self._write(sink, line):
                    if self._wait_before_retry():
                        return
            with self._changed:
                self._lines.popleft()
                self.written += 1
                is_idle = not self._lines
            if is_idle and self._closes_idle:
                for sink in self._sinks:
                    sink.close()

    def _next(self) -> Callable[[], bytes] | None:
        """The oldest line, which stays in the queue; None at the end."""
        with self._changed:
            while not self._lines:
                if self._is_stopping:
                    return None
                self._changed.wait()
            return self._lines[0]

    def _write(self, sink: Sink, line: bytes) -> bool:
        try:
            sink.write(line)
        except ConnectError as err:
            why = f"{err} {err.hint or ''}".rstrip(" .")
            if self._problem is None:
                log.error("%s cannot be written: %s. %s", sink.where, why, self._consequence())
                self._since_ms = time.time_ns() // 1_000_000
            self._problem = f"{sink.where}: {why}"
            return False
        except Exception as err:  # top of the thread
            log.exception("%s failed", sink.where)
            self._problem = f"{sink.where}: {err}"
            return False
        if self._problem is not None:
            log.info("%s is written again", sink.where)
            self._problem = None
        return True

    def _consequence(self) -> str:
        if self.is_required:
            return "Changes over REST are refused until it can (kconnect.audit.log.required)."
        return f"The next {pluralize(self._most_lines, 'line')} can wait; changes are carried out."

    def _wait_before_retry(self) -> bool:
        """Whether to give up, since the worker stops."""
        with self._changed:
            if not self._is_stopping:
                self._changed.wait_for(lambda: self._is_stopping, _RETRY_S)
            return self._is_stopping


def _rendered(render: Callable[[], bytes]) -> bytes:
    try:
        return render()
    except Exception as err:  # top of the thread: what was done must not go unnoticed
        log.exception("A line of the audit log cannot be made")
        return (
            json.dumps({"connector": None, "outcome": "unknown", "message": f"{type(err).__name__}"}).encode() + b"\n"
        )


_FILE_SETTING: Final = "kconnect.audit.log.file"
_OWNER_ONLY: Final = 0o600
# A broker that is there answers in milliseconds; the line is sent again afterwards
_ACKNOWLEDGED_S: Final = 10.0
_STOP_S: Final = 2.0


def look_at_audit_log(config: WorkerConfig) -> None:
    """Writes nothing. Errors: ConfigError for an audit log without which a worker must not start."""
    own = config.kconnect
    if own.audit_log_file:
        path = Path(own.audit_log_file)
        if path.is_dir():
            raise ConfigError(f"{path} ({_FILE_SETTING}) is a folder.", hint="Name a file in it.")
        refuse_unwritable(path, _FILE_SETTING)
    elif own.audit_log_required and not own.audit_log_topic:
        raise ConfigError.invalid(
            "kconnect.audit.log.required",
            "true",
            "there is neither kconnect.audit.log.file nor kconnect.audit.log.topic",
        )


def audit_trail(config: WorkerConfig) -> AuditTrail | None:
    """Not started; None without an audit log. Errors: ConfigError."""
    look_at_audit_log(config)
    own, sinks = config.kconnect, list[Sink]()
    if own.audit_log_file:
        try:
            sinks.append(FileSink(Path(own.audit_log_file), own.audit_log_max_bytes, own.audit_log_max_files))
        except ConnectError as err:
            raise ConfigError.invalid(_FILE_SETTING, own.audit_log_file, str(err)) from err
    if own.audit_log_topic:
        props = config.originals
        live = live_clients(lambda: props, lambda: internal_clients(props, client_id="audit-log").producer)
        sinks.append(TopicSink(own.audit_log_topic, live.value))
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
        return f"The audit log {self._path} ({_FILE_SETTING})"

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
        """`settings`: librdkafka's, of a producer, as they are now."""
        self._topic = topic
        self._settings = settings
        self._made_of: Mapping[str, Any] | None = None
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
        settings = self._settings()
        if settings is not self._made_of:
            self.close()
        if self._sender is None:
            from kconnect.runtime.kafka.log_sender import LogSender

            self._sender, self._made_of = LogSender(self._topic, settings, is_idempotent=False), settings
            self._sender.start()
        return self._sender
