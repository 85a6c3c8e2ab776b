"""Java's sink tasks in the loop of a sink, on a consumer in memory: what they ask for is done before the next put."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.clock import ManualClock
from kconnect.java.plugins import JavaChain, JavaPart, JavaSettings, JavaSinkTask, java_class
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.index import JavaIndex
from kconnect.logs.log_context import log_context
from kconnect.model import ConnectorType, TaskId, TaskSpec, TopicPartition
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.build_stages import SinkStages
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.java_chain import JavaDecoding
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink import SinkLoop, SinkParts
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_context import ErrantRecords, SinkContext
from kconnect.runtime.pipeline.tolerance import Tolerance, ToleranceSettings
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kit.java_plugin_folder import java_plugin_folder
from kit.memory_consumer import MemoryConsumer, MemoryPartitions
from kit.pipeline_host import MemoryOffsets
from kit.sink_bench import TIMES

pytestmark = [pytest.mark.java]

_STORAGE = "org.apache.kafka.connect.storage"
_STRING = JavaPart(f"{_STORAGE}.StringConverter", None, {})
_CHAIN = JavaChain((), _STRING, _STRING, JavaPart(f"{_STORAGE}.SimpleHeaderConverter", None, {}))
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(java_plugin_folder(tmp_path_factory.mktemp("plugins")) / "kit")


@pytest.fixture
def host() -> Iterator[HostProcess]:
    made = HostProcess(JavaIndex(), JavaSettings(heap="128m"))
    yield made
    made.stop()


class Bench:
    """A task whose whole chain is Java's; a fetch gives it ten records, after doing one of `steps`."""

    def __init__(self, host: HostProcess, folder: str, steps: list[Callable[[Bench], object]], **logs: list[bytes]):
        self.clock, self._steps = ManualClock(), steps
        places = {"one": ONE, "two": TWO}
        self.kafka = MemoryPartitions({places[name]: values for name, values in logs.items()})
        self.consumer = MemoryConsumer(self.kafka, self._step, passes=self.clock.advance)
        ports = TaskPorts(
            report=lambda *reported: None,
            offsets=MemoryOffsets(),
            reconfigure=lambda name: None,
            housekeeping=cast("Any", None),
            plugins=cast("Any", None),
            clock=self.clock,
        )
        self.control = TaskControl(TaskSpec(TaskId("obeys", 0), 1, ConnectorType.SINK, {}, {}, {}), ports)
        self.task = java_class("kit.TestPlugins$ObeyingTask", folder, JavaSinkTask, host)()
        self.task.decode_with(_CHAIN)

    def journal_of_a_run(self, journal: Path) -> list[str]:
        converter = StringConverter()
        converter.configure({}, is_key=False)
        tolerance = Tolerance(ToleranceSettings(retry_delay_max_ms=1000), self.control.wait, [])
        converters, raw_records = Converters(converter, converter, SimpleHeaderConverter()), RawRecords(is_wanted=False)
        errant = ErrantRecords(tolerance, JavaSinkTask, raw_records, converters.unguarded().to_kafka_record)
        context = SinkContext(self.consumer, dict, PluginMetricsRegistry().of_plugin())
        calling = partial(plugin_call, health=self.control.health)
        parts = SinkParts(
            calls=SinkCalls(self.task, {"journal": str(journal)}, context, calling, raw_records),
            forms=JavaDecoding(self.task, tolerance, self.control.used_topics, calling),
            stages=SinkStages(tolerance, TransformChain([]), converters, raw_records, errant, None),
            consumer=self.consumer,
            commit_times=TIMES,
            topics=["t"],
            max_records=10,
            clock=self.clock,
        )
        loop = SinkLoop(self.control, parts)
        with log_context("obeys", 0):
            try:
                loop.start()
                loop.run()
            finally:
                loop.close()
        return journal.read_text().splitlines()

    def _step(self) -> None:
        if self._steps:
            self._steps.pop(0)(self)
        else:
            self.control.stop()


def idle(bench: Bench) -> None:
    """A fetch with nothing else."""


def numbers(count: int, **asks: int) -> list[bytes]:
    """Values of a partition; `asks`: what the task is to ask for at which offset."""
    values = [b"%d" % number for number in range(count)]
    for what, offset in asks.items():
        values[offset] = what.encode()
    return values


@pytest.mark.parametrize(
    "meanwhile",
    [lambda bench: bench.clock.advance(2), lambda bench: bench.consumer.revoke(TWO)],
    ids=["a commit is due", "another partition goes"],
)
def test_a_rewind_is_done_before_the_next_put_whatever_comes_meanwhile(
    host: HostProcess, folder: str, tmp_path: Path, meanwhile: Callable[[Bench], object]
) -> None:
    """The put of 10 to 19, which asks for 5, is still under way in Java then."""
    steps = [lambda bench: bench.consumer.assign(ONE, TWO), idle, meanwhile, idle, idle, idle, idle, idle]
    bench = Bench(host, folder, steps, one=numbers(40, rewind=10), two=[])
    reported = bench.journal_of_a_run(tmp_path / "journal.txt")
    assert [line for line in reported if line.startswith("put")] == [
        "put 0 9",
        "put 10 19",
        "put 5 14",
        "put 15 24",
        "put 25 34",
        "put 35 39",
    ]
    assert bench.kafka.committed[ONE] == 40
    assert getattr(bench.kafka.committed[ONE], "note", None) == "before 40", "which the task has put beside it"
