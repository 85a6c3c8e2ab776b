"""The data folder: what is refused before a JVM is started, and who holds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kconnect.errors import ConflictError, EnvironmentProblemError
from kconnect.java.devbroker.server_folder import BrokerFolder, RunningServer, telling_lines

GOOD_META = (
    "#\n#Sat Nov 21 05:09:12 UTC 2026\nnode.id=1\ndirectory.id=poPMbKFEoAsBW525xGdRxA\nversion=1\ncluster.id=abc\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> BrokerFolder:
    found = BrokerFolder(tmp_path / "data")
    found.prepare()
    return found


def test_a_fresh_folder_is_made_and_not_formatted(folder: BrokerFolder) -> None:
    assert folder.kafka.is_dir()
    assert not folder.is_formatted
    assert folder.cluster_id() is None


def test_a_folder_is_the_same_by_whichever_way_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert BrokerFolder(tmp_path / "etc" / ".." / "data").path == BrokerFolder(tmp_path / "data").path


def test_a_formatted_folder_tells_its_cluster(folder: BrokerFolder) -> None:
    folder.meta.write_text(GOOD_META)

    folder.prepare()

    assert folder.cluster_id() == "abc"


@pytest.mark.parametrize(
    ("meta", "sentence"),
    [
        (b"garbage", "meta.properties has no version"),
        (b"", "meta.properties has no version"),
        (b"version=1\nnode.id=1\ndirectory.id=x\n", r"has no cluster\.id"),
        (b"\xff\xfe\x00", "cannot be read"),
        (GOOD_META.replace("node.id=1", "node.id=7").encode(), r"belongs to another cluster: node\.id is 7, not 1"),
    ],
)
def test_broken_or_foreign_meta_properties_are_one_sentence(folder: BrokerFolder, meta: bytes, sentence: str) -> None:
    folder.meta.write_bytes(meta)

    with pytest.raises(EnvironmentProblemError, match=sentence) as caught:
        folder.prepare()

    assert str(folder.path) in str(caught.value)
    assert "--data" in (caught.value.hint or "")


def test_the_data_of_another_kafka_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(GOOD_META)

    with pytest.raises(EnvironmentProblemError, match="holds the data of another Kafka broker"):
        BrokerFolder(tmp_path).prepare()


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(EnvironmentProblemError, match=r"is not empty .* holds thesis\.txt"):
        BrokerFolder(tmp_path).prepare()

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(EnvironmentProblemError, match="is a file"):
        BrokerFolder(tmp_path / "file").prepare()


def test_a_folder_below_a_file_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(EnvironmentProblemError, match="cannot be written"):
        BrokerFolder(tmp_path / "file" / "data").prepare()


def test_a_held_folder_refuses_a_second_holder_until_it_is_released(folder: BrokerFolder) -> None:
    with folder.hold():
        assert folder.is_held()
        with pytest.raises(ConflictError, match="already runs on the data folder"):
            folder.hold()
    assert not folder.is_held()
    folder.hold().close()


def test_a_pid_left_by_a_killed_broker_is_not_running(folder: BrokerFolder) -> None:
    with folder.hold() as lock:
        folder.write_running(lock, RunningServer(os.getpid(), 9092, "127.0.0.1:9092"))

    assert folder.running() is None


def test_a_pid_of_another_program_is_not_the_broker_though_the_lock_is_held(folder: BrokerFolder) -> None:
    with folder.hold() as lock:
        folder.write_running(lock, RunningServer(os.getpid(), 9092, "127.0.0.1:9092"))

        assert folder.running() is None


def test_asking_an_absent_folder_makes_nothing(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path / "none")

    assert folder.running() is None
    assert not folder.path.exists()


def test_telling_lines_are_the_last_errors_each_once_without_traces() -> None:
    log = "[1] INFO fine\n[2] ERROR bad\njava.lang.IllegalStateException: why\n\tat x.Y.z(Y.java:1)\n[2] ERROR bad\n"

    assert telling_lines(log) == ["[2] ERROR bad", "java.lang.IllegalStateException: why"]
    assert telling_lines("one\ntwo\nthree\n", lines=2) == ["two", "three"]
    assert telling_lines("") == []
