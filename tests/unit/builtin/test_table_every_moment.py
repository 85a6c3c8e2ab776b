"""A Parquet table in memory, its writer killed or asleep at every step it takes in its store: each record once."""

from __future__ import annotations

import itertools
import uuid
from contextlib import contextmanager, suppress

import duckdb
import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from kconnect.api import RetriableError
from kconnect.builtin.connectors.tables import open_table as opening
from kconnect.builtin.connectors.tables.table_format import StaleOffsetsError
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.builtin.stores.file_store import FsspecStore, StoreSettings
from kconnect.testing import MemoryLog, SinkHarness


class Killed(BaseException):
    """The process is gone: nothing behind it runs, and nobody catches it."""


class Steps(MemoryFileSystem):
    """Counts what is asked of the store, and does something at one of the steps, before or after it."""

    cachable = False
    at = None
    count = 0
    inside = False

    def _step(self, name, *args, **more):
        if Steps.inside:  # a step that fsspec makes of others, whose errors it may swallow
            return getattr(MemoryFileSystem, name)(self, *args, **more)
        Steps.count += 1
        now = Steps.count == Steps.at
        if now and Steps.before:
            Steps.do()
        Steps.inside = True
        try:
            return getattr(MemoryFileSystem, name)(self, *args, **more)
        finally:
            Steps.inside = False
            if now and not Steps.before:
                Steps.do()

    def pipe_file(self, path, value, mode="overwrite", **more):
        return self._step("pipe_file", path, value, mode=mode, **more)

    def cat_file(self, path, start=None, end=None, **more):
        return self._step("cat_file", path, start, end, **more)

    def cp_file(self, path1, path2, **more):
        return self._step("cp_file", path1, path2, **more)

    def rm_file(self, path):
        return self._step("rm_file", path)

    def info(self, path, **more):
        return self._step("info", path, **more)

    def ls(self, path, detail=True, **more):
        return self._step("ls", path, detail, **more)

    def open(self, path, mode="rb", **more):
        return self._step("open", path, mode, **more)


@contextmanager
def steps(at, do, *, before):
    Steps.at, Steps.count, Steps.before, Steps.do = at, 0, before, staticmethod(do)
    try:
        yield
    finally:
        Steps.at = None


@pytest.fixture
def world(monkeypatch):
    """Makes sinks on one log and one table, as workers that know nothing of each other would."""

    def files(where, config):
        return FsspecStore(where, StoreSettings("table.path", "table.storage."), Steps(), Steps._strip_protocol(where))

    monkeypatch.setattr(opening, "table_files", files)
    return World


class World:
    def __init__(self):
        path = f"memory://{uuid.uuid4().hex}"
        self.path = path
        self.settings = {
            "name": "sink",
            "table.format": "parquet",
            "table.path": path,
            "topics": "t",
            "flush.ms": "0",
            "partition.by": "half",
        }
        self.log = MemoryLog()
        self.number = itertools.count()

    def sink(self):
        return SinkHarness(TableSinkConnector, self.settings, log=self.log)

    def records(self, count):
        return [{"id": number, "half": f"{number % 2}"} for number in itertools.islice(self.number, count)]

    def drained(self):
        """All ids in the table once a last task has read what is left."""
        sink = self.sink().start()
        sink.deliver()
        sink.stop()
        with duckdb.connect() as session:
            session.register_filesystem(fsspec.filesystem("memory"))
            if not session.execute(f"select 1 from glob('{self.path}/**/*.parquet')").fetchall():
                return []
            found = session.execute(f"select id from read_parquet('{self.path}/**/*.parquet') order by id").fetchall()
            return [row[0] for row in found]


def test_a_writer_that_is_killed_at_any_step_leaves_each_record_once(world):
    for at in itertools.count(1):
        one = world()
        with steps(at, _kill, before=True):
            try:
                sink = one.sink().start()
                sink.put(*one.records(3))
                sink.put(*one.records(3))
            except Killed:
                pass
            else:
                assert at > 12, "it takes steps"
                break
        left = 6 - next(one.number)
        one.number = itertools.count(6 - left)
        assert one.drained() == list(range(6 - left)), f"killed at step {at}"


def test_a_writer_that_sleeps_at_any_step_while_another_takes_over_doubles_and_loses_nothing(world):
    for at in itertools.count(1):
        one, woken = world(), []

        def take_over(one=one, woken=woken):
            Steps.at = None
            woken.append(True)
            other = one.sink().start()
            other.deliver()
            other.put(*one.records(2))
            other.crash()

        with steps(at, take_over, before=True):
            sink = one.sink().start()
            with suppress(StaleOffsetsError):
                sink.put(*one.records(3))
                sink.put(*one.records(3))
                sink.deliver()
        written = next(one.number)
        assert one.drained() == list(range(written)), f"asleep at step {at}"
        if not woken:
            assert at > 12
            break


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_store_that_fails_once_at_any_step_is_tried_again_and_each_record_is_there_once(world, before):
    for at in itertools.count(1):
        one, failed = world(), []

        def fail(failed=failed):
            failed.append(True)
            raise OSError(5, "Input/output error")

        sink = one.sink()
        with steps(at, fail, before=before):
            with suppress(RetriableError):
                sink.start()
            if not sink.tasks:
                sink.start()
            for _ in range(3):
                with suppress(RetriableError):
                    sink.put(*one.records(2))
            with suppress(RetriableError):
                sink.stop()
        assert one.drained() == list(range(6)), f"failed at step {at}"
        if not failed:
            assert at > 12
            break


def _kill():
    raise Killed
