"""The Java-serialised HashMap<byte[], byte[]> that a standalone worker keeps its source offsets in.

Only this one shape of Java's serialisation grammar is read and written; anything else is refused with the place.
Source: java.io.ObjectOutputStream, java.util.HashMap#writeObject; written by FileOffsetBackingStore (Kafka 4.3).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kconnect.errors import DataError
from kconnect.logs.wording import pluralize

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _BLOCK_DATA, _END_BLOCK = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
_FIRST_HANDLE = 0x7E0000
_HASH_MAP_CLASS = (
    b"\x72\x00\x11java.util.HashMap"
    b"\x05\x07\xda\xc1\xc3\x16\x60\xd1"  # serialVersionUID
    b"\x03"  # writeMethod | serializable
    b"\x00\x02F\x00\x0aloadFactorI\x00\x09threshold"
    b"\x78\x70"  # no annotations, no superclass
)
_BYTES_CLASS = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
# Handles are given in the order things appear: 0 is the HashMap class, 1 the map itself, 2 the class of byte[].
_BYTES_CLASS_HANDLE = _FIRST_HANDLE + 2
_FIRST_ARRAY_HANDLE = _FIRST_HANDLE + 3
_LOAD_FACTOR = 0.75
_MIN_BUCKETS = 16  # of a HashMap made without a size


def dump_map(entries: Mapping[bytes, bytes | None]) -> bytes:
    """The file content Java's ObjectInputStream reads back as that map. Order of entries is kept."""
    buckets = _buckets_for(len(entries))
    threshold = int(buckets * _LOAD_FACTOR) if entries else 0
    out = bytearray(_MAGIC)
    out.append(_OBJECT)
    out += _HASH_MAP_CLASS
    out += struct.pack(">fi", _LOAD_FACTOR, threshold)
    out += struct.pack(">BBii", _BLOCK_DATA, 8, buckets, len(entries))
    class_text = _BYTES_CLASS
    for pair in entries.items():
        for item in pair:
            if item is None:
                out.append(_NULL)
                continue
            out.append(_ARRAY)
            out += class_text
            class_text = struct.pack(">BI", _REFERENCE, _BYTES_CLASS_HANDLE)
            out += struct.pack(">i", len(item))
            out += item
    out.append(_END_BLOCK)
    return bytes(out)


def _buckets_for(count: int) -> int:
    buckets = _MIN_BUCKETS
    while count > buckets * _LOAD_FACTOR:
        buckets *= 2
    return buckets


def load_map(data: bytes) -> dict[bytes, bytes | None]:
    """Read what Java or `dump_map` wrote, in the order of the stream.

    Accepts any threshold, any bucket count and back references of arrays. Errors: DataError with the byte position.
    """
    return _Reader(data).read_map()


class _Reader:
    """Walks over the stream; `_handles` are the arrays that a later back reference may name."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._arrays: list[bytes] = []
        self._class_seen = False

    def read_map(self) -> dict[bytes, bytes | None]:
        if self._data[:4] != _MAGIC:
            raise DataError(f"invalid stream header: {self._data[:4].hex().upper()}, expected ACED0005")
        self._at = 4
        self._expect(bytes([_OBJECT]) + _HASH_MAP_CLASS, "a java.util.HashMap")
        self._take(8, "load factor and threshold")
        self._expect(bytes([_BLOCK_DATA, 8]), "the size of the map")
        _, count = struct.unpack(">ii", self._take(8, "the size of the map"))
        if count < 0:
            raise DataError(f"the map claims to have {count} entries")
        entries: dict[bytes, bytes | None] = {}
        for _ in range(count):
            key = self._value()
            value = self._value()
            if key is not None:  # Java can hold a null key; no connector can own it
                entries[key] = value
        self._expect(bytes([_END_BLOCK]), "the end of the map")
        if self._at != len(self._data):
            more = pluralize(len(self._data) - self._at, "byte")
            raise DataError(f"the data goes on by {more} after the end of the map at byte {self._at}")
        return entries

    def _value(self) -> bytes | None:
        tag = self._take(1, "a byte array")[0]
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._referenced()
        if tag != _ARRAY:
            raise DataError(f"expected a byte array at byte {self._at - 1}, found type 0x{tag:02X}")
        self._read_array_class()
        (length,) = struct.unpack(">i", self._take(4, "the length of a byte array"))
        if length < 0:
            raise DataError(f"negative length {length} of a byte array at byte {self._at - 4}")
        array = self._take(length, "a byte array")
        self._arrays.append(array)
        return array

    def _read_array_class(self) -> None:
        if not self._class_seen:
            self._expect(_BYTES_CLASS, "the class byte[]")
            self._class_seen = True
            return
        self._expect(struct.pack(">BI", _REFERENCE, _BYTES_CLASS_HANDLE), "the class byte[]")

    def _referenced(self) -> bytes:
        handle = int.from_bytes(self._take(4, "a back reference"))
        index = handle - _FIRST_ARRAY_HANDLE
        if not 0 <= index < len(self._arrays):
            raise DataError(f"back reference 0x{handle:X} at byte {self._at - 4} names no byte array")
        return self._arrays[index]

    def _take(self, size: int, what: str) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise DataError(f"the file ends at byte {len(self._data)} in the middle of {what}")
        chunk = self._data[self._at : end]
        self._at = end
        return chunk

    def _expect(self, wanted: bytes, what: str) -> None:
        start = self._at
        if self._take(len(wanted), what) != wanted:
            raise DataError(f"expected {what} at byte {start}")
