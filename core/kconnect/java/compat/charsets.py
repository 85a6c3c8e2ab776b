"""Java's character sets, by Python's codecs: where bytes of the two would differ, as Java has them.

Differs: tables of East Asian sets, and what wrong bytes of theirs become, are Python's.
Source: java.nio.charset.Charset, sun.nio.cs (Java 17).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NEWLINE, _LINE_FEED = b"\x15", b"\x25"
"""EBCDIC has two. Java takes both for the end of a line and writes the first; Python takes the first for U+0085."""
_EBCDIC: Final = frozenset(f"cp{number}" for number in ("037", "273", "424", "500", "875", "1026", "1140"))
_SUBSTITUTE: Final = b"\x3f"
_ERRORS: Final = "kconnect-java-ebcdic"
# Names of Java's that Python does not know
_ALIASES: Final = {"windows-31j": "cp932", "x-macroman": "mac-roman", "unicode": "utf-16", "unicodebig": "utf-16"}


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set. Threads: any."""

    codec: str

    def encode(self, text: str) -> bytes:
        """What it lacks becomes a question mark, as in Java."""
        return text.encode(self.codec, "replace")

    def decode(self, raw: bytes) -> str:
        """What is wrong becomes U+FFFD."""
        return raw.decode(self.codec, "replace")


@dataclass(frozen=True, slots=True)
class _Unicode(Charset):
    """UTF-16 and UTF-32 in one order of bytes, unless a byte order mark says another."""

    marks: Mapping[bytes, str] = field(default_factory=dict)
    """Holds what it takes for marks, with the codec of what follows; any other is text."""
    writes: bytes = b""

    def encode(self, text: str) -> bytes:
        # the codecs would write a question mark, Java writes U+FFFD
        made = _LONE_SURROGATE.sub("\ufffd", text).encode(self.codec)
        return self.writes + made if made else made

    def decode(self, raw: bytes) -> str:
        for mark, codec in self.marks.items():
            if raw.startswith(mark):
                return raw[len(mark) :].decode(codec, "replace")
        return raw.decode(self.codec, "replace")


@dataclass(frozen=True, slots=True)
class _Ebcdic(Charset):
    def encode(self, text: str) -> bytes:
        codecs.register_error(_ERRORS, _substituted)
        return text.encode(self.codec, _ERRORS).replace(_LINE_FEED, _NEWLINE)

    def decode(self, raw: bytes) -> str:
        return raw.replace(_NEWLINE, _LINE_FEED).decode(self.codec, "replace")


def _substituted(error: UnicodeError) -> tuple[bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    return _SUBSTITUTE * (error.end - error.start), error.end


_BE16, _LE16 = {codecs.BOM_UTF16_BE: "utf-16-be"}, {codecs.BOM_UTF16_LE: "utf-16-le"}
_BE32, _LE32 = {codecs.BOM_UTF32_BE: "utf-32-be"}, {codecs.BOM_UTF32_LE: "utf-32-le"}
_UNICODE: Final = {
    "utf-16": _Unicode("utf-16-be", {**_BE16, **_LE16}, codecs.BOM_UTF16_BE),
    "utf-16-be": _Unicode("utf-16-be"),
    "utf-16-le": _Unicode("utf-16-le"),
    "utf-32": _Unicode("utf-32-be", {**_BE32, **_LE32}),
    "utf-32-be": _Unicode("utf-32-be", _BE32),
    "utf-32-le": _Unicode("utf-32-le", _LE32),
}


def charset_named(name: str) -> Charset:
    """The character set of a name. Errors: LookupError for one that is not known, or is a codec of other things."""
    codec = codecs.lookup(_ALIASES.get(name.lower(), name)).name
    try:
        "a".encode(codec, "replace")
    except UnicodeError as err:
        raise LookupError(f"{name} is no character set") from err
    if codec in _EBCDIC:
        return _Ebcdic(codec)
    return _UNICODE.get(codec, Charset(codec))
