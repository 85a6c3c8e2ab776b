"""Java plugins from archives, jars and folders."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConnectError,
    EnvironmentProblemError,
    NotFoundError,
)
from kconnect.java.plugins.install import install, is_shipped
from kconnect.java.resolution import Coordinate, Found
from kit.maven_repository import NO_CLASSES, tarred


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, NO_CLASSES if name.endswith(".jar") else b"")
    return path


def test_the_folder_in_a_zip_becomes_the_plugin(tmp_path: Path) -> None:
    found = install(str(archive(tmp_path / "thing-1.0.zip", "thing-1.0/lib/a.jar", "thing-1.0/README")), tmp_path / "p")
    assert (found.folder, found.jars) == (tmp_path / "p" / "thing-1.0", ("a.jar",))
    assert (tmp_path / "p" / "thing-1.0" / "lib" / "a.jar").is_file()
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["thing-1.0"]


def test_a_single_jar_and_a_folder_have_a_folder_of_their_own(tmp_path: Path) -> None:
    jar = archive(tmp_path / "thing.jar", "x.class")
    assert install(str(jar), tmp_path / "p").folder == tmp_path / "p" / "thing"
    (tmp_path / "other").mkdir()
    archive(tmp_path / "other" / "b.jar", "x.class")
    assert install(str(tmp_path / "other"), tmp_path / "p").jars == ("b.jar",)
    with pytest.raises(AlreadyExistsError, match="thing exists"):
        install(str(jar), tmp_path / "p")


@pytest.mark.parametrize(
    ("names", "error", "said"),
    [
        (("readme.txt",), BadRequestError, "contains no jar"),
        (("../outside.jar",), EnvironmentProblemError, "would lie outside of its folder: ../outside.jar"),
    ],
)
def test_a_zip_that_is_no_plugin_leaves_nothing(
    tmp_path: Path, names: tuple[str, ...], error: type[ConnectError], said: str
) -> None:
    with pytest.raises(error, match=said):
        install(str(archive(tmp_path / "x.zip", *names)), tmp_path / "p")
    assert list((tmp_path / "p").iterdir()) == []
    assert not (tmp_path / "outside.jar").exists()


@pytest.mark.parametrize("kind", ["jar", "folder", "into"])
def test_a_damaged_jar_is_refused_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    install(str(archive(tmp_path / "there.zip", "a.jar")), tmp_path / "p")
    (tmp_path / "given").mkdir()
    jar = archive(tmp_path / "given" / "cut.jar", "x.class")
    jar.write_bytes(jar.read_bytes()[:-9])
    with pytest.raises(BadRequestError, match=r"cut\.jar is not a jar, or is damaged"):
        install(str(jar.parent if kind == "folder" else jar), tmp_path / "p", into="there" if kind == "into" else None)
    assert [path.relative_to(tmp_path / "p").as_posix() for path in sorted((tmp_path / "p").rglob("*"))] == [
        "there",
        "there/a.jar",
    ]


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[42"):
        install("org.example:thing:[42", Path("nowhere"))


def test_of_two_installs_at_once_the_later_one_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, target = archive(tmp_path / "thing.zip", "a.jar"), tmp_path / "p" / "thing"

    def meanwhile(jars: object) -> list[str]:
        target.mkdir()
        (target / "other.jar").write_bytes(NO_CLASSES)
        return []

    monkeypatch.setattr("kconnect.java.plugins.install._too_new", meanwhile)
    with pytest.raises(AlreadyExistsError, match="thing was installed by somebody else meanwhile"):
        install(str(given), tmp_path / "p")
    assert [path.name for path in (tmp_path / "p").rglob("*")] == ["thing", "other.jar"]


def test_what_is_no_plugin_is_refused_with_what_would_be_one(tmp_path: Path) -> None:
    with pytest.raises(
        BadRequestError, match=r"debezium is neither group:artifact:version nor an archive .*, a jar or a folder\."
    ) as reported:
        install("debezium", tmp_path)
    assert reported.value.hint == "Such as io.debezium:debezium-connector-postgres:3.6.1.Final."
    with pytest.raises(NotFoundError, match=r"none\.zip does not exist"):
        install(str(tmp_path / "none.zip"), tmp_path)
    (tmp_path / "text.zip").write_text("text")
    with pytest.raises(BadRequestError, match=r"text\.zip cannot be read as a zip file"):
        install(str(tmp_path / "text.zip"), tmp_path)


def test_what_connect_has_itself_is_left_out_but_for_a_newer_jackson() -> None:
    own = {"connect-api": "4.3.0", "jackson-databind": "2.19.4"}
    cases = {
        "org.apache.kafka:connect-api:4.3.0": False,
        "com.fasterxml.jackson.core:jackson-databind:2.16.2": False,
        "com.fasterxml.jackson.core:jackson-databind:2.99.0": True,
        "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.16.2": True,
        "org.postgresql:postgresql:42.7.7": True,
        "org.example:rules:1.0::pom": False,
    }
    kept = {text: is_shipped(Found(Coordinate(*text.split(":")), "compile", (text,)), own) for text in cases}
    assert kept == cases


def link(name: str, kind: bytes = tarfile.SYMTYPE, target: str = "/etc/passwd") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


@pytest.mark.parametrize("ending", [".tar.gz", ".tgz"])
def test_the_folder_in_a_tarball_becomes_the_plugin_under_the_name_that_was_chosen(tmp_path: Path, ending: str) -> None:
    made = tarred(tmp_path / f"thing-1.0{ending}", "thing-1.0/a.jar", "thing-1.0/README")
    assert install(str(made), tmp_path / "p").folder == tmp_path / "p" / "thing-1.0"
    found = install(str(made), tmp_path / "p", name="other")
    assert (found.folder, found.jars) == (tmp_path / "p" / "other", ("a.jar",))
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["other", "thing-1.0"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("/etc/a.jar", "has a file that would lie outside of its folder: /etc/a.jar"),
        ("x/../../a.jar", "has a file that would lie outside of its folder: x/../../a.jar"),
        (link("a.jar"), "has a link or a device, which no plugin needs: a.jar"),
        (link("b.jar", tarfile.LNKTYPE, "../b.jar"), "has a link or a device, which no plugin needs: b.jar"),
        (link("c.jar", tarfile.FIFOTYPE), "has a link or a device, which no plugin needs: c.jar"),
    ],
    ids=["absolute", "above", "symbolic link", "hard link", "pipe"],
)
def test_a_tarball_that_reaches_out_of_its_folder_leaves_nothing(
    tmp_path: Path, entry: str | tarfile.TarInfo, said: str
) -> None:
    with pytest.raises(EnvironmentProblemError) as reported:
        install(str(tarred(tmp_path / "x.tar.gz", "good.jar", entry)), tmp_path / "p")
    assert str(reported.value) == f"{tmp_path / 'x.tar.gz'} {said}"
    assert list((tmp_path / "p").iterdir()) == []


@pytest.mark.parametrize("cut", [0, 5, 60])
def test_a_tarball_that_is_none_or_cut_off_is_one_sentence(tmp_path: Path, cut: int) -> None:
    made = tarred(tmp_path / "x.tar.gz", "good.jar")
    made.write_bytes(made.read_bytes()[:cut] if cut else b"text")
    with pytest.raises(BadRequestError, match=r"x\.tar\.gz cannot be read as a tar\.gz file: "):
        install(str(made), tmp_path / "p")
    assert list((tmp_path / "p").iterdir()) == []


def test_a_jar_is_added_to_an_installed_plugin(tmp_path: Path) -> None:
    install(str(archive(tmp_path / "thing.zip", "a.jar")), tmp_path / "p")
    driver = archive(tmp_path / "driver.jar", "x.txt")
    added = install(str(driver), tmp_path / "p", into="thing")
    assert (added.jars, added.notes) == (
        ("driver.jar",),
        ("plugin.lock does not have driver.jar, as it is from a file",),
    )
    assert (tmp_path / "p" / "thing" / "driver.jar").is_file()
    with pytest.raises(AlreadyExistsError, match=r"driver\.jar exists"):
        install(str(driver), tmp_path / "p", into="thing")
    with pytest.raises(NotFoundError, match="Plugin thin does not exist in") as reported:
        install(str(driver), tmp_path / "p", into="thin")
    assert reported.value.hint == "Did you mean thing?"
    with pytest.raises(BadRequestError, match=r"thing\.zip cannot be added to a plugin"):
        install(str(tmp_path / "thing.zip"), tmp_path / "p", into="thing")


@pytest.mark.parametrize("name", ["../up", "a/b", "..", "", ".hidden", "-x"])
def test_a_name_that_is_a_path_or_that_no_worker_looks_for_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequestError, match="cannot be the name of a plugin's folder"):
        install(str(archive(tmp_path / "a.jar", "x")), tmp_path / "p", name=name)


def test_an_encrypted_zip_is_one_sentence(tmp_path: Path) -> None:
    made = archive(tmp_path / "x.zip", "a.jar")
    data = bytearray(made.read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + flags] |= 1
    made.write_bytes(bytes(data))
    with pytest.raises(BadRequestError, match=r"x\.zip cannot be read as a zip file: .*encrypted"):
        install(str(made), tmp_path / "p")


def test_a_folder_is_not_copied_into_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / "a.jar", "x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRequestError, match="has the folder plugins in it, and cannot be copied there"):
        install(".", Path("plugins"))
    with pytest.raises(BadRequestError, match="is neither group:artifact:version nor"):
        install("", Path("plugins"))
    assert install(".", tmp_path.with_name("elsewhere")).folder == tmp_path.with_name("elsewhere") / tmp_path.name


def test_a_url_is_no_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match=r"https://example\.com/x\.zip is a URL"):
        install("https://example.com/x.zip", tmp_path)


@pytest.mark.parametrize("lock", [b"# org.example:a:1: SHA-256\nplugin 12\n", b"\xff\xfe"])
def test_a_damaged_lock_is_one_sentence(tmp_path: Path, lock: bytes) -> None:
    folder = install(str(archive(tmp_path / "a.jar", "x")), tmp_path / "p").folder
    (folder / "plugin.lock").write_bytes(lock)
    with pytest.raises(EnvironmentProblemError, match=r"a/plugin\.lock is damaged: "):
        install("org.example:a:1", tmp_path / "p")


def test_a_jar_for_a_newer_java_is_reported(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "new.jar", "w") as made:
        made.writestr("META-INF/versions/200/A.class", b"\xca\xfe\xba\xbe\x00\x00\x00\xf4")
        made.writestr("A.class", b"\xca\xfe\xba\xbe\x00\x00\x00\x8c")
    (note,) = install(str(tmp_path / "new.jar"), tmp_path / "p").notes
    assert note.startswith("new.jar needs Java 96, and ")
    assert note.endswith(": set kconnect.java.home")


def test_a_file_in_place_of_the_plugin_path_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("")
    with pytest.raises(BadRequestError, match=r"plugins is a file\.$"):
        install("org.example:plugin:1.0", tmp_path / "plugins")


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_name_that_is_too_long_here_is_no_damaged_archive(tmp_path: Path, kind: str) -> None:
    name = f"{'n' * 300}.jar"
    given = tmp_path / f"x.{kind}"
    if kind == "zip":
        archive(given, name)
    else:
        with tarfile.open(given, "w:gz") as tar:
            tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(
        EnvironmentProblemError, match=r"cannot be unpacked into .*/plugins: n{300}\.jar File name too long$"
    ):
        install(str(given), tmp_path / "plugins")
