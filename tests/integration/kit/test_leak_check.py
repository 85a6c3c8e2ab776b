"""What each test is looked at for afterwards: threads, processes and ports that it left behind."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.leaks import Snapshot
from kit.pace import ample_s
from kit.ports import free_port

SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]
PARENT = [sys.executable, "-c", f"import subprocess; subprocess.run({SLEEPER!r})"]


def test_nothing_is_left_when_nothing_came() -> None:
    assert Snapshot.now().left_behind(0) == []


def test_a_port_that_listens_is_left_behind_and_a_socket_that_does_not_is_not() -> None:
    before = Snapshot.now()
    with socket.socket() as listening, socket.socket():
        port = free_port()
        listening.bind(("127.0.0.1", port))
        listening.listen()
        assert before.left_behind(0) == [f"listening port {port}"]
        assert Snapshot.now().left_behind(0) == [], "it was there before"
    assert before.left_behind(0) == []


@pytest.mark.parametrize("command", [SLEEPER, PARENT], ids=["child", "grandchild"])
def test_processes_below_this_one_are_left_behind_also_when_another_thread_started_them(command: list[str]) -> None:
    before = Snapshot.now()
    made: list[subprocess.Popen[bytes]] = []
    starter = threading.Thread(target=lambda: made.append(subprocess.Popen(command, stdin=subprocess.PIPE)))
    starter.start()
    starter.join()
    try:
        left = before.left_behind(0)
        assert any(text.startswith(f"process {made[0].pid}: ") for text in left), left
        assert Snapshot.now().left_behind(0) == [], "it is another's"
    finally:
        made[0].communicate(timeout=ample_s(60))
    assert before.left_behind(5) == []


def test_a_thread_is_left_behind_until_it_ends() -> None:
    before, gate = Snapshot.now(), threading.Event()
    thread = threading.Thread(target=gate.wait, name="a-thread")
    thread.start()
    assert before.left_behind(0) == ["thread a-thread"]
    gate.set()
    thread.join()
    assert before.left_behind(0) == []


def test_a_pool_that_grows_is_its_owners_and_a_new_pool_is_left_behind() -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(3, thread_name_prefix="old") as old, ThreadPoolExecutor(1, thread_name_prefix="new") as new:
        old.submit(gate.wait)
        before = Snapshot.now()
        old.submit(gate.wait)
        assert before.left_behind(0) == []
        new.submit(gate.wait)
        assert before.left_behind(0) == ["thread new_0"]
        gate.set()
