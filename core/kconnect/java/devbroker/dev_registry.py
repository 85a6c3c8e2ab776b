"""A real schema registry (Apicurio Registry) for development, quickstart and tests; it serves Confluent's API."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tarfile
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import TracebackType

from kconnect.client.http_exchange import HttpExchange, Request, Terms
from kconnect.client.http_failures import HttpFailure
from kconnect.errors import EnvironmentProblemError
from kconnect.files.folders import cache_folder, data_folder
from kconnect.java.devbroker.server_folder import ServerFolder
from kconnect.java.devbroker.server_process import STOP_TIMEOUT_S, ServerProcess
from kconnect.java.installed import Java, find_java
from kconnect.java.maven import ArtifactSet, Jar, Progress, read_lock

DEFAULT_REGISTRY_PORT = 8081
_HOST = "127.0.0.1"
_API = "/apis/ccompat/v7"
# 10 to 17 s on two busy cores
_READY_TIMEOUT_S = 120.0
# C2 never pays in a development registry, and the serial collector needs the least memory: 200 MB resident.
_JVM_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


@dataclass(frozen=True, slots=True)
class RegistryStatus:
    """What `connect registry status` shows."""

    state: str  # RUNNING, STARTING or STOPPED
    data_dir: Path
    url: str | None = None
    pid: int | None = None


class DevRegistry:
    """One registry on one data folder. States: stopped -> start() -> ready -> stop() -> stopped; again and again.

    Schemas and their ids are in the data folder and outlive a stop or a kill. A registry that is left running
    (`detach()`) is found by any DevRegistry on the same folder: `status()` and `stop()` work.
    Threads: one at a time.
    """

    def __init__(
        self, port: int = DEFAULT_REGISTRY_PORT, data_dir: Path | str | None = None, *, progress: Progress | None = None
    ) -> None:
        self.port = port
        path = Path(data_dir) if data_dir is not None else data_folder() / "registry"
        self.folder = ServerFolder(path, "registry", "schema registry")
        self._progress = progress
        self._server = ServerProcess(self.folder)

    @property
    def url(self) -> str:
        """What converters use as schema.registry.url."""
        return f"http://{_HOST}:{self.port}{_API}"

    @property
    def pid(self) -> int | None:
        """Process id of the running registry, None when it is stopped."""
        return self._server.pid

    def start(self, timeout_s: float = _READY_TIMEOUT_S) -> None:
        """Start and wait until the registry answers.

        Errors: EnvironmentProblemError (no Java, port taken, folder of something else, it ended), ConflictError (one
        runs on this folder), UnreachableError (not cached and no network), TimedOutError. An error leaves nothing
        running.
        """
        deadline = time.monotonic() + timeout_s
        java = find_java("the schema registry")
        program = registry_jar(self._progress)
        self._prepare()
        self._check_port()
        with self.folder.hold() as lock:
            try:
                self._server.start(self._command(java, program), lock, self.port, self.url)
            except OSError as err:
                raise self.folder.not_writable(err) from err
        try:
            late = f"The schema registry on port {self.port} was not ready after {timeout_s:.0f} s."
            self._server.await_ready(lambda: answers(self.port, 1.0), deadline, late)
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop the registry that runs on the folder, whoever started it; says whether there was one."""
        return self._server.stop(timeout_s)

    def kill(self) -> None:
        """Kill the registry at once (SIGKILL)."""
        self._server.kill()

    def detach(self) -> None:
        """Leave the registry running when this process ends; another DevRegistry on the folder finds it."""
        self._server.detach()

    def wait(self, timeout_s: float) -> int | None:
        """Wait until the registry that this object started ends; its exit code, None while it runs."""
        return self._server.wait(timeout_s)

    def status(self) -> RegistryStatus:
        """What runs on the folder. RUNNING: it answers; STARTING: a process holds the folder, no answer yet."""
        running = self.folder.running()
        if running is None:
            return RegistryStatus("STARTING" if self.folder.is_held() else "STOPPED", self.folder.path)
        state = "RUNNING" if answers(running.port, 5.0) else "STARTING"
        return RegistryStatus(state, self.folder.path, running.bootstrap, running.pid)

    def __enter__(self) -> DevRegistry:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _command(self, java: Java, program: Path) -> Sequence[str]:
        settings = {
            "quarkus.http.host": _HOST,
            "quarkus.http.port": str(self.port),
            "quarkus.http.access-log.enabled": "false",
            "quarkus.banner.enabled": "false",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder.path / 'schemas'}",
            "java.io.tmpdir": str(self.folder.path),
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return [str(java.executable), *_JVM_OPTIONS, *options, "-jar", str(program)]

    def _prepare(self) -> None:
        path = self.folder.path
        if path.exists() and not path.is_dir():
            raise EnvironmentProblemError(
                f"The schema registry's data folder {path} is a file.", hint="Name another folder with --data."
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            names = {entry.name for entry in path.iterdir()}
        except OSError as err:
            raise self.folder.not_writable(err) from err
        if names and self.folder.lock.name not in names:
            raise EnvironmentProblemError(
                f"{path} is not empty and no data folder of this registry (it holds {min(names)}).",
                hint="Name another folder with --data.",
            )

    def _check_port(self) -> None:
        running = self.folder.running()
        if running is not None:
            return  # hold() says so, with the better sentence
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, self.port))
            except OSError as err:
                raise EnvironmentProblemError(
                    f"Port {self.port} on {_HOST} cannot be used: {err.strerror or err}.",
                    hint="Stop what listens there, or choose another port with --port.",
                ) from err


