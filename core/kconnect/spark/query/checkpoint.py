"""Checkpoint folders of Structured Streaming: those of queries with state, and those made for what a source streams.

The layout is Spark's own affair and not documented; tests/integration/spark/test_query_checkpoint.py pins it for the
Spark that is locked, and in `make queries-tables` for others. Source: OffsetSeqLog, CommitLog, StreamMetadata,
FileStreamSourceLog (Spark 4.3), OfflineStateRepartitionUtils (Spark 4.2).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kconnect.errors import ConfigError, ConnectError

_OWNER: Final = "kconnect.json"


_KEPT_CONF: Final = ("spark.sql.shuffle.partitions",)


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a query has read. `time_ms`: when it was changed, as Spark saw it."""

    path: str
    time_ms: int


class Checkpoint:
    """Reads a checkpoint wherever it is: here, or in a store that Spark reaches. Threads: any."""

    def __init__(self, session: Any, base: str) -> None:
        """`base`: a URI."""
        self._session = session
        self._base = base

    def exists(self) -> bool:
        """Whether a query has begun in it."""
        file = self._session._jvm.org.apache.hadoop.fs.Path(f"{self._base.rstrip('/')}/metadata")
        return bool(file.getFileSystem(self._session.sparkContext._jsc.hadoopConfiguration()).exists(file))

    def begun_at(self) -> Any | None:  # what JSON can hold
        """The source offset at which its first batch begins; None for one that nobody has claimed.

        Spark keeps the ends of batches alone. It asks for the first beginning again while it does not know that the
        first batch has ended, and the group may be further by then.
        """
        file, system = self._owner()
        return json.loads(self.text(_OWNER)).get("begin") if system.exists(file) else None

    def claim(self, connector: str, group: str, begin: Any) -> None:
        """Make it that of a query which begins there; nothing new if it is already.

        Errors: ConfigError for that of another one; ConnectError, Spark's.
        """
        file, system = self._owner()
        ours = {"connector": connector, "group": group}
        if system.exists(file):
            reported = json.loads(self.text(_OWNER))
            found = {key: reported.get(key) for key in ours}
            if found != ours:
                why = f"It is that of another query: {json.dumps(found)}"
                raise ConfigError.invalid("spark.checkpoint", self._base, why)
            return
        if self.exists():
            why = "A query of somebody else has begun in it: it has no file that this connector made"
            raise ConfigError.invalid("spark.checkpoint", self._base, why)
        # Under its name once it is whole: a worker that is killed here must not leave an empty one, which nobody owns
        half = file.suffix(f".{uuid.uuid4().hex}")
        stream = system.create(half, False)
        try:
            stream.write(bytearray(json.dumps({**ours, "begin": begin}), "utf-8"))
        finally:
            stream.close()
        if not system.rename(half, file):
            raise ConnectError(f"{file} cannot be written: {half} could not be renamed")

    def _owner(self) -> tuple[Any, Any]:
        """Hadoop's path of the file that says whose it is, and its file system."""
        file = self._session._jvm.org.apache.hadoop.fs.Path(f"{self._base.rstrip('/')}/{_OWNER}")
        return file, file.getFileSystem(self._session.sparkContext._jsc.hadoopConfiguration())

    def text(self, *path: str) -> str:
        """A file in it. Errors: OSError, Spark's."""
        where = "/".join([self._base.rstrip("/"), *path])
        if where.startswith("file:///"):
            return Path(unquote(urlsplit(where).path)).read_text()
        jvm, context = self._session._jvm, self._session.sparkContext._jsc
        file = jvm.org.apache.hadoop.fs.Path(where)
        stream = file.getFileSystem(context.hadoopConfiguration()).open(file)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def id(self) -> str:
        """What Spark calls the query of this checkpoint."""
        return str(json.loads(self.text("metadata"))["id"])


def seed(folder: Path, *, batch: int, done: Any, planned: Any | None, now_ms: int, conf: Mapping[str, str]) -> None:
    """Make `batch` the last one that ended, at source offset `done`; with `planned`, batch + 1 is replayed up to there.

    `conf`: as `kept_conf` gives.
    `done` and `planned` are what JSON can hold. Without `done` the planned one is Spark's first, which has number 0.
    `batch` is at least 0. Errors: OSError.
    """
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    if planned is None and batch > 0:
        _write_offset(folder, batch - 1, done, now_ms, conf)  # Spark reads the two last ones
    if done is not None:
        _write_offset(folder, batch, done, now_ms, conf)
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    if planned is not None:
        _write_offset(folder, batch + 1 if done is not None else 0, planned, now_ms, conf)


def kept_conf(session: Any) -> dict[str, str]:
    """What Spark keeps of a session's settings with each batch, and looks for: 4.2 replays no batch without it."""
    return {key: str(session.conf.get(key)) for key in _KEPT_CONF}


def seed_files(folder: Path, done: Sequence[SeenFile], planned: Sequence[SeenFile] | None) -> None:
    """The log of a file source: its offset 0 stands for the files that are done, 1 for those of the planned batch."""
    log = folder / "sources" / "0"
    log.mkdir(parents=True)
    for number, files in enumerate([done] if planned is None else [done, planned]):
        lines = (json.dumps({"path": file.path, "timestamp": file.time_ms, "batchId": number}) for file in files)
        (log / str(number)).write_text("\n".join(["v1", *lines]))


def offset_of(text: str) -> Any:
    """The offset of the first source in a file of `offsets`. Errors: ValueError for another layout."""
    lines = text.split("\n")
    if lines[0] != "v1" or len(lines) < 3:
        raise ValueError(f"An offset log of Spark has v1 and, in line 3, an offset, not {text[:80]!r}")
    return json.loads(lines[2])


def new_files(folder: Path, after: int, to: int) -> list[SeenFile]:
    """The files between two offsets of a file source. Errors: OSError, ValueError for another layout."""
    found: list[SeenFile] = []
    for number in range(after + 1, to + 1):
        log = folder / "sources" / "0" / str(number)
        if not log.exists():
            log = log.with_name(f"{number}.compact")  # with all files before
        version, *lines = log.read_text().split("\n")
        if version != "v1":
            raise ValueError(f"A log of files of Spark begins with v1, not {version[:80]!r}")
        entries = [json.loads(line) for line in lines if line]
        found += [
            SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries if entry["batchId"] == number
        ]
    return found


def _write_offset(folder: Path, batch: int, offset: Any, now_ms: int, conf: Mapping[str, str]) -> None:
    about = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms, "conf": dict(conf)}
    (folder / "offsets" / str(batch)).write_text("\n".join(["v1", json.dumps(about), json.dumps(offset)]))
