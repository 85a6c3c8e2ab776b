"""Plugins from a Maven repository: what is fetched, what the lock has, what is said of what is not there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConnectError,
    EnvironmentProblemError,
    NotFoundError,
    UnreachableError,
)
from kconnect.java.plugins.install import LOCK, install
from kit.maven_repository import NO_CLASSES, Repository, tarred, use_repositories
from kit.ports import free_port

GROUP = "org.example"


def a_jar(note: str) -> bytes:
    """Without entries, but with a note."""
    return NO_CLASSES[:-2] + len(note).to_bytes(2, "little") + note.encode()


class Artifacts:
    """A repository that is filled by coordinates."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.versions: dict[str, list[str]] = {}

    def add(self, coordinate: str, *needs: str, parent: str = "", more: str = "", jar: bytes | None = b"") -> None:
        """`needs`: artifact:version, with :scope, or :scope:optional."""
        artifact, version = coordinate.split(":")
        needed = "".join(self._dependency(*need.split(":")) for need in needs)
        above = self._names("parent", *parent.split(":")) if parent else ""
        text = f"<project>{above}{self._inner(artifact, version)}{more}<dependencies>{needed}</dependencies></project>"
        self.put(artifact, version, "pom", text.encode())
        if jar is not None:
            self.put(artifact, version, "jar", jar or a_jar(coordinate))

    def put(self, artifact: str, version: str, ending: str, data: bytes) -> None:
        where = f"/org/example/{artifact}"
        self.repository.files[f"{where}/{version}/{artifact}-{version}{'.' if ending[0] != '-' else ''}{ending}"] = data
        known = self.versions.setdefault(artifact, [])
        if version not in known:
            known.append(version)
        listed = "".join(f"<version>{one}</version>" for one in known)
        self.repository.files[f"{where}/maven-metadata.xml"] = (
            f"<metadata><versions>{listed}</versions></metadata>".encode()
        )

    def _inner(self, artifact: str, version: str) -> str:
        return f"<groupId>{GROUP}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"

    def _names(self, tag: str, artifact: str, version: str, more: str = "") -> str:
        return f"<{tag}>{self._inner(artifact, version)}{more}</{tag}>"

    def _dependency(self, artifact: str, version: str, scope: str = "compile", optional: str = "") -> str:
        more = f"<scope>{scope}</scope>{'<optional>true</optional>' if optional else ''}"
        return self._names("dependency", artifact, version, more)


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Artifacts]:
    repository = Repository()
    use_repositories([repository.url], tmp_path, monkeypatch)
    yield Artifacts(repository)
    repository.close()


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".jar")


def locked(folder: Path) -> list[str]:
    lines = (folder / LOCK).read_text().splitlines()
    return [line.split()[-1] for line in lines if line[0] != "#"]


def test_the_nearest_version_of_what_is_needed_at_run_time_is_installed(maven: Artifacts, tmp_path: Path) -> None:
    managed = (
        "<properties><of.c>3</of.c></properties><dependencyManagement><dependencies><dependency>"
        f"<groupId>{GROUP}</groupId><artifactId>bom</artifactId><version>${{of.c}}</version><type>pom</type>"
        "<scope>import</scope></dependency></dependencies></dependencyManagement>"
    )
    bom = (
        f"<dependencyManagement><dependencies><dependency><groupId>{GROUP}</groupId><artifactId>c</artifactId>"
        "<version>3.3</version></dependency></dependencies></dependencyManagement>"
    )
    maven.add("bom:3", more=bom, jar=None)
    maven.add("above:1", more=managed, jar=None)
    maven.add("plugin:1", "a:1", "b:2", "t:1:test", "o:1:compile:optional", "v:1:provided", parent="above:1")
    maven.add("a:1", "d:1", "c:1")
    maven.add("b:2", "d:2", "r:[1,2):runtime", parent="above:1")
    for name in ("c:3.3", "d:1", "r:1.0", "r:1.9", "r:2.0"):
        maven.add(name)

    done = install(f"{GROUP}:plugin:1", tmp_path / "p")

    assert there(done.folder) == ["a-1.jar", "b-2.jar", "c-3.3.jar", "d-1.jar", "plugin-1.jar", "r-1.9.jar"]
    assert sorted(done.jars) == there(done.folder)
    assert locked(done.folder)[0] == f"{GROUP}:plugin:1"
    assert done.notes == ()
    asked = len(maven.repository.asked)
    assert install(f"{GROUP}:plugin:1", tmp_path / "p").jars == done.jars
    assert len(maven.repository.asked) == asked, "what is locked and there takes no network"


