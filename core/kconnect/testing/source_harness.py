"""SourceHarness: a source connector and its tasks in this process, one step at a time, into a log in memory.

By the worker's calls, context, conversion and offsets, but not by its SourceLoop: that polls on until it is stopped,
commits on a timer, and goes on after a hook that raises. A test decides when to poll and to commit, and is given each
error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from kconnect.api import (
    PluginMetrics,
    RecordMetadata,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from kconnect.clock import Clock, Pauses, SystemClock
from kconnect.errors import ConnectError, DataError, RetriableError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset
from kconnect.runtime.kafka import KafkaRecord, refusal_of
from kconnect.runtime.pipeline.health import HealthSettings, TaskHealth
from kconnect.runtime.pipeline.inflight import InFlight, partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets, updates_offsets
from kconnect.runtime.pipeline.plugin_parts import make_task
from kconnect.runtime.pipeline.polled import Polled, SourceConversion, checked_poll
from kconnect.runtime.pipeline.retries import FIRST_POLL_PAUSE_S
from kconnect.runtime.pipeline.source import SourceCalls, SourceContext
from kconnect.runtime.storage.offset_store import MemoryOffsetStore
from kconnect.runtime.storage.offset_values import (
    CommittedOffsets,
    commit_source_offsets,
    list_source_offsets,
    read_source_offsets,
)
from kconnect.testing.connector_run import ConnectorRun, TaskStages
from kconnect.testing.harness import Harness
from kconnect.testing.injected_failures import InjectedFailures
from kconnect.testing.memory_log import MemoryLog, MemoryRecord

# A poll() that gives nothing is asked again after this, so that threads of the task's own get their turn.
_IDLE_S = 0.001


class SourceTaskRun:
    """One task and what belongs to it."""

    def __init__(self, calls: SourceCalls, stages: TaskStages, pauses: Pauses) -> None:
        self.calls = calls
        self.task = task = calls.task
        self.config = calls.config
        self.stages = stages
        self.pauses = pauses
        """Paces a poll() that fails."""
        health = TaskHealth(HealthSettings(), 0.0, 0.0)
        self.conversion = SourceConversion(
            task, stages.transforms, stages.converters, health, sends_before_failure=True
        )
        self.inflight = InFlight()
        self.uncommitted: dict[frozenset[tuple[str, Any]], ConnectorOffset] = {}
        self.updates_offsets = updates_offsets(type(task))
        self.is_whole = True
        """Whether everything that was polled is in the log."""


class ErrantSourceRecord(NamedTuple):
    """A record that a task gave up, and why."""

    record: SourceRecord
    error: BaseException


class SourceHarness(Harness[SourceTaskRun]):
    """Runs a source connector: validates, starts, polls, transforms, converts, "produces" and commits.

        with SourceHarness(MyConnector, {"topic": "t"}) as source:
            assert [record.value for record in source.poll(3)] == ["a", "b", "c"]
            source.commit()
            source.restart()

    All plugin calls happen on the caller's thread, in the order of the worker's loop; errors of plugins come to the
    caller as they are. Offsets go through the codec of the offsets file, so what cannot be stored fails here too.
    With `clock=ManualClock()` every `context.wait` returns at once. Converters are JSON without schemas unless
    `config` or `worker` name others.
    States: constructed -> start -> stop; it is a context manager.
    """

    def __init__(
        self,
        connector: type[SourceConnector] | str,
        config: Mapping[str, str] | None = None,
        *,
        worker: Mapping[str, str] | None = None,
        offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = (),
        log: MemoryLog | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.log = log if log is not None else MemoryLog()
        """What reached "Kafka"."""
        super().__init__(ConnectorRun(connector, config or {}, worker, self.clock))
        self._store = MemoryOffsetStore()
        self._next_task = 0
        self._failures = InjectedFailures(("poll", "produce", "commit", "read_offsets"))
        self.errant: list[ErrantSourceRecord] = []
        """What the tasks reported as errant."""
        if offsets:
            pairs = [ConnectorOffset(partition, offset) for partition, offset in offsets]
            commit_source_offsets(self._store, self._name, pairs)

    # --- life ---

    def start(self) -> Self:
        """Check the settings, start the connector and its tasks. Errors: ConfigError; what the plugins raise."""
        self._run.check(SourceConnector)
        try:
            self._start_tasks(self._run.start(_ConnectorContext(self)))
        except BaseException:
            self.crash_after_error()
            raise
        return self

    def stop(self) -> None:
        """Commit, then stop the tasks and the connector."""
        if self._tasks:
            self.commit()
        self._end()

    def crash(self) -> None:
        """End without a commit, as after a kill; the plugins are stopped all the same, to free what they hold."""
        self._end()

    # --- steps ---

    def poll(self, at_least: int = 1, within_s: float = 5.0) -> list[SourceRecord]:
        """Poll the tasks in turn until so many records came; gives all that came, as the task gave them.

        What they became in Kafka is in `log`. Errors: TimedOutError with what did come; StageError of a transform or
        converter; what poll() raises, but for RetriableError, after which it is asked again.
        """
        deadline = time.monotonic() + within_s
        found: list[SourceRecord] = []
        while len(found) < at_least:
            records = self.poll_once()
            found += records
            if not records and len(found) < at_least:
                if time.monotonic() > deadline:
                    raise TimedOutError(
                        f"The source gave {len(found)} of {pluralize(at_least, 'record')} within {within_s:g} s"
                    )
                time.sleep(_IDLE_S)
        return found

    def poll_once(self) -> list[SourceRecord]:
        """One poll() of the task whose turn it is; an empty list when it gave nothing or raised RetriableError."""
        self._run.raise_failure()
        if self._run.is_reconfiguration_wanted:
            self.reconfigure()
        if not self._tasks:
            return []
        task = self._tasks[self._next_task % len(self._tasks)]
        self._next_task += 1
        try:
            self._failures.raise_if_due("poll")
            task.is_whole = False
            given = task.calls.poll()
        except RetriableError as error:
            task.is_whole = True
            self._retried(task, error)
            pause_s = task.pauses.next_s()
            self._run.wait(pause_s if error.retry_after_s is None else error.retry_after_s)
            return []
        task.pauses.reset()
        polled = checked_poll(task.task, given)
        records = [] if polled is None else [record for part in polled.parts for record in part.records()]
        if polled is not None:
            self._deliver(task, polled, records)
        task.is_whole = True
        return records

    def commit(self) -> list[ConnectorOffset]:
        """Commit the offsets of what Kafka has, then the tasks' hook of that name; gives what was committed just now.

        Tasks that override update_offsets() are asked before, as the worker does.
        An injected failure is as the worker takes it: nothing is committed, the next commit makes up for it.
        """
        for task in self._tasks:
            for offset in task.inflight.committable():
                task.uncommitted[partition_key(offset.partition)] = offset
            if task.updates_offsets and task.is_whole:
                self._update_offsets(task)
        due = [offset for task in self._tasks for offset in task.uncommitted.values()]
        try:
            self._failures.raise_if_due("commit")
        except ConnectError:
            return []
        commit_source_offsets(self._store, self._name, due)
        for task in self._tasks:
            if task.uncommitted:
                task.uncommitted.clear()
                with self._run.calls.calling(task.task, "commit"):
                    task.task.commit()
        return due

    def reconfigure(self) -> None:
        """Ask the connector for new task configs; replace the tasks if they differ."""
        self._run.is_reconfiguration_wanted = False
        configs = self._run.task_configs()
        if configs == [task.config for task in self._tasks]:
            return
        self.commit()
        self._end_tasks()
        self._start_tasks(configs)

    def fail(self, step: str, error: BaseException, *, times: int = 1, after: int = 0) -> None:
        """Have a coming step raise: "poll", "produce" (Kafka refuses a record), "commit", "read_offsets".

        `after` calls go well first, then `times` calls raise.
        """
        self._failures.plan(step, error, times=times, after=after)

    # --- results ---

    @property
    def offsets(self) -> list[ConnectorOffset]:
        """The offsets that are committed."""
        return list_source_offsets(self._store, self._name)

    def offset(self, **partition: Any) -> Mapping[str, Any] | None:
        """The committed offset of one source partition: `source.offset(filename="a.txt")`."""
        return read_source_offsets(self._store, self._name, [partition])[0]

    def written(self, topic: str | None = None) -> list[MemoryRecord]:
        """The records that reached "Kafka", of one topic or of all."""
        return self.log.records(topic)

    # --- inside ---

    def report_errant(self, record: SourceRecord, error: BaseException) -> None:
        """What `context.report_errant` does: kept in `errant`. Errors: the error, unless errors.tolerance=all."""
        self.errant.append(ErrantSourceRecord(record, error))
        if not self._run.settings.tolerates_errors:
            raise error

    def _update_offsets(self, task: SourceTaskRun) -> None:
        with self._run.calls.calling(task.task, "update_offsets"):
            given = list(task.uncommitted.values())
            for offset in updated_offsets(self._name, task.task.update_offsets, given):
                task.uncommitted[partition_key(offset.partition)] = offset

    @property
    def _name(self) -> str:
        return self._run.config["name"]

    def _read_offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        self._failures.raise_if_due("read_offsets")
        return read_source_offsets(self._store, self._name, partitions)

    def _start_tasks(self, configs: Sequence[Mapping[str, str]]) -> None:
        for config in configs:
            made = make_task(self._run.config, self._run.plugins, SourceTask)  # type: ignore[type-abstract]  # looks for a subclass
            stages, offsets = self._run.stages(), CommittedOffsets(self._read_offsets)
            context = SourceContext(
                self._run, offsets, partial(dict, config), stages.metrics, give_up=self.report_errant
            )
            calls = SourceCalls(made, config, context, self._run.calls.calling)
            self._tasks.append(SourceTaskRun(calls, stages, self._run.pauses(FIRST_POLL_PAUSE_S)))
            calls.start()

    def _end(self) -> None:
        self._run.end_waits()
        try:
            self._end_tasks()
        finally:
            self._run.stop()

    def _end_tasks(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            try:
                task.calls.stop()
            finally:
                task.stages.close()

    def _retried(self, task: SourceTaskRun, error: RetriableError) -> None:
        """A poll() raised RetriableError, and will be called again."""

    def _deliver(self, task: SourceTaskRun, polled: Polled, records: list[SourceRecord]) -> None:
        """Transforms, converters, log; the offsets of what is sent together are committable once the log has it."""
        for part in polled.parts:
            for ready in part.units(task.conversion):
                unit = task.inflight.submit(ready.positions)
                made = ready.records or [record for batch in ready.batches for record in batch.records()]
                written = [None if record is None else self._produce(record) for record in made]
                unit.ack()
                for record, at in zip(ready.tokens or (), written, strict=False):
                    if record is not None:
                        self._tell_of(task, record, at)

    def _tell_of(self, task: SourceTaskRun, record: SourceRecord, written: MemoryRecord | None) -> None:
        place = None
        if written is not None:
            sizes = (-1 if data is None else len(data) for data in (written.key, written.value))
            place = RecordMetadata(written.topic, written.partition, written.offset, written.timestamp, *sizes)
        with self._run.calls.calling(task.task, "commit_record"):
            task.task.commit_record(record, place)

    def _produce(self, record: KafkaRecord) -> MemoryRecord | None:
        """Append to the log; None when the record was refused, and `errors.tolerance=all` says to go on."""
        refusal = refusal_of(record)
        try:
            self._failures.raise_if_due("produce")
            if refusal is not None:
                raise refusal
        except ConnectError as error:
            if self._is_tolerated(error):
                return None
            raise
        return self.log.append(
            record.topic,
            record.value,
            key=record.key,
            partition=record.partition or 0,
            timestamp=self.clock.time_ms() if record.timestamp is None else record.timestamp,
            headers=record.headers or (),
        )

    def _is_tolerated(self, refusal: ConnectError) -> bool:
        """Whether `errors.tolerance=all` goes on behind a record that the producer refuses.

        Not behind what Java's ProducerRecord refuses, a DataError: its task fails before the producer has the record.
        """
        return self._run.settings.tolerates_errors and not isinstance(refusal, DataError)


class _ConnectorContext:
    """Implements kconnect.api.SourceConnectorContext."""

    def __init__(self, harness: SourceHarness) -> None:
        self._harness = harness

    def request_task_reconfiguration(self) -> None:
        self._harness._run.request_task_reconfiguration()

    def raise_error(self, error: BaseException) -> None:
        self._harness._run.raise_error(error)

    def offset_storage_reader(self) -> CommittedOffsets:
        return CommittedOffsets(self._harness._read_offsets)

    def plugin_metrics(self) -> PluginMetrics:
        return self._harness._run.plugin_metrics()
