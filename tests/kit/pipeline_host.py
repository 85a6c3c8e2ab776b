"""A TaskHost for tests, with what it reported and offsets in memory; and connectors whose behaviour a test chooses."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

from kconnect.api import ConfigDef, SinkConnector, SinkTask, SourceConnector, SourceRecord, SourceTask
from kconnect.api.task import SourcePartitionOffset
from kconnect.errors import ConnectError
from kconnect.model import (
    Condition,
    ConnectorOffset,
    ConnectorType,
    RunState,
    TargetState,
    TaskCondition,
    TaskId,
    TaskSpec,
)
from kconnect.runtime.pipeline import TaskCounters, TaskHost
from kconnect.runtime.pipeline.ports import OffsetPort
from kconnect.runtime.plugins import PluginRegistry
from kit.pace import ample_s
from kit.waiting import eventually

STRING = "org.apache.kafka.connect.storage.StringConverter"
_RUNS = iter(range(1, 1_000_000))


class MemoryOffsets:
    """OffsetPort in memory. `fail_with` is raised by the next commits; `gate` holds them up."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, frozenset[tuple[str, Any]]], Mapping[str, Any] | None] = {}
        self.commits = 0
        self.fail_with: ConnectError | None = None
        self.gate = threading.Event()
        self.gate.set()

    def read(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return [self.kept.get((connector, frozenset(partition.items()))) for partition in partitions]

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        assert self.gate.wait(ample_s(20)), "the test forgot to open the gate"
        if self.fail_with is not None:
            raise self.fail_with
        self.commits += 1
        for offset in offsets:
            self.kept[connector, frozenset(offset.partition.items())] = offset.offset

    def of(self, connector: str) -> list[Mapping[str, Any] | None]:
        return [offset for (name, _), offset in self.kept.items() if name == connector]


class PipelineHost:
    """A TaskHost and what it reported. Leaves nothing running: use as a context manager."""

    def __init__(
        self, bootstrap: str, port: OffsetPort | None = None, plugins: PluginRegistry | None = None, **worker: str
    ) -> None:
        """`port` takes the place of `offsets`."""
        self.offsets = MemoryOffsets()
        self.may_run: Callable[[TaskId, int], None] = lambda task_id, run: None
        self.reports: list[tuple[TaskId, int, RunState, str | None]] = []
        self.worker = {
            "bootstrap.servers": bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.flush.interval.ms": "200",
            "consumer.fetch.max.wait.ms": "20",
            **{key.replace("_", "."): value for key, value in worker.items()},
        }
        self.host = TaskHost(
            report=lambda *reported: self.reports.append(reported),
            offsets=self.offsets if port is None else port,
            may_run=lambda task_id, run: self.may_run(task_id, run),
            reconfigure=lambda connector: None,
            plugins=plugins or PluginRegistry.load(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, trace: TracebackType | None) -> None:
        Behaviour.release()
        self.host.close(10)

    def spec(
        self,
        name: str,
        connector: str,
        kind: ConnectorType,
        *,
        task: int = 0,
        target: TargetState = TargetState.STARTED,
        **more: str,
    ) -> TaskSpec:
        """A task spec. Keywords with `_` become keys with `.`."""
        settings = {key.replace("_", "."): value for key, value in more.items()}
        config = {"name": name, "connector.class": connector, **settings}
        return TaskSpec(TaskId(name, task), next(_RUNS), kind, config, config, self.worker, target)

    def start_source(self, name: str, connector: str, **more: Any) -> TaskSpec:
        spec = self.spec(name, connector, ConnectorType.SOURCE, **more)
        self.host.start(spec)
        return spec

    def start_sink(self, name: str, connector: str, **more: Any) -> TaskSpec:
        spec = self.spec(name, connector, ConnectorType.SINK, **more)
        self.host.start(spec)
        return spec

    def states(self, spec: TaskSpec) -> list[RunState]:
        return [state for task_id, run, state, _ in list(self.reports) if (task_id, run) == (spec.id, spec.run)]

    def trace(self, spec: TaskSpec) -> str:
        traces = [trace for task_id, run, _, trace in list(self.reports) if (task_id, run) == (spec.id, spec.run)]
        return next((trace for trace in reversed(traces) if trace), "")

    def await_state(self, spec: TaskSpec, state: RunState, within_s: float = 20) -> None:
        def reached() -> bool:
            seen = self.states(spec)
            assert seen[-1:] == [state] or RunState.FAILED not in seen, self.trace(spec)
            return seen[-1:] == [state]

        eventually(reached, within_s, f"{spec.id} {state}, seen {self.states(spec)}", pause_s=0.005)

    def condition(self, spec: TaskSpec) -> TaskCondition:
        """How it fares now; named calls are reported in the log on the way, as in a slot."""
        return self.host.conditions()[spec.id, spec.run]

    def await_condition(self, spec: TaskSpec, wanted: Condition, within_s: float = 20) -> TaskCondition:
        def reached() -> TaskCondition:
            found = self.condition(spec)
            assert found.condition is wanted, f"{found}"
            return found

        return eventually(reached, within_s, f"{spec.id} is {wanted}", pause_s=0.02)

    def counters(self, spec: TaskSpec) -> TaskCounters:
        return self.host.counters()[spec.id]

    def await_count(self, spec: TaskSpec, counter: str, at_least: int, within_s: float = 30) -> None:
        def reached() -> bool:
            assert self.states(spec)[-1:] != [RunState.FAILED], self.trace(spec)
            found = getattr(self.counters(spec), counter)
            assert found >= at_least, f"{counter} is {found}"
            return True

        try:
            eventually(reached, within_s, f"{counter} of {spec.id} >= {at_least}", pause_s=0.005)
        except AssertionError as missed:
            seen = f"{self.states(spec)}, {self.condition(spec)}, its thread: {where(spec)}"
            raise AssertionError(f"{missed}; {seen}") from None

    def stop(self, spec: TaskSpec, timeout_s: float = 10) -> set[TaskId]:
        return self.host.stop([spec.id], timeout_s)


def where(spec: TaskSpec) -> str:
    """The stack of a task's thread."""
    thread = next((one for one in threading.enumerate() if one.name == f"task-{spec.id}"), None)
    frame = sys._current_frames().get(thread.ident) if thread is not None and thread.ident is not None else None
    return "its thread has ended" if frame is None else "".join(traceback.format_stack(frame))


class Behaviour:
    """What the connectors below do; a test sets its functions, `reset` at its start."""

    poll: ClassVar[Callable[[Any], Any]]
    put: ClassVar[Callable[[Any, list[Any]], None]]
    pre_commit: ClassVar[Callable[[Any, Mapping[Any, int]], Mapping[Any, int]] | None]
    calls: ClassVar[list[str]]
    tasks: ClassVar[list[Any]]
    raise_in: ClassVar[str | None]
    hang_in: ClassVar[str | None]
    is_hanging: ClassVar[threading.Event]
    _gate: ClassVar[threading.Event]

    @classmethod
    def reset(cls) -> None:
        cls.poll = lambda task: (task.context.wait(0.01), None)[1]
        cls.put = lambda task, records: None
        cls.pre_commit = None
        cls.calls = []
        cls.tasks = []
        cls.raise_in = cls.hang_in = None
        cls.is_hanging = threading.Event()
        cls._gate = threading.Event()

    @classmethod
    def called(cls, name: str) -> None:
        cls.calls.append(name)
        if cls.raise_in == name:
            raise ValueError(f"reported to fail in {name}")
        if cls.hang_in == name:
            cls.is_hanging.set()
            cls._gate.wait(ample_s(30))

    @classmethod
    def release(cls) -> None:
        """Let hanging calls go on."""
        if hasattr(cls, "_gate"):
            cls._gate.set()


class ScriptedSourceTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        self.props = props
        Behaviour.tasks.append(self)
        Behaviour.called("start")

    def poll(self) -> Any:
        Behaviour.called("poll")
        return Behaviour.poll(self)

    def commit(self) -> None:
        Behaviour.called("commit")

    def stop(self) -> None:
        Behaviour.called("stop")


class ScriptedRecordTask(ScriptedSourceTask):
    """Wants to hear of each record."""

    def commit_record(self, record: SourceRecord, metadata: Any) -> None:
        where = "dropped" if metadata is None else f"{metadata.partition}@{metadata.offset}"
        Behaviour.called(f"commit_record {record.value} {where}")


class MovingTask(ScriptedSourceTask):
    """Moves on in its table without a record worth sending, from where its offset is."""

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        offset = self.context.offset_storage_reader().offset({"table": "a"})
        self.row = self.first = 0 if offset is None else int(offset["row"])

    def poll(self) -> Any:
        self.row += 1
        return super().poll()

    def update_offsets(self, offsets: Sequence[SourcePartitionOffset]) -> list[SourcePartitionOffset]:
        return [({"table": "a"}, {"row": self.row})]


class ScriptedSource(SourceConnector):
    _task: ClassVar[type[SourceTask]] = ScriptedSourceTask

    def start(self, props: Mapping[str, str]) -> None: ...
    def stop(self) -> None: ...
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]

    def task_class(self) -> type[SourceTask]:
        return self._task

    def config(self) -> ConfigDef:
        return ConfigDef()

    def version(self) -> str:
        return "1"


class ScriptedRecordSource(ScriptedSource):
    _task = ScriptedRecordTask


class MovingSource(ScriptedSource):
    _task = MovingTask


class ScriptedSinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        self.props = props
        Behaviour.tasks.append(self)
        Behaviour.called("start")

    def open(self, partitions: Any) -> None:
        Behaviour.called("open " + ",".join(sorted(map(str, partitions))))

    def put(self, records: list[Any]) -> None:
        if records:
            Behaviour.called("put")
            Behaviour.put(self, records)

    def flush(self, current_offsets: Any) -> None:
        Behaviour.called("flush")

    def pre_commit(self, current_offsets: Any) -> Any:
        if Behaviour.pre_commit is None:
            return super().pre_commit(current_offsets)
        Behaviour.called("pre_commit")
        return Behaviour.pre_commit(self, current_offsets)

    def close(self, partitions: Any) -> None:
        Behaviour.called("close " + ",".join(sorted(map(str, partitions))))

    def stop(self) -> None:
        Behaviour.called("stop")


class ScriptedSink(SinkConnector):
    def start(self, props: Mapping[str, str]) -> None: ...
    def stop(self) -> None: ...
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]

    def task_class(self) -> type[SinkTask]:
        return ScriptedSinkTask

    def config(self) -> ConfigDef:
        return ConfigDef()

    def version(self) -> str:
        return "1"


SOURCE = "kit.pipeline_host:ScriptedSource"
RECORD_SOURCE = "kit.pipeline_host:ScriptedRecordSource"
MOVING_SOURCE = "kit.pipeline_host:MovingSource"
SINK = "kit.pipeline_host:ScriptedSink"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
