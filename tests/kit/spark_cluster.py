"""A Spark standalone cluster on this machine: a real master, workers to add and kill, and the processes below them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from kconnect.spark.jvm import FAST_FLAGS, spark_home
from kit.pace import ended
from kit.processes import below, command, oldest_first
from kit.waiting import eventually, wait_http

__all__ = ["SparkCluster", "bare_interpreter"]

_EXECUTOR = "CoarseGrainedExecutorBackend"
# Above what a start takes on a machine that does much else
_START_S = 300


class SparkCluster:
    """A master, and workers of one core each, by number. `url` is what `spark.master` takes.

    Executors of worker N find programs in the folder `programs_of(N)` first.
    """

    def __init__(self, folder: Path, workers: int = 2, *, cores: int = 1) -> None:
        self._folder = folder
        self._cores = cores
        self._count = workers
        self._master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.url = ""
        self._web = ""

    def start(self) -> SparkCluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._master = self._launch("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        self.url = self._said("master", r"Starting Spark master at (spark://\S+)\s")
        port = self._said("master", r"Successfully started service 'MasterUI' on port (\d+)\D")
        self._web = f"http://127.0.0.1:{port}"
        for _ in range(self._count):
            self.add_worker(wait=False)
        self.await_workers(self._count)
        return self

    def settings(self, **settings: str) -> dict[str, str]:
        """What brings a worker of ours to the cluster, and its executors up quickly, and `settings`: `_` is a dot."""
        return {
            "spark.master": self.url,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(FAST_FLAGS),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }

    def add_worker(self, *, cores: int | None = None, wait: bool = True) -> int:
        """One more worker; gives its number."""
        number = len(self.workers)
        name = f"worker-{number}"
        options = ["--port", "0", "--cores", str(cores or self._cores), "--memory", "2g"]
        options += ["--work-dir", str(self._folder / name), self.url]
        programs = str(self.programs_of(number))
        self.workers.append(
            self._launch(name, "org.apache.spark.deploy.worker.Worker", *options, first_in_path=programs)
        )
        if wait:
            self.await_workers(sum(worker.poll() is None for worker in self.workers))
        return number

    def programs_of(self, number: int) -> Path:
        """Where executors of a worker look for programs first, such as their Python."""
        return self._folder / f"programs-{number}" / "bin"

    def await_workers(self, count: int) -> None:
        eventually(lambda: self.state()["aliveworkers"] == count, _START_S, f"{count} workers with the master")

    def state(self) -> dict[str, Any]:
        """What the master says of its workers and applications."""

        def answered() -> dict[str, Any]:
            body = wait_http(f"{self._web}/json/", _START_S)
            try:
                state: dict[str, Any] = json.loads(body)
            except ValueError as err:  # the port comes first, then the page, and this document last
                raise AssertionError(f"{self._web}/json/ is no JSON yet: {body[:60]!r}") from err
            return state

        return eventually(answered, _START_S, "the master's state")

    def executors(self) -> list[psutil.Process]:
        """The executors that run, oldest first."""
        living = [worker for worker in self.workers if worker.poll() is None]
        found = [child for worker in living for child in below(worker.pid, deep=False) if _is_executor(child)]
        return oldest_first(found)

    def kill_machine(self, number: int) -> None:
        """SIGKILL to a worker and all below it, as when a machine is gone."""
        family = below(self.workers[number].pid)
        self.workers[number].kill()
        ended(self.workers[number], 10)
        for process in family:
            with suppress(psutil.NoSuchProcess):  # it went with its parent
                process.kill()

    def stop(self) -> None:
        """End all of it. Idempotent."""
        family = [process for process in (*self.workers, self._master) if process is not None]
        deep: list[psutil.Process] = []
        for process in family:
            if process.poll() is None:
                deep += below(process.pid)
                process.send_signal(signal.SIGTERM)
        for process in family:
            try:
                ended(process, 5)
            except subprocess.TimeoutExpired:
                process.kill()
                ended(process, 5)
        _, alive = psutil.wait_procs(deep, 3)
        for left in alive:
            with suppress(psutil.NoSuchProcess):  # it ended by itself at last
                left.kill()

    def log_text(self, name: str = "master") -> str:
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _launch(self, name: str, main: str, *arguments: str, first_in_path: str = "") -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(FAST_FLAGS),
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
        }
        env["PATH"] = f"{first_in_path}:{env['PATH']}" if first_in_path else env["PATH"]
        # What the tests import must not reach the executors by way of the environment
        env.pop("PYTHONPATH", None)
        command = [str(spark_home() / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--webui-port", "0"]
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, *arguments],
                env=env,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _said(self, name: str, pattern: str) -> str:
        def found() -> str:
            text = self.log_text(name)
            assert self._master is not None
            assert self._master.poll() is None, text
            match = re.search(pattern, text)
            return match[1] if match else ""

        return eventually(found, _START_S, f"{name} says {pattern}")

    def __enter__(self) -> SparkCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def bare_interpreter(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """A Python that has what this one has, but not kconnect, and not the packages named: as executors may have it.

    It is a folder of links, made in a moment. Gives its executable.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    hidden = ("_editable_impl_kconnect", "kconnect", *without)
    for installed in Path(psutil.__file__).parents[1].iterdir():
        if not installed.name.startswith(hidden) and installed.suffix != ".pth":
            (packages / installed.name).symlink_to(installed)
    (folder / "bin").mkdir()
    base = Path(sys.base_prefix) / "bin" / version
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    return folder / "bin" / "python"


def _is_executor(process: psutil.Process) -> bool:
    return _EXECUTOR in " ".join(command(process))
