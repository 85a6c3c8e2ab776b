"""Reread: what files say, read again when they change: certificates, users, roles."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

from kconnect.errors import ConnectError

T = TypeVar("T")
Version: TypeAlias = tuple[int, int, int] | None

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
        also: Callable[[], object] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`reported` and `failed` are called after a change. Errors: ConnectError, of `read` or with the files' names.

        `also`: what else a change of has the files read again. A value that equals the one before is no change.
        """
        self._read, self._files, self._also = read, files, also
        self._reported, self._failed = reported, failed
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards the fields below; readers of `_value` need none
        self._changed: tuple[Path, ...] = ()
        self._seen, self._seen_also = self._versions(), also()
        self._value = self._read_now()
        self._looked_s = monotonic()
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the newest version of the files does not hold; None if it does."""
        return self._problem

    @property
    def changed(self) -> tuple[Path, ...]:
        """The files that differed when they were last read again; for messages."""
        return self._changed

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
        versions, also = self._versions(), self._also()
        if versions == self._seen and also == self._seen_also:
            return
        self._changed = tuple(path for path in versions if versions[path] != self._seen.get(path))
        self._seen, self._seen_also = versions, also
        try:
            value = self._read_now()
        except ConnectError as err:
            self._problem = str(err)
            self._failed(err)
            return
        self._problem = None
        if value != self._value:
            self._value = value
            self._reported(value)

    def _read_now(self) -> T:
        """A file may fail its reader in ways that no reader foresees, such as by 5,000 nested brackets."""
        try:
            return self._read()
        except ConnectError:
            raise
        except Exception as err:
            files = ", ".join(map(str, self._changed or self._seen)) or "A file"
            raise ConnectError(f"{files} cannot be read: {type(err).__name__}: {err}.") from err

    def _versions(self) -> dict[Path, Version]:
        """What differs when a file does."""
        try:
            return {path: version_of(path) for path in self._files()}
        except Exception:  # which files there are stands in one of them, and reading it says what is wrong
            return {}


def version_of(path: Path) -> Version:
    """What differs when the file does; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def digest_of(path: Path) -> bytes | None:
    """What differs when the content of the file does; None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
