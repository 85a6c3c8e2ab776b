"""A connector tried record by record, with what each stage made of each record; for `connect try`.

Built on the harnesses: the same plugins, made the same way, with nothing of Kafka and Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kconnect.api import ConnectRecord, SourceConnector, SourceRecord
from kconnect.pipeline.stages import Stage, StageError, TransformChain
from kconnect.plugins import PluginRegistry
from kconnect.testing.connector_run import TaskStages
from kconnect.testing.memory_log import LogRecord
from kconnect.testing.record_view import bytes_view, record_view
from kconnect.testing.sink_harness import SinkHarness
from kconnect.testing.sink_task_run import SinkTaskRun
from kconnect.testing.source_harness import SourceHarness

__all__ = ["Failure", "InputRecord", "Passage", "StageView", "TriedRecord", "is_source", "try_sink", "try_source"]

# How the settings call these stages
_CONVERTERS = {
    Stage.KEY_CONVERTER: "key.converter",
    Stage.VALUE_CONVERTER: "value.converter",
    Stage.HEADER_CONVERTER: "header.converter",
}
# A source that has nothing yet is asked again after this.
_IDLE_S = 0.005


@dataclass(frozen=True, slots=True)
class StageView:
    """What a record was after one stage; `view` is plain data, None when the stage dropped it."""

    stage: str
    view: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Which stage and plugin failed, with what; `tolerated` when `errors.tolerance=all` lets the task go on."""

    stage: str
    plugin: str
    error: BaseException
    tolerated: bool

    @property
    def why(self) -> str:
        """The error, and behind it what caused it first."""
        root = self.error
        while root.__cause__ is not None:
            root = root.__cause__
        text = f"{type(self.error).__name__}: {self.error}".strip().rstrip(":")
        return text if root is self.error or str(root) in text else f"{text}: {type(root).__name__}: {root}"

    def __str__(self) -> str:
        return f"{self.stage} failed ({self.plugin}): {self.why}"


@dataclass(slots=True)
class TriedRecord:
    """One record's way. `outcome` is written, put, dropped, or failed."""

    number: int
    stages: list[StageView] = field(default_factory=list)
    outcome: str = "failed"
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class InputRecord:
    """What a sink is fed with."""

    value: bytes | None
    key: bytes | None = None
    topic: str | None = None
    partition: int = 0
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


Passage = Callable[[TriedRecord], None]
"""Hears of each record when its way is over."""


def is_source(config: Mapping[str, str], plugin_path: str | None) -> bool:
    """Whether the config is a source's. Errors: ConfigError for a class that is not there."""
    plugins = PluginRegistry.load(plugin_path)
    return issubclass(plugins.connector_class(config.get("connector.class", "")), SourceConnector)


def try_source(
    config: Mapping[str, str], worker: Mapping[str, str], *, limit: int, timeout_s: float, show: Passage
) -> int:
    """Poll until `limit` records were shown or the time is over; gives how many there were.

    Ends after the first record that fails and is not tolerated. Errors: ConfigError; what the connector raises.
    """
    harness = _TracedSource(config, worker, limit, show)
    deadline = time.monotonic() + timeout_s
    try:
        harness.start()
        while harness.count < limit and not harness.has_failed and time.monotonic() < deadline:
            if not harness.poll_once():
                time.sleep(_IDLE_S)
        return harness.count
    finally:
        harness.crash()


def try_sink(
    config: Mapping[str, str],
    worker: Mapping[str, str],
    records: Iterable[InputRecord],
    *,
    limit: int,
    show: Passage,
) -> int:
    """Put records one by one, then flush; gives how many there were. Ends and raises as `try_source`."""
    harness = SinkHarness(config["connector.class"], config, worker=worker)
    count = 0
    try:
        harness.start()
        for count, given in zip(range(1, limit + 1), records, strict=False):
            tried = _TracedPut(harness, count).run(given)
            show(tried)
            if tried.failure is not None and not tried.failure.tolerated:
                return count
        harness.commit()
        return count
    finally:
        harness.crash()