def test_a_pom_is_asked_for_once_and_with_few_connections(maven: Artifacts, tmp_path: Path) -> None:
    maven.add("above:1", jar=None)
    names = [f"n{number}:1" for number in range(30)]
    maven.add("plugin:1", *names)
    for number, name in enumerate(names):
        maven.add(name, *names[:number], parent="above:1")

    install(f"{GROUP}:plugin:1", tmp_path / "p")

    poms = [path for path in maven.repository.asked if path.endswith(".pom")]
    assert len(poms) == len(set(poms)) == 32
    assert len(maven.repository.connections) <= 8


def test_two_versions_live_side_by_side_under_names_of_their_own(maven: Artifacts, tmp_path: Path) -> None:
    for version in ("1.0", "1.0.1"):
        maven.add(f"plugin:{version}")
    first = install(f"{GROUP}:plugin:1.0.1", tmp_path / "p")
    with pytest.raises(
        AlreadyExistsError, match=r"has org\.example:plugin:1\.0\.1, not org\.example:plugin:1\.0\.$"
    ) as reported:
        install(f"{GROUP}:plugin:1.0", tmp_path / "p")
    assert reported.value.hint == "Delete the folder first, or choose a name with --as."
    second = install(f"{GROUP}:plugin:1.0", tmp_path / "p", name="plugin-old")
    assert [there(one.folder) for one in (first, second)] == [["plugin-1.0.1.jar"], ["plugin-1.0.jar"]]


@pytest.mark.parametrize(("wanted", "found"), [("LATEST", "2.0-SNAPSHOT"), ("RELEASE", "1.10"), ("[1,1.9]", "1.9")])
def test_the_version_that_was_found_is_said_and_locked(
    maven: Artifacts, tmp_path: Path, wanted: str, found: str
) -> None:
    for version in ("1.9", "1.10", "2.0-SNAPSHOT"):
        maven.add(f"plugin:{version}")
    done = install(f"{GROUP}:plugin:{wanted}", tmp_path / "p")
    assert done.notes == (f"{wanted} of {GROUP}:plugin is {found}",)
    assert locked(done.folder) == [f"{GROUP}:plugin:{found}"]
    assert install(f"{GROUP}:plugin:{wanted}", tmp_path / "p").jars == done.jars
    assert install(f"{GROUP}:plugin:{found}", tmp_path / "p").jars == done.jars


def test_a_driver_is_added_to_a_plugin_and_to_its_lock(maven: Artifacts, tmp_path: Path) -> None:
    maven.add("sink:1", "logs:1", "driver:1")
    maven.add("driver:2", "logs:2", "codec:1")
    for name in ("logs:1", "logs:2", "driver:1", "codec:1"):
        maven.add(name)
    maven.add("driver:2", "logs:2", "codec:1")
    plugin = install(f"{GROUP}:sink:1", tmp_path / "p", name="jdbc").folder

    added = install(f"{GROUP}:driver:LATEST", tmp_path / "p", into="jdbc")

    assert added.jars == ("driver-2.jar", "codec-1.jar")
    assert added.notes == (
        f"LATEST of {GROUP}:driver is 2",
        "driver-2.jar takes the place of driver-1.jar",
    )
    assert there(plugin) == ["codec-1.jar", "driver-2.jar", "logs-1.jar", "sink-1.jar"]
    assert [line.split(":")[1] for line in sorted(locked(plugin))] == ["codec", "driver", "logs", "sink"]
    for jar in plugin.glob("*.jar"):
        jar.unlink()
    install(f"{GROUP}:sink:1", tmp_path / "p", name="jdbc")
    assert there(plugin) == ["codec-1.jar", "driver-2.jar", "logs-1.jar", "sink-1.jar"]
    assert "# and org.example:driver:2" in (plugin / LOCK).read_text()


