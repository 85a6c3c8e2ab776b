"""ObjectSource and ObjectSink on a real S3 server, through the harness."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kconnect.api import RetriableError, Schema, SchemaBuilder, SinkRecord, Struct, TopicPartition
from kconnect.errors import ConnectError
from kconnect.testing import SinkHarness, SourceHarness
from kit.s3 import S3Server, s3_server

pytestmark = pytest.mark.java


def source_of(server: S3Server, url: str, **more: str) -> SourceHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"object.url": url, "topic": "rows", "poll.interval.ms": "1", **server.settings, **settings}
    return SourceHarness("ObjectSource", config)


@pytest.mark.parametrize("after", ["delete", "move"])
def test_objects_are_read_in_ranges_and_go_when_they_are_done(s3: S3Server, after: str, tmp_path: Path) -> None:
    bucket = s3.make_bucket(f"read-{after}")
    pq.write_table(pa.table({"n": list(range(50))}), tmp_path / "n.parquet", row_group_size=10)
    s3.put(bucket, "in/a/n.parquet", (tmp_path / "n.parquet").read_bytes())
    s3.put(bucket, "in/b.txt", b"x\ny\n")
    s3.put(bucket, "other/c.txt", b"not below the prefix\n")
    with source_of(s3, f"s3://{bucket}/in", object_after=after, object_move_url=f"s3://{bucket}/done") as source:
        records = source.poll(52)
        assert [record.value.get("n") for record in records[:50]] == list(range(50))
        assert [record.value for record in records[50:]] == ["x", "y"]
        source.commit()
        source.poll_once()
        moved = ["done/a/n.parquet", "done/b.txt"] if after == "move" else []
        assert s3.keys(bucket) == [*moved, "other/c.txt"]
        s3.put(bucket, "in/b.txt", b"z\n")  # the same name again is new
        assert [record.value for record in source.poll(1)] == ["z"]


def test_an_object_that_changed_while_it_was_read_begins_again(s3: S3Server) -> None:
    bucket = s3.make_bucket("changed")
    s3.put(bucket, "a.json", json.dumps(list(range(10))).encode())
    with source_of(s3, f"s3://{bucket}", batch_rows="4") as source:
        assert [record.value for record in source.poll_once()] == [0, 1, 2, 3]
        source.commit()
        source.crash()
        s3.put(bucket, "a.json", json.dumps(list("abcdef")).encode())
        source.start()
        assert [record.value for record in source.poll(6)] == list("abcdef")


def test_a_large_object_goes_up_in_parts_and_comes_whole(s3: S3Server) -> None:
    bucket = s3.make_bucket("parts")
    config = {"object.url": f"s3://{bucket}/x", "topics": "t", "object.format": "lines", "object.path": ""}
    config |= {"flush.rows": "3", "object.options.default_block_size": str(5 << 20), **s3.settings}
    noise = os.urandom(6 << 20).hex()
    with SinkHarness("ObjectSink", config) as sink:
        sink.put("first", noise, "last")
    [key] = s3.keys(bucket)
    assert key == f"x/t+0+{0:020}-{2:020}.txt"
    assert s3.get(bucket, key).decode().split("\n") == ["first", noise, "last", ""]


PARTITIONER = "io.confluent.connect.storage.partitioner."
NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00Z


def confluent_sink(server: S3Server, bucket: str, **more: str) -> SinkHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {
        "s3.bucket.name": bucket,
        "s3.region": "us-east-1",
        "store.url": server.url,
        "aws.access.key.id": server.options["key"],
        "aws.secret.access.key": server.options["secret"],
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "flush.size": "3",
        "topics": "t",
        **settings,
    }
    return SinkHarness("io.confluent.connect.s3.S3SinkConnector", config)


def rows(numbers: range, minutes: int = 0, **more: object) -> list[SinkRecord]:
    """Records by offset, so many minutes apart."""
    return [
        SinkRecord("t", 0, None, None, None, {"n": n, **more}, n, timestamp=NOON_MS + n * minutes * 60_000)
        for n in numbers
    ]


def test_confluents_sink_names_objects_as_java_does_and_goes_on_by_the_groups_offsets(s3: S3Server) -> None:
    bucket = s3.make_bucket("confluent")
    sink = confluent_sink(s3, bucket).start()
    sink.put_records(rows(range(8)))
    assert sink.commit() == {TopicPartition("t", 0): 6}
    names = [f"topics/t/partition=0/t+0+{first:010d}.json" for first in (0, 3, 6)]
    assert s3.keys(bucket) == names[:2]
    assert s3.get(bucket, names[1]) == b'{"n":3}\n{"n":4}\n{"n":5}\n'
    sink.crash()
    with sink:  # what came behind the committed offset comes again, into the objects that it was to be in
        sink.put_records(rows(range(8, 9)))
        assert sink.commit() == {TopicPartition("t", 0): 9}
        assert s3.keys(bucket) == names
        assert s3.get(bucket, names[2]) == b'{"n":6}\n{"n":7}\n{"n":8}\n'


def test_confluents_sink_rotates_by_the_times_of_records_and_by_the_clock(s3: S3Server) -> None:
    bucket = s3.make_bucket("rotates")
    hourly = {"partitioner.class": f"{PARTITIONER}HourlyPartitioner", "locale": "en", "timezone": "UTC"}
    settings = {**hourly, "flush.size": "1000", "timestamp.extractor": "Record", "rotate.interval.ms": "1800000"}
    with confluent_sink(s3, bucket, **settings) as sink:
        sink.put_records(rows(range(7), minutes=15))
        assert sink.commit() == {TopicPartition("t", 0): 6}
    folder = "topics/t/year=2026/month=01/day=01"
    firsts = [("12", 0), ("12", 2), ("13", 4)]
    assert s3.keys(bucket) == [f"{folder}/hour={hour}/t+0+{first:010d}.json" for hour, first in firsts]
    bucket = s3.make_bucket("scheduled")
    with confluent_sink(s3, bucket, timezone="UTC", rotate_schedule_interval_ms="600000") as sink:
        sink.put_records(rows(range(2)))
        assert s3.keys(bucket) == []
        now = time.time()
        sink.task.wall_s = lambda: now + 601
        sink.task.put([])
        assert s3.keys(bucket) == ["topics/t/partition=0/t+0+0000000000.json"]


def test_confluents_sink_has_an_object_for_each_field_in_one_rotation(s3: S3Server) -> None:
    bucket = s3.make_bucket("fields")
    field = {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "land"}
    parquet = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "parquet.codec": "none"}
    schema = SchemaBuilder.struct().field("land", Schema.STRING_SCHEMA).field("n", Schema.INT32_SCHEMA).build()
    other = SchemaBuilder.struct().field("land", Schema.STRING_SCHEMA).field("n", Schema.INT64_SCHEMA).build()
    with confluent_sink(s3, bucket, errors_tolerance="all", flush_size="4", **field, **parquet) as sink:
        for number, (land, kind) in enumerate([("DE", schema), ("FR", schema), ("DE", schema), ("FR", other)]):
            value = Struct(kind).put("land", land).put("n", number)
            sink.put_records([SinkRecord("t", 0, None, None, kind, value, number)])
        sink.put_records([SinkRecord("t", 0, None, None, None, None, 4)])
        [errant] = sink.errant
        sink.commit(is_end=True)
    assert "offset 4 cannot be written: It has no value" in str(errant.error)
    firsts = [("DE", 0), ("FR", 1), ("FR", 3)]
    assert s3.keys(bucket) == [f"topics/t/land={land}/t+0+{first:010d}.parquet" for land, first in firsts]
    found = pq.read_table(pa.BufferReader(s3.get(bucket, s3.keys(bucket)[0])))
    assert found.to_pylist() == [{"land": "DE", "n": 0}, {"land": "DE", "n": 2}]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path) as server:
        yield server


def test_a_server_that_goes_away_is_waited_for_and_wrong_credentials_are_not(own_server: S3Server) -> None:
    bucket = own_server.make_bucket("gone")
    own_server.put(bucket, "a.txt", b"1\n")
    quick = {"object.options.config_kwargs": '{"retries": {"total_max_attempts": 1}, "connect_timeout": 2}'}
    config = {"object.url": f"s3://{bucket}", "topic": "t", "poll.interval.ms": "1", **own_server.settings, **quick}
    with SourceHarness("ObjectSource", config) as source:
        source.poll(1)
        own_server.put(bucket, "b.txt", b"2\n")
        own_server.kill()
        source.task._next_listing = 0.0
        with pytest.raises(RetriableError, match="Cannot list gone"):
            source.task.poll()
        own_server.start()
        assert [record.value for record in source.poll(1, within_s=20)] == ["2"]
    with (
        SourceHarness("ObjectSource", {**config, "object.options.secret": "wrong-secret"}) as source,
        pytest.raises(ConnectError, match=r"Cannot list gone: PermissionError") as reported,
    ):
        source.poll(1)
    assert "credentials" in str(reported.value.hint)
    assert "wrong-secret" not in str(reported.value)
    missing = {**config, "object.url": "s3://never-made"}
    with SourceHarness("ObjectSource", missing) as source, pytest.raises(ConnectError, match="FileNotFoundError"):
        source.poll(1)