class _TracedSource(SourceHarness):
    """The harness, with each record's way shown."""

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str], limit: int, show: Passage) -> None:
        super().__init__(config["connector.class"], config, worker=worker)
        self.count = 0
        self.has_failed = False
        self._limit = limit
        self._show = show

    def _deliver(self, task: Any, polled: Any, records: list[SourceRecord]) -> None:
        for record in records:
            if self.count >= self._limit or self.has_failed:
                return
            self.count += 1
            tried = TriedRecord(self.count, [StageView("connector", record_view(record))])
            self._pass_on(task.stages, record, tried)
            self.has_failed = tried.failure is not None and not tried.failure.tolerated
            self._show(tried)

    def _pass_on(self, stages: TaskStages, record: SourceRecord, tried: TriedRecord) -> None:
        kept = _through_transforms(stages, record, tried)
        if kept is None:
            return
        made = _attempt(stages, tried, lambda: stages.converters.to_kafka_record(kept))
        if made is None:
            return
        tried.stages.append(
            StageView("bytes", bytes_view(made.topic, made.partition, made.key, made.value, made.headers))
        )
        tried.outcome = "written"


class _TracedPut:
    """One record's way into a sink."""

    def __init__(self, harness: SinkHarness, number: int) -> None:
        self._harness = harness
        self._tried = TriedRecord(number)

    def run(self, given: InputRecord) -> TriedRecord:
        tried = self._tried
        record = self._harness.take_in(
            given.value,
            key=given.key,
            headers=given.headers,
            topic=given.topic,
            partition=given.partition,
            timestamp=given.timestamp,
        )
        tried.stages.append(
            StageView("bytes", bytes_view(record.topic, record.partition, record.key, record.value, record.headers))
        )
        task = self._harness.task_of(record)
        made = self._convert(task, record)
        if made is not None:
            tried.stages.append(StageView("converters", record_view(made)))
            kept = _through_transforms(task.stages, made, tried)
            if kept is not None:
                self._put(task, kept)
        task.moved({record.place: record.offset + 1})
        return tried

    def _convert(self, task: SinkTaskRun, record: LogRecord) -> Any:  # SinkRecord, or None when it failed
        return _attempt(task.stages, self._tried, lambda: task.stages.converters.to_connect_record(record.fetched()))

    def _put(self, task: SinkTaskRun, kept: ConnectRecord) -> None:
        tried = self._tried
        reported = len(self._harness.errant)
        try:
            task.put([kept])  # type: ignore[list-item]  # a sink's record
        except Exception as error:  # the plugin's: shown with its place
            tried.failure = Failure("put", _name(task.task), error, tolerated=False)
            return
        if len(self._harness.errant) > reported:
            tried.failure = Failure("put", _name(task.task), self._harness.errant[-1].error, tolerated=True)
            return
        tried.stages.append(StageView("put", record_view(kept)))
        tried.outcome = "put"


def _through_transforms(stages: TaskStages, record: ConnectRecord, tried: TriedRecord) -> ConnectRecord | None:
    """The record after all transforms, one by one; None when one dropped it or failed, which `tried` then tells."""
    current = record
    for name, step in zip(stages.names, stages.steps, strict=True):
        chain = TransformChain([step], stages.tolerance)
        after = _attempt(stages, tried, partial(chain.apply_record, current), f"transform {name}")
        if after is None:
            if tried.failure is None:
                tried.stages.append(StageView(f"transform {name}", None))
                tried.outcome = "dropped"
            return None
        tried.stages.append(StageView(f"transform {name}", record_view(after)))
        current = after
    return current


def _attempt(stages: TaskStages, tried: TriedRecord, call: Callable[[], Any], name: str | None = None) -> Any:
    """The result; None with `tried.failure` set when the stage failed, whether that is tolerated or not."""
    before = stages.last_failure
    try:
        made = call()
    except StageError as failure:
        tried.failure = _failure(failure, name, tolerated=False)
        return None
    last = stages.last_failure
    if last is not None and last is not before:
        tried.failure = _failure(last, name, tolerated=True)
        return None
    return made


def _failure(failure: StageError, name: str | None, *, tolerated: bool) -> Failure:
    stage = name or _CONVERTERS.get(failure.stage, failure.stage.value)
    plugin = f"{failure.plugin.__module__}.{failure.plugin.__qualname__}"
    return Failure(stage, plugin, failure.error, tolerated)


def _name(plugin: object) -> str:
    return f"{type(plugin).__module__}.{type(plugin).__qualname__}"
