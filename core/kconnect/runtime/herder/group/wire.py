"""Kafka's primitive types as bytes, in their flexible form (KIP-482) and the one before it. Pure.

Source: the types of the protocol guide; clients/.../protocol/types/Type.java (Kafka 4.3).
"""

from __future__ import annotations

import struct


class Writer:
    """Puts values one after the other; in flexible versions lengths are short and structures end with tags."""

    def __init__(self, *, is_flexible: bool) -> None:
        self._is_flexible = is_flexible
        self.data = b""

    def number(self, form: str, *values: int) -> None:
        self.data += struct.pack(form, *values)

    def string(self, text: str | None) -> None:
        block = None if text is None else text.encode()
        self._sized(">h", block)

    def block(self, block: bytes) -> None:
        self._sized(">i", block)

    def count(self, number: int) -> None:
        self.data += _varint(number + 1) if self._is_flexible else struct.pack(">i", number)

    def end(self) -> None:
        """No tags."""
        if self._is_flexible:
            self.data += b"\0"

    def _sized(self, form: str, block: bytes | None) -> None:
        if self._is_flexible:
            self.data += _varint(0 if block is None else len(block) + 1) + (block or b"")
        else:
            self.data += struct.pack(form, -1 if block is None else len(block)) + (block or b"")


class Reader:
    """Reads values in order. Null is read as empty. Errors: struct.error when the bytes end too early."""

    def __init__(self, data: bytes, *, is_flexible: bool) -> None:
        self._data = data
        self._is_flexible = is_flexible
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        return self._sized(">h").decode()

    def block(self) -> bytes:
        return self._sized(">i")

    def count(self) -> int:
        return max(0, self._varint() - 1 if self._is_flexible else self.number(">i"))

    def end(self) -> None:
        """Skip the tags."""
        if self._is_flexible:
            for _ in range(self._varint()):
                self._varint()
                self._take(self._varint())

    def _sized(self, form: str) -> bytes:
        return self._take(self._varint() - 1 if self._is_flexible else self.number(form))

    def _take(self, size: int) -> bytes:
        if size <= 0:
            return b""
        if self._at + size > len(self._data):
            raise struct.error(f"{size} bytes wanted, {len(self._data) - self._at} there")
        self._at += size
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(">B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
