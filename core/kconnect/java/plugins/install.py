"""Puts a Java plugin into a folder of plugin.path: from Maven with all it needs, from an archive, a jar or a folder.

A plugin from Maven leaves plugin.lock beside its jars, with size and SHA-256 of each: the next install of the same
version fetches exactly these, on this machine or on another one. What `into` adds to a plugin is in its lock, too.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    EnvironmentProblemError,
    NotFoundError,
    did_you_mean,
)
from kconnect.java.compat.maven_version_range import VersionRange
from kconnect.java.installed import find_java
from kconnect.java.kafka_jars import JarSet
from kconnect.java.maven import ArtifactSet, Jar, read_lock, sha256_of
from kconnect.java.plugins.class_files import java_needed

if TYPE_CHECKING:
    from kconnect.java.resolution import Coordinate, Found, Resolver

LOCK: Final = "plugin.lock"
# Groups of which Connect's own class path has artifacts; a plugin's copy would never be used.
_PARENTS: Final = ("org.apache.kafka", "org.slf4j")
# Its modules are found as services, Connect's among them, and have to fit its core: a plugin with a core of its own
# fails as soon as it looks for modules. So vendors leave it out of their zips, unless they need a newer one.
_JACKSON: Final = "com.fasterxml.jackson"
# The set of an archive in a lock; jars are in "plugin"
_ARCHIVE: Final = "archive"
_TARS: Final = (".tar.gz", ".tgz")
_ARCHIVES: Final = (*_TARS, ".zip")
_EXAMPLE: Final = "io.debezium:debezium-connector-postgres:3.6.1.Final"


@dataclass(frozen=True, slots=True)
class Installed:
    """Where a plugin is now, its jars (of `into`: those that were added), and what there is to say."""

    folder: Path
    jars: tuple[str, ...]
    notes: tuple[str, ...] = ()


def install(source: str, plugin_path: Path, *, name: str | None = None, into: str | None = None) -> Installed:
    """Install `group:artifact:version`, an archive, a jar or a folder into a sub-folder of plugin_path.

    `name`: of the sub-folder, so that several versions live side by side. `into`: the plugin that a driver or other
    jars are added to, with its lock. A version may be LATEST, RELEASE or a range, and `:classifier:packaging` may
    follow it: the lock has what was found.

    Errors: BadRequestError for a source that is none of these, or damaged, ConfigError for a range that is none,
    NotFoundError, AlreadyExistsError when the folder has something else, UnreachableError, EnvironmentProblemError for
    jars with another checksum than the lock has, and for archives with links or files that would lie elsewhere.
    """
    for given in (name, into):
        if given is not None and not re.fullmatch(r"\w[\w.+-]*", given):  # none is looked for in hidden folders
            raise BadRequestError(f"{given!r} cannot be the name of a plugin's folder.", hint="Such as debezium-3.6.")
    if re.match(r"\w+://", source):
        raise BadRequestError(f"{source} is a URL.", hint="Download it, and install the file that came.")
    if plugin_path.exists() and not plugin_path.is_dir():
        raise BadRequestError(f"{plugin_path} is a file.", hint="Name the folder that has the folders of plugins.")
    path = Path(source).expanduser()
    if (source and path.is_dir()) or path.name.endswith((*_ARCHIVES, ".jar")):
        return _from_files(path, plugin_path, name) if into is None else _jar_into(path, _plugin(plugin_path, into))
    from kconnect.java.resolution import Coordinate  # jgo takes 0.2 s, which files do not need

    wanted = Coordinate.parse(source)
    if wanted is None:
        raise BadRequestError(
            f"{source} is neither group:artifact:version nor an archive (.zip, .tar.gz), a jar or a folder.",
            hint=f"Such as {_EXAMPLE}.",
        )
    if wanted.version[:1] in ("[", "("):
        VersionRange.parse(wanted.version)
    target = plugin_path / (name or wanted.artifact) if into is None else _plugin(plugin_path, into)
    if into is None and wanted.packaging == "jar" and wanted == _locked(target):
        return _as_locked(target)
    return _MavenInstall(target, wanted, is_added=into is not None).run()


@dataclass(slots=True)
class _MavenInstall:
    """One install from Maven into `target`, a new plugin or one that the artifact is added to."""

    target: Path
    wanted: Coordinate
    is_added: bool
    notes: list[str] = field(default_factory=list)

    def run(self) -> Installed:
        from kconnect.java.resolution import Resolver

        with Resolver(f"The jars of {self.wanted}") as resolver:
            root = resolver.exact(self.wanted)
            if root.project != self.wanted.project:
                self.notes.append(f"{self.wanted} is called {root} now")
            elif root.version != self.wanted.version:
                self.notes.append(f"{self.wanted.version} of {root.project} is {root.version}")
            is_again = not self.is_added and _locked(self.target) == root
            if not (self.is_added or is_again) and self.target.is_dir() and any(self.target.iterdir()):
                raise AlreadyExistsError(
                    f"{self.target} has {_locked(self.target) or 'another plugin'}, not {root}.",
                    hint="Delete the folder first, or choose a name with --as.",
                )
            if is_again and root.packaging == "jar":  # of an earlier LATEST
                done = _as_locked(self.target)
                return Installed(done.folder, done.jars, (*self.notes, *done.notes))
            self.target.parent.mkdir(parents=True, exist_ok=True)
            parent = self.target.parent
            # The folder goes once nothing is fetched into it any more
            with tempfile.TemporaryDirectory(dir=parent, prefix=".install-") as staging, resolver:
                staged = Path(staging) / "plugin"
                staged.mkdir()
                if root.packaging == "jar":
                    return self._jars(resolver, root, staged)
                return self._archive(resolver, root, Path(staging), staged)

    def _jars(self, resolver: Resolver, root: Coordinate, staged: Path) -> Installed:
        """The plugin and what it needs; each jar is fetched as soon as it is known to be needed."""
        before = _lines_of(self.target) if self.is_added else []
        has = {_project(jar): jar for jar in before}
        own = dict(jar.coordinate.split(":")[1:3] for jar in JarSet("connect").jars)
        # A folder with connect-mirror needs its client beside it: they share what a package keeps to itself
        own.pop("connect-mirror-client", None)
        work: list[Future[Jar]] = []

        def take(found: Found) -> None:
            it = found.coordinate
            if it == root or ((it.project, it.classifier) not in has and is_shipped(found, own)):
                work.append(resolver.fetch(found, staged))

        self.notes += resolver.resolve(root, take).notes
        jars = [one.result() for one in work]
        _refuse_damaged(staged / jar.file_name for jar in jars)
        self.notes += _too_new(staged.glob("*.jar"))
        old = has.get((root.project, root.classifier))
        if self.is_added:
            for jar in jars:
                os.replace(staged / jar.file_name, self.target / jar.file_name)
            if old is not None and old.file_name != jars[0].file_name:  # another version was asked for by its name
                (self.target / old.file_name).unlink(missing_ok=True)
                self.notes.append(f"{jars[0].file_name} takes the place of {old.file_name}")
            kept = [jar for jar in before if jar not in (old, *jars)]
            _write_lock(self.target / LOCK, [*(_titles(self.target) or [self.target.name]), str(root)], [*kept, *jars])
        else:
            _write_lock(staged / LOCK, [str(root)], jars)
            _put(staged, self.target)
        return Installed(self.target, tuple(jar.file_name for jar in jars), tuple(self.notes))

    def _archive(self, resolver: Resolver, root: Coordinate, staging: Path, staged: Path) -> Installed:
        """A plugin as its vendor packs it. Fetched again, its jars are compared with those that are there."""
        from kconnect.java.resolution import Found

        if self.is_added:
            raise BadRequestError(f"{root} cannot be added to a plugin: only jars can.")
        if not f".{root.packaging}".endswith(_ARCHIVES):
            raise BadRequestError(f"{root} is neither a jar nor an archive (zip, tar.gz).")
        archive = resolver.fetch(Found(root, "compile", (str(root),)), staging).result()
        archive = replace(archive, sets=frozenset({_ARCHIVE}))
        locked = _lines_of(self.target)
        for jar in locked:
            if jar.coordinate == str(root) and jar.sha256 != archive.sha256:
                raise EnvironmentProblemError(
                    f"{archive.file_name} came with another checksum than {self.target / LOCK} has: "
                    f"SHA-256 {archive.sha256} instead of {jar.sha256}.",
                    hint="Delete the folder to install it as it is now.",
                )
        _unpack(staging / archive.file_name, staged, str(root))
        found = _inner(staged)
        jars = sorted(path.relative_to(found) for path in found.rglob("*.jar"))
        if not jars:
            raise BadRequestError(f"{root} contains no jar.")
        _refuse_damaged(found / jar for jar in jars)
        self.notes += _too_new(found / jar for jar in jars)
        if locked:
            self.notes += _repaired(found, self.target, jars)
        else:
            _write_lock(found / LOCK, [str(root)], [archive])
            _put(found, self.target)
        return Installed(self.target, tuple(jar.name for jar in jars), tuple(self.notes))


def _repaired(found: Path, target: Path, jars: Iterable[Path]) -> Iterator[str]:
    """Puts jars of an archive where they are missing or altered; a sentence for each that was altered."""
    for jar in jars:
        new = sha256_of(found / jar)
        old = sha256_of(target / jar) if (target / jar).is_file() else ""
        if old != new:
            (target / jar).parent.mkdir(parents=True, exist_ok=True)
            os.replace(found / jar, target / jar)
        if old not in ("", new):
            yield _altered(jar.name, old, new)


def _altered(name: str, before: str, now: str) -> str:
    return f"{name} was altered and was fetched again: SHA-256 {before} instead of {now}"


def is_shipped(found: Found, own: dict[str, str]) -> bool:
    """Whether a jar belongs into a plugin's folder: not one that Connect has; `own` has versions by artifact."""
    it = found.coordinate
    is_connects = it.artifact in own and (
        it.group in _PARENTS or (it.group.startswith(_JACKSON) and _numbers(it.version) <= _numbers(own[it.artifact]))
    )
    return it.packaging == "jar" and not is_connects


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _as_locked(target: Path) -> Installed:
    """The jars of a lock, fetched as far as they are missing; those that were altered are reported."""
    jars = _jars_of(target)
    artifacts = ArtifactSet(f"The jars of {_locked(target)}", target, jars)
    had = {jar: sha256_of(path) for jar in artifacts.missing() if (path := target / jar.file_name).is_file()}
    found = artifacts.fetch()
    notes = [_altered(jar.file_name, before, jar.sha256) for jar, before in had.items()]
    return Installed(target, tuple(path.name for path in found), tuple(notes))


