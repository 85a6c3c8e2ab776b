"""Where source offsets are kept: the OffsetStore Protocol, in memory and in a file that Java reads and writes too."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from kconnect.errors import ConnectError, DataError
from kconnect.storage.java_map import dump_map, load_map
from kconnect.storage.offset_topic import canonical_key

__all__ = ["FileOffsetStore", "MemoryOffsetStore", "OffsetStore"]

log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Bytes to bytes; a value None is a tombstone. Threads: every method from any thread, after start().

    Keys that are equal in value (`canonical_key`) are one key. Source: OffsetBackingStore.
    """

    def start(self) -> None:
        """Read what is there. Errors: ConnectError that names the place."""
        ...

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        """The value of each key asked for, None where there is none."""
        ...

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Keep these values. Returns when they are durable; raises ConnectError when they are not."""
        ...

    def entries(self) -> dict[bytes, bytes | None]:
        """All there is, tombstones as well, in the order stored."""
        ...

    def stop(self) -> None:
        """Write what is not written yet. Idempotent."""
        ...


class MemoryOffsetStore:
    """Offsets that live as long as the process. Source: MemoryOffsetBackingStore."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # guarded by _lock: canonical form -> the key as first stored and its value
        self._data: dict[str | bytes, tuple[bytes, bytes | None]] = {}

    def start(self) -> None:
        return

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        with self._lock:
            return {key: self._data.get(canonical_key(key), (key, None))[1] for key in keys}

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        with self._lock:
            for key, value in entries.items():
                form = canonical_key(key)
                stored_key = self._data[form][0] if form in self._data else key
                self._data[form] = (stored_key, value)

    def entries(self) -> dict[bytes, bytes | None]:
        with self._lock:
            return dict(self._data.values())

    def stop(self) -> None:
        return


class FileOffsetStore:
    """Offsets in `offset.storage.file.filename`, in the format Java's worker reads and writes.

    Entries of connectors we do not know are kept. Source: FileOffsetBackingStore (Kafka 4.3).
    Differs: Java rewrites the file in place, so that a crash in the middle loses all offsets; we write a second file,
    make it durable and rename it. Commits that come while a write runs share the next write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._memory = MemoryOffsetStore()
        self._count_lock = threading.Lock()
        self._changes = 0  # guarded by _count_lock
        self._write_lock = threading.Lock()  # one writer; held over the write, whose followers wait for nothing else
        self._written = 0  # guarded by _write_lock: the changes up to here are in the file

    def start(self) -> None:
        """Read the file; a missing or empty one is fine. Errors: ConnectError, the file stays as it is."""
        folder = self._path.parent
        if not folder.is_dir():
            # Differs: Java says nothing until the first flush fails.
            log.warning("Folder %s of offset.storage.file.filename is missing: offsets can not be written", folder)
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as err:
            raise ConnectError(
                f"Can not read the offsets file {self._path} (offset.storage.file.filename): {err.strerror}",
                hint="Give this user the right to read and write the file, or name another one.",
            ) from err
        if not data:
            return
        try:
            self._memory.set(load_map(data))
        except DataError as err:
            raise ConnectError(
                f"The offsets file {self._path} (offset.storage.file.filename) is damaged or no offsets file: {err}",
                hint="It was left untouched. Restore it, or move it away to begin without offsets.",
            ) from err

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        return self._memory.get(keys)

    def entries(self) -> dict[bytes, bytes | None]:
        return self._memory.entries()

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        if not entries:
            return
        with self._count_lock:
            self._memory.set(entries)
            self._changes += 1
            mine = self._changes
        self._write_up_to(mine)

    def stop(self) -> None:
        with self._count_lock:
            last = self._changes
        self._write_up_to(last)

    def _write_up_to(self, change: int) -> None:
        with self._write_lock:
            if self._written >= change:
                return
            with self._count_lock:
                data, covered = dump_map(self._memory.entries()), self._changes
            try:
                _write_durably(self._path, data)
            except OSError as err:
                raise ConnectError(
                    f"Can not write the offsets file {self._path} (offset.storage.file.filename): {err.strerror}",
                    hint="Offsets are only in memory until it can be written: check the folder, its rights and space.",
                ) from err
            self._written = covered


def _write_durably(path: Path, data: bytes) -> None:
    """Replace the content in one step; through links, and in place where a second file is not possible."""
    target = Path(os.path.realpath(path))
    try:
        mode: int | None = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        _write_in_place(target, data)
        return
    try:
        _write_beside(target, data, mode)
    except OSError as err:
        # A file mounted on its own (container), or a folder we may not write in: the file itself may still be ours.
        if mode is None or err.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV, errno.EROFS):
            raise
        _write_in_place(target, data)


def _write_beside(target: Path, data: bytes, mode: int | None) -> None:
    beside = target.with_name(f".{target.name}.tmp")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()  # left over from a crash
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
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


def _write_in_place(target: Path, data: bytes) -> None:
    with target.open("wb") as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(OSError):  # devices and pipes can not be synced
            os.fsync(file.fileno())
