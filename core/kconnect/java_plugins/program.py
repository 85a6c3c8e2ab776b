"""The Java program that hosts plugins, compiled at first need; and the command to start it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kconnect.class_archive import ClassArchive
from kconnect.errors import EnvironmentProblemError
from kconnect.folders import cache_folder
from kconnect.java import Java
from kconnect.kafka_jars import JarSet
from kconnect.maven import ArtifactSet, Jar

MAIN: Final = "kconnect.host.Main"
_RELEASE: Final = "17"
_COMPILE_TIMEOUT_S: Final = 120.0
_SOURCES = Path(__file__).parents[3] / "java" / "src"
# Where there is only a JRE: Eclipse's compiler, a single jar.
_COMPILER = Jar(
    "org.eclipse.jdt:ecj:3.40.0",
    "05cc22a24e7982970f63a405fc6c820bc80b806f27f3c5a6236fc475f8f7152b",
    3312549,
    frozenset({"compiler"}),
)
# Its own binding of slf4j takes the place of log4j's.
_NOT_NEEDED: Final = ("log4j-slf4j-impl",)


@dataclass(frozen=True, slots=True)
class HostProgram:
    """Everything for the command line of a host JVM. Errors: EnvironmentProblemError, UnreachableError."""

    java: Java
    class_path: tuple[Path, ...]

    @classmethod
    def find(cls, java: Java) -> HostProgram:
        """The program with Kafka's jars, fetched and compiled if need be."""
        jars = [jar for jar in JarSet("connect").fetch() if not jar.name.startswith(_NOT_NEEDED)]
        return cls(java, (_host_jar(java, jars), *jars))

    def command(self, options: tuple[str, ...], heap: str) -> list[str]:
        """The command line. Its standard input wants one line of JSON, and stays open while the host shall live."""
        archive = ClassArchive(cache_folder() / "jvm", "host", self._identity())
        return [
            str(self.java.executable),
            "-XX:+UseSerialGC",
            f"-Xmx{heap}",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            *archive.flags(),
            *options,
            "-cp",
            os.pathsep.join(str(path) for path in self.class_path),
            MAIN,
        ]

    def _identity(self) -> list[str]:
        return [str(self.java.executable), self.java.version, *(str(path) for path in self.class_path)]


def _host_jar(java: Java, jars: list[Path]) -> Path:
    """The jar of the program, made from the sources of this checkout."""
    if not _SOURCES.is_dir():
        raise EnvironmentProblemError(
            f"The Java program that hosts plugins cannot be compiled: its sources do not exist at {_SOURCES}.",
            hint="Run kconnect from a checkout: wheels do not bring it yet.",
        )
    sources = sorted(_SOURCES.rglob("*.java"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    target = cache_folder() / "java" / f"host-{digest.hexdigest()[:16]}.jar"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        compile_host(java, sources, jars, target)
    return target


def compile_host(java: Java, sources: list[Path], jars: list[Path], target: Path) -> None:
    """Compile the program into a jar, by javac, or by Eclipse's compiler where Java has none.

    Errors: EnvironmentProblemError with what the compiler says.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".host-") as folder:
        classes = Path(folder) / "classes"
        command = [*_compiler(java), "-nowarn", "-encoding", "UTF-8", "-d", str(classes)]
        command += ["-cp", os.pathsep.join(str(jar) for jar in jars), *(str(source) for source in sources)]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise EnvironmentProblemError(
                f"The Java program that hosts plugins cannot be compiled: {done.stderr.strip() or done.stdout.strip()}"
            )
        staged = Path(folder) / "host.jar"
        with zipfile.ZipFile(staged, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(classes.rglob("*.class")):
                jar.write(path, path.relative_to(classes).as_posix())
        os.replace(staged, target)


def _compiler(java: Java) -> list[str]:
    beside = java.executable.resolve().parent / "javac"
    found = str(beside) if beside.is_file() else shutil.which("javac")
    if found is not None:
        return [found, "--release", _RELEASE]
    (jar,) = ArtifactSet("The Java compiler", cache_folder() / "jars" / "compiler", [_COMPILER]).fetch()
    return [str(java.executable), "-jar", str(jar), "--release", _RELEASE]
