"""An environment with another Spark: all that is locked, but pyspark, and this checkout.

    python environment.py 4.1.1 FOLDER

It is made once: 2.7 GB, a minute or two.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from kit.places import ROOT


def make(version: str, place: Path) -> Path:
    """Its interpreter. Does nothing where it is there already, of the same lock file."""
    python, made, lock = place / "bin" / "python", place / ".made-of", ROOT / "requirements-dev.lock"
    text = lock.read_text()
    if made.exists() and made.read_text() == text:
        return python
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)], check=True)
    others = place / "others.lock"
    others.write_text("".join(without(text, "pyspark")))
    install = [uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps"]
    subprocess.run([*install, "--require-hashes", "--requirement", str(others)], check=True)
    # As in the Makefile: Spark is built, in a cache that goes
    cache = place / "uv-cache"
    subprocess.run([*install, "--cache-dir", str(cache), f"pyspark=={version}"], check=True)
    shutil.rmtree(cache)
    subprocess.run([*install, "--no-build-isolation", "--editable", str(ROOT)], check=True)
    made.write_text(text)
    return python


def without(lock: str, package: str) -> Iterator[str]:
    """The lines of a lock file but those of a package: its own, and its hashes, which are indented."""
    is_left_out = False
    for line in lock.splitlines(keepends=True):
        if not line.startswith(" "):
            is_left_out = line.startswith(f"{package}==")
        if not is_left_out:
            yield line


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
