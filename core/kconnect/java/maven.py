"""Artifacts of Maven repositories: fetched once into a folder, checked each time, then offline.

A lock file names each artifact with its size and SHA-256, so nothing is resolved on a user's machine: an artifact that
is absent, short or altered is fetched again, and one with another checksum is refused. Each download goes to a staging
folder and is moved into place after the check. The repositories are those of jgo's settings, which resolves what is not
locked; it does not fetch here, as it asks for each artifact and for its SHA-1 with a connection of its own: 46 jars
took 6.5 s of CPU that way.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cmp_to_key, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from kconnect.client.http_exchange import HttpExchange, Request, Response, Terms
from kconnect.client.http_failures import HttpFailure
from kconnect.errors import EnvironmentProblemError, TimedOutError, UnreachableError
from kconnect.files.file_turn import turn

if TYPE_CHECKING:
    import ssl

_PARALLEL = 4
_ATTEMPTS = 3
_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 60.0
# How long connecting may take, and how long nothing may come
_IDLE_S = 30.0
# A download that is slower is given up: 45 MB are an hour and a quarter then
_SLOWEST_BYTES_A_S: Final = 10_000
_LONGEST_S: Final = 24 * 3600.0
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

        Errors: UnreachableError when the registry does not answer; EnvironmentProblemError when the cache folder cannot
         be written or what came has another checksum than the lock.
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
            fetcher = _Fetcher(self.title, Path(staging), counter)
            with (
                closing(fetcher),
                ThreadPoolExecutor(_PARALLEL, thread_name_prefix="fetch-jars") as pool,
            ):
                work = [pool.submit(fetcher.fetch, jar, self.folder / jar.file_name) for jar in missing]
                try:
                    for item in work:
                        item.result()
                except BaseException:
                    fetcher.stop.set()
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise


class _Counter:
    """Bytes so far, told to the caller's progress function."""

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


class _Stopped(Exception):
    """Another download failed: this one ends too."""


class _Fetcher:
    """Fetches single jars into a staging folder, checks them, moves them into place. Threads: any number."""

    def __init__(self, title: str, staging: Path, counter: _Counter) -> None:
        self._title = title
        self._staging = staging
        self._counter = counter
        self._repositories = [_Repository.of(url) for url in _repositories().values()]
        self._exchanges = ExitStack()
        self._of_thread = threading.local()
        self.stop = threading.Event()

    def close(self) -> None:
        """Close its connections, once no thread fetches any more."""
        self._exchanges.close()

    def fetch(self, jar: Jar, target: Path) -> None:
        """Raises UnreachableError or EnvironmentProblemError; the target is whole or untouched."""
        why: str | None = None
        pause_s = 0.0
        for attempt in range(_ATTEMPTS):
            if self.stop.wait(pause_s):
                return
            pause_s = _PAUSE_S * (attempt + 1)
            found = self._staging / jar.file_name
            try:
                answer = self._download(jar, found)
            except _Stopped:
                return
            except HttpFailure as err:
                why = err.why
                continue
            if not 200 <= answer.status < 300:
                why = "it does not exist" if answer.status == HTTPStatus.NOT_FOUND else f"it answers {answer.status}"
                if answer.status == HTTPStatus.TOO_MANY_REQUESTS:  # it may say when to ask again
                    pause_s = min(answer.retry_after_s or pause_s, _LONGEST_PAUSE_S)
                continue
            if _is_good(found, jar):
                os.replace(found, target)
                return
            why = None
        if why is None:
            raise EnvironmentProblemError(
                f"{jar.file_name} came with another checksum than expected ({jar.sha256[:12]}..), {_ATTEMPTS} times.",
                hint="Something between this machine and the Maven repository alters downloads: is it a proxy?",
            )
        raise UnreachableError(
            f"{jar.file_name} cannot be fetched from the Maven repository {self._repositories[-1].url}: {why}",
            hint=f"{self._title} are fetched once and kept: check the network and HTTPS_PROXY, and try again.",
        )

    def _download(self, jar: Jar, target: Path) -> Response:
        """From the first repository that has it; the last one's answer. Errors: _Stopped, HttpFailure."""
        *others, last = self._repositories
        for repository in others:  # one that lacks it may also say that it is forbidden
            answer = self._written(repository, jar, target)
            if 200 <= answer.status < 300:
                return answer
        return self._written(last, jar, target)

    def _written(self, repository: _Repository, jar: Jar, target: Path) -> Response:
        request = Request("GET", f"{repository.url}/{jar.path}", None, repository.headers)
        deadline_s = _IDLE_S + jar.size_bytes / _SLOWEST_BYTES_A_S
        with target.open("wb") as file:

            def write(piece: bytes) -> None:
                if self.stop.is_set():
                    raise _Stopped
                file.write(piece)
                self._counter.add(len(piece))

            return self._exchange().send(request, deadline_s, write)

    def _exchange(self) -> HttpExchange:
        """The calling thread's, which keeps its connections: an exchange is not for several threads at once."""
        exchange: HttpExchange | None = getattr(self._of_thread, "exchange", None)
        if exchange is None:
            exchange = self._of_thread.exchange = self._exchanges.enter_context(closing(HttpExchange(_terms())))
        return exchange


