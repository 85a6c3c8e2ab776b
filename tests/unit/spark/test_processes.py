"""Which process is whose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from kconnect.spark.processes import await_end, birth, is_descendant, parent_pid, session_members
from kit.pace import ended


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
        assert ended(child, 5) == -9
    finally:
        child.kill()
        child.wait()


def test_a_later_process_of_the_same_number_is_left_alone():
    assert await_end({os.getpid(): "another birth"}, timeout_s=0.1) == set()


def test_a_session_is_found_also_when_its_leader_is_gone():
    with subprocess.Popen(
        [sys.executable, "-c", "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        assert leader.stdin is not None
        member = int(leader.stdout.readline())
        assert list(session_members(leader.pid)) == [member]
        leader.stdin.write("end\n")
    left = session_members(leader.pid)
    assert list(left) == [member]
    os.kill(member, signal.SIGKILL)
    assert not await_end(left, 5.0)
    assert session_members(leader.pid) == {}
