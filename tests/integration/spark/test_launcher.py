"""What every Launcher does, on threads of this process and on real Spark; what Spark's does when its slots do not."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kconnect.model import RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.herder.interface import Launcher, SlotInfo
from kconnect.spark import SparkLauncher, SparkSettings
from kconnect.testing import ThreadLauncher
from kit.freezing import freeze, wake
from kit.launchers import SeenEvents, await_slots, journal_spec
from kit.pace import ample_s, now
from kit.waiting import eventually


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """The launcher outlives each test here, and makes threads as it needs them; test_spark_application.py looks for
    leaks.
    """


@pytest.fixture(scope="module")
def on_spark() -> Iterator[tuple[SparkLauncher, SeenEvents]]:
    # 3 s on a quiet machine: on a slow one a slot that is alive may be silent for longer
    launcher = SparkLauncher(SparkSettings(slots=2, heartbeat_interval_s=0.2, heartbeat_timeout_s=ample_s(0.75)))
    events = SeenEvents()
    launcher.start(events)
    try:
        await_slots(launcher)
        yield launcher, events
    finally:
        launcher.stop(10.0)


@pytest.fixture(scope="module")
def on_threads() -> Iterator[tuple[ThreadLauncher, SeenEvents]]:
    launcher, events = ThreadLauncher(), SeenEvents()
    launcher.start(events)
    try:
        await_slots(launcher)
        yield launcher, events
    finally:
        launcher.stop(10.0)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("on_threads", id="thread"),
        pytest.param("on_spark", id="spark", marks=pytest.mark.spark),
    ],
)
def running(request: pytest.FixtureRequest) -> tuple[Launcher, SeenEvents]:
    return request.getfixturevalue(request.param)


@pytest.fixture
def spark(on_spark: tuple[SparkLauncher, SeenEvents]) -> SparkLauncher:
    return on_spark[0]


@pytest.fixture
def reported(on_spark: tuple[SparkLauncher, SeenEvents]) -> SeenEvents:
    return on_spark[1]


@pytest.fixture
def launcher(running: tuple[Launcher, SeenEvents]) -> Launcher:
    return running[0]


@pytest.fixture
def events(running: tuple[Launcher, SeenEvents]) -> SeenEvents:
    return running[1]


def _slot_of(launcher: Launcher, spec: TaskSpec) -> SlotInfo:
    (slot,) = (slot for slot in launcher.slots() if spec.id in slot.tasks)
    return slot


def _await_replaced(launcher: Launcher, held: SlotInfo) -> None:
    """Wait until another process is the slot: one that an abandoned task holds is replaced, maybe in the next test."""
    eventually(lambda: launcher.slots()[held.slot].pid not in (None, held.pid), 20, "another process is that slot")


def test_a_task_runs_until_it_is_stopped(launcher, events, tmp_path):
    spec = journal_spec("runs", tmp_path / "journal")

    launcher.start_tasks([spec])
    events.await_state(RunState.RUNNING, spec)
    assert [spec.id in slot.tasks for slot in launcher.slots()].count(True) == 1
    left = launcher.stop_tasks([spec.id], 10.0)

    assert left == set()
    assert [line.split()[1] for line in (tmp_path / "journal").read_text().splitlines()] == ["start", "stop"]
    assert not any(slot.tasks for slot in launcher.slots())


def test_a_task_that_starts_paused_runs_when_resumed_and_pauses_again(launcher, events, tmp_path):
    spec = journal_spec("pauses", tmp_path / "journal", target=TargetState.PAUSED)

    launcher.start_tasks([spec])
    events.await_state(RunState.PAUSED, spec)
    launcher.set_target_state([spec.id], TargetState.STARTED)
    events.await_state(RunState.RUNNING, spec)
    launcher.set_target_state([spec.id], TargetState.PAUSED)
    events.await_state(RunState.PAUSED, spec)

    assert launcher.stop_tasks([spec.id], 10.0) == set()


@pytest.mark.parametrize("call", ["start", "poll"])
def test_a_task_that_raises_fails_with_its_trace_and_its_neighbours_go_on(launcher, events, tmp_path, call):
    good = [journal_spec("good", tmp_path / "good", task=number) for number in range(2)]
    bad = journal_spec("bad", tmp_path / "bad", raise_in=call)

    launcher.start_tasks([*good, bad])
    events.await_state(RunState.FAILED, bad)
    events.await_state(RunState.RUNNING, *good)

    assert f"RuntimeError: no {call} today" in events.trace(bad)
    assert launcher.stop_tasks([bad.id, *(spec.id for spec in good)], 10.0) == set()
    assert [events.states(spec)[-2:] for spec in good].count([RunState.FAILED]) == 0


def test_a_class_that_does_not_exist_is_a_failed_task(launcher, events, tmp_path):
    spec = journal_spec("nowhere", tmp_path / "journal", connector_class="no.such.Source", task_class="no.such.Task")

    launcher.start_tasks([spec])
    events.await_state(RunState.FAILED, spec)

    assert "no.such" in events.trace(spec)
    launcher.stop_tasks([spec.id], 5.0)


def test_a_task_that_never_stops_is_left_behind_in_time_and_says_nothing_more(launcher, events, tmp_path):
    stuck = journal_spec("stuck", tmp_path / "stuck", hang_in="stop")
    other = journal_spec("other", tmp_path / "other")
    launcher.start_tasks([stuck, other])
    events.await_state(RunState.RUNNING, stuck, other)
    held = _slot_of(launcher, stuck)

    began_s = now()
    left = launcher.stop_tasks([stuck.id, other.id], 2.0)  # in which the other one stops on a busy machine, too

    assert left == {stuck.id}
    assert now() - began_s < 4.5
    again = journal_spec("stuck", tmp_path / "again")
    launcher.start_tasks([again])
    events.await_state(RunState.RUNNING, again)
    assert RunState.STOPPED not in events.states(stuck)
    assert launcher.stop_tasks([again.id], 10.0) == set()
    if isinstance(launcher, SparkLauncher):
        _await_replaced(launcher, held)


def test_a_task_reads_its_committed_offsets(launcher, events, tmp_path):
    events.offsets["reads/a"] = {"position": 42}
    known = journal_spec("reads", tmp_path / "known", print_offset="a")
    unknown = journal_spec("reads", tmp_path / "unknown", task=1, print_offset="b")

    launcher.start_tasks([known, unknown])
    events.await_state(RunState.RUNNING, known, unknown)

    assert "offset {'position': 42}" in (tmp_path / "known").read_text()
    assert "offset None" in (tmp_path / "unknown").read_text()
    launcher.stop_tasks([known.id, unknown.id], 10.0)


def test_a_new_run_of_a_task_reports_under_its_own_number(launcher, events, tmp_path):
    first = journal_spec("again", tmp_path / "journal")
    launcher.start_tasks([first])
    events.await_state(RunState.RUNNING, first)
    assert launcher.stop_tasks([first.id], 10.0) == set()

    second = journal_spec("again", tmp_path / "journal")
    launcher.start_tasks([second])
    events.await_state(RunState.RUNNING, second)

    assert events.states(first)[-1] in (RunState.RUNNING, RunState.STOPPED)
    launcher.stop_tasks([second.id], 10.0)


def test_unknown_tasks_are_no_trouble(launcher):
    nobody = TaskId("nobody", 0)

    launcher.set_target_state([nobody], TargetState.PAUSED)

    assert launcher.stop_tasks([nobody], 1.0) == set()


def test_a_hundred_tasks_come_up_and_go(launcher, events, tmp_path):
    specs = [
        journal_spec("many", tmp_path / "journal", task=number, target=TargetState.PAUSED) for number in range(100)
    ]

    launcher.start_tasks(specs)
    events.await_state(RunState.PAUSED, *specs)

    counts = [len(slot.tasks) for slot in launcher.slots()]
    assert max(counts) - min(counts) <= 1
    assert launcher.stop_tasks([spec.id for spec in specs], 10.0) == set()


# --- slots on real Spark: they die, hang, are held, and come back with their tasks ---


@pytest.fixture
def tasks(spark, reported, tmp_path):
    """Four running tasks, two in each slot."""
    await_slots(spark)
    specs = [journal_spec(tmp_path.name, tmp_path / "journal", task=number) for number in range(4)]
    spark.start_tasks(specs)
    reported.await_state(RunState.RUNNING, *specs)
    yield specs
    assert spark.stop_tasks([spec.id for spec in specs], ample_s(10.0)) == set()


def _pid(spark: SparkLauncher, slot: int) -> int:
    pid = spark.slots()[slot].pid
    assert pid is not None
    return pid


@pytest.mark.spark
def test_tasks_of_a_killed_slot_run_again_and_the_others_never_notice(spark, reported, tasks, record_property):
    victims = [spec for spec in tasks if spec.id in spark.slots()[0].tasks]
    others = [spec for spec in tasks if spec not in victims]
    before = _pid(spark, 0)

    began_s = time.monotonic()
    os.kill(before, signal.SIGKILL)
    eventually(lambda: all(RunState.UNASSIGNED in reported.states(spec) for spec in victims), 10, "reported UNASSIGNED")
    reported.await_state(RunState.RUNNING, *victims, within_s=10)

    record_property("recovery_s", round(time.monotonic() - began_s, 2))
    assert [reported.states(spec) for spec in victims] == [["RUNNING", "UNASSIGNED", "RUNNING"]] * 2
    assert [reported.states(spec) for spec in others] == [["RUNNING"]] * 2
    assert _pid(spark, 0) != before


@pytest.mark.spark
def test_all_slots_may_be_killed_again_and_again(spark, reported, tasks):
    """More often than Spark itself runs a task of one job again."""
    for round_number in range(1, 6):
        await_slots(spark)
        for slot in spark.slots():
            assert slot.pid is not None
            os.kill(slot.pid, signal.SIGKILL)
        eventually(
            lambda times=round_number: all(reported.states(spec).count("UNASSIGNED") == times for spec in tasks),
            10,
            "reported UNASSIGNED",
        )
        reported.await_state(RunState.RUNNING, *tasks, within_s=20)


@pytest.mark.spark
def test_a_stopped_slot_is_replaced(spark, reported, tasks):
    before = _pid(spark, 1)
    os.kill(before, signal.SIGSTOP)

    eventually(lambda: spark.slots()[1].pid not in (None, before), 20, "another process is slot 1")
    reported.await_state(RunState.RUNNING, *tasks, within_s=10)

    eventually(lambda: not psutil.pid_exists(before), 10, "it has ended")


@pytest.mark.spark
def test_an_idle_slot_held_by_a_task_that_never_stops_is_replaced(spark, reported, tmp_path):
    await_slots(spark)
    stuck = journal_spec("held", tmp_path / "journal", hang_in="stop")
    spark.start_tasks([stuck])
    reported.await_state(RunState.RUNNING, stuck)
    slot = _slot_of(spark, stuck)

    assert spark.stop_tasks([stuck.id], 0.3) == {stuck.id}

    _await_replaced(spark, slot)
    eventually(lambda: not psutil.pid_exists(slot.pid or 0), 10, "it has ended")


@pytest.mark.spark
def test_a_task_stopped_while_its_slot_is_away_stays_stopped(spark, reported, tmp_path):
    await_slots(spark)
    spec = journal_spec("gone", tmp_path / "journal")
    spark.start_tasks([spec])
    reported.await_state(RunState.RUNNING, spec)
    slot = _slot_of(spark, spec)

    os.kill(slot.pid or 0, signal.SIGKILL)
    eventually(lambda: RunState.UNASSIGNED in reported.states(spec), 10, "reported UNASSIGNED")
    assert spark.stop_tasks([spec.id], ample_s(5.0)) == set()
    await_slots(spark)

    assert reported.states(spec)[-1] is RunState.UNASSIGNED


@pytest.mark.spark
def test_a_failed_task_stays_failed_when_its_slot_is_lost(spark, reported, tmp_path):
    await_slots(spark)
    bad = journal_spec("bad", tmp_path / "journal", raise_in="start")
    spark.start_tasks([bad])
    reported.await_state(RunState.FAILED, bad)
    slot = _slot_of(spark, bad)

    os.kill(slot.pid or 0, signal.SIGKILL)
    _await_replaced(spark, slot)

    assert reported.states(bad) == [RunState.FAILED]
    spark.stop_tasks([bad.id], 5.0)


@pytest.mark.spark
def test_what_a_task_prints_comes_out_of_the_worker(spark, reported, tmp_path, capsys):
    await_slots(spark)
    spec = journal_spec("prints", tmp_path / "journal", says="a line for the console")
    spark.start_tasks([spec])
    reported.await_state(RunState.RUNNING, spec)
    seen: list[str] = []

    def is_out() -> bool:
        seen.append(capsys.readouterr().out)
        return "a line for the console\n" in "".join(seen)

    eventually(is_out, 5, "the line on standard output")
    spark.stop_tasks([spec.id], 5.0)


@pytest.mark.spark
def test_what_a_task_logs_is_in_the_workers_log_with_its_context(spark, reported, tmp_path, caplog):
    await_slots(spark)
    bad = journal_spec("logs", tmp_path / "journal", raise_in="start")
    with caplog.at_level(logging.INFO):
        spark.start_tasks([bad])
        reported.await_state(RunState.FAILED, bad)

        def records() -> list[logging.LogRecord]:
            return [record for record in caplog.records if "Task logs-0 failed" in record.getMessage()]

        eventually(records, 5, "the failure in the log")
    assert records()[0].levelno == logging.ERROR
    assert (
        records()[0].threadName
        == f"slot-{next(slot.slot for slot in spark.slots() if bad.id in slot.tasks)}/task-logs-0"
    )
    spark.stop_tasks([bad.id], 5.0)


@pytest.mark.spark
def test_the_daemon_that_forks_slots_has_one_thread(spark):
    """Forking a process with other threads, such as those of a Kafka client, could copy a held lock."""
    await_slots(spark)
    daemon = psutil.Process(_pid(spark, 0)).parent()

    assert daemon is not None
    assert "kconnect.spark.preload" in daemon.cmdline()
    assert daemon.num_threads() == 1


@pytest.mark.spark
def test_slots_share_their_imports_with_the_daemon(spark, reported, tmp_path):
    """With pyspark's sources on its path, zipped, a slot took 43 MB of its own before its first record, now 15."""
    spec = journal_spec("small", tmp_path / "journal")
    spark.start_tasks([spec])
    reported.await_state(RunState.RUNNING, spec)
    slots = [psutil.Process(slot.pid) for slot in spark.slots() if slot.pid is not None]

    own_mb = [slot.memory_full_info().uss / 1e6 for slot in slots]

    assert max(own_mb) < 30, own_mb
    opened = {file.path for slot in slots for file in slot.open_files()}
    assert not any(path.endswith("pyspark.zip") for path in opened)
    spark.stop_tasks([spec.id], 5.0)


@pytest.mark.spark
def test_tasks_that_come_while_slots_are_away_wait_and_then_run(spark, reported, tmp_path):
    await_slots(spark)
    spec = journal_spec("waits", tmp_path / "journal", target=TargetState.PAUSED)
    daemon = psutil.Process(_pid(spark, 0)).parent()
    assert daemon is not None
    freeze([daemon])  # it forks slots: none is back before the task has come
    try:
        for slot in spark.slots():
            os.kill(slot.pid or 0, signal.SIGKILL)
        eventually(lambda: not any(slot.attached for slot in spark.slots()), 5, "slots are away", pause_s=0.001)

        spark.start_tasks([spec])
    finally:
        wake([daemon])
    reported.await_state(RunState.PAUSED, spec)

    assert reported.states(spec)[0] is RunState.UNASSIGNED
    spark.stop_tasks([spec.id], 5.0)


@pytest.mark.spark
def test_nothing_is_written_to_the_current_folder(spark):
    assert not [name for name in ("spark-warehouse", "metastore_db", "derby.log", "artifacts") if Path(name).exists()]
