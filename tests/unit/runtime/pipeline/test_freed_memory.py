"""Memory that was freed goes back to the system, measured in a process of its own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from kconnect.runtime.pipeline.unit_producer import return_freed_memory

# Blocks below the size that glibc maps one by one; the last one stays, so that the heap cannot shrink from its end
_FREES = """
import ctypes
from pathlib import Path
from kconnect.runtime.pipeline.unit_producer import return_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

blocks = [libc.malloc(10_000) for _ in range(4_000)]
for block in blocks:
    ctypes.memset(block, 1, 10_000)
for block in blocks[:-1]:
    libc.free(block)
before = resident_mb()
return_freed_memory()
print(before - resident_mb())
"""


def test_what_a_process_has_freed_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _FREES], capture_output=True, text=True, check=True, timeout=60)
    assert float(done.stdout) > 30


def test_where_the_library_cannot_give_it_back_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        """A C library without malloc_trim."""

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    return_freed_memory()
