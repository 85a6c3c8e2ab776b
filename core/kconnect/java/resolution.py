"""What an artifact of Maven needs at run time: its POMs read side by side, its jars fetched meanwhile.

jgo's model makes one POM and its parents into dependencies; which of these are taken, and in what version, is decided
here: nearest first, as Maven does. jgo's own walk asks for one POM after another with a connection each, and reads a
bill of materials again for each POM that imports it: the 233 POMs of Google's Pub/Sub connector took it 64 s, 22 of
them of CPU, and take 1.5 to 4 s this way, 0.6 of CPU.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from jgo.maven import Component, Dependency, MavenContext, Model, Project, PythonResolver
from jgo.maven._pom import POM
from jgo.maven._version import compare_versions, version_in_range

from kconnect.errors import EnvironmentProblemError, NotFoundError
from kconnect.java.maven import Jar
from kconnect.java.repositories import Repositories

# Beside a near mirror 4 to 8 are alike, and 16 only cost CPU; a repository that is far gains from more
_PARALLEL: Final = 8
_NEWEST: Final = ("LATEST", "RELEASE")
_AT_RUN_TIME: Final = ("compile", "runtime")
_PARTS: Final = re.compile(r"[.-]")
_PROPERTY: Final = re.compile(r"\$\{([^}]*)\}")
_Managed: TypeAlias = dict[tuple[str, str, str, str], Dependency]
"""Versions, scopes and exclusions by group, artifact, classifier and type."""

_COORDINATE: Final = re.compile(r"[\w.-]+:[\w.-]+:[\w.,()\[\]-]+(:[\w.-]+){0,2}")


@dataclass(frozen=True, slots=True)
class Coordinate:
    """An artifact by its names; as text group:artifact:version, with :classifier:packaging where it has them."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    packaging: str = "jar"

    @classmethod
    def parse(cls, text: str) -> Coordinate | None:
        """Returns None for a text that is no coordinate."""
        if not _COORDINATE.fullmatch(text):
            return None
        return cls(*text.split(":"))

    def __str__(self) -> str:
        more = f":{self.classifier}:{self.packaging}" if self.classifier or self.packaging != "jar" else ""
        return f"{self.project}:{self.version}{more}"

    @property
    def project(self) -> str:
        """group:artifact."""
        return f"{self.group}:{self.artifact}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What is the same of another version, as Maven has it."""
        return self.group, self.artifact, self.classifier, self.packaging

    def path(self, packaging: str = "") -> str:
        """Where it is in a repository; `packaging` for another file of it, such as its pom."""
        marked = f"-{self.classifier}" if self.classifier and not packaging else ""
        name = f"{self.artifact}-{self.version}{marked}.{packaging or self.packaging}"
        return f"{_folder(self.group, self.artifact)}/{self.version}/{name}"


