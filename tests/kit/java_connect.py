"""Real Java Kafka Connect from its Maven artifacts: the peer that interop tests and the bench put beside our worker."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import psutil

from kconnect.java.devbroker import JarSet, find_java
from kit.java_archive import JavaArchive
from kit.pace import ample_s, ended
from kit.ports import free_port
from kit.rest_json import request_json
from kit.waiting import eventually

__all__ = ["JVM_OPTIONS", "RELEASE_JVM_OPTIONS", "JavaConnect", "write_properties"]

_MAIN = {
    "standalone": "org.apache.kafka.connect.cli.ConnectStandalone",
    "distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
}
# Workers of tests share the machine: less memory, fewer threads, a faster start than the release's
JVM_OPTIONS = ("-Xms64M", "-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
# What connect-standalone.sh and connect-distributed.sh of the release pass to the JVM; for whatever is compared
RELEASE_JVM_OPTIONS = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# In plugin.path, a folder each; everything else is on the class path, as in the release.
_PLUGINS = ("connect-file",)
_LOG_SETTINGS = """\
status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %X{connector.context}%m (%c{1})%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = OUT
"""


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """A Java properties file; values are escaped where Java would read them otherwise."""
    lines = [
        f"{key}={value.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}"
        for key, value in properties.items()
    ]
    path.write_text("\n".join(lines) + "\n", "latin-1", errors="strict")
    return path


class JavaConnect:
    """One Java Connect worker in a process of its own; `start()` returns when it says that it is healthy.

    Everything it writes is below `folder`. Threads: one at a time.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        *,
        mode: Literal["standalone", "distributed"] = "standalone",
        worker: Mapping[str, str] | None = None,
        connectors: Sequence[Mapping[str, str]] = (),
        jvm_options: Sequence[str] = JVM_OPTIONS,
        jars: Sequence[Path] = (),
    ) -> None:
        """`jars` are on the class path, where Connect looks for `org.apache.kafka.connect` classes of no plugin."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.offsets_file = Path((worker or {}).get("offset.storage.file.filename", folder / "connect.offsets"))
        self.log = folder / "java-connect.log"
        self._mode = mode
        self._jvm_options = tuple(jvm_options)
        self._jars = tuple(jars)
        self._worker = self._settings(bootstrap) | dict(worker or {})
        self._connectors = list(connectors)
        self._archive: JavaArchive | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log_file: IO[bytes] | None = None

    @property
    def process(self) -> psutil.Process:
        """The running JVM, for its CPU time and memory."""
        assert self._process is not None, "the Java worker is not started"
        return psutil.Process(self._process.pid)

    def start(self, timeout_s: float = 60.0, *, ready: bool = True) -> None:
        """Start; with `ready` wait until it is healthy: of a cluster it has read the config topic and joined the group.

        Errors: AssertionError with the end of the log when it does not come up.
        """
        command = self.prepare()
        self._log_file = self.log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            start_new_session=True,
        )
        if ready:
            try:
                eventually(self._answers, timeout_s, "the Java worker is healthy", pause_s=0.1)
            except BaseException:
                self.kill()
                raise

    def prepare(self) -> list[str]:
        """Write all files; the command line. Done by `start()`; apart from it when the start is timed."""
        java = find_java("Java Connect in tests")
        jars = JarSet("connect").fetch()
        self._link_plugins(jars)
        log_settings = self.folder / "log4j2.properties"
        log_settings.write_text(_LOG_SETTINGS)
        files = [write_properties(self.folder / "worker.properties", self._worker)]
        for number, connector in enumerate(self._connectors):
            files.append(write_properties(self.folder / f"connector-{number}.properties", connector))
        class_path = [jar for jar in (*jars, *self._jars) if not jar.name.startswith(_PLUGINS)]
        if self._jvm_options != RELEASE_JVM_OPTIONS:  # the release has no archive
            self._archive = JavaArchive(java, class_path, self.folder)
        return [
            str(java.executable),
            *(self._archive.flags() if self._archive else ()),
            *self._jvm_options,
            f"-Dlog4j2.configurationFile={log_settings}",
            "-cp",
            os.pathsep.join(map(str, class_path)),
            _MAIN[self._mode],
            *(str(file) for file in files),
        ]

    def stop(self, timeout_s: float = 30.0) -> int:
        """SIGTERM, and SIGKILL after the deadline; the exit code. Nothing to do when it is not running."""
        code = self._end(signal.SIGTERM, timeout_s)
        if self._archive is not None and code != -signal.SIGKILL:
            self._archive.keep()
        return code

    def kill(self) -> int:
        """SIGKILL."""
        return self._end(signal.SIGKILL, 10.0)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON body of a REST request."""
        return request_json(self.url + path, method, body)

    def order(self, method: str, path: str, body: Any = None, *, expect: int, within_s: float = 30.0) -> Any:
        """A request that changes something, again while the group rebalances (409); gives the body of the answer."""

        def ask() -> tuple[Any]:
            status, answer = self.request(method, path, body)
            assert status != 409, f"{method} {path} answers 409: {answer}"
            if status != expect:
                raise RuntimeError(f"{method} {path} answers {status}, not {expect}: {answer}")
            return (answer,)

        return eventually(ask, within_s, f"Java takes {method} {path}", pause_s=0.1)[0]

    def await_running(self, connector: str, timeout_s: float = 30.0) -> None:
        """Wait until the connector and all its tasks (one at least) are RUNNING."""

        def states() -> bool:
            _, body = self.request("GET", f"/connectors/{connector}/status")
            tasks = body.get("tasks", [])
            assert tasks, f"no tasks yet: {body}"
            assert {"RUNNING"} == {part["state"] for part in [body["connector"], *tasks]}, str(body)
            return True

        eventually(states, timeout_s, f"{connector} RUNNING on Java")

    def __enter__(self) -> JavaConnect:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _settings(self, bootstrap: str) -> dict[str, str]:
        common = {
            "bootstrap.servers": bootstrap,
            "listeners": self.url,
            "plugin.path": str(self.folder / "plugins"),
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }
        if self._mode == "standalone":
            return common | {"offset.storage.file.filename": str(self.offsets_file)}
        topics = {f"{name}.storage.topic": f"java-{self.port}-{name}" for name in ("config", "offset", "status")}
        factors = {f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")}
        return common | topics | factors | {"group.id": f"java-{self.port}"}

    def _link_plugins(self, jars: Sequence[Path]) -> None:
        for name in _PLUGINS:
            target = self.folder / "plugins" / name
            target.mkdir(parents=True, exist_ok=True)
            for jar in jars:
                if jar.name.startswith(name) and not (target / jar.name).exists():
                    (target / jar.name).write_bytes(jar.read_bytes())

    def _answers(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            text = self.log.read_text("utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"the Java worker ended with {code}:\n{text}")
        try:
            # Before that it lists the connectors of a config topic that it may not have read yet
            with urllib.request.urlopen(f"{self.url}/health", timeout=ample_s(2)) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _end(self, number: signal.Signals, timeout_s: float) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            process.send_signal(number)
            try:
                return ended(process, timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                return ended(process, 10)
        finally:
            if self._log_file is not None:
                self._log_file.close()
                self._log_file = None
