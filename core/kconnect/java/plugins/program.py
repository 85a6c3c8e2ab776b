"""The Java program that hosts plugins, and the command to start it.

A wheel brings the program compiled. In a checkout it is compiled at first need: by javac, or by Eclipse's compiler,
fetched once, where there is only a JRE.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import socket
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kconnect.errors import EnvironmentProblemError
from kconnect.files.file_turn import turn
from kconnect.files.folders import cache_folder
from kconnect.java.archives import ARCHIVE_FLAGS, ClassArchive, make_in_background
from kconnect.java.installed import Java
from kconnect.java.kafka_jars import JarSet
from kconnect.java.maven import ArtifactSet, Jar, Progress

log = logging.getLogger(__name__)

MAIN: Final = "kconnect.host.Main"
_SOURCES = Path(__file__).parents[4] / "java" / "src"
# Beside this module in a wheel: hatch_build.py puts it there.
_IN_WHEEL = Path(__file__).with_name("host.jar")
# Its own binding of slf4j takes the place of log4j's.
_NOT_NEEDED: Final = ("log4j-slf4j-impl",)
# A heap that begins small and grows: the JVM's own choice, a 64th of the memory, fills while a plugin does next to
# nothing. 20 idle sources: PSS 54 MB, not 75; a source of 1.5 million lines takes as much CPU as with 384 MB. What
# one batch of a sink makes must fit into the young part, or collections take a fifth of its CPU. Where there are only
# connectors, beside the worker, a part of it is enough: 40 MB, not 48.
_FLAGS: Final = ("-XX:+UseSerialGC", "-Xms24m", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
_YOUNG, _YOUNG_WITHOUT_RECORDS = "-Xmn16m", "-Xmn4m"


# What listens on a port that options of a JVM name: JMX, agents such as the JMX exporter (host:port:file) and Jolokia
# (port=..), and debuggers
_PORTS: Final = tuple(
    map(
        re.compile,
        (
            r"(-Dcom\.sun\.management\.jmxremote(?:\.rmi)?\.port=)(\d+)()",
            r"(-javaagent:[^=]+=(?:[^=,]*:)?)(\d+)(:.*|)",
            r"(-javaagent:[^=]+=(?:.*,)?port=)(\d+)(,.*|)",
            r"(-(?:agentlib:jdwp=|Xrunjdwp:)(?:.*,)?address=(?:[^,]*:)?)(\d+)(,.*|)",
        ),
    )
)
_MOST_JVMS: Final = 200


@dataclass(slots=True)
class TakenOptions:
    """Options of a JVM whose ports are its own until they are released."""

    options: tuple[str, ...]
    ports: tuple[int, ...]
    _locks: contextlib.ExitStack

    def release(self) -> None:
        """Idempotent."""
        self._locks.close()


def take_ports(options: Sequence[str]) -> TakenOptions:
    """The options with ports that no other JVM of ours has, and nobody listens on: those that are given, or all of them
    so many higher. Errors: EnvironmentProblemError when there are none.
    """
    given = sorted({int(found[2]) for option in options if (found := _port_in(option))})
    for step in range(_MOST_JVMS if given else 1):
        ports = tuple(port + step for port in given)
        locks = _locked(ports)
        if locks is not None:
            return TakenOptions(tuple(_moved(option, step) for option in options), ports, locks)
    raise EnvironmentProblemError(
        f"No port is free for a JVM of Java's plugins between {given[0]} and {given[0] + _MOST_JVMS - 1}",
        hint="Choose another one in kconnect.java.opts: each JVM takes one, from that number on.",
    )


def _port_in(option: str) -> re.Match[str] | None:
    """Returns None for port 0 as well, which the system chooses."""
    found = next((match for pattern in _PORTS if (match := pattern.fullmatch(option))), None)
    return None if found is None or found[2].strip("0") == "" else found


def _moved(option: str, step: int) -> str:
    found = _port_in(option)
    return option if found is None else f"{found[1]}{int(found[2]) + step}{found[3]}"


def _locked(ports: Sequence[int]) -> contextlib.ExitStack | None:
    """Locks that hold the ports against other processes; None if one is taken."""
    locks = contextlib.ExitStack()
    folder = cache_folder() / "java"
    folder.mkdir(parents=True, exist_ok=True)
    for port in ports:
        if not locks.enter_context(turn(folder / f"port-{port}.lock", 0.0)) or not _is_free(port):
            locks.close()
            return None
    return locks


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except (OSError, OverflowError):
            return False
    return True


@dataclass(frozen=True, slots=True)
class HostProgram:
    """Everything for the command line of a host JVM. Errors: EnvironmentProblemError, UnreachableError."""

    java: Java
    class_path: tuple[Path, ...]
    archive: ClassArchive

    @classmethod
    def find(cls, java: Java, cache: Path | None = None) -> HostProgram:
        """The program with Kafka's jars, fetched and compiled if need be. `cache`: the folder of class archives."""
        jars = class_path_jars()
        class_path = (_host_jar(java, jars), *jars)
        return cls(java, class_path, _archive(cache or cache_folder(), java, class_path))

    def command(self, options: Sequence[str], heap: str, *, has_records: bool = True) -> list[str]:
        """The command line. Its standard input wants one line of JSON, and stays open while the host shall live."""
        return [
            str(self.java.executable),
            *self.archive.flags(),
            *ARCHIVE_FLAGS,
            *_FLAGS,
            _YOUNG if has_records else _YOUNG_WITHOUT_RECORDS,
            f"-Xmx{heap}",
            *options,
            "-cp",
            os.pathsep.join(map(str, self.class_path)),
            MAIN,
        ]

    def have_archive_made(self) -> None:
        """Have the class archive made in the background, once, where there is none. Never blocks."""
        if not self.archive.should_be_made():
            return
        try:
            make_in_background("kconnect.java.plugins.make_archive", cache_folder())
        except (OSError, subprocess.TimeoutExpired) as error:
            log.debug("The class archive of the JVM for Java's plugins cannot be made: %s", error)


def class_path_jars(progress: Progress | None = None) -> list[Path]:
    """Kafka's jars that the program is compiled and runs with, fetched if need be. Errors: as JarSet.fetch."""
    return [jar for jar in JarSet("connect").fetch(progress) if not jar.name.startswith(_NOT_NEEDED)]


def _archive(cache: Path, java: Java, class_path: Sequence[Path]) -> ClassArchive:
    """The JVM refuses one of another build, class path or time of a jar."""
    facts = [java.version, str(java.executable.resolve())]
    facts += [f"{jar}:{stat.st_size}:{stat.st_mtime_ns}" for jar in class_path if (stat := jar.stat())]
    return ClassArchive(cache / "jvm", "host", facts)


def _host_jar(java: Java, jars: Sequence[Path]) -> Path:
    """The jar of the program: that of the wheel, or one made from the sources of this checkout."""
    if _IN_WHEEL.is_file():
        return _IN_WHEEL
    sources = sorted(_SOURCES.rglob("*.java"))
    if not sources:
        raise EnvironmentProblemError(
            f"The Java program that hosts plugins is missing: there is neither {_IN_WHEEL} nor a source in {_SOURCES}.",
            hint="Install a wheel that was built where there is Java 17, or run kconnect from a checkout.",
        )
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    target = cache_folder() / "java" / f"host-{digest.hexdigest()[:16]}.jar"
    compile_once(java, sources, jars, target)
    return target


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
