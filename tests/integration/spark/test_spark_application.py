"""The Spark application as a whole: it comes, says why it cannot come, and goes without a trace.

With its worker, or its JVM, killed: system/worker/test_killed_in_mid_stream.py; with a task that never returns:
system/worker/test_degraded_tasks.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import kconnect
from kconnect.errors import EnvironmentProblemError
from kconnect.model import RunState
from kconnect.runtime.config.worker_config import KConnectSettings
from kconnect.spark import SparkLauncher, SparkSettings
from kconnect.spark.application import SparkApplication
from kconnect.spark.early_jvm import jvm_launched_early
from kconnect.spark.preload import WAIT
from kit.launchers import SeenEvents, await_slots, journal_spec
from kit.pace import ample_s, now
from kit.spark_cluster import bare_interpreter
from kit.waiting import eventually

pytestmark = pytest.mark.spark


def _children() -> set[int]:
    """Processes below this one, dead ones that nobody waited for included."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


def _temporary_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"kconnect-spark-{os.getpid()}-*"))


def test_stopping_leaves_no_process_no_thread_and_no_folder(tmp_path):
    before = _children()
    folders = len(_temporary_folders())
    events = SeenEvents()
    launcher = SparkLauncher(SparkSettings(slots=2))
    launcher.start(events)
    await_slots(launcher)
    specs = [journal_spec("last", tmp_path / "journal", task=number) for number in range(3)]
    launcher.start_tasks(specs)
    events.await_state(RunState.RUNNING, *specs)
    started = _children() - before
    assert len(started) >= 4  # JVM, daemon, two slots
    for pid in started:
        with suppress(ProcessLookupError):  # a short-lived one
            assert os.getpgid(pid) != os.getpgid(0), "Ctrl-C is not theirs"

    began_s = now()
    launcher.stop(ample_s(10.0))

    assert now() - began_s < 10.0
    assert _children() <= before
    assert len(_temporary_folders()) == folders
    # each task was stopped in good order
    assert (tmp_path / "journal").read_text().split().count("stop") == 3
    launcher.stop(1.0)  # twice is once


def test_each_connector_with_slots_of_its_own_gets_a_core_more_than_spark_was_started_with(tmp_path):
    events = SeenEvents()
    launcher = SparkLauncher(SparkSettings(slots=1, query_cores=0))  # local[1]
    launcher.start(events)
    try:
        shared = journal_spec("shared", tmp_path / "journal")
        own = [journal_spec(name, tmp_path / "journal", kconnect_slot="own") for name in ("one", "two")]
        launcher.start_tasks([shared, *own])
        events.await_state(RunState.RUNNING, shared, *own, within_s=60.0)
        assert {slot.connector: slot.tasks for slot in launcher.slots()} == {
            None: (shared.id,),
            "one": (own[0].id,),
            "two": (own[1].id,),
        }
        assert len({slot.pid for slot in launcher.slots()}) == 3

        launcher.stop_tasks([own[0].id], 5.0)
        eventually(lambda: len(launcher.slots()) == 2, 30, "the slot of the connector that left ends")
        three = journal_spec("three", tmp_path / "journal", kconnect_slot="own")
        launcher.start_tasks([three])
        events.await_state(RunState.RUNNING, three, within_s=30.0)
        assert events.states(shared).count(RunState.RUNNING) == 1
    finally:
        launcher.stop(10.0)


def test_stopping_in_the_middle_of_the_start_leaves_nothing():
    before = _children()
    launcher = SparkLauncher(SparkSettings(slots=1))
    launcher.start(SeenEvents())
    eventually(lambda: len(_children()) > len(before), 10, "the JVM starts", pause_s=0.01)

    launcher.stop(10.0)

    assert _children() <= before


def test_a_jvm_that_was_killed_is_not_asked_to_end_in_order():
    before = _children()
    application = SparkApplication(SparkSettings(slots=1))
    application.start()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        application._jvm.kill()  # as a stop does that finds it still starting; the kernel takes a moment
        application.stop(ample_s(10.0))

    assert not [str(warning.message) for warning in warned if warning.category is RuntimeWarning]
    assert _children() <= before


def test_a_machine_without_java_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    launcher = SparkLauncher(SparkSettings(slots=1))
    launcher.start(SeenEvents())
    try:
        failure = eventually(launcher.failure, 10, "the reason why Spark cannot start")
    finally:
        launcher.stop(2.0)

    assert failure.startswith("Java 17 or newer is needed for Spark")
    assert "\n" not in failure


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"spark.driver.memory": "lots"}, "lots"),
        ({"spark.master": "nowhere"}, "nowhere"),
    ],
)
def test_settings_spark_refuses_are_reported_with_its_reason(settings, part):
    launcher = SparkLauncher(SparkSettings.parse(settings))
    launcher.start(SeenEvents())
    try:
        failure = eventually(launcher.failure, 30, "the reason why Spark cannot start")
    finally:
        launcher.stop(5.0)

    assert part in failure
    assert "spark.*" in failure


# What a Python of the next minor version tells of itself; Spark's worker looks at this before anything else
_OTHER_VERSION = """
import collections, sys
fields = collections.namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = fields(sys.version_info.major, sys.version_info.minor + 1, 0, "final", 0)
"""