def _locked(target: Path) -> Coordinate | None:
    """What a folder's lock is of; None without one."""
    from kconnect.java.resolution import Coordinate

    titles = _titles(target)
    return Coordinate.parse(titles[0]) if titles else None


def _titles(target: Path) -> list[str]:
    """What was installed into a folder, first the plugin."""
    lines = _lock_text(target).splitlines()
    return [line.removeprefix("# ").partition(": ")[0].removeprefix("and ") for line in lines if line[:2] == "# "]


def _lines_of(target: Path) -> list[Jar]:
    """All that a folder's lock has. Errors: EnvironmentProblemError for one that is damaged."""
    try:
        return read_lock(_lock_text(target))
    except ValueError as err:
        raise _damaged_lock(target, err) from err


def _lock_text(target: Path) -> str:
    lock = target / LOCK
    try:
        return lock.read_text("utf-8") if lock.is_file() else ""
    except ValueError as err:
        raise _damaged_lock(target, err) from err


def _damaged_lock(target: Path, err: ValueError) -> EnvironmentProblemError:
    return EnvironmentProblemError(
        f"{target / LOCK} is damaged: {err}", hint=f"Delete the folder {target}, and install the plugin again."
    )


def _jars_of(target: Path) -> list[Jar]:
    """The jars of a lock that lie in its folder: not the archive in which the others came."""
    return [jar for jar in _lines_of(target) if _ARCHIVE not in jar.sets]


