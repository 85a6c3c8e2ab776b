"""Artifacts of Maven repositories: fetched once into a folder, checked each time, then offline.

A lock file names each artifact with its size and SHA-256, so nothing is resolved on a user's machine: an artifact that
is absent, short or altered is fetched again, and one with another checksum is refused. Each download goes to a staging
folder and is moved into place after the check. The repositories are those of jgo's settings, which resolves what is not
locked; it does not fetch here, as it asks for each artifact and for its SHA-1 with a connection of its own: 46 jars
took 6.5 s of CPU that way.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kconnect.errors import EnvironmentProblemError, TimedOutError
from kconnect.files.file_turn import turn
from kconnect.java.repositories import Repositories, Stopped

_PARALLEL = 4
_ATTEMPTS = 3
# Another process that fetches the same artifacts: 45 MB at 100 kB/s is 450 s.
_TURN_TIMEOUT_S = 600.0

Progress = Callable[[int, int], None]
"""Called now and then with (bytes that are there, bytes in all), from several threads, one call at a time."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One locked artifact: where it comes from, and what it must look like."""

    coordinate: str  # group:artifact:version, or group:artifact:version:classifier:packaging
    sha256: str
    size_bytes: int
    sets: frozenset[str]

    @property
    def file_name(self) -> str:
        _, artifact, version, *more = self.coordinate.split(":")
        classifier, packaging = more or ("", "jar")
        return f"{artifact}-{version}{'-' if classifier else ''}{classifier}.{packaging}"

    @property
    def path(self) -> str:
        """Where it is in a repository."""
        group, artifact, version = self.coordinate.split(":")[:3]
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.file_name}"


def read_lock(text: str) -> list[Jar]:
    """The artifacts of a lock file, in its order: lines of sets, SHA-256, bytes and coordinate."""
    jars = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            sets, sha256, size, coordinate = line.split()
            jars.append(Jar(coordinate, sha256, int(size), frozenset(sets.split(","))))
    return jars


class ArtifactSet:
    """Artifacts in one folder; `fetch()` makes them complete and gives their paths. `title` is for messages.

    Threads: any; processes: any number, one fetches while the others wait.
    """

    def __init__(self, title: str, folder: Path, jars: Sequence[Jar]) -> None:
        self.title = title
        self.folder = folder
        self.jars = list(jars)

    def missing(self) -> list[Jar]:
        """Artifacts that are absent, short or altered. Every byte is hashed: 44 MB take 25 ms."""
        return [jar for jar in self.jars if not _is_good(self.folder / jar.file_name, jar)]

    def fetch(self, progress: Progress | None = None) -> list[Path]:
        """Their paths, complete and checked; no network when nothing is missing.

        Errors: UnreachableError when the registry does not answer, NotFoundError when it has not one of them;
         EnvironmentProblemError when the folder cannot be written or what came has another checksum than the lock.
        """
        paths = [self.folder / jar.file_name for jar in self.jars]
        if not self.missing():
            return paths
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = self.folder / ".lock"
            with turn(lock, _TURN_TIMEOUT_S) as is_ours:
                if not is_ours:
                    raise TimedOutError(
                        f"Another process has been fetching {self.title} for {_TURN_TIMEOUT_S:.0f} s (lock {lock}).",
                        hint="End that process and try again.",
                    )
                missing = self.missing()  # again: another process may have fetched them meanwhile
                if missing:
                    self._download(missing, progress)
        except OSError as err:
            raise EnvironmentProblemError(
                f"{self.title} cannot be written to the cache folder {self.folder}: {err.strerror or err}",
                hint="Free some space there, or name another folder in KCONNECT_CACHE.",
            ) from err
        return paths

    def _download(self, missing: Sequence[Jar], progress: Progress | None) -> None:
        total = sum(jar.size_bytes for jar in self.jars)
        counter = _Counter(total - sum(jar.size_bytes for jar in missing), total, progress)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".fetch-") as staging:
            repositories = Repositories(self.title)
            fetcher = _Fetcher(repositories, Path(staging), counter)
            with (
                closing(repositories),
                ThreadPoolExecutor(_PARALLEL, thread_name_prefix="fetch-jars") as pool,
            ):
                work = [pool.submit(fetcher.fetch, jar, self.folder / jar.file_name) for jar in missing]
                try:
                    for item in work:
                        item.result()
                except BaseException:
                    repositories.stop.set()
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise


class _Counter:
    """Bytes so far, reported to the caller's progress function."""

    def __init__(self, done: int, total: int, progress: Progress | None) -> None:
        self._lock = threading.Lock()  # guards _done, and makes progress calls one at a time
        self._done = done
        self._total = total
        self._progress = progress

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._progress is not None:
                self._progress(min(self._done, self._total), self._total)


class _Fetcher:
    """Fetches single jars into a staging folder, checks them, moves them into place. Threads: any number."""

    def __init__(self, repositories: Repositories, staging: Path, counter: _Counter) -> None:
        self._repositories = repositories
        self._staging = staging
        self._counter = counter

    def fetch(self, jar: Jar, target: Path) -> None:
        """The target is whole or untouched. Errors: NotFoundError, UnreachableError, EnvironmentProblemError."""
        found = self._staging / jar.file_name
        for _ in range(_ATTEMPTS):
            try:
                self._repositories.save(jar.path, found, jar.size_bytes, self._counter.add)
            except Stopped:
                return
            if _is_good(found, jar):
                os.replace(found, target)
                return
        raise EnvironmentProblemError(
            f"{jar.file_name} came with another checksum than expected, {_ATTEMPTS} times: SHA-256 {sha256_of(found)} "
            f"instead of {jar.sha256}.",
            hint="Something between this machine and the Maven repository alters downloads: is it a proxy?",
        )


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_good(path: Path, jar: Jar) -> bool:
    try:
        return path.stat().st_size == jar.size_bytes and sha256_of(path) == jar.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False
