"""A connector tried record by record, with what each stage made of each record; for `connect try`.

Built on the harnesses: the same plugins, made the same way, with nothing of Kafka and Spark.
"""

from __future__ import annotations

import itertools
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kconnect.api import ConnectRecord, SinkRecord, SourceConnector, SourceRecord
from kconnect.errors import DataError, RetriableError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset, TopicPartition
from kconnect.runtime.kafka import refusal_of
from kconnect.runtime.pipeline.inflight import partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets
from kconnect.runtime.pipeline.retries import FIRST_PUT_PAUSE_S
from kconnect.runtime.pipeline.stages import Stage, StageError
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.plugins.code_location import CodeLocation, PluginCode
from kconnect.runtime.storage.offset_topic import encode_key, encode_value
from kconnect.testing.connector_run import TaskStages
from kconnect.testing.memory_log import MemoryRecord
from kconnect.testing.plugin_calls import LateCallError, PluginCall, PluginCalls, PluginFailure, explained, failure_of
from kconnect.testing.record_view import bytes_view, record_view
from kconnect.testing.sink_harness import SinkHarness
from kconnect.testing.sink_task_run import SinkTaskRun
from kconnect.testing.source_harness import SourceHarness, SourceTaskRun
from kconnect.testing.watchdog import Watchdog

# How the settings call these stages
_CONVERTERS = {
    Stage.KEY_CONVERTER: "key.converter",
    Stage.VALUE_CONVERTER: "value.converter",
    Stage.HEADER_CONVERTER: "header.converter",
}
# Java's lead of every error of a converter: the stage is named already
_NO_NEWS = re.compile(r"^DataError: Converting byte\[\] to Kafka Connect data failed due to serialization error:\s*")
# A source that has nothing yet is asked again after this.
_IDLE_S = 0.005


@dataclass(frozen=True, slots=True)
class StageView:
    """What a record was after one stage; `view` is plain data, None when the stage dropped it."""

    stage: str
    view: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Which stage and plugin failed, with what; `tolerated` when `errors.tolerance=all` lets the task go on.

    `place` is the line of the plugin's own code, None where there is none; `attempts` counts calls that all raised.
    """

    stage: str
    plugin: str
    error: BaseException
    tolerated: bool
    place: CodeLocation | None = None
    attempts: int = 1

    @property
    def why(self) -> str:
        """The error, and behind it what caused it first."""
        root = self.error
        while root.__cause__ is not None:
            root = root.__cause__
        text = f"{type(self.error).__name__}: {self.error}".strip().rstrip(":")
        reason = (root.strerror if isinstance(root, OSError) else None) or str(root)
        return text if root is self.error or reason in text else f"{text}: {type(root).__name__}: {root}"

    def __str__(self) -> str:
        times = f" {pluralize(self.attempts, 'time')}" if self.attempts > 1 else ""
        at = f", at {self.place}" if self.place is not None else ""
        return f"{self.stage} failed{times} ({self.plugin}): {_NO_NEWS.sub('', self.why)}{at}"

    @property
    def hint(self) -> str | None:
        """What the error itself says can be done; None when it says nothing."""
        return getattr(self.error, "hint", None)


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
"""Called with each record once it is finished."""
Misspelt = Callable[[str], None]
"""Called with each misspelt setting and its likely correction, before anything runs."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How a trial went: records shown, calls that raised RetriableError, and the last of those errors."""

    count: int
    retries: int = 0
    last_retriable: PluginFailure | None = None
    offset_updates: Sequence[ConnectorOffset] = ()
    """What update_offsets() made of the offsets, of a task that overrides it; empty when it changed nothing."""
    late_poll: str | None = None
    """Where poll() is, when it gave records earlier and had not returned at the timeout."""


def is_source(config: Mapping[str, str], plugin_path: str | None) -> bool:
    """Whether the config is a source's. Errors: ConfigError for a class that does not exist."""
    plugins = PluginRegistry.load(plugin_path)
    return issubclass(plugins.connector_class(config.get("connector.class", "")), SourceConnector)