def answers(port: int, timeout_s: float) -> bool:
    """Whether a registry on this host answers at the port."""
    exchange = HttpExchange(Terms(timeout_s=timeout_s), f"http://{_HOST}:{port}")
    try:
        with closing(exchange):
            response = exchange.send(Request("GET", f"{_API}/subjects"))
        return response.status == 200 and isinstance(json.loads(response.body), list)
    except (HttpFailure, ValueError):
        return False


_TITLE = "The schema registry's files"


def locked_registry() -> Jar:
    """The one artifact of the lock file."""
    (archive,) = read_lock(resources.files(__package__).joinpath("registry.lock").read_text("utf-8"))
    return archive


def registry_jar(progress: Progress | None = None) -> Path:
    """The jar that starts the registry, with its libraries beside it; no network when it is there.

    Errors: UnreachableError, EnvironmentProblemError, TimedOutError as those of ArtifactSet.fetch.
    """
    archive = locked_registry()
    target = cache_folder() / "registry" / archive.file_name.removesuffix("-all.tar.gz")
    if not target.is_dir():
        downloads = ArtifactSet(_TITLE, target.parent, [archive])
        (packed,) = downloads.fetch(progress)
        try:
            _unpack(packed, target)
            packed.unlink(missing_ok=True)  # 109 MB that nobody needs again
        except (OSError, tarfile.TarError) as err:
            raise EnvironmentProblemError(
                f"{_TITLE} cannot be unpacked to the cache folder {target.parent}: {err}",
                hint="Free some space there (130 MB), or name another folder in KCONNECT_CACHE.",
            ) from err
    return _runner(target)


def _unpack(packed: Path, target: Path) -> None:
    """Into place as a whole; another process may be first."""
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=".unpack-"))
    try:
        with tarfile.open(packed) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(staging / "it", filter="data")
            else:  # Python before 3.11.4; the checksum of the archive was right
                archive.extractall(staging / "it")
        _runner(staging / "it")
        try:
            os.replace(staging / "it", target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _runner(folder: Path) -> Path:
    for found in folder.glob("*-runner.jar"):
        return found
    raise EnvironmentProblemError(
        f"{folder} is damaged: it has no runner jar.", hint="Delete that folder; it is fetched again at the next start."
    )