def test_a_jar_that_was_altered_is_reported_with_both_checksums(maven: Artifacts, tmp_path: Path) -> None:
    maven.add("plugin:1", "a:1")
    maven.add("a:1")
    folder = install(f"{GROUP}:plugin:1", tmp_path / "p").folder
    (folder / "a-1.jar").write_bytes(b"evil")
    (folder / "plugin-1.jar").unlink()
    was, now = (hashlib.sha256(data).hexdigest() for data in (b"evil", a_jar("a:1")))
    assert install(f"{GROUP}:plugin:1", tmp_path / "p").notes == (
        f"a-1.jar was altered and was fetched again: SHA-256 {was} instead of {now}",
    )
    assert (folder / "a-1.jar").read_bytes() == a_jar("a:1")


MISSING = {
    "a version": (
        "plugin:1.1",
        "org.example:plugin has no version 1.1.",
        "Did you mean 1.1.Final? The newest is 2.0.Final.",
    ),
    "an artifact": ("plugim:1.1", "org.example:plugim does not exist in REPOSITORY.", None),
    "the newest of an artifact": ("plugim:LATEST", "org.example:plugim does not exist in REPOSITORY.", None),
    "a range": ("plugin:[3,4)", "org.example:plugin has no version in [3,4).", "The newest is 2.0.Final."),
    "a parent": (
        "orphan:1",
        "org.example:gone:1 does not exist in REPOSITORY: it is the parent of org.example:orphan:1.",
        None,
    ),
    "a parent's parent": (
        "grandchild:1",
        "org.example:gone:1 does not exist in REPOSITORY: it is the parent of org.example:child:1, for "
        "org.example:grandchild:1.",
        None,
    ),
    "a bill of materials": (
        "billed:1",
        "org.example:gone:1 does not exist in REPOSITORY: org.example:billed:1 imports it.",
        None,
    ),
    "a jar that is needed": (
        "needy:1",
        "org.example:lost:1 does not exist in REPOSITORY: org.example:between:1 needs it, for org.example:needy:1.",
        "Add a repository that has it to jgo's settings.",
    ),
    "the jar of a parent": (
        "parent:1",
        "org.example:parent:1 has no jar: it is a parent, or a list of versions, of others.",
        "Name the artifact that has the plugin.",
    ),
    "the jar itself": ("jarless:1", "org.example:jarless:1 does not exist in REPOSITORY.", None),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_does_not_exist_is_named_with_who_needs_it(maven: Artifacts, tmp_path: Path, case: str) -> None:
    for version in ("1.1.Final", "1.10.Final", "2.0.Final"):
        maven.add(f"plugin:{version}")
    maven.add("orphan:1", parent="gone:1")
    maven.add("child:1", parent="gone:1")
    maven.add("grandchild:1", parent="child:1")
    bom = f"<groupId>{GROUP}</groupId><artifactId>gone</artifactId><version>1</version><type>pom</type>"
    managed = f"<dependencyManagement><dependencies><dependency>{bom}<scope>import</scope></dependency></dependencies>"
    maven.add("billed:1", more=f"{managed}</dependencyManagement>")
    maven.add("needy:1", "between:1")
    maven.add("between:1", "lost:1")
    maven.add("parent:1", more="<packaging>pom</packaging>", jar=None)
    for name in ("lost:1", "jarless:1"):
        maven.add(name, jar=None)
    wanted, said, hint = MISSING[case]

    with pytest.raises(NotFoundError) as reported:
        install(f"{GROUP}:{wanted}", tmp_path / "p")

    assert str(reported.value).replace(f"the Maven repository {maven.repository.url}", "REPOSITORY") == said
    assert reported.value.hint == hint
    assert not (tmp_path / "p").exists() or list((tmp_path / "p").iterdir()) == []


def test_what_does_not_exist_is_named_while_other_jars_still_come(maven: Artifacts, tmp_path: Path) -> None:
    needs = [f"part{number}:1.0" for number in range(40)]
    for one in needs:
        maven.add(one, jar=NO_CLASSES + bytes(200_000))
    maven.add("absent:1.0", jar=None)
    maven.add("plugin:1.0", "absent:1.0", *needs)
    for _ in range(5):  # what comes just then is another jar each time
        with pytest.raises(NotFoundError, match=r"org\.example:absent:1\.0 does not exist"):
            install("org.example:plugin:1.0", tmp_path / "p")
        assert [*(tmp_path / "p").iterdir()] == [], "nothing is left of it"


def test_a_dependency_whose_pom_cannot_be_read_is_reported_and_its_jar_installed(
    maven: Artifacts, tmp_path: Path
) -> None:
    maven.add("plugin:1", "a:1")
    maven.add("a:1", parent="gone:1")
    done = install(f"{GROUP}:plugin:1", tmp_path / "p")
    assert there(done.folder) == ["a-1.jar", "plugin-1.jar"]
    (note,) = done.notes
    assert note.startswith(
        "What org.example:a:1 needs is not known and not installed: org.example:gone:1 does not exist"
    )


def test_an_artifact_that_has_moved_comes_by_its_name_of_now(maven: Artifacts, tmp_path: Path) -> None:
    """As mysql:mysql-connector-java, whose last versions are only a POM that says where they are."""

    def moved(name: str, more: str) -> None:
        maven.add(
            name, more=f"<distributionManagement><relocation>{more}</relocation></distributionManagement>", jar=None
        )

    moved("before:1", "<artifactId>between</artifactId>")
    moved("between:1", "<artifactId>driver</artifactId><version>${project.version}.5</version>")
    maven.add("driver:1.5", "needed:1")
    maven.add("needed:1")
    maven.add("plugin:1", "needed:1", "before:1", "driver:1.5")
    assert there(install(f"{GROUP}:plugin:1", tmp_path / "p").folder) == [
        "driver-1.5.jar",
        "needed-1.jar",
        "plugin-1.jar",
    ]

    done = install(f"{GROUP}:before:1", tmp_path / "q")
    assert done.notes == ("org.example:before:1 is called org.example:driver:1.5 now",)
    assert locked(done.folder) == ["org.example:driver:1.5", "org.example:needed:1"]
    assert install(f"{GROUP}:before:1", tmp_path / "q").notes == done.notes, "it is there"
    moved("circle:1", "<artifactId>circle</artifactId>")
    with pytest.raises(NotFoundError, match=r"org\.example:circle:1 does not exist"):
        install(f"{GROUP}:circle:1", tmp_path / "q")


def test_a_managed_version_is_that_of_the_name_of_now(maven: Artifacts, tmp_path: Path) -> None:
    there_now = "<relocation><artifactId>driver</artifactId></relocation>"
    maven.add("before:1", more=f"<distributionManagement>{there_now}</distributionManagement>", jar=None)
    maven.add("driver:2")
    managed = f"<dependency><groupId>{GROUP}</groupId><artifactId>driver</artifactId><version>2</version></dependency>"
    managed = f"<dependencyManagement><dependencies>{managed}</dependencies></dependencyManagement>"
    maven.add("plugin:1", "before:1", more=managed)
    assert there(install(f"{GROUP}:plugin:1", tmp_path / "p").folder) == ["driver-2.jar", "plugin-1.jar"]


@pytest.mark.parametrize("page", [b"<!doctype html><p>Log in<br></p>", b"<html><body>Log in</body></html>", b""])
def test_a_page_in_place_of_a_file_is_one_sentence(maven: Artifacts, tmp_path: Path, page: bytes) -> None:
    """As of a proxy that wants a login, or of a server that answers 200 for whatever it lacks."""
    maven.add("plugin:1")
    files, where = maven.repository.files, "/org/example/plugin"
    said = {
        f"{where}/maven-metadata.xml": "The list of versions of org.example:plugin in the Maven repository",
        f"{where}/1/plugin-1.pom": "The POM of org.example:plugin:1 cannot be used: ",
        f"{where}/1/plugin-1.jar": "plugin-1.jar is not a jar, or is damaged",
    }
    for path, begins in said.items():
        before, files[path] = files[path], page
        version = "LATEST" if path.endswith("xml") else "1"
        with pytest.raises((EnvironmentProblemError, BadRequestError)) as reported:
            install(f"{GROUP}:plugin:{version}", tmp_path / "p")
        assert str(reported.value).startswith(begins)
        files[path] = before
    files[f"{where}/maven-metadata.xml"] = page
    with pytest.raises(NotFoundError, match=r"org\.example:plugin:2 does not exist in"):
        install(f"{GROUP}:plugin:2", tmp_path / "p")
    assert list((tmp_path / "p").iterdir()) == []


def test_a_repository_that_wants_a_user_says_so(
    maven: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven.repository.refusal = 401
    with pytest.raises(UnreachableError, match="it answers 401") as reported:
        install(f"{GROUP}:plugin:1", tmp_path / "p")
    assert reported.value.hint.startswith("It asks for a login: put one into ~/.netrc")
    other = Repository()
    use_repositories([maven.repository.url, other.url], tmp_path, monkeypatch)
    with pytest.raises(NotFoundError, match=f"{maven.repository.url} \\(which answers 401\\), {other.url}"):
        install(f"{GROUP}:plugin:1", tmp_path / "p")
    other.close()


def test_a_repository_that_is_ill_is_no_missing_artifact(
    maven: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven.repository.refusal = 500
    with pytest.raises(UnreachableError, match=r"plugin-1\.pom cannot be fetched from .*: it answers 500"):
        install(f"{GROUP}:plugin:1", tmp_path / "p")
    use_repositories([f"http://127.0.0.1:{free_port()}"], tmp_path, monkeypatch)
    with pytest.raises(UnreachableError, match=r"plugin-1\.pom cannot be fetched from .*: nobody answers"):
        install(f"{GROUP}:plugin:1", tmp_path / "p")


BAD: dict[str, tuple[str, bytes, type[ConnectError], str]] = {
    "no XML": ("pom", b"<project>", EnvironmentProblemError, "The POM of org.example:plugin:1 cannot be used: "),
    "another checksum": (
        "jar.sha1",
        b"0000  plugin-1.jar",
        EnvironmentProblemError,
        "plugin-1.jar came with another checksum than its repository says: SHA-1 ",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_damaged_is_one_sentence(maven: Artifacts, tmp_path: Path, case: str) -> None:
    ending, data, error, said = BAD[case]
    maven.add("plugin:1")
    maven.put("plugin", "1", ending, data)
    with pytest.raises(error) as reported:
        install(f"{GROUP}:plugin:1", tmp_path / "p")
    assert str(reported.value).startswith(said)
    assert list((tmp_path / "p").iterdir()) == []


def test_a_plugin_comes_as_its_vendor_packs_it(maven: Artifacts, tmp_path: Path) -> None:
    """Debezium's and Camel's artifacts of the classifiers `plugin` and `package`."""
    packed = tmp_path / "packed.tar.gz"
    tarred(packed, "plugin/plugin-1.jar", "plugin/lib/a.jar")
    maven.add("plugin:1")
    maven.put("plugin", "1", "-plugin.tar.gz", packed.read_bytes())
    wanted = f"{GROUP}:plugin:1:plugin:tar.gz"

    done = install(wanted, tmp_path / "p")

    assert (there(done.folder), sorted(done.jars)) == (["plugin-1.jar"], ["a.jar", "plugin-1.jar"])
    assert locked(done.folder) == [wanted]
    (done.folder / "lib" / "a.jar").write_text("evil")
    (done.folder / "plugin-1.jar").unlink()
    again = install(wanted, tmp_path / "p")
    assert again.notes[0].startswith("a.jar was altered and was fetched again: SHA-256 ")
    assert len(again.notes) == 1
    assert there(done.folder) == ["plugin-1.jar"]
    maven.add("driver:1")
    install(f"{GROUP}:driver:1", tmp_path / "p", into="plugin")
    assert locked(done.folder) == [wanted, f"{GROUP}:driver:1"]
    with pytest.raises(BadRequestError, match="cannot be added to a plugin: only jars can"):
        install(wanted, tmp_path / "p", into="plugin")
    tarred(packed, "plugin/other.jar")
    maven.put("plugin", "1", "-plugin.tar.gz", packed.read_bytes())
    with pytest.raises(EnvironmentProblemError, match=r"came with another checksum than .*plugin\.lock has: SHA-256 "):
        install(wanted, tmp_path / "p")
