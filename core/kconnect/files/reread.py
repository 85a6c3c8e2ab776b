"""Reread: what files say, read again when they change: certificates, users, roles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

from kconnect.errors import ConnectError

T = TypeVar("T")
_Version: TypeAlias = tuple[tuple[int, int, int] | None, ...]

# How old the answer to "has it changed?" may be: what an administrator does not notice, and a request does not pay
LOOK_EVERY_S: Final = 1.0


class Reread(Generic[T]):
    """The value that holds. Threads: any.

    Changed files take effect with the first use after a second. What cannot be read is reported once for each version
    of the files, and the value from before stays: files that belong together change one after the other.
    """

    def __init__(
        self,
        read: Callable[[], T],
        files: Callable[[], Iterable[Path]],
        *,
        reported: Callable[[T], None],
        failed: Callable[[ConnectError], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`reported` and `failed` are called after a change. Errors: those of `read`."""
        self._read, self._files = read, files
        self._reported, self._failed = reported, failed
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards the fields below; readers of `_value` need none
        self._seen = self._version()
        self._value = read()
        self._looked_s = monotonic()
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the newest version of the files does not hold; None if it does."""
        return self._problem

    def value(self) -> T:
        """What holds now. Costs a clock's reading, and a look at the files once a second."""
        if self._monotonic() - self._looked_s >= LOOK_EVERY_S and self._lock.acquire(blocking=False):
            try:
                self._looked_s = self._monotonic()
                self._look()
            finally:
                self._lock.release()
        return self._value

    def _look(self) -> None:
        version = self._version()
        if version == self._seen:
            return
        self._seen = version
        try:
            self._value = self._read()
        except ConnectError as err:
            self._problem = str(err)
            self._failed(err)
        else:
            self._problem = None
            self._reported(self._value)

    def _version(self) -> _Version:
        """What differs when a file does; nothing of one that is not there."""
        try:
            files = list(self._files())
        except ConnectError:  # which files there are stands in one of them
            return ()
        return tuple(map(_version_of, files))


def _version_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
