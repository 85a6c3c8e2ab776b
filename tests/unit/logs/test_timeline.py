"""The steps of a start: collected while somebody collects, in the order in which they happened."""

from __future__ import annotations

import logging
import os
import subprocess

import pytest

from kconnect.logs.timeline import Step, Timeline, note_step
from kconnect_cli.processes.start_timings import timings_text


def test_steps_are_collected_in_the_order_in_which_they_happened() -> None:
    times = iter([101.0, 103.5])
    with Timeline(began_s=100.0, now_s=lambda: next(times)) as timeline:
        note_step("first")
        note_step("last")
    assert timeline.steps == [Step(1.0, "first"), Step(3.5, "last")]


def test_a_process_is_noted_at_its_start_and_one_of_another_machine_now() -> None:
    with Timeline() as timeline:
        note_step("this one", os.getpid())
        note_step("another", 2**22 + 1)
    assert timeline.steps[0] == Step(0.0, "this one")
    assert 0 < timeline.steps[1].s < 3600


def test_the_start_of_a_process_is_between_what_was_noted_before_and_after_it() -> None:
    """Linux counts it from a boot that it tells in whole seconds: steps were up to one second apart from it."""
    with Timeline(began_s=0.0) as timeline:
        note_step("before")
        with subprocess.Popen(["sleep", "0"]) as child:
            note_step("started", child.pid)
            note_step("after")
    at_s = {step.what: step.s for step in timeline.steps}
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert at_s["before"] - tick_s <= at_s["started"] <= at_s["after"] + tick_s


def test_nothing_is_collected_or_logged_outside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        with Timeline(began_s=0.0) as timeline:
            note_step("inside")
        logging.getLogger("kconnect.timeline").setLevel(logging.INFO)
        note_step("outside")
    assert [step.what for step in timeline.steps] == ["inside"]
    assert not [record for record in caplog.records if record.getMessage() == "inside"]


def test_the_table_has_the_time_of_each_step_and_says_when_the_start_was_not_over() -> None:
    steps = [Step(0.25, "The command is loaded"), Step(1.5, "REST answers")]
    whole = timings_text(steps, is_whole=True)
    assert whole.splitlines()[1:] == ["0.25   0.25     The command is loaded", "1.50   1.25     REST answers"]
    assert timings_text(steps, is_whole=False) == f"{whole}The start was not over.\n"