@dataclass(frozen=True, slots=True)
class _Repository:
    """A Maven repository: its URL without user, and the headers that say who we are to it."""

    url: str
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> _Repository:
        """The user is in the URL, or in ~/.netrc."""
        from requests.utils import get_auth_from_url, get_netrc_auth  # read as by jgo, which resolves with requests

        login = get_auth_from_url(url)
        if not any(login):
            login = get_netrc_auth(url) or login
        pair = base64.b64encode(":".join(login).encode()).decode()
        parts = urlsplit(url)
        plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
        return cls(plain, {"Authorization": f"Basic {pair}"} if any(login) else {})


def _tls() -> ssl.SSLContext:
    """What the system trusts, and what jgo's own requests trust: REQUESTS_CA_BUNDLE or the certificates of certifi."""
    import ssl

    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or DEFAULT_CA_BUNDLE_PATH
    context = ssl.create_default_context()
    try:
        if Path(named).is_dir():
            context.load_verify_locations(capath=named)
        else:
            context.load_verify_locations(cafile=named)
    except OSError as err:
        raise EnvironmentProblemError(
            f"{named} cannot be used as CA certificates: {err.strerror or err}", hint="Correct REQUESTS_CA_BUNDLE."
        ) from err
    return context


def _terms() -> Terms:
    return Terms(
        timeout_s=_LONGEST_S,
        connect_timeout_s=_IDLE_S,
        idle_s=_IDLE_S,
        tls=_tls,
        redirects=10,
        uses_proxies=True,
    )


def _repositories() -> dict[str, str]:
    """Names and URLs of the repositories that the user configured for jgo (default: Maven Central)."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL

    return dict(GlobalSettings.load().repositories) or {"central": MAVEN_CENTRAL_URL}


def maven_context(folder: Path) -> Any:  # jgo has no type information we may rely on
    """A jgo context over a folder, with the same repositories."""
    from jgo.maven import MavenContext, PythonResolver

    resolver, remotes = PythonResolver(), _repositories()
    context = MavenContext(resolver=resolver, repo_cache=folder, remote_repos=remotes, timeout=round(_IDLE_S))
    context.project = partial(_project, context)  # type: ignore[method-assign]  # what jgo makes begins with a project
    return context


def _project(context: Any, group: str, artifact: str) -> Any:
    """A project of which a range such as `[4.7,4.7.99]` means the newest version in it; jgo's own take it literally.

    As Maven does, it asks the repository which versions there are.
    """
    from jgo.maven import Component, Project
    from jgo.maven._version import compare_versions, version_in_range

    class Ranged(Component):
        _exact: str

        @property
        def version(self) -> str:
            return self._exact

        @version.setter
        def version(self, wanted: str) -> None:  # jgo sets it again when it has put in a property of the POM
            self._exact = wanted
            if wanted[:1] in ("[", "("):
                if not self.project.metadata.versions:
                    self.project.update()
                fitting = [found for found in self.project.metadata.versions if version_in_range(found, wanted)]
                self._exact = max(fitting, key=cmp_to_key(compare_versions)) if fitting else wanted

    project = Project(context, group, artifact)
    project.at_version = lambda version: Ranged(project, version)  # type: ignore[method-assign]
    return project


def _is_good(path: Path, jar: Jar) -> bool:
    try:
        if path.stat().st_size != jar.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False
