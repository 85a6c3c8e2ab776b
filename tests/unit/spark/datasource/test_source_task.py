"""One source task under Spark: when it counts as read to its end, and its hooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from kconnect.api import ConfigDef, RecordMetadata, RetriableError, SourceConnector, SourceRecord, SourceTask
from kconnect.spark.datasource.columns import Columns
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.source_task import read_to_end
from kconnect.spark.datasource.stream_reader import StreamPlanner
from kit.waiting import eventually, stays

_COLUMNS = Columns(pa.schema([pa.field("value", pa.string())]), is_record=True)


class Scripted(SourceTask):
    """Gives what `polls` say, one after the other: a value, or a function to call; then waits for more."""

    polls: ClassVar[list[Any]] = []
    hooks: ClassVar[list[str]] = []
    count = 0

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> list[SourceRecord] | None:
        if self.count >= len(self.polls):
            self.context.wait(60)
            return None
        step = self.polls[self.count]
        self.count += 1
        value = step() if callable(step) else step
        return None if value is None else [SourceRecord({"p": 1}, {"at": self.count}, "t", value)]

    def commit(self) -> None:
        self.hooks.append("commit")

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.hooks.append(f"record {record.value}")

    def update_offsets(self, offsets: Sequence[Any]) -> Iterable[Any] | None:
        self.hooks.append(f"update {[(dict(one), dict(two)) for one, two in offsets]}")
        return [({"p": 2}, {"beat": 1}), ({"p": 1}, {"at": 99})]

    def stop(self) -> None:
        self.hooks.append("stop")


class ScriptedConnector(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_class(self) -> type[SourceTask]:
        return Scripted

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return ConfigDef()


@pytest.fixture
def connector(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ConnectorOfFormat:
    monkeypatch.setattr(Scripted, "polls", [])
    monkeypatch.setattr(Scripted, "hooks", [])
    monkeypatch.setattr(
        "kconnect.runtime.plugins.PluginRegistry.connector_class", lambda self, name, _=None: ScriptedConnector
    )
    options = {"connector.class": "Scripted", "kconnect.idle.ms": "50", "kconnect.spool.path": str(tmp_path)}
    return ConnectorOfFormat(options, SourceConnector)


def _slow(seconds: float) -> Callable[[], None]:
    return lambda: stays(lambda: True, seconds, "the source is silent")


def _busy() -> None:
    raise RetriableError("the service is away", retry_after_s=0.1)


def _read(connector: ConnectorOfFormat) -> list[str]:
    found = []
    for rows in read_to_end(connector, connector.config, 0):
        found += _COLUMNS.batch(rows).column("value").to_pylist()
    return found


def test_a_source_that_is_slow_and_empty_is_not_taken_for_one_at_its_end(connector):
    Scripted.polls = [_slow(0.1), _slow(0.1), "late"]
    assert _read(connector) == ["late"]


def test_a_source_whose_polls_wait_by_themselves_behind_records_is_at_its_end_by_the_option(connector):
    Scripted.polls = ["a", *[_slow(0.06)] * 10, "late"]  # as Java's file source, which waits for a second
    assert _read(connector) == ["a"]
    Scripted.polls = ["a", _slow(0.06), "b"]  # a single one says nothing
    assert _read(connector) == ["a", "b"]


def test_a_source_that_fails_for_longer_than_it_may_be_idle_is_not_at_its_end(connector):
    Scripted.polls = ["a", _busy, "b"]
    assert _read(connector) == ["a", "b"]
    assert Scripted.hooks == ["stop"]  # a read acknowledges nothing


def test_a_source_that_has_nothing_at_once_is_at_its_end(connector):
    Scripted.polls = [None, None, "a"]
    assert _read(connector) == ["a"]
    Scripted.polls = ["a", *[None] * 1000, "b"]
    assert _read(connector) == ["a"]


def test_hooks_follow_the_commit_of_spark_and_offsets_of_the_task_go_into_the_next(connector):
    gate = threading.Event()
    Scripted.polls = ["a", lambda: gate.wait(10) and "b"]
    planner = StreamPlanner(connector, _COLUMNS)
    try:
        first = planner.latest(planner.initial(), 100)
        assert first["offsets"] == [[{"p": 1}, {"at": 1}]]
        assert Scripted.hooks == []
        planner.commit(first)
        gate.set()
        eventually(lambda: len(Scripted.hooks) >= 3)
        assert Scripted.hooks[:3] == ["update [({'p': 1}, {'at': 1})]", "record a", "commit"]
        second = eventually(lambda: (end := planner.latest(first, 100)) != first and end)
        assert sorted(second["offsets"], key=str)[-1] == [{"p": 2}, {"beat": 1}]
        assert [{"p": 1}, {"at": 99}] not in second["offsets"]  # "b" was behind it
    finally:
        gate.set()
        planner.stop()
    assert Scripted.hooks[-1] == "stop"
