"""The two workers under measurement, each a standalone worker with the same worker and connector properties."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import psutil

from kit.cli import connect_command
from kit.java_connect import RELEASE_JVM_OPTIONS, JavaConnect, write_properties
from kit.ports import free_port
from kit.waiting import eventually

__all__ = ["SIDES", "OurSide", "Side", "await_rest", "delete_connector", "put_connector"]

# Java answers after 2 s; on a loaded machine much later
_REST_S = 60.0
_WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "10000",
}


class Side(Protocol):
    """A worker that can be started once."""

    url: str

    def start(self) -> float:
        """Start it; gives the moment of the start."""
        ...

    @property
    def pid(self) -> int: ...

    def is_alive(self) -> bool: ...

    def stop(self) -> None:
        """Stop it, and kill what is left of it."""
        ...

    def log_tail(self) -> str: ...


class JavaSide:
    """Java Connect with the JVM options of its release."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        *connectors: Mapping[str, str],
        env: Mapping[str, str] | None = None,
        plugins: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings`: of our worker alone."""
        assert env is None, "kit.java_connect starts it in our own environment"
        path = {} if plugins is None else {"plugin.path": f"{folder / 'plugins'},{plugins}"}
        self._worker = JavaConnect(
            folder, bootstrap, worker=_WORKER | path, connectors=connectors, jvm_options=RELEASE_JVM_OPTIONS
        )
        self.url = self._worker.url

    def start(self) -> float:
        self._worker.prepare()
        began = time.monotonic()
        self._worker.start(ready=False)
        return began

    @property
    def pid(self) -> int:
        return self._worker.process.pid

    def is_alive(self) -> bool:
        return _is_alive(self.pid)

    def stop(self) -> None:
        self._worker.stop(15.0)

    def log_tail(self) -> str:
        return _tail(self._worker.log)


class OurSide:
    """Our worker, by the command a user types."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        *connectors: Mapping[str, str],
        env: Mapping[str, str] | None = None,
        plugins: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._env = env
        self._folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        worker = _WORKER | {
            "bootstrap.servers": bootstrap,
            "listeners": self.url,
            "offset.storage.file.filename": str(folder / "connect.offsets"),
            "plugin.path": ",".join(str(path) for path in (Path(__file__).parent / "plugins", plugins) if path),
        }
        self._files = [
            write_properties(folder / "worker.properties", worker | dict(settings or {})),
            *(
                write_properties(folder / f"connector-{number}.properties", connector)
                for number, connector in enumerate(connectors)
            ),
        ]
        self._log = folder / "connect.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        with self._log.open("wb") as log:
            began = time.monotonic()
            self._process = subprocess.Popen(
                [*connect_command(), "standalone", "--timings", *(str(file) for file in self._files)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=self._env,
                start_new_session=True,
            )
        return began

    def steps(self) -> dict[str, float]:
        """When each step of the start had happened, s after the start of the process; empty before it is over."""
        table = self._log.read_text("utf-8", "replace").partition("WHAT HAS HAPPENED\n")[2]
        found = re.findall(r"^ *(\d+\.\d\d) +\d+\.\d\d +(.+)$", table, re.MULTILINE)
        return {step: float(at_s) for at_s, step in found}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        if self._process is None:
            return
        below = psutil.Process(self.pid).children(recursive=True) if self.is_alive() else []
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        _, left = psutil.wait_procs(below, timeout=5)
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=5)

    def log_tail(self) -> str:
        return _tail(self._log)


SIDES: dict[str, type[JavaSide] | type[OurSide]] = {"java": JavaSide, "ours": OurSide}


def await_rest(worker: Side) -> None:
    """Wait until the worker lists its connectors. Errors: RuntimeError when it ends, AssertionError in time."""

    def answers() -> bool:
        if not worker.is_alive():
            raise RuntimeError("the worker ended before it answered")
        try:
            _request(worker, "GET", "")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    eventually(answers, _REST_S, "REST answers")


def put_connector(worker: Side, config: Mapping[str, str]) -> None:
    """Create or change a connector by REST."""
    _request(worker, "PUT", f"/{config['name']}/config", json.dumps(dict(config)).encode())


def delete_connector(worker: Side, name: str) -> None:
    """Delete a connector by REST; its tasks have ended then."""
    _request(worker, "DELETE", f"/{name}")


def _request(worker: Side, method: str, path: str, body: bytes | None = None) -> None:
    request = urllib.request.Request(f"{worker.url}/connectors{path}", body, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=_REST_S) as answer:
        answer.read()


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _tail(path: Path, size: int = 3000) -> str:
    return path.read_text("utf-8", errors="replace")[-size:] if path.exists() else "(no log)"
