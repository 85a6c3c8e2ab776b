"""Java's source tasks in a JVM beside our process, without Kafka: what one poll gives a chain that is partly ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest

from kconnect.api import RecordBatch, SourceRecord
from kconnect.java_plugins import JavaSettings, JavaSourceTask, PolledRuns, java_class
from kconnect.java_plugins.host import HostProcess
from kconnect.java_plugins.index import JavaIndex
from kconnect.logs import log_context
from kconnect.metrics import PluginMetricsRegistry
from kconnect.pipeline.boundaries import TransactionRequests
from kit.java_plugin_folder import java_plugin_folder

pytestmark = [pytest.mark.java]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(java_plugin_folder(tmp_path_factory.mktemp("plugins")) / "kit")


@pytest.fixture
def host() -> Iterator[HostProcess]:
    made = HostProcess(JavaIndex(), JavaSettings(heap="128m"))
    yield made
    made.stop()


class Context:
    """As much of a task's context as these tasks ask for."""

    def __init__(self) -> None:
        self.requests = TransactionRequests()

    def transaction_context(self) -> TransactionRequests:
        return self.requests

    def plugin_metrics(self) -> Any:
        return PluginMetricsRegistry().of_plugin(connector="source", task="0")

    def offset_storage_reader(self) -> Context:
        return self

    def offsets(self, partitions: Collection[object]) -> list[None]:
        return [None for _ in partitions]


def started(host: HostProcess, folder: str, name: str, *, gives_runs: bool, **config: str) -> JavaSourceTask:
    with log_context("source", 0):
        task = java_class(f"kit.TestPlugins${name}", folder, JavaSourceTask, host)()
        task.context = Context()  # type: ignore[assignment]  # what these tasks need of it
        if gives_runs:
            task.give_runs()
        task.start({"topic": "t", **config})
    return task


def offsets(records: list[SourceRecord]) -> list[int]:
    return [record.source_offset["next"] for record in records if record.source_offset is not None]


def test_a_poll_of_many_schemas_is_one_list_or_runs_in_columns_that_belong_together(
    host: HostProcess, folder: str
) -> None:
    task = started(host, folder, "ShapesTask", gives_runs=False, count="300")
    assert [offsets(task.poll()) for _ in range(2)] == [[*range(200)], [*range(200, 300)]]
    assert task.poll() is None
    task.stop()

    task = started(host, folder, "ShapesTask", gives_runs=True, count="200")
    polled = task.poll()
    assert isinstance(polled, PolledRuns)
    assert len(polled) == 200
    assert any(isinstance(run, RecordBatch) for run in polled.runs)
    runs = [run.to_records() if isinstance(run, RecordBatch) else run for run in polled.runs]
    assert len(runs) > 1
    assert [offset for run in runs for offset in offsets(run)] == [*range(200)]  # type: ignore[arg-type]  # source records
    assert task.poll() is None
    task.stop()


def test_a_poll_of_one_schema_is_a_batch_for_each_transaction(host: HostProcess, folder: str) -> None:
    task = started(host, folder, "NumbersTask", gives_runs=True, count="300", ends="29,-79")
    requests = task.context.transaction_context()
    assert isinstance(requests, TransactionRequests)
    found = []
    for _ in range(5):
        polled = task.poll()
        assert isinstance(polled, RecordBatch)
        ending = requests.take()
        found.append((len(polled), None if ending is None else ending.value))
    assert found == [(30, "commit"), (50, "abort"), (20, None), (100, None), (100, "commit")]
    task.stop()
