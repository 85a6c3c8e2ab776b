"""Temporary folders of one process: what a killed one has left goes with the next."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from kconnect.files.folders import made_temporary


def test_folders_of_processes_that_are_gone_are_removed_and_no_others(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    gone, other, ours = (tmp_path / name for name in (f"kc-x-{ended.pid}-a", f"kc-y-{ended.pid}-a", "kc-x-notes-a"))
    for folder in (gone, other, ours):
        folder.mkdir()
    (gone / "s").touch()

    first = made_temporary("kc-x", str(tmp_path))
    second = made_temporary("kc-x", str(tmp_path))

    assert {*tmp_path.iterdir()} == {other, ours, first, second}
    assert first.name.startswith(f"kc-x-{os.getpid()}-")
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
