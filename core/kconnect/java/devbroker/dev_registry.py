"""A real schema registry (Apicurio Registry) for development, quickstart and tests; it serves Confluent's API."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path

from kconnect.client.http_exchange import HttpExchange, Request, Terms
from kconnect.client.http_failures import HttpFailure
from kconnect.errors import EnvironmentProblemError
from kconnect.files.folders import cache_folder, data_folder
from kconnect.java.devbroker.dev_server import HOST, DevServer
from kconnect.java.devbroker.server_folder import ServerFolder
from kconnect.java.installed import Java, find_java
from kconnect.java.maven import ArtifactSet, Jar, Progress, read_lock

DEFAULT_REGISTRY_PORT = 8081
_API = "/apis/ccompat/v7"
# 10 to 17 s on two busy cores
_READY_TIMEOUT_S = 120.0
# C2 never pays in a development registry, and the serial collector needs the least memory: 200 MB resident.
_JVM_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


class DevRegistry(DevServer):
    """One registry on one data folder. Schemas and their ids are in the folder, and outlive a stop or a kill."""

    WHAT = "schema registry"
    _READY_S = _READY_TIMEOUT_S

    def __init__(
        self, port: int = DEFAULT_REGISTRY_PORT, data_dir: Path | str | None = None, *, progress: Progress | None = None
    ) -> None:
        path = Path(data_dir) if data_dir is not None else data_folder() / "registry"
        super().__init__(port, ServerFolder(path, "registry", self.WHAT))
        self._progress = progress

    @property
    def url(self) -> str:
        """What converters use as schema.registry.url."""
        return f"http://{HOST}:{self.port}{_API}"

    @property
    def address(self) -> str:
        return self.url

    def is_ready(self, port: int, within_s: float) -> bool:
        return answers(port, within_s)

    def _fetched(self) -> Callable[[], Sequence[str]]:
        java, program = find_java(f"the {self.WHAT}"), registry_jar(self._progress)
        return lambda: self._command(java, program)

    def _command(self, java: Java, program: Path) -> Sequence[str]:
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self.port),
            "quarkus.http.access-log.enabled": "false",
            "quarkus.banner.enabled": "false",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder.path / 'schemas'}",
            "java.io.tmpdir": str(self.folder.path),
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return [str(java.executable), *_JVM_OPTIONS, *options, "-jar", str(program)]


def answers(port: int, timeout_s: float) -> bool:
    """Whether a registry on this host answers at the port."""
    exchange = HttpExchange(Terms(timeout_s=timeout_s), f"http://{HOST}:{port}")
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