def _project(jar: Jar) -> tuple[str, str]:
    """What is the same of another version."""
    group, artifact, _, *more = jar.coordinate.split(":")
    return f"{group}:{artifact}", more[0] if more else ""


def _write_lock(lock: Path, titles: Sequence[str], jars: Iterable[Jar]) -> None:
    first, *more = dict.fromkeys(titles)
    text = f"# {first}: SHA-256, bytes and Maven coordinate of each jar\n"
    text += "".join(f"# and {title}\n" for title in more)
    text += "".join(f"{','.join(jar.sets)} {jar.sha256} {jar.size_bytes} {jar.coordinate}\n" for jar in jars)
    draft = lock.with_name(f".{lock.name}.new")
    draft.write_text(text, "utf-8")
    os.replace(draft, lock)


def _too_new(jars: Iterable[Path]) -> Iterator[str]:
    """A sentence for each jar whose classes the Java here cannot load."""
    needed = [(jar.name, major) for jar in sorted(jars) if (major := java_needed(jar)) is not None]
    try:
        java = find_java("Java's plugins")
    except EnvironmentProblemError:
        return  # the first worker that is to run them says so
    for name, major in needed:
        if major > java.major:
            yield f"{name} needs Java {major}, and {java.executable} is Java {java.version}: set kconnect.java.home"


def _plugin(plugin_path: Path, name: str) -> Path:
    """The folder of an installed plugin. Errors: NotFoundError."""
    target = plugin_path / name
    if not target.is_dir():
        there = sorted(path.name for path in plugin_path.iterdir() if path.is_dir()) if plugin_path.is_dir() else []
        hint = did_you_mean(name, there) or f"Those in {plugin_path}: {', '.join(there) or 'none'}."
        raise NotFoundError(f"Plugin {name} does not exist in {plugin_path}.", hint=hint)
    return target


