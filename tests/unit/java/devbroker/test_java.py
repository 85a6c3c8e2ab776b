"""Which Java is taken, and how its absence is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.errors import EnvironmentProblemError
from kconnect.java.installed import find_java, parse_version


def _java(folder: Path, says: str, code: int = 0) -> Path:
    """A program that answers `-version` as a JVM of that version does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "major", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17, "17.0.15"),
        ('java version "1.8.0_402"', 8, "1.8.0_402"),
        ('openjdk version "21" 2023-09-19', 21, "21"),
        ('openjdk version "26-ea" 2026-03-17', 26, "26-ea"),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1" 2021', 17, "17.0.1"),
    ],
)
def test_versions_are_read_as_jvms_print_them(text: str, major: int, version: str) -> None:
    assert parse_version(text) == (major, version)


def test_an_installation_that_says_its_version_is_not_run(tmp_path: Path) -> None:
    program = _java(tmp_path / "jdk", "It was run.", code=1)
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="21.0.4"\nOS_NAME="Linux"\n')
    link = tmp_path / "java"
    link.symlink_to(program)
    java = find_java(env={"PATH": str(tmp_path)})
    assert (java.executable, java.major, java.version) == (link, 21, "21.0.4")


@pytest.mark.parametrize("release", ['IMPLEMENTOR="Debian"\n', "JAVA_VERSION=", ""])
def test_an_installation_that_does_not_say_its_version_is_run(tmp_path: Path, release: str) -> None:
    _java(tmp_path, 'openjdk version "17.0.1"')
    (tmp_path / "release").write_text(release)
    assert find_java(env={"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}).version == "17.0.1"


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    home = _java(tmp_path / "home", 'openjdk version "21.0.1"')
    path = _java(tmp_path / "path", 'openjdk version "17.0.1"')

    env = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{path.parent}:/usr/bin:/bin"}
    assert find_java(env=env).executable == home
    assert find_java(env=env | {"JAVA_HOME": ""}).executable == path


def test_an_old_java_is_refused_with_its_version_and_place(tmp_path: Path) -> None:
    program = _java(tmp_path, 'openjdk version "11.0.20"')

    with pytest.raises(EnvironmentProblemError) as caught:
        find_java("the Kafka broker", env={"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})

    assert str(caught.value) == f"Java 17 or newer is needed for the Kafka broker; found 11.0.20 at {program}."
    assert "JAVA_HOME" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"PATH": ""}, "none was found on the PATH, and JAVA_HOME is not set"),
        ({"JAVA_HOME": "/no/such/jdk"}, "JAVA_HOME is /no/such/jdk, but there is no program at /no/such/jdk/bin/java"),
    ],
)
def test_no_java_is_one_sentence(env: dict[str, str], sentence: str) -> None:
    with pytest.raises(EnvironmentProblemError, match=sentence):
        find_java(env=env)


def test_a_java_that_only_says_where_to_get_one_is_no_java(tmp_path: Path) -> None:
    _java(tmp_path, "Unable to locate a Java Runtime.", code=1)

    with pytest.raises(EnvironmentProblemError, match=r"does not print its version: Unable to locate a Java Runtime\."):
        find_java(env={"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_a_java_that_can_not_be_run_is_one_sentence(tmp_path: Path) -> None:
    program = _java(tmp_path, "")
    program.write_bytes(b"\x7fELF not really")

    with pytest.raises(EnvironmentProblemError, match="cannot be run"):
        find_java(env={"JAVA_HOME": str(tmp_path), "PATH": ""})
