"""What every Launcher does, on threads of this process and on real Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kconnect.herder.interface import Launcher
from kconnect.model import RunState, TargetState, TaskId
from kconnect.spark import SparkLauncher, SparkSettings
from kconnect.testing import ThreadLauncher
from kit.launchers import SeenEvents, await_slots, journal_spec
from kit.pace import now


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """The launcher outlives each test here, and makes threads as it needs them; tests/integration looks for leaks."""


@pytest.fixture(scope="module", params=["thread", pytest.param("spark", marks=pytest.mark.spark)])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[Launcher, SeenEvents]]:
    launcher: Launcher = ThreadLauncher() if request.param == "thread" else SparkLauncher(SparkSettings(slots=2))
    events = SeenEvents()
    launcher.start(events)
    try:
        await_slots(launcher)
        yield launcher, events
    finally:
        launcher.stop(10.0)


@pytest.fixture
def launcher(running: tuple[Launcher, SeenEvents]) -> Launcher:
    return running[0]


@pytest.fixture
def events(running: tuple[Launcher, SeenEvents]) -> SeenEvents:
    return running[1]


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

    began_s = now()
    left = launcher.stop_tasks([stuck.id, other.id], 2.0)  # in which the other one stops on a busy machine, too

    assert left == {stuck.id}
    assert now() - began_s < 4.5
    again = journal_spec("stuck", tmp_path / "again")
    launcher.start_tasks([again])
    events.await_state(RunState.RUNNING, again)
    assert RunState.STOPPED not in events.states(stuck)
    assert launcher.stop_tasks([again.id], 10.0) == set()


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
