"""ObjectSource and ObjectSink on a real S3 server, through the harness."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kconnect.api import RetriableError
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
        pytest.raises(ConnectError, match=r"Cannot list gone: PermissionError") as told,
    ):
        source.poll(1)
    assert "credentials" in str(told.value.hint)
    assert "wrong-secret" not in str(told.value)
    missing = {**config, "object.url": "s3://never-made"}
    with SourceHarness("ObjectSource", missing) as source, pytest.raises(ConnectError, match="FileNotFoundError"):
        source.poll(1)
