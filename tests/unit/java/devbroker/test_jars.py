"""The lock of Kafka's jars, and what counts as a good jar."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kconnect.errors import EnvironmentProblemError
from kconnect.files.folders import cache_folder
from kconnect.java.devbroker.dev_registry import locked_registry
from kconnect.java.kafka_jars import KAFKA_VERSION, JarSet, locked_jars
from kconnect.java.maven import Jar


def _jar(name: str, data: bytes) -> Jar:
    return Jar(f"org.example:{name}:1.0", hashlib.sha256(data).hexdigest(), len(data), frozenset({"broker"}))


@pytest.mark.parametrize("name", ["broker", "connect"])
def test_every_locked_jar_has_a_checksum_and_a_file_name_of_its_own(name: str) -> None:
    jars = locked_jars(name)

    assert len({jar.file_name for jar in jars}) == len(jars)
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in jars)


@pytest.mark.parametrize("name", ["broker", "connect"])
def test_a_set_holds_no_artifact_in_two_versions_and_only_one_kafka(name: str) -> None:
    coordinates = [jar.coordinate.split(":") for jar in locked_jars(name)]

    artifacts = [(group, artifact) for group, artifact, _ in coordinates]
    assert len(set(artifacts)) == len(artifacts)
    assert {version for group, _, version in coordinates if group == "org.apache.kafka"} == {KAFKA_VERSION}


def test_the_connect_set_adds_to_the_broker_set() -> None:
    assert {jar.coordinate for jar in locked_jars("broker")} < {jar.coordinate for jar in locked_jars("connect")}


def test_a_complete_folder_gives_the_class_path_in_order_of_the_lock(tmp_path: Path) -> None:
    jars = [_jar("b", b"bee"), _jar("a", b"ay")]
    (tmp_path / "b-1.0.jar").write_bytes(b"bee")
    (tmp_path / "a-1.0.jar").write_bytes(b"ay")

    assert JarSet(folder=tmp_path, jars=jars).fetch() == [tmp_path / "b-1.0.jar", tmp_path / "a-1.0.jar"]


@pytest.mark.parametrize(
    "there", [None, b"", b"be", b"bea", b"beee"], ids=["absent", "empty", "short", "altered", "long"]
)
def test_a_jar_that_is_not_the_locked_one_is_missing(tmp_path: Path, there: bytes | None) -> None:
    jar = _jar("b", b"bee")
    if there is not None:
        (tmp_path / jar.file_name).write_bytes(there)

    assert JarSet(folder=tmp_path, jars=[jar]).missing() == [jar]


def test_a_cache_folder_that_can_not_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(EnvironmentProblemError, match=r"cannot be written to the cache folder .*file"):
        JarSet(folder=tmp_path / "file" / "jars", jars=[_jar("b", b"bee")]).fetch()


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KCONNECT_CACHE", str(tmp_path))

    assert cache_folder() == tmp_path
    assert JarSet().folder.is_relative_to(tmp_path)


def test_the_registry_is_one_locked_archive() -> None:
    archive = locked_registry()

    assert archive.file_name == "apicurio-registry-app-3.0.9-all.tar.gz"
    assert len(archive.sha256) == 64
