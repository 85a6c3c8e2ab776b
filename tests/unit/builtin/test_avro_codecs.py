"""Avro whose blocks are compressed as Spark, Hive and Java's S3 sink do, without more libraries."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path

import fastavro
import pytest

from kconnect.api import DataError
from kconnect.builtin.connectors.objects.avro_rows import AvroObject
from kconnect.builtin.connectors.objects.s3_sink import S3_CONFIG, format_of
from kconnect.testing import SinkHarness

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "t", "type": "string"}]}
# The header of a file, and the block "<>hello" of one record as snappy has it: its size, a literal of 6 bytes
BODY = b"\x06\x14\x0ahello"


def snappy_object(body: bytes = BODY, check: bytes = zlib.crc32(b"\x0ahello").to_bytes(4, "big")) -> io.BytesIO:
    sync = bytes(range(16))
    out = io.BytesIO()
    header = fastavro.parse_schema({
        "type": "record", "name": "H", "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "M", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "S", "size": 16}},
        ],
    })  # fmt: skip
    meta = {"avro.codec": b"snappy", "avro.schema": json.dumps(SCHEMA).encode()}
    fastavro.schemaless_writer(out, header, {"magic": b"Obj\x01", "meta": meta, "sync": sync})
    whole = body + check
    out.write(b"\x02" + bytes([2 * len(whole)]) + whole + sync)
    out.seek(0)
    return out


def rows(content: io.BytesIO) -> list[dict[str, str]]:
    return [row for block in AvroObject(content).blocks() for row in block.rows()]


def test_a_block_of_snappy_is_read_and_its_checksum_looked_at() -> None:
    assert rows(snappy_object()) == [{"t": "hello"}]
    with pytest.raises(DataError, match="another checksum"):
        rows(snappy_object(check=b"abcd"))


@pytest.mark.parametrize("codec", ["snappy", "zstandard", "bzip2"])
def test_what_is_written_is_read_again(codec: str) -> None:
    out = io.BytesIO()
    AvroObject(snappy_object())
    fastavro.writer(out, SCHEMA, [{"t": "ü" * 100_000}] * 3, codec=codec)
    assert len(out.getvalue()) < 100_000
    out.seek(0)
    assert [len(row["t"]) for row in rows(out)] == [100_000] * 3


def test_sinks_write_each_codec_that_they_take(tmp_path: Path) -> None:
    settings = {"topics": "t", "object.url": str(tmp_path), "object.format": "avro", "flush.rows": "1"}
    SinkHarness("ObjectSink", {**settings, "object.compression": "zstd"}).start().put({"t": "a"})
    (made,) = tmp_path.rglob("*.avro")
    assert rows(io.BytesIO(made.read_bytes())) == [{"t": "a"}]
    s3 = {"s3.bucket.name": "b", "flush.size": "3", "format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}
    found = {codec: format_of(S3_CONFIG.parse({**s3, "avro.codec": codec})) for codec in ("deflate", "snappy", "bzip2")}
    assert found == {"deflate": ("avro", "gzip"), "snappy": ("avro", "snappy"), "bzip2": ("avro", "bzip2")}
