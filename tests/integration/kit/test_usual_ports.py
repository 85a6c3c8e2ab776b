"""Ports that documents use: waited for while another run has them, and named when another program has."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kit.places import TESTS
from kit.ports import free_port
from kit.usual_ports import usual_ports

HOLDER = """
import sys
import threading
from pathlib import Path
from kconnect.files.file_turn import turn
with turn(Path(sys.argv[1]), 0) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    port = free_port()
    monkeypatch.setattr("kit.usual_ports._PORTS", (port,))
    monkeypatch.setattr("kit.usual_ports._LOCK", tmp_path / "ports")
    return port


def test_a_port_that_another_program_has_is_named(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)), pytest.raises(AssertionError) as error, usual_ports():
        pass
    assert str(error.value) == (f"Ports are taken: {port}. Stop what listens there: documents use the usual ports.")


def test_another_run_that_has_them_is_waited_for(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "ports")]
    holder = subprocess.Popen(command, env={"PYTHONPATH": str(TESTS)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdin is not None
    with holder, holder.stdin:
        assert holder.stdout.readline() == b"True\n"
        monkeypatch.setattr("kit.usual_ports._WAIT_S", 0.01)
        with pytest.raises(AssertionError, match="another run of the tests"), usual_ports():
            pass
        monkeypatch.undo()
        monkeypatch.setattr("kit.usual_ports._PORTS", (port,))
        monkeypatch.setattr("kit.usual_ports._LOCK", tmp_path / "ports")
        reported_to_end = threading.Event()

        def end() -> None:
            reported_to_end.set()
            holder.stdin.close()

        threading.Timer(0.3, end).start()
        with usual_ports():
            assert reported_to_end.is_set(), "it waited until the other one was done"
