"""A development server is stopped when its process is over, however it looks while it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from kconnect.java.devbroker.dev_server import DevServer
from kconnect.java.devbroker.server_folder import ServerFolder
from kit.ports import free_port
from kit.processes import lives

# Asked to stop, it runs half a second longer without the command line by which its folder knows it
_SERVER = """
import os, signal, sys

def end(*_: object) -> None:
    if sys.argv[2] == "closed":
        os.closerange(3, 100)
    os.execvp("sleep", ["sleep", "0.5"])

signal.signal(signal.SIGTERM, end)
open(os.path.join(sys.argv[1], "ready"), "w").close()
while True:
    signal.pause()
"""


class SlowlyEnding(DevServer):
    WHAT = "slow server"
    _READY_S = 20.0

    def __init__(self, path: Path, lock: str) -> None:
        super().__init__(free_port(), ServerFolder(path, "slow", "slow server"))
        self._lock = lock

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def is_ready(self, port: int, within_s: float) -> bool:
        return (self.folder.path / "ready").exists()

    def _fetched(self) -> Callable[[], Sequence[str]]:
        return lambda: [sys.executable, "-c", _SERVER, str(self.folder.path), self._lock]


@pytest.mark.parametrize("lock", ["held", "closed"])
def test_a_server_is_not_stopped_before_its_process_is_over(lock: str, tmp_path: Path) -> None:
    with SlowlyEnding(tmp_path / "data", lock) as server:
        process = psutil.Process(server.pid)
        other = SlowlyEnding(tmp_path / "data", lock)  # as `connect broker stop` of another process

        assert other.stop()

        assert not lives(process)
        assert not other.folder.is_held()
        assert not other.stop()
