"""Java's tasks in a JVM beside our process, without Kafka: what one does to the JVM does not hurt the others in it."""

from __future__ import annotations

import itertools
import logging
import os
import resource
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import RecordMetadata, Schema, SinkRecord, TimestampType
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.java.kafka_jars import JarSet
from kconnect.java.plugins import JavaSettings
from kconnect.java.plugins.encoded import JavaChain, JavaPart
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.hosting import java_class
from kconnect.java.plugins.index import JavaIndex
from kconnect.java.plugins.java_error import JavaHostDiedError
from kconnect.java.plugins.sink_task import JavaSinkTask, RawRun
from kconnect.java.plugins.source_task import JavaSourceTask
from kconnect.logs.log_context import LogLevels, current_place, log_context
from kconnect.model import TopicPartition
from kconnect.runtime.herder.decisions.failures import failure_of
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch, FetchedRecord
from kconnect.runtime.pipeline.java_chain import raw_record, reported_record
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_context import ErrantRecords
from kconnect.runtime.pipeline.stages import StageError
from kconnect.runtime.pipeline.tolerance import Tolerance, ToleranceSettings
from kit.java_plugin_folder import java_plugin_folder
from kit.pace import ample_s
from kit.waiting import eventually

pytestmark = [pytest.mark.java]

