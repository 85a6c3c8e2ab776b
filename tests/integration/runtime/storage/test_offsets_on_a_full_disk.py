"""The offsets file on a disk that takes no more: the limit on file sizes makes the system refuse the very write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kconnect.java.compat.serialized_map import load_map
from kit.pace import ample_s

_PROGRAM = """
import json, resource, sys
from kconnect.errors import ConnectError
from kconnect.runtime.storage import FileOffsetStore

store = FileOffsetStore(sys.argv[1])
store.start()
store.set({b"small": b"{}"})
size = len(open(sys.argv[1], "rb").read())
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))
try:
    store.set({b"large": b"x" * 1000})
    reported = None
except ConnectError as error:
    reported = [str(error), error.hint]
during = open(sys.argv[1], "rb").read().hex()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.stop()
print(json.dumps({"reported": reported, "during": during}))
"""


def test_a_write_that_does_not_fit_leaves_the_old_file_whole_and_the_next_one_has_it_all(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(path)], capture_output=True, text=True, timeout=ample_s(60), check=True
    )
    seen = json.loads(done.stdout)
    message, hint = seen["reported"]
    assert message == f"Cannot write the offsets file {path} (offset.storage.file.filename): File too large"
    assert "only in memory" in hint
    assert load_map(bytes.fromhex(seen["during"])) == {b"small": b"{}"}
    assert load_map(path.read_bytes()) == {b"small": b"{}", b"large": b"x" * 1000}
    assert [item.name for item in tmp_path.iterdir()] == ["offsets"], "no half-written second file"
