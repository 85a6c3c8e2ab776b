"""The layout of checkpoints is Spark's own affair: this Spark goes on from ours, and we read what it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kconnect.spark import SparkSettings
from kconnect.spark.application import SparkApplication
from kconnect.spark.query.checkpoint import SeenFile, kept_conf, new_files, offset_of, seed, seed_files
from kit.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


@contextmanager
def spark_session() -> Iterator[Any]:
    app = SparkApplication(SparkSettings(slots=1))
    app.start()
    try:
        from pyspark.sql import SparkSession

        yield SparkSession(app.context)
    finally:
        app.stop(10.0)
        app.end_daemons(5.0)


def batches_of(rows: Any, checkpoint: Path, count: int) -> list[tuple[int, list[Any]]]:
    """The first batches of a query: numbers and values."""
    seen: list[tuple[int, list[Any]]] = []

    def take(batch: Any, number: int) -> None:
        seen.append((number, sorted(row["value"] for row in batch.collect())))

    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint.as_uri()).start()
    try:
        eventually(lambda: len(seen) >= count or not query.isActive, 60, f"{count} batches")
        assert query.exception() is None
    finally:
        query.stop()
    return seen[:count]


def test_a_query_goes_on_at_the_offset_replays_what_was_planned_and_reads_no_file_twice(tmp_path: Path) -> None:
    with spark_session() as session:
        for is_planned in (False, True):
            _goes_on(session, tmp_path / str(is_planned), is_planned=is_planned)
        _replays_a_batch_without_records(session, tmp_path / "empty")
        _reads_files_once(session, tmp_path)


def _goes_on(session: Any, folder: Path, *, is_planned: bool) -> None:
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).option("numPartitions", 1).load()
    done, planned = {"offset": 100, "timestamp": 1000}, {"offset": 103, "timestamp": 2000}
    seed(folder, batch=41, done=done, planned=planned if is_planned else None, now_ms=1, conf=kept_conf(session))

    seen = batches_of(rows, folder, 2)

    first = (42, [100, 101, 102] if is_planned else [100, 101, 102, 103, 104])
    start = first[1][-1] + 1
    assert seen == [first, (43, list(range(start, start + 5)))]
    assert offset_of((folder / "offsets" / "43").read_text())["offset"] == start + 5


def _replays_a_batch_without_records(session: Any, folder: Path) -> None:
    """As of a topic's new partition, whose offset is known from then on."""
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).option("numPartitions", 1).load()
    done = {"offset": 100, "timestamp": 1000}
    seed(folder, batch=41, done=done, planned=done, now_ms=1, conf=kept_conf(session))

    assert batches_of(rows, folder, 2) == [(42, []), (43, [100, 101])]


def _reads_files_once(session: Any, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    files = []
    for number in range(4):
        path = folder / f"{number}.txt"
        path.write_text(f"line {number}\n")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        files.append(SeenFile(path.as_uri(), (1_700_000_000 + number) * 1000))
    seed_files(checkpoint, files[:2], files[2:3])
    seed(checkpoint, batch=7, done={"logOffset": 0}, planned={"logOffset": 1}, now_ms=1, conf=kept_conf(session))

    seen = batches_of(session.readStream.format("text").load(str(folder)), checkpoint, 2)

    assert seen == [(8, ["line 2"]), (9, ["line 3"])]
    assert offset_of((checkpoint / "offsets" / "9").read_text()) == {"logOffset": 2}
    assert new_files(checkpoint, 1, 2) == files[3:]
