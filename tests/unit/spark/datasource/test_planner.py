"""Where micro-batches of a stream end, and that each is found again after a crash: once each, whatever is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import SourceConnector
from kconnect.errors import ConnectError
from kconnect.spark.datasource.columns import Columns
from kconnect.spark.datasource.connector import ConnectorOfFormat, SourcePlanningContext
from kconnect.spark.datasource.positions import Positions
from kconnect.spark.datasource.source_task import read_to_end
from kconnect.spark.datasource.stream_reader import StreamPlanner
from kit.ports import free_port
from kit.waiting import eventually

_COLUMNS = Columns(pa.schema([pa.field("value", pa.string()), pa.field("topic", pa.string())]), is_record=True)


class Query:
    """What Spark does with a source: offsets before the batch, rows, commit. A crash forgets the planner only."""

    def __init__(self, tmp_path: Path, **more: str) -> None:
        self.file = tmp_path / "lines.txt"
        self.file.touch()
        self.options = {
            "connector.class": "FileStreamSource",
            "file": str(self.file),
            "topic": "lines",
            "kconnect.spool.path": str(tmp_path / "spool"),
            **more,
        }
        self.spool = tmp_path / "spool"
        self.committed: dict[str, Any] | None = None
        self.planned: dict[str, Any] | None = None
        self.rows: list[str] = []
        self.planner = self._planner()

    def _planner(self) -> StreamPlanner:
        return StreamPlanner(ConnectorOfFormat(self.options, SourceConnector), _COLUMNS)

    def append(self, *lines: str) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def plan(self, max_rows: int | None = None) -> bool:
        start = self.committed or self.planner.initial()
        end = json.loads(json.dumps(self.planner.latest(start, max_rows)))
        if end == start:
            return False
        self.planned = end
        return True

    def read(self) -> list[str]:
        assert self.planned is not None
        spool, files = self.planner.files(self.committed or self.planner.initial(), self.planned)
        return [
            value
            for file in files
            for batch in spool.read(file.name, 0, file.batches)
            for value in batch.column("value").to_pylist()
        ]

    def run_planned(self) -> None:
        self.rows += self.read()
        self.committed, self.planned = self.planned, None

    def run_all(self) -> None:
        while self.plan(100):
            self.run_planned()

    def crash(self) -> None:
        self.planner.stop()
        self.planner = self._planner()


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    made = Query(tmp_path)
    yield made
    made.planner.stop()


def _lines(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


def test_rows_come_once_and_in_order_over_batches(query: Query) -> None:
    query.append(*_lines(0, 50))
    query.run_all()
    query.append(*_lines(50, 60))
    eventually(lambda: query.run_all() or len(query.rows) == 60)
    assert query.rows == _lines(0, 60)


def test_a_batch_that_was_planned_and_not_run_is_read_again_exactly_after_a_crash(query: Query) -> None:
    query.append(*_lines(0, 50))
    assert query.plan()
    query.append(*_lines(50, 70))  # what came since belongs to the next batch
    query.crash()
    query.run_planned()
    assert query.rows == _lines(0, 50)
    query.run_all()
    assert query.rows == _lines(0, 70)


def test_a_batch_whose_spool_is_gone_is_polled_again_up_to_where_it_ended(query: Query) -> None:
    query.append(*_lines(0, 50))
    query.run_all()
    query.append(*_lines(50, 60))
    eventually(query.plan)
    query.append(*_lines(60, 80))
    query.crash()
    shutil.rmtree(query.spool)
    query.run_planned()
    assert query.rows == _lines(0, 60)
    query.run_all()
    assert query.rows == _lines(0, 80)


def test_a_source_that_no_longer_leads_to_the_offset_is_reported_and_not_guessed_at(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.append(*_lines(0, 50))
    assert query.plan()
    query.options["kconnect.idle.ms"] = "100"
    query.crash()
    shutil.rmtree(query.spool)
    query.file.write_text("something else\n")
    monkeypatch.setattr("kconnect.spark.datasource.stream_reader._REPLAY_IDLE_S", 0.1)
    with pytest.raises(
        ConnectError, match=r"Batch 1 cannot be repeated: it had 50 rows, and the source now gives 1 and does not"
    ):
        query.read()


def test_files_of_committed_batches_are_removed(query: Query) -> None:
    query.append(*_lines(0, 50))
    query.run_all()
    assert not list(query.spool.glob("*/*"))
    query.planner.stop()
    assert not list(query.spool.iterdir())


def test_what_was_polled_ahead_and_not_planned_is_in_no_offset(query: Query) -> None:
    query.append(*_lines(0, 50))
    assert query.plan()
    query.run_planned()
    query.append(*_lines(50, 60))
    query.crash()  # they may be spooled already
    query.run_all()
    assert query.rows == _lines(0, 60)


def test_a_batch_ends_after_the_poll_that_reaches_its_rows(tmp_path: Path) -> None:
    query = Query(tmp_path, **{"batch.size": "10", "kconnect.max.rows": "25"})
    query.append(*_lines(0, 100))
    sizes = []
    while query.plan(25):
        before = len(query.rows)
        query.run_planned()
        sizes.append(len(query.rows) - before)
    query.planner.stop()
    assert query.rows == _lines(0, 100)
    assert max(sizes) <= 30
    assert all(size % 10 == 0 for size in sizes)


def test_a_task_that_fails_fails_the_query_with_its_reason(tmp_path: Path) -> None:
    query = Query(
        tmp_path, **{"transforms": "cast", "transforms.cast.type": "Cast$Value", "transforms.cast.spec": "int8"}
    )
    query.append("no number")
    with pytest.raises(ConnectError, match="no number"):
        eventually(query.plan)
    query.planner.stop()


def test_a_bounded_stream_ends_when_the_source_gives_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path, **{"kconnect.idle.ms": "100"})
    query.append(*_lines(0, 30))
    query.planner.end_when_idle()
    query.run_all()
    assert query.rows == _lines(0, 30)
    query.append("too late")
    assert not query.plan()
    query.planner.stop()


def test_a_service_that_does_not_answer_is_reported_when_its_columns_are_looked_for() -> None:
    port = free_port()
    options = {"connector.class": "HttpJsonSource", "url": f"http://127.0.0.1:{port}/", "topic": "t"}
    connector = ConnectorOfFormat(options, SourceConnector)
    (config,) = connector.task_configs(SourcePlanningContext(Positions()))
    with pytest.raises(ConnectError, match=f"127.0.0.1:{port}") as caught:
        list(read_to_end(connector, config, 0, timeout_s=0.2))
    assert "kconnect.retry.timeout.ms" in (caught.value.hint or "")
