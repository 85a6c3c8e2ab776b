"""A real S3 server for tests: S3Proxy in a process of its own, with its objects as files in a folder.

Why it: kept up (a release each few months), one archive on Maven Central, ready within a second in 150 MB, and it has
what the tests need of S3: signatures, multi-part uploads, ranges, ETags, and puts that are refused when the object
exists (which Delta's commits rest on).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kconnect.files.folders import cache_folder
from kconnect.java.installed import find_java
from kconnect.java.maven import ArtifactSet, read_lock
from kit.ports import free_port
from kit.server_process import ServerProcess

__all__ = ["ACCESS_KEY", "REGION", "SECRET_KEY", "S3Server", "s3_server"]

ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret-of-s3"
REGION = "us-east-1"
_LOCK = Path(__file__).with_name("s3.lock")
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


class S3Server:
    """One server: `start()`, `stop()`, `kill()`, again and again; its objects and its port stay. Threads: one.

    `options` is what fsspec's `s3` takes; `settings` is the same as `object.options.*` of a connector;
    `storage_options` is what deltalake and pyiceberg's Rust parts take.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = ServerProcess("the S3 server", folder / "s3.log", self._answers)
        self._made: Any = None

    @property
    def options(self) -> dict[str, Any]:
        return {"key": ACCESS_KEY, "secret": SECRET_KEY, "endpoint_url": self.url}

    @property
    def settings(self) -> dict[str, str]:
        return {f"object.options.{name}": str(value) for name, value in self.options.items()}

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
            "AWS_CONDITIONAL_PUT": "etag",
        }

    def start(self) -> S3Server:
        """Start, and wait until it answers."""
        (program,) = ArtifactSet(
            "S3Proxy's archive", cache_folder() / "s3", read_lock(_LOCK.read_text("utf-8"))
        ).fetch()
        data = self.folder / "buckets"
        data.mkdir(parents=True, exist_ok=True)
        settings = {
            "s3proxy.endpoint": self.url,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(data),
        }
        properties = self.folder / "s3.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [str(find_java("the S3 server").executable), *_JVM_OPTIONS, f"-Djava.io.tmpdir={self.folder}"]
        self._process.start([*command, "-jar", str(program), "--properties", str(properties)])
        return self

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        """SIGKILL: uploads in flight break off, what was acknowledged stays."""
        self._process.kill()

    def close(self) -> None:
        """Close the connections to it."""
        made, self._made = self._made, None
        if made is not None:
            made.close()

    def make_bucket(self, name: str) -> str:
        """A new bucket; gives its name."""
        self._client.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The keys in a bucket, as the server has them now (fsspec's listings are cached)."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(found["Key"] for page in pages for found in page.get("Contents", []))

    def get(self, bucket: str, key: str) -> bytes:
        body: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._client.put_object(Bucket=bucket, Key=key, Body=body)

    def _answers(self) -> bool:
        from botocore.exceptions import BotoCoreError

        try:
            self._client.list_buckets()
        except BotoCoreError as err:
            raise AssertionError(f"{err}") from err
        return True

    @property
    def _client(self) -> Any:  # botocore has no types
        """A client, made once: that takes a quarter of a second."""
        if self._made is None:
            import botocore.config
            import botocore.session

            self._made = botocore.session.get_session().create_client(
                "s3",
                region_name=REGION,
                endpoint_url=self.url,
                aws_access_key_id=ACCESS_KEY,
                aws_secret_access_key=SECRET_KEY,
                config=botocore.config.Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 1}),
            )
        return self._made


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A running server with its objects in the folder; stops it at the end."""
    server = S3Server(folder).start()
    try:
        yield server
    finally:
        server.kill()
        server.close()
