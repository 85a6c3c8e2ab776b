"""The clock that bounds of tests are measured on: it runs slower while the machine is slow, and never stands still."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from kit import waiting
from kit.pace import MOST, Look, Pace, ended, now, slowness_of
from kit.waiting import eventually

QUIET = Look(work_s=0.001, crowd=0.5, late=1.0)


@pytest.fixture
def paces():
    made: list[Pace] = []

    def make(look: Look) -> Pace:
        made.append(Pace(lambda late: look, every_s=0.01))
        return made[-1]

    yield make
    for pace in made:
        pace.stop()


@pytest.mark.parametrize(
    ("look", "slowness"),
    [
        (QUIET, 1.0),
        (Look(work_s=0.0039, crowd=0.5, late=1.0), 3.0),
        (Look(work_s=0.001, crowd=4.0, late=1.0), 4.0),
        (Look(work_s=0.0026, crowd=3.0, late=1.0), 6.0),
        (Look(work_s=0.001, crowd=0.5, late=2.5), 2.5),
        (Look(work_s=1.0, crowd=900.0, late=50.0), MOST),
    ],
    ids=["quiet", "slow cores", "crowded", "slow and crowded", "late", "beyond all bounds"],
)
def test_a_machine_is_as_slow_as_its_cores_its_crowd_or_its_lateness_make_it(look, slowness):
    assert slowness_of(look) == pytest.approx(slowness)


def test_the_clock_runs_slower_on_a_slow_machine(paces):
    quiet, slow = paces(QUIET), paces(Look(work_s=0.0130, crowd=1.0, late=1.0))
    began, began_quiet, began_slow = time.monotonic(), quiet.now(), slow.now()
    threading.Event().wait(0.1)
    assert quiet.now() - began_quiet >= 0.1
    assert slow.now() - began_slow <= (time.monotonic() - began) / 9
    assert slow.slowness == pytest.approx(10)


def test_load_that_comes_later_slows_the_clock_from_then_on():
    looks = [QUIET]
    pace = Pace(lambda late: looks[-1], every_s=0.01)
    try:
        assert pace.slowness == 1.0
        looks.append(Look(work_s=0.001, crowd=8.0, late=1.0))
        eventually(lambda: pace.slowness > 7, 5)
        looks.append(QUIET)
        eventually(lambda: pace.slowness < 2, 10)
    finally:
        pace.stop()


def test_an_alarm_goes_off_after_its_time_of_the_clock_unless_it_is_called_off(paces):
    pace, rung = paces(QUIET), []
    pace.alarm(0.05, lambda: rung.append("first"))
    cancel = pace.alarm(0.05, lambda: rung.append("called off"))
    pace.alarm(60, lambda: rung.append("later"))
    cancel()
    eventually(lambda: rung == ["first"], 5)


def test_what_is_never_true_ends_with_its_bound_and_says_how_long_that_was_on_a_busy_machine(paces, monkeypatch):
    slow = paces(Look(work_s=0.001, crowd=4.0, late=1.0))
    monkeypatch.setattr(waiting, "now", slow.now)
    with pytest.raises(AssertionError, match=r"^not within 0\.1 s \(\d+ s on this busy machine\): rain; "):
        eventually(list, 0.1, "rain")


def test_a_process_is_waited_for_as_long_as_the_machine_takes():
    quick = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    assert ended(quick, 20) == 3
    slow = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        began = now()
        with pytest.raises(subprocess.TimeoutExpired):
            ended(slow, 0.1)
        assert now() - began >= 0.1
    finally:
        slow.communicate()