_STORAGE = "org.apache.kafka.connect.storage"
_STRING = JavaPart(f"{_STORAGE}.StringConverter", None, {})
_CHAIN = JavaChain((), _STRING, _STRING, JavaPart(f"{_STORAGE}.SimpleHeaderConverter", None, {}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(java_plugin_folder(tmp_path_factory.mktemp("plugins")) / "kit")


@pytest.fixture
def host(caplog: pytest.LogCaptureFixture) -> Iterator[HostProcess]:
    caplog.set_level("INFO")
    made = HostProcess(JavaIndex(), JavaSettings())
    yield made
    made.stop()


class Context:
    """As much of a task's context as these tasks ask for."""

    def __init__(self, name: str, reporter: ErrantRecords | None = None) -> None:
        self.metrics = PluginMetricsRegistry()
        self._name = name
        self._reporter = reporter

    def plugin_metrics(self) -> Any:
        return self.metrics.of_plugin(connector=self._name, task="0")

    def errant_record_reporter(self) -> ErrantRecords | None:
        return self._reporter

    def assignment(self) -> set[TopicPartition]:
        return set()

    def transaction_context(self) -> None:
        return None


class Sink:
    """A sink task; its whole chain is Java's, unless there is none."""

    def __init__(
        self,
        host: HostProcess,
        folder: str,
        name: str,
        java_name: str = "kit.Careless$Sink",
        letters: Letters | None = None,
        chain: JavaChain | None = _CHAIN,
    ) -> None:
        self.task = java_class(java_name, folder, JavaSinkTask, host)()
        self.context = Context(name, None if letters is None else letters.errant)
        self.task.context = self.context  # type: ignore[assignment]  # what these tasks need of it
        self._offset = 0
        with log_context(name, 0):
            if letters is not None:
                self.task.report_with(letters.report_run, partial(raw_record, letters.raw_records))
            if chain is not None:
                self.task.decode_with(chain)
            self.task.start({})

    def put(self, *texts: str) -> None:
        """Have it put records, and wait until it has. Errors: what put() throws."""
        batch = self.task.new_batch()
        offsets = range(self._offset, self._offset + len(texts))
        self._offset += len(texts)
        values = [text.encode() for text in texts]
        self.task.take(batch, RawRun("t", 0, list(offsets), None, values, None, "CreateTime", None))
        self.task.put_soon(batch)
        self.task.settle(batch)
        if batch.error is not None:
            raise batch.error
        assert batch.is_put

    def stop(self) -> None:
        self.task.stop()


@contextmanager
def sinks(host: HostProcess, folder: str, *names: str) -> Iterator[list[Sink]]:
    made = [Sink(host, folder, name) for name in names]
    yield made
    for sink in made:
        sink.stop()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the tasks so far."""
    return [record.message for record in caplog.records if record.name == "kit.Careless"]


def test_lines_of_an_interrupted_thread_come_in_order_and_the_jvm_is_still_heard(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines = 20_000  # more than wait for their turn at once
    with sinks(host, folder, "pool", "other") as (pool, other):
        pool.put(f"flood {lines}")
        other.put("say goodbye")
        eventually(lambda: "goodbye" in said(caplog), 20, "the JVM is heard")
        assert said(caplog) == [*(f"line {number}" for number in range(lines)), "goodbye"]


def test_an_interrupt_that_a_task_leaves_behind_ends_with_its_call(host: HostProcess, folder: str) -> None:
    with sinks(host, folder, "bad", "other") as (bad, other):
        bad.put("interrupt")
        bad.put("say nothing", "interrupt")
        other.put("say nothing")
        pid = host.pid
    assert host.pid == pid


def test_what_a_task_says_before_it_ends_the_jvm_is_heard(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks(host, folder, "ends") as (ends,), pytest.raises(JavaHostDiedError, match="exit code 7"):
        ends.put("flood 2000", "say goodbye", "exit")
    eventually(lambda: "goodbye" in said(caplog), 10, "the last line is there")
    assert len(said(caplog)) == 2001


def test_a_rewind_to_no_offset_is_said_and_not_done(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks(host, folder, "rewinds") as (rewinds,):
        rewinds.put("rewind-nowhere", "say it goes on")
        eventually(lambda: "it goes on" in said(caplog), 10, "it goes on")
    assert "Cannot rewind t-0 to null offset" in caplog.text


def test_an_offset_of_no_partition_is_passed_over_and_the_others_are_committed(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks(host, folder, "commits") as (commits,):
        commits.put("commit-nowhere")
        assert commits.task.pre_commit({TopicPartition("t", 0): 1}) == {TopicPartition("t", 0): 1}
        eventually(lambda: "Ignoring invalid task provided offset null/" in caplog.text, 10, "it is said")


def test_what_a_task_prints_is_its_line_from_where_it_prints(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    places: list[tuple[str | None, int | None]] = []

    class Placed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            places.append(current_place())

    logger = logging.getLogger("kconnect.java.stdout")
    logger.addHandler(placed := Placed())
    try:
        with sinks(host, folder, "prints") as (prints,):
            prints.put("print hello")
            eventually(lambda: places, 10, "the line is there")
    finally:
        logger.removeHandler(placed)
    (line,) = (one for one in caplog.records if one.name == logger.name)
    assert (line.getMessage(), line.pathname, places) == ("hello", "Careless.java", [("prints", 0)])


@pytest.fixture(scope="module")
def own_log4j(folder: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The plugin beside a log4j of its own."""
    made = tmp_path_factory.mktemp("own") / "kit"
    shutil.copytree(folder, made)
    for jar in JarSet("connect").fetch():
        if jar.name.startswith(("log4j-api", "log4j-core")):
            shutil.copy(jar, made)
    return str(made)


def test_a_log4j_of_the_plugins_own_and_kafkas_have_their_levels_in_one_jvm(
    host: HostProcess, folder: str, own_log4j: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        for place in (own_log4j, folder):
            (sink,) = stack.enter_context(sinks(host, place, place))
            for logs in ("log4j", "commons"):
                sink.put(f"{logs} {logs}")
        sink.put("say all")
        eventually(lambda: "all" in said(caplog), 10, "the lines are there")
    found = [record.message.partition("\n")[0] for record in caplog.records if record.levelno == logging.WARNING]
    assert found == ["log4j", "commons"] * 2
    assert "LogOfLog4j" not in caplog.text


_WARNED, _REFUSED = (logging.WARNING, "well"), (logging.ERROR, "well again")


@pytest.mark.parametrize(
    ("logs", "lines"),
    [
        ("log4j", [_WARNED, (logging.DEBUG, "well for the curious"), _WARNED]),
        ("commons", [_WARNED, _WARNED]),
        (
            "jdk",
            [(logging.ERROR, "well again"), (logging.DEBUG, "well for the curious"), (logging.ERROR, "well again")],
        ),
    ],
)
def test_lines_of_each_api_have_their_levels_and_heed_ours(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture, logs: str, lines: list[tuple[int, str]]
) -> None:
    levels = LogLevels()
    caplog.handler.setLevel(logging.NOTSET)
    with sinks(host, folder, "logs") as (sink,):
        sink.put(f"{logs} well")
        levels.set("kit.Careless", logging.DEBUG)
        try:
            sink.put(f"{logs} well", "say all")
            eventually(lambda: "all" in said(caplog), 10, "the lines are there")
        finally:
            levels.set("kit.Careless", logging.NOTSET)
    found = [record for record in caplog.records if record.name == "kit.Careless"]
    assert [(record.levelno, record.message.partition("\n")[0]) for record in found[:-1]] == lines
    assert {record.pathname for record in found} == {"Careless.java"}
    assert ("DataException: of log4j" in caplog.text) is (logs == "log4j")


def test_what_ends_a_thread_of_a_plugin_is_an_error_in_one_piece(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks(host, folder, "throws") as (throws,):
        throws.put("throw-beside of its own", "say it goes on")
        eventually(lambda: "it goes on" in said(caplog), 10, "it goes on")
    (line,) = (one for one in caplog.records if "of a plugin ended" in one.message)
    assert line.levelno == logging.ERROR
    assert "ConnectException: of its own\n\tat kit.Careless$Sink." in line.message


def test_who_ends_the_jvm_is_named(host: HostProcess, folder: str) -> None:
    with sinks(host, folder, "ends", "other") as (ends, other):
        for sink in (ends, other):
            with pytest.raises(JavaHostDiedError) as died:
                sink.put("exit")
            said = str(died.value)
            assert "(exit code 7, as ends-0 called System.exit at kit.Careless$Sink.obey(Careless.java:" in said
            assert failure_of("w", said).ended_by == "ends-0", "it alone pays for restarts"


def test_who_ends_the_jvm_and_is_not_named_is_parted_from_the_others_at_the_second_time(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("halts", "one", "two")
    for _ in range(2):
        with sinks(host, folder, *names) as (halts, *_others), pytest.raises(JavaHostDiedError, match="exit code 8"):
            halts.put("halt")
    parted = "does not say by whose plugin: halts, one, two get 3 JVMs"
    eventually(lambda: parted in caplog.text, 10, "they are parted")
    with sinks(host, folder, *names) as (halts, one, two):
        with pytest.raises(JavaHostDiedError):
            halts.put("halt")
        one.put("say one goes on")
        two.put("say two goes on")
        eventually(lambda: sorted(said(caplog)) == ["one goes on", "two goes on"], 10, "they are heard")


def test_who_is_named_is_parted_at_once(host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture) -> None:
    with sinks(host, folder, "ends", "other") as (ends, _), pytest.raises(JavaHostDiedError):
        ends.put("exit")
    eventually(lambda: "ends ended the JVM that it shared, and gets one of its own" in caplog.text, 10, "it is parted")
    with sinks(host, folder, "ends", "other") as (ends, other):
        with pytest.raises(JavaHostDiedError):
            ends.put("exit")
        other.put("say nothing")


def test_a_jvm_whose_control_connection_is_gone_is_killed_and_its_tasks_are_reported(
    host: HostProcess, folder: str
) -> None:
    def reported() -> str:
        try:
            other.put("say nothing")
        except JavaHostDiedError as err:
            return str(err)
        return ""

    with sinks(host, folder, "bad", "other") as (bad, other):
        bad.put("cut")
        assert "killed by signal 9: its control connection was closed" in eventually(
            reported, 20, "the others are reported"
        )


@pytest.mark.parametrize("polls_again", [True, False])
def test_a_record_that_a_source_cannot_take_as_written_is_logged_and_it_is_reported_of_the_next_ones(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture, polls_again: bool
) -> None:
    task = java_class("kit.Careless$Source", folder, JavaSourceTask, host)()
    task.context = Context("numbers")  # type: ignore[assignment]  # what this task needs of it
    task.encode_with(_CHAIN)
    with log_context("numbers", 0):
        task.start({})
    polled = task.poll()
    for number in range(3):
        task.commit_record(polled.first + number, RecordMetadata("t", 0, number, 0))
    if polls_again:
        assert task.poll() is None
    task.stop()
    eventually(lambda: "stopped" in said(caplog), 10, "it is stopped")
    assert said(caplog) == ["committed good", "committed good again", "stopped"]
    (error,) = (record.message for record in caplog.records if record.levelname == "ERROR")
    assert error.startswith("Exception thrown while calling task.commitRecord() for {of=all} at {at=bad}\n")
    assert "no such message any more" in error


def test_a_class_of_kafka_is_loaded_while_another_thread_has_the_loader_above_all_folders(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks(host, folder, "loads") as (loads,):
        loads.put("load-beside org.apache.kafka.common.Reconfigurable")
        eventually(lambda: said(caplog), 10, "it is reported")
    assert said(caplog) == ["org.apache.kafka.common.Reconfigurable is loaded"]


class Index(JavaIndex):
    """A class that is no plugin, in several folders."""

    def __init__(self, name: str, *folders: Path) -> None:
        super().__init__()
        self._places = {name: {"transformation": [*folders]}}

    def plugins(self, *, reads: bool = True) -> Mapping[str, Mapping[str, list[Path]]]:
        return self._places


def test_a_plugin_of_several_folders_may_have_itself_loaded_on_another_thread_while_its_version_is_asked(
    folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    name = "kit.Careless$Asks"
    host = HostProcess(Index(name, Path(folder), again), JavaSettings())
    try:
        with sinks(host, folder, "loads") as (loads,):
            loads.put(f"load {name}")
            eventually(lambda: said(caplog), 10, "it is reported")
    finally:
        host.stop()
    assert said(caplog) == [f"{name} is loaded"] * 2


def test_a_jvm_whose_files_are_used_up_goes_on_with_its_tasks_and_takes_the_next_one_once_there_are_some(
    host: HostProcess, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    def is_reported() -> bool:
        return any("No plugin can be started now" in record.message for record in caplog.records)

    with sinks(host, folder, "first") as (first,), ThreadPoolExecutor(1) as threads, ExitStack() as stack:
        pid = host.pid
        assert pid is not None
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        unused = next(number for number in itertools.count() if number not in used)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (unused, before[1]))
        stack.callback(resource.prlimit, pid, resource.RLIMIT_NOFILE, before)
        # Java waits for one connection with a file for it at hand
        later = [threads.submit(Sink, host, folder, name) for name in ("second", "third")]
        eventually(is_reported, 20, "it is reported")
        first.put("say nothing")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for future in later:
            sink = future.result(ample_s(20))
            sink.put("say nothing")
            sink.stop()
        assert host.pid == pid


def test_a_metric_that_throws_an_error_is_missing_alone(host: HostProcess, folder: str) -> None:
    def shown(sink: Sink) -> dict[str, object]:
        return {metric.name: metric.value for metric in sink.context.metrics.values()}

    with sinks(host, folder, "bad", "other") as (bad, other):
        bad.put("gauge-bad", "gauge")
        eventually(lambda: shown(bad) == {"puts": 1}, 20, "the bad one has been asked")
        other.put("gauge")
        eventually(lambda: shown(other) == {"puts": 1}, 20, "a later task's are shown")
        other.put("say nothing")
        eventually(lambda: shown(other) == {"puts": 2}, 20, "and are shown again")


class Letters:
    """What a task reports: the bytes that a dead letter queue would write."""

    def __init__(self) -> None:
        text = StringConverter()
        text.configure({}, is_key=False)
        self.raw_records = RawRecords(is_wanted=True)
        self.found: list[FetchedRecord | None] = []
        tolerance = Tolerance(ToleranceSettings(tolerate_all=True), lambda seconds: False, [self])
        converters = Converters(text, text, SimpleHeaderConverter()).unguarded()
        self.errant = ErrantRecords(tolerance, JavaSinkTask, self.raw_records, converters.to_kafka_record)

    def report(self, failure: StageError, attempts: int) -> None:
        self.found.append(self.raw_records.of(failure.record))

    def report_run(self, run: RawRun, error: BaseException) -> None:
        self.errant.report(reported_record(run), error)


_HEADERS = [("header", b"text")]
_MADE = FetchedRecord("t", 0, 0, b"key", b"made of report-made", 1234, TimestampType.CREATE_TIME, _HEADERS)


def test_a_record_that_a_java_task_made_itself_is_reported_with_what_its_converters_write(
    host: HostProcess, folder: str
) -> None:
    letters = Letters()
    sink = Sink(host, folder, "reports", letters=letters)
    sink.put("report-made")
    sink.stop()
    assert letters.found == [_MADE]


_READ = FetchedBatch("t", 0, [0], None, [b"as it was read"], None, TimestampType.CREATE_TIME, None)


@pytest.mark.parametrize(("says", "letter"), [("report", _READ.row(0)), ("report-made", _MADE)])
def test_in_a_chain_of_ours_a_java_tasks_report_has_what_was_read_or_what_our_converters_write_of_its_own_record(
    host: HostProcess, folder: str, says: str, letter: FetchedRecord
) -> None:
    letters = Letters()
    sink = Sink(host, folder, "reports", letters=letters, chain=None)
    letters.errant.for_task()
    record = SinkRecord("t", 0, None, None, Schema.STRING_SCHEMA, says, 0)
    letters.raw_records.put([record], [_READ])
    sink.task.put([record])
    sink.stop()
    assert letters.found == [letter]
