"""Connects a slot's log, standard output and standard input to its worker's."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading

from kconnect.errors import LinkError
from kconnect.logs.log_context import current_context
from kconnect.logs.redaction import redact
from kconnect.spark.link import Link
from kconnect.spark.messages import Console, LogLine

# A huge trace must not break the link; the rest of it helps nobody.
_MAX_TEXT = 200_000


class LinkLogHandler(logging.Handler):
    """Sends every log line to the worker; to standard error once the link is broken."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = redact(self.format(record))[:_MAX_TEXT]
            line = LogLine(
                record.levelno,
                record.name,
                record.lineno,
                record.created,
                record.threadName or "",
                str(current_context()),
                text,
            )
            self._link.send(line)
        except LinkError:
            sys.stderr.write(f"{record.levelname} {record.name}: {record.getMessage()}\n")
        except Exception:
            self.handleError(record)


def replay_log_line(line: LogLine, slot: int) -> None:
    """Log a slot's line in the worker, as if it had been written here."""
    logger = logging.getLogger(line.logger)
    if not logger.isEnabledFor(line.level):
        return
    record = logging.LogRecord(line.logger, line.level, "", line.line, line.text, None, None)
    record.created, record.msecs = line.created_s, (line.created_s % 1) * 1000
    record.threadName = f"slot-{slot}/{line.thread}"
    record.connect_context = line.context
    record.connect_slot = slot
    logger.handle(record)


class StdoutForwarder:
    """Between start and stop, this process's standard output goes to the worker's."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._saved: int | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        sys.stdout.flush()
        reading, writing = os.pipe()
        self._saved = os.dup(1)
        os.dup2(writing, 1)
        os.close(writing)
        self._thread = threading.Thread(target=self._pump, args=(reading,), name="slot-stdout", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Restore standard output and wait until everything is sent. Idempotent."""
        if self._saved is None or self._thread is None:
            return
        with contextlib.suppress(ValueError, OSError):  # the plugin closed it
            sys.stdout.flush()
        os.dup2(self._saved, 1)  # closes the last write end, so the pump reads end-of-file
        os.close(self._saved)
        self._saved = None
        self._thread.join(timeout_s)

    def _pump(self, reading: int) -> None:
        with os.fdopen(reading, "r", encoding="utf-8", errors="replace", newline="") as stream:
            while text := os.read(stream.fileno(), 65536):
                try:
                    self._link.send(Console(text.decode("utf-8", "replace")))
                except LinkError:
                    return  # the worker is gone, and this process ends


def borrow_stdin(worker_host: str, worker_pid: int) -> None:
    """Use the worker's standard input as ours where possible: on Linux, on the same machine.

    Elsewhere standard input stays empty, as Spark sets it.
    """
    path = f"/proc/{worker_pid}/fd/0"
    if worker_host != socket.gethostname() or not os.path.exists(path):
        return
    try:
        # NONBLOCK: opening a pipe that nobody writes to would wait; NOCTTY: a terminal must not become ours
        borrowed = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:  # a socket, or a terminal of another user
        return
    os.set_blocking(borrowed, True)
    os.dup2(borrowed, 0)
    os.close(borrowed)
