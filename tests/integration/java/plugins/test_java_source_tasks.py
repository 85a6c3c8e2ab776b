"""Java's source tasks in a JVM beside our process, without Kafka: what one poll gives a chain that is partly ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import RecordBatch, SourceRecord
from kconnect.errors import ConnectError, RetriableError
from kconnect.java.plugins import JavaSettings, JavaSourceTask, PolledRuns, java_class
from kconnect.java.plugins.connectors import JavaSourceConnector
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.index import JavaIndex
from kconnect.logs.log_context import log_context
from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.boundaries import Ending, TransactionRequests
from kconnect.runtime.pipeline.build import build_loop
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.plugins import PluginRegistry
from kit.java_plugin_folder import java_plugin_folder
from kit.pipeline_host import MemoryOffsets
from kit.source_bench import Timers

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
        task = java_class(name if "." in name else f"kit.TestPlugins${name}", folder, JavaSourceTask, host)()
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


@pytest.mark.parametrize("gives_runs", [True, False])
def test_a_null_among_the_records_of_a_poll_is_dropped_as_by_javas_worker(
    host: HostProcess, folder: str, gives_runs: bool
) -> None:
    task = started(host, folder, "NumbersTask", gives_runs=gives_runs, count="150", nothing="7", ends="29")
    found: list[int] = []
    while (polled := task.poll()) is not None:
        records = polled.to_records() if isinstance(polled, RecordBatch) else polled
        assert isinstance(records, list)
        found += offsets(records)
    assert found == [*range(1, 151)]
    task.stop()


def test_a_record_without_topic_does_not_go_to_a_topic_of_pythons_name_for_that(host: HostProcess, folder: str) -> None:
    task = started(host, folder, "NumbersTask", gives_runs=False, count="3", bad="1", says="nowhere")
    assert [record.topic for record in task.poll()] == ["t", "", "t"]
    task.stop()


def test_a_value_that_is_not_of_its_schema_is_reported_where_nobody_takes_runs(host: HostProcess, folder: str) -> None:
    task = started(host, folder, "NumbersTask", gives_runs=False, count="4", bad="2", misfit="true")
    errant: list[tuple[Any, str]] = []
    task.context.report_errant = lambda record, error: errant.append((record.value, str(error)))  # type: ignore[method-assign]
    assert offsets(task.poll()) == [1, 2, 4]
    assert errant == [("bad", "Invalid type for INT32: class java.lang.String, in value")]
    task.stop()


def test_a_task_that_cannot_be_created_says_what_its_class_has_to_be(host: HostProcess, folder: str) -> None:
    name = "org.apache.kafka.connect.source.SourceTask"  # abstract
    with pytest.raises(ConnectError, match=f"{name} cannot be created: .* public constructor"):
        started(host, folder, name, gives_runs=False)


@pytest.mark.parametrize("copies", ["false", "true"], ids=["named", "named by an equal record"])
def test_a_poll_of_one_schema_is_a_batch_for_each_transaction(host: HostProcess, folder: str, copies: str) -> None:
    task = started(host, folder, "NumbersTask", gives_runs=True, count="300", ends="29,-79", copies=copies)
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


@pytest.mark.parametrize("gives_runs", [True, False])
@pytest.mark.parametrize("how", ["abort", "commit"])
def test_a_poll_without_records_ends_the_transaction_as_by_javas_worker(
    host: HostProcess, folder: str, how: str, gives_runs: bool
) -> None:
    task = started(host, folder, "NumbersTask", gives_runs=gives_runs, count="3", idle=how)
    requests = task.context.transaction_context()
    assert isinstance(requests, TransactionRequests)
    assert (len(task.poll()), requests.take()) == (3, None)
    assert task.poll() is None
    assert requests.take() is Ending(how)
    assert (task.poll(), requests.take()) == (None, None)
    task.stop()


@pytest.mark.parametrize("how", ["abort", "commit"])
def test_an_end_that_was_asked_for_in_a_poll_that_is_retried_comes_before_the_next_records(
    host: HostProcess, folder: str, how: str
) -> None:
    """Java's worker ends the transaction at once, as after a poll without records."""
    task = started(host, folder, "NumbersTask", gives_runs=True, count="3", idle=f"{how}, retry")
    requests = task.context.transaction_context()
    assert isinstance(requests, TransactionRequests)
    assert (len(task.poll()), requests.take()) == (3, None)
    with pytest.raises(RetriableError, match="Not yet"):
        task.poll()
    assert (task.poll(), requests.take()) == (None, Ending(how))
    assert (len(task.poll()), requests.take()) == (2, Ending.COMMIT)
    task.stop()


def test_what_a_connector_raises_in_its_start_is_raised_before_that_ends(host: HostProcess, folder: str) -> None:
    """Whoever starts it looks then whether it has failed."""
    raised: list[str] = []

    class Raising(Context):
        def raise_error(self, error: Exception) -> None:
            raised.append(str(error))

    connector = java_class("kit.Faulty$Source", folder, JavaSourceConnector, host)()
    connector.initialize(Raising())  # type: ignore[arg-type]  # what this one needs of it
    connector.start({"name": "raising", "topic": "t", "raises": "100"})
    assert raised == [f"raised {number}" for number in range(100)]
    connector.stop()


@pytest.fixture
def registry(folder: str) -> Iterator[PluginRegistry]:
    made = PluginRegistry.load(str(Path(folder).parent), java=JavaSettings(heap="128m"))
    yield made
    made.close()


@pytest.mark.parametrize("is_built", [True, False], ids=["built and not started", "not built"])
def test_a_task_that_does_not_start_leaves_nothing_in_java(registry: PluginRegistry, is_built: bool) -> None:
    """Its class was asked whether it wants each record; its first transformation was made."""
    config = {"name": "idle", "connector.class": "kit.TestPlugins$Numbers", "topic": "t", "transforms": "java,ours"}
    config |= {
        "transforms.java.type": "kit.TestPlugins$Identity",
        "transforms.ours.type": "kit.failing_transform:DropsText",
    }
    worker = {"bootstrap.servers": "127.0.0.1:9"}
    worker |= {f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")}
    if not is_built:
        worker["offset.flush.interval.ms"] = "nonsense"  # what is read last
    ports = TaskPorts(
        report=lambda *reported: None,
        offsets=MemoryOffsets(),
        reconfigure=lambda name: None,
        housekeeping=Timers(),
        plugins=registry,
    )
    control = TaskControl(
        TaskSpec(
            TaskId("idle", 0),
            1,
            ConnectorType.SOURCE,
            worker_config=worker,
            connector_config=config,
            task_config=dict(config),
        ),
        ports,
    )
    with log_context("idle", 0):
        if is_built:
            loop = build_loop(control, ports)
            assert registry.java_stack("idle", 0) is not None
            loop.close()
        else:
            with pytest.raises(ConnectError, match="nonsense"):
                build_loop(control, ports)
    assert registry.java_stack("idle", 0) is None
