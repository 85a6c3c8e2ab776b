"""Java plugins from zips and folders; those of Maven are installed by docs/java-plugins.md, which is run."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from kconnect.errors import AlreadyExistsError, BadRequestError, ConnectError, EnvironmentProblemError, NotFoundError
from kconnect.java.plugins.install import _shipped, install


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, "")
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
        (("readme.txt",), BadRequestError, "There is no jar in"),
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


def test_what_is_no_plugin_is_refused_with_what_would_be_one(tmp_path: Path) -> None:
    with pytest.raises(
        BadRequestError, match=r"debezium is neither group:artifact:version nor a zip or a folder\."
    ) as told:
        install("debezium", tmp_path)
    assert told.value.hint == "Such as io.debezium:debezium-connector-postgres:3.6.1.Final."
    with pytest.raises(NotFoundError, match=r"none\.zip does not exist"):
        install(str(tmp_path / "none.zip"), tmp_path)
    (tmp_path / "text.zip").write_text("text")
    with pytest.raises(BadRequestError, match="is not a zip file"):
        install(str(tmp_path / "text.zip"), tmp_path)


def test_what_connect_has_itself_is_left_out_but_for_a_newer_jackson() -> None:
    def dependency(coordinate: str, scope: str = "compile") -> SimpleNamespace:
        group, artifact, version = coordinate.split(":")
        return SimpleNamespace(groupId=group, artifactId=artifact, version=version, type="jar", scope=scope)

    more = {
        "org.apache.kafka:connect-api:4.3.0": False,
        "com.fasterxml.jackson.core:jackson-databind:2.16.2": False,
        "com.fasterxml.jackson.core:jackson-databind:2.99.0": True,
        "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.16.2": True,
        "org.postgresql:postgresql:42.7.7": True,
    }
    plugin = dependency("org.example:plugin:1.0")
    kept = list(_shipped([plugin], [*map(dependency, more), dependency("org.junit:junit:5.0.0", "test")]))
    assert kept[0] is plugin
    assert [f"{one.groupId}:{one.artifactId}:{one.version}" for one in kept[1:]] == [one for one in more if more[one]]
