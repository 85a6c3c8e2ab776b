"""Spark's JVM as a child process: start it quickly and quietly, read its log, end it for certain.

It runs in a session of its own, so that Ctrl-C reaches the worker alone, and lives only as long as its standard input:
when the worker dies in whatever way, the pipe closes and the JVM ends itself.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib.util
import logging
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import javaproperties

from kconnect.errors import EnvironmentProblemError, TimedOutError
from kconnect.java.archives import ARCHIVE_FLAGS, RECORDS_AT_EXIT, ClassArchive, make_in_background
from kconnect.java.installed import Java
from kconnect.spark.settings import MORE_FILES, too_few_files

log = logging.getLogger(__name__)
jvm_log = logging.getLogger("kconnect.spark.jvm")

# Start time of the session on 2 cores: 4.5 s plain, 3.0 s with the first two. The JVM only schedules here, so the
# optimising compiler and a parallel collector bring nothing.
FAST_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", *ARCHIVE_FLAGS)
_LINE = re.compile(r"^(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (\S+) - (.*)$")
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
# These log forty lines of Java stack for a lost slot; the worker logs one.
_SILENT = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.api.python",
    "org.apache.spark.util.Utils",
    "org.apache.hadoop.util.NativeCodeLoader",
)


class Jvm:
    """One JVM that runs Spark's Python gateway. Lifecycle: constructed -> start -> connect -> stop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._master: str | None = None
        self._killed = False
        self._quiet = True  # until the gateway is up, the output matters only if the start fails
        self._tail: collections.deque[str] = collections.deque(maxlen=100)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def ending(self) -> str | None:
        """How it has ended, or is about to after a `kill`, without a `stop`; None while it runs. Threads: any."""
        code = self._process.poll() if self._process else None
        if code is None and self._killed and self._process:
            code = -signal.SIGKILL  # the kernel takes a moment, and who asks the JVM meanwhile waits for nothing
        if code is None:
            return None
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def start(self, conf: Mapping[str, str], java_options: str, environment: Mapping[str, str]) -> None:
        """Launch it; returns at once. Settings go through a private file: any user can see a command line."""
        home = spark_home()
        self._master = conf.get("spark.master")
        settings = self._folder / "spark.properties"
        with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            # Java does not look at HOME, and has `?` for who has no other
            options = java_options if is_known_user() else f"-Duser.home={self._folder} {java_options}"
            javaproperties.dump({**conf, "spark.driver.extraJavaOptions": options}, file, timestamp=False)
        env = {
            **os.environ,
            **environment,
            "SPARK_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_LAUNCHER_OPTS": f"{' '.join(FAST_FLAGS)} {os.environ.get('SPARK_LAUNCHER_OPTS', '')}",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._folder / "gateway"),
        }
        env.pop("PYSPARK_GATEWAY_PORT", None)
        env.pop("PYSPARK_GATEWAY_SECRET", None)
        # The script finally execs java, so this pid becomes the JVM's.
        command = [str(home / "bin" / "spark-submit"), "--properties-file", str(settings), "--load-spark-defaults"]
        self._process = subprocess.Popen(
            [*command, "pyspark-shell"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), name="spark-jvm-log", daemon=True)
        self._reader.start()

    def connect(self, timeout_s: float) -> Any:
        """Wait for the gateway and return py4j's end of it. Errors: EnvironmentProblemError, TimedOutError."""
        process, where = self._process, self._folder / "gateway"
        assert process is not None, "start() first"
        deadline_s = time.monotonic() + timeout_s
        while not where.exists():
            try:
                code = process.wait(timeout=0.01)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline_s:
                    continue
                raise TimedOutError(
                    f"Spark's JVM did not answer within {timeout_s:g} s of its start",
                    hint="On a slow machine raise kconnect.slot.start.timeout.ms.",
                ) from None
            ended = f"Spark's JVM ended with code {code} before it was ready{self._whose()}"
            if (few := too_few_files()) is not None:  # its own words are of whatever file it opened last
                raise EnvironmentProblemError(f"{ended}: {few}", hint=MORE_FILES)
            words = self.last_words()
            if lacking := re.search(r"FindException: Module (\S+) not found", words):
                raise EnvironmentProblemError(
                    f"{ended}: this Java has no module {lacking[1]}",
                    hint="Spark needs a whole Java runtime: set JAVA_HOME to one, unless "
                    "spark.driver.extraJavaOptions names the module.",
                )
            raise EnvironmentProblemError(
                f"{ended}. It said: {words}",
                hint="Check the spark.* settings of the worker, above all spark.driver.extraJavaOptions.",
            )
        gateway = _join_gateway(where.read_bytes())
        self._quiet = False
        return gateway

    def _whose(self) -> str:
        return f" (spark.master={self._master})" if self._master else ""

    def last_words(self) -> str:
        """The JVM's last output, for an error message."""
        if self._process is not None and self._process.poll() is not None and self._reader is not None:
            self._reader.join(1.0)
        lines = [line for line in self._tail if not line.lstrip().startswith(("at ", "...", "WARNING: "))]
        for line in lines:
            if match := re.match(r'Exception in thread "main" [\w.$]+: (.+)', line):
                return match[1]
        return " | ".join(lines[-8:]) or "nothing"

    def kill(self) -> None:
        """Kill it, from any thread; start and connect then fail."""
        process = self._process
        if process is not None:
            self._killed = True
            with contextlib.suppress(ProcessLookupError):  # its whole group is gone
                os.killpg(process.pid, signal.SIGKILL)  # spark-submit, before it becomes the JVM, has a child

    def stop(self, timeout_s: float) -> None:
        """Let it exit by itself; kill it at the timeout. Idempotent."""
        process = self._process
        if process is None:
            return
        self._quiet = True
        with contextlib.suppress(OSError):  # closing flushes; the JVM may be gone
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(max(timeout_s, 0.1))
        except subprocess.TimeoutExpired:
            log.debug("Spark's JVM did not end within %.1f s and is killed", timeout_s)
            process.kill()
            process.wait(5.0)
        if self._reader is not None:
            self._reader.join(2.0)  # a grandchild may hold the pipe open for a moment
        self._process = None

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        level = logging.INFO
        with process.stdout as stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip()
                if not line:
                    continue
                self._tail.append(line)
                match = _LINE.match(line)
                if match:
                    level = _LEVELS[match[1]]
                    line = f"{match[2]}: {match[3]}"
                elif not line[0].isspace() and not line.startswith(("Caused by", "java.", "org.", "scala.")):
                    level = logging.INFO  # not of log4j: what Python workers write to standard error
                jvm_log.log(logging.DEBUG if self._quiet else level, "%s", line)


