"""What an object holds by its name: the format and the compression, and the streams that undo and do the latter."""

from __future__ import annotations

import gzip
import io
import re
from typing import Any

from kconnect.api import DataError

FORMATS = ("lines", "jsonl", "json", "csv", "parquet", "avro")
COMPRESSIONS = ("none", "gzip", "zstd")
READ_COMPRESSIONS = (*COMPRESSIONS, "bz2", "lz4")
AUTO = "auto"
_BY_SUFFIX = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "csv": "csv",
    "tsv": "csv",
    "parquet": "parquet",
    "pq": "parquet",
    "avro": "avro",
}
_COMPRESSED = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd", "bz2": "bz2", "lz4": "lz4"}
SUFFIXES = {"none": "", "gzip": ".gz", "zstd": ".zst"}


def format_of(path: str, chosen: str = AUTO) -> str:
    """The format of an object: the chosen one, else by its name; lines where that says nothing."""
    if chosen != AUTO:
        return chosen
    parts = _suffixes(path)
    if parts and parts[-1] in _COMPRESSED:
        parts.pop()
    return _BY_SUFFIX.get(parts[-1] if parts else "", "lines")


def compression_of(path: str, chosen: str = AUTO) -> str:
    """How an object is compressed: as chosen, else by its name."""
    if chosen != AUTO:
        return chosen
    parts = _suffixes(path)
    return _COMPRESSED.get(parts[-1] if parts else "", "none")


def compression_seen(file: io.BufferedIOBase) -> str:
    """How content is compressed by its first bytes, which no text begins with: names do not always say it."""
    file.seek(0)
    head = file.read(_LONGEST_MAGIC)
    return next((name for magic, name in _MAGICS if head.startswith(magic)), "none")


# Firehose and HTTP's Content-Encoding leave .gz out of names. Source: RFC 1952, RFC 8878, the formats of bzip2 and LZ4
_MAGICS = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    *((b"BZh%d1AY&SY" % level, "bz2") for level in range(1, 10)),
    (b"\x04\x22\x4d\x18", "lz4"),
)
_LONGEST_MAGIC = max(len(magic) for magic, _ in _MAGICS)


def refuse_no_text(head: bytes) -> None:
    """Errors: DataError for the first bytes of what is not a text, and would be lines of anything."""
    what = next((what for magic, what in _NO_TEXTS if head.startswith(magic)), "")
    if not what and head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        what = "a tar archive"
    if not what and head.startswith(b"ORC") and _NO_LETTER.search(head):
        what = "ORC"
    if what:
        raise DataError(f"It is {what}, not a text", hint=_NO_TEXT_HINT)


_NO_TEXTS = (
    (b"PK\x03\x04", "a ZIP archive (such as files of Excel)"),
    (b"PK\x05\x06", "a ZIP archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\xfd7zXZ\x00", "compressed with xz"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed with Snappy"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a file of an old Excel or Word"),
    (b"SQLite format 3\x00", "a database of SQLite"),
    (b"PAR1\x15", "Parquet"),
    (b"Obj\x01", "Avro"),
)
_TAR_AT = 257
_NO_LETTER = re.compile(rb"[\x00-\x08\x0e-\x1f]")
HEAD_BYTES = _TAR_AT + 5
_NO_TEXT_HINT = (
    "Unpack archives, or leave such objects out with object.pattern. Where a name does not say that an object is "
    "Parquet or Avro, object.format does."
)


def decompressed(file: io.BufferedIOBase, compression: str) -> Any:
    """The content as a file object, from the start. Closing it leaves the object open, which pyarrow does at will."""
    file.seek(0)
    if compression == "none":
        return _Lent(file)
    if compression == "gzip":  # pyarrow takes what pads the end, as tapes and tar have it, for another member
        return gzip.GzipFile(fileobj=_Lent(file), mode="rb")
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(_Lent(file), "r"), compression)


class _Lent:
    """A file object whose close() does nothing."""

    closed = False

    def __init__(self, file: io.BufferedIOBase) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        """It belongs to others."""


def compressed(body: bytes, compression: str) -> bytes:
    if compression == "none":
        return body
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, compression) as stream:
        stream.write(body)
    whole: bytes = sink.getvalue().to_pybytes()
    return whole


def _suffixes(path: str) -> list[str]:
    return path.rsplit("/", 1)[-1].lower().split(".")[1:]
