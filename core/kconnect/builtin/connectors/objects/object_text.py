"""The text of objects: bytes of any encoding as UTF-8, and where they are not of it."""

from __future__ import annotations

import codecs
import re
from typing import Any

from kconnect.api import ConfigError, DataError

UTF_8 = "utf-8"
_BOMS = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONGEST_BOM = 4
# Encloses what stands for bytes that are of no character, "POSITION HEX": no text has it, Unicode gives it no meaning
MARK = "\U0010fffe"


def check_encoding(setting: str, name: str) -> None:
    """Errors: ConfigError for an unknown encoding."""
    try:
        "".encode(codecs.lookup(name).name)
    except LookupError as err:
        message = "Unknown encoding. For example: utf-8, latin1, cp1252, utf-16"
        raise ConfigError.invalid(setting, name, message) from err


def encoding_of(head: bytes, chosen: str) -> tuple[str, int]:
    """The encoding of a text that begins with these bytes, and how many of them are its byte order mark.

    A mark counts where it says the chosen encoding more precisely, as for utf-16, and where that is the default.
    Errors: DataError for utf-16 without a mark.
    """
    wanted = codecs.lookup(chosen).name
    for mark, encoding in _BOMS:
        if head.startswith(mark) and (wanted == UTF_8 or encoding.startswith(wanted.removesuffix("-sig"))):
            return encoding, len(mark)
    if head and wanted in ("utf-16", "utf-32"):
        raise DataError(f"It has no byte order mark, and so may be {wanted}-le or {wanted}-be", hint="Say which.")
    return UTF_8 if wanted in (UTF_8, "utf-8-sig") else wanted, 0


class Utf8Stream:
    """A file object with the content of another, which is text of some encoding, as UTF-8 without byte order mark.

    `has_misread` once there were bytes that are of no character; marks stand for them (`misread`). Threads: one.
    """

    closed = False

    def __init__(self, content: Any, chosen: str) -> None:
        head = content.read(_LONGEST_BOM)
        self.encoding, skipped = encoding_of(head, chosen)
        self.has_misread = False
        self._content = content
        self._decoder = codecs.getincrementaldecoder(self.encoding)()
        self._at = skipped  # of the next byte that the decoder gets
        self._is_over = False
        self._is_plain = self.encoding == UTF_8
        self._ready = self._decoded(head[skipped:], is_last=not head)

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, all if it is negative; none at the end."""
        while not self._is_over and (size < 0 or len(self._ready) < size):
            block = self._content.read() if size < 0 else self._content.read(size - len(self._ready))
            if self._is_plain and block and not self._ready and not self._pending() and block.isascii():
                self._at += len(block)
                self._ready = block
                break
            self._ready += self._decoded(block, is_last=not block)
        given, self._ready = (self._ready, b"") if size < 0 else (self._ready[:size], self._ready[size:])
        return given

    def taken(self, pattern: re.Pattern[bytes], most: int) -> re.Match[bytes] | None:
        """What a pattern finds at the beginning of the next so many bytes; it is not read again."""
        head = self.read(most)
        match = pattern.match(head)
        self._ready = (head if match is None else head[match.end() :]) + self._ready
        return match

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        """The content belongs to others."""

    def _pending(self) -> bytes:
        return self._decoder.getstate()[0]

    def _decoded(self, block: bytes, *, is_last: bool) -> bytes:
        self._is_over = is_last
        found: list[str] = []
        while True:
            pending = self._pending()
            try:
                text = self._decoder.decode(block, final=is_last)
                self._at += len(block)
                if self._is_plain and not found:  # it is what it should be: 20 ns a row of 30 bytes less
                    whole = pending + block
                    return whole[: len(whole) - len(self._pending())]
                return "".join([*found, text]).encode(UTF_8, "replace")
            except UnicodeDecodeError as err:
                whole, begin = pending + block, self._at - len(pending)
                self._decoder.reset()
                found.append(self._decoder.decode(whole[: err.start]))
                found.append(f"{MARK}{begin + err.start} {whole[err.start : err.end].hex()}{MARK}")
                self._decoder.reset()
                self.has_misread = True
                block, self._at = whole[err.end :], begin + err.end


def misread(text: str, encoding: str, setting: str) -> DataError | None:
    """The error for a text with a mark in it; None if it has none."""
    parts = text.split(MARK)
    if len(parts) < 3:
        return None
    position, _, held = parts[1].partition(" ")
    return not_of(encoding, bytes.fromhex(held), int(position), setting)


def not_of(encoding: str, held: bytes, position: int, setting: str) -> DataError:
    """The error for bytes that are of no character. `position` is theirs in the object's content, from 0 on."""
    shown = " ".join(f"0x{byte:02x}" for byte in held)
    return DataError(
        f"{'Byte' if len(held) == 1 else 'Bytes'} {shown} at position {position} is not {encoding} ({setting})",
        hint=f"Set {setting} to the encoding of the object, such as latin1, cp1252 or utf-16.",
    )


def without_marks(text: str) -> str:
    """The text with U+FFFD for what could not be read."""
    parts = text.split(MARK)
    return "\ufffd".join(parts[::2]) if len(parts) > 2 else text
