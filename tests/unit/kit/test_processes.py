"""Processes that end while a test looks at them."""

from __future__ import annotations

import subprocess
import sys

import psutil

from kit.processes import below, command, lives, living, named, oldest_first
from kit.waiting import eventually


def test_a_process_that_has_ended_is_reported_from_one_that_runs() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
        assert living([process]) == named([process], "python") == [process]
        assert process in below(psutil.Process(), deep=False)
        assert oldest_first([process, psutil.Process()]) == [psutil.Process(), process]
        assert command(process)[-1] == "input()"
        child.kill()
        eventually(lambda: not lives(process), 10, "it has ended, and is a zombie")
        assert below(process) == below(process.pid) == command(process) == []
    assert not lives(process)
    assert below(process) == below(process.pid) == command(process) == named([process], "python") == []
    assert oldest_first([process]) == []