def test_another_minor_version_of_python_is_one_sentence_with_both_versions(tmp_path):
    """There is but one Python on this machine: the executors' is this one, and says that it is another."""
    python = bare_interpreter(tmp_path / "other")
    (packages,) = (tmp_path / "other" / "lib").glob("*/site-packages")
    (packages / "sitecustomize.py").write_text(_OTHER_VERSION)
    (packages / "kconnect.pth").write_text(f"{Path(kconnect.__file__).parents[1]}\n")
    launcher = SparkLauncher(SparkSettings.parse({"spark.master": "local[1]", "spark.pyspark.python": str(python)}))
    launcher.start(SeenEvents())
    try:
        failure = eventually(launcher.failure, 120, "the reason why no slot starts")
    finally:
        launcher.stop(5.0)

    mine, other = (f"{sys.version_info.major}.{sys.version_info.minor + more}" for more in (0, 1))
    assert failure.startswith("Slots cannot start: ")
    assert f"Python in worker has different version: {other} than that in driver: {mine}" in failure
    assert "\n" not in failure


def test_a_broken_class_archive_does_not_break_the_start(tmp_path):
    settings = SparkSettings(slots=1, cache=tmp_path)
    _broken_archive(settings)
    launcher = SparkLauncher(settings)
    launcher.start(SeenEvents())
    try:
        await_slots(launcher)
    finally:
        launcher.stop(10.0)


def test_a_setting_that_keeps_the_jvm_from_starting_does_not_cost_the_class_archive(tmp_path):
    """Without the archive it does not start either: so the archive is not to blame."""
    settings = replace(SparkSettings.parse({"spark.driver.memory": "lots"}), cache=tmp_path)
    archive = _broken_archive(settings)
    app = SparkApplication(settings)
    try:
        with pytest.raises(EnvironmentProblemError, match="lots"):
            app.start()
    finally:
        app.stop(5.0)

    assert archive.exists()


def _broken_archive(settings: SparkSettings) -> Path:
    """One with the right checksum, so that only the JVM can find out."""
    archive = SparkApplication(settings).archive
    with archive.sole_maker(0.0):
        archive.unfinished.write_bytes(os.urandom(1 << 20))
        archive.finish()
    assert archive.path is not None
    return archive.path


def _waiting() -> psutil.Process:
    """The daemon that waits for Spark, or was taken by it."""

    def found() -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if WAIT in one.cmdline()]

    # For a moment Popen is back and the kernel has not yet noted the arguments
    (daemon,) = eventually(found, 10, "the daemon has its arguments")
    return daemon


@pytest.fixture
def launched() -> Iterator[SparkLauncher]:
    """A launcher of one slot whose JVM and daemon are launched, and Spark not yet started."""
    app = SparkApplication(SparkSettings(slots=1))
    launcher = SparkLauncher(app.settings, app)
    try:
        app.launch()
        yield launcher
    finally:
        launcher.stop(ample_s(10.0))


def _slot_of(launcher: SparkLauncher) -> psutil.Process:
    launcher.start(SeenEvents())
    await_slots(launcher)
    (slot,) = launcher.slots()
    return psutil.Process(slot.pid)


def test_slots_are_forked_from_a_process_that_has_imported_before_spark_asked(launched):
    waiting = _waiting()
    assert _slot_of(launched).ppid() == waiting.pid
    assert waiting.num_threads() == 1
    launched.stop(ample_s(10.0))
    assert not waiting.is_running()


def test_slots_start_too_where_the_process_that_waits_has_died(launched):
    waiting = _waiting()
    waiting.kill()
    assert _slot_of(launched).ppid() != waiting.pid


def test_where_daemon_and_slot_are_killed_another_daemon_forks_the_next_slot(launched):
    slot, daemon = _slot_of(launched), _waiting()
    daemon.kill()
    slot.kill()

    def is_of_another() -> bool:
        (found,) = launched.slots()
        return found.attached and psutil.Process(found.pid).ppid() not in (daemon.pid, 1)

    eventually(is_of_another, 20, "a slot of another daemon")


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ({}, True),
        ({"kconnect.java.command": "org.example.Main"}, True),
        ({"kconnect.slots": "1"}, False),
        ({"spark.driver.memory": "200m"}, False),
    ],
)
def test_a_jvm_that_is_launched_early_is_taken_by_a_worker_whose_settings_it_suits(given, is_taken):
    early, before = {"kconnect.slots": "2"}, _children()
    with jvm_launched_early(early, KConnectSettings.parse) as launcher:
        daemon = _waiting()
        (jvm,) = [one for one in psutil.Process().children() if one.pid not in before | {daemon.pid}]
        made = launcher(early | given)
        assert jvm.is_running() is is_taken or jvm.status() == psutil.STATUS_ZOMBIE
        made.stop(ample_s(5.0))
    assert not jvm.is_running()


@pytest.mark.parametrize(
    "props", [{"spark.app.name": "${file:/run/name:key}"}, {"kconnect.slots": "many"}, {"kconnect.java.host": "moon"}]
)
def test_no_jvm_is_launched_early_for_settings_that_are_not_known_or_wrong(props):
    before = _children()
    with jvm_launched_early(props, KConnectSettings.parse):
        assert _children() == before
