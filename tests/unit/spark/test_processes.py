"""Which process is whose."""

from __future__ import annotations

import os
import subprocess
import sys

from kconnect.spark.processes import await_end, birth, descendants, is_descendant, parent_pid


def test_a_child_is_a_descendant_and_its_parent_is_not():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert parent_pid(child.pid) == os.getpid()
        assert is_descendant(child.pid)
        assert not is_descendant(os.getppid())
    finally:
        child.communicate(b"\n")
    assert not is_descendant(child.pid)


def test_a_process_that_does_not_end_is_killed():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert await_end({child.pid: birth(child.pid) or ""}, timeout_s=0.1) == {child.pid}
        assert child.wait(5) == -9
    finally:
        child.kill()
        child.wait()


def test_a_later_process_of_the_same_number_is_left_alone():
    assert await_end({os.getpid(): "another birth"}, timeout_s=0.1) == set()


def test_descendants_are_children_and_their_children_but_no_others():
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert descendants(child.pid) == [grandchild]
        assert {child.pid, grandchild} <= set(descendants(os.getpid()))
        os.kill(grandchild, 15)
    assert descendants(grandchild) == []
