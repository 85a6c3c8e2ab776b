"""A write of which all is in the file, or nothing: the limit on file sizes makes the system refuse the very write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kconnect.api import ConnectError
from kconnect.builtin.connectors.atomic_writes import write_whole
from kit.pace import ample_s

_PROGRAM = """
import json, os, resource, sys
from kconnect.api import ConnectError
from kconnect.builtin.connectors.atomic_writes import write_whole

path = sys.argv[1]
fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
write_whole(fd, b"first line\\n", path)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
try:
    write_whole(fd, b"second line\\nthird line\\n", path)
except ConnectError as error:
    reported = [str(error), error.hint, str(error.__cause__)]
during = open(path).read()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write_whole(fd, b"second line\\nthird line\\n", path)
print(json.dumps([reported, during]))
"""


def test_a_write_that_does_not_fit_leaves_no_torn_line_and_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(file)], capture_output=True, text=True, timeout=ample_s(60), check=True
    )
    (message, hint, cause), during = json.loads(done.stdout)
    assert message == f"Cannot write to {file}: File too large"
    assert "was cut off again" in hint
    assert cause == f"[Errno 27] File too large: '{file}'"
    assert during == "first line\n"
    assert file.read_text() == "first line\nsecond line\nthird line\n"


def test_what_somebody_else_wrote_behind_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.txt"
    mine = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    calls, real = [], os.write

    def half_then_full(fd: int, data: bytes) -> int:
        """As a disk that takes a part, on a file system without locks where another process writes meanwhile."""
        if calls:
            raise OSError(28, "No space left on device")
        calls.append(real(fd, data[:3]))
        with file.open("ab") as other:
            other.write(b"OTHER\n")
        return 3

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(ConnectError, match="No space left on device"):
        write_whole(mine, b"my line\n", str(file))
    os.close(mine)
    assert file.read_bytes() == b"my OTHER\n"


def test_a_pipe_is_written_as_it_is() -> None:
    reading, writing = os.pipe()
    write_whole(writing, b"line\n", "standard output")
    assert os.read(reading, 100) == b"line\n"
    os.close(writing)
    os.close(reading)


def test_a_device_that_is_full_is_named() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(ConnectError, match="Cannot write to /dev/full: No space left on device"):
            write_whole(fd, b"line\n", "/dev/full")
    finally:
        os.close(fd)
