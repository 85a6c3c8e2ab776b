"""Checkpoint folders of Structured Streaming, written as Spark would have, so that a query goes on where topics say.

The layout is Spark's own affair and not documented; tests/integration/test_query_checkpoint.py pins it for the Spark
that is locked. Source: OffsetSeqLog, CommitLog, StreamMetadata, FileStreamSourceLog (Spark 4.3).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a query has read. `time_ms`: when it was changed, as Spark saw it."""

    path: str
    time_ms: int


def seed(folder: Path, *, batch: int, done: Any, planned: Any | None, now_ms: int) -> None:
    """Make `batch` the last one that ended, at source offset `done`; with `planned`, batch + 1 is replayed up to there.

    `done` and `planned` are what JSON can hold. `batch` is at least 0. Errors: OSError.
    """
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    if planned is None and batch > 0:
        _write_offset(folder, batch - 1, done, now_ms)  # Spark reads the two last ones
    _write_offset(folder, batch, done, now_ms)
    (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    if planned is not None:
        _write_offset(folder, batch + 1, planned, now_ms)


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


def files_of(text: str) -> list[SeenFile]:
    """The files in one entry of a file source's log. Errors: ValueError for another layout."""
    version, *lines = text.split("\n")
    if version != "v1":
        raise ValueError(f"A log of files of Spark begins with v1, not {text[:80]!r}")
    entries = [json.loads(line) for line in lines if line]
    return [SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries]


def _write_offset(folder: Path, batch: int, offset: Any, now_ms: int) -> None:
    about = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms, "conf": {}}
    (folder / "offsets" / str(batch)).write_text("\n".join(["v1", json.dumps(about), json.dumps(offset)]))
