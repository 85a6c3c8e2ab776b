"""What a Java class file says of its class: name, what it extends and implements, access. Nothing is loaded.

Source: Java Virtual Machine Specification 4.1 and 4.4.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

_MAGIC: Final = b"\xca\xfe\xba\xbe"
_UTF8: Final = 1
# Bytes of a constant with its tag; text has a length of its own
_SIZES: Final = (
    dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 5) | dict.fromkeys((7, 8, 16, 19, 20), 3) | {5: 9, 6: 9, 15: 4}
)
_TWO_PLACES: Final = (5, 6)
# Version 61 of class files is Java 17
_BEFORE_JAVA_1: Final = 44
_FEW_CLASSES: Final = 20
_PUBLIC, _INTERFACE, _ABSTRACT, _ANNOTATION = 0x0001, 0x0200, 0x0400, 0x2000


@dataclass(frozen=True, slots=True)
class JavaClass:
    """A class by its file. Shape: names with dots, as `Class.getName` gives them."""

    name: str
    parents: tuple[str, ...]
    """What it extends and implements itself."""
    is_public: bool
    is_concrete: bool


def read_class(data: bytes) -> JavaClass | None:
    """The class of a file; None for a file that is none, or is cut off."""
    if data[:4] != _MAGIC:
        return None
    try:
        starts, at = _constants(data)
        access = _number(data, at)
        names = [_class_name(data, starts, _number(data, at + 2)), _class_name(data, starts, _number(data, at + 4))]
        count = _number(data, at + 6)
        names += [_class_name(data, starts, _number(data, at + 8 + 2 * index)) for index in range(count)]
    except (IndexError, KeyError, UnicodeDecodeError):
        return None
    parents = tuple(name for name in names[1:] if name is not None)
    is_concrete = not access & (_INTERFACE | _ABSTRACT | _ANNOTATION)
    return None if names[0] is None else JavaClass(names[0], parents, bool(access & _PUBLIC), is_concrete)


def _constants(data: bytes) -> tuple[list[int], int]:
    """Where each constant begins, and where the last one ends."""
    count, at, index = _number(data, 8), 10, 1
    starts = [0] * count
    while index < count:
        starts[index] = at
        tag = data[at]
        if tag == _UTF8:
            at += 3 + (data[at + 1] << 8 | data[at + 2])
        else:
            at += _SIZES[tag]
            if tag in _TWO_PLACES:
                index += 1
        index += 1
    return starts, at


def _number(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _class_name(data: bytes, starts: list[int], index: int) -> str | None:
    """Returns None for the superclass of Object, and if there is none."""
    if index == 0:
        return None
    start = starts[_number(data, starts[index] + 1)]
    length = _number(data, start + 1)
    return data[start + 3 : start + 3 + length].decode("utf-8").replace("/", ".")


def java_needed(jar: Path) -> int | None:
    """The Java for which the classes of a jar were compiled; None for a jar without, or that cannot be read.

    A few classes tell it: they are compiled together. Those for newer versions (META-INF/versions) do not count.
    """
    found = 0
    try:
        with zipfile.ZipFile(jar) as archive:
            names = (name for name in archive.namelist() if name.endswith(".class") and not _is_extra(name))
            for name in islice(names, _FEW_CLASSES):
                with archive.open(name) as file:
                    head = file.read(8)
                if head[:4] == _MAGIC and len(head) == 8:
                    found = max(found, _number(head, 6) - _BEFORE_JAVA_1)
    except (OSError, zipfile.BadZipFile, zlib.error):
        return None
    return found or None


def _is_extra(name: str) -> bool:
    return name.startswith("META-INF/") or name.endswith("module-info.class")
