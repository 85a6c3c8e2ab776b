"""What a sink task gets of a Spark partition: the rows that it does not have yet, and a flush before the end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from kconnect.api import ConfigDef, RetriableError, SinkConnector, SinkRecord, SinkTask
from kconnect.errors import ConflictError, TimedOutError
from kconnect.model import TopicPartition
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.writers import SinkTaskRun, Span, _Writing


class KeepsOffsets(SinkTask):
    """Has the rows before `known` already; `durable` are those it has flushed."""

    known: ClassVar[int] = 0
    put_values: ClassVar[list[Any]] = []
    calls: ClassVar[list[str]] = []
    failures: ClassVar[int] = 0
    late: ClassVar[int] = 0
    busy_flushes: ClassVar[int] = 0
    holds_back: ClassVar[bool] = False

    def start(self, props: Mapping[str, str]) -> None:
        type(self).calls = [f"start {props['name']}"]
        type(self).put_values = []

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.context.offset(dict.fromkeys(partitions, self.known))

    def put(self, records: list[SinkRecord]) -> None:
        if self.failures:
            type(self).failures -= 1
            raise RetriableError("busy", retry_after_s=0.001)
        self.put_values.extend(record.value for record in records)

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.calls.append(f"pre_commit closing={self.context.is_closing()}")
        if self.busy_flushes:
            type(self).busy_flushes -= 1
            raise RetriableError("busy", retry_after_s=0.001)
        if self.holds_back and not self.context.is_ending():
            return {}
        if self.late:
            type(self).late -= 1
            return {}
        return current_offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append("close")

    def stop(self) -> None:
        self.calls.append("stop")


class KeepsOffsetsConnector(SinkConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_class(self) -> type[SinkTask]:
        return KeepsOffsets

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return ConfigDef()


@pytest.fixture
def connector(monkeypatch: pytest.MonkeyPatch) -> ConnectorOfFormat:
    for name, value in (("known", 0), ("failures", 0), ("late", 0), ("busy_flushes", 0), ("holds_back", False)):
        monkeypatch.setattr(KeepsOffsets, name, value)
    monkeypatch.setattr(
        "kconnect.runtime.plugins.PluginRegistry.connector_class", lambda self, name, _=None: KeepsOffsetsConnector
    )
    options = {"connector.class": "KeepsOffsets", "topics": "t", "name": "n", "kconnect.flush.timeout.ms": "200"}
    return ConnectorOfFormat(options, SinkConnector)


def _write(connector: ConnectorOfFormat, span: Span) -> list[Any]:
    """Rows 0 to 5 in batches of two."""
    writing, run = _Writing(connector, ["value"]), SinkTaskRun(connector, connector.config, 0)
    try:
        run.start()
        batches = iter([pa.record_batch({"value": [n, n + 1]}) for n in (0, 2, 4)])
        assert writing._put_all(run, batches, span) == 6
        run.finish()
    finally:
        run.stop()
    return KeepsOffsets.put_values


def test_all_rows_are_put_and_made_durable_before_the_task_stops(connector):
    KeepsOffsets.late = 2
    assert _write(connector, Span(0, 100, 200, "partition 0")) == [0, 1, 2, 3, 4, 5]
    assert KeepsOffsets.calls == ["start n", *["pre_commit closing=True"] * 3, "close", "stop"]


@pytest.mark.parametrize(("known", "left"), [(99, 6), (100, 6), (101, 5), (103, 3), (104, 2), (106, 0)])
def test_rows_that_the_sink_has_are_left_out_over_batches(connector, known, left):
    KeepsOffsets.known = known
    assert _write(connector, Span(0, 100, 200, "partition 0")) == list(range(6))[6 - left :]


def test_a_sink_that_is_behind_the_whole_write_is_told_and_not_believed(connector):
    KeepsOffsets.known = 201
    with pytest.raises(ConflictError, match="The sink has rows of t-0 up to offset 201, behind those of this write"):
        _write(connector, Span(0, 100, 200, "partition 0"))
    KeepsOffsets.known = 101
    with pytest.raises(ConflictError):
        _write(connector, Span(0, 100, 100, "partition 0"))
    assert KeepsOffsets.calls[-1] == "stop"


def test_a_put_that_is_busy_is_repeated(connector):
    KeepsOffsets.failures = 3
    assert _write(connector, Span(0, 0, None, "partition 0")) == [0, 1, 2, 3, 4, 5]


def test_a_flush_that_is_busy_is_repeated(connector):
    KeepsOffsets.busy_flushes = 3
    assert _write(connector, Span(0, 0, None, "partition 0")) == [0, 1, 2, 3, 4, 5]
    assert KeepsOffsets.calls == ["start n", *["pre_commit closing=True"] * 4, "close", "stop"]


def test_a_put_that_stays_busy_fails_the_write_and_names_the_setting(connector):
    KeepsOffsets.failures = 10_000
    hurried = ConnectorOfFormat(
        {"connector.class": "KeepsOffsets", "topics": "t", "kconnect.retry.timeout.ms": "50"}, SinkConnector
    )
    with pytest.raises(TimedOutError, match=r"KeepsOffsets\.put\(\) failed \d+ times in 0\.05 s") as raised:
        _write(hurried, Span(0, 0, None, "partition 0"))
    assert "kconnect.retry.timeout.ms" in (raised.value.hint or "")


def test_a_sink_that_gathers_is_told_that_the_batch_ends_and_is_not_waited_for(connector):
    KeepsOffsets.holds_back = True
    assert _write(connector, Span(0, 0, None, "partition 0")) == [0, 1, 2, 3, 4, 5]
    assert KeepsOffsets.calls == ["start n", "pre_commit closing=True", "close", "stop"]


def test_a_sink_that_never_flushes_fails_the_write(connector):
    KeepsOffsets.late = 10_000
    with pytest.raises(TimedOutError, match="holds back rows of t-0"):
        _write(connector, Span(0, 0, None, "partition 0"))
