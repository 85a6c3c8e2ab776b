"""The S3 server of the tests has of S3 what the connectors rest on."""

from __future__ import annotations

from pathlib import Path

import pytest
import s3fs

from kit.s3 import S3Server, s3_server

pytestmark = pytest.mark.java


def test_objects_survive_a_killed_server_and_one_that_exists_is_not_overwritten_when_asked(tmp_path: Path) -> None:
    with s3_server(tmp_path) as server:
        bucket = server.make_bucket("survivors")
        store = s3fs.S3FileSystem(skip_instance_cache=True, **server.options)
        with store.open(f"{bucket}/large.bin", "wb", block_size=5 << 20) as file:
            for _ in range(6):
                file.write(b"x" * (1 << 20))
        assert "-" in store.info(f"{bucket}/large.bin")["ETag"], "uploaded in parts"
        server.put(bucket, "once", b"first")
        server.kill()
        server.start()
        assert server.keys(bucket) == ["large.bin", "once"]
        with pytest.raises(OSError, match="preconditions"):
            store.call_s3("put_object", Bucket=bucket, Key="once", Body=b"second", IfNoneMatch="*")
        assert server.get(bucket, "once") == b"first"
        assert store.cat_file(f"{bucket}/large.bin", start=5, end=8) == b"xxx"


def test_another_secret_is_refused(s3: S3Server) -> None:
    stranger = s3fs.S3FileSystem(skip_instance_cache=True, **{**s3.options, "secret": "wrong"})
    with pytest.raises(PermissionError):
        stranger.ls(s3.make_bucket("closed"))