def try_source(
    config: Mapping[str, str],
    worker: Mapping[str, str],
    *,
    limit: int,
    timeout_s: float,
    show: Passage,
    warn: Misspelt | None = None,
) -> Trial:
    """Poll until `limit` records were shown or the time is over.

    Ends after the first record that fails and is not tolerated. Threads: plugins, `show` and `warn` are called on a
    thread of their own. Errors: ConfigError; PluginFailure for what the author's code raises, also when poll() raised
    nothing but RetriableError; LateCallError when it does not return.
    """
    harness = _TracedSource(config, worker, limit, show, warn)
    watch = Watchdog(harness.calls, timeout_s)

    def steps() -> None:
        harness.start()
        deadline = watch.allow("poll", timeout_s)
        while harness.count < limit and not harness.has_failed and time.monotonic() < deadline:
            if not harness.poll_once():
                time.sleep(_IDLE_S)
        harness.ask_for_offsets()

    try:
        watch.run(lambda: to_the_end(harness, harness.calls, steps), harness.cut_short)
    except LateCallError as late:
        if late.call.method != "poll" or not harness.count:
            raise
        return Trial(harness.count, harness.retries, harness.last_retriable, late_poll=str(late))
    if not harness.count and harness.last_retriable is not None:
        raise _only_retried(harness.retries, harness.last_retriable)
    return Trial(harness.count, harness.retries, harness.last_retriable, harness.offset_updates)


def try_sink(
    config: Mapping[str, str],
    worker: Mapping[str, str],
    records: Iterable[InputRecord],
    *,
    limit: int,
    timeout_s: float,
    show: Passage,
    warn: Misspelt | None = None,
) -> Trial:
    """Put records one by one, then flush. Ends and raises as `try_source`.

    A put() that raises RetriableError is called again, with the worker's pauses, for `timeout_s`. A record that the
    task refuses only as it flushes is shown a second time.
    """
    harness = _TracedSink(config, worker, timeout_s, warn)
    watch = Watchdog(harness.calls, timeout_s)
    seen = [0]

    def steps() -> None:
        harness.start()
        for number, given in zip(range(1, limit + 1), records, strict=False):
            tried = _TracedPut(harness, number).run(given)
            seen[0] = number
            show(tried)
            if tried.failure is not None and not tried.failure.tolerated:
                return
        reported = len(harness.errant)
        harness.commit(is_last=True)
        for errant in harness.errant[reported:]:
            if isinstance(errant.record, SinkRecord):
                show(harness.refused_late(errant.record, errant.error))

    watch.run(lambda: to_the_end(harness, harness.calls, steps), harness.cut_short)
    return Trial(seen[0], harness.retries, harness.last_retriable)


def under_own_name(config: Mapping[str, str]) -> dict[str, str]:
    """The config of a sink that is tried. One that keeps offsets with its data must not take these for the connector's
    own: it would leave out the records that the connector is given with the same offsets.
    """
    return {**config, "name": f"{config.get('name', 'sink')}-try-{secrets.token_hex(4)}"}


def to_the_end(harness: SourceHarness | SinkHarness, calls: PluginCalls, steps: Callable[[], None]) -> None:
    """The steps, then the end of the plugins; what they raise names the place in the author's code."""
    try:
        try:
            steps()
        except BaseException:
            harness.crash_after_error()
            raise
        harness.crash()
    except BaseException as error:
        explanation = explained(calls, error)
        if explanation is error:
            raise
        raise explanation from error


def _only_retried(times: int, last: PluginFailure) -> PluginFailure:
    """No records: how often poll() raised RetriableError, and the last one."""
    often = pluralize(times, "time")
    failure = PluginFailure(
        f"No records: poll() raised RetriableError {often}. {last}",
        "poll",
        hint="poll is called again after each; --timeout SECONDS goes on longer. --verbose shows the whole trace.",
    )
    failure.__cause__ = last.__cause__ or last
    return failure


