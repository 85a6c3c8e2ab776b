"""Compiles Java sources into a jar: by javac, or by Eclipse's compiler, fetched once, where there is only a JRE."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kconnect.errors import EnvironmentProblemError
from kconnect.files.folders import cache_folder
from kconnect.java.installed import Java
from kconnect.java.maven import ArtifactSet, Jar

RELEASE: Final = "17"
"""The oldest Java that what is compiled runs on."""

_TIMEOUT_S: Final = 120.0
# A single jar.
_ECLIPSE: Final = Jar(
    "org.eclipse.jdt:ecj:3.40.0",
    "05cc22a24e7982970f63a405fc6c820bc80b806f27f3c5a6236fc475f8f7152b",
    3312549,
    frozenset({"compiler"}),
)
# That of all files in a jar, so that the same sources give the same bytes. Zip has no earlier one.
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def compile_jar(java: Java, sources: Sequence[Path], class_path: Sequence[Path], target: Path) -> None:
    """Compile sources into the jar `target`, which is there whole or not at all.

    Errors: EnvironmentProblemError with what the compiler says, UnreachableError when it cannot be fetched.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".java-") as folder:
        classes = Path(folder) / "classes"
        command = [*_compiler(java), "-nowarn", "-encoding", "UTF-8", "-d", str(classes)]
        command += ["-cp", os.pathsep.join(map(str, class_path)), *map(str, sources)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise EnvironmentProblemError(f"{target.name} cannot be compiled: {said}")
        staged = Path(folder) / "staged.jar"
        with zipfile.ZipFile(staged, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(classes.rglob("*.class")):
                name = zipfile.ZipInfo(path.relative_to(classes).as_posix(), _TIME)
                jar.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
        os.replace(staged, target)


def compile_once(java: Java, sources: Sequence[Path], class_path: Sequence[Path], target: Path) -> None:
    """Compile sources unless the jar is there; one process does it while the others wait. Errors: as compile_jar."""
    if target.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_file():
            compile_jar(java, sources, class_path, target)


def _compiler(java: Java) -> list[str]:
    beside = java.executable.resolve().parent / "javac"
    found = str(beside) if beside.is_file() else shutil.which("javac")
    if found is not None:
        return [found, "--release", RELEASE]
    (jar,) = ArtifactSet("The Java compiler", cache_folder() / "jars" / "compiler", [_ECLIPSE]).fetch()
    return [str(java.executable), "-jar", str(jar), "--release", RELEASE]