def _jar_into(path: Path, target: Path) -> Installed:
    """Errors: BadRequestError for what is no jar."""
    if path.suffix != ".jar" or path.is_dir():
        raise BadRequestError(
            f"{path} cannot be added to a plugin.", hint="--into takes group:artifact:version or a jar."
        )
    if not path.is_file():
        raise NotFoundError(f"{path} does not exist.")
    if (target / path.name).exists():
        raise AlreadyExistsError(f"{target / path.name} exists.", hint="Delete it first.")
    _refuse_damaged([path])
    shutil.copy(path, target)
    note = f"{LOCK} does not have {path.name}, as it is from a file"
    return Installed(target, (path.name,), (note, *_too_new([target / path.name])))


def _from_files(path: Path, plugin_path: Path, name: str | None) -> Installed:
    if not path.exists():
        raise NotFoundError(f"{path} does not exist.")
    ends = () if path.is_dir() else (*_ARCHIVES, ".jar")
    own = path.absolute().name.removesuffix(next((end for end in ends if path.name.endswith(end)), ""))
    target = plugin_path / (name or own)
    if path.is_dir() and plugin_path.resolve().is_relative_to(path.resolve()):
        raise BadRequestError(f"{path} has the folder {plugin_path} in it, and cannot be copied there.")
    if target.exists():
        raise AlreadyExistsError(f"{target} exists.", hint="Delete it first, or choose a name with --as.")
    plugin_path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=plugin_path, prefix=".install-") as staging:
        staged = Path(staging) / "plugin"
        if path.is_dir():
            _copy(path, staged)
        elif path.suffix == ".jar":
            staged.mkdir()
            shutil.copy(path, staged)
        else:
            _unpack(path, staged, str(path))
        jars = sorted(staged.rglob("*.jar"))
        if not jars:
            raise BadRequestError(f"{path} contains no jar.")
        _refuse_damaged(jars)
        notes = tuple(_too_new(jars))
        _put(_inner(staged), target)
    return Installed(target, tuple(sorted(jar.name for jar in jars)), notes)


def _copy(folder: Path, target: Path) -> None:
    """Errors: EnvironmentProblemError, which names the first file that cannot be copied."""
    try:
        shutil.copytree(folder, target)
    except shutil.Error as err:
        where, _, why = err.args[0][0]
        raise EnvironmentProblemError(f"{where} cannot be copied: {why}") from err


def _unpack(path: Path, target: Path, shown: str) -> None:
    """Errors: BadRequestError for what is no archive, EnvironmentProblemError for one that reaches elsewhere."""
    kind = "tar.gz" if path.name.endswith(_TARS) else "zip"
    target.mkdir(exist_ok=True)
    try:
        if kind == "zip":
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    _check(shown, entry.filename, is_link=stat.S_ISLNK(entry.external_attr >> 16))
                archive.extractall(target)
        else:
            with tarfile.open(path, "r:gz") as tar:
                members = tar.getmembers()
                for member in members:
                    _check(shown, member.name, is_link=not (member.isfile() or member.isdir()))
                tar.extractall(target, members, filter="data")
    # RuntimeError: of a zip that is encrypted, or packed in a way that zipfile does not know
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, RuntimeError) as err:
        raise BadRequestError(f"{shown} cannot be read as a {kind} file: {err}") from err
    except OSError as err:  # the disk is full, or a name in it too long for this file system
        what = f" {Path(err.filename).name}" if err.filename else ""
        raise EnvironmentProblemError(
            f"{shown} cannot be unpacked into {target.parent.parent}:{what} {err.strerror}"
        ) from err


def _refuse_damaged(jars: Iterable[Path]) -> None:
    """Errors: BadRequestError for a jar that nothing can be read from, as one that was not fetched whole."""
    for jar in jars:
        if not zipfile.is_zipfile(jar):
            raise BadRequestError(f"{jar.name} is not a jar, or is damaged.", hint="Fetch it again.")


def _put(made: Path, target: Path) -> None:
    """Give a folder its name, which is not there, or empty. Errors: AlreadyExistsError."""
    try:
        os.replace(made, target)
    except OSError as err:
        if err.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise AlreadyExistsError(
            f"{target} was installed by somebody else meanwhile.", hint="Install it again to compare it with its lock."
        ) from err


def _check(shown: str, name: str, *, is_link: bool) -> None:
    """An entry of an archive. Errors: EnvironmentProblemError."""
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or parts[0].endswith(":"):
        raise EnvironmentProblemError(f"{shown} has a file that would lie outside of its folder: {name}")
    if is_link:
        raise EnvironmentProblemError(f"{shown} has a link or a device, which no plugin needs: {name}")


def _inner(folder: Path) -> Path:
    """The folder in an archive that holds all of it, as in Confluent's and Debezium's; else the archive's own."""
    children = list(folder.iterdir())
    return children[0] if len(children) == 1 and children[0].is_dir() else folder
