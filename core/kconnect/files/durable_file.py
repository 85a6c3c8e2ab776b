"""DurableFile: a file replaced atomically, with foreign changes copied aside before they are lost.

`write_whole` is for any file: who reads one sees the old or the new content, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kconnect.errors import ConnectError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Mark:
    """Identifies a file's content without reading it; a rename keeps all three."""

    inode: int
    size: int
    modified_ns: int


class DurableFile:
    """A file that one process rewrites. Threads: one at a time. Errors: OSError.

    A write goes to a second file, is synced and renamed, so that a crash leaves the old or the new content.
    What another process wrote meanwhile is copied aside first: nothing is lost silently.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: _Mark | None = None  # of the file as last read or written; None if it did not exist
        self._content = b""

    def read(self) -> bytes | None:
        """The content; None if the file does not exist."""
        try:
            with self._path.open("rb") as file:
                self._mark, self._content = _mark(os.fstat(file.fileno())), file.read()
        except FileNotFoundError:
            return None
        return self._content

    def replace(self, data: bytes) -> None:
        """Write `data` durably; follows links, and writes in place where a second file is impossible."""
        target = Path(os.path.realpath(self._path))
        self._keep_foreign(target)
        self._mark = _write_durably(target, data)
        self._content = data

    def keep_copy(self, label: str, now: datetime) -> Path:
        """Copy what was last read to `NAME.LABEL-TIME` beside the file, with its mode; an equal copy is reused."""
        target = Path(os.path.realpath(self._path))
        for earlier in sorted(target.parent.glob(f"{_escaped(target.name)}.{label}-*")):
            if earlier.is_file() and earlier.read_bytes() == self._content:
                return earlier
        mode = stat.S_IMODE(target.stat().st_mode)
        first = target.with_name(f"{target.name}.{label}-{now:%Y%m%dT%H%M%SZ}")
        for number in range(1, 1000):
            copy = first if number == 1 else first.with_name(f"{first.name}-{number}")
            with contextlib.suppress(FileExistsError):
                _write_new(copy, self._content, mode)
                return copy
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(first))

    def _keep_foreign(self, target: Path) -> None:
        """Copy the file aside if its content is not what we last read or wrote."""
        try:
            status = target.stat()
            if not stat.S_ISREG(status.st_mode) or _mark(status) == self._mark:
                return
            found = target.read_bytes()
        except FileNotFoundError:
            if self._mark is not None:
                log.warning("%s was removed while it was in use; it is written again", self._path)
            return
        if found in (b"", self._content):
            if found != self._content:
                log.warning("%s was emptied by somebody else; all that was in it is written again", self._path)
            return
        ours, self._content = self._content, found
        try:
            copy = self.keep_copy("changed", datetime.fromtimestamp(status.st_mtime, tz=UTC))
        finally:
            self._content = ours
        log.warning("%s was changed by somebody else while it was in use; what it held is kept in %s", self._path, copy)


def _mark(status: os.stat_result) -> _Mark:
    return _Mark(status.st_ino, status.st_size, status.st_mtime_ns)


def _escaped(name: str) -> str:
    """A name escaped for glob()."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _write_durably(target: Path, data: bytes) -> _Mark:
    try:
        mode: int | None = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        return _write_in_place(target, data)
    try:
        return _write_beside(target, data, mode)
    except OSError as err:
        # A file mounted on its own (container), or a read-only folder: the file itself may still be writable.
        if mode is None or err.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV, errno.EROFS):
            raise
        return _write_in_place(target, data)


def _write_beside(target: Path, data: bytes, mode: int | None) -> _Mark:
    beside = target.with_name(f".{target.name}.tmp")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()  # left over from a crash
    mark = _write_new(beside, data, None if mode is None else stat.S_IMODE(mode))
    try:
        beside.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return mark


def _write_new(path: Path, data: bytes, mode: int | None) -> _Mark:
    """Create a new file durably; if that fails, no file remains."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            return _mark(os.fstat(file.fileno()))
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _write_in_place(target: Path, data: bytes) -> _Mark:
    with target.open("wb") as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(OSError):  # devices and pipes cannot be synced
            os.fsync(file.fileno())
        return _mark(os.fstat(file.fileno()))


_OWNER_ONLY: Final = 0o600


def replace_file(path: Path, text: str, *, is_secret: bool = False) -> None:
    """Write a file: the one that was there stays until the new one is complete. Errors: ConnectError.

    With `is_secret` only its owner may read it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        mode = _OWNER_ONLY if is_secret else 0o666
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    except OSError as err:
        raise ConnectError(f"{path} cannot be written: {err.strerror}") from err
    finally:
        beside.unlink(missing_ok=True)
