"""The JVM's class archive (AppCDS): Spark's classes as an earlier run laid them out, mapped instead of loaded.

Measured on 2 cores: JVM and SparkContext ready after 1.1 s with the archive, 1.7 s without. A JVM that shall write one
takes 3.6 s, so the first worker starts without and lets a process of low priority make it (make_archive.py). A broken
archive crashes the JVM (seen with OpenJDK 17, a cut file, -Xshare:auto), so a file is used only when its checksum is
right; that is part of its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kconnect.errors import EnvironmentProblemError

__all__ = ["RECORDING", "ClassArchive"]

log = logging.getLogger(__name__)

RECORDING = "-XX:+RecordDynamicDumpInfo"
"""The flag of a JVM that can write an archive."""

# Java versions, Spark versions and flags in use on one machine; each archive takes 50 MB.
_KEEP = 3


class ClassArchive:
    """The archive of one combination of Java, Spark and flags. Safe when many processes use and make it at once."""

    def __init__(self, folder: Path, identity: Sequence[str]) -> None:
        digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
        self._folder = folder
        self._stem = f"spark-{digest}"
        self._path = self._find()

    @property
    def path(self) -> Path | None:
        """The archive to use, None when there is none that is whole."""
        return self._path

    def flags(self) -> list[str]:
        """JVM flags that use the archive."""
        return [f"-XX:SharedArchiveFile={self._path}"] if self._path else []

    @contextlib.contextmanager
    def sole_maker(self) -> Iterator[bool]:
        """Whether this process is to make the archive: False when there is one, or another process is at it."""
        claim = self._folder / f".{self._stem}.maker"
        self._folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError, ValueError):
            if not _lives(int(claim.read_text())):
                claim.unlink()
        try:
            with claim.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            yield False
            return
        try:
            yield self._find() is None
        finally:
            claim.unlink(missing_ok=True)

    def discard(self) -> None:
        """Throw the archive away: the JVM did not start with it."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # another process did it first
                self._path.unlink()
            self._path = None

    def dump(self, gateway: Any) -> None:
        """Write the archive from a running JVM that was started with RECORDING. Errors: whatever the JVM raised."""
        unfinished = self._folder / f".{self._stem}-{os.getpid()}.tmp"
        unfinished.unlink(missing_ok=True)
        said = _ask_jvm_to_dump(gateway, unfinished)
        if not unfinished.exists():
            raise EnvironmentProblemError(f"The JVM wrote no class archive: {said}")
        os.replace(unfinished, self._folder / f"{self._stem}-{_checksum(unfinished)}.jsa")
        self._sweep()

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

    def _sweep(self) -> None:
        archives = sorted(self._folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in archives[_KEEP:]:
            path.unlink(missing_ok=True)
        for path in self._folder.glob(".spark-*.tmp"):  # left by a process that was killed while it wrote
            pid = path.stem.rpartition("-")[2]
            if pid.isdigit() and not _lives(int(pid)):
                path.unlink(missing_ok=True)


def _checksum(path: Path) -> str:
    # 30 ms for 50 MB; enough against a cut or torn file, which is what happens to a cache
    return f"{zlib.crc32(path.read_bytes()):08x}"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ask_jvm_to_dump(gateway: Any, path: Path) -> str:
    """What `jcmd VM.cds dynamic_dump` does, from inside: a JRE has no jcmd. By reflection, since py4j cannot call a
    method of a class that its module does not export.
    """
    jvm = gateway.jvm
    java_class = jvm.java.lang.Class
    types = gateway.new_array(java_class, 4)
    names = ("javax.management.ObjectName", "java.lang.String", "[Ljava.lang.Object;", "[Ljava.lang.String;")
    for index, name in enumerate(names):
        types[index] = java_class.forName(name)
    invoke = java_class.forName("javax.management.MBeanServer").getMethod("invoke", types)
    command = gateway.new_array(jvm.java.lang.String, 2)
    command[0], command[1] = "dynamic_dump", str(path)
    parameters = gateway.new_array(jvm.java.lang.Object, 1)
    parameters[0] = command
    signature = gateway.new_array(jvm.java.lang.String, 1)
    signature[0] = "[Ljava.lang.String;"
    arguments = gateway.new_array(jvm.java.lang.Object, 4)
    arguments[0] = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments[1], arguments[2], arguments[3] = "vmCds", parameters, signature
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    return str(invoke.invoke(server, arguments))
