"""SinkHarness: a sink connector and its tasks in this process, fed from topics in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

from kconnect.api import ErrantRecordsError, Schema, SinkConnector, SinkRecord, SinkTask, TimestampType
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError, RetriableError
from kconnect.logs.wording import pluralize
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.plugin_parts import make_task
from kconnect.runtime.pipeline.retries import FIRST_PUT_PAUSE_S
from kconnect.testing.connector_run import ConnectorRun
from kconnect.testing.errant_records import ErrantLog, ErrantRecord, TaskReporter
from kconnect.testing.harness import Harness
from kconnect.testing.injected_failures import InjectedFailures
from kconnect.testing.memory_log import MemoryLog, MemoryRecord
from kconnect.testing.sink_task_run import SinkTaskRun


class SinkHarness(Harness[SinkTaskRun]):
    """Runs a sink connector: validates, starts, converts, transforms, puts, flushes, commits, rebalances.

        with SinkHarness(MySink, {"topics": "t"}) as sink:
            sink.put({"id": 1}, {"id": 2})
            assert sink.commit() == {TopicPartition("t", 0): 2}
            sink.crash()
            sink.start()      # what was put since the last commit is re-sent

    Records live in `log`; tasks read them from the committed offsets, so that a restart, a crash or a rewind delivers
    again what Connect would. All plugin calls happen on the caller's thread; errors of plugins come to the caller as
    they are. With `clock=ManualClock()` waits return at once. Converters are JSON without schemas unless `config` or
    `worker` name others. Partitions are dealt to the tasks in turn.
    States: constructed -> start -> stop or crash -> start ..; it is a context manager.
    """

    def __init__(
        self,
        connector: type[SinkConnector] | str,
        config: Mapping[str, str] | None = None,
        *,
        worker: Mapping[str, str] | None = None,
        partitions: Collection[TopicPartition] | None = None,
        put_retries: int = 0,
        has_reporter: bool = True,
        log: MemoryLog | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.log = log if log is not None else MemoryLog()
        """The topics it reads."""
        self.committed: dict[TopicPartition, int] = {}
        """Offsets of the next records to read, as committed."""
        super().__init__(ConnectorRun(connector, config or {}, worker, self.clock))
        self._put_retries = put_retries
        self._has_reporter = has_reporter
        self._errant = ErrantLog()
        self._failures = InjectedFailures(("put", "flush", "commit"))
        self._partitions = sorted(partitions) if partitions is not None else self._first_partitions()

    # --- life ---

    def start(self) -> Self:
        """Check the settings, start the connector and its tasks, open the partitions. Errors: ConfigError; plugins'."""
        self._run.check(SinkConnector)
        try:
            for config in self._run.start(self._run):
                task = make_task(self._run.config, self._run.plugins, SinkTask)  # type: ignore[type-abstract]  # looks for a subclass
                stages = self._run.stages([self._errant])
                running = SinkTaskRun(task, config, stages, self._reporter, self._run.calls)
                self._tasks.append(running)
                running.start()
            self._deal()
        except BaseException:
            self.crash_after_error()
            raise
        return self

    def stop(self) -> None:
        """Flush and commit, close the partitions, stop the tasks and the connector."""
        try:
            for task in self._tasks:
                task.give_up(task.assignment, self._committer())
        finally:
            self.crash()

    def crash(self) -> None:
        """End without flush, commit and close, as after a kill; stop() of the plugins is called all the same."""
        tasks, self._tasks = self._tasks, []
        try:
            for task in tasks:
                task.stop()
        finally:
            self._run.stop()

    # --- feeding ---

    def put(
        self,
        *values: Any,
        key: Any = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        topic: str | None = None,
        partition: int = 0,
    ) -> None:
        """Put values in Connect's form (dicts, Structs, text, None): through the transforms, no converter."""
        for value in values:
            self._append(self._record(value, key, schema, key_schema, topic, partition))
        self.deliver()

    def put_records(self, records: Iterable[SinkRecord]) -> None:
        """Records made by the caller, with keys, headers, timestamps; their offsets are given by the log."""
        for record in records:
            self._append(record)
        self.deliver()

    def put_bytes(
        self,
        *values: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        topic: str | None = None,
        partition: int = 0,
        timestamp: int | None = None,
    ) -> None:
        """Values as they are in Kafka: through the converters and the transforms, into put()."""
        for value in values:
            self.take_in(value, key=key, headers=headers, topic=topic, partition=partition, timestamp=timestamp)
        self.deliver()

    def take_in(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        topic: str | None = None,
        partition: int = 0,
        timestamp: int | None = None,
    ) -> MemoryRecord:
        """Append one record to the log and do no more: `deliver` puts it. Gives it with its offset."""
        place = TopicPartition(topic or self._topic, partition)
        self._add_partition(place)
        stamp = self.clock.time_ms() if timestamp is None else timestamp
        return self.log.append(place.topic, value, key=key, partition=partition, timestamp=stamp, headers=headers)

    def deliver(self) -> int:
        """Put everything that the tasks have not read; gives the number of records. With no records: put([]).

        Errors: what put() raises. RetriableError is tried again `put_retries` times, after the wait that the task or
        the worker asks for. After an error the records are still there: `deliver` puts them again.
        """
        self._run.raise_failure()
        count = 0
        for task in self._tasks:
            count += self._deliver_to(task)
        return count

    # --- offsets and partitions ---

    def commit(self, *, is_last: bool = False, is_end: bool = False) -> dict[TopicPartition, int]:
        """pre_commit (and so flush) of every task, then commit what it allows; gives what was committed just now.

        `is_last`: the task's `is_closing` says so. `is_end`: and its `is_ending`, as at the end of `df.write`.
        Errors: what flush raises; a RetriableError there makes the task read again from the last commit.
        """
        done: dict[TopicPartition, int] = {}
        for task in self._tasks:
            try:
                self._failures.raise_if_due("flush")
                wanted = self._pre_commit(task, is_last=is_last, is_end=is_end)
            except RetriableError:
                task.go_back(self.committed)
                raise
            done.update(self._committer()(wanted))
        return done

    def flush(self) -> dict[TopicPartition, int]:
        """The same as `commit`: in Connect, a flush is its first half."""
        return self.commit()

    def rebalance(self, partitions: Collection[TopicPartition]) -> None:
        """Assign these partitions to the tasks; revoked ones are flushed, committed and closed, new ones opened."""
        self._partitions = sorted(partitions)
        self._deal()

    def lose(self, *partitions: TopicPartition) -> None:
        """Take partitions away without a commit, as when a consumer was away too long."""
        self._partitions = [tp for tp in self._partitions if tp not in partitions]
        for task in self._tasks:
            task.close(task.assignment & set(partitions))

    def fail(self, step: str, error: BaseException, *, times: int = 1, after: int = 0) -> None:
        """Have a coming step raise: "put", "flush", "commit". `after` calls go well first, then `times` calls raise."""
        self._failures.plan(step, error, times=times, after=after)

    # --- results ---

    @property
    def errant(self) -> list[ErrantRecord]:
        """What was given up so far, by stages and by tasks."""
        return self._errant.records

    @property
    def assignment(self) -> list[set[TopicPartition]]:
        """The partitions of each task."""
        return [task.assignment for task in self._tasks]

    @property
    def is_commit_requested(self) -> bool:
        """Whether a task asked for a commit since the last one."""
        return any(task.context.is_commit_requested for task in self._tasks)

    # --- inside ---

    def _reporter(self) -> TaskReporter | None:
        tolerates = self._run.settings.tolerates_errors
        return TaskReporter(self._errant, tolerates_errors=tolerates) if self._has_reporter else None

    @property
    def _topic(self) -> str:
        topics = [name.strip() for name in self._run.config.get("topics", "").split(",") if name.strip()]
        return topics[0] if topics else "test"

    def _first_partitions(self) -> list[TopicPartition]:
        topics = [name.strip() for name in self._run.config.get("topics", "").split(",") if name.strip()]
        return sorted({*(TopicPartition(topic, 0) for topic in topics), *self.log.partitions()})

    def _add_partition(self, place: TopicPartition) -> None:
        if place not in self._partitions:
            self.rebalance([*self._partitions, place])

    def _record(
        self, value: Any, key: Any, schema: Schema | None, key_schema: Schema | None, topic: str | None, partition: int
    ) -> SinkRecord:
        return SinkRecord(
            topic or self._topic,
            partition,
            key_schema,
            key,
            schema,
            value,
            0,
            timestamp=self.clock.time_ms(),
            timestamp_type=TimestampType.CREATE_TIME,
        )

    def task_of(self, record: MemoryRecord) -> SinkTaskRun:
        """The task that reads the record's partition, with its stages. Errors: ConnectError when none does."""
        for task in self._tasks:
            if record.place in task.assignment:
                return task
        raise ConnectError(
            f"No task reads {record.place}: task_configs() of the connector gave {pluralize(len(self._tasks), 'task')}"
        )

    def _append(self, record: SinkRecord) -> MemoryRecord:
        place = TopicPartition(record.topic, record.kafka_partition or 0)
        self._add_partition(place)
        offset = self.log.end(place)
        kept = record.new_record(kafka_offset=offset, original_kafka_offset=offset)
        return self.log.append(place.topic, None, partition=place.partition, timestamp=kept.timestamp, connect=kept)

    def _deliver_to(self, task: SinkTaskRun) -> int:
        count = 0
        payloads, after = task.fetch(self.log)
        pauses = self._run.pauses(FIRST_PUT_PAUSE_S)
        for attempt in range(self._put_retries + 1):
            try:
                if not payloads:
                    self._put(task, [])
                while payloads:
                    self._put(task, payloads[0])
                    count += len(payloads.pop(0))
                break
            except ErrantRecordsError as error:
                return self._without(task, error)
            except RetriableError as error:
                if attempt == self._put_retries:
                    raise
                asked_s = task.context.take_timeout_s()
                wait_s = error.retry_after_s if asked_s is None else asked_s
                pause_s = pauses.next_s()
                self._run.wait(pause_s if wait_s is None else wait_s)
        task.moved(after)
        return count

    def _without(self, task: SinkTaskRun, error: ErrantRecordsError) -> int:
        """Deliver all since the last commit again, but for the records that the task named: they are given up."""
        reporter = TaskReporter(self._errant, tolerates_errors=self._run.settings.tolerates_errors)
        records = task.leave_out(error, self.log, self.committed)
        for record, cause in zip(records, error.errors.values(), strict=True):
            reporter.report(record, cause)
        return self._deliver_to(task)

    def _pre_commit(self, task: SinkTaskRun, *, is_last: bool, is_end: bool) -> Mapping[TopicPartition, int]:
        while True:
            try:
                return task.pre_commit(task.assignment, is_last=is_last, is_end=is_end)
            except ErrantRecordsError as error:
                self._without(task, error)

    def _put(self, task: SinkTaskRun, payload: Any) -> None:
        self._failures.raise_if_due("put")
        task.put(payload)

    def _committer(self) -> Any:
        def commit(wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            self._failures.raise_if_due("commit")
            news = {tp: offset for tp, offset in wanted.items() if self.committed.get(tp) != offset}
            self.committed.update(news)
            return news

        return commit

    def _deal(self) -> None:
        """Revoke partitions, then open new ones, task by task."""
        shares: list[set[TopicPartition]] = [set() for _ in self._tasks]
        for index, partition in enumerate(self._partitions):
            if shares:
                shares[index % len(shares)].add(partition)
        for task, share in zip(self._tasks, shares, strict=True):
            task.give_up(task.assignment - share, self._committer())
        for task, share in zip(self._tasks, shares, strict=True):
            task.take(share - task.assignment, self.committed)
