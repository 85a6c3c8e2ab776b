"""Jars come over HTTP from a Maven repository: checked, whole, once; a bad repository is one sentence."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kconnect.errors import EnvironmentProblemError, NotFoundError, UnreachableError
from kconnect.java.kafka_jars import JarSet
from kconnect.java.maven import Jar
from kit.maven_repository import Repository, jar_path, use_repositories
from kit.pace import ample_s
from kit.ports import free_port


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    found = Repository()
    use_repositories([found.url], tmp_path, monkeypatch)
    yield found
    found.close()


def test_missing_jars_are_fetched_once_and_then_there_is_no_network(repository: Repository, tmp_path: Path) -> None:
    jars = JarSet(folder=tmp_path / "jars", jars=[repository.add("a", b"a" * 50_000), repository.add("b", b"bee")])
    reported: list[tuple[int, int]] = []

    paths = jars.fetch(lambda done, total: reported.append((done, total)))

    assert [path.read_bytes() for path in paths] == [b"a" * 50_000, b"bee"]
    assert reported[-1] == (50_003, 50_003)
    asked = len(repository.asked)
    assert jars.fetch() == paths
    assert len(repository.asked) == asked
    assert sorted(path.name for path in jars.folder.iterdir()) == [".lock", "a-1.0.jar", "b-1.0.jar"]


def test_only_the_damaged_jar_is_fetched_again(repository: Repository, tmp_path: Path) -> None:
    jars = JarSet(folder=tmp_path / "jars", jars=[repository.add("a", b"ay"), repository.add("b", b"bee")])
    first, second = jars.fetch()
    second.write_bytes(b"be")

    jars.fetch()

    assert second.read_bytes() == b"bee"
    assert (repository.count("a"), repository.count("b")) == (1, 2)
    assert first.read_bytes() == b"ay"


def test_a_download_that_breaks_off_is_tried_again(repository: Repository, tmp_path: Path) -> None:
    jar = repository.add("a", b"a" * 50_000)
    repository.cut_short.add(jar_path("a"))

    (path,) = JarSet(folder=tmp_path / "jars", jars=[jar]).fetch()

    assert path.read_bytes() == b"a" * 50_000


def test_many_jars_come_over_few_connections(repository: Repository, tmp_path: Path) -> None:
    jars = [repository.add(f"a{number}", b"a" * 1000) for number in range(30)]

    assert len(JarSet(folder=tmp_path / "jars", jars=jars).fetch()) == 30

    assert len(repository.asked) == 30
    assert len(repository.connections) <= 4


@pytest.mark.parametrize("refusal", [404, 403])
def test_what_a_repository_lacks_comes_from_the_next(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    with closing(Repository()) as other:
        other.refusal = refusal
        use_repositories([other.url, f"{repository.url}/"], tmp_path, monkeypatch)
        jars = [repository.add("a", b"ay"), other.add("b", b"bee")]

        assert [path.read_bytes() for path in JarSet(folder=tmp_path / "jars", jars=jars).fetch()] == [b"ay", b"bee"]

        assert (other.count("a"), repository.count("a"), repository.count("b")) == (1, 1, 0)


def test_a_repository_that_was_asked_too_much_is_asked_again_when_it_says(
    repository: Repository, tmp_path: Path
) -> None:
    jar = repository.add("a", b"ay")
    repository.asked_too_much.add(jar_path("a"))

    (path,) = JarSet(folder=tmp_path / "jars", jars=[jar]).fetch()

    assert path.read_bytes() == b"ay"
    assert repository.count("a") == 2


def test_a_jar_with_another_checksum_is_refused_and_not_kept(repository: Repository, tmp_path: Path) -> None:
    jar = repository.add("a", b"good")
    repository.files[jar_path("a")] = b"evil"

    with pytest.raises(EnvironmentProblemError, match=r"a-1\.0\.jar came with another checksum than expected"):
        JarSet(folder=tmp_path / "jars", jars=[jar]).fetch()

    assert [path.name for path in (tmp_path / "jars").iterdir()] == [".lock"]


def test_a_jar_that_is_not_in_the_repository_is_one_sentence(repository: Repository, tmp_path: Path) -> None:
    jar = Jar("org.example:gone:1.0", "0" * 64, 4, frozenset({"broker"}))

    with pytest.raises(NotFoundError, match=r"gone-1\.0\.jar does not exist in the Maven repository http://127"):
        JarSet(folder=tmp_path / "jars", jars=[jar]).fetch()


def test_a_repository_that_does_not_answer_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_repositories([f"http://127.0.0.1:{free_port()}"], tmp_path, monkeypatch)
    jar = Jar("org.example:a:1.0", "0" * 64, 4, frozenset({"broker"}))

    with pytest.raises(
        UnreachableError, match=r"a-1\.0\.jar cannot be fetched .*: nobody answers \(connection refused\)"
    ):
        JarSet(folder=tmp_path / "jars", jars=[jar]).fetch()


def _fetch(folder: Path, jar: Jar) -> None:
    JarSet(folder=folder, jars=[jar]).fetch()


def test_processes_that_fetch_at_once_fetch_one_time(repository: Repository, tmp_path: Path) -> None:
    jar = repository.add("a", b"a" * 5_000_000)
    spawn = multiprocessing.get_context("fork")
    processes = [spawn.Process(target=_fetch, args=(tmp_path / "jars", jar)) for _ in range(4)]

    for process in processes:
        process.start()
    for process in processes:
        process.join(ample_s(60))

    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert repository.count("a") == 1
