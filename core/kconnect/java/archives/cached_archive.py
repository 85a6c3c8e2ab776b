"""A JVM's class archive (AppCDS) in the cache: classes that an earlier run loaded, mapped into memory.

One archive for each Java, set of jars and flags. It is made once per user and machine, by a separate process
(maker.py); one maker runs at a time, whatever it makes. A broken archive crashes the JVM (seen with
OpenJDK 17, a cut file, -Xshare:auto), so a file is used only when its checksum is right; that is part of its name.

    spark-0f3a..-52c372a6.jsa   an archive; the last part is its checksum
    spark-0f3a...failed         why the last attempt failed; there is no other for a day
    .spark-0f3a...tmp           one that is being written
    .maker                      locked (flock) by the maker for as long as it lives; its text names what it makes
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kconnect.files.file_turn import turn

log = logging.getLogger(__name__)

_FORBIDDEN_BY = "KCONNECT_MAKE_CLASS_ARCHIVE"
# Archives take 50 to 75 MB each. Those of other virtual environments and Java versions stay while they are in use.
_KEEP = 3
_KEEP_UNUSED_S = 7 * 24 * 3600.0
# A JVM that cannot write archives should not try at every start.
_RETRY_FAILED_S = 24 * 3600.0
_LOOK_AGAIN_S = 0.2

ARCHIVE_FLAGS: Final = (
    "-Xshare:auto",
    # Its lines about class archives would go to standard output, or to a log that is a user's
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)
"""For each JVM that we start, whether it has an archive or not."""
RECORDS_AT_EXIT: Final = "-XX:ArchiveClassesAtExit"
# OpenJDK puts archives at a random address, as libraries are: each JVM rewrites all of them and shares nothing. At the
# address for which they were made a plugin JVM takes 45 MB, not 53, with three of them. A JVM that writes an archive
# does not start so.
_IN_PLACE: Final = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


def recording(unfinished: Path) -> tuple[str, ...]:
    """JVM options that have the classes of a run written at its end."""
    return (f"{RECORDS_AT_EXIT}={unfinished}",)


class ClassArchive:
    """The archive of one program with one Java, set of jars and flags. Safe when many processes use and make it.

    Shape: `program` begins the names of its files; `identity` is all that the JVM compares before it takes an archive.
    Errors: none where the folder cannot be read; there is no archive then.
    """

    def __init__(self, folder: Path, program: str, identity: Sequence[str]) -> None:
        digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
        self._folder = folder
        self._program = program
        self._stem = f"{program}-{digest}"
        self._path = self._find()

    @property
    def path(self) -> Path | None:
        """The archive to use; None when there is no intact one."""
        return self._path

    @property
    def unfinished(self) -> Path:
        """Where its maker has the JVM write it."""
        return self._folder / f".{self._stem}.tmp"

    def flags(self) -> list[str]:
        """JVM flags that use the archive."""
        return [f"-XX:SharedArchiveFile={self._path}", *_IN_PLACE] if self._path else []

    def discard(self) -> None:
        """Delete the archive: the JVM did not start with it."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # another process did it first
                self._path.unlink()
            self._path = None

    def should_be_made(self) -> bool:
        """Whether to start a maker: there is no archive, it is allowed, and the last attempt did not fail."""
        if self._path is not None or os.environ.get(_FORBIDDEN_BY, "").strip().lower() in ("no", "false", "0"):
            return False
        if self.failure() is not None:
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with turn(self._folder / ".maker", 0.0) as mine:
                return mine or self._being_made() != self._stem
        except OSError as error:
            log.debug("No class archive can be made in %s: %s", self._folder, error)
            return False

    @contextlib.contextmanager
    def sole_maker(self, timeout_s: float) -> Iterator[bool]:
        """Whether this process is to make the archive: False when there is one, or another process makes it.

        Waits up to `timeout_s` for a maker of another archive. Errors: OSError when the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        deadline_s = time.monotonic() + timeout_s
        while True:
            with turn(self._folder / ".maker", 0.0) as mine:
                if mine:
                    self._path = self._find()
                    if self._path is not None:
                        yield False
                        return
                    self._sweep_unfinished()
                    self._tell(self._stem)
                    try:
                        yield True
                    finally:
                        self._tell("")
                    return
            if self._being_made() == self._stem or time.monotonic() > deadline_s:
                yield False
                return
            time.sleep(_LOOK_AGAIN_S)  # the release of another process's lock cannot be waited for

    def finish(self) -> None:
        """Publish the file that the JVM wrote to `unfinished`. Call as the sole maker. Errors: OSError."""
        unfinished = self.unfinished
        self._path = self._folder / f"{self._stem}-{_checksum(unfinished)}.jsa"
        os.replace(unfinished, self._path)
        self._failed.unlink(missing_ok=True)
        self._sweep()

    def fail(self, reason: str) -> None:
        """Record that it could not be made: no background maker starts for a day."""
        self.unfinished.unlink(missing_ok=True)
        self._failed.write_text(reason + "\n")

    def failure(self) -> str | None:
        """Why it could not be made within the last day; None when no attempt failed."""
        with contextlib.suppress(OSError):
            if time.time() - self._failed.stat().st_mtime < _RETRY_FAILED_S:
                return self._failed.read_text().strip()
        return None

    @property
    def _failed(self) -> Path:
        return self._folder / f"{self._stem}.failed"

    def _being_made(self) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / ".maker").read_text()
        return ""

    def _tell(self, what: str) -> None:
        (self._folder / ".maker").write_text(what)

    def _find(self) -> Path | None:
        for path in sorted(self._folder.glob(f"{self._stem}-*.jsa")):
            try:
                whole = _checksum(path) == path.stem.rpartition("-")[2]
                if whole:
                    os.utime(path)
                    return path
                path.unlink()
            except OSError as error:
                log.debug("Class archive %s is not used: %s", path, error)
        return None

    def _sweep_unfinished(self) -> None:
        """Remove the files of killed makers. Call it with the lock held, so that no other maker writes."""
        for path in self._folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        used_s = {path: path.stat().st_mtime for path in self._folder.glob(f"{self._program}-*.jsa")}
        for path in sorted(used_s, key=used_s.__getitem__, reverse=True)[_KEEP:]:
            if time.time() - used_s[path] > _KEEP_UNUSED_S:
                path.unlink(missing_ok=True)


def _checksum(path: Path) -> str:
    # 30 ms for 50 MB; enough against a cut or torn file, which is what happens to a cache
    return f"{zlib.crc32(path.read_bytes()):08x}"
