"""Versions of Java's plugins: asked of Java once for each state of a folder's files, and kept in the cache folder.

A class that could not be loaded is asked for again by the next process: another Java, an option or memory may help.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from kconnect.errors import ConnectError
from kconnect.files.durable_file import replace_file
from kconnect.files.folders import cache_folder
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.index import JavaIndex
from kconnect.java.plugins.java_error import JavaHostDiedError, JavaTraced
from kconnect.logs.log_context import log_context

log = logging.getLogger(__name__)

# So few classes load in a JVM that runs anyway; more would stay in its memory
_FEW: Final = 8
UNDEFINED: Final = "undefined"
_NOT_OWN: Final = "it is a class of the worker's, not of this folder"
# Source: PluginScanner.reflectiveErrorDescription
_REASONS: Final = {
    "java.lang.NoSuchMethodException": (
        "Plugin class must have a no-args constructor, and cannot be a non-static inner class"
    ),
    "java.lang.IllegalAccessException": "Plugin class default constructor must be public",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of making an object of a class: its version and kinds, or why it is no plugin of its folder."""

    version: str = UNDEFINED
    problem: str | None = None
    kinds: tuple[str, ...] = ()


class PluginVersions:
    """The versions of the classes of an index. Threads: any."""

    def __init__(self, index: JavaIndex, host: HostProcess, other: Callable[[], HostProcess]) -> None:
        """`host`: the JVM of this process; `other` makes one that lives as long as a question."""
        self._index = index
        self._host = host
        self._other = other
        self._lock = threading.RLock()  # guards the next one, and that one thread asks
        self._known: dict[Path, dict[str, Loaded]] = {}

    def of(self, name: str, location: Path) -> Loaded | None:
        """The version of a class; None when Java cannot be asked. Starts a JVM when these files are new."""
        return self.of_all([(name, location)]).get((name, location))

    def of_all(
        self, wanted: Iterable[tuple[str, Path]], *, strict: bool = False, asks: bool = True
    ) -> dict[tuple[str, Path], Loaded]:
        """The versions of several classes, in one JVM; those are missing of which Java cannot be asked, or, without
        `asks`, was not asked before.

        Errors: none, unless `strict`; the log says why Java cannot be asked, and which class cannot be loaded, once in
        a process.
        """
        pairs = list(wanted)
        with self._lock:
            missing = [(name, place) for name, place in pairs if name not in self._of_folder(place)]
            if missing and asks:
                try:
                    self._ask(missing)
                except ConnectError as err:
                    if strict:
                        raise
                    log.warning("The versions of Java's plugins are not known: %s", err)
            return {
                (name, place): self._known[place][name] for name, place in pairs if name in self._known.get(place, ())
            }

    def known(self, name: str, location: Path) -> Loaded | None:
        """Works as `of`, without asking Java."""
        with self._lock:
            return self._of_folder(location).get(name)

    def _ask(self, missing: list[tuple[str, Path]]) -> None:
        with self._asked(len(missing)) as host:
            for name, place in missing:
                self._known[place][name] = _loaded(host, name, place)
        for place in {place for _, place in missing}:
            with suppress(OSError, ConnectError):  # asked again next time
                path = self._file(place)
                path.parent.mkdir(parents=True, exist_ok=True)
                kept = {name: asdict(one) for name, one in self._known[place].items() if _lasts(one.problem)}
                replace_file(path, json.dumps(kept))

    @contextmanager
    def _asked(self, count: int) -> Iterator[HostProcess]:
        if count <= _FEW and (count == 1 or self._host.pid is not None):
            yield self._host
            return
        other = self._other()
        try:
            with log_context(None):  # what these classes say is not of the connector for which all are asked
                yield other
        finally:
            other.stop()

    def _of_folder(self, location: Path) -> dict[str, Loaded]:
        if location not in self._known:
            self._known[location] = {}
            with suppress(OSError, ValueError, KeyError, TypeError):
                reported = json.loads(self._file(location).read_text("utf-8"))
                self._known[location] = {
                    name: Loaded(found["version"], found["problem"], tuple(found["kinds"]))
                    for name, found in reported.items()
                    if _lasts(found["problem"])
                }
        return self._known[location]

    def _file(self, location: Path) -> Path:
        return cache_folder() / "java" / f"versions-{self._index.folder(location).fingerprint()}.json"


def _lasts(problem: str | None) -> bool:
    """Whether it is so for as long as the files are these."""
    return problem in (None, _NOT_OWN)


def _loaded(host: HostProcess, name: str, place: Path) -> Loaded:
    """Errors: ConnectError when there is no Java at all."""
    with closing(host.connect(thread="plugin-versions", location=str(place))) as connection:
        try:
            reported = connection.call("load", **{"class": name, "folder": str(place)})
        except ConnectError as err:
            if not isinstance(err, JavaTraced | JavaHostDiedError):
                raise
            problem = _REASONS.get(err.java_class, str(err)) if isinstance(err, JavaTraced) else str(err)
            log.warning("plugin.path: %s in %s cannot be loaded: %s", name, place, problem)
            return Loaded(problem=problem)
    if not reported["own"]:
        return Loaded(problem=_NOT_OWN)
    return Loaded(reported["version"], kinds=tuple(reported["kinds"]))
