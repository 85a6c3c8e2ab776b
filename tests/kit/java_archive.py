"""The class archive of Java Connect in tests: the first worker that is stopped leaves it, later ones start sooner."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from kconnect.java.archives import ARCHIVE_FLAGS, ClassArchive, recording
from kconnect.java.devbroker import Java, cache_folder

__all__ = ["JavaArchive"]


class JavaArchive:
    """How one worker uses the archive of its class path, or records it where there is none."""

    def __init__(self, java: Java, class_path: Sequence[Path], folder: Path) -> None:
        """`folder` is where a recording worker writes to."""
        facts = [java.version, str(java.executable.resolve())]
        facts += [f"{jar}:{stat.st_size}:{stat.st_mtime_ns}" for jar in class_path if (stat := jar.stat())]
        self._archive = ClassArchive(cache_folder() / "jvm", "java-connect", facts)
        self._recorded = folder / "classes.jsa"

    def flags(self) -> list[str]:
        """For the JVM of the worker."""
        return [*(self._archive.flags() or recording(self._recorded)), *ARCHIVE_FLAGS]

    def keep(self) -> None:
        """After an orderly end: publish what was recorded, unless another worker's is there by now."""
        if not self._recorded.exists():
            return
        with self._archive.sole_maker(0.0) as mine:
            if mine:
                shutil.move(self._recorded, self._archive.unfinished)
                self._archive.finish()
        self._recorded.unlink(missing_ok=True)