class _TracedSource(SourceHarness):
    """The harness, with each record's way shown."""

    def __init__(
        self, config: Mapping[str, str], worker: Mapping[str, str], limit: int, show: Passage, warn: Misspelt | None
    ) -> None:
        super().__init__(config["connector.class"], config, worker=worker)
        self._run.warn_unknown = warn
        self.calls = self._run.calls
        self.cut_short = self._run.end_waits
        self.retries = 0
        self.last_retriable: PluginFailure | None = None
        self.count = 0
        self.has_failed = False
        self.offset_updates: list[ConnectorOffset] = []
        self._limit = limit
        self._show = show

    def _retried(self, task: SourceTaskRun, error: RetriableError) -> None:
        self.retries += 1
        self.last_retriable = failure_of(PluginCall(type(task.task), "poll"), error)
        self.last_retriable.__cause__ = error

    def _deliver(self, task: Any, polled: Any, records: list[SourceRecord]) -> None:
        for record in records:
            if self.count >= self._limit or self.has_failed:
                return
            self.count += 1
            tried = TriedRecord(self.count, [StageView("connector", record_view(record))])
            self._pass_on(task, record, tried)
            self._check_offset(task, record, tried)
            if record.source_partition is not None and (tried.failure is None or tried.failure.tolerated):
                offset = ConnectorOffset(record.source_partition, record.source_offset)
                task.uncommitted[partition_key(record.source_partition)] = offset
            self.has_failed = tried.failure is not None and not tried.failure.tolerated
            self._show(tried)

    def report_errant(self, record: SourceRecord, error: BaseException) -> None:
        """Also shown, where the task goes on: what no record came of would not be seen otherwise."""
        super().report_errant(record, error)
        if self.count < self._limit:
            self.count += 1
            failure = Failure("poll", _name(self.task), error, tolerated=True)
            self._show(TriedRecord(self.count, [StageView("connector", record_view(record))], failure=failure))

    def ask_for_offsets(self) -> None:
        """What the tasks make of the offsets of the shown records. Errors: DataError; what the hook raises."""
        for task in self._tasks:
            if task.updates_offsets and not self.has_failed:
                given = list(task.uncommitted.values())
                with self._run.calls.calling(task.task, "update_offsets"):
                    updated = updated_offsets(self._name, task.task.update_offsets, given)
                self.offset_updates += [offset for offset in updated if offset not in given]

    def _pass_on(self, task: SourceTaskRun, record: SourceRecord, tried: TriedRecord) -> None:
        stages = task.stages
        for kept in _through_transforms(stages, record, tried):
            made = _attempt(stages, tried, partial(stages.converters.to_kafka_record, kept))
            if made is None:
                return
            tried.stages.append(
                StageView("bytes", bytes_view(made.topic, made.partition, made.key, made.value, made.headers))
            )
            if refusal := refusal_of(made):
                tried.failure = Failure("producer", _name(task.task), refusal, self._is_tolerated(refusal))
                return
            tried.outcome = "written"

    def _check_offset(self, task: SourceTaskRun, record: SourceRecord, tried: TriedRecord) -> None:
        """A record whose offset cannot be stored is re-sent after each restart: it counts as failed."""
        if tried.failure is not None and not tried.failure.tolerated:
            return
        try:
            encode_key(self._name, record.source_partition)
            encode_value(record.source_offset)
        except Exception as error:  # whatever the author put there
            code = PluginCode.of(type(task.task))
            tried.outcome = "failed"
            tried.failure = Failure(
                "offset", _name(task.task), _unstorable(record, error), False, code.start_of(type(task.task), "poll")
            )


def _unstorable(record: SourceRecord, error: Exception) -> DataError:
    failure = DataError(
        f"its offset cannot be stored: {str(error) or type(error).__name__} "
        f"(source partition {record.source_partition!r}, source offset {record.source_offset!r})"
    )
    failure.__cause__ = error
    return failure