def is_known_user() -> bool:
    """Whether /etc/passwd, or what is in its place, has this user; in containers it may be a number alone."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def spark_home() -> Path:
    """Where Spark is: SPARK_HOME, else the one inside pyspark. Does not import pyspark, which takes 0.2 s."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentProblemError("pyspark is not installed in this Python", hint="pip install pyspark")
    return Path(spec.origin).parent


def log4j_properties(folder: Path) -> Path:
    """Write the log4j2 settings that keep Spark at warnings, in a form the worker can read back."""
    lines = [
        "rootLogger.level = warn",
        "rootLogger.appenderRef.stderr.ref = stderr",
        "appender.stderr.type = Console",
        "appender.stderr.name = stderr",
        "appender.stderr.target = SYSTEM_ERR",
        "appender.stderr.layout.type = PatternLayout",
        "appender.stderr.layout.pattern = %p %c{1} - %m%n%throwable",
        "status = off",
    ]
    for index, name in enumerate(_SILENT):
        lines += [f"logger.l{index}.name = {name}", f"logger.l{index}.level = off"]
    path = folder / "log4j2.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def _join_gateway(info: bytes) -> Any:
    from pyspark.java_gateway import launch_gateway

    ask_with_numpy_alone()
    port = int.from_bytes(info[:4], "big")
    size = int.from_bytes(info[4:8], "big")
    # pyspark takes the address of a running JVM from the environment only; it is there for these lines alone.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = info[8 : 8 + size].decode()
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]  # pyspark has no types here
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def ask_with_numpy_alone() -> None:
    """Have pyspark look for numpy's values among a call's arguments only once somebody has imported numpy. Idempotent.

    Before the first text goes to the JVM it would load pyspark.testing, and pyarrow with it, to learn whether numpy is
    installed: 7 MB of the worker, and 0.3 s of processor time before the first record.
    """
    from pyspark.sql import types

    for name in ("NumpyScalarConverter", "NumpyArrayConverter"):
        converter = getattr(types, name, None)
        if converter is not None and not hasattr(converter.can_convert, "__wrapped__"):
            converter.can_convert = _with_numpy(converter.can_convert)


def _with_numpy(asked: Callable[[Any, object], bool]) -> Callable[[Any, object], bool]:
    @functools.wraps(asked)
    def can_convert(converter: Any, value: object) -> bool:
        return "numpy" in sys.modules and asked(converter, value)

    return can_convert


# --- its class archive ---


def spark_archive(cache: Path, java: Java) -> ClassArchive:
    """The archive of this Java, these jars and our flags.

    Measured on 2 cores: JVM and SparkContext ready after 1.1 s with it, 1.7 s without. A JVM that records classes takes
    3.6 s, so a worker never does: a separate process makes it (make_archive.py). The JVM writes it when it ends, and
    links every class first: written while it runs, an archive lacks the classes that nobody has used yet, 1,700 of
    6,800, which cost a fifth of the CPU time of a start.
    """
    # The JVM compares path, size and time of each jar, and starts without the archive where one differs
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    seen = [f"{jar.name}:{stat.st_size}:{stat.st_mtime_ns}" for jar in jars if (stat := jar.stat())]
    identity = [str(java.executable.resolve()), java.version, str(spark_home()), *FAST_FLAGS, RECORDS_AT_EXIT, *seen]
    return ClassArchive(cache / "jvm", "spark", identity)


def make_archive_in_background(archive: ClassArchive, cache: Path) -> None:
    """Start a process that makes the archive and outlives this one, unless it exists or is being made. Never blocks."""
    if not archive.should_be_made():
        return
    try:
        make_in_background("kconnect.spark.make_archive", cache)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.debug("The class archive cannot be made: %s", error)
        return
    log.info("Preparing Spark's class archive once, in the background; starts get 2 s faster after it")
