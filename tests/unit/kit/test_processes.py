"""Processes that end while a test looks at them."""

from __future__ import annotations

import subprocess
import sys

import psutil

from kit.processes import below, command, lives, living, named


def test_a_process_that_has_ended_is_told_from_one_that_runs() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
        assert living([process]) == named([process], "python") == [process]
        assert process in below(psutil.Process(), deep=False)
        assert command(process)[-1] == "input()"
        child.kill()
        while process.status() != psutil.STATUS_ZOMBIE:
            pass
        assert not lives(process)
        assert below(process) == below(process.pid) == command(process) == []
    assert not lives(process)
    assert below(process) == below(process.pid) == command(process) == named([process], "python") == []
