"""Which jar of a plugin needs a class that is missing."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from kconnect.java.plugins.folders import folder_at

_FRAME: Final = re.compile(r"^\s*at (?:[^\s(]*/)?([\w.$]+)\.[\w$<>]+\(", re.MULTILINE)
# Of an uber jar of 100 MB; a folder of hundreds of jars is not read to its end for a message
_MOST_BYTES: Final = 200 << 20


def needed_by(missing: str, trace: str, location: str | None) -> Path | None:
    """The jar of the class that was running when `missing` was looked for, or else one whose classes name it.

    None when it is not known: the plugin is none of a folder's, or the class is asked for by name alone.
    """
    folder = None if location is None else folder_at(Path(location))
    if folder is None:
        return None
    jars = [jar for jar in folder.jars if zipfile.is_zipfile(jar)]
    return _jar_of_a_frame(jars, trace) or _jar_that_names(jars, missing)


def _jar_of_a_frame(jars: list[Path], trace: str) -> Path | None:
    """Of the cause that Java tells last, the first frame that is of the plugin."""
    listed = {jar: _entries(jar) for jar in jars}
    for part in reversed(trace.split("\nCaused by: ")):
        for frame in _FRAME.findall(part):
            for jar, entries in listed.items():
                if frame.replace(".", "/") + ".class" in entries:
                    return jar
    return None


def _jar_that_names(jars: list[Path], missing: str) -> Path | None:
    name = missing.replace(".", "/").encode()
    left = _MOST_BYTES
    for jar in jars:
        for data in _classes(jar):
            if name in data:
                return jar
            left -= len(data)
            if left < 0:
                return None
    return None


def _entries(jar: Path) -> set[str]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
        return set(archive.namelist())
    return set()


def _classes(jar: Path) -> Iterator[bytes]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(".class"):
                yield archive.read(name)