@dataclass(frozen=True, slots=True)
class Found:
    """An artifact that is needed, and by whom: `path` begins with the one that was asked for."""

    coordinate: Coordinate
    scope: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What an artifact needs, itself first; `notes` has a sentence for each POM that could not be read."""

    root: Coordinate
    found: tuple[Found, ...]
    notes: tuple[str, ...]


class Resolver:
    """Resolves artifacts against the user's Maven repositories. Use it with `with`.

    Threads: one at a time; POMs and jars are fetched by a pool of its own.
    """

    def __init__(self, title: str) -> None:
        self._repositories = Repositories(title)
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="maven")
        self._poms = _Poms(self._repositories, self._pool)
        self._context = _Context(self._poms)

    def __enter__(self) -> Resolver:
        return self

    def __exit__(self, *_: object) -> None:
        self._repositories.stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._repositories.close()

    def exact(self, wanted: Coordinate) -> Coordinate:
        """The same with the version that LATEST, RELEASE or a range stands for, by the name that it has now.

        Errors: NotFoundError, UnreachableError.
        """
        version = self._poms.exact(wanted.group, wanted.artifact, wanted.version)
        return self._poms.relocated(replace(wanted, version=version))

    def resolve(self, root: Coordinate, taken: Callable[[Found], object] | None = None) -> Resolved:
        """The root and what it needs at run time; each is given to `taken` as soon as it is known.

        The versions that the root's POM manages are those of all it needs, as where its vendor builds it.
        Errors: NotFoundError, which names a version that is close; UnreachableError; EnvironmentProblemError for a POM
        of the root that is none.
        """
        model = self._root_model(root)
        managed, notes = model.dep_mgmt, list[str]()
        first = Found(root, "compile", (str(root),))
        found = [first]
        level: list[tuple[Model, Found, tuple[Any, ...]]] = [(model, first, ())]
        seen = {root.key}
        if taken is not None:
            taken(first)
        while level:
            needed = []
            for one, of, excluded in level:
                for key, dependency in one.deps.items():
                    if key in seen or not _is_needed(dependency, excluded):
                        continue
                    seen.add(key)
                    scope = "runtime" if of.scope == "runtime" else str(dependency.scope)
                    it = Coordinate(*key[:2], dependency.version, key[2], key[3])
                    needed.append((Found(it, scope, (*of.path, str(it))), (*excluded, *dependency.exclusions)))
                    self._poms.expect(it)
            level = []
            for named, excluded in needed:
                at = self._by_its_name(named, managed)
                if at is not named and at.coordinate.key in seen:
                    continue
                seen.add(at.coordinate.key)
                found.append(at)
                if taken is not None:
                    taken(at)
                try:
                    # As Maven, go on without a POM that cannot be read: the jar may do
                    level.append((self._context.model(at.coordinate, managed), at, excluded))
                except (
                    NotFoundError,
                    ValueError,
                    KeyError,
                    AssertionError,
                    RuntimeError,
                    ElementTree.ParseError,
                ) as err:
                    notes.append(f"What {at.coordinate} needs is not known and not installed: {str(err).rstrip('.')}")
        return Resolved(root, tuple(found), tuple(notes))

    def _by_its_name(self, named: Found, managed: _Managed) -> Found:
        """The same by the name that it has now, in the version that the root manages of that."""
        it = self._poms.relocated(named.coordinate)
        if it == named.coordinate:
            return named
        if it.project != named.coordinate.project and it.key in managed:
            it = replace(it, version=managed[it.key].version)
        return replace(named, coordinate=it, path=(*named.path, str(it)))

    def fetch(self, wanted: Found, folder: Path) -> Future[Jar]:
        """Fetches an artifact into a folder, beside others, and gives its entry for a lock.

        Errors: NotFoundError with who needs it, UnreachableError, EnvironmentProblemError for one that is not what the
        repository's own SHA-1 says.
        """
        return self._pool.submit(self._fetched, wanted, folder)

    def _fetched(self, wanted: Found, folder: Path) -> Jar:
        it = wanted.coordinate
        target = folder / it.path().rpartition("/")[2]
        try:
            self._repositories.save(it.path(), target)
        except NotFoundError as err:
            if len(wanted.path) == 1 and it.packaging == "jar" and self._poms.packaging(it) == "pom":
                raise NotFoundError(
                    f"{it} has no jar: it is a parent, or a list of versions, of others.",
                    hint="Name the artifact that has the plugin.",
                ) from err
            raise NotFoundError(
                f"{it} does not exist in {self._repositories.shown}{_for(wanted.path)}.",
                hint="Add a repository that has it to jgo's settings." if len(wanted.path) > 1 else None,
            ) from err
        data = target.read_bytes()
        self._check(it, target.name, data)
        return Jar(str(it), hashlib.sha256(data).hexdigest(), len(data), frozenset({"plugin"}))

    def _check(self, it: Coordinate, name: str, data: bytes) -> None:
        try:
            reported = self._repositories.read(f"{it.path()}.sha1").split()
        except NotFoundError:
            return  # a repository that has none
        own = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        if reported and reported[0].decode("ascii", "replace").lower() != own:
            raise EnvironmentProblemError(
                f"{name} came with another checksum than its repository says: SHA-1 {own} instead of "
                f"{reported[0].decode('ascii', 'replace')[:64]}.",
                hint="Something between this machine and the Maven repository alters downloads: is it a proxy?",
            )

    def _root_model(self, root: Coordinate) -> Model:
        try:
            return self._context.model(root, None)
        except NotFoundError as err:
            raise self._not_found(root, err) from err
        except (ValueError, KeyError, AssertionError, RuntimeError, ElementTree.ParseError) as err:
            raise EnvironmentProblemError(f"The POM of {root} cannot be used: {err}") from err

    def _not_found(self, root: Coordinate, err: NotFoundError) -> NotFoundError:
        """With the versions that there are where it is the root itself; a parent with whose it is."""
        if not isinstance(err, _NoPomError):
            return err
        if err.coordinate != f"{root.project}:{root.version}":
            is_direct = str(err).endswith(
                f"{root.project}:{root.version}"
            ) or f"{root.project}:{root.version} imports" in str(err)
            return NotFoundError(f"{err}{'' if is_direct else f', for {root}'}.")
        try:
            known = self._poms.versions(root.group, root.artifact)
        except NotFoundError as missing:
            return missing
        except EnvironmentProblemError:
            return NotFoundError(f"{err}.")  # it has no list of them that can be read
        near = _near(root.version, known)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        hint += "" if near and near[0] == known[-1] else f"The newest is {known[-1]}."
        return NotFoundError(f"{root.project} has no version {root.version}.", hint=hint.strip())


class _NoPomError(NotFoundError):
    """A POM that no repository has."""

    def __init__(self, message: str, coordinate: str) -> None:
        super().__init__(message)
        self.coordinate = coordinate


@dataclass(slots=True)
class _Poms:
    """POMs and lists of versions, each fetched once. Threads: any; what POMs surely need is fetched ahead."""

    repositories: Repositories
    pool: ThreadPoolExecutor
    _found: dict[tuple[str, str, str], Future[POM]] = field(default_factory=dict)
    _versions: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # guards _found

    def get(self, group: str, artifact: str, version: str, of: str = "") -> POM:
        """Errors: NotFoundError with `of`, whose parent or bill of materials it is; UnreachableError."""
        version = self.exact(group, artifact, version)
        try:
            return self._ask(group, artifact, version, ()).result()
        except NotFoundError as err:
            name = f"{group}:{artifact}:{version}"
            raise _NoPomError(f"{name} does not exist in {self.repositories.shown}{of}", name) from err
        except ElementTree.ParseError as err:
            raise ValueError(f"the POM {group}:{artifact}:{version} is not XML: {err}") from err

    def relocated(self, it: Coordinate) -> Coordinate:
        """By the name that its POM says it has now, as Maven takes it; itself where the POM cannot be read.

        Errors: UnreachableError.
        """
        for _ in range(_MOST_MOVES):
            try:
                pom = self.get(it.group, it.artifact, it.version)
            except (NotFoundError, ValueError):
                return it  # whoever needs it reports it
            if pom.element(_RELOCATION) is None:
                return it
            own = {"project.groupId": it.group, "project.artifactId": it.artifact, "project.version": it.version}
            now = [_filled(pom.value(f"{_RELOCATION}/{key}") or "", {**pom.properties, **own}) for key in _KEYS]
            it = replace(it, group=now[0] or it.group, artifact=now[1] or it.artifact, version=now[2] or it.version)
        return it

    def packaging(self, it: Coordinate) -> str:
        """What its POM says that it is; empty if nothing, or where there is none."""
        try:
            return self.get(it.group, it.artifact, it.version).value("packaging") or ""
        except (NotFoundError, ValueError):
            return ""

    def expect(self, it: Coordinate) -> None:
        """Begin to fetch it, its parents and what they import."""
        if it.version[:1] not in "[(" and it.version not in _NEWEST and "${" not in str(it):
            self._ask(it.group, it.artifact, it.version, ())

    def exact(self, group: str, artifact: str, wanted: str) -> str:
        """Picks, as Maven does, the newest version of a range, or of all. Errors: NotFoundError."""
        if wanted not in _NEWEST and wanted[:1] not in ("[", "("):
            return wanted
        known = self.versions(group, artifact)
        if wanted == "RELEASE":
            fitting = [version for version in known if not version.endswith("-SNAPSHOT")]
        else:
            fitting = known if wanted == "LATEST" else [one for one in known if version_in_range(one, wanted)]
        if not fitting:
            raise NotFoundError(f"{group}:{artifact} has no version in {wanted}.", hint=f"The newest is {known[-1]}.")
        return fitting[-1]

    def versions(self, group: str, artifact: str) -> list[str]:
        """All that there are, oldest first. Errors: NotFoundError."""
        found = self._versions.get((group, artifact))
        if found is None:
            try:
                data = self.repositories.read(f"{_folder(group, artifact)}/maven-metadata.xml")
            except NotFoundError as err:
                raise NotFoundError(f"{group}:{artifact} does not exist in {self.repositories.shown}.") from err
            names = self._listed(data, f"{group}:{artifact}")
            if not names:
                raise NotFoundError(f"{group}:{artifact} has no versions in {self.repositories.shown}.")
            found = self._versions[group, artifact] = sorted(set(names), key=cmp_to_key(compare_versions))
        return found

    def _listed(self, data: bytes, project: str) -> list[str]:
        try:
            root = ElementTree.fromstring(data)
            if root.tag != "metadata":
                raise ValueError(f"it begins with <{root.tag}>")
        except (ElementTree.ParseError, ValueError) as err:
            raise EnvironmentProblemError(
                f"The list of versions of {project} in {self.repositories.shown} cannot be read: {err}",
                hint="Does a proxy or a page to log in answer in its place? An exact version needs no list.",
            ) from err
        return [one.text.strip() for one in root.iter("version") if one.text]

    def _ask(self, group: str, artifact: str, version: str, below: tuple[POM, ...]) -> Future[POM]:
        key = (group, artifact, version)
        with self._lock:
            found = self._found.get(key)
            if found is None:
                found = self._found[key] = self.pool.submit(self._read, Coordinate(*key), below)
                return found
        if below and found.done() and not found.exception():
            self._look(found.result(), below)
        return found

    def _read(self, it: Coordinate, below: tuple[POM, ...]) -> POM:
        pom = POM(io.BytesIO(self.repositories.read(it.path("pom"))))  # type: ignore[arg-type]  # ElementTree takes it
        begins = getattr(pom.tree.getroot(), "tag", "")
        if begins != "project":  # a page to log in, say, of which nothing would be needed
            raise ValueError(f"the POM {it.project}:{it.version} is not one: it begins with <{begins}>")
        self._look(pom, below)
        return pom

    def _look(self, pom: POM, below: tuple[POM, ...]) -> None:
        """Ask for the parent of a POM, and for what it and those `below` it import; that is only guessed ahead."""
        line = (*below, pom)
        properties: dict[str, str] = {}
        for one in line:
            for name in ("groupId", "version"):
                properties.setdefault(f"project.{name}", getattr(one, name) or "")
            properties = {**one.properties, **properties}
        for one in line:
            for element in one.elements("dependencyManagement/dependencies/dependency"):
                if (element.findtext("scope") or "").strip() == "import":
                    parts = [_filled(element.findtext(key) or "", properties) for key in _KEYS]
                    if all(parts) and "${" not in "".join(parts):
                        self._ask(parts[0], parts[1], parts[2], ())
        parent = [pom.value(f"parent/{key}") or "" for key in _KEYS]
        if all(parent):
            self._ask(parent[0], parent[1], parent[2], line)


_KEYS: Final = ("groupId", "artifactId", "version")
_RELOCATION: Final = "distributionManagement/relocation"
# One that has been renamed again and again; more go in a circle
_MOST_MOVES: Final = 10


class _Context(MavenContext):
    """jgo's context over our POMs; it fetches nothing itself."""

    def __init__(self, poms: _Poms) -> None:
        super().__init__(PythonResolver(), Path(os.devnull), [], {}, offline=True)
        self._poms = poms
        self._managed: dict[tuple[str, str, str], _Managed] = {}

    def model(self, it: Coordinate, managed: _Managed | None) -> Model:
        """A POM with its parents. Errors: NotFoundError, UnreachableError; of jgo ValueError and the like."""
        return _Model(self._poms.get(it.group, it.artifact, it.version), self, managed)

    def project(self, group: str, artifact: str) -> Project:
        found = Project(self, group, artifact)
        found.at_version = lambda version: _Exact(found, version, self)  # type: ignore[method-assign]  # jgo has no seam
        return found

    def pom_parent(self, pom: POM) -> POM | None:
        if pom.element("parent") is None:
            return None
        group, artifact, version = (pom.value(f"parent/{key}") or "" for key in _KEYS)
        of = f"{pom.groupId}:{pom.artifactId}:{pom.version}"
        return self._poms.get(group, artifact, version, f": it is the parent of {of}")

    def exact(self, group: str, artifact: str, wanted: str) -> str:
        return self._poms.exact(group, artifact, wanted)

    def managed_by(self, it: Any, of: str) -> _Managed:
        """The versions that a bill of materials has."""
        key = (it.groupId, it.artifactId, it.version)
        found = self._managed.get(key)
        if found is None:
            pom = self._poms.get(*key, f": {of} imports it")
            found = self._managed[key] = _Model(pom, self, None).dep_mgmt
        return found


