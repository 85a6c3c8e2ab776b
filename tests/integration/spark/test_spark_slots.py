"""Slots on real Spark: they die, hang, are held, and come back with their tasks."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kconnect.model import RunState, TargetState
from kconnect.spark import SparkLauncher, SparkSettings
from kit.freezing import freeze, wake
from kit.launchers import SeenEvents, await_slots, journal_spec
from kit.pace import ample_s
from kit.waiting import eventually

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """The launcher outlives each test here; test_spark_application.py looks for leaks."""


@pytest.fixture(scope="module")
def events() -> SeenEvents:
    return SeenEvents()


@pytest.fixture(scope="module")
def launcher(events: SeenEvents) -> Iterator[SparkLauncher]:
    # 3 s on a quiet machine: on a slow one a slot that is alive may be silent for longer
    launcher = SparkLauncher(SparkSettings(slots=2, heartbeat_interval_s=0.2, heartbeat_timeout_s=ample_s(0.75)))
    launcher.start(events)
    try:
        await_slots(launcher)
        yield launcher
    finally:
        launcher.stop(10.0)


@pytest.fixture
def tasks(launcher, events, tmp_path):
    """Four running tasks, two in each slot."""
    await_slots(launcher)
    specs = [journal_spec(tmp_path.name, tmp_path / "journal", task=number) for number in range(4)]
    launcher.start_tasks(specs)
    events.await_state(RunState.RUNNING, *specs)
    yield specs
    assert launcher.stop_tasks([spec.id for spec in specs], ample_s(10.0)) == set()


def _pid(launcher: SparkLauncher, slot: int) -> int:
    pid = launcher.slots()[slot].pid
    assert pid is not None
    return pid


def test_tasks_of_a_killed_slot_run_again_and_the_others_never_notice(launcher, events, tasks, record_property):
    victims = [spec for spec in tasks if spec.id in launcher.slots()[0].tasks]
    others = [spec for spec in tasks if spec not in victims]
    before = _pid(launcher, 0)

    began_s = time.monotonic()
    os.kill(before, signal.SIGKILL)
    eventually(lambda: all(RunState.UNASSIGNED in events.states(spec) for spec in victims), 10, "told UNASSIGNED")
    events.await_state(RunState.RUNNING, *victims, within_s=10)

    record_property("recovery_s", round(time.monotonic() - began_s, 2))
    assert [events.states(spec) for spec in victims] == [["RUNNING", "UNASSIGNED", "RUNNING"]] * 2
    assert [events.states(spec) for spec in others] == [["RUNNING"]] * 2
    assert _pid(launcher, 0) != before


def test_all_slots_may_be_killed_again_and_again(launcher, events, tasks):
    """More often than Spark itself runs a task of one job again."""
    for round_number in range(1, 6):
        await_slots(launcher)
        for slot in launcher.slots():
            assert slot.pid is not None
            os.kill(slot.pid, signal.SIGKILL)
        eventually(
            lambda times=round_number: all(events.states(spec).count("UNASSIGNED") == times for spec in tasks),
            10,
            "told UNASSIGNED",
        )
        events.await_state(RunState.RUNNING, *tasks, within_s=20)


def test_a_stopped_slot_is_replaced(launcher, events, tasks):
    before = _pid(launcher, 1)
    os.kill(before, signal.SIGSTOP)

    eventually(lambda: launcher.slots()[1].pid not in (None, before), 20, "another process is slot 1")
    events.await_state(RunState.RUNNING, *tasks, within_s=10)

    eventually(lambda: not psutil.pid_exists(before), 10, "it has ended")


def test_an_idle_slot_held_by_a_task_that_never_stops_is_replaced(launcher, events, tmp_path):
    await_slots(launcher)
    stuck = journal_spec("held", tmp_path / "journal", hang_in="stop")
    launcher.start_tasks([stuck])
    events.await_state(RunState.RUNNING, stuck)
    (slot,) = (slot for slot in launcher.slots() if stuck.id in slot.tasks)

    assert launcher.stop_tasks([stuck.id], 0.3) == {stuck.id}

    eventually(lambda: launcher.slots()[slot.slot].pid not in (None, slot.pid), 20, "another process is that slot")
    eventually(lambda: not psutil.pid_exists(slot.pid or 0), 10, "it has ended")


def test_a_task_stopped_while_its_slot_is_away_stays_stopped(launcher, events, tmp_path):
    await_slots(launcher)
    spec = journal_spec("gone", tmp_path / "journal")
    launcher.start_tasks([spec])
    events.await_state(RunState.RUNNING, spec)
    (slot,) = (slot for slot in launcher.slots() if spec.id in slot.tasks)

    os.kill(slot.pid or 0, signal.SIGKILL)
    eventually(lambda: RunState.UNASSIGNED in events.states(spec), 10, "told UNASSIGNED")
    assert launcher.stop_tasks([spec.id], ample_s(5.0)) == set()
    await_slots(launcher)

    assert events.states(spec)[-1] is RunState.UNASSIGNED


def test_a_failed_task_stays_failed_when_its_slot_is_lost(launcher, events, tmp_path):
    await_slots(launcher)
    bad = journal_spec("bad", tmp_path / "journal", raise_in="start")
    launcher.start_tasks([bad])
    events.await_state(RunState.FAILED, bad)
    (slot,) = (slot for slot in launcher.slots() if bad.id in slot.tasks)

    os.kill(slot.pid or 0, signal.SIGKILL)
    eventually(lambda: launcher.slots()[slot.slot].pid not in (None, slot.pid), 20, "the slot is back")

    assert events.states(bad) == [RunState.FAILED]
    launcher.stop_tasks([bad.id], 5.0)


def test_what_a_task_prints_comes_out_of_the_worker(launcher, events, tmp_path, capsys):
    await_slots(launcher)
    spec = journal_spec("prints", tmp_path / "journal", says="a line for the console")
    launcher.start_tasks([spec])
    events.await_state(RunState.RUNNING, spec)
    seen: list[str] = []

    def is_out() -> bool:
        seen.append(capsys.readouterr().out)
        return "a line for the console\n" in "".join(seen)

    eventually(is_out, 5, "the line on standard output")
    launcher.stop_tasks([spec.id], 5.0)


def test_what_a_task_logs_is_in_the_workers_log_with_its_context(launcher, events, tmp_path, caplog):
    await_slots(launcher)
    bad = journal_spec("logs", tmp_path / "journal", raise_in="start")
    with caplog.at_level(logging.INFO):
        launcher.start_tasks([bad])
        events.await_state(RunState.FAILED, bad)

        def records() -> list[logging.LogRecord]:
            return [record for record in caplog.records if "Task logs-0 failed" in record.getMessage()]

        eventually(records, 5, "the failure in the log")
    assert records()[0].levelno == logging.ERROR
    assert (
        records()[0].threadName
        == f"slot-{next(slot.slot for slot in launcher.slots() if bad.id in slot.tasks)}/task-logs-0"
    )
    launcher.stop_tasks([bad.id], 5.0)


def test_the_daemon_that_forks_slots_has_one_thread(launcher):
    """Forking a process with other threads, such as those of a Kafka client, could copy a held lock."""
    await_slots(launcher)
    daemon = psutil.Process(_pid(launcher, 0)).parent()

    assert daemon is not None
    assert "kconnect.spark.preload" in daemon.cmdline()
    assert daemon.num_threads() == 1


def test_slots_share_their_imports_with_the_daemon(launcher, events, tmp_path):
    """With pyspark's sources on its path, zipped, a slot took 43 MB of its own before its first record, now 15."""
    spec = journal_spec("small", tmp_path / "journal")
    launcher.start_tasks([spec])
    events.await_state(RunState.RUNNING, spec)
    slots = [psutil.Process(slot.pid) for slot in launcher.slots() if slot.pid is not None]

    own_mb = [slot.memory_full_info().uss / 1e6 for slot in slots]

    assert max(own_mb) < 30, own_mb
    opened = {file.path for slot in slots for file in slot.open_files()}
    assert not any(path.endswith("pyspark.zip") for path in opened)
    launcher.stop_tasks([spec.id], 5.0)


def test_tasks_that_come_while_slots_are_away_wait_and_then_run(launcher, events, tmp_path):
    await_slots(launcher)
    spec = journal_spec("waits", tmp_path / "journal", target=TargetState.PAUSED)
    daemon = psutil.Process(_pid(launcher, 0)).parent()
    assert daemon is not None
    freeze([daemon])  # it forks slots: none is back before the task has come
    try:
        for slot in launcher.slots():
            os.kill(slot.pid or 0, signal.SIGKILL)
        eventually(lambda: not any(slot.attached for slot in launcher.slots()), 5, "slots are away", pause_s=0.001)

        launcher.start_tasks([spec])
    finally:
        wake([daemon])
    events.await_state(RunState.PAUSED, spec)

    assert events.states(spec)[0] is RunState.UNASSIGNED
    launcher.stop_tasks([spec.id], 5.0)


def test_nothing_is_written_to_the_current_folder(launcher):
    assert not [name for name in ("spark-warehouse", "metastore_db", "derby.log", "artifacts") if Path(name).exists()]
