"""Connector files that commands are given; `-` is stdin.

ConnectorFileWatch is `connect standalone --watch`: what is created, changed or removed there is so here.

Files are looked at twice a second; a change counts when two looks agree, so that a half-written file is not read.
A file that cannot be read, or whose connector is refused, is reported, and its connector stays as it is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from kconnect.errors import ConfigError, ConnectError, NotFoundError
from kconnect.model import ConnectorInfo, TargetState
from kconnect.runtime.config.dropins import (
    SUFFIXES,
    ConnectorFile,
    connector_paths,
    load_connector_file,
    load_connector_files,
)
from kconnect_cli.exits import UsageProblem
from kconnect_cli.files.json_files import source_of

log = logging.getLogger(__name__)


def read_connector_file(name: str) -> ConnectorFile:
    """The connector in a .properties, .json, .toml or .yaml file; stdin may hold each of them."""
    return load_connector_file(_path_of(name), source_of(name))


def read_connector_files(names: Sequence[str]) -> list[ConnectorFile]:
    """The connectors of files, which may hold an array or several documents, and of connector files of folders.

    Errors: as `load_connector_files`; ConfigError that names each file, where several cannot be read.
    """
    read: list[ConnectorFile] = []
    refused: list[ConnectError] = []
    count = 0
    for name in names:
        path = _path_of(name)
        files = [(each, str(each)) for each in connector_paths(path)] if path.is_dir() else [(path, source_of(name))]
        count += len(files)
        for each, called in files:
            try:
                read += load_connector_files(each, called)
            except ConnectError as err:
                refused.append(err)
    if refused:
        raise _refusal(refused, is_all=len(refused) == count)
    return read


def _refusal(refused: Sequence[ConnectError], *, is_all: bool) -> ConnectError:
    """One error of all files that cannot be read; kubectl would go on with the others."""
    if is_all and len(refused) == 1:
        return refused[0]
    hints = [err.hint for err in refused if err.hint] + ([] if is_all else ["Nothing was done with the other files."])
    text, hint = "\n".join(str(err) for err in refused), " ".join(dict.fromkeys(hints))
    are_missing = all(isinstance(err, NotFoundError) for err in refused)
    return NotFoundError(text, hint=hint) if are_missing else ConfigError(text, hint=hint)


def refuse_settings(names: Sequence[str]) -> None:
    """Errors: UsageProblem for `key=value`, which some tools take in place of a file."""
    setting = next((name for name in names if "=" in name and not Path(name).exists()), None)
    if setting is not None:
        raise UsageProblem(
            f"{setting} is a setting; files are expected here",
            hint="Write the settings into a file, or pipe them and give - as the file. "
            "connect config set NAME KEY=VALUE changes a connector that exists.",
        )


def _path_of(name: str) -> Path:
    return Path("/dev/stdin" if name == "-" else name)


_LOOK_S = 0.5
_STOP_S = 5.0

# What tells that a file changed: time, size and inode (editors write a new file and rename it).
Marks: TypeAlias = Mapping[Path, tuple[int, int, int]]


class Connectors(Protocol):
    """What is asked of the herder."""

    def put_connector(
        self, name: str, config: Mapping[str, str], *, initial_state: TargetState | None = None, replace: bool
    ) -> tuple[bool, ConnectorInfo]: ...
    def delete_connector(self, name: str) -> None: ...


class ConnectorFileWatch:
    """Watches the named files, or a folder. A context manager with a thread of its own.

    `loaded` are the connectors that were created from these files already.
    """

    def __init__(
        self,
        herder: Connectors,
        loaded: Sequence[ConnectorFile],
        *,
        named: Sequence[Path] = (),
        folder: Path | None = None,
    ) -> None:
        self._herder = herder
        self._named = tuple(named)
        self._folder = folder
        self._known = {file.path: file for file in loaded}
        self._acted: Marks = self._look()
        self._last: Marks = self._acted
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="file-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            log.warning("Watching connector files did not stop within %g s", _STOP_S)

    def look(self) -> None:
        """One look; acts when it is the second that finds the same change."""
        now = self._look()
        settled, self._last = now == self._last, now
        if not settled or now == self._acted:
            return
        before, self._acted = self._acted, now
        for path in sorted({*before, *now}):
            if path not in now:
                self._removed(path)
            elif before.get(path) != now[path]:
                self._changed(path)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                self.look()
            except Exception:  # top of the thread: the next look may succeed
                log.exception("Looking at connector files failed")

    def _look(self) -> Marks:
        return marks_of(self._named, self._folder)

    def _changed(self, path: Path) -> None:
        known = self._known.get(path)
        try:
            file = load_connector_file(path)
        except ConnectError as err:
            stays = f"; connector {known.name} stays as it is" if known else ""
            log.error("%s is ignored%s: %s", path, stays, err)
            return
        if known is not None and known.name == file.name and dict(known.config) == dict(file.config):
            return
        other = next((each.path for each in self._known.values() if each.name == file.name and each.path != path), None)
        if other is not None:
            log.error("%s is ignored: connector %s is already defined by %s", path, file.name, other)
            return
        try:
            is_new, _ = self._herder.put_connector(
                file.name, file.config, initial_state=file.initial_state if known is None else None, replace=True
            )
        except ConnectError as err:
            log.error("%s is refused: %s", path, err)
            return
        log.info("%s connector %s from %s", "Created" if is_new else "Updated", file.name, path)
        self._known[path] = file
        if known is not None and known.name != file.name:
            self._delete(known.name, path)

    def _removed(self, path: Path) -> None:
        known = self._known.pop(path, None)
        if known is not None:
            self._delete(known.name, path)

    def _delete(self, name: str, path: Path) -> None:
        try:
            self._herder.delete_connector(name)
        except NotFoundError:
            log.info("Connector %s, which %s defined, was already deleted", name, path)
        except ConnectError as err:
            log.error("Connector %s, which %s no longer defines, cannot be deleted: %s", name, path, err)
        else:
            log.info("Deleted connector %s, which %s no longer defines", name, path)


def marks_of(named: Sequence[Path], folder: Path | None) -> Marks:
    """The marks of files that are there; a folder that is not there has none."""
    paths = list(named)
    if folder is not None and folder.is_dir():
        paths += [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.name[0] != "."]
    marks = {}
    for path in paths:
        try:
            stat = path.stat()
        except FileNotFoundError:  # removed since, or not there at all
            continue
        marks[path] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return marks