class _Model(Model):
    """jgo's, with each bill of materials made once."""

    def __init__(self, pom: POM, context: _Context, managed: _Managed | None) -> None:
        self._ours = context
        super().__init__(pom, context, managed)

    def _import_boms(self, candidates: _Managed) -> None:
        for one in candidates.values():
            if one.scope == "import" and one.type == "pom":
                self._merge_deps(self._ours.managed_by(one, self.gav).values(), managed=True)


class _Exact(Component):
    """A version where a range such as `[4.7,4.7.99]` means the newest in it; jgo's own takes it literally."""

    _version: str

    def __init__(self, project: Project, version: str, context: _Context) -> None:
        self._ours = context
        super().__init__(project, version)

    @property
    def version(self) -> str:
        return self._version

    @version.setter
    def version(self, wanted: str) -> None:  # jgo sets it again when it has put in a property of the POM
        self._version = wanted
        if wanted and (wanted[:1] in ("[", "(") or wanted in _NEWEST):
            self._version = self._ours.exact(self.project.groupId, self.project.artifactId, wanted)


def _is_needed(dependency: Any, excluded: Iterable[Any]) -> bool:
    return dependency.scope in _AT_RUN_TIME and not dependency.optional and not Model._is_excluded(dependency, excluded)


def _filled(text: str, properties: Mapping[str, str]) -> str:
    for _ in range(5):  # a property may name another one
        if "${" not in text:
            break
        text = _PROPERTY.sub(lambda match: properties.get(match[1], match[0]), text)
    return text.strip()


def _folder(group: str, artifact: str) -> str:
    return f"{group.replace('.', '/')}/{artifact}"


def _near(wanted: str, known: Sequence[str]) -> list[str]:
    """Up to three of the versions that begin with most parts of the one that is wanted, the newest first."""
    parts = _PARTS.split(wanted)
    alike = [_common(parts, _PARTS.split(one)) for one in known]
    most = max(alike)
    return [one for one, count in zip(known, alike, strict=True) if count == most][:-4:-1] if most else []


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _for(path: Sequence[str]) -> str:
    """Who needs the last of a path, and for what that is."""
    if len(path) < 2:
        return ""
    return f": {path[-2]} needs it{f', for {path[0]}' if len(path) > 2 else ''}"
