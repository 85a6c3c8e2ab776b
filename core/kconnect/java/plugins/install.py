"""Puts a Java plugin into a folder of plugin.path: from Maven with all its dependencies, from a zip, or from a folder.

A plugin from Maven leaves plugin.lock beside its jars, with size and SHA-256 of each: the next install of the same
version fetches exactly these, on this machine or on another one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    EnvironmentProblemError,
    NotFoundError,
    UnreachableError,
)
from kconnect.java.kafka_jars import JarSet
from kconnect.java.maven import ArtifactSet, Jar, Progress, maven_context, read_lock

LOCK: Final = "plugin.lock"
# Groups of which Connect's own class path has artifacts; a plugin's copy would never be used.
_PARENTS: Final = ("org.apache.kafka", "org.slf4j")
# Its modules are found as services, Connect's among them, and have to fit its core: a plugin with a core of its own
# fails as soon as it looks for modules. So vendors leave it out of their zips, unless they need a newer one.
_JACKSON: Final = "com.fasterxml.jackson"
_NOT_SHIPPED: Final = ("test", "provided", "system")
_COORDINATE: Final = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


@dataclass(frozen=True, slots=True)
class Installed:
    """Where a plugin is now, and its jars."""

    folder: Path
    jars: tuple[str, ...]


def install(source: str, plugin_path: Path, progress: Progress | None = None) -> Installed:
    """Install `group:artifact:version`, a zip or a folder into a sub-folder of plugin_path.

    Errors: BadRequestError for a source that is none of these, NotFoundError, AlreadyExistsError when the folder has
    something else, UnreachableError, EnvironmentProblemError for jars with another checksum than the lock has.
    """
    path = Path(source).expanduser()
    if path.is_dir() or path.suffix in (".zip", ".jar"):
        return _from_files(path, plugin_path)
    if not _COORDINATE.fullmatch(source):
        raise BadRequestError(
            f"{source} is neither group:artifact:version nor a zip or a folder.",
            hint="Such as io.debezium:debezium-connector-postgres:3.6.1.Final.",
        )
    return _from_maven(source, plugin_path, progress)


def _from_maven(coordinate: str, plugin_path: Path, progress: Progress | None) -> Installed:
    target = plugin_path / coordinate.split(":")[1]
    lock = target / LOCK
    if lock.is_file() and coordinate in lock.read_text("utf-8").partition("\n")[0]:
        jars = read_lock(lock.read_text("utf-8"))
    elif target.is_dir() and any(target.iterdir()):
        raise AlreadyExistsError(f"{target} has another plugin or version.", hint="Delete the folder first.")
    else:
        jars = _resolved(coordinate)
        target.mkdir(parents=True, exist_ok=True)
        text = "".join(f"plugin {jar.sha256} {jar.size_bytes} {jar.coordinate}\n" for jar in jars)
        lock.write_text(f"# {coordinate}: SHA-256, bytes and Maven coordinate of each jar\n{text}", "utf-8")
    found = ArtifactSet(f"The jars of {coordinate}", target, jars).fetch(progress)
    return Installed(target, tuple(jar.name for jar in found))


def _resolved(coordinate: str) -> list[Jar]:
    """The plugin and what it needs at run time. Each is fetched once, for its checksum."""
    with tempfile.TemporaryDirectory() as cache:
        context = maven_context(Path(cache))
        try:
            inputs, more = context.resolver.resolve([context.create_dependency(coordinate)])
            return [_jar(dependency) for dependency in _shipped(inputs, more)]
        except (RuntimeError, OSError) as err:  # jgo's errors, and those of requests
            if "not found" in str(err).lower() or "404" in str(err):
                raise NotFoundError(f"{coordinate} does not exist in the Maven repository: {err}") from err
            raise UnreachableError(
                f"{coordinate} cannot be fetched from the Maven repository: {err}", hint="Check the network."
            ) from err


def _shipped(plugin: Iterable[Any], more: Iterable[Any]) -> Iterator[Any]:
    yield from plugin
    own = dict(jar.coordinate.split(":")[1:3] for jar in JarSet("connect").jars)
    # A folder with connect-mirror needs its client beside it: they share what a package keeps to itself
    own.pop("connect-mirror-client", None)
    for found in more:
        is_connects = found.artifactId in own and (
            found.groupId in _PARENTS
            or (found.groupId.startswith(_JACKSON) and _numbers(found.version) <= _numbers(own[found.artifactId]))
        )
        if found.type == "jar" and found.scope not in _NOT_SHIPPED and not is_connects:
            yield found


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _jar(dependency: Any) -> Jar:  # jgo has no type information we may rely on
    data = Path(dependency.artifact.resolve()).read_bytes()
    coordinate = f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}"
    if dependency.classifier:
        coordinate += f":{dependency.classifier}:jar"
    return Jar(coordinate, hashlib.sha256(data).hexdigest(), len(data), frozenset({"plugin"}))


def _from_files(path: Path, plugin_path: Path) -> Installed:
    if not path.exists():
        raise NotFoundError(f"{path} does not exist.")
    target = plugin_path / (path.stem if path.is_file() else path.name)
    if target.exists():
        raise AlreadyExistsError(f"{target} exists.", hint="Delete it first.")
    plugin_path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=plugin_path, prefix=".install-") as staging:
        staged = Path(staging) / "plugin"
        if path.is_dir():
            shutil.copytree(path, staged)
        elif path.suffix == ".jar":
            staged.mkdir()
            shutil.copy(path, staged)
        else:
            _unpack(path, staged)
        jars = sorted(found.name for found in staged.rglob("*.jar"))
        if not jars:
            raise BadRequestError(f"There is no jar in {path}.")
        os.replace(_inner(staged), target)
    return Installed(target, tuple(jars))


def _unpack(path: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not (target / name).resolve().is_relative_to(target.resolve()):
                    raise EnvironmentProblemError(f"{path} has a file that would lie outside of its folder: {name}")
            archive.extractall(target)
    except zipfile.BadZipFile as err:
        raise BadRequestError(f"{path} is not a zip file: {err}") from err


def _inner(folder: Path) -> Path:
    """The folder in a zip that holds all of it, as in Confluent's and Debezium's; else the zip's own."""
    children = list(folder.iterdir())
    return children[0] if len(children) == 1 and children[0].is_dir() else folder
