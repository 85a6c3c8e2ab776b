"""JSON lines that the verifiable connectors write, from which a test can tell what was moved, and when."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from kconnect.api import ConnectError
from kconnect.builtin.connectors.atomic_writes import write_whole


class LineWriter:
    """Appends to a file, or to standard output if `file` is empty. Each `write` is one system call.

    So lines of several tasks do not interleave. A kill may leave an unfinished line; the next writer that opens the
    file terminates it first.
    """

    def __init__(self, file: str | None) -> None:
        self._name = file or "standard output"
        self._owns_fd = bool(file)
        if not file:
            self._fd = sys.__stdout__.fileno()  # type: ignore[union-attr]  # None only without a console
            return
        try:
            self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            if not _is_whole(self._fd):
                os.write(self._fd, b"\n")
        except OSError as error:
            raise ConnectError(
                f"File {file} of the verifiable connector cannot be opened: {error.strerror}",
                hint="The folder must exist and be writable for the user the worker runs as.",
            ) from error

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append a line for each. Errors: ConnectError (disk full)."""
        lines = "".join([json.dumps(row, separators=(",", ":"), default=str) + "\n" for row in rows]).encode()
        write_whole(self._fd, lines, self._name)

    def close(self) -> None:
        if self._owns_fd:
            os.close(self._fd)
            self._owns_fd = False


def _is_whole(fd: int) -> bool:
    """Whether a file ends with a line end, is empty, or has no readable end (a pipe)."""
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
    except OSError:
        return True
    return size == 0 or os.pread(fd, 1, size - 1) in (b"\n", b"")
