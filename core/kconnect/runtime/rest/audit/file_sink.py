"""The audit log as a file that only its owner may read, with older ones beside it: audit.log, audit.log.1, .2 .."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kconnect.errors import ConnectError

_OWNER_ONLY: Final = 0o600


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
