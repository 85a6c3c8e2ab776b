"""Compression in Avro for which fastavro wants one more library each: Arrow has it. Spark writes snappy."""

from __future__ import annotations

import io
import zlib
from typing import IO, Any


def add_codecs() -> None:
    """Have fastavro read and write blocks of snappy and zstandard."""
    from fastavro import _read, _write

    _read.BLOCK_READERS.update(snappy=_read_snappy, zstandard=_read_zstandard)
    vars(_write)["BLOCK_WRITERS"].update(snappy=_write_snappy, zstandard=_write_zstandard)


def _read_snappy(file: IO[bytes]) -> io.BytesIO:
    """Source: "Required Codecs" of Avro's specification (1.12): a CRC of what is compressed is behind it."""
    import pyarrow as pa

    body, check = file.read(_read_number(file) - 4), file.read(4)
    size = _read_number(io.BytesIO(body), signed=False)  # which snappy's own format begins with
    made = pa.decompress(body, size, codec="snappy", asbytes=True)
    if zlib.crc32(made) != int.from_bytes(check, "big"):
        raise ValueError("a block of snappy has another checksum")
    return io.BytesIO(made)


def _write_snappy(file: IO[bytes], block: bytes, level: Any) -> None:
    import pyarrow as pa

    body = pa.compress(block, codec="snappy", asbytes=True) + zlib.crc32(block).to_bytes(4, "big")
    file.write(_number(len(body)) + body)


def _read_zstandard(file: IO[bytes]) -> io.BytesIO:
    import pyarrow as pa

    body = file.read(_read_number(file))
    return io.BytesIO(pa.CompressedInputStream(pa.BufferReader(body), "zstd").read())


def _write_zstandard(file: IO[bytes], block: bytes, level: Any) -> None:
    import pyarrow as pa

    body = pa.compress(block, codec="zstd", asbytes=True)
    file.write(_number(len(body)) + body)


def _read_number(file: IO[bytes], *, signed: bool = True) -> int:
    """A number as Avro writes a long; not `signed`: as snappy writes it. Errors: EOFError."""
    found, shift = 0, 0
    while True:
        byte = file.read(1)
        if not byte:
            raise EOFError("a block ends early")
        found |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return (found >> 1) ^ -(found & 1) if signed else found


def _number(number: int) -> bytes:
    """The length of a block as Avro's long."""
    rest, made = number << 1, bytearray()
    while rest >= 0x80:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)
