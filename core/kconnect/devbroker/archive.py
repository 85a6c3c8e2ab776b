"""A class archive (AppCDS) of the broker in the cache: it halves the start, 2.0 s to 1.0 s measured on 2 cores.

The JVM writes it once, when a broker that was started without one ends (1.7 s more, that one time).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from kconnect.folders import cache_folder
from kconnect.java import Java

__all__ = ["keep", "options"]

_STALE_S = 24 * 3600.0


def options(java: Java, jars: Sequence[Path], command: Sequence[str]) -> tuple[str | None, list[str]]:
    """JVM options that use the archive or, when there is none for this JVM and these jars, have it written at exit.

    Shape: (path of the archive that is being written or None, options). An unwritable cache gives no options.
    """
    folder = cache_folder() / "cds"
    ready = folder / f"broker-{_fingerprint(java, jars, command)}.jsa"
    quiet = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
    if ready.exists():
        return None, [f"-XX:SharedArchiveFile={ready}", *quiet]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
    except OSError:
        return None, []
    if not os.access(folder, os.W_OK):
        return None, []
    written = folder / f"{ready.stem}.{uuid.uuid4().hex}.part"
    return str(written), [f"-XX:ArchiveClassesAtExit={written}", *quiet]


def keep(written: Path) -> None:
    """Move an archive into place; call it after its JVM ended in good order."""
    with contextlib.suppress(OSError):  # the cache was emptied meanwhile: the next start writes it again
        written.replace(written.parent / f"{written.name.split('.')[0]}.jsa")


def _fingerprint(java: Java, jars: Sequence[Path], command: Sequence[str]) -> str:
    """The JVM refuses an archive of another build, class path, jar time or collector: each has its own file."""
    facts = [java.version, str(java.executable.resolve()), *(option for option in command if option.startswith("-XX:"))]
    for jar in jars:
        stat = jar.stat()
        facts.append(f"{jar}:{stat.st_size}:{stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _sweep(folder: Path) -> None:
    """Remove archives whose JVM was killed while, or before, it wrote them."""
    for path in folder.glob("*.part"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()
