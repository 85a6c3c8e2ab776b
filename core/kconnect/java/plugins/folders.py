"""The folders of plugin.path that hold Java's plugins, and the files in them."""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kconnect.java.plugins.class_files import JavaClass, read_class

log = logging.getLogger(__name__)

_ARCHIVES: Final = (".jar", ".zip")
SERVICES: Final = "META-INF/services/"

Problem = Callable[[Path, Exception], None]
"""Reported a jar that cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class JavaFolder:
    """One plugin as Java sees it: a sub-folder of plugin.path with jars or class files, or a jar that lies there."""

    location: Path
    jars: tuple[Path, ...]
    """Empty for a folder of class files."""

    @property
    def is_tree(self) -> bool:
        """Whether it is a folder of class files."""
        return not self.jars

    def fingerprint(self) -> str:
        """Another one whenever a file has changed."""
        digest = hashlib.sha256()
        for path in self.jars or sorted(self.location.rglob("*")):
            with suppress(OSError):
                found = path.stat()
                digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
        return digest.hexdigest()[:16]

    def class_names(self, problem: Problem) -> Iterator[str]:
        """Every class by its full name."""
        for archive in self._opened(problem):
            for name in archive.names:
                if name.endswith(".class") and not name.startswith("META-INF/"):
                    yield name[:-6].replace("/", ".")

    def classes(self, problem: Problem) -> Iterator[JavaClass]:
        """Every class that can be read."""
        for archive in self._opened(problem):
            for name in archive.names:
                if name.endswith(".class") and not name.startswith("META-INF/"):
                    found = read_class(archive.read(name))
                    if found is not None:
                        yield found

    def manifests(self, interfaces: Iterable[str], problem: Problem) -> Iterator[tuple[Path, str, list[str]]]:
        """The classes that META-INF/services of each jar names for each interface, in order."""
        wanted = list(interfaces)
        for archive in self._opened(problem):
            for interface in wanted:
                if SERVICES + interface in archive.names:
                    names = services(archive.read(SERVICES + interface))
                    yield archive.path, interface, [name for name in names if _may_be_a_class(name)]

    def classes_named(self, names: Collection[str], problem: Problem) -> Iterator[JavaClass]:
        """Gives those of these classes that are there and can be read."""
        entries = [f"{name.replace('.', '/')}.class" for name in names]
        for archive in self._opened(problem):
            for entry in archive.names.intersection(entries):
                found = read_class(archive.read(entry))
                if found is not None:
                    yield found

    def _opened(self, problem: Problem) -> Iterator[_Archive]:
        if self.is_tree:
            names = {path.relative_to(self.location).as_posix() for path in self.location.rglob("*") if path.is_file()}
            yield _Archive(self.location, names, lambda name: (self.location / name).read_bytes())
        for jar in self.jars:
            try:
                with zipfile.ZipFile(jar) as archive:
                    yield _Archive(jar, set(archive.namelist()), archive.read)
            except (OSError, zipfile.BadZipFile) as err:
                problem(jar, err)


@dataclass(frozen=True, slots=True)
class _Archive:
    path: Path
    names: set[str]
    read: Callable[[str], bytes]


def folders_of(plugin_path: str | None) -> tuple[JavaFolder, ...]:
    """The folders with jars or class files of a `plugin.path`; none is opened."""
    found: list[JavaFolder] = []
    for element in (part.strip() for part in (plugin_path or "").split(",")):
        if element:
            found.extend(_folders_in(Path(element).expanduser().absolute()))
    return tuple(found)


def folder_at(location: Path) -> JavaFolder | None:
    """The plugin at one place: a jar, or a folder with jars or class files; None for another one.

    Source: PluginUtils.pluginUrls.
    """
    if not location.is_dir():
        return JavaFolder(location, (location,)) if _is_archive(location) else None
    files = list(_files_in(location))
    jars = tuple(sorted(path for path in files if _is_archive(path)))
    if not jars and not any(path.name.lower().endswith(".class") for path in files):
        return None
    return JavaFolder(location, jars)


def _files_in(folder: Path) -> Iterator[Path]:
    """All files below it; what is behind links once, as they may lead back to it."""
    seen: set[str] = set()
    for root, inner, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        yield from (Path(root) / name for name in names)


def _may_be_a_class(name: str) -> bool:
    """Whether Java takes it for a class: a manifest may begin with a byte order mark, or have two words in a line."""
    return all(part.replace("$", "_").isidentifier() for part in name.split("."))


def services(text: bytes) -> list[str]:
    """The names in a file of META-INF/services, once each. Source: java.util.ServiceLoader."""
    lines = (line.partition("#")[0].strip() for line in text.decode("utf-8", "replace").splitlines())
    return list(dict.fromkeys(name for name in lines if name))


def _folders_in(element: Path) -> Iterator[JavaFolder]:
    """Finds them as Java's plugin.path does: each sub-folder with jars is a plugin, and so is each jar beside them.

    Differs: hidden folders and Python's environments are none. `plugin.path=.` in a project with a .venv would have all
    classes of Spark read: 6 s.
    """
    try:
        for place in sorted(element.iterdir()) if element.is_dir() else [element] if element.is_file() else ():
            if place.is_dir() and (place.name.startswith(".") or (place / "pyvenv.cfg").is_file()):
                continue
            found = folder_at(place)
            if found is not None:
                yield found
    except OSError as err:
        log.warning("plugin.path: %s cannot be read for Java plugins: %s", element, err)


def _is_archive(path: Path) -> bool:
    return path.name.lower().endswith(_ARCHIVES)
