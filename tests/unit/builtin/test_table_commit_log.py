"""The numbered commits of a table of plain files, wherever a writer dies or sleeps."""

from __future__ import annotations

import uuid

import fsspec
import pytest

from kconnect.api import TopicPartition
from kconnect.builtin.connectors.tables.parquet_table import CommitLog
from kconnect.builtin.stores.file_store import StoreSettings, file_store

A = TopicPartition("orders", 0)


@pytest.fixture(params=["local", "memory"])
def files(request, tmp_path):
    if request.param == "local":
        return store_of(str(tmp_path))
    return store_of(f"memory://{uuid.uuid4().hex}")


def store_of(url):
    return file_store(url, {}, StoreSettings("table.path", "table.storage."))


@pytest.fixture
def log_of(files):
    return lambda: CommitLog(files, "sink", A)


def temporary(files, log):
    path = f"{log.folder}/{uuid.uuid4().hex}.tmp"
    with files.open_new(files.at(path)) as file:
        file.write(b"rows")
    return path


def test_a_commit_whose_writer_died_before_its_files_had_names_is_finished_by_the_next(files, log_of):
    log = log_of()
    log.take_over()
    left, path = temporary(files, log), temporary(files, log)
    assert log.append(5, [(path, "day=1/a.parquet")]) is not None
    assert files.find(files.at("day=1/a.parquet")) is None
    assert log_of().take_over().offset == 5
    assert files.read(files.at("day=1/a.parquet")) == b"rows"
    assert files.find(files.at(path)) is None
    assert files.find(files.at(left)) is None, "what nobody committed is removed"


def test_a_writer_is_refused_from_the_moment_another_takes_over(files, log_of):
    zombie, owner = log_of(), log_of()
    zombie.take_over()
    assert zombie.append(5, []) is not None
    assert owner.take_over().offset == 5
    assert zombie.append(9, []) is None
    assert owner.append(7, []) is not None
    assert log_of().last().offset == 7


def test_a_writer_that_slept_until_its_commit_was_tidied_away_is_refused(files, log_of):
    zombie, owner = log_of(), log_of()
    zombie.take_over()
    owner.take_over()
    for offset in range(1, 120):
        assert owner.append(offset, []) is not None
    assert len(files.names(files.at(owner.folder))) <= 51
    assert zombie.append(1, []) is None
    late = log_of()  # looked when there was nothing yet
    assert late.append(1, []) is None
    assert log_of().last().offset == 119


def test_a_commit_whose_answer_was_lost_is_known_as_ones_own(monkeypatch):
    store = fsspec.filesystem("memory")
    files = store_of(f"memory://{uuid.uuid4().hex}")
    log = CommitLog(files, "sink", A)
    log.take_over()
    pipe = type(store).pipe_file

    def lose_the_answer(self, path, value, **more):
        pipe(self, path, value, **more)
        raise OSError(22, "At least one of the preconditions you specified did not hold.")

    monkeypatch.setattr(type(store), "pipe_file", lose_the_answer)
    assert log.append(5, []) is not None
    monkeypatch.undo()
    assert CommitLog(files, "sink", A).last().offset == 5