class _TracedSink(SinkHarness):
    """The harness, with puts retried with the worker's pauses until the timeout."""

    def __init__(
        self, config: Mapping[str, str], worker: Mapping[str, str], timeout_s: float, warn: Misspelt | None
    ) -> None:
        super().__init__(config["connector.class"], under_own_name(config), worker=worker)
        self._run.warn_unknown = warn
        self.calls = self._run.calls
        self.cut_short = self._run.end_waits
        self.numbers: dict[tuple[TopicPartition, int], int] = {}
        """The number of each record, by where it was read from."""
        self.attempts = 0
        """How often the last put was called."""
        self.retries = 0
        self.last_retriable: PluginFailure | None = None
        self._timeout_s = timeout_s

    def refused_late(self, record: SinkRecord, error: BaseException) -> TriedRecord:
        """A record of which the task said only as it flushed that it cannot be written."""
        at = (TopicPartition(record.original_topic, record.original_kafka_partition), record.original_kafka_offset)
        task = self._tasks[0].task
        failure = Failure("flush", _name(task), error, True, PluginCode.of(type(task)).innermost(error))
        return TriedRecord(self.numbers.get(at, 0), [], "failed", failure)

    def put_one(self, task: SinkTaskRun, record: Any) -> None:
        """Put until the task accepts it. Errors: the last RetriableError at the timeout; any other at once."""
        deadline = time.monotonic() + self._timeout_s
        pauses = self._run.pauses(FIRST_PUT_PAUSE_S)
        for attempt in itertools.count(1):
            self.attempts = attempt
            try:
                return task.put([record])
            except RetriableError as error:
                asked_s = task.context.take_timeout_s()
                pause_s = pauses.next_s()
                wished_s = error.retry_after_s if asked_s is None else asked_s
                pause_s = pause_s if wished_s is None else wished_s
                if time.monotonic() + pause_s > deadline:
                    raise
                self.retries += 1
                self.last_retriable = failure_of(PluginCall(type(task.task), "put"), error)
                self._run.wait(pause_s)


class _TracedPut:
    """One record's way into a sink."""

    def __init__(self, harness: _TracedSink, number: int) -> None:
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
        self._harness.numbers[record.place, record.offset] = tried.number
        task = self._harness.task_of(record)
        made = self._convert(task, record)
        if made is not None:
            tried.stages.append(StageView("converters", record_view(made)))
            for kept in _through_transforms(task.stages, made, tried):
                self._put(task, kept)
        task.moved({record.place: record.offset + 1})
        return tried

    def _convert(self, task: SinkTaskRun, record: MemoryRecord) -> Any:  # SinkRecord, or None when it failed
        return _attempt(task.stages, self._tried, lambda: task.stages.converters.to_connect_record(record.fetched()))

    def _put(self, task: SinkTaskRun, kept: ConnectRecord) -> None:
        tried = self._tried
        reported = len(self._harness.errant)
        try:
            self._harness.put_one(task, kept)
        except Exception as error:  # the plugin's: shown with its place
            place = PluginCode.of(type(task.task)).innermost(error)
            tried.failure = Failure("put", _name(task.task), error, False, place, self._harness.attempts)
            return
        if len(self._harness.errant) > reported:
            tried.failure = Failure("put", _name(task.task), self._harness.errant[-1].error, tolerated=True)
            return
        tried.stages.append(StageView("put", record_view(kept)))
        tried.outcome = "put"


def _through_transforms(stages: TaskStages, record: ConnectRecord, tried: TriedRecord) -> Sequence[ConnectRecord]:
    """The record after all transforms, one by one; nothing when one dropped it or failed, which `tried` then tells.

    Several where a transformation makes several of one.
    """
    current: list[ConnectRecord] = [record]
    for name, step in zip(stages.names, stages.steps, strict=True):
        chain = TransformChain([step], stages.tolerance)
        after = _attempt(stages, tried, partial(chain.apply_records, current), f"transform {name}")
        if not after:
            if tried.failure is None:
                tried.stages.append(StageView(f"transform {name}", None))
                tried.outcome = "dropped"
            return ()
        tried.stages += [StageView(f"transform {name}", record_view(one)) for one in after]
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
    place = PluginCode.of(failure.plugin).innermost(failure.error)
    return Failure(stage, plugin, failure.error, tolerated, place)


def _name(plugin: object) -> str:
    return f"{type(plugin).__module__}.{type(plugin).__qualname__}"
