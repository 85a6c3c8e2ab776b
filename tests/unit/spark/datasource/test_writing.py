"""What a sink task gets of a Spark partition: the rows that it does not have yet, and a flush before the end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from kconnect.api import ConfigDef, ErrantRecordsError, RetriableError, SinkConnector, SinkRecord, SinkTask
from kconnect.errors import ConflictError, ConnectError, TimedOutError
from kconnect.model import TopicPartition
from kconnect.spark.datasource import rows_as_topic
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.format import RowsWrite
from kconnect.spark.datasource.rows_as_topic import Span
from kconnect.spark.datasource.sink_rows import SinkLayout


class KeepsOffsets(SinkTask):
    """Has the rows before `known` already; `durable` are those it has flushed."""

    known: ClassVar[int] = 0
    put_values: ClassVar[list[Any]] = []
    calls: ClassVar[list[str]] = []
    failures: ClassVar[int] = 0
    late: ClassVar[int] = 0
    busy_flushes: ClassVar[int] = 0
    holds_back: ClassVar[bool] = False
    bad: ClassVar[set[int]] = set()
    pauses: ClassVar[int] = 0

    def start(self, props: Mapping[str, str]) -> None:
        type(self).calls = [f"start {props['name']}"]
        type(self).put_values = []
        self.offsets: dict[int, int] = {}

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.context.offset(dict.fromkeys(partitions, self.known))

    def put(self, records: list[SinkRecord]) -> None:
        if self.failures:
            type(self).failures -= 1
            raise RetriableError("busy", retry_after_s=0.001)
        if type(self).pauses and records:
            self.context.pause(*self.context.assignment())
        elif type(self).pauses:
            type(self).pauses -= 1
            self.context.resume(*self.context.assignment())
        self.put_values.extend(record.value for record in records)
        self.offsets.update((record.value, record.kafka_offset) for record in records)

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.calls.append(f"pre_commit closing={self.context.is_closing()}")
        if self.busy_flushes:
            type(self).busy_flushes -= 1
            self.put_values.clear()  # it forgets what it gathered, as flush() of the API says: it comes again
            raise RetriableError("busy", retry_after_s=0.001)
        if refused := self.bad & set(self.put_values):
            self.put_values.clear()
            raise ErrantRecordsError({(TopicPartition("t", 0), self.offsets[value]): ValueError() for value in refused})
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
    for name in ("known", "failures", "late", "busy_flushes", "holds_back", "bad", "pauses"):
        monkeypatch.setattr(KeepsOffsets, name, getattr(KeepsOffsets, name))
    monkeypatch.setattr(
        "kconnect.runtime.plugins.PluginRegistry.connector_class", lambda self, name, _=None: KeepsOffsetsConnector
    )
    options = {"connector.class": "KeepsOffsets", "topics": "t", "name": "n", "kconnect.flush.timeout.ms": "200"}
    return ConnectorOfFormat(options, SinkConnector)


def _write(connector: ConnectorOfFormat, span: Span) -> list[Any]:
    """Rows 0 to 5 in batches of two."""
    batches = iter([pa.record_batch({"value": [n, n + 1]}) for n in (0, 2, 4)])
    layout = SinkLayout.of(pa.schema({"value": pa.int64()}), "record", "t")
    assert RowsWrite(connector, connector.config, 0, layout, batches, span).run().rows == 6
    return KeepsOffsets.put_values


def test_all_rows_are_put_and_made_durable_before_the_task_stops(connector):
    KeepsOffsets.late = 2
    assert _write(connector, Span(0, 100, 200, "partition 0")) == [0, 1, 2, 3, 4, 5]
    assert KeepsOffsets.calls == ["start n", *["pre_commit closing=True"] * 3, "close", "stop"]


@pytest.mark.parametrize(("known", "left"), [(99, 6), (100, 6), (101, 5), (103, 3), (104, 2), (106, 0)])
def test_rows_that_the_sink_has_are_left_out_over_batches(connector, known, left):
    KeepsOffsets.known = known
    assert _write(connector, Span(0, 100, 200, "partition 0")) == list(range(6))[6 - left :]


def test_a_sink_that_is_behind_the_whole_write_is_reported_and_not_believed(connector):
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


def test_rows_of_a_flush_that_is_busy_are_put_again_and_it_is_repeated(connector):
    KeepsOffsets.busy_flushes = 3
    assert _write(connector, Span(0, 0, None, "partition 0")) == [0, 1, 2, 3, 4, 5]
    assert KeepsOffsets.calls == ["start n", *["pre_commit closing=True"] * 4, "close", "stop"]


def test_rows_that_are_not_kept_any_more_fail_the_write_so_that_spark_gives_them_again(connector, monkeypatch):
    KeepsOffsets.busy_flushes = 1
    monkeypatch.setattr(rows_as_topic, "_KEPT_BYTES", 0)
    with pytest.raises(ConnectError, match="asks for rows of t-0 again, which Spark has given already"):
        _write(connector, Span(0, 0, None, "partition 0"))


def test_while_a_write_goes_on_the_task_is_asked_so_that_rows_need_not_be_kept(connector, monkeypatch):
    monkeypatch.setattr(rows_as_topic, "_ASKED_BYTES", 1)
    assert _write(connector, Span(0, 0, None, "partition 0")) == [0, 1, 2, 3, 4, 5]
    assert KeepsOffsets.calls.count("pre_commit closing=False") == 3


def test_rows_that_the_task_names_as_it_flushes_are_left_out_and_all_others_put_again(connector):
    KeepsOffsets.bad = {1, 4}
    connector.config["errors.tolerance"] = "all"
    layout = SinkLayout.of(pa.schema({"value": pa.int64()}), "record", "t")
    batches = iter([pa.record_batch({"value": [n, n + 1]}) for n in (0, 2, 4)])
    written = RowsWrite(connector, connector.config, 0, layout, batches, Span(0, 0, None, "partition 0")).run()
    assert (KeepsOffsets.put_values, written.rows, written.skipped) == ([0, 2, 3, 5], 6, 2)


def test_rows_wait_for_a_task_that_pauses_and_fail_the_write_if_that_lasts(connector):
    KeepsOffsets.pauses = 2
    assert _write(connector, Span(0, 0, None, "partition 0")) == [0, 1, 2, 3, 4, 5]
    KeepsOffsets.pauses = -1
    KeepsOffsets.put, put = lambda self, records: self.context.pause(*self.context.assignment()), KeepsOffsets.put
    try:
        with pytest.raises(TimedOutError, match=r"has paused t-0 for 0\.2 s"):
            _write(connector, Span(0, 0, None, "partition 0"))
    finally:
        KeepsOffsets.put = put


def test_a_put_that_stays_busy_fails_the_write_and_names_the_setting(connector):
    KeepsOffsets.failures = 10_000
    hurried = ConnectorOfFormat(
        {"connector.class": "KeepsOffsets", "topics": "t", "kconnect.retry.timeout.ms": "50"}, SinkConnector
    )
    with pytest.raises(TimedOutError, match=r"KeepsOffsets\.put\(\) failed \d+ times in 0\.05 s") as raised:
        _write(hurried, Span(0, 0, None, "partition 0"))
    assert "kconnect.retry.timeout.ms" in (raised.value.hint or "")


def test_a_sink_that_gathers_is_reported_that_the_batch_ends_and_is_not_waited_for(connector):
    KeepsOffsets.holds_back = True
    assert _write(connector, Span(0, 0, None, "partition 0")) == [0, 1, 2, 3, 4, 5]
    assert KeepsOffsets.calls == ["start n", "pre_commit closing=True", "close", "stop"]


def test_a_sink_that_never_flushes_fails_the_write(connector):
    KeepsOffsets.late = 10_000
    with pytest.raises(TimedOutError, match="holds back rows of t-0"):
        _write(connector, Span(0, 0, None, "partition 0"))
